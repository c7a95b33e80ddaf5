//! Failures as gRPC clients see them: a code, and a message with SQLSTATE and the next step.

use arrow::error::ArrowError;
use nyala_engine::{ErrorKind, QueryError};
use tonic::{Code, Status};

use crate::pgwire::sqlstate_of;

/// A message is a header, and clients take few kilobytes of headers.
const MAX_MESSAGE_BYTES: usize = 4096;
/// Most bytes that an error repeats of a name from a client.
const MAX_WORD_BYTES: usize = 100;

/// The status of a failed statement. Drivers show the message only, so SQLSTATE and hint are in it.
pub fn status(error: &QueryError) -> Status {
    let hint = error.hint.as_deref().map(|hint| format!("; {hint}")).unwrap_or_default();
    let mut message = format!("{} [{}]{hint}", error.message, sqlstate_of(error));
    message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
    Status::new(code_of(error), message)
}

/// The outcome of a statement, with its error as a status.
pub fn refused<T>(outcome: Result<T, QueryError>) -> Result<T, Status> {
    outcome.map_err(|error| status(&error))
}

/// The beginning of a name from a client, as much as an error repeats.
pub fn beginning(name: &str) -> &str {
    name.get(..name.floor_char_boundary(MAX_WORD_BYTES)).unwrap_or_default()
}

/// The status of an answer that Arrow cannot write.
pub fn unwritable(error: ArrowError) -> Status {
    Status::internal(format!("the answer cannot be written: {error}"))
}

fn code_of(error: &QueryError) -> Code {
    match error.kind {
        ErrorKind::PermissionDenied => Code::PermissionDenied,
        ErrorKind::Cancelled => Code::Cancelled,
        ErrorKind::Timeout => Code::DeadlineExceeded,
        ErrorKind::ResourcesExhausted | ErrorKind::TooManyQueries | ErrorKind::DiskFull => {
            Code::ResourceExhausted
        }
        ErrorKind::UndefinedTable | ErrorKind::UndefinedColumn | ErrorKind::UndefinedObject => Code::NotFound,
        ErrorKind::DuplicateTable | ErrorKind::DuplicateSchema | ErrorKind::DuplicateObject => {
            Code::AlreadyExists
        }
        ErrorKind::Unsupported => Code::Unimplemented,
        ErrorKind::Changed | ErrorKind::Conflict | ErrorKind::InUse => Code::Aborted,
        ErrorKind::ShuttingDown => Code::Unavailable,
        // Clients may try again after `UNAVAILABLE`, and not after `FAILED_PRECONDITION`: something has to be done first.
        ErrorKind::Unreadable if error.is_unavailable() => Code::Unavailable,
        ErrorKind::Unreadable | ErrorKind::ReadOnly | ErrorKind::Needed | ErrorKind::Gone => {
            Code::FailedPrecondition
        }
        ErrorKind::Unconfirmed => Code::Unknown,
        ErrorKind::Internal | ErrorKind::Corrupt => Code::Internal,
        _ => Code::InvalidArgument,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_sqlstate_and_hint() {
        let error = QueryError::new(ErrorKind::UndefinedTable, "table `t` does not exist").hint("create it");
        let status = status(&error);
        assert_eq!(status.code(), Code::NotFound);
        assert_eq!(status.message(), "table `t` does not exist [42P01]; create it");
    }

    #[test]
    fn what_the_client_is_not_to_blame_for_is_no_invalid_argument() {
        let check = |error: QueryError, code| assert_eq!(status(&error).code(), code, "{:?}", error.kind);
        let unreadable = || QueryError::new(ErrorKind::Unreadable, "m");
        check(unreadable(), Code::FailedPrecondition);
        check(QueryError { transient: true, ..unreadable() }, Code::Unavailable);
        check(QueryError::new(ErrorKind::ReadOnly, "m"), Code::FailedPrecondition);
        check(QueryError::new(ErrorKind::Needed, "m"), Code::FailedPrecondition);
        check(QueryError { transient: true, ..QueryError::new(ErrorKind::Changed, "m") }, Code::Aborted);
        check(QueryError::new(ErrorKind::Data, "m"), Code::InvalidArgument);
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let error = QueryError::new(ErrorKind::Data, "ü".repeat(MAX_MESSAGE_BYTES));
        assert!(status(&error).message().len() <= MAX_MESSAGE_BYTES);
    }
}
