//! Messages of the protocol, as far as a load has to read them: rows are counted in the receive buffer. A client that
//! decodes their values would cost more CPU time than many servers, on the same machine.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, BytesMut};
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::{
    BIND_COMPLETE_TAG, COMMAND_COMPLETE_TAG, DATA_ROW_TAG, EMPTY_QUERY_RESPONSE_TAG, ERROR_RESPONSE_TAG,
    ErrorFields, Header, Message, NO_DATA_TAG, NOTICE_RESPONSE_TAG, NOTIFICATION_RESPONSE_TAG,
    PARAMETER_DESCRIPTION_TAG, PARAMETER_STATUS_TAG, PARSE_COMPLETE_TAG, READY_FOR_QUERY_TAG,
    ROW_DESCRIPTION_TAG,
};
use postgres_protocol::message::frontend;
use postgres_protocol::{IsNull, Oid};
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio_postgres::types::Type;

use super::login::Socket;
use super::{Answer, Failure, same_width};
use crate::bench::workload::Value;

/// Bytes that are read at a time.
const READ_BYTES: usize = 64 << 10;

thread_local! {
    /// The bytes just received. Waiting clients have no receive buffer of their own: a thousand buffers would fit no processor's
    /// cache, and would take time from the server that fewer clients do not.
    static JUST_RECEIVED: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);

    /// The send buffer of the next client, shared for the same reason.
    static SPARE: RefCell<BytesMut> = RefCell::new(BytesMut::new());
}

/// Tag and length, in front of every message.
const HEADER_BYTES: usize = 5;
/// Format code of values and columns; the other code is text.
const BINARY: i16 = 1;

/// A connection that runs one statement at a time.
pub struct Wire {
    socket: Socket,
    /// The start of a message that the server has not sent completely yet.
    begun: BytesMut,
    /// The messages to send.
    asked: BytesMut,
}

/// The parts of an answer received so far.
#[derive(Default)]
struct Reading {
    columns: Option<usize>,
    rows: u64,
    refused: Option<String>,
}

impl Wire {
    pub fn new(socket: Socket) -> Self {
        Self { socket, begun: BytesMut::new(), asked: BytesMut::new() }
    }

    /// Runs a text with literal values. Here and below, text and values are dropped before the wait for the answer.
    pub async fn simple(&mut self, text: String) -> Result<Answer, Failure> {
        self.ask(|out| frontend::query(&text, out))?;
        drop(text);
        self.answer(None).await
    }

    /// Runs a text with its values sent separately.
    pub async fn extended(&mut self, text: &str, values: Vec<Value>) -> Result<Answer, Failure> {
        self.ask(|out| {
            frontend::parse("", text, values.iter().map(type_of), out)?;
            bind("", &values, out)?;
            frontend::describe(b'P', "", out)?;
            frontend::execute("", 0, out)?;
            frontend::sync(out);
            Ok(())
        })?;
        drop(values);
        self.answer(None).await
    }

    /// Prepares a text for values like these; gives the number of its columns.
    pub async fn prepare(&mut self, name: &str, text: &str, values: &[Value]) -> Result<usize, Failure> {
        self.ask(|out| {
            frontend::parse(name, text, values.iter().map(type_of), out)?;
            frontend::describe(b'S', name, out)?;
            frontend::sync(out);
            Ok(())
        })?;
        Ok(self.answer(None).await?.columns.unwrap_or_default())
    }

    /// Runs a prepared statement that has so many columns.
    pub async fn prepared(
        &mut self,
        name: &str,
        columns: usize,
        values: Vec<Value>,
    ) -> Result<Answer, Failure> {
        self.ask(|out| {
            bind(name, &values, out)?;
            frontend::execute("", 0, out)?;
            frontend::sync(out);
            Ok(())
        })?;
        drop(values);
        self.answer(Some(columns)).await
    }

    /// Encodes the messages to send; refuses values that the protocol cannot express, such as a text with a zero byte.
    fn ask(&mut self, say: impl FnOnce(&mut BytesMut) -> io::Result<()>) -> Result<(), Failure> {
        if self.asked.capacity() == 0 {
            self.asked = SPARE.take();
        }
        self.asked.clear();
        say(&mut self.asked).map_err(|error| Failure::Refused(format!("it cannot be sent: {error}")))
    }

    /// Sends the encoded messages, and reads until the server waits for more.
    async fn answer(&mut self, columns: Option<usize>) -> Result<Answer, Failure> {
        let broken = |error: io::Error| Failure::Broken(error.to_string());
        self.socket.write_all(&self.asked).await.map_err(broken)?;
        self.socket.flush().await.map_err(broken)?;
        SPARE.set(std::mem::take(&mut self.asked));
        let mut reading = Reading { columns, ..Reading::default() };
        while !poll_fn(|context| self.receive(context, &mut reading)).await? {}
        match reading.refused {
            Some(reason) => Err(Failure::Refused(reason)),
            None => Ok(Answer { columns: reading.columns, rows: reading.rows }),
        }
    }
}

impl Wire {
    /// Receives once; true at the end of the answer.
    fn receive(&mut self, context: &mut Context<'_>, reading: &mut Reading) -> Poll<Result<bool, Failure>> {
        JUST_RECEIVED.with_borrow_mut(|room| {
            let mut received = ReadBuf::new(room);
            if let Err(error) = ready!(Pin::new(&mut self.socket).poll_read(context, &mut received)) {
                return Poll::Ready(Err(Failure::Broken(error.to_string())));
            }
            Poll::Ready(match received.filled() {
                [] => Err(Failure::Broken("the server closed the connection".to_owned())),
                filled => reading.take_in(&mut self.begun, filled),
            })
        })
    }
}

impl Reading {
    /// Reads the `received` bytes, which continue the message in `begun`; true at the end of the answer.
    fn take_in(&mut self, begun: &mut BytesMut, received: &[u8]) -> Result<bool, Failure> {
        if begun.is_empty() {
            let (taken, ended) = self.take_from(received)?;
            begun.extend_from_slice(received.get(taken..).unwrap_or_default());
            return Ok(ended);
        }
        begun.extend_from_slice(received);
        let (taken, ended) = self.take_from(begun)?;
        begun.advance(taken);
        Ok(ended)
    }

    /// Reads all complete messages; gives their length in bytes, and whether the answer has ended with them.
    fn take_from(&mut self, received: &[u8]) -> Result<(usize, bool), Failure> {
        let mut at = 0;
        while let Some((tag, message)) = next_message(received.get(at..).unwrap_or_default())? {
            at += message.len();
            if self.take(tag, message)? {
                return Ok((at, true));
            }
        }
        Ok((at, false))
    }

    /// Reads one message; true if the server waits for more.
    fn take(&mut self, tag: u8, message: &[u8]) -> Result<bool, Failure> {
        match tag {
            DATA_ROW_TAG => {
                self.rows += 1;
                same_width(&mut self.columns, number_of_columns(message)?)?;
            }
            ROW_DESCRIPTION_TAG => same_width(&mut self.columns, number_of_columns(message)?)?,
            READY_FOR_QUERY_TAG => return Ok(true),
            ERROR_RESPONSE_TAG => self.refused = Some(refusal(message)?),
            PARSE_COMPLETE_TAG
            | BIND_COMPLETE_TAG
            | COMMAND_COMPLETE_TAG
            | EMPTY_QUERY_RESPONSE_TAG
            | NO_DATA_TAG
            | PARAMETER_DESCRIPTION_TAG
            | NOTICE_RESPONSE_TAG
            | NOTIFICATION_RESPONSE_TAG
            | PARAMETER_STATUS_TAG => {}
            other => {
                let name = other.escape_ascii();
                return Err(Failure::Broken(format!("a message `{name}` in an answer to a query")));
            }
        }
        Ok(false)
    }
}

/// The first message with its tag, if all of it is there.
fn next_message(received: &[u8]) -> Result<Option<(u8, &[u8])>, Failure> {
    let header = Header::parse(received).map_err(|error| Failure::Broken(error.to_string()))?;
    let Some(header) = header else { return Ok(None) };
    let bytes = usize::try_from(header.len()).unwrap_or_default() + 1;
    Ok(received.get(..bytes).map(|message| (header.tag(), message)))
}

/// Number of columns in a DataRow or RowDescription message.
fn number_of_columns(message: &[u8]) -> Result<usize, Failure> {
    let number = message.get(HEADER_BYTES..).and_then(|body| body.first_chunk());
    let number = number.ok_or_else(|| Failure::Broken("a row without a number of columns".to_owned()))?;
    Ok(u16::from_be_bytes(*number).into())
}

/// The text of an error message; an error that closes the connection is a failure.
fn refusal(message: &[u8]) -> Result<String, Failure> {
    let unreadable = |error: io::Error| Failure::Broken(format!("an error that cannot be read: {error}"));
    let Some(Message::ErrorResponse(body)) =
        Message::parse(&mut BytesMut::from(message)).map_err(unreadable)?
    else {
        return Err(Failure::Broken("an error that cannot be read".to_owned()));
    };
    let (severity, text) = severity_and_text(body.fields()).map_err(unreadable)?;
    match severity.as_str() {
        "FATAL" | "PANIC" => Err(Failure::Broken(text)),
        _ => Ok(text),
    }
}

fn severity_and_text(mut fields: ErrorFields<'_>) -> io::Result<(String, String)> {
    let (mut severity, mut text) = (String::new(), String::new());
    while let Some(field) = fields.next()? {
        let value = || String::from_utf8_lossy(field.value_bytes()).into_owned();
        match field.type_() {
            b'S' if severity.is_empty() => severity = value(),
            // The severity again, in English also if the server's messages are translated.
            b'V' => severity = value(),
            b'M' => text = value(),
            _ => {}
        }
    }
    Ok((severity, text))
}

/// Binds a statement's values, to be answered in binary form.
fn bind(statement: &str, values: &[Value], out: &mut BytesMut) -> io::Result<()> {
    let put = |value: &Value, out: &mut BytesMut| {
        match value {
            Value::Integer(number) => out.put_i64(*number),
            Value::Text(text) => out.put_slice(text.as_bytes()),
        }
        Ok(IsNull::No)
    };
    frontend::bind("", statement, [BINARY], values, put, [BINARY], out).map_err(|error| match error {
        frontend::BindError::Conversion(error) => io::Error::other(error),
        frontend::BindError::Serialization(error) => error,
    })
}

fn type_of(value: &Value) -> Oid {
    match value {
        Value::Integer(_) => Type::INT8,
        Value::Text(_) => Type::TEXT,
    }
    .oid()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap();
        [&[tag], length.to_be_bytes().as_slice(), body].concat()
    }

    fn row(columns: u16) -> Vec<u8> {
        let nulls = (-1_i32).to_be_bytes().repeat(columns.into());
        message(b'D', &[columns.to_be_bytes().as_slice(), &nulls].concat())
    }

    /// Reads an answer that arrives in pieces of so many bytes.
    fn read(sent: &[u8], piece: usize) -> Result<(bool, Reading), Failure> {
        let (mut reading, mut begun, mut ended) = (Reading::default(), BytesMut::new(), false);
        for piece in sent.chunks(piece) {
            assert!(!ended, "it ended before all was there");
            ended = reading.take_in(&mut begun, piece)?;
        }
        Ok((ended, reading))
    }

    #[test]
    fn rows_are_counted_however_they_arrive() {
        let rows = row(3).repeat(70);
        let sent =
            [message(b'T', &[0, 3]), rows, message(b'C', b"SELECT 70\0"), message(b'Z', b"I")].concat();
        for piece in [1, 2, 7, 100, sent.len()] {
            let (ended, reading) = read(&sent, piece).unwrap();
            assert!(ended);
            assert_eq!((reading.columns, reading.rows, reading.refused), (Some(3), 70, None), "{piece}");
        }
        let (ended, reading) = read(sent.get(..sent.len() - 1).unwrap(), 9).unwrap();
        assert!(!ended, "the last byte is missing");
        assert_eq!(reading.rows, 70);
    }

    #[test]
    fn an_error_after_rows_is_told_when_the_answer_has_ended() {
        let error = message(b'E', b"SERROR\0VERROR\0C57014\0Mstopped\0\0");
        let (ended, reading) = read(&[row(1), error, message(b'Z', b"I")].concat(), 5).unwrap();
        assert_eq!((ended, reading.refused.as_deref()), (true, Some("stopped")));
    }

    #[test]
    fn what_ends_the_connection_is_told_at_once() {
        let check = |sent: &[u8], words: &str| match read(sent, sent.len()) {
            Err(Failure::Broken(reason)) => assert!(reason.contains(words), "{reason}"),
            _ => panic!("{words}"),
        };
        check(&message(b'E', b"SFATAL\0C57P01\0Mgoing down\0\0"), "going down");
        check(&[row(1), row(2)].concat(), "a row of 2 columns in an answer of 1");
        check(&message(b'D', &[1]), "without a number");
        check(&message(b'G', &[0, 0, 0]), "message `G`");
        check(&[b'D', 0, 0, 0, 1], "length");
        check(&message(b'E', b"no end"), "cannot be read");
    }
}
