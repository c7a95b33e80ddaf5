//! Statements of clients: planned, run, and fetched.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow_flight::sql::{
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, Any,
    CommandPreparedStatementQuery, CommandStatementQuery, CommandStatementUpdate, ProstMessageExt,
    TicketStatementQuery,
};
use arrow_flight::{FlightDescriptor, FlightInfo};
use bytes::Bytes;
use datafusion::common::ScalarValue;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use nyala_engine::{Answer, ErrorKind, Prepared, QueryError, Session, Text};
use prost::Message;
use tonic::Status;

use super::error::refused;
use super::info::{info_of, written};
use super::parameters::{Values, schema_of};
use super::sessions::{FlightSession, InUse};
use super::statements::Statement;
use super::stream::{Messages, nothing, of_batches, rows_of};

/// Plans a query, and tells its columns.
pub async fn info_of_query(
    session: &FlightSession,
    query: &CommandStatementQuery,
    descriptor: FlightDescriptor,
) -> Result<FlightInfo, Status> {
    let statement = refused(prepared(session, &query.query, true).await)?;
    if statement.runs_at_once() {
        refused(run_now(session, &statement).await)?;
    }
    let (columns, statement_handle) = match statement.columns.clone() {
        Some(columns) => (columns, refused(session.statements.add(statement))?),
        None => (SchemaRef::new(Schema::empty()), Bytes::new()),
    };
    info_of(&columns, &TicketStatementQuery { statement_handle }.as_any(), descriptor)
}

/// Tells the columns of a prepared statement. The command is the ticket, too.
pub async fn info_of_prepared(
    session: &FlightSession,
    query: &CommandPreparedStatementQuery,
    descriptor: FlightDescriptor,
) -> Result<FlightInfo, Status> {
    let statement = refused(session.statements.get(&query.prepared_statement_handle))?;
    if statement.runs_at_once() {
        refused(run_now(session, &statement).await)?;
    }
    info_of(&columns_of(&statement), &query.as_any(), descriptor)
}

/// The columns of a query, which does not run.
pub async fn columns_of_query(
    session: &FlightSession,
    query: &CommandStatementQuery,
) -> Result<SchemaRef, Status> {
    refused(prepared(session, &query.query, true).await).map(|statement| columns_of(&statement))
}

/// The columns of a prepared statement.
pub fn columns_of_prepared(
    session: &FlightSession,
    query: &CommandPreparedStatementQuery,
) -> Result<SchemaRef, Status> {
    refused(session.statements.get(&query.prepared_statement_handle)).map(|statement| columns_of(&statement))
}

fn columns_of(statement: &Statement) -> SchemaRef {
    statement.columns.clone().unwrap_or_else(|| SchemaRef::new(Schema::empty()))
}

/// The rows of a ticket, which is good for once.
pub async fn fetch_once(session: InUse, ticket: &TicketStatementQuery) -> Result<Messages, Status> {
    let statement = refused(session.statements.take(&ticket.statement_handle))?;
    fetch(session, statement).await
}

/// The rows of a prepared statement.
pub async fn fetch_prepared(
    session: InUse,
    query: &CommandPreparedStatementQuery,
) -> Result<Messages, Status> {
    let statement = refused(session.statements.get(&query.prepared_statement_handle))?;
    fetch(session, statement).await
}

async fn fetch(session: InUse, statement: Arc<Statement>) -> Result<Messages, Status> {
    let rows = match statement.columns.clone() {
        // It ran when its columns were asked for, and must not run again when a client fetches its rows.
        Some(columns) if statement.runs_at_once() => {
            of_batches(statement.take_answer().unwrap_or_default(), columns)
        }
        Some(columns) => rows_of(session, statement, columns).await,
        None => Ok(nothing()),
    };
    refused(rows)
}

/// Prepares a statement, which the session keeps.
pub async fn create(
    session: &FlightSession,
    request: &ActionCreatePreparedStatementRequest,
) -> Result<ActionCreatePreparedStatementResult, Status> {
    let statement = refused(prepared(session, &request.query, false).await)?;
    let dataset_schema = match &statement.columns {
        Some(columns) => written(columns)?,
        None => Bytes::new(),
    };
    let parameter_schema = match statement.prepared.parameter_types() {
        [] => Bytes::new(),
        types => written(&schema_of(types))?,
    };
    let prepared_statement_handle = refused(session.statements.add(statement))?;
    Ok(ActionCreatePreparedStatementResult { prepared_statement_handle, dataset_schema, parameter_schema })
}

/// Runs a statement once, and gives the number of rows that it changed.
pub async fn update(session: &FlightSession, update: &CommandStatementUpdate) -> Result<i64, Status> {
    let statement = refused(prepared(session, &update.query, true).await)?;
    let values = refused(statement.values())?;
    refused(run(session, &statement, &values).await)
}

/// Ends the query behind the tickets of an answer; false if none of them has a query that runs.
pub fn cancel(session: &FlightSession, info: &FlightInfo) -> bool {
    let tickets = info.endpoint.iter().filter_map(|endpoint| endpoint.ticket.as_ref());
    let handles = tickets.filter_map(|ticket| {
        let any = Any::decode(&*ticket.ticket).ok()?;
        let once = any.unpack::<TicketStatementQuery>().ok().flatten().map(|ticket| ticket.statement_handle);
        let prepared = || any.unpack::<CommandPreparedStatementQuery>().ok().flatten();
        once.or_else(|| prepared().map(|query| query.prepared_statement_handle))
    });
    let mut cancelled = false;
    for handle in handles {
        cancelled |= session.statements.cancel(&handle);
    }
    cancelled
}

/// Plans one statement.
fn prepare<'a>(session: &'a Session, sql: &'a str) -> BoxFuture<'a, Result<Prepared, QueryError>> {
    async move {
        let mut statements = match session.read(sql)? {
            Text::Ready(prepared) => return Ok(prepared),
            Text::Statements(statements) => statements.into_iter(),
        };
        match (statements.next(), statements.next()) {
            (Some(statement), None) => session.prepare(statement).await,
            _ => {
                let message = "a call must hold exactly one statement";
                Err(QueryError::new(ErrorKind::InvalidText, message).hint("make one call for each statement"))
            }
        }
    }
    .boxed()
}

/// Plans one statement. Its columns get the types that the session is sent.
async fn prepared(session: &FlightSession, sql: &str, is_once: bool) -> Result<Statement, QueryError> {
    let prepared = prepare(&session.session, sql).await?;
    let columns = prepared.schema().map(|columns| session.types().schema(&columns));
    Ok(Statement::new(prepared, columns, is_once))
}

/// Runs a statement with each row of values, and gives the number of rows that it changed. It does not watch [`Statement::ended`]: a client
/// must not be told that a statement was ended whose rows are written.
pub fn run<'a>(
    session: &'a FlightSession,
    statement: &'a Statement,
    values: &'a Values,
) -> BoxFuture<'a, Result<i64, QueryError>> {
    async move {
        let mut changed: u64 = 0;
        for (row, values) in values.rows.iter().enumerate() {
            let rows = run_once(session, statement, values.clone(), None).await;
            changed = changed.saturating_add(rows.map_err(|error| match row {
                0 => error,
                // Each row is a statement, and there are no transactions.
                _ => QueryError {
                    message: format!("{} (the {row} rows of values before were done)", error.message),
                    ..error
                },
            })?);
        }
        Ok(i64::try_from(changed).unwrap_or(i64::MAX))
    }
    .boxed()
}

/// Runs a statement, and gives the number of rows that it changed or returned. Returned rows are added to `given`, if it is there.
fn run_once<'a>(
    session: &'a FlightSession,
    statement: &'a Statement,
    values: Vec<ScalarValue>,
    mut given: Option<&'a mut Vec<RecordBatch>>,
) -> BoxFuture<'a, Result<u64, QueryError>> {
    async move {
        let mut rows = match session.session.execute(&statement.prepared, values).await? {
            Answer::Done(done) => return Ok(done.rows.unwrap_or(0)),
            Answer::Rows(rows) => rows,
        };
        let mut count: u64 = 0;
        while let Some(batch) = rows.next().await.transpose()? {
            count = count.saturating_add(batch.num_rows() as u64);
            if let Some(given) = &mut given {
                given.push(batch);
            }
        }
        Ok(count)
    }
    .boxed()
}

/// Runs a statement that changes something when its columns are asked for, and keeps the rows that it returns until they are fetched.
fn run_now<'a>(
    session: &'a FlightSession,
    statement: &'a Statement,
) -> BoxFuture<'a, Result<(), QueryError>> {
    async move {
        let (values, mut given) = (statement.values()?, Vec::new());
        for values in &values.rows {
            run_once(session, statement, values.clone(), Some(&mut given)).await?;
        }
        statement.keep_answer(given);
        Ok(())
    }
    .boxed()
}
