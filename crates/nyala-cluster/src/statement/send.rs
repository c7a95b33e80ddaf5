//! Sending a statement and taking its answer.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use arrow_flight::Ticket;
use arrow_flight::decode::{DecodedPayload, FlightDataDecoder};
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_client::FlightServiceClient;
use futures::{StreamExt, TryStreamExt};
use nyala_engine::{Forwarded, Forwarding, QueryError};
use nyala_model::NodeId;
use prost::Message;
use tonic::transport::Channel;

use super::errors::from_status;
use super::messages::{DoneMessage, StatementMessage};
use super::{DONE, MAX_MESSAGE_BYTES};

/// Sends a statement to a node. Dropping the future or the rows ends the statement there.
///
/// # Errors
/// The statement failed, or the node was not reached.
pub async fn send(node: &NodeId, channel: Channel, statement: Forwarded) -> Result<Forwarding, QueryError> {
    let changes = statement.changes;
    let message = StatementMessage::new(statement).map_err(QueryError::internal)?;
    let mut client = FlightServiceClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES);
    let ticket = Ticket { ticket: message.encode_to_vec().into() };
    let answer = client.do_get(ticket).await.map_err(|status| from_status(node, &status, changes))?;
    if let Some(done) = answer.metadata().get_bin(DONE) {
        let bytes = done.to_bytes().map_err(QueryError::internal)?;
        let done = DoneMessage::decode(bytes).map_err(QueryError::internal)?;
        return Ok(done.into());
    }
    let owner = node.clone();
    let failed = move |error: FlightError| match error {
        FlightError::Tonic(status) => from_status(&owner, &status, changes),
        error => QueryError::internal(format!("node `{owner}` sent rows that cannot be read: {error}")),
    };
    let mut rows = FlightDataDecoder::new(answer.into_inner().map_err(FlightError::from));
    // The schema comes first.
    let schema: SchemaRef = match rows.next().await {
        Some(Ok(first)) => match first.payload {
            DecodedPayload::Schema(schema) => schema,
            _ => return Err(QueryError::internal(format!("node `{node}` sent rows before their schema"))),
        },
        Some(Err(error)) => return Err(failed(error)),
        None => Arc::new(Schema::empty()),
    };
    let batches = rows.filter_map(move |decoded| {
        let batch = match decoded.map(|decoded| decoded.payload) {
            Ok(DecodedPayload::RecordBatch(batch)) => Some(Ok(batch)),
            Ok(DecodedPayload::None | DecodedPayload::Schema(_)) => None,
            Err(error) => Some(Err(failed(error))),
        };
        std::future::ready(batch)
    });
    Ok(Forwarding::Rows(schema, batches.boxed()))
}
