//! Segments that one node makes for the job of another, as an action of Arrow Flight: an answer every half second tells how much is
//! done, and the end of the answers that the segments are complete.

use std::sync::Arc;

use arrow_flight::Action;
use arrow_flight::flight_service_client::FlightServiceClient;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use nyala_engine::{BuildUnit, Counts, Engine, QueryError};
use nyala_model::{JobId, KeyRange, NodeId, QualifiedName, SegmentRange, SnapshotVersion};
use prost::Message;
use tonic::transport::Channel;

use crate::statement::{MAX_MESSAGE_BYTES, from_status};

/// The kind of action.
pub const ACTION: &str = "build";

#[derive(Clone, PartialEq, Message)]
struct UnitMessage {
    #[prost(uint64, tag = "1")]
    job: u64,
    #[prost(string, tag = "2")]
    node: String,
    #[prost(string, tag = "3")]
    schema: String,
    #[prost(string, tag = "4")]
    cube: String,
    #[prost(message, repeated, tag = "5")]
    ranges: Vec<RangeMessage>,
    #[prost(message, repeated, tag = "6")]
    leases: Vec<LeaseMessage>,
    #[prost(uint64, tag = "8")]
    version: u64,
    #[prost(bool, tag = "9")]
    again: bool,
    #[prost(string, tag = "10")]
    program: String,
}

#[derive(Clone, PartialEq, Message)]
struct LeaseMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(uint64, tag = "2")]
    token: u64,
}

/// The rows of a segment: those with keys from one to another, or those without a key, or all.
#[derive(Clone, PartialEq, Message)]
struct RangeMessage {
    #[prost(message, optional, tag = "1")]
    keys: Option<KeysMessage>,
    #[prost(bool, tag = "2")]
    nulls: bool,
}

#[derive(Clone, PartialEq, Message)]
struct KeysMessage {
    #[prost(sint64, tag = "1")]
    from: i64,
    #[prost(sint64, tag = "2")]
    to: i64,
}

#[derive(Clone, PartialEq, Message)]
struct CountsMessage {
    #[prost(uint64, tag = "1")]
    rows_read: u64,
    #[prost(uint64, tag = "2")]
    bytes_written: u64,
    #[prost(uint32, tag = "3")]
    cuboids_done: u32,
    #[prost(uint32, tag = "4")]
    retries: u32,
}

impl RangeMessage {
    fn new(range: SegmentRange) -> Result<Self, QueryError> {
        let (keys, nulls) = match range {
            SegmentRange::Whole => (None, false),
            SegmentRange::Keys(KeyRange { from, to }) => (Some(KeysMessage { from, to }), false),
            SegmentRange::Nulls => (None, true),
            SegmentRange::Written(_) => {
                return Err(QueryError::internal(
                    "segments of live tables are made by the owner of the table",
                ));
            }
        };
        Ok(Self { keys, nulls })
    }
}

impl From<RangeMessage> for SegmentRange {
    fn from(message: RangeMessage) -> Self {
        match message.keys {
            Some(KeysMessage { from, to }) => Self::Keys(KeyRange { from, to }),
            None if message.nulls => Self::Nulls,
            None => Self::Whole,
        }
    }
}

impl UnitMessage {
    fn new(unit: BuildUnit) -> Result<Self, QueryError> {
        Ok(Self {
            job: unit.job.0,
            node: unit.node.0,
            schema: unit.cube.schema,
            cube: unit.cube.name,
            ranges: unit.ranges.into_iter().map(RangeMessage::new).collect::<Result<_, _>>()?,
            leases: unit.leases.into_iter().map(|(name, token)| LeaseMessage { name, token }).collect(),
            version: unit.version.0,
            again: unit.again,
            program: unit.program,
        })
    }
}

impl From<UnitMessage> for BuildUnit {
    fn from(message: UnitMessage) -> Self {
        Self {
            job: JobId(message.job),
            node: NodeId(message.node),
            cube: QualifiedName::new(message.schema, message.cube),
            ranges: message.ranges.into_iter().map(Into::into).collect(),
            leases: message.leases.into_iter().map(|lease| (lease.name, lease.token)).collect(),
            version: SnapshotVersion(message.version),
            again: message.again,
            program: message.program,
        }
    }
}

impl From<Counts> for CountsMessage {
    fn from(counts: Counts) -> Self {
        let Counts { rows_read, bytes_written, cuboids_done, retries } = counts;
        Self { rows_read, bytes_written, cuboids_done, retries }
    }
}

impl From<CountsMessage> for Counts {
    fn from(message: CountsMessage) -> Self {
        let CountsMessage { rows_read, bytes_written, cuboids_done, retries } = message;
        Self { rows_read, bytes_written, cuboids_done, retries }
    }
}

/// Has a node make segments. Dropping the future or the stream ends the work there.
///
/// # Errors
/// The build failed, or the node is not reached.
pub async fn ask(
    node: &NodeId,
    channel: Channel,
    unit: BuildUnit,
) -> Result<BoxStream<'static, Result<Counts, QueryError>>, QueryError> {
    let mut client = FlightServiceClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES);
    let action = Action { r#type: ACTION.to_owned(), body: UnitMessage::new(unit)?.encode_to_vec().into() };
    // If the connection breaks, the caller has another node make the unit anew; so the error need not tell whether this one began.
    let answers = client.do_action(action).await.map_err(|status| from_status(node, &status, false))?;
    let node = node.clone();
    let counts = answers.into_inner().map(move |answer| {
        let answer = answer.map_err(|status| from_status(&node, &status, false))?;
        CountsMessage::decode(answer.body).map(Counts::from).map_err(QueryError::internal)
    });
    Ok(counts.boxed())
}

/// Makes segments for another node. Dropping the stream ends the work.
///
/// # Errors
/// The request is damaged, or this node cannot begin.
pub async fn answer(
    engine: &Arc<Engine>,
    body: Bytes,
) -> Result<BoxStream<'static, Result<arrow_flight::Result, QueryError>>, QueryError> {
    let unit = UnitMessage::decode(body).map_err(QueryError::internal)?;
    let counts = engine.build_unit(unit.into()).await?;
    let answer = |counts| arrow_flight::Result { body: CountsMessage::from(counts).encode_to_vec().into() };
    Ok(counts.map_ok(answer).boxed())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_unit_arrives_as_it_was() {
        let unit = BuildUnit {
            job: JobId(7),
            node: NodeId("n1".to_owned()),
            program: "0.0.9".to_owned(),
            cube: QualifiedName::new("mart", "sales"),
            ranges: vec![
                SegmentRange::Whole,
                SegmentRange::Nulls,
                SegmentRange::Keys(KeyRange { from: i64::MIN, to: 20_260_101 }),
            ],
            leases: vec![("cube 3".to_owned(), 11), ("units of cube 3".to_owned(), 2)],
            version: SnapshotVersion(5),
            again: true,
        };
        let bytes = UnitMessage::new(unit.clone()).unwrap().encode_to_vec();
        assert_eq!(BuildUnit::from(UnitMessage::decode(bytes.as_slice()).unwrap()), unit);
        let live = SegmentRange::Written(KeyRange { from: 0, to: 9 });
        assert!(UnitMessage::new(BuildUnit { ranges: vec![live], ..unit }).is_err());
    }
}
