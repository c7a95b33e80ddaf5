//! `COPY table FROM 'location'`.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::{Column, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{CopyOption, Ident};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use nyala_cube::scan::{ExternalTable, ReadOnce, TableRequest, decode_schema, describe_table, encode_schema};
use nyala_model::{FileFormat, QualifiedName, TableEntry, TableId, TableSource};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::{CopyInto, folded};

use super::ingest::{Asked, Ingest};
use crate::query::answer::{Answer, Completion, Ingested};
use crate::query::authorize::Caller;
use crate::query::command::Command;
use crate::query::execution::Execution;
use crate::query::files::{compression_in_name, format_in_name, is_tab_separated};
use crate::query::plan::logical::Unoptimized;
use crate::query::run_query::{self, Query};

/// `COPY table FROM`.
pub struct CopyFrom<'s>(pub &'s CopyInto);

impl Command for CopyFrom<'_> {
    /// Files have no owner: a role that may read them could make an external table of them, too. The privilege
    /// to write rows is checked when the load begins.
    fn authorize(&self, caller: &Caller<'_>) -> Result<()> {
        match &self.0.location {
            Some(location) => {
                caller.may_create(caller.name(&self.0.table)?)?;
                caller.may_read_files(location)
            }
            None => Ok(()),
        }
    }

    fn run<'a>(&'a self, execution: Execution<'a>) -> BoxFuture<'a, Result<Answer>> {
        run(self.0, execution).boxed()
    }
}

/// Loads the rows of files, which are read like an external table.
async fn run(copy: &CopyInto, execution: Execution<'_>) -> Result<Answer> {
    let Some(location) = &copy.location else {
        return Err(QueryError::new(
            ErrorKind::Unsupported,
            "this door takes no rows with COPY … FROM STDIN",
        )
        .hint("use a PostgreSQL client, such as psql's \\copy, or POST the rows over HTTP"));
    };
    let (session, deadline) = (execution.session, execution.deadline.clone());
    let engine = &session.engine;
    let name = execution.name(&copy.table)?;
    let columns: Vec<String> = copy.columns.iter().map(column_name).collect();
    let asked = Asked { label: copy.label.as_deref(), at_once: false, may_be_sent: false };
    let mut ingest = Ingest::begin(session, &name, &columns, asked)?;
    if let Some(known) = ingest.known().await? {
        return Ok(done(&known));
    }
    let mut state = engine.snapshots.current().state(&execution.settings);
    state.config_mut().set_extension(Arc::new(ReadOnce));
    let (file_type, options) = options(location, &copy.options)?;
    let request = TableRequest {
        name: name.clone(),
        location: location.clone(),
        file_type,
        columns: Arc::new(Schema::empty()),
        partition_columns: Vec::new(),
        find_partitions: false,
        options,
        definition: copy.to_string(),
    };
    let stores = Arc::clone(engine.snapshots.stores());
    let wanted = Arc::clone(ingest.schema());
    let plan = async move {
        let described = describe_table(request, &state, &stores).await?;
        let mut entry = TableEntry {
            id: TableId(0),
            name: QualifiedName::new("", "file"),
            source: described.source,
            schema_ipc: described.schema_ipc,
            definition: described.definition,
        };
        let TableSource::External(source) = entry.source.clone() else {
            return Err(QueryError::internal("a file is no external table"));
        };
        if matches!(source.format, FileFormat::Csv | FileFormat::NdJson) {
            entry.schema_ipc = encode_schema(&as_written(&decode_schema(&entry)?, &wanted, source.format));
        }
        let entry = Arc::new(entry);
        let table = ExternalTable::open(Arc::clone(&entry), &source, &state, &stores)?;
        let file = TableReference::bare("file");
        let scan = LogicalPlanBuilder::scan(file.clone(), provider_as_source(Arc::new(table)), None)?;
        let known = Arc::clone(scan.schema());
        let mut projected = Vec::new();
        for field in wanted.fields() {
            let column = Column::new(Some(file.clone()), field.name());
            if known.maybe_index_of_column(&column).is_none() {
                let message = format!("`{}` has no column `{}`", entry.definition, field.name());
                return Err(QueryError::new(ErrorKind::UndefinedColumn, message)
                    .hint("name the columns that are in it: COPY table (a, b) FROM …"));
            }
            projected
                .push(Expr::Column(column).cast_to(field.data_type(), known.as_ref())?.alias(field.name()));
        }
        Ok(scan.project(projected)?.build()?)
    };
    let query = Unoptimized::Resolved(engine.runtime.threads.plan(plan).await?);
    execution.running.entry().set_goes_on(true);
    let query = Query { plan: &query, text: None, parameters: &[], reads: None };
    let answer = run_query::run(query, execution).await?;
    let Answer::Rows(mut rows) = answer else {
        return Err(QueryError::internal("a file gives no rows"));
    };
    while let Some(batch) = rows.next().await {
        ingest.push(batch?).await?;
    }
    Ok(done(&ingest.finish(0, &deadline).await?))
}

/// The columns of CSV or JSON files as they are read. Their types are guessed from the first rows, and reading a text by a guessed type may
/// lose what the column of the table would keep: the zeros of `00123`, or digits of `12345678901234567.89`. Such columns are read as texts,
/// which the query casts.
fn as_written(found: &Schema, wanted: &Schema, format: FileFormat) -> Schema {
    let fields = found.fields().iter().map(|field| {
        let column = wanted.field_with_name(field.name());
        match column.is_ok_and(|column| is_cast_from_text(field.data_type(), column.data_type(), format)) {
            true => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8)),
            false => Arc::clone(field),
        }
    });
    Schema::new(fields.collect::<Vec<_>>())
}

fn is_cast_from_text(guessed: &DataType, wanted: &DataType, format: FileFormat) -> bool {
    let is_same_number = guessed == wanted && guessed.is_numeric();
    match format {
        FileFormat::Csv => !guessed.is_nested() && !is_same_number,
        // Values in JSON that are no texts are numbers or truth values; a number with a fraction is rounded for a column of whole numbers.
        FileFormat::NdJson => !guessed.is_nested() && (wanted.is_string() || wanted.is_decimal()),
        FileFormat::Parquet | FileFormat::Delta => false,
    }
}

fn done(ingested: &Ingested) -> Answer {
    Answer::Done(Completion { tag: "COPY".to_owned(), rows: Some(ingested.rows), notice: ingested.notice() })
}

fn column_name(name: &Ident) -> String {
    folded(name)
}

/// The format, from the options or the file name, and the options of its reader.
fn options(location: &str, given: &[CopyOption]) -> Result<(String, HashMap<String, String>)> {
    let mut format = format_in_name(location).unwrap_or("PARQUET").to_owned();
    let mut options = HashMap::new();
    for option in given {
        let mut set = |name: &str, value: String| drop(options.insert(format!("format.{name}"), value));
        match option {
            CopyOption::Format(name) => format = name.value.to_ascii_uppercase(),
            CopyOption::Header(header) => set("has_header", header.to_string()),
            CopyOption::Delimiter(delimiter) => set("delimiter", delimiter.to_string()),
            CopyOption::Quote(quote) => set("quote", quote.to_string()),
            CopyOption::Escape(escape) => set("escape", escape.to_string()),
            other => {
                return Err(QueryError::new(
                    ErrorKind::Unsupported,
                    format!("COPY option `{other}` is not supported"),
                )
                .hint("there are FORMAT, HEADER, DELIMITER, QUOTE and ESCAPE"));
            }
        }
    }
    let mut told = |name: &str, value: &str| {
        options.entry(format!("format.{name}")).or_insert_with(|| value.to_owned());
    };
    if let Some((_, compression)) = compression_in_name(location).filter(|_| format != "PARQUET") {
        told("compression", compression);
    }
    if format == "CSV" && is_tab_separated(location) {
        told("delimiter", "\t");
    }
    Ok((format, options))
}
