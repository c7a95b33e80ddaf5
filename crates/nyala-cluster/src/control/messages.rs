//! Requests and answers as messages.
//!
//! | action | number | answer |
//! |---|---|---|
//! | `list queries` | 0 | rows in Arrow's stream format |
//! | `kill query` | of the statement | nothing |
//! | `cancel job` | of the job | nothing |
//! | `end sent` | that the statement has on the node that asks | nothing |

use std::io::Cursor;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use arrow_flight::Action;
use bytes::Bytes;
use nyala_engine::{Control, ControlAction, ControlAnswer, ErrorKind, Identity, QueryError};
use nyala_model::{JobId, NodeId, SnapshotVersion};
use prost::Message;

const LIST_QUERIES: &str = "list queries";
const KILL_QUERY: &str = "kill query";
const CANCEL_JOB: &str = "cancel job";
const END_SENT: &str = "end sent";

/// The body of a request.
#[derive(Clone, PartialEq, Message)]
struct ControlMessage {
    #[prost(uint64, tag = "1")]
    number: u64,
    /// The role; none for the owner of the database.
    #[prost(string, optional, tag = "2")]
    role: Option<String>,
    #[prost(uint64, tag = "3")]
    version: u64,
    /// The node that asks.
    #[prost(string, tag = "4")]
    node: String,
}

pub fn to_action(control: &Control) -> Action {
    let (name, number) = match control.action {
        ControlAction::ListQueries => (LIST_QUERIES, 0),
        ControlAction::KillQuery(id) => (KILL_QUERY, id),
        ControlAction::CancelJob(id) => (CANCEL_JOB, id.0),
        ControlAction::EndSent(id) => (END_SENT, id),
    };
    let role = match &control.identity {
        Identity::Owner => None,
        Identity::Role(role) => Some(role.clone()),
    };
    let (version, node) = (control.version.0, control.node.0.clone());
    let message = ControlMessage { number, role, version, node };
    Action { r#type: name.to_owned(), body: message.encode_to_vec().into() }
}

/// # Errors
/// The request is of another version, or cannot be read.
pub fn from_action(action: Action) -> Result<Control, QueryError> {
    let message = ControlMessage::decode(action.body).map_err(QueryError::internal)?;
    let number = message.number;
    let action = match action.r#type.as_str() {
        LIST_QUERIES => ControlAction::ListQueries,
        KILL_QUERY => ControlAction::KillQuery(number),
        CANCEL_JOB => ControlAction::CancelJob(JobId(number)),
        END_SENT => ControlAction::EndSent(number),
        unknown => {
            let message = format!("this node does not know the request `{}`", unknown.escape_default());
            return Err(QueryError::new(ErrorKind::Unsupported, message).hint("run one version on all nodes"));
        }
    };
    let identity = message.role.map_or(Identity::Owner, Identity::Role);
    let (version, node) = (SnapshotVersion(message.version), NodeId(message.node));
    Ok(Control { action, identity, version, node })
}

/// # Errors
/// The rows cannot be written.
pub fn to_body(answer: &ControlAnswer) -> Result<Bytes, QueryError> {
    let ControlAnswer::Rows(rows) = answer else { return Ok(Bytes::new()) };
    let write = || -> Result<Vec<u8>, ArrowError> {
        let mut writer = StreamWriter::try_new(Vec::new(), rows.schema_ref())?;
        writer.write(rows)?;
        writer.into_inner()
    };
    write().map(Bytes::from).map_err(QueryError::internal)
}

/// # Errors
/// The rows cannot be read.
pub fn from_body(body: &[u8]) -> Result<ControlAnswer, QueryError> {
    if body.is_empty() {
        return Ok(ControlAnswer::Done);
    }
    let read = || -> Result<Option<RecordBatch>, ArrowError> {
        StreamReader::try_new(Cursor::new(body), None)?.next().transpose()
    };
    let rows = read().map_err(QueryError::internal)?;
    rows.map(ControlAnswer::Rows).ok_or_else(|| QueryError::internal("a node answered without rows"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use arrow::array::{ArrayRef, StringArray};

    use super::*;

    #[test]
    fn requests_arrive_as_they_were() {
        for (action, identity) in [
            (ControlAction::ListQueries, Identity::Owner),
            (ControlAction::KillQuery(u64::MAX), Identity::Role("ann".to_owned())),
            (ControlAction::CancelJob(JobId(7)), Identity::Role(String::new())),
            (ControlAction::EndSent(4711), Identity::Owner),
        ] {
            let (version, node) = (SnapshotVersion(9), NodeId("n1".to_owned()));
            let control = Control { action, identity, version, node };
            assert_eq!(from_action(to_action(&control)).unwrap(), control);
        }
    }

    #[test]
    fn what_no_node_asks_is_refused() {
        let refused = |name: &str, body: &[u8]| {
            let action = Action { r#type: name.to_owned(), body: Bytes::copy_from_slice(body) };
            from_action(action).unwrap_err().message
        };
        assert!(refused("drop\nall", &[]).contains("does not know the request `drop\\nall`"));
        assert!(!refused(KILL_QUERY, &[0xff; 9]).is_empty());
    }

    #[test]
    fn answers_arrive_as_they_were_and_damaged_ones_are_errors() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
        let rows = RecordBatch::try_from_iter([("query", texts)]).unwrap();
        for answer in [ControlAnswer::Rows(rows.slice(0, 0)), ControlAnswer::Rows(rows), ControlAnswer::Done]
        {
            assert_eq!(from_body(&to_body(&answer).unwrap()).unwrap(), answer);
        }
        from_body(b"no rows at all").unwrap_err();
    }
}
