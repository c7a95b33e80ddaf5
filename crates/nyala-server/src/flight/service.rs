//! The calls of Flight: each is counted, and given to the file that knows its command.

use std::sync::Arc;

use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::{Command, DoPutUpdateResult};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest,
    HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use futures::{StreamExt, stream};
use nyala_engine::Engine;
use prost::Message;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Extensions, Request, Response, Status, Streaming};

use super::calls::{Call, NO_COMMAND};
use super::command::{self, Received, not_for, without_transaction};
use super::info::{info_of, written};
use super::ingest::{Promise, check_catalog, ingest};
use super::login;
use super::metadata_calls::Metadata;
use super::opaque::Opaque;
use super::receive_budget::{ReceiveBudget, Sender, Share};
use super::sessions::{Caller, InUse, NoSession, Owner, Sessions};
use super::stream::{Flow, Messages, nothing, of_batch};
use super::{actions, puts, queries};
use crate::auth::Authenticator;
use crate::error::ServeError;
use crate::http::Shared;

/// Answers the calls.
pub struct FlightSql {
    engine: Opaque<Arc<Engine>>,
    authenticator: Opaque<Arc<Authenticator>>,
    sessions: Arc<Sessions>,
    metadata: Metadata,
    /// The budget for messages that clients are sending.
    budget: Arc<ReceiveBudget>,
}

impl FlightSql {
    /// The service over the parts that all doors share.
    ///
    /// # Errors
    /// `SqlInfo` cannot be written, which is a fault of the server.
    pub fn new(
        shared: &Shared,
        sessions: Arc<Sessions>,
        budget: Arc<ReceiveBudget>,
    ) -> Result<Self, ServeError> {
        Ok(Self {
            engine: Opaque::new(Arc::clone(&shared.engine)),
            authenticator: Opaque::new(Arc::clone(&shared.authenticator)),
            sessions,
            metadata: Metadata::new().map_err(ServeError::Flight)?,
            budget,
        })
    }

    /// The session of a caller.
    fn session(&self, extensions: &Extensions) -> Result<InUse, Status> {
        self.sessions.of(&self.engine, caller(extensions)?).map_err(|reason| match reason {
            NoSession::TooMany => Status::resource_exhausted(
                "all sessions that there may be are in use; close some, or reuse connections [53300]",
            ),
            NoSession::Ended => Status::unauthenticated(
                "the session was not used for too long, and has ended; connect again [08003]",
            ),
        })
    }

    /// A share of the budget, for the values that a caller sends.
    fn share(&self, extensions: &Extensions) -> Result<Share, Status> {
        Ok(self.budget.share(Sender::of(caller(extensions)?)))
    }

    /// A token for a password, in the headers before the answer: clients do not read headers behind an answer.
    async fn log_in(
        &self,
        headers: &MetadataMap,
        extensions: &Extensions,
    ) -> Result<Response<Flow<HandshakeResponse>>, Status> {
        let options = caller(extensions)?.options.clone();
        let token = login::token(&self.authenticator, headers).await?;
        self.engine.audit_login(&options, None);
        let header = MetadataValue::try_from(format!("Bearer {token}"));
        let answer = HandshakeResponse { protocol_version: 0, payload: token.into() };
        let mut response = Response::new(one(answer));
        let header = header.map_err(|_| Status::internal("a token is no header"))?;
        response.metadata_mut().insert("authorization", header);
        Ok(response)
    }

    async fn info(
        &self,
        command: Result<Command, Status>,
        request: &Request<FlightDescriptor>,
    ) -> Result<FlightInfo, Status> {
        let descriptor = request.get_ref().clone();
        match without_transaction(command)? {
            Command::CommandStatementQuery(query) => {
                queries::info_of_query(&*self.session(request.extensions())?, &query, descriptor).await
            }
            Command::CommandPreparedStatementQuery(query) => {
                queries::info_of_prepared(&*self.session(request.extensions())?, &query, descriptor).await
            }
            other => match self.metadata.columns(&other) {
                Some(columns) => info_of(&columns, &other.into_any(), descriptor),
                None => Err(not_for("GetFlightInfo", &other)),
            },
        }
    }

    async fn schema(
        &self,
        command: Result<Command, Status>,
        extensions: &Extensions,
    ) -> Result<SchemaResult, Status> {
        let columns = match without_transaction(command)? {
            Command::CommandStatementQuery(query) => {
                queries::columns_of_query(&*self.session(extensions)?, &query).await?
            }
            Command::CommandPreparedStatementQuery(query) => {
                queries::columns_of_prepared(&*self.session(extensions)?, &query)?
            }
            other => self.metadata.columns(&other).ok_or_else(|| not_for("GetSchema", &other))?,
        };
        Ok(SchemaResult { schema: written(&columns)? })
    }

    async fn rows(
        &self,
        command: Result<Command, Status>,
        extensions: &Extensions,
    ) -> Result<Messages, Status> {
        let session = || self.session(extensions);
        match command? {
            Command::TicketStatementQuery(ticket) if ticket.statement_handle.is_empty() => Ok(nothing()),
            Command::TicketStatementQuery(ticket) => queries::fetch_once(session()?, &ticket).await,
            Command::CommandPreparedStatementQuery(query) => {
                queries::fetch_prepared(session()?, &query).await
            }
            other => self.metadata.rows(other, session).await.map(of_batch),
        }
    }

    /// Takes what a client puts, and gives the answer.
    async fn put(
        &self,
        command: Result<Command, Status>,
        headers: &MetadataMap,
        extensions: &Extensions,
        messages: Received,
    ) -> Result<Vec<u8>, Status> {
        let command = without_transaction(command)?;
        let session = self.session(extensions)?;
        match command {
            Command::CommandPreparedStatementQuery(query) => {
                Ok(puts::bind(&session, query, messages, self.share(extensions)?).await?.encode_to_vec())
            }
            Command::CommandPreparedStatementUpdate(update) => {
                puts::update(&session, &update, messages, self.share(extensions)?).await.map(counted)
            }
            Command::CommandStatementUpdate(update) => queries::update(&session, &update).await.map(counted),
            Command::CommandStatementIngest(command) => {
                check_catalog(command.catalog.as_deref())?;
                let promise = Promise::of(headers)?;
                ingest(&session.session, command, promise, messages).await.map(counted)
            }
            other => Err(not_for("DoPut", &other)),
        }
    }

    async fn act(&self, extensions: &Extensions, action: &Action) -> Result<Option<Vec<u8>>, Status> {
        if action.r#type == actions::CLOSE_SESSION {
            self.close_session(&caller(extensions)?.owner);
            return Ok(Some(actions::closed()));
        }
        actions::act(&*self.session(extensions)?, action).await
    }

    fn close_session(&self, owner: &Owner) {
        self.sessions.close(owner);
        if let Owner::Token(key) = owner {
            self.authenticator.end_session(key);
        }
    }
}

fn caller(extensions: &Extensions) -> Result<&Caller, Status> {
    extensions.get::<Caller>().ok_or_else(|| Status::internal("a call came past the login"))
}

/// The answer to a statement that changed `record_count` rows.
fn counted(record_count: i64) -> Vec<u8> {
    DoPutUpdateResult { record_count }.encode_to_vec()
}

/// An answer of one message.
fn one<T: Send + 'static>(message: T) -> Flow<T> {
    stream::iter([Ok(message)]).boxed()
}

fn unanswered<T>(name: &'static str, instead: &str) -> Result<Response<T>, Status> {
    let status = Status::unimplemented(format!("{name} is not answered; {instead}"));
    Call::begin(name, NO_COMMAND).answered(Err(status))
}

#[tonic::async_trait]
impl FlightService for FlightSql {
    type HandshakeStream = Flow<HandshakeResponse>;
    type ListFlightsStream = Flow<FlightInfo>;
    type DoGetStream = Messages;
    type DoPutStream = Flow<PutResult>;
    type DoExchangeStream = Messages;
    type DoActionStream = Flow<arrow_flight::Result>;
    type ListActionsStream = Flow<ActionType>;

    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        let call = Call::begin("Handshake", NO_COMMAND);
        call.streamed(self.log_in(request.metadata(), request.extensions()).await)
    }

    async fn get_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let command = command::read(&request.get_ref().cmd);
        let call = Call::of("GetFlightInfo", &command);
        call.answered(self.info(command, &request).await)
    }

    async fn get_schema(&self, request: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        let command = command::read(&request.get_ref().cmd);
        let call = Call::of("GetSchema", &command);
        call.answered(self.schema(command, request.extensions()).await)
    }

    async fn do_get(&self, request: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        let command = command::read(&request.get_ref().ticket);
        let call = Call::of("DoGet", &command);
        call.streamed(self.rows(command, request.extensions()).await.map(Response::new))
    }

    async fn do_put(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        let (headers, extensions, messages) = request.into_parts();
        let mut messages: Received = messages.boxed().peekable();
        let command = command::of_first(&mut messages).await;
        let call = Call::of("DoPut", &command);
        let answer = self.put(command, &headers, &extensions, messages).await;
        let answer = answer.map(|answer| PutResult { app_metadata: answer.into() });
        call.streamed(answer.map(|answer| Response::new(one(answer))))
    }

    async fn do_action(&self, request: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        let (_, extensions, action) = request.into_parts();
        let call = Call::begin("DoAction", actions::known(&action.r#type));
        let answer = self.act(&extensions, &action).await;
        let answer = answer.map(|body| body.map(|body| Ok(arrow_flight::Result { body: body.into() })));
        call.streamed(answer.map(|answer| Response::new(stream::iter(answer).boxed())))
    }

    async fn list_actions(&self, _: Request<Empty>) -> Result<Response<Self::ListActionsStream>, Status> {
        let call = Call::begin("ListActions", NO_COMMAND);
        call.streamed(Ok(Response::new(stream::iter(actions::list().map(Ok)).boxed())))
    }

    async fn list_flights(&self, _: Request<Criteria>) -> Result<Response<Self::ListFlightsStream>, Status> {
        unanswered("ListFlights", "the command CommandGetTables lists tables")
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<PollInfo>, Status> {
        unanswered("PollFlightInfo", "GetFlightInfo answers at once")
    }

    async fn do_exchange(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        unanswered("DoExchange", "rows are put by DoPut, and fetched by DoGet")
    }
}
