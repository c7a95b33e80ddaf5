//! The table of a bulk load: there already, made, or made to take the place of another one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::{DataType, Schema, TimeUnit};
use arrow_flight::sql::{CommandStatementIngest, TableExistsOption, TableNotExistOption};
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_engine::{Answer, ErrorKind, QueryError, Session, hide_values};

use super::metadata::rows_of;
use crate::small_queries::{literal, quoted};

/// The table that a client names for a load, and what to do if it exists or not.
pub struct Place {
    /// None for a temporary table.
    schema: Option<String>,
    table: String,
    if_exists: TableExistsOption,
    if_not_exist: TableNotExistOption,
}

impl Place {
    /// The place that a client names: never a bare name, which would mean another table where the session has a temporary one.
    pub fn of(session: &Session, command: CommandStatementIngest) -> Self {
        let options = command.table_definition_options.unwrap_or_default();
        let schema = match command.temporary {
            true => None,
            false => command.schema.filter(|schema| !schema.is_empty()).or_else(|| Some(session.schema())),
        };
        let (if_exists, if_not_exist) = (options.if_exists(), options.if_not_exist());
        Self { schema, table: command.table, if_exists, if_not_exist }
    }

    /// The name in SQL.
    pub fn name(&self) -> String {
        self.name_beside(&self.table)
    }

    /// The name in SQL of another table of the same schema.
    fn name_beside(&self, table: &str) -> String {
        match &self.schema {
            Some(schema) => format!("{}.{}", quoted(schema), quoted(table)),
            None => format!("pg_temp.{}", quoted(table)),
        }
    }

    /// Whether there is such a table.
    pub async fn exists(&self, session: &Session) -> Result<bool, QueryError> {
        let Some(schema) = &self.schema else { return Ok(session.has_temporary(&self.table)) };
        let sql = format!(
            "SELECT 1 FROM information_schema.tables WHERE table_schema = {} AND table_name = {}",
            literal(schema),
            literal(&self.table)
        );
        Ok(!rows_of(session, &sql).await?.is_empty())
    }

    /// Whether the rows are added to the table if it exists.
    pub fn is_added_to(&self) -> bool {
        matches!(self.if_exists, TableExistsOption::Append | TableExistsOption::Unspecified)
    }

    /// The table to load. A table that had to be made is dropped again unless [`Ready::keep`] is called.
    pub fn ready<'a>(
        &'a self,
        session: &'a Arc<Session>,
        exists: bool,
        columns: &'a Schema,
    ) -> BoxFuture<'a, Result<Ready, QueryError>> {
        async move {
            let name = self.name();
            match (exists, self.if_exists, self.if_not_exist) {
                (true, TableExistsOption::Fail, _) => {
                    let message = format!("table {name} exists, and the load was to create it");
                    Err(QueryError::new(ErrorKind::DuplicateTable, message)
                        .hint("append to it, or replace it"))
                }
                (true, TableExistsOption::Replace, _) => self.replacing(session, columns).await,
                (true, TableExistsOption::Append | TableExistsOption::Unspecified, _) => {
                    Ok(Ready { session: Arc::clone(session), name, made: None, replaces: None })
                }
                (false, _, TableNotExistOption::Create) => self.made(session, name, columns).await,
                (false, _, TableNotExistOption::Fail | TableNotExistOption::Unspecified) => {
                    let message = format!("table {name} does not exist");
                    Err(QueryError::new(ErrorKind::UndefinedTable, message)
                        .hint("create it, or let the load create it"))
                }
            }
        }
        .boxed()
    }

    async fn made(
        &self,
        session: &Arc<Session>,
        name: String,
        columns: &Schema,
    ) -> Result<Ready, QueryError> {
        run(session, &create_table(&name, self.schema.is_none(), columns)?).await?;
        Ok(Ready { session: Arc::clone(session), made: Some(name.clone()), name, replaces: None })
    }

    /// A table beside the one to replace, which stays as it is until all rows are there.
    async fn replacing(&self, session: &Arc<Session>, columns: &Schema) -> Result<Ready, QueryError> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        if self.schema.is_none() {
            // No other session sees a temporary table, and this one has asked to replace it.
            run(session, &format!("DROP TABLE {}", self.name())).await?;
            return self.made(session, self.name(), columns).await;
        }
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let beside = format!("{}__load_{}_{number}", self.table, std::process::id());
        let mut ready = self.made(session, self.name_beside(&beside), columns).await?;
        ready.replaces = Some((self.name(), quoted(&self.table)));
        Ok(ready)
    }
}

/// A table that takes the rows of a load.
pub struct Ready {
    session: Arc<Session>,
    /// Its name in SQL.
    pub name: String,
    /// The table to drop if the load fails; none if it existed before the load.
    made: Option<String>,
    /// The name in SQL and the bare name of the old table that this one replaces; none if it replaces none.
    replaces: Option<(String, String)>,
}

impl Ready {
    /// Keeps the table: the load is done.
    ///
    /// # Errors
    /// The table cannot take the name of the table that it replaces.
    pub async fn keep(self) -> Result<(), QueryError> {
        // A task of its own goes on if the client leaves between the DROP of the old table and the RENAME of the new one.
        tokio::spawn(self.put()).await.map_err(QueryError::internal)?
    }

    async fn put(mut self) -> Result<(), QueryError> {
        let Some((old, bare)) = self.replaces.take() else {
            self.made = None;
            return Ok(());
        };
        let session = Arc::clone(&self.session);
        let ask = |sql: String| {
            let session = Arc::clone(&session);
            async move { run(&session, &sql).await }
        };
        let (is_alone, done) = replaced(&ask, &self.name, (&old, &bare)).await;
        if is_alone {
            self.made = None;
        }
        done
    }
}

/// Puts a table in the place of an old one, whose bare name is `bare`. Gives whether the old one is gone, so that the rows are in the new one
/// alone, and the outcome.
async fn replaced<F: Future<Output = Result<(), QueryError>>>(
    ask: &impl Fn(String) -> F,
    new: &str,
    (old, bare): (&str, &str),
) -> (bool, Result<(), QueryError>) {
    let dropped = ask(format!("DROP TABLE {old}")).await;
    if dropped.is_err() {
        // A DROP that was cancelled may have been done all the same.
        let there = ask(format!("SELECT 1 FROM {old} LIMIT 0")).await;
        if !there.is_err_and(|error| error.kind == ErrorKind::UndefinedTable) {
            return (false, dropped);
        }
    }
    let renamed = ask(format!("ALTER TABLE {new} RENAME TO {bare}")).await;
    let told = |error: QueryError| QueryError {
        message: format!("{} (table {old} is dropped, and the rows are in {new})", error.message),
        ..error
    };
    (true, renamed.map_err(told))
}

impl Drop for Ready {
    fn drop(&mut self) {
        let Some(made) = self.made.take() else { return };
        let session = Arc::clone(&self.session);
        // The load has failed, or its client has gone.
        tokio::spawn(async move {
            if let Err(error) = run(&session, &format!("DROP TABLE IF EXISTS {made}")).await {
                let error = hide_values(&error.message).to_string();
                tracing::warn!(error, table = made, "the table of a load that failed is left");
            }
        });
    }
}

fn run<'a>(session: &'a Session, sql: &'a str) -> BoxFuture<'a, Result<(), QueryError>> {
    async move {
        match session.query(sql).await? {
            Answer::Done(_) => Ok(()),
            Answer::Rows(rows) => rows.collect().await.map(drop),
        }
    }
    .boxed()
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::datatypes::Field;

    use super::*;

    /// Replaces `t` where these statements fail. Gives whether the new table is the only one, and the error.
    async fn replace(fails: &[(&str, ErrorKind)]) -> (bool, Option<String>) {
        let ask = |sql: String| async move {
            let fault = fails.iter().find(|(begin, _)| sql.starts_with(begin));
            fault.map_or(Ok(()), |(_, kind)| Err(QueryError::new(*kind, "no")))
        };
        let (is_alone, done) = replaced(&ask, "s.new", ("s.t", "t")).await;
        (is_alone, done.err().map(|error| error.message))
    }

    /// Symptom: a load that replaced a table left neither the old rows nor its own if the second of the two statements failed.
    #[tokio::test]
    async fn rows_are_never_dropped_with_the_table_that_they_replace() {
        let told = Some("no (table s.t is dropped, and the rows are in s.new)".to_owned());
        assert_eq!(replace(&[]).await, (true, None));
        assert_eq!(replace(&[("ALTER", ErrorKind::Cancelled)]).await, (true, told));
        assert_eq!(replace(&[("DROP", ErrorKind::Needed)]).await, (false, Some("no".to_owned())));
        // It was done, although its statement was cancelled.
        let cut = [("DROP", ErrorKind::Cancelled), ("SELECT", ErrorKind::UndefinedTable)];
        assert_eq!(replace(&cut).await, (true, None));
    }

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
}
