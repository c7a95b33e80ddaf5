//! Sending a request and taking its answer.

use arrow_flight::flight_service_client::FlightServiceClient;
use nyala_engine::{Control, ControlAction, ControlAnswer, QueryError, not_confirmed, not_reached};
use nyala_model::NodeId;
use tonic::transport::Channel;

use super::messages::{from_body, to_action};
use crate::statement::{MAX_MESSAGE_BYTES, from_status};

/// Asks a node. The caller bounds the time.
///
/// # Errors
/// The node's error, or it was not reached; [`ErrorKind::Unconfirmed`](nyala_engine::ErrorKind) if the node may have carried out the request.
pub async fn ask(node: &NodeId, channel: Channel, control: &Control) -> Result<ControlAnswer, QueryError> {
    let mut client = FlightServiceClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES);
    let ends_something = control.action != ControlAction::ListQueries;
    let failed = |status| from_status(node, &status, ends_something);
    let mut answers = client.do_action(to_action(control)).await.map_err(failed)?.into_inner();
    match answers.message().await.map_err(failed)? {
        Some(answer) => from_body(&answer.body),
        // The node may have ended a statement or a job.
        None if ends_something => Err(not_confirmed(node, "it answered nothing")),
        None => Err(not_reached(node, "it answered nothing")),
    }
}
