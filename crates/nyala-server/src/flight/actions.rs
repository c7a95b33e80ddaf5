//! Actions: prepared statements, cancellation, and the options of a session.

use arrow_flight::sql::{
    ActionCancelQueryRequest, ActionCancelQueryResult, ActionClosePreparedStatementRequest,
    ActionCreatePreparedStatementRequest, Command, ProstMessageExt,
};
use arrow_flight::{
    Action, ActionType, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightInfo,
};
use prost::Message;
use tonic::Status;

use super::calls;
use super::command::{self, no_transactions, without_transaction};
use super::error::beginning;
use super::messages::{CloseSessionResult, CloseSessionStatus};
use super::queries;
use super::session_options;
use super::sessions::FlightSession;

const PREPARE: &str = "CreatePreparedStatement";
const CLOSE: &str = "ClosePreparedStatement";
const CANCEL_QUERY: &str = "CancelQuery";
const CANCEL_FLIGHT: &str = "CancelFlightInfo";
const SET_OPTIONS: &str = "SetSessionOptions";
const GET_OPTIONS: &str = "GetSessionOptions";
/// Ends the session of its caller.
pub const CLOSE_SESSION: &str = "CloseSession";

/// Actions of servers that have transactions.
const TRANSACTIONS: [&str; 4] = ["BeginTransaction", "EndTransaction", "BeginSavepoint", "EndSavepoint"];

/// The actions, each with the description that ListActions gives.
static ACTIONS: [(&str, &str); 7] = [
    (
        PREPARE,
        "Prepares a statement.\nRequest Message: ActionCreatePreparedStatementRequest\nResponse Message: ActionCreatePreparedStatementResult",
    ),
    (CLOSE, "Closes a prepared statement.\nRequest Message: ActionClosePreparedStatementRequest"),
    (
        CANCEL_QUERY,
        "Ends a query.\nRequest Message: ActionCancelQueryRequest\nResponse Message: ActionCancelQueryResult",
    ),
    (
        CANCEL_FLIGHT,
        "Ends a query.\nRequest Message: CancelFlightInfoRequest\nResponse Message: CancelFlightInfoResult",
    ),
    (
        SET_OPTIONS,
        "Sets options of the session.\nRequest Message: SetSessionOptionsRequest\nResponse Message: SetSessionOptionsResult",
    ),
    (
        GET_OPTIONS,
        "Tells the options of the session.\nRequest Message: GetSessionOptionsRequest\nResponse Message: GetSessionOptionsResult",
    ),
    (
        CLOSE_SESSION,
        "Ends the session.\nRequest Message: CloseSessionRequest\nResponse Message: CloseSessionResult",
    ),
];

/// The name of an action as a label of metrics; `other` if there is no such action.
pub fn known(name: &str) -> &'static str {
    calls::known(&ACTIONS.map(|(name, _)| name), name)
}

/// All actions.
pub fn list() -> impl Iterator<Item = ActionType> {
    ACTIONS.iter().map(|(name, description)| ActionType {
        r#type: (*name).to_owned(),
        description: (*description).to_owned(),
    })
}

/// Runs an action, and gives the body of its answer; none for an action whose answer has no body.
pub async fn act(session: &FlightSession, action: &Action) -> Result<Option<Vec<u8>>, Status> {
    match action.r#type.as_str() {
        PREPARE => prepare(session, action).await.map(Some),
        CLOSE => close(session, action).map(|()| None),
        CANCEL_QUERY => cancel_query(session, action).map(Some),
        CANCEL_FLIGHT => cancel_flight(session, action).map(Some),
        SET_OPTIONS => session_options::set(session, action).map(Some),
        GET_OPTIONS => Ok(Some(session_options::get(session))),
        other if TRANSACTIONS.contains(&other) => Err(no_transactions()),
        other => {
            let message =
                format!("there is no action `{}`; ListActions lists what there is", beginning(other));
            Err(Status::unimplemented(message))
        }
    }
}

/// The answer to CloseSession.
pub fn closed() -> Vec<u8> {
    CloseSessionResult { status: CloseSessionStatus::Closed as i32 }.encode_to_vec()
}

async fn prepare(session: &FlightSession, action: &Action) -> Result<Vec<u8>, Status> {
    let command = without_transaction(command::read(&action.body))?;
    let Command::ActionCreatePreparedStatementRequest(request) = command else {
        return Err(other_body::<ActionCreatePreparedStatementRequest>(PREPARE));
    };
    Ok(queries::create(session, &request).await?.as_any().encode_to_vec())
}

fn close(session: &FlightSession, action: &Action) -> Result<(), Status> {
    let Command::ActionClosePreparedStatementRequest(request) = command::read(&action.body)? else {
        return Err(other_body::<ActionClosePreparedStatementRequest>(CLOSE));
    };
    // A statement that is closed twice is closed: drivers fail if closing fails.
    session.statements.close(&request.prepared_statement_handle);
    Ok(())
}

fn cancel_query(session: &FlightSession, action: &Action) -> Result<Vec<u8>, Status> {
    let Command::ActionCancelQueryRequest(request) = command::read(&action.body)? else {
        return Err(other_body::<ActionCancelQueryRequest>(CANCEL_QUERY));
    };
    let info = FlightInfo::decode(request.info)
        .map_err(|error| Status::invalid_argument(format!("{CANCEL_QUERY}: {error}")))?;
    // The outcomes of both actions have the same numbers; the library hides the names of this one.
    let result = ActionCancelQueryResult { result: outcome(queries::cancel(session, &info)) };
    Ok(result.as_any().encode_to_vec())
}

fn cancel_flight(session: &FlightSession, action: &Action) -> Result<Vec<u8>, Status> {
    let asked = CancelFlightInfoRequest::decode(action.body.clone())
        .map_err(|error| Status::invalid_argument(format!("{CANCEL_FLIGHT}: {error}")))?;
    let cancelled = asked.info.is_some_and(|info| queries::cancel(session, &info));
    Ok(CancelFlightInfoResult { status: outcome(cancelled) }.encode_to_vec())
}

fn outcome(cancelled: bool) -> i32 {
    let status = if cancelled { CancelStatus::Cancelled } else { CancelStatus::NotCancellable };
    status.into()
}

fn other_body<M: ProstMessageExt>(action: &str) -> Status {
    let url = M::type_url();
    let name = url.rsplit('.').next().unwrap_or(url);
    Status::invalid_argument(format!("{action}: the body must be of type `{name}`"))
}
