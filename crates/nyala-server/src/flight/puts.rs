//! Values that clients bind to prepared statements, and statements that run with them.

use std::sync::Arc;

use arrow_flight::sql::{
    CommandPreparedStatementQuery, CommandPreparedStatementUpdate, DoPutPreparedStatementResult,
};
use tonic::Status;

use super::command::Received;
use super::data::values_of;
use super::error::refused;
use super::queries::run;
use super::receive_budget::Share;
use super::sessions::FlightSession;

/// Binds rows of values to a prepared query.
pub async fn bind(
    session: &FlightSession,
    query: CommandPreparedStatementQuery,
    messages: Received,
    share: Share,
) -> Result<DoPutPreparedStatementResult, Status> {
    let statement = refused(session.statements.get(&query.prepared_statement_handle))?;
    let needed = statement.prepared.parameter_types().len();
    let values = values_of(messages, needed, share).await?.unwrap_or_default();
    refused(session.statements.bind(&query.prepared_statement_handle, values))?;
    // Keeps the handle: a driver that is given a new one closes only one of the two.
    Ok(DoPutPreparedStatementResult { prepared_statement_handle: Some(query.prepared_statement_handle) })
}

/// Runs a prepared statement with each row of values, and gives the number of rows that it changed.
pub async fn update(
    session: &FlightSession,
    update: &CommandPreparedStatementUpdate,
    messages: Received,
    share: Share,
) -> Result<i64, Status> {
    let statement = refused(session.statements.get(&update.prepared_statement_handle))?;
    let needed = statement.prepared.parameter_types().len();
    let values = match values_of(messages, needed, share).await? {
        Some(values) if needed > 0 => Arc::new(values),
        // An earlier call has bound the values, or there are no parameters.
        _ => refused(statement.values())?,
    };
    refused(run(session, &statement, &values).await)
}
