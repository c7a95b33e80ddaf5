//! Loads into a live table of another node, as a call of Arrow Flight that streams in both directions. The head and the rows are sent; the
//! answers tell whether a load of that label was done before, and the outcome.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use arrow::datatypes::{Schema, SchemaRef};
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::utils::flight_data_to_arrow_batch;
use arrow_flight::{FlightData, FlightDescriptor, PutResult};
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, Stream, StreamExt};
use nyala_engine::{
    Engine, ErrorKind, ForwardedLoad, Ingested, LoadPart, LoadThere, QueryError, not_confirmed, not_reached,
};
use nyala_model::{NodeId, QualifiedName};
use prost::Message;
use tokio::sync::{mpsc, oneshot};
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use crate::statement::{MAX_MESSAGE_BYTES, StatementMessage, from_status};

/// Batches that wait for the connection.
const BATCHES_AHEAD: usize = 2;

#[derive(Clone, PartialEq, Message)]
struct LoadMessage {
    #[prost(message, optional, tag = "1")]
    statement: Option<StatementMessage>,
    #[prost(string, tag = "2")]
    schema: String,
    #[prost(string, tag = "3")]
    table: String,
    #[prost(string, repeated, tag = "4")]
    columns: Vec<String>,
    #[prost(string, optional, tag = "5")]
    label: Option<String>,
    #[prost(bool, tag = "6")]
    at_once: bool,
}

/// The message after the last row.
#[derive(Clone, PartialEq, Message)]
struct EndMessage {
    #[prost(uint64, tag = "1")]
    rejected: u64,
}

/// The answers: first whether there was an earlier load, and then, if there was none, the outcome of this one.
#[derive(Clone, PartialEq, Message)]
struct AnswerMessage {
    #[prost(message, optional, tag = "1")]
    done: Option<DoneMessage>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct DoneMessage {
    #[prost(uint64, tag = "1")]
    rows: u64,
    #[prost(uint64, tag = "2")]
    rejected: u64,
    #[prost(uint64, optional, tag = "3")]
    lsn: Option<u64>,
    #[prost(bool, tag = "4")]
    before: bool,
}

impl From<Ingested> for DoneMessage {
    fn from(done: Ingested) -> Self {
        let Ingested { rows, rejected, lsn, before } = done;
        Self { rows, rejected, lsn, before }
    }
}

impl From<DoneMessage> for Ingested {
    fn from(message: DoneMessage) -> Self {
        let DoneMessage { rows, rejected, lsn, before } = message;
        Self { rows, rejected, lsn, before }
    }
}

impl LoadMessage {
    fn new(load: ForwardedLoad) -> Result<Self, QueryError> {
        Ok(Self {
            statement: Some(StatementMessage::new(load.statement).map_err(QueryError::internal)?),
            schema: load.table.schema,
            table: load.table.name,
            columns: load.columns,
            label: load.label,
            at_once: load.at_once,
        })
    }

    fn into_load(self, schema: SchemaRef) -> Result<ForwardedLoad, QueryError> {
        let statement = self.statement.ok_or_else(|| damaged("it names no statement"))?;
        Ok(ForwardedLoad {
            statement: statement.into_statement().map_err(QueryError::internal)?,
            table: QualifiedName::new(self.schema, self.table),
            columns: self.columns,
            label: self.label,
            at_once: self.at_once,
            schema,
        })
    }
}

fn damaged(reason: &str) -> QueryError {
    QueryError::internal(format!("another node sent a damaged load: {reason}"))
}

/// Begins a load on a node.
///
/// # Errors
/// The load is refused, or the node is not reached.
pub async fn begin(node: &NodeId, channel: Channel, load: ForwardedLoad) -> Result<LoadThere, QueryError> {
    let mut client = FlightServiceClient::new(channel)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let schema = Arc::clone(&load.schema);
    let head = LoadMessage::new(load)?.encode_to_vec();
    let (parts, sent) = mpsc::channel(BATCHES_AHEAD);
    // The node writes nothing before its first answer.
    let answers = client.do_put(to_messages(head, schema, sent)).await;
    let mut answers = answers.map_err(|status| from_status(node, &status, false))?.into_inner();
    let first = answers.message().await.map_err(|status| from_status(node, &status, false))?;
    let first = first.ok_or_else(|| not_reached(node, "it ended a load before the load began"))?;
    let known = AnswerMessage::decode(first.app_metadata).map_err(QueryError::internal)?;
    let known = known.done.map(Ingested::from);
    let node = node.clone();
    let outcome = async move {
        let answer = answers.message().await.map_err(|status| from_status(&node, &status, true))?;
        outcome_of(&node, answer)
    };
    Ok(LoadThere { known, parts, outcome: Mutex::new(outcome.boxed()) })
}

/// The outcome of a load in its last answer. Without that answer the rows may still have been written: the node may have ended afterwards.
fn outcome_of(node: &NodeId, answer: Option<PutResult>) -> Result<Ingested, QueryError> {
    let read = |answer: PutResult| AnswerMessage::decode(answer.app_metadata);
    let answer = answer.map(read).transpose().map_err(|error| not_confirmed(node, &error.to_string()))?;
    let done = answer.and_then(|answer| answer.done).map(Ingested::from);
    done.ok_or_else(|| not_confirmed(node, "its answers ended before the outcome of the load"))
}

/// The messages of a load: the head with the schema, the rows, and the end. Without the end the other node gives the load up.
fn to_messages(
    head: Vec<u8>,
    schema: SchemaRef,
    parts: mpsc::Receiver<LoadPart>,
) -> impl Stream<Item = FlightData> + Send + 'static {
    let (ended, end) = oneshot::channel();
    let rows = stream::unfold((parts, Some(ended)), |(mut parts, mut ended)| async move {
        match parts.recv().await? {
            LoadPart::Rows(batch) => Some((Ok(batch), (parts, ended))),
            LoadPart::End { rejected } => {
                // The receiver is chained to this stream, and lives as long.
                let _ = ended.take()?.send(rejected);
                None
            }
        }
    });
    let encoded = FlightDataEncoderBuilder::new()
        .with_schema(schema)
        .with_flight_descriptor(Some(FlightDescriptor::new_cmd(head)))
        .build(rows);
    let has_failed = Arc::new(AtomicBool::new(false));
    let failed = Arc::clone(&has_failed);
    let encoded = encoded.filter_map(move |message| {
        failed.fetch_or(message.is_err(), Ordering::Relaxed);
        std::future::ready(message.ok())
    });
    let end = async move {
        let rejected = end.await.ok().filter(|_| !has_failed.load(Ordering::Relaxed))?;
        let app_metadata = EndMessage { rejected }.encode_to_vec().into();
        Some(FlightData { app_metadata, ..FlightData::default() })
    };
    encoded.chain(stream::once(end).filter_map(std::future::ready))
}

/// The answers of a load that another node sends.
type Answers = BoxStream<'static, Result<PutResult, QueryError>>;

/// Takes a load that another node sends.
///
/// # Errors
/// The request is damaged, or the load is refused.
pub async fn take(engine: &Arc<Engine>, mut messages: Streaming<FlightData>) -> Result<Answers, QueryError> {
    let first = messages.message().await.map_err(QueryError::internal)?;
    let mut first = first.ok_or_else(|| damaged("it is empty"))?;
    let descriptor = first.flight_descriptor.take().ok_or_else(|| damaged("it has no head"))?;
    let schema = Schema::try_from(&first).map_err(QueryError::internal)?;
    let schema = Arc::new(schema);
    let head = LoadMessage::decode(descriptor.cmd).map_err(QueryError::internal)?;
    let load = head.into_load(Arc::clone(&schema))?;
    let from = load.statement.options.sent_by.clone().unwrap_or_default();
    let parts = messages.map(move |message| to_part(message, &schema, &from)).boxed();
    let (known, outcome) = engine.load_for_another(load, parts).await?;
    let first = stream::iter([Ok(answer(known))]);
    Ok(match known {
        Some(_) => first.boxed(),
        None => first.chain(stream::once(outcome.map(|done| done.map(|done| answer(Some(done)))))).boxed(),
    })
}

fn answer(done: Option<Ingested>) -> PutResult {
    let message = AnswerMessage { done: done.map(DoneMessage::from) };
    PutResult { app_metadata: Bytes::from(message.encode_to_vec()) }
}

fn to_part(
    message: Result<FlightData, Status>,
    schema: &SchemaRef,
    from: &NodeId,
) -> Result<LoadPart, QueryError> {
    let message = message.map_err(|status| broken_off(from, &status))?;
    if message.data_header.is_empty() {
        let end = EndMessage::decode(message.app_metadata).map_err(QueryError::internal)?;
        return Ok(LoadPart::End { rejected: end.rejected });
    }
    let batch = flight_data_to_arrow_batch(&message, Arc::clone(schema), &std::collections::HashMap::new());
    batch.map(LoadPart::Rows).map_err(QueryError::internal)
}

/// The error of a load whose sending node, or the client of that node, is gone.
fn broken_off(from: &NodeId, status: &Status) -> QueryError {
    let message = format!("node `{from}` broke off the load that it sent: {}", status.message());
    QueryError::new(ErrorKind::Cancelled, message)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_load_without_an_outcome_may_have_been_done() {
        let node = NodeId("n1".to_owned());
        let done = Ingested { rows: 3, rejected: 1, lsn: Some(7), before: false };
        assert_eq!(outcome_of(&node, Some(answer(Some(done)))).unwrap(), done);
        let damaged = PutResult { app_metadata: Bytes::from_static(&[0xff]) };
        for lost in [None, Some(answer(None)), Some(damaged)] {
            let error = outcome_of(&node, lost).unwrap_err();
            assert!(error.kind == ErrorKind::Unconfirmed && error.message.contains("`n1`"), "{error}");
        }
    }

    #[test]
    fn a_load_that_is_broken_off_names_the_node_that_sent_it() {
        let schema = Arc::new(Schema::empty());
        let error =
            to_part(Err(Status::unknown("broken pipe")), &schema, &NodeId("n2".to_owned())).unwrap_err();
        assert_eq!(error.message, "node `n2` broke off the load that it sent: broken pipe");
    }
}
