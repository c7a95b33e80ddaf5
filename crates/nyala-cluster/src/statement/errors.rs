//! Errors of statements as they travel: all that a client is told goes along.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use nyala_engine::{ErrorKind, QueryError, not_confirmed, not_reached};
use nyala_model::NodeId;
use prost::Message;
use tonic::{Code, ConnectError, Status};

#[derive(Clone, PartialEq, Message)]
struct ErrorMessage {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(string, optional, tag = "3")]
    hint: Option<String>,
    #[prost(bool, tag = "4")]
    transient: bool,
    #[prost(string, optional, tag = "5")]
    sqlstate: Option<String>,
}

/// An error of a statement, for the node that asked.
pub fn to_status(error: &QueryError) -> Status {
    Status::with_details(Code::FailedPrecondition, "statement failed", Bytes::from(error_to_bytes(error)))
}

/// Longest message that travels, in bytes: it may repeat a value of many megabytes, and travels in a header.
const MESSAGE_BYTES: usize = 64 << 10;

/// An error as a message.
pub fn error_to_bytes(error: &QueryError) -> Vec<u8> {
    let whole = &error.message;
    let message = ErrorMessage {
        kind: serde_json::to_value(error.kind)
            .ok()
            .and_then(|kind| Some(kind.as_str()?.to_owned()))
            .unwrap_or_default(),
        message: whole.get(..whole.floor_char_boundary(MESSAGE_BYTES)).unwrap_or_default().to_owned(),
        hint: error.hint.clone(),
        transient: error.transient,
        sqlstate: error.sqlstate.map(str::to_owned),
    };
    message.encode_to_vec()
}

/// The error in a message; none if the bytes are no such message.
pub fn error_from_bytes(bytes: &[u8]) -> Option<QueryError> {
    let told = ErrorMessage::decode(bytes).ok()?;
    let kind = serde_json::from_value(serde_json::Value::from(told.kind)).unwrap_or(ErrorKind::Internal);
    Some(QueryError {
        hint: told.hint,
        transient: told.transient,
        sqlstate: told.sqlstate.as_deref().and_then(interned),
        ..QueryError::new(kind, told.message)
    })
}

/// The error of a call to a node: the statement's, or that the node was not reached. If the connection broke after a statement
/// that `changes` something was sent, the error says that its outcome is unknown.
pub fn from_status(node: &NodeId, status: &Status, changes: bool) -> QueryError {
    let told = (!status.details().is_empty()).then(|| error_from_bytes(status.details())).flatten();
    told.unwrap_or_else(|| {
        let (cause, was_sent) = cause_of(status);
        match changes && was_sent {
            true => not_confirmed(node, &cause),
            false => not_reached(node, &cause),
        }
    })
}

/// The innermost cause, which names the fault, and whether a connection had been made. The causes around it name only layers of the
/// library.
fn cause_of(status: &Status) -> (String, bool) {
    let (mut cause, mut was_sent): (&dyn std::error::Error, bool) = (status, true);
    while let Some(source) = cause.source() {
        cause = source;
        was_sent &= !cause.is::<ConnectError>();
    }
    match cause.downcast_ref::<Status>() {
        Some(status) => (status.message().to_owned(), was_sent),
        None => (cause.to_string(), was_sent),
    }
}

/// An SQLSTATE that lives as long as the process, because errors hold it as `&'static str`. None for a text that is no SQLSTATE, and
/// for further ones once a thousand are kept.
fn interned(code: &str) -> Option<&'static str> {
    const MOST: usize = 1000;
    static KNOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = known.get(code) {
        return Some(found);
    }
    let is_code = code.len() == 5 && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if !is_code || known.len() >= MOST {
        return None;
    }
    let kept: &'static str = String::leak(code.to_owned());
    known.insert(kept);
    Some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_arrives_as_it_was() {
        let node = NodeId("n".to_owned());
        let check = |error: QueryError| {
            let arrived = from_status(&node, &to_status(&error), true);
            let parts = |error: &QueryError| {
                (error.kind, error.message.clone(), error.hint.clone(), error.transient, error.sqlstate)
            };
            assert_eq!(parts(&arrived), parts(&error));
        };
        check(QueryError::new(ErrorKind::Conflict, "row changed").hint("again").sqlstate("23505"));
        check(QueryError { transient: true, ..QueryError::new(ErrorKind::Unreadable, "ü\0") });
        check(QueryError::cancelled());
        let refused = from_status(&node, &Status::unavailable("connection refused"), false);
        assert!(refused.transient && refused.message.contains("connection refused"), "{refused}");
        let lost = from_status(&node, &Status::unavailable("broken pipe"), true);
        assert_eq!(lost.kind, ErrorKind::Unconfirmed);
    }
}
