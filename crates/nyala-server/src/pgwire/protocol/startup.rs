//! The first bytes of a connection: encryption requests, cancel requests, the start-up message.
//!
//! ```text
//! ┌────────────┬──────────┬───────────────────────────┐
//! │ length 4 B │ code 4 B │ name\0 value\0 … \0       │
//! └────────────┴──────────┴───────────────────────────┘
//! ```

use std::collections::BTreeMap;

use bytes::{Buf, Bytes};
use nyala_pg::DATABASE;
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::startup::NegotiateProtocolVersion;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::cancel::CancelKey;
use super::listen::Socket;
use super::stream::{Input, Output};
use crate::net::tls::{Stream, Tls};
use crate::pgwire::errors::{Failure, Stop, sqlstate};

const CANCEL_REQUEST: u32 = 80_877_102;
const SSL_REQUEST: u32 = 80_877_103;
const GSS_ENCRYPTION_REQUEST: u32 = 80_877_104;
const PROTOCOL_3_0: u32 = 3 << 16;

/// PostgreSQL's own limit (`MAX_STARTUP_PACKET_LENGTH`).
const MAX_STARTUP_BYTES: usize = 10_000;

/// The purpose of a new connection.
#[derive(Debug)]
pub enum Opening {
    /// To run statements.
    Session(StartupParameters),
    /// To cancel the running statement of another connection.
    Cancel(CancelKey),
}

/// The start-up message.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct StartupParameters {
    pub user: String,
    pub database: String,
    /// All other names and values, `options` taken apart. Later ones win.
    pub settings: Vec<(String, String)>,
}

/// Length and code, which every packet of the start-up phase begins with.
pub type Head = [u8; 8];

/// Agrees on encryption, or on none. Gives the connection and the head of the packet that follows, if that was
/// read already. Connections within the machine are not encrypted.
///
/// Not a byte beyond a request is read before encryption begins: bytes that an attacker on the way has put there
/// must never be taken for encrypted ones (CVE-2021-23222).
///
/// # Errors
/// [`Stop::Gone`] when the client leaves.
pub async fn encrypt(socket: Socket, tls: Option<&Tls>) -> Result<(Stream, Option<Head>), Stop> {
    match socket {
        Socket::Network(mut socket) => {
            let head = agree(&mut socket, tls.is_some()).await?;
            let stream = match (tls, head) {
                (Some(tls), None) => tls.open(socket),
                _ => Stream::Plain(socket),
            };
            Ok((stream, head))
        }
        Socket::Local(mut socket) => {
            let head = agree(&mut socket, false).await?;
            Ok((Stream::Local(socket), head))
        }
    }
}

/// Gives the head of the first packet that does not ask for encryption; none if encryption was asked for and is offered.
async fn agree(
    socket: &mut (impl AsyncRead + AsyncWrite + Unpin),
    offered: bool,
) -> Result<Option<Head>, Stop> {
    loop {
        let mut head = Head::default();
        socket.read_exact(&mut head).await?;
        match u64::from_be_bytes(head) as u32 {
            SSL_REQUEST if offered => {
                socket.write_all(b"S").await?;
                return Ok(None);
            }
            // One byte, not a message: encryption is not offered. The client then goes on in plain text, or leaves.
            SSL_REQUEST | GSS_ENCRYPTION_REQUEST => socket.write_all(b"N").await?,
            _ => return Ok(Some(head)),
        }
    }
}

/// Reads the purpose of the connection.
///
/// # Errors
/// Bytes that are no start-up message. They are logged by the caller, and the connection is closed.
pub async fn open(input: &mut Input, output: &mut Output) -> Result<Opening, Stop> {
    let (code, mut body) = packet(input).await?;
    match code {
        CANCEL_REQUEST => {
            let (Ok(process_id), Ok(secret)) = (body.try_get_i32(), body.try_get_i32()) else {
                return Err(Failure::protocol("malformed cancel request").into());
            };
            Ok(Opening::Cancel(CancelKey { process_id, secret }))
        }
        version if version >> 16 == 3 => {
            let pairs = pairs(&body)?;
            negotiate(version, &pairs, output)?;
            Ok(Opening::Session(parameters(pairs)?))
        }
        other => Err(unsupported(other).into()),
    }
}

async fn packet(input: &mut Input) -> Result<(u32, Bytes), Stop> {
    let mut header = &input.peek(8).await?[..];
    let length = header.get_u32() as usize;
    if !(8..=MAX_STARTUP_BYTES).contains(&length) {
        return Err(Failure::protocol(format!("invalid length `{length}` of the start-up packet")).into());
    }
    let mut packet = input.peek(length).await?.split_to(length);
    packet.advance(4);
    let code = packet.get_u32();
    Ok((code, packet.freeze()))
}

fn unsupported(code: u32) -> Failure {
    let message = format!("protocol version {}.{} is not supported", code >> 16, code & 0xffff);
    Failure::fatal(sqlstate::FEATURE_NOT_SUPPORTED, message).hint("use protocol version 3.0")
}

fn pairs(body: &[u8]) -> Result<BTreeMap<String, String>, Failure> {
    let malformed = || Failure::protocol("malformed start-up packet");
    let body = body.strip_suffix(b"\0").ok_or_else(malformed)?;
    let mut pairs = BTreeMap::new();
    let mut texts = body.split_inclusive(|byte| *byte == 0).map(|text| {
        let text = text.strip_suffix(b"\0").ok_or_else(malformed)?;
        std::str::from_utf8(text).map(str::to_owned).map_err(|_| malformed())
    });
    while let Some(name) = texts.next() {
        let value = texts.next().ok_or_else(malformed)??;
        pairs.insert(name?, value);
    }
    Ok(pairs)
}

/// Tells a client that asked for a newer minor version, or for protocol options, the version that it gets.
fn negotiate(version: u32, pairs: &BTreeMap<String, String>, output: &mut Output) -> Result<(), Stop> {
    let unknown: Vec<String> = pairs.keys().filter(|name| name.starts_with("_pq_.")).cloned().collect();
    if version == PROTOCOL_3_0 && unknown.is_empty() {
        return Ok(());
    }
    let newest = i32::try_from(PROTOCOL_3_0).unwrap_or(i32::MAX);
    output
        .put(&PgWireBackendMessage::NegotiateProtocolVersion(NegotiateProtocolVersion::new(newest, unknown)))
}

fn parameters(mut pairs: BTreeMap<String, String>) -> Result<StartupParameters, Failure> {
    let user = pairs.remove("user").filter(|user| !user.is_empty()).ok_or_else(|| {
        Failure::fatal(sqlstate::INVALID_AUTHORIZATION, "no user name is given in the start-up packet")
    })?;
    if pairs.remove("replication").is_some_and(|mode| !matches!(mode.as_str(), "false" | "off" | "no" | "0"))
    {
        return Err(Failure::fatal(sqlstate::FEATURE_NOT_SUPPORTED, "replication is not supported"));
    }
    // PostgreSQL takes the user's name here; there is one database.
    let database = pairs.remove("database").unwrap_or_else(|| DATABASE.to_owned());
    let options = pairs.remove("options").unwrap_or_default();
    let mut settings: Vec<_> = pairs.into_iter().filter(|(name, _)| !name.starts_with("_pq_.")).collect();
    settings.extend(command_line(&options)?);
    Ok(StartupParameters { user, database, settings })
}

/// The parameters in the body of a start-up message.
#[cfg(test)]
pub fn parse(body: &[u8]) -> Result<StartupParameters, Failure> {
    pairs(body).and_then(parameters)
}

/// Takes `-c name=value` and `--name=value` apart. A backslash keeps the blank after it.
fn command_line(options: &str) -> Result<Vec<(String, String)>, Failure> {
    let mut settings = Vec::new();
    let mut words = words(options).into_iter();
    while let Some(word) = words.next() {
        let assignment = match word.strip_prefix("--") {
            Some(assignment) => Some(assignment.replace('-', "_")),
            None if word == "-c" => words.next(),
            None => word.strip_prefix("-c").map(str::to_owned),
        };
        let pair = assignment.as_deref().and_then(|text| text.split_once('='));
        let (name, value) = pair.ok_or_else(|| {
            let message = format!("invalid command-line option `{word}` in `options`");
            Failure::fatal(sqlstate::SYNTAX_ERROR, message).hint("write `-c name=value`")
        })?;
        settings.push((name.to_owned(), value.to_owned()));
    }
    Ok(settings)
}

fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        let kept = match letter {
            '\\' => letters.next(),
            letter if letter.is_whitespace() => None,
            letter => Some(letter),
        };
        match (kept, words.last_mut()) {
            (Some(letter), Some(word)) => word.push(letter),
            _ => words.push(String::new()),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
    use super::*;

    #[test]
    fn the_start_up_message_is_taken_apart() {
        let body = b"user\0ann\0options\0-c search_path=a\\ b --statement-timeout=5s\0\0";
        let startup = parameters(pairs(body).unwrap()).unwrap();
        assert_eq!((startup.user.as_str(), startup.database.as_str()), ("ann", DATABASE));
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(startup.settings, [pair("search_path", "a b"), pair("statement_timeout", "5s")]);
    }

    #[test]
    fn malformed_start_up_messages_are_errors() {
        for body in [&b""[..], b"user", b"user\0", b"user\0ann", b"user\0ann\0x\0\0", b"\xff\0a\0\0"] {
            let startup = parse(body);
            assert!(startup.is_err(), "{body:?} gave {startup:?}");
        }
        assert!(command_line("-c").is_err());
        assert!(command_line("nonsense").is_err());
    }
}
