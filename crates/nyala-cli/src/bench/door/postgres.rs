//! The PostgreSQL protocol.

use std::collections::HashMap;
use std::path::Path;
use std::pin::{Pin, pin};

use anyhow::Result;
use futures::future::{Either, select};
use futures::{Stream, TryStreamExt};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row, SimpleQueryMessage, Statement};

use super::{Answer, Failure, Mode, same_width};
use crate::bench::workload::{Query, Value};
use crate::tls::{self, Driver, PostgresServer};

/// A server that speaks PostgreSQL's protocol.
#[derive(Debug, Clone)]
pub struct PostgresTarget {
    server: PostgresServer,
    mode: Mode,
}

impl PostgresTarget {
    /// Reads a URL. Encryption is used only if it asks for that: servers that are compared must do the same work.
    pub fn parse(url: &str, mode: Mode, ca: Option<&Path>) -> Result<Self> {
        let server = PostgresServer::parse(url, ca, tls::Mode::Disable, "nyala bench")?;
        Ok(Self { server, mode })
    }

    /// Host and port.
    pub fn place(&self) -> String {
        format!("postgres://{}", self.server.place())
    }

    /// Opens one connection.
    pub async fn connect(&self) -> Result<Postgres, Failure> {
        let (client, connection) = self.server.connect().await.map_err(|error| broken(&error))?;
        let driver = Box::pin(connection);
        Ok(Postgres { mode: self.mode, session: Session { client, prepared: HashMap::new() }, driver })
    }
}

/// A connection. Whoever waits for an answer also moves its bytes: a task of its own for that would cost
/// the measuring machine two changes of thread for each message.
pub struct Postgres {
    mode: Mode,
    session: Session,
    driver: Pin<Box<Driver>>,
}

struct Session {
    client: Client,
    /// By the text of the statement.
    prepared: HashMap<String, Statement>,
}

impl Postgres {
    /// What the server says of itself.
    pub fn server_version(&self) -> Option<String> {
        self.driver.parameter("server_version").map(str::to_owned)
    }

    /// Runs a query and reads its answer to the end.
    pub async fn run(&mut self, query: &Query, values: &[Value]) -> Result<Answer, Failure> {
        let Self { mode, session, driver } = self;
        let work = pin!(session.run(*mode, query, values));
        let result = match select(work, driver).await {
            Either::Left((result, _)) => result,
            Either::Right((Ok(()), _)) => {
                return Err(Failure::Broken("the server closed the connection".to_owned()));
            }
            Either::Right((Err(error), _)) => Err(error),
        };
        result.map_err(|error| if error.is_closed() { broken(&error) } else { failure(&error) })?
    }
}

impl Session {
    async fn run(
        &mut self,
        mode: Mode,
        query: &Query,
        values: &[Value],
    ) -> Result<Result<Answer, Failure>, Error> {
        match mode {
            Mode::Simple => self.simple(&query.literal(values)).await,
            Mode::Extended => {
                let parameters = values.iter().map(|value| (as_sql(value), type_of(value)));
                count(None, self.client.query_typed_raw(&query.shape, parameters).await?).await
            }
            Mode::Prepared => {
                let statement = self.prepared(query, values).await?;
                let columns = Some(statement.columns().len());
                count(columns, self.client.query_raw(&statement, values.iter().map(as_sql)).await?).await
            }
        }
    }

    async fn simple(&self, text: &str) -> Result<Result<Answer, Failure>, Error> {
        let mut messages = pin!(self.client.simple_query_raw(text).await?);
        let (mut columns, mut rows) = (None, 0);
        while let Some(message) = messages.try_next().await? {
            let width = match message {
                SimpleQueryMessage::RowDescription(description) => description.len(),
                SimpleQueryMessage::Row(row) => {
                    rows += 1;
                    row.len()
                }
                _ => continue,
            };
            if let Err(failure) = same_width(&mut columns, width) {
                return Ok(Err(failure));
            }
        }
        Ok(Ok(Answer { columns, rows }))
    }

    async fn prepared(&mut self, query: &Query, values: &[Value]) -> Result<Statement, Error> {
        if let Some(statement) = self.prepared.get(&query.shape) {
            return Ok(statement.clone());
        }
        let types: Vec<Type> = values.iter().map(type_of).collect();
        let statement = self.client.prepare_typed(&query.shape, &types).await?;
        self.prepared.insert(query.shape.clone(), statement.clone());
        Ok(statement)
    }
}

async fn count(
    mut columns: Option<usize>,
    rows: impl Stream<Item = Result<Row, Error>>,
) -> Result<Result<Answer, Failure>, Error> {
    let mut stream = pin!(rows);
    let mut rows = 0;
    while let Some(row) = stream.try_next().await? {
        rows += 1;
        if let Err(failure) = same_width(&mut columns, row.len()) {
            return Ok(Err(failure));
        }
    }
    Ok(Ok(Answer { columns, rows }))
}

fn type_of(value: &Value) -> Type {
    match value {
        Value::Integer(_) => Type::INT8,
        Value::Text(_) => Type::TEXT,
    }
}

fn as_sql(value: &Value) -> &(dyn ToSql + Sync) {
    match value {
        Value::Integer(number) => number,
        Value::Text(text) => text,
    }
}

fn failure(error: &Error) -> Failure {
    match error.as_db_error() {
        // After these the server closes the connection.
        Some(db) if matches!(db.severity(), "FATAL" | "PANIC") => Failure::Broken(db.message().to_owned()),
        Some(db) => Failure::Refused(db.message().to_owned()),
        None => broken(error),
    }
}

fn broken(error: &Error) -> Failure {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    match error.as_db_error() {
        Some(db) => Failure::Broken(db.message().to_owned()),
        None => Failure::Broken(format!("{error}{cause}")),
    }
}
