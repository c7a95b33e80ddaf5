//! Blocks of remote files that one node's cache has and another's lacks, as actions of Arrow Flight. A node asks for blocks, and gets one
//! with each answer. A node that had to read a block from the store gives it to its home.

use std::sync::Arc;

use arrow_flight::Action;
use arrow_flight::flight_service_client::FlightServiceClient;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use nyala_engine::{Engine, FileId, QueryError, WantedBlocks};
use nyala_model::NodeId;
use prost::Message;
use tonic::transport::Channel;

use crate::statement::{MAX_MESSAGE_BYTES, from_status};

/// The kind of action.
pub const ACTION: &str = "blocks";

/// The kind of action that gives a block.
pub const GIVE: &str = "give block";

#[derive(Clone, PartialEq, Message)]
struct GivenMessage {
    #[prost(message, optional, tag = "1")]
    block: Option<WantedMessage>,
    #[prost(bytes = "bytes", tag = "2")]
    data: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct WantedMessage {
    #[prost(bytes = "vec", tag = "1")]
    file: Vec<u8>,
    #[prost(string, tag = "2")]
    url: String,
    #[prost(uint64, tag = "3")]
    file_bytes: u64,
    #[prost(uint64, tag = "4")]
    block_bytes: u64,
    #[prost(uint64, tag = "5")]
    first: u64,
    #[prost(uint64, tag = "6")]
    end: u64,
}

impl WantedMessage {
    fn new(wanted: &WantedBlocks) -> Self {
        Self {
            file: wanted.file.bytes().to_vec(),
            url: wanted.url.to_string(),
            file_bytes: wanted.file_bytes,
            block_bytes: wanted.block_bytes,
            first: wanted.numbers.start,
            end: wanted.numbers.end,
        }
    }

    fn into_wanted(self) -> Option<WantedBlocks> {
        Some(WantedBlocks {
            file: FileId::from_bytes(self.file.try_into().ok()?),
            url: self.url.into(),
            file_bytes: self.file_bytes,
            block_bytes: Some(self.block_bytes).filter(|bytes| *bytes > 0)?,
            numbers: self.first..self.end,
        })
    }
}

/// Asks a node for blocks, and returns those that its cache has. The caller bounds the time.
///
/// # Errors
/// The node is not reached.
pub async fn ask(
    node: &NodeId,
    channel: Channel,
    wanted: &WantedBlocks,
) -> Result<Vec<(u64, Bytes)>, QueryError> {
    let mut client = FlightServiceClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES);
    let failed = |status| from_status(node, &status, false);
    let action =
        Action { r#type: ACTION.to_owned(), body: WantedMessage::new(wanted).encode_to_vec().into() };
    let mut answers = client.do_action(action).await.map_err(failed)?.into_inner();
    let mut found = Vec::new();
    while let Some(answer) = answers.message().await.map_err(failed)? {
        let mut body = answer.body;
        found.push((body.try_get_u64().map_err(QueryError::internal)?, body));
    }
    Ok(found)
}

/// Gives a block to a node.
///
/// # Errors
/// The node is not reached.
pub async fn give(
    node: &NodeId,
    channel: Channel,
    block: &WantedBlocks,
    data: Bytes,
) -> Result<(), QueryError> {
    let mut client = FlightServiceClient::new(channel).max_encoding_message_size(MAX_MESSAGE_BYTES);
    let message = GivenMessage { block: Some(WantedMessage::new(block)), data };
    let action = Action { r#type: GIVE.to_owned(), body: message.encode_to_vec().into() };
    let given = client.do_action(action).await;
    given.map(drop).map_err(|status| from_status(node, &status, false))
}

/// Keeps a block that another node gives.
///
/// # Errors
/// The request is damaged.
pub async fn keep(engine: &Arc<Engine>, body: Bytes) -> Result<(), QueryError> {
    let GivenMessage { block, data } = GivenMessage::decode(body).map_err(QueryError::internal)?;
    let block = block.and_then(WantedMessage::into_wanted);
    let block = block.ok_or_else(|| QueryError::internal("another node gave no block"))?;
    let engine = Arc::clone(engine);
    let number = block.numbers.start;
    let kept = tokio::task::spawn_blocking(move || engine.keep_blocks(&block, vec![(number, data)])).await;
    kept.map_err(QueryError::internal)
}

/// The blocks of a request that this node's cache has.
///
/// # Errors
/// The request is damaged.
pub async fn answer(engine: &Arc<Engine>, body: Bytes) -> Result<Vec<arrow_flight::Result>, QueryError> {
    let wanted = WantedMessage::decode(body).map_err(QueryError::internal)?.into_wanted();
    let wanted = wanted.ok_or_else(|| QueryError::internal("another node asked for no block"))?;
    let engine = Arc::clone(engine);
    let lent = tokio::task::spawn_blocking(move || engine.lend_blocks(&wanted)).await;
    let answer = |(number, data): (u64, Bytes)| {
        let mut body = BytesMut::with_capacity(data.len() + size_of::<u64>());
        body.put_u64(number);
        body.extend_from_slice(&data);
        arrow_flight::Result { body: body.freeze() }
    };
    Ok(lent.map_err(QueryError::internal)?.into_iter().map(answer).collect())
}
