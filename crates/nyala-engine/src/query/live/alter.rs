//! `ALTER TABLE` of a live table.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    AlterTable, AlterTableOperation, ColumnDef, ColumnOption, Ident, Statement as SqlStatement,
};
use nyala_catalog::Change;
use nyala_model::{QualifiedName, TableEntry};
use nyala_storage::oplog::{Alteration, LiveTable};

use super::blocking;
use crate::error::{ErrorKind, QueryError, Result};
use crate::query::answer::{Answer, Completion};
use crate::query::ddl::name_of;
use crate::query::engine::Engine;
use crate::query::planning;
use crate::scan::encode_schema;
use crate::session::Settings;

const TAG: &str = "ALTER TABLE";

/// Changes columns, one after the other: first in the store, then in the catalog.
pub(super) async fn table(engine: &Arc<Engine>, alter: &AlterTable, settings: &Settings) -> Result<Answer> {
    let name = name_of(&alter.name, settings.schema())?;
    let _one_at_a_time = engine.stores_change.lock().await;
    if alter.if_exists && !engine.context().snapshot().tables.contains_key(&name) {
        return Ok(Completion::of(TAG));
    }
    let table = super::find(engine, &name)?;
    let live = table.opened().await?;
    let mut changes = Vec::new();
    for operation in &alter.operations {
        changes.extend(alterations(engine, operation, &live, settings).await?);
    }
    if changes.is_empty() {
        return Ok(Completion::of(TAG));
    }
    check_unread(engine, &name, changes.iter().all(|change| matches!(change, Alteration::AddColumn(_))))?;
    let altered = live.clone();
    let done = blocking(move || {
        changes.into_iter().try_for_each(|change| altered.alter(change).map(|_| ()))?;
        Ok(())
    });
    let done = done.await;
    // Also when one of several failed: the catalog says what the table is.
    record(engine, table.entry(), &live, &alter.to_string()).await?;
    done?;
    Ok(Completion::of(TAG))
}

/// A cube names the columns it reads, so that further ones make no difference to it; but a natural join is by all
/// columns of one name.
fn check_unread(engine: &Engine, name: &QualifiedName, only_added: bool) -> Result<()> {
    let snapshot = engine.context();
    let mut cubes = snapshot.snapshot().cubes.values().map(|cube| (cube, &cube.definition));
    let reads = cubes.find(|(_, definition)| {
        let indifferent = only_added && !definition.select.contains("NATURAL");
        definition.sources.contains(name) && !indifferent
    });
    match reads.map(|(cube, _)| cube) {
        Some(cube) => {
            Err(QueryError::new(ErrorKind::InUse, format!("table `{name}` is used by cube `{}`", cube.name))
                .hint("drop the cube first"))
        }
        None => Ok(()),
    }
}

async fn record(engine: &Engine, entry: &TableEntry, live: &LiveTable, statement: &str) -> Result<()> {
    let change = Change::AlterTable {
        table: entry.id,
        schema_ipc: encode_schema(&live.schema()),
        definition: format!("{}; {statement}", entry.definition),
    };
    engine.catalog().commit(change).await?;
    engine.refresh().await
}

async fn alterations(
    engine: &Engine,
    operation: &AlterTableOperation,
    live: &LiveTable,
    settings: &Settings,
) -> Result<Vec<Alteration>> {
    let schema = live.schema();
    let exists = |name: &str| schema.index_of(name).is_ok();
    match operation {
        AlterTableOperation::AddColumn { if_not_exists, column_def, column_position: None, .. } => {
            let name = column_name(&column_def.name);
            match (exists(&name), if_not_exists) {
                (true, true) => Ok(Vec::new()),
                (true, false) => {
                    let message = format!("column `{name}` already exists");
                    Err(QueryError::new(ErrorKind::DuplicateObject, message))
                }
                (false, _) => {
                    let data_type = column_type(engine, column_def, settings).await?;
                    Ok(vec![Alteration::AddColumn(Field::new(name, data_type, true))])
                }
            }
        }
        AlterTableOperation::DropColumn { column_names, if_exists, .. } => {
            let names = column_names.iter().map(column_name);
            let kept = names.filter(|name| !if_exists || exists(name));
            kept.map(|name| known(&name, exists(&name)).map(|()| Alteration::DropColumn(name))).collect()
        }
        AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
            let (from, to) = (column_name(old_column_name), column_name(new_column_name));
            known(&from, exists(&from))?;
            if live.key().iter().any(|at| schema.field(*at).name() == &from) {
                let message = format!("column `{from}` is part of the primary key and cannot be renamed");
                return Err(QueryError::new(ErrorKind::Unsupported, message));
            }
            Ok(vec![Alteration::RenameColumn { from, to }])
        }
        other => {
            Err(QueryError::new(ErrorKind::Unsupported, format!("`ALTER TABLE … {other}` is not supported"))
                .hint("columns can be added, dropped and renamed"))
        }
    }
}

fn known(name: &str, exists: bool) -> Result<()> {
    match exists {
        true => Ok(()),
        false => {
            let message = format!("column `{name}` does not exist");
            Err(QueryError::new(ErrorKind::UndefinedColumn, message))
        }
    }
}

fn column_name(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

/// The type of a new column, which DataFusion works out as that of a table with nothing else.
async fn column_type(engine: &Engine, column: &ColumnDef, settings: &Settings) -> Result<DataType> {
    let refused = column.options.iter().find(|option| !matches!(option.option, ColumnOption::Null));
    if let Some(option) = refused {
        let message = format!("`{}` of a new column is not supported", option.option);
        return Err(QueryError::new(ErrorKind::Unsupported, message)
            .hint("rows that are there have null in a new column"));
    }
    let mut create = datafusion::sql::sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder::new(
        vec![Ident::new("t")].into(),
    )
    .columns(vec![column.clone()])
    .build();
    create.if_not_exists = false;
    let statement = DfStatement::Statement(Box::new(SqlStatement::CreateTable(create)));
    let state = engine.context().state(settings);
    let planned = engine.threads.plan(planning::logical_plan(statement, state)).await?;
    let field = match planned.plan.logical() {
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) => {
            create.input.schema().as_arrow().fields().first().cloned()
        }
        _ => None,
    };
    let field = field.ok_or_else(|| QueryError::internal("a column has no type"))?;
    Ok(field.data_type().clone())
}
