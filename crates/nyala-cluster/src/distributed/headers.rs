//! The statement that a part of a query belongs to, as headers of each request to an executor.

use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use nyala_engine::{CostClass, ErrorKind, QueryError, StatementPart};
use nyala_model::{NodeId, SnapshotVersion};
use prost::Message;
use tonic::codegen::http::{HeaderMap, HeaderValue};

use crate::statement::{ClientMessage, SettingMessage};

const STATEMENT: &str = "nyala-statement";
/// Header of the cost class of the statement, which decides the threads before anything else is read.
const CLASS: &str = "nyala-class";
/// Longest text of a statement that is sent along, in bytes: it is for lists only.
const TEXT_BYTES: usize = 1024;

#[derive(Clone, PartialEq, Message)]
struct PartMessage {
    #[prost(string, tag = "1")]
    node: String,
    #[prost(uint64, tag = "2")]
    query_id: u64,
    #[prost(string, tag = "3")]
    text: String,
    #[prost(message, optional, tag = "4")]
    client: Option<ClientMessage>,
    #[prost(message, repeated, tag = "5")]
    settings: Vec<SettingMessage>,
    #[prost(uint64, tag = "6")]
    version: u64,
    #[prost(uint64, tag = "7")]
    begun_ms: u64,
    #[prost(string, tag = "8")]
    program: String,
}

const CLASSES: [(CostClass, &str); 4] = [
    (CostClass::Small, "small"),
    (CostClass::Joins, "joins"),
    (CostClass::Short, "short"),
    (CostClass::Long, "long"),
];

/// The headers of requests for a statement.
///
/// # Errors
/// Never: what is written is text without control characters.
pub fn write(part: StatementPart) -> Result<HeaderMap, QueryError> {
    let mut text = part.text;
    text.truncate(text.floor_char_boundary(TEXT_BYTES));
    let message = PartMessage {
        node: part.node.0,
        query_id: part.query_id,
        text,
        client: Some(part.options.into()),
        settings: part.settings.into_iter().map(SettingMessage::from).collect(),
        version: part.version.0,
        begun_ms: part.begun_ms,
        program: part.program,
    };
    let value = BASE64_STANDARD_NO_PAD.encode(message.encode_to_vec());
    let value = HeaderValue::from_str(&value).map_err(QueryError::internal)?;
    let mut headers = HeaderMap::new();
    headers.insert(STATEMENT, value);
    let class = CLASSES.iter().find(|(class, _)| *class == part.class);
    headers.insert(CLASS, HeaderValue::from_static(class.map_or("long", |(_, name)| name)));
    Ok(headers)
}

/// The headers that a node sends on to others.
pub fn sent_on(headers: &HeaderMap) -> HeaderMap {
    let own = [STATEMENT, CLASS].into_iter();
    own.filter_map(|name| Some((name.parse().ok()?, headers.get(name)?.clone()))).collect()
}

/// The cost class of a request; a request that names none counts as long.
pub fn class_of(headers: &HeaderMap) -> CostClass {
    let name = headers.get(CLASS).and_then(|value| value.to_str().ok());
    CLASSES.iter().find(|(_, known)| Some(*known) == name).map_or(CostClass::Long, |(class, _)| *class)
}

/// The statement of a request.
///
/// # Errors
/// The request names no statement.
pub fn read(headers: &HeaderMap) -> Result<StatementPart, QueryError> {
    let bytes = headers.get(STATEMENT).and_then(|value| BASE64_STANDARD_NO_PAD.decode(value).ok());
    let message = bytes.and_then(|bytes| PartMessage::decode(bytes.as_slice()).ok());
    let named = message.and_then(|mut message| Some((message.client.take()?, message)));
    let (client, message) = named.ok_or_else(|| {
        QueryError::new(ErrorKind::Internal, "another node sent a part of a query without its statement")
    })?;
    Ok(StatementPart {
        node: NodeId(message.node),
        program: message.program,
        query_id: message.query_id,
        begun_ms: message.begun_ms,
        text: message.text,
        class: class_of(headers),
        options: client.into(),
        settings: message.settings.into_iter().map(Into::into).collect(),
        version: SnapshotVersion(message.version),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use nyala_engine::{Identity, SessionOptions};

    use super::*;

    #[test]
    fn a_statement_arrives_as_it_was() {
        let part = StatementPart {
            node: NodeId("n1".to_owned()),
            program: "0.0.9".to_owned(),
            query_id: 7,
            begun_ms: 1_700_000_000_000,
            text: "SELECT 'ü\n'".to_owned(),
            class: CostClass::Short,
            options: SessionOptions {
                user: "ada".to_owned(),
                identity: Identity::Role("ada".to_owned()),
                ..SessionOptions::default()
            },
            settings: vec![("timezone".to_owned(), "Europe/Berlin".to_owned())],
            version: SnapshotVersion(12),
        };
        let headers = write(part.clone()).unwrap();
        let arrived = read(&sent_on(&headers)).unwrap();
        let parts = |part: &StatementPart| {
            let StatementPart { node, program, query_id, text, class, settings, version, .. } = part.clone();
            (node, program, query_id, text, class, settings, version, part.options.user.clone())
        };
        assert_eq!(parts(&arrived), parts(&part));
        assert_eq!(arrived.options.identity, part.options.identity);
        assert!(read(&HeaderMap::new()).is_err());
    }
}
