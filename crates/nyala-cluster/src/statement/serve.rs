//! Running the statements of other nodes.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use arrow_flight::encode::{DictionaryHandling, FlightDataEncoderBuilder};
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest,
    HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use nyala_engine::{Answer, Engine, ErrorKind, QueryError, RowStream};
use nyala_model::SnapshotVersion;
use prost::Message;
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status, Streaming};

use super::errors::to_status;
use super::messages::{DoneMessage, StatementMessage};
use super::{DONE, MAX_MESSAGE_BYTES};
use crate::{blocks, builds, control, loads};

/// The engine, once it is open.
#[derive(Clone, Default)]
pub struct Statements {
    engine: Arc<OnceLock<Weak<Engine>>>,
}

impl fmt::Debug for Statements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Statements").finish_non_exhaustive()
    }
}

impl Statements {
    /// From now on statements are run, and requests answered.
    pub fn attach(&self, engine: &Arc<Engine>) {
        // Attached once, when the engine is open.
        let _ = self.engine.set(Arc::downgrade(engine));
    }

    /// The engine, for other services: none until it is attached.
    pub fn engine_later(&self) -> Arc<OnceLock<Weak<Engine>>> {
        Arc::clone(&self.engine)
    }

    /// The service of Arrow Flight that other nodes send statements and requests to.
    pub fn service(&self) -> FlightServiceServer<Self> {
        FlightServiceServer::new(self.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    fn engine(&self) -> Result<Arc<Engine>, QueryError> {
        self.engine.get().and_then(Weak::upgrade).ok_or_else(|| {
            QueryError::new(ErrorKind::ShuttingDown, "the node is starting or stopping")
                .hint("try again when it is back")
        })
    }

    async fn act(&self, action: Action) -> Result<Flow<arrow_flight::Result>, QueryError> {
        let engine = self.engine()?;
        let answers = match action.r#type.as_str() {
            builds::ACTION => {
                let told = builds::answer(&engine, action.body).await?;
                return Ok(told.map_err(|error| to_status(&error)).boxed());
            }
            blocks::ACTION => blocks::answer(&engine, action.body).await?,
            blocks::GIVE => {
                blocks::keep(&engine, action.body).await?;
                Vec::new()
            }
            _ => vec![control::answer(&engine, action).await?],
        };
        Ok(stream::iter(answers.into_iter().map(Ok)).boxed())
    }

    /// The answer, and the version of the catalog afterwards.
    async fn run(&self, ticket: Ticket) -> Result<(Answer, SnapshotVersion), QueryError> {
        let engine = self.engine()?;
        let message = StatementMessage::decode(ticket.ticket).map_err(QueryError::internal)?;
        let answer = engine.run_forwarded(message.into_statement().map_err(QueryError::internal)?).await?;
        Ok((answer, engine.catalog().snapshot().version))
    }
}

type Flow<T> = BoxStream<'static, Result<T, Status>>;

fn flow_of(rows: RowStream) -> Flow<FlightData> {
    let schema = rows.schema();
    let rows = rows.map_err(|error| FlightError::Tonic(Box::new(to_status(&error))));
    let encoder = FlightDataEncoderBuilder::new()
        .with_schema(schema)
        .with_dictionary_handling(DictionaryHandling::Resend)
        .build(rows);
    encoder.map_err(Status::from).boxed()
}

fn unused<T>() -> Result<T, Status> {
    Err(Status::unimplemented("nodes do not ask for this"))
}

#[tonic::async_trait]
impl FlightService for Statements {
    type HandshakeStream = Flow<HandshakeResponse>;
    type ListFlightsStream = Flow<FlightInfo>;
    type DoGetStream = Flow<FlightData>;
    type DoPutStream = Flow<PutResult>;
    type DoExchangeStream = Flow<FlightData>;
    type DoActionStream = Flow<arrow_flight::Result>;
    type ListActionsStream = Flow<ActionType>;

    async fn do_get(&self, request: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        match self.run(request.into_inner()).await.map_err(|error| to_status(&error))? {
            (Answer::Rows(rows), _) => Ok(Response::new(flow_of(rows))),
            (Answer::Done(done), version) => {
                let mut response = Response::new(stream::empty().boxed());
                let done = DoneMessage::new(done, version).encode_to_vec();
                response.metadata_mut().insert_bin(DONE, MetadataValue::from_bytes(&done));
                Ok(response)
            }
        }
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        unused()
    }

    async fn list_flights(&self, _: Request<Criteria>) -> Result<Response<Self::ListFlightsStream>, Status> {
        unused()
    }

    async fn get_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status> {
        unused()
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<PollInfo>, Status> {
        unused()
    }

    async fn get_schema(&self, _: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        unused()
    }

    async fn do_put(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        let taken = async { loads::take(&self.engine()?, request.into_inner()).await };
        let answers = taken.await.map_err(|error| to_status(&error))?;
        Ok(Response::new(answers.map_err(|error| to_status(&error)).boxed()))
    }

    async fn do_exchange(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        unused()
    }

    async fn do_action(&self, request: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        self.act(request.into_inner()).await.map(Response::new).map_err(|error| to_status(&error))
    }

    async fn list_actions(&self, _: Request<Empty>) -> Result<Response<Self::ListActionsStream>, Status> {
        unused()
    }
}
