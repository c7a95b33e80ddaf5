//! `SHOW` of a setting.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use nyala_sql::error::Result;
use nyala_sql::statement::Statement;

use crate::query::answer::Answer;
use crate::query::columns::{batch, text, texts};
use crate::query::execution::Execution;
use crate::session::{Settings, unknown_setting};

/// The name in `SHOW name`, if the statement is of that form.
pub fn name(statement: &Statement) -> Option<String> {
    match statement.ast()? {
        SqlStatement::ShowVariable { variable } => {
            let parts: Vec<&str> = variable.iter().map(|ident| ident.value.as_str()).collect();
            Some(parts.join(".").to_ascii_lowercase())
        }
        _ => None,
    }
}

/// The name of all settings together.
const ALL: &str = "all";

/// Columns of `SHOW name`.
pub fn schema(name: &str) -> SchemaRef {
    match name {
        ALL => settings_schema(),
        name => Arc::new(Schema::new(vec![text(name)])),
    }
}

/// The answer to `SHOW name`.
///
/// # Errors
/// There is no such setting.
pub fn run(name: &str, execution: Execution<'_>) -> Result<Answer> {
    if name == ALL {
        let all = all_settings(&execution.settings)?;
        return Ok(execution.rows(all));
    }
    let value = execution.settings.get(name).ok_or_else(|| unknown_setting(name))?;
    execution.columns(schema(name), vec![texts(std::iter::once(Some(value.as_str())))])
}

/// Columns of all settings.
pub fn settings_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![text("name"), text("value"), text("description")]))
}

/// All settings of a session, by name.
pub fn all_settings(settings: &Settings) -> Result<RecordBatch> {
    let all = settings.all();
    let columns: Vec<ArrayRef> = vec![
        texts(all.iter().map(|setting| Some(setting.name))),
        texts(all.iter().map(|setting| Some(setting.value.as_str()))),
        texts(all.iter().map(|setting| Some(setting.description))),
    ];
    batch(settings_schema(), columns)
}
