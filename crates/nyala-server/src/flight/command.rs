//! Commands of Flight SQL: what a call asks for, in its descriptor, its ticket or the body of its action.

use std::pin::Pin;

use arrow_flight::FlightData;
use arrow_flight::sql::{Any, Command};
use bytes::Bytes;
use futures::stream::{BoxStream, Peekable};
use nyala_engine::{ErrorKind, QueryError};
use prost::Message;
use tonic::Status;

use super::error::{beginning, status};

/// Messages that a client sends.
pub type Received = Peekable<BoxStream<'static, Result<FlightData, Status>>>;

/// Reads a command.
///
/// # Errors
/// The bytes are no command.
pub fn read(bytes: &Bytes) -> Result<Command, Status> {
    let any = Any::decode(bytes.clone()).map_err(|error| {
        Status::invalid_argument(format!("the call holds no command of Flight SQL: {error}"))
    })?;
    Command::try_from(any)
        .map_err(|error| Status::invalid_argument(format!("the command of the call is damaged: {error}")))
}

/// The command of the first message, which stays in the stream.
///
/// # Errors
/// The first message has no command.
pub async fn of_first(messages: &mut Received) -> Result<Command, Status> {
    let descriptor = match Pin::new(messages).peek().await {
        Some(Ok(first)) => first.flight_descriptor.as_ref(),
        Some(Err(error)) => return Err(error.clone()),
        None => None,
    };
    match descriptor {
        Some(descriptor) => read(&descriptor.cmd),
        None => Err(Status::invalid_argument("DoPut: the first message must name a command of Flight SQL")),
    }
}

/// The command, if it asks for no transaction.
///
/// # Errors
/// The command could not be read, or names a transaction: Nyala has none.
pub fn without_transaction(command: Result<Command, Status>) -> Result<Command, Status> {
    let command = command?;
    let transaction = match &command {
        Command::CommandStatementQuery(query) => &query.transaction_id,
        Command::CommandStatementUpdate(update) => &update.transaction_id,
        Command::CommandStatementIngest(ingest) => &ingest.transaction_id,
        Command::ActionCreatePreparedStatementRequest(request) => &request.transaction_id,
        _ => return Ok(command),
    };
    match transaction.as_ref().is_none_or(Bytes::is_empty) {
        true => Ok(command),
        false => Err(no_transactions()),
    }
}

/// The error for a client that wants a transaction.
pub fn no_transactions() -> Status {
    let message = "there are no transactions over Flight SQL";
    let hint = "send no `transaction_id`: each statement is a transaction of its own";
    status(&QueryError::new(ErrorKind::Unsupported, message).hint(hint))
}

/// The error for a command that is not for this call, or that Nyala does not have.
pub fn not_for(call: &str, command: &Command) -> Status {
    let url = command.type_url();
    let name = url.rsplit('.').next().unwrap_or(url);
    Status::unimplemented(format!("{call} does not answer to `{}`", beginning(name)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow_flight::FlightDescriptor;
    use arrow_flight::sql::{
        ActionCreatePreparedStatementRequest, CommandGetCatalogs, CommandStatementIngest,
        CommandStatementQuery, CommandStatementUpdate, ProstMessageExt,
    };
    use futures::{FutureExt, StreamExt, stream};
    use tonic::Code;

    use super::*;

    fn update() -> Bytes {
        let command = CommandStatementUpdate { query: "DELETE FROM t".to_owned(), transaction_id: None };
        command.as_any().encode_to_vec().into()
    }

    #[test]
    fn what_is_no_command_is_the_fault_of_the_client() {
        assert_eq!(read(&Bytes::from_static(b"\xff\xff")).unwrap_err().code(), Code::InvalidArgument);
        let damaged = Any { value: Bytes::from_static(b"\xff"), ..CommandGetCatalogs {}.as_any() };
        let error = read(&damaged.encode_to_vec().into()).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
        let other = Any { type_url: "type.googleapis.com/a.b.Other".to_owned(), value: Bytes::new() };
        let other = read(&other.encode_to_vec().into()).unwrap();
        assert_eq!(not_for("DoGet", &other).message(), "DoGet does not answer to `Other`");
    }

    #[test]
    fn commands_of_transactions_are_refused() {
        let commands = |transaction_id: Option<Bytes>| {
            let query = "SELECT 1".to_owned();
            let (id, sql) = (|| transaction_id.clone(), || query.clone());
            [
                Command::CommandStatementQuery(CommandStatementQuery { query: sql(), transaction_id: id() }),
                Command::CommandStatementUpdate(CommandStatementUpdate {
                    query: sql(),
                    transaction_id: id(),
                }),
                Command::CommandStatementIngest(CommandStatementIngest {
                    transaction_id: id(),
                    ..CommandStatementIngest::default()
                }),
                Command::ActionCreatePreparedStatementRequest(ActionCreatePreparedStatementRequest {
                    query: sql(),
                    transaction_id: id(),
                }),
            ]
        };
        for command in commands(Some(Bytes::from_static(b"1"))) {
            let error = without_transaction(Ok(command)).unwrap_err();
            assert_eq!(error.code(), Code::Unimplemented, "{error}");
            assert!(error.message().contains("no transactions") && error.message().contains("[0A000]"));
        }
        // Some clients send the field without a value.
        for command in commands(None).into_iter().chain(commands(Some(Bytes::new()))) {
            assert!(without_transaction(Ok(command)).is_ok());
        }
    }

    #[test]
    fn the_first_message_names_the_command_and_stays() {
        let first = FlightData::new().with_descriptor(FlightDescriptor::new_cmd(update()));
        let mut messages: Received = stream::iter([Ok(first)]).boxed().peekable();
        let command = of_first(&mut messages).now_or_never().unwrap().unwrap();
        assert!(matches!(command, Command::CommandStatementUpdate(_)));
        assert!(messages.next().now_or_never().unwrap().is_some());
        for message in [None, Some(Ok(FlightData::new()))] {
            let mut messages: Received = stream::iter(message).boxed().peekable();
            let error = of_first(&mut messages).now_or_never().unwrap().unwrap_err();
            assert!(error.message().contains("first message"), "{error}");
        }
    }
}
