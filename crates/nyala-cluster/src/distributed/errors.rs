//! Errors of parts of queries. datafusion-distributed knows only their texts after one hop, so that what a client is told travels
//! within the text.

use std::error::Error;

use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use datafusion::error::DataFusionError;
use nyala_engine::{ErrorKind, Fragment, QueryError, not_reached};
use nyala_model::NodeId;
use tonic::Status;

use crate::statement::{error_from_bytes, error_to_bytes, from_status};

/// Begins an error within a text.
const MARK: &str = "nyala-error:";

/// Part of datafusion-distributed's error for a task whose plan did not arrive within ten seconds.
const LATE: &str = "while waiting for the plan to be set by the coordinator";

/// The error of a part, in the form in which it travels. It is transient if the part had no memory because other statements held it.
pub fn of_part(error: DataFusionError, part: &Fragment) -> DataFusionError {
    let lacked_memory = part.lacked_memory(&error);
    let error = from_any(error);
    let transient = error.transient || lacked_memory;
    to_text(QueryError { transient, ..error }.into())
}

/// An error in the form in which it travels: a text that begins with the mark.
pub fn to_text(error: DataFusionError) -> DataFusionError {
    let error = from_any(error);
    DataFusionError::Execution(format!("{MARK}{}", BASE64_STANDARD_NO_PAD.encode(error_to_bytes(&error))))
}

/// The error that a part of a query, or the way to it, failed with.
pub fn from_any(error: DataFusionError) -> QueryError {
    match innermost(&error) {
        Innermost::Text(text) if text.starts_with(MARK) => {
            if let Some(found) = marked(text) {
                return found;
            }
        }
        // Errors of other nodes got the node's name from `of_library`: a text that still has this phrase comes from this node.
        Innermost::Text(text) if text.contains(LATE) => return late("a node"),
        Innermost::Status(status) => return from_status(&NodeId::default(), status, false),
        Innermost::Text(_) | Innermost::Other => {}
    }
    error.into()
}

/// The error of a library on another node, with the name of that node; none if the status holds an error of a statement, which is passed
/// on as it is.
pub fn of_library(node: &NodeId, status: &Status) -> Option<QueryError> {
    let details = status.details();
    if details.is_empty() {
        return Some(not_reached(node, status.message()));
    }
    let is_late = details.windows(LATE.len()).any(|part| part == LATE.as_bytes());
    is_late.then(|| late(&format!("node `{node}`")))
}

/// The error of a part of a query that was asked for, and whose plan had not come within ten seconds.
fn late(node: &str) -> QueryError {
    let message = format!("{node} was too busy to begin its part of the query in time");
    QueryError { transient: true, ..QueryError::new(ErrorKind::Unreadable, message) }
        .hint("repeat it when less runs; `SELECT * FROM system.queries` lists what does")
}

/// Whether an operator of the node that answers had no memory. The errors of parts are texts.
pub fn is_own_lack_of_memory(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
}

/// The error of a text that begins with the mark. Values that a client sent stand in the middle of texts only.
fn marked(text: &str) -> Option<QueryError> {
    error_from_bytes(&BASE64_STANDARD_NO_PAD.decode(text.strip_prefix(MARK)?).ok()?)
}

/// The innermost cause of an error, below the layers that datafusion-distributed has put around it.
enum Innermost<'a> {
    Text(&'a str),
    Status(&'a Status),
    Other,
}

fn innermost(error: &DataFusionError) -> Innermost<'_> {
    match error {
        DataFusionError::Execution(text) => Innermost::Text(text),
        DataFusionError::Shared(inner) => innermost(inner),
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => innermost(inner),
        DataFusionError::Collection(all) => all.first().map_or(Innermost::Other, innermost),
        DataFusionError::External(inner) => innermost_of(inner.as_ref()),
        DataFusionError::ArrowError(inner, _) => innermost_of(inner.as_ref()),
        _ => Innermost::Other,
    }
}

fn innermost_of<'a>(error: &'a (dyn Error + 'static)) -> Innermost<'a> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(status) = error.downcast_ref::<Status>() {
            return Innermost::Status(status);
        }
        if let Some(inner) = error.downcast_ref::<DataFusionError>() {
            return innermost(inner);
        }
        cause = error.source();
    }
    Innermost::Other
}

/// The error of a node that can do no part of a query now; the node that asks does without it.
pub fn not_ready(own: &NodeId) -> QueryError {
    not_reached(own, "it is starting or stopping")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn an_error_is_the_same_after_any_number_of_hops() {
        let error = QueryError::new(ErrorKind::ResourcesExhausted, "too much: a/b+c=").hint("less");
        let sent = to_text(to_text(error.clone().into()));
        // datafusion-distributed wraps the error on its way.
        let text = sent.to_string();
        let arrived = DataFusionError::Shared(Arc::new(sent.context("stage 3")));
        let found = from_any(DataFusionError::External(Box::new(arrived)));
        assert_eq!((found.kind, found.message, found.hint), (error.kind, error.message, error.hint));
        // A value that a client has sent is no error of a node.
        let forged = from_any(DataFusionError::Execution(format!("cannot cast '{text}'")));
        assert_ne!(forged.kind, error.kind);
    }

    #[test]
    fn lack_of_memory_is_of_this_node_or_of_a_part() {
        let lack = || DataFusionError::ResourcesExhausted("no more".to_owned());
        let shared = DataFusionError::Shared(Arc::new(lack()));
        for own in [lack(), lack().context("sort"), shared.context("repartition")] {
            assert!(is_own_lack_of_memory(&own), "{own}");
            assert_eq!(from_any(own).kind, ErrorKind::ResourcesExhausted);
        }
        let of_part = to_text(lack()).context("stage 1");
        assert!(!is_own_lack_of_memory(&of_part), "{of_part}");
        assert_eq!(from_any(of_part).kind, ErrorKind::ResourcesExhausted);
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
