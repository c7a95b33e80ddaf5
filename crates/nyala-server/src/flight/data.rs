//! Rows that clients send: messages of Flight are those of an Arrow IPC stream without its framing.

use std::pin::Pin;

use arrow::datatypes::SchemaRef;
use arrow_flight::FlightData;
use futures::StreamExt;
use nyala_engine::{ErrorKind, QueryError};
use tonic::Status;

use super::command::Received;
use super::error::{refused, status};
use super::parameters::Values;
use super::receive_budget::Share;
use crate::rows::{ArrowStream, plain_bytes, schema_of_message};

/// The marker in front of each message of an IPC stream.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// Most bytes of parameters.
const MAX_PARAMETER_BYTES: usize = 64 << 20;

/// A message as an IPC stream has it: the metadata with its frame, and the body. None for a message without rows or columns.
pub fn framed(data: FlightData) -> Result<Option<[Vec<u8>; 2]>, QueryError> {
    if data.data_header.is_empty() {
        return Ok(None);
    }
    let length = u32::try_from(data.data_header.len());
    let length = length
        .map_err(|_| QueryError::new(ErrorKind::LimitExceeded, "a message has gigabytes of metadata"))?;
    let head = [&CONTINUATION, length.to_le_bytes().as_slice(), &data.data_header].concat();
    Ok(Some([head, data.data_body.into()]))
}

/// The columns of the first message.
///
/// # Errors
/// The first message is not a schema.
pub async fn columns_of(messages: &mut Received) -> Result<SchemaRef, Status> {
    match Pin::new(messages).peek().await {
        Some(Ok(first)) => refused(schema_of_message(&first.data_header)),
        Some(Err(error)) => Err(error.clone()),
        None => Err(Status::invalid_argument("no message came")),
    }
}

/// The rows of values that messages bind to `needed` parameters; none if they hold nothing at all. `share` counts their bytes.
pub async fn values_of(
    mut messages: Received,
    needed: usize,
    mut share: Share,
) -> Result<Option<Values>, Status> {
    let mut bytes = Vec::new();
    while let Some(data) = messages.next().await {
        // Counts the messages before: this one is counted among the received bytes until the next one is asked for.
        share.resize(bytes.len())?;
        for part in refused(framed(data?))?.into_iter().flatten() {
            bytes.extend_from_slice(&part);
        }
        if bytes.len() > MAX_PARAMETER_BYTES {
            return Err(status(&too_many()));
        }
    }
    share.resize(bytes.len())?;
    // Decoding computes, which threads that serve the network do not.
    let decoded = tokio::task::spawn_blocking(move || decode(&bytes, needed));
    refused(decoded.await.map_err(QueryError::internal).flatten())
}

fn decode(bytes: &[u8], needed: usize) -> Result<Option<Values>, QueryError> {
    let mut stream = ArrowStream::of_batches(MAX_PARAMETER_BYTES);
    stream.push(bytes);
    let mut values = Values::default();
    while let Some(batch) = stream.next_batch()? {
        // Each value becomes a scalar with bytes of its own, even if several values of the batch share theirs.
        let sizes = batch.columns().iter().map(|column| plain_bytes(column));
        values.bytes = sizes.fold(values.bytes, u64::saturating_add);
        if values.bytes > MAX_PARAMETER_BYTES as u64 {
            return Err(too_many());
        }
        values.add(&batch, needed)?;
    }
    Ok(stream.has_schema().then_some(values))
}

fn too_many() -> QueryError {
    let message = format!("parameters of more than {} MiB", MAX_PARAMETER_BYTES >> 20);
    QueryError::new(ErrorKind::LimitExceeded, message).hint("load rows in bulk, as `adbc_ingest` does")
}
