//! Bulk loads: rows of Arrow into a live table, which is made if the client wants it.
//!
//! A load is one statement. A batch that is too large fails in the client, and the server may see the stream end as if it were
//! whole; so a client may say how many rows it sends, and a load with another number is refused.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema, TimeUnit};
use arrow_flight::sql::server::PeekableFlightDataStream;
use arrow_flight::sql::{CommandStatementIngest, TableExistsOption, TableNotExistOption};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use nyala_engine::{Answer, ErrorKind, QueryError, Session};
use tonic::Status;
use tonic::metadata::MetadataMap;

use super::data::{columns_of, framed};
use super::error::{refused, status};
use super::metadata::{literal, rows_of};
use crate::rows::{ArrowStream, Decode, Load, LoadRequest, Rejects, Target};

/// A load with this label is done once.
const LABEL: &str = "x-nyala-label";
/// How many rows a load has.
const ROWS: &str = "x-nyala-rows";

/// What a client says of a load in headers of its call.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Promise {
    label: Option<String>,
    rows: Option<u64>,
}

impl Promise {
    /// Reads the headers.
    ///
    /// # Errors
    /// One has no text, or no number.
    pub fn of(headers: &MetadataMap) -> Result<Self, Status> {
        let text = |name: &'static str| {
            let value = headers.get(name).map(|value| value.to_str().map(str::to_owned));
            value.transpose().map_err(|_| Status::invalid_argument(format!("header `{name}` is no text")))
        };
        let rows = text(ROWS)?.map(|rows| {
            let number = rows.trim().parse::<u64>();
            number.map_err(|_| {
                Status::invalid_argument(format!("header `{ROWS}` is `{rows}`, and no number of rows"))
            })
        });
        Ok(Self { label: text(LABEL)?, rows: rows.transpose()? })
    }
}

/// Loads all rows of the stream, and gives their number.
pub fn ingest<'a>(
    session: &'a Arc<Session>,
    command: CommandStatementIngest,
    promise: Promise,
    mut stream: PeekableFlightDataStream,
) -> BoxFuture<'a, Result<i64, Status>> {
    async move {
        let columns = columns_of(&mut stream).await?;
        let table = refused(target(session, &command, &columns).await)?;
        let Promise { label, rows: expected } = promise;
        let request = LoadRequest {
            text: format!("load into {table} over Flight SQL"),
            table,
            columns: Vec::new(),
            decoder: Box::new(Counted { rows: ArrowStream::default(), seen: 0, expected }),
            max_rejects: 0,
            label,
            at_once: true,
        };
        let mut load = refused(Load::begin(Arc::clone(session), request).await)?;
        while let Some(data) = refused(load.client(stream.next()).await)? {
            // The client has gone, or its message was too large: dropping the load gives it up.
            for part in refused(framed(data?))?.into_iter().flatten() {
                refused(load.push(&part).await)?;
            }
        }
        let loaded = refused(load.finish().await)?;
        Ok(i64::try_from(loaded.done.rows).unwrap_or(i64::MAX))
    }
    .boxed()
}

/// Counts rows, and refuses a load that has not as many as its client said.
struct Counted {
    rows: ArrowStream,
    seen: u64,
    expected: Option<u64>,
}

impl Decode for Counted {
    fn decode(
        &mut self,
        bytes: &[u8],
        target: &mut Target,
        rejects: &mut Rejects,
    ) -> Result<Vec<RecordBatch>, QueryError> {
        let batches = self.rows.decode(bytes, target, rejects)?;
        self.seen += batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
        Ok(batches)
    }

    fn finish(&mut self, target: &mut Target, rejects: &mut Rejects) -> Result<Vec<RecordBatch>, QueryError> {
        let batches = self.rows.finish(target, rejects)?;
        match self.expected {
            Some(expected) if batches.is_empty() && expected != self.seen => {
                let message =
                    format!("{} rows came, but `{ROWS}` says {expected}; none was written", self.seen);
                Err(QueryError::new(ErrorKind::Data, message)
                    .hint("a batch may have been too large for the client: send smaller ones"))
            }
            _ => Ok(batches),
        }
    }
}

/// The table to load, in quotes; made if it has to be.
fn target<'a>(
    session: &'a Session,
    command: &'a CommandStatementIngest,
    columns: &'a Schema,
) -> BoxFuture<'a, Result<String, QueryError>> {
    async move {
        let options = command.table_definition_options.unwrap_or_default();
        let name = match command.schema.as_deref().filter(|schema| !schema.is_empty()) {
            Some(schema) => format!("{}.{}", quoted(schema), quoted(&command.table)),
            None => quoted(&command.table),
        };
        let create = || create_table(&name, command.temporary, columns);
        match (exists(session, command).await?, options.if_exists(), options.if_not_exist()) {
            (true, TableExistsOption::Fail, _) => {
                let message = format!("table {name} exists, and the load was to create it");
                return Err(
                    QueryError::new(ErrorKind::DuplicateTable, message).hint("append to it, or replace it")
                );
            }
            (true, TableExistsOption::Replace, _) => {
                run(session, &format!("DROP TABLE {name}")).await?;
                run(session, &create()?).await?;
            }
            (true, TableExistsOption::Append | TableExistsOption::Unspecified, _) => {}
            (false, _, TableNotExistOption::Create) => run(session, &create()?).await?,
            (false, _, TableNotExistOption::Fail | TableNotExistOption::Unspecified) => {
                let message = format!("table {name} does not exist");
                return Err(QueryError::new(ErrorKind::UndefinedTable, message)
                    .hint("create it, or let the load create it"));
            }
        }
        Ok(name)
    }
    .boxed()
}

async fn exists(session: &Session, command: &CommandStatementIngest) -> Result<bool, QueryError> {
    let schema = command.schema.clone().filter(|schema| !schema.is_empty());
    let schema = schema.or_else(|| session.setting("search_path")).unwrap_or_default();
    let place = match command.temporary {
        true => "table_schema LIKE 'pg_temp%'".to_owned(),
        false => format!("table_schema = {}", literal(&schema)),
    };
    let sql = format!(
        "SELECT 1 FROM information_schema.tables WHERE {place} AND table_name = {}",
        literal(&command.table)
    );
    Ok(!rows_of(session, &sql).await?.is_empty())
}

async fn run(session: &Session, sql: &str) -> Result<(), QueryError> {
    match session.query(sql).await? {
        Answer::Done(_) => Ok(()),
        Answer::Rows(rows) => rows.collect().await.map(drop),
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The statement that makes a table of these columns.
fn create_table(name: &str, temporary: bool, columns: &Schema) -> Result<String, QueryError> {
    let columns = columns.fields().iter().map(|field| {
        let sql = sql_type(field.data_type()).ok_or_else(|| {
            let message = format!(
                "column `{}` is of type {}, which no table is made of",
                field.name(),
                field.data_type()
            );
            QueryError::new(ErrorKind::Unsupported, message).hint("create the table first, and append to it")
        })?;
        Ok(format!("{} {sql}", quoted(field.name())))
    });
    let columns = columns.collect::<Result<Vec<_>, QueryError>>()?.join(", ");
    let temporary = if temporary { "TEMPORARY " } else { "" };
    Ok(format!("CREATE {temporary}TABLE {name} ({columns})"))
}

/// The type of SQL that has all values of a type of Arrow.
fn sql_type(data_type: &DataType) -> Option<String> {
    Some(match data_type {
        DataType::Boolean => "BOOLEAN".to_owned(),
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => "SMALLINT".to_owned(),
        DataType::UInt16 | DataType::Int32 => "INTEGER".to_owned(),
        DataType::UInt32 | DataType::Int64 => "BIGINT".to_owned(),
        DataType::UInt64 => "NUMERIC(20, 0)".to_owned(),
        DataType::Float16 | DataType::Float32 => "REAL".to_owned(),
        DataType::Float64 => "DOUBLE PRECISION".to_owned(),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
            if *scale >= 0 =>
        {
            format!("NUMERIC({precision}, {scale})")
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => "TEXT".to_owned(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            "BYTEA".to_owned()
        }
        DataType::Date32 | DataType::Date64 => "DATE".to_owned(),
        DataType::Time32(_) | DataType::Time64(_) => "TIME".to_owned(),
        DataType::Timestamp(
            TimeUnit::Second | TimeUnit::Millisecond | TimeUnit::Microsecond | TimeUnit::Nanosecond,
            None,
        ) => "TIMESTAMP".to_owned(),
        DataType::Timestamp(_, Some(_)) => "TIMESTAMPTZ".to_owned(),
        DataType::Interval(_) => "INTERVAL".to_owned(),
        DataType::Dictionary(_, values) => return sql_type(values),
        DataType::RunEndEncoded(_, values) => return sql_type(values.data_type()),
        _ => return None,
    })
}

/// The status of a load that has both a database and one that is not Nyala's.
pub fn check_catalog(catalog: Option<&str>) -> Result<(), Status> {
    match catalog {
        None | Some("" | super::metadata::DATABASE) => Ok(()),
        Some(other) => {
            let message = format!("there is no database `{other}`");
            Err(status(&QueryError::new(ErrorKind::UndefinedObject, message).hint("the only one is `nyala`")))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::datatypes::Field;

    use super::*;

    #[test]
    fn tables_are_made_of_the_columns_that_come() {
        let columns = Schema::new(vec![
            Field::new("id", DataType::UInt32, false),
            Field::new(
                "a \"b\"",
                DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)),
                true,
            ),
            Field::new("d", DataType::Decimal128(12, 2), true),
        ]);
        let sql = create_table("\"s\".\"t\"", false, &columns).unwrap();
        assert_eq!(
            sql,
            "CREATE TABLE \"s\".\"t\" (\"id\" BIGINT, \"a \"\"b\"\"\" TEXT, \"d\" NUMERIC(12, 2))"
        );
        let lists = Schema::new(vec![Field::new_list("l", Field::new("item", DataType::Int8, true), true)]);
        assert!(create_table("t", true, &lists).unwrap_err().message.contains("`l`"));
    }

    #[test]
    fn headers_promise_a_label_and_a_number() {
        let mut headers = MetadataMap::new();
        assert_eq!(Promise::of(&headers).unwrap(), Promise::default());
        headers.insert(LABEL, "monday".parse().unwrap());
        headers.insert(ROWS, "12".parse().unwrap());
        assert_eq!(
            Promise::of(&headers).unwrap(),
            Promise { label: Some("monday".to_owned()), rows: Some(12) }
        );
        headers.insert(ROWS, "many".parse().unwrap());
        assert!(Promise::of(&headers).unwrap_err().message().contains("`many`"));
    }
}
