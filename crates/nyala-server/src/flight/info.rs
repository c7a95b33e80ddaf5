//! Which columns an answer has, and the ticket for its rows.

use arrow::datatypes::Schema;
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::sql::Any;
use arrow_flight::{FlightDescriptor, FlightEndpoint, FlightInfo, IpcMessage, SchemaAsIpc, Ticket};
use bytes::Bytes;
use prost::Message;
use tonic::Status;

use super::error::unwritable;

/// Describes an answer: its columns, and `ticket`, for which this server gives the rows.
pub fn info_of(columns: &Schema, ticket: &Any, descriptor: FlightDescriptor) -> Result<FlightInfo, Status> {
    let endpoint = FlightEndpoint::new().with_ticket(Ticket::new(ticket.encode_to_vec()));
    let info = FlightInfo::new().try_with_schema(columns).map_err(unwritable)?;
    Ok(info.with_endpoint(endpoint).with_descriptor(descriptor).with_ordered(true))
}

/// A schema as a message of IPC.
pub fn written(columns: &Schema) -> Result<Bytes, Status> {
    let options = IpcWriteOptions::default();
    let IpcMessage(message) = SchemaAsIpc::new(columns, &options).try_into().map_err(unwritable)?;
    Ok(message)
}
