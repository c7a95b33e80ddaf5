//! Metrics of calls by command and gRPC code, and of sessions.

use std::pin::Pin;
use std::task::{Context, Poll};

use arrow_flight::sql::Command;
use futures::{Stream, StreamExt};
use tonic::{Code, Response, Status};

use super::stream::Flow;

const CALLS: &str = "nyala_flight_calls_total";
const SESSIONS: &str = "nyala_flight_sessions";
/// Names that a client invents are counted together: each one would stay in memory.
const OTHER: &str = "other";
/// The label `command` of calls without a command.
pub const NO_COMMAND: &str = "";
/// The calls of the protocol.
const NAMES: [&str; 10] = [
    "Handshake",
    "ListFlights",
    "GetFlightInfo",
    "PollFlightInfo",
    "GetSchema",
    "DoGet",
    "DoPut",
    "DoExchange",
    "DoAction",
    "ListActions",
];

/// Describes the metrics.
pub fn describe() {
    ::metrics::describe_counter!(CALLS, "Calls of Flight SQL by command and code.");
    ::metrics::describe_gauge!(SESSIONS, "Sessions of Flight SQL clients.");
}

/// A call, counted when it is over.
#[derive(Debug)]
pub struct Call {
    name: &'static str,
    command: &'static str,
    /// None until the answer ends; it stays none if the client leaves before.
    code: Option<Code>,
}

impl Call {
    pub fn begin(name: &'static str, command: &'static str) -> Self {
        Self { name, command, code: None }
    }

    /// A call with a command, if it could be read.
    pub fn of(name: &'static str, command: &Result<Command, Status>) -> Self {
        Self::begin(name, command.as_ref().map_or(OTHER, name_of))
    }

    /// Notes the code of a call with a single answer, and gives the answer.
    pub fn answered<T>(mut self, answer: Result<T, Status>) -> Result<Response<T>, Status> {
        self.code = Some(answer.as_ref().map_or_else(Status::code, |_| Code::Ok));
        answer.map(Response::new)
    }

    /// The messages of an answer, which note the code of the call when they end.
    pub fn streamed<T: 'static>(
        self,
        answer: Result<Response<Flow<T>>, Status>,
    ) -> Result<Response<Flow<T>>, Status> {
        match answer {
            Ok(answer) => Ok(answer.map(|messages| Counted { messages, call: self }.boxed())),
            Err(status) => Err(self.refused(status)),
        }
    }

    /// Notes the code of a refused call, and gives its status.
    pub fn refused(mut self, status: Status) -> Status {
        self.code = Some(status.code());
        status
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let code = name_of_code(self.code.unwrap_or(Code::Cancelled));
        ::metrics::counter!(CALLS, "call" => self.name, "code" => code, "command" => self.command)
            .increment(1);
    }
}

/// The messages of an answer, which tell how the call ends.
struct Counted<T> {
    messages: Flow<T>,
    call: Call,
}

impl<T> Stream for Counted<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.messages.poll_next_unpin(context);
        let code = match &next {
            Poll::Ready(None) => Some(Code::Ok),
            Poll::Ready(Some(Err(status))) => Some(status.code()),
            Poll::Ready(Some(Ok(_))) | Poll::Pending => None,
        };
        // The stream ends after an error, and the end must not replace the code of the error.
        self.call.code = self.call.code.or(code);
        next
    }
}

/// A session, counted while there is one.
#[derive(Debug)]
pub struct OpenSession(());

impl OpenSession {
    pub fn count() -> Self {
        ::metrics::gauge!(SESSIONS).increment(1.0);
        Self(())
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        ::metrics::gauge!(SESSIONS).decrement(1.0);
    }
}

/// The call that the path of a request names.
pub fn name_of_path(path: &str) -> &'static str {
    known(&NAMES, path.rsplit('/').next().unwrap_or_default())
}

/// The name if it is one of `names`, otherwise [`OTHER`].
pub fn known(names: &[&'static str], name: &str) -> &'static str {
    names.iter().copied().find(|known| *known == name).unwrap_or(OTHER)
}

fn name_of(command: &Command) -> &'static str {
    match command {
        Command::CommandGetCatalogs(_) => "GetCatalogs",
        Command::CommandGetCrossReference(_) => "GetCrossReference",
        Command::CommandGetDbSchemas(_) => "GetDbSchemas",
        Command::CommandGetExportedKeys(_) => "GetExportedKeys",
        Command::CommandGetImportedKeys(_) => "GetImportedKeys",
        Command::CommandGetPrimaryKeys(_) => "GetPrimaryKeys",
        Command::CommandGetSqlInfo(_) => "GetSqlInfo",
        Command::CommandGetTableTypes(_) => "GetTableTypes",
        Command::CommandGetTables(_) => "GetTables",
        Command::CommandGetXdbcTypeInfo(_) => "GetXdbcTypeInfo",
        Command::CommandPreparedStatementQuery(_) => "PreparedStatementQuery",
        Command::CommandPreparedStatementUpdate(_) => "PreparedStatementUpdate",
        Command::CommandStatementIngest(_) => "StatementIngest",
        Command::CommandStatementQuery(_) | Command::TicketStatementQuery(_) => "StatementQuery",
        Command::CommandStatementUpdate(_) => "StatementUpdate",
        _ => OTHER,
    }
}

/// The name of a code in the gRPC specification.
fn name_of_code(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use futures::{FutureExt, stream};

    use super::*;

    /// The gRPC code that is counted for a call when its client reads only the first `read` messages of the answer.
    fn code_of(messages: Vec<Result<u8, Status>>, read: usize) -> Option<Code> {
        let call = Call::begin("DoGet", NO_COMMAND);
        let mut counted = Counted { messages: stream::iter(messages).boxed(), call };
        for _ in 0..read {
            let _ = counted.next().now_or_never().unwrap();
        }
        counted.call.code
    }

    #[test]
    fn an_answer_ends_with_its_end_its_error_or_its_client() {
        assert_eq!(code_of(vec![Ok(1), Ok(2)], 3), Some(Code::Ok));
        assert_eq!(code_of(vec![Ok(1), Ok(2)], 2), None);
        let failed = || vec![Ok(1), Err(Status::not_found("gone"))];
        assert_eq!(code_of(failed(), 2), Some(Code::NotFound));
        assert_eq!(code_of(failed(), 3), Some(Code::NotFound));
    }

    #[test]
    fn names_that_clients_invent_are_counted_together() {
        assert_eq!(name_of_path("/arrow.flight.protocol.FlightService/DoPut"), "DoPut");
        for path in ["/arrow.flight.protocol.FlightService/DoHarm", "/", ""] {
            assert_eq!(name_of_path(path), OTHER);
        }
        assert_eq!(Call::of("DoGet", &Err(Status::invalid_argument("none"))).command, OTHER);
    }
}
