//! Errors of parts of queries. The engine below knows only their texts after one hop, so that what a client is told travels
//! within the text.

use std::error::Error;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use datafusion::error::DataFusionError;
use nyala_engine::{ErrorKind, QueryError, not_reached};
use nyala_model::NodeId;
use tonic::Status;

use crate::statement::{error_from_bytes, error_to_bytes, from_status};

/// Begins an error within a text.
const MARK: &str = "nyala-error:";

/// What the engine below says of a task whose operators have not come within ten seconds.
const LATE: &str = "while waiting for the plan to be set by the coordinator";

/// The error as it travels.
pub fn to_text(error: DataFusionError) -> DataFusionError {
    let error = from_any(error);
    DataFusionError::Execution(format!("{MARK}{}", BASE64_STANDARD_NO_PAD.encode(error_to_bytes(&error))))
}

/// The error that a part of a query, or the way to it, failed with.
pub fn from_any(error: DataFusionError) -> QueryError {
    if let Some(found) = within(&error.to_string()) {
        return found;
    }
    if let Some(status) = status_of(&error) {
        return from_status(&NodeId::default(), status, false);
    }
    if error.to_string().contains(LATE) {
        let message = "the nodes were too busy to begin all parts of the query in time";
        return QueryError { transient: true, ..QueryError::new(ErrorKind::Unreadable, message) }
            .hint("repeat it when less runs; `SELECT * FROM system.queries` lists what does");
    }
    error.into()
}

fn within(text: &str) -> Option<QueryError> {
    let (_, rest) = text.split_once(MARK)?;
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '+' && c != '/').unwrap_or(rest.len());
    error_from_bytes(&BASE64_STANDARD_NO_PAD.decode(rest.get(..end)?).ok()?)
}

/// The answer of a connection that broke.
fn status_of(error: &DataFusionError) -> Option<&Status> {
    let mut cause: Option<&(dyn Error + 'static)> = match error {
        DataFusionError::Shared(shared) => return status_of(Arc::as_ref(shared)),
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => {
            return status_of(inner);
        }
        DataFusionError::External(inner) => Some(inner.as_ref()),
        _ => None,
    };
    while let Some(error) = cause {
        if let Some(status) = error.downcast_ref::<Status>() {
            return Some(status);
        }
        if let Some(inner) = error.downcast_ref::<DataFusionError>() {
            return status_of(inner);
        }
        cause = error.source();
    }
    None
}

/// This node can do no part of a query now: the node that asks does without it.
pub fn not_ready(own: &NodeId) -> QueryError {
    not_reached(own, "it is starting or stopping")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_the_same_after_any_number_of_hops() {
        let error = QueryError::new(ErrorKind::ResourcesExhausted, "too much: a/b+c=").hint("less");
        let sent = to_text(to_text(error.clone().into()));
        // What the engine below makes of it on the way.
        let arrived = DataFusionError::Shared(Arc::new(sent.context("stage 3")));
        let arrived = DataFusionError::Execution(format!("External error: {arrived}"));
        let found = from_any(arrived);
        assert_eq!((found.kind, found.message, found.hint), (error.kind, error.message, error.hint));
    }

    #[test]
    fn a_broken_connection_may_be_tried_again() {
        let status = Status::unavailable("broken pipe");
        let error = DataFusionError::Shared(Arc::new(DataFusionError::External(Box::new(status))));
        let found = from_any(error);
        assert!(found.transient && found.kind == ErrorKind::Unreadable, "{found:?}");
        let twice = from_any(to_text(to_text(found.into())));
        assert!(twice.transient && twice.kind == ErrorKind::Unreadable, "{twice:?}");
        let late = format!("Worker::execute_task timed-out {LATE}. (timed out)");
        assert!(from_any(DataFusionError::Execution(late)).transient);
    }
}
