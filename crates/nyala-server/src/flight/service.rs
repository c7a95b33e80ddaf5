//! The calls of Flight SQL.

use std::pin::Pin;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::metadata::{SqlInfoData, XdbcTypeInfoData};
use arrow_flight::sql::server::{DoPutError, FlightSqlService, PeekableFlightDataStream};
use arrow_flight::sql::{
    ActionCancelQueryRequest, ActionCancelQueryResult, ActionClosePreparedStatementRequest,
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, Any, CommandGetCatalogs,
    CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys,
    CommandGetPrimaryKeys, CommandGetSqlInfo, CommandGetTableTypes, CommandGetTables, CommandGetXdbcTypeInfo,
    CommandPreparedStatementQuery, CommandPreparedStatementUpdate, CommandStatementIngest,
    CommandStatementQuery, CommandStatementUpdate, DoPutPreparedStatementResult, ProstMessageExt, SqlInfo,
    TicketStatementQuery,
};
use arrow_flight::{
    Action, ActionType, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightDescriptor,
    FlightEndpoint, FlightInfo, HandshakeRequest, HandshakeResponse, IpcMessage, SchemaAsIpc, Ticket,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use datafusion::common::ScalarValue;
use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt, stream};
use nyala_engine::{Answer, Engine, ErrorKind, Prepared, QueryError, Session, Text};
use prost::Message;
use ring::rand::{SecureRandom, SystemRandom};
use tonic::metadata::MetadataValue;
use tonic::{Extensions, Request, Response, Status, Streaming};

use super::data::values_of;
use super::error::{refused, unwritable};
use super::ingest::{Promise, check_catalog, ingest};
use super::login;
use super::messages::{CloseSessionResult, CloseSessionStatus};
use super::metadata::{self, foreign_key_columns, foreign_keys, primary_key_columns};
use super::opaque::Opaque;
use super::parameters::{Values, schema_of};
use super::session_options;
use super::sessions::{Caller, FlightSession, InUse, NoSession, Owner, Sessions};
use super::sql_info::sql_info;
use super::statements::Statement;
use super::stream::{Messages, nothing, of_batch, of_batches, rows_of};
use super::type_info::type_info;
use crate::auth::{Authenticator, Ends, Refusal};
use crate::error::ServeError;
use crate::http::Shared;

const SET_OPTIONS: &str = "SetSessionOptions";
const GET_OPTIONS: &str = "GetSessionOptions";
const CLOSE_SESSION: &str = "CloseSession";
const CANCEL_FLIGHT: &str = "CancelFlightInfo";

type Results<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Answers the calls.
pub struct FlightSql {
    engine: Opaque<Arc<Engine>>,
    authenticator: Opaque<Arc<Authenticator>>,
    sessions: Arc<Sessions>,
    infos: SqlInfoData,
    types: XdbcTypeInfoData,
}

impl FlightSql {
    /// The service over the parts that all doors share.
    ///
    /// # Errors
    /// What is told of the server cannot be written, which is a fault of it.
    pub fn new(shared: &Shared, sessions: Arc<Sessions>) -> Result<Self, ServeError> {
        Ok(Self {
            engine: Opaque::new(Arc::clone(&shared.engine)),
            authenticator: Opaque::new(Arc::clone(&shared.authenticator)),
            sessions,
            infos: sql_info().map_err(ServeError::Flight)?,
            types: type_info().map_err(ServeError::Flight)?,
        })
    }

    fn caller(extensions: &Extensions) -> Result<&Caller, Status> {
        extensions.get::<Caller>().ok_or_else(|| Status::internal("a call came past the login"))
    }

    fn session<T>(&self, request: &Request<T>) -> Result<InUse, Status> {
        let caller = Self::caller(request.extensions())?;
        self.sessions.of(&self.engine, caller).map_err(|reason| match reason {
            NoSession::TooMany => Status::resource_exhausted(
                "all sessions that there may be are in use; close some, or reuse connections [53300]",
            ),
            NoSession::Ended => Status::unauthenticated(
                "the session was not used for too long, and has ended; connect again [08003]",
            ),
        })
    }
}

/// Plans one statement.
pub fn prepare<'a>(session: &'a Session, sql: &'a str) -> BoxFuture<'a, Result<Prepared, QueryError>> {
    async move {
        let mut statements = match session.read(sql)? {
            Text::Ready(prepared) => return Ok(prepared),
            Text::Statements(statements) => statements.into_iter(),
        };
        match (statements.next(), statements.next()) {
            (Some(statement), None) => session.prepare(statement).await,
            _ => {
                let message = "a call must hold exactly one statement";
                Err(QueryError::new(ErrorKind::InvalidText, message).hint("make one call for each statement"))
            }
        }
    }
    .boxed()
}

async fn prepared(session: &FlightSession, sql: &str, is_once: bool) -> Result<Statement, QueryError> {
    let prepared = prepare(&session.session, sql).await?;
    let columns = prepared.schema().map(|columns| session.types().schema(&columns));
    Ok(Statement::new(prepared, columns, is_once))
}

/// Runs a statement with each row of values, and gives the number of rows that it changed. It runs to its end: a client must not be told
/// that it was ended when its rows are written.
fn run<'a>(
    session: &'a FlightSession,
    statement: &'a Statement,
    values: &'a Values,
) -> BoxFuture<'a, Result<i64, QueryError>> {
    async move {
        let mut changed: u64 = 0;
        for (row, values) in values.rows.iter().enumerate() {
            let rows = run_once(session, statement, values.clone(), None).await;
            changed = changed.saturating_add(rows.map_err(|error| match row {
                0 => error,
                // Each row is a statement, and there are no transactions.
                _ => QueryError {
                    message: format!("{} (the {row} rows of values before were done)", error.message),
                    ..error
                },
            })?);
        }
        Ok(i64::try_from(changed).unwrap_or(i64::MAX))
    }
    .boxed()
}

/// Runs a statement, and gives the number of rows that it changed or gave. Those that it gave are added to `given`, if they are wanted.
fn run_once<'a>(
    session: &'a FlightSession,
    statement: &'a Statement,
    values: Vec<ScalarValue>,
    mut given: Option<&'a mut Vec<RecordBatch>>,
) -> BoxFuture<'a, Result<u64, QueryError>> {
    async move {
        let mut rows = match session.session.execute(&statement.prepared, values).await? {
            Answer::Done(done) => return Ok(done.rows.unwrap_or(0)),
            Answer::Rows(rows) => rows,
        };
        let mut count: u64 = 0;
        while let Some(batch) = rows.next().await.transpose()? {
            count = count.saturating_add(batch.num_rows() as u64);
            if let Some(given) = &mut given {
                given.push(batch);
            }
        }
        Ok(count)
    }
    .boxed()
}

/// Runs a statement that changes something when its columns are asked for, and keeps what it gives until that is fetched.
fn run_now<'a>(
    session: &'a FlightSession,
    statement: &'a Statement,
) -> BoxFuture<'a, Result<(), QueryError>> {
    async move {
        let (values, mut given) = (statement.values()?, Vec::new());
        for values in &values.rows {
            run_once(session, statement, values.clone(), Some(&mut given)).await?;
        }
        statement.keep_answer(given);
        Ok(())
    }
    .boxed()
}

/// Where the rows of a command are: here, with the command as the ticket.
fn info_of(
    columns: &Schema,
    ticket: Bytes,
    descriptor: FlightDescriptor,
) -> Result<Response<FlightInfo>, Status> {
    let endpoint = FlightEndpoint::new().with_ticket(Ticket::new(ticket));
    let info = FlightInfo::new().try_with_schema(columns).map_err(unwritable)?;
    Ok(Response::new(info.with_endpoint(endpoint).with_descriptor(descriptor).with_ordered(true)))
}

fn info_of_command(
    command: &impl ProstMessageExt,
    columns: &Schema,
    request: Request<FlightDescriptor>,
) -> Result<Response<FlightInfo>, Status> {
    info_of(columns, command.as_any().encode_to_vec().into(), request.into_inner())
}

fn batch(batch: RecordBatch) -> Result<Response<Messages>, Status> {
    Ok(Response::new(of_batch(batch)))
}

/// A schema in the form in which prepared statements tell theirs.
fn written(columns: &Schema) -> Result<Bytes, Status> {
    let options = IpcWriteOptions::default();
    let IpcMessage(message) = SchemaAsIpc::new(columns, &options).try_into().map_err(unwritable)?;
    Ok(message)
}

fn results<T: Send + 'static>(all: Vec<T>) -> Results<T> {
    Box::pin(stream::iter(all.into_iter().map(Ok)))
}

fn action(name: &str, description: &str) -> ActionType {
    ActionType { r#type: name.to_owned(), description: description.to_owned() }
}

#[tonic::async_trait]
impl FlightSqlService for FlightSql {
    type FlightService = Self;

    /// A token for a password. Without passwords a token, too: it is what the client's session belongs to.
    async fn do_handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Results<HandshakeResponse>>, Status> {
        let options = Self::caller(request.extensions())?.options.clone();
        let token = if self.authenticator.is_open() {
            let mut random = [0_u8; 32];
            SystemRandom::new().fill(&mut random).map_err(|_| login::refuse(Refusal::Busy))?;
            URL_SAFE_NO_PAD.encode(random)
        } else {
            let credentials = login::credentials(request.metadata());
            self.authenticator.token(credentials, Ends::WithSession).await.map_err(login::refuse)?.0
        };
        self.engine.audit_login(&options, None);
        let header = MetadataValue::try_from(format!("Bearer {token}"));
        let answer = HandshakeResponse { protocol_version: 0, payload: token.into() };
        let mut response = Response::new(results(vec![answer]));
        // In the headers before the answer: clients do not look into those behind it.
        let header = header.map_err(|_| Status::internal("a token is no header"))?;
        response.metadata_mut().insert("authorization", header);
        Ok(response)
    }

    async fn get_flight_info_statement(
        &self,
        query: CommandStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let session = self.session(&request)?;
        let statement = refused(prepared(&session, &query.query, true).await)?;
        if statement.runs_at_once() {
            refused(run_now(&session, &statement).await)?;
        }
        let (columns, ticket) = match statement.columns.clone() {
            Some(columns) => (columns, refused(session.statements.add(statement))?),
            None => (SchemaRef::new(Schema::empty()), Bytes::new()),
        };
        info_of_command(&TicketStatementQuery { statement_handle: ticket }, &columns, request)
    }

    async fn get_flight_info_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let session = self.session(&request)?;
        let statement = refused(session.statements.get(&query.prepared_statement_handle))?;
        if statement.runs_at_once() {
            refused(run_now(&session, &statement).await)?;
        }
        let nothing = || SchemaRef::new(Schema::empty());
        let columns = statement.columns.clone().unwrap_or_else(nothing);
        info_of_command(&query, &columns, request)
    }

    async fn do_get_statement(
        &self,
        ticket: TicketStatementQuery,
        request: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        if ticket.statement_handle.is_empty() {
            return Ok(Response::new(nothing()));
        }
        let session = self.session(&request)?;
        let statement = refused(session.statements.take(&ticket.statement_handle))?;
        fetch(session, statement).await
    }

    async fn do_get_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        let session = self.session(&request)?;
        let statement = refused(session.statements.get(&query.prepared_statement_handle))?;
        fetch(session, statement).await
    }

    async fn do_action_create_prepared_statement(
        &self,
        query: ActionCreatePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<ActionCreatePreparedStatementResult, Status> {
        let session = self.session(&request)?;
        let statement = refused(prepared(&session, &query.query, false).await)?;
        let dataset_schema = match &statement.columns {
            Some(columns) => written(columns)?,
            None => Bytes::new(),
        };
        let parameter_schema = match statement.prepared.parameter_types() {
            [] => Bytes::new(),
            types => written(&schema_of(types))?,
        };
        let prepared_statement_handle = refused(session.statements.add(statement))?;
        Ok(ActionCreatePreparedStatementResult {
            prepared_statement_handle,
            dataset_schema,
            parameter_schema,
        })
    }

    async fn do_action_close_prepared_statement(
        &self,
        query: ActionClosePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<(), Status> {
        // A statement that is closed twice is closed: drivers fail if closing fails.
        self.session(&request)?.statements.close(&query.prepared_statement_handle);
        Ok(())
    }

    async fn do_put_prepared_statement_query(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<DoPutPreparedStatementResult, Status> {
        let session = self.session(&request)?;
        let statement = refused(session.statements.get(&query.prepared_statement_handle))?;
        let needed = statement.prepared.parameter_types().len();
        let values = values_of(request.into_inner(), needed).await?.unwrap_or_default();
        refused(session.statements.bind(&query.prepared_statement_handle, values))?;
        // The same handle: of a new one, drivers close either the new or the old only.
        Ok(DoPutPreparedStatementResult { prepared_statement_handle: Some(query.prepared_statement_handle) })
    }

    async fn do_put_prepared_statement_update(
        &self,
        query: CommandPreparedStatementUpdate,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        let session = self.session(&request)?;
        let statement = refused(session.statements.get(&query.prepared_statement_handle))?;
        let needed = statement.prepared.parameter_types().len();
        let values = match values_of(request.into_inner(), needed).await? {
            Some(values) if needed > 0 => Arc::new(values),
            // Bound by a call before.
            _ => refused(statement.values())?,
        };
        refused(run(&session, &statement, &values).await)
    }

    async fn do_put_statement_update(
        &self,
        update: CommandStatementUpdate,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        let session = self.session(&request)?;
        let statement = refused(prepared(&session, &update.query, true).await)?;
        let values = refused(statement.values())?;
        refused(run(&session, &statement, &values).await)
    }

    async fn do_put_statement_ingest(
        &self,
        command: CommandStatementIngest,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        let session = self.session(&request)?;
        check_catalog(command.catalog.as_deref())?;
        let promise = Promise::of(request.metadata())?;
        ingest(&session.session, command, promise, request.into_inner()).await
    }

    async fn do_put_error_callback(
        &self,
        _: Request<PeekableFlightDataStream>,
        error: DoPutError,
    ) -> Result<Response<<Self as FlightService>::DoPutStream>, Status> {
        Err(Status::invalid_argument(format!(
            "DoPut: {error} The first message must name a command of Flight SQL"
        )))
    }

    async fn do_action_cancel_query(
        &self,
        query: ActionCancelQueryRequest,
        request: Request<Action>,
    ) -> Result<ActionCancelQueryResult, Status> {
        let info = FlightInfo::decode(query.info)
            .map_err(|error| Status::invalid_argument(format!("CancelQuery: {error}")))?;
        let result = match cancel(&*self.session(&request)?, &info) {
            true => CancelStatus::Cancelled,
            false => CancelStatus::NotCancellable,
        };
        // The outcomes of both actions have the same numbers; the library hides the names of this one.
        Ok(ActionCancelQueryResult { result: result.into() })
    }

    async fn do_action_fallback(
        &self,
        request: Request<Action>,
    ) -> Result<Response<<Self as FlightService>::DoActionStream>, Status> {
        let body = match request.get_ref().r#type.as_str() {
            SET_OPTIONS => session_options::set(&*self.session(&request)?, request.get_ref())?,
            GET_OPTIONS => session_options::get(&*self.session(&request)?),
            CLOSE_SESSION => {
                let owner = &Self::caller(request.extensions())?.owner;
                self.sessions.close(owner);
                if let Owner::Token(key) = owner {
                    self.authenticator.end_session(key);
                }
                CloseSessionResult { status: CloseSessionStatus::Closed as i32 }.encode_to_vec()
            }
            CANCEL_FLIGHT => {
                let asked = CancelFlightInfoRequest::decode(&*request.get_ref().body)
                    .map_err(|error| Status::invalid_argument(format!("{CANCEL_FLIGHT}: {error}")))?;
                let session = self.session(&request)?;
                let status = match asked.info.is_some_and(|info| cancel(&session, &info)) {
                    true => CancelStatus::Cancelled,
                    false => CancelStatus::NotCancellable,
                };
                CancelFlightInfoResult { status: status as i32 }.encode_to_vec()
            }
            other => {
                let message = format!("there is no action `{other}`; ListActions lists what there is");
                return Err(Status::unimplemented(message));
            }
        };
        Ok(Response::new(results(vec![arrow_flight::Result { body: body.into() }])))
    }

    async fn list_custom_actions(&self) -> Option<Vec<Result<ActionType, Status>>> {
        let actions = [
            action(SET_OPTIONS, "Sets options of the session.\nRequest Message: SetSessionOptionsRequest"),
            action(
                GET_OPTIONS,
                "Tells the options of the session.\nRequest Message: GetSessionOptionsRequest",
            ),
            action(CLOSE_SESSION, "Ends the session.\nRequest Message: CloseSessionRequest"),
            action(CANCEL_FLIGHT, "Ends a query.\nRequest Message: CancelFlightInfoRequest"),
        ];
        Some(actions.into_iter().map(Ok).collect())
    }

    async fn get_flight_info_catalogs(
        &self,
        query: CommandGetCatalogs,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let columns = query.into_builder().schema();
        info_of_command(&query, &columns, request)
    }

    async fn do_get_catalogs(
        &self,
        query: CommandGetCatalogs,
        _: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        batch(metadata::catalogs(query)?)
    }

    async fn get_flight_info_schemas(
        &self,
        query: CommandGetDbSchemas,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let columns = query.clone().into_builder().schema();
        info_of_command(&query, &columns, request)
    }

    async fn do_get_schemas(
        &self,
        query: CommandGetDbSchemas,
        request: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        batch(metadata::schemas(&self.session(&request)?.session, query).await?)
    }

    async fn get_flight_info_tables(
        &self,
        query: CommandGetTables,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let columns = query.clone().into_builder().schema();
        info_of_command(&query, &columns, request)
    }

    async fn do_get_tables(
        &self,
        query: CommandGetTables,
        request: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        let session = self.session(&request)?;
        batch(metadata::tables(&session.session, query, session.types()).await?)
    }

    async fn get_flight_info_table_types(
        &self,
        query: CommandGetTableTypes,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let columns = query.into_builder().schema();
        info_of_command(&query, &columns, request)
    }

    async fn do_get_table_types(
        &self,
        query: CommandGetTableTypes,
        _: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        batch(metadata::table_types(query)?)
    }

    async fn get_flight_info_sql_info(
        &self,
        query: CommandGetSqlInfo,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        info_of_command(&query, &self.infos.schema(), request)
    }

    async fn do_get_sql_info(
        &self,
        query: CommandGetSqlInfo,
        _: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        batch(self.infos.record_batch(query.info).map_err(Status::from)?)
    }

    async fn get_flight_info_xdbc_type_info(
        &self,
        query: CommandGetXdbcTypeInfo,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        info_of_command(&query, &self.types.schema(), request)
    }

    async fn do_get_xdbc_type_info(
        &self,
        query: CommandGetXdbcTypeInfo,
        _: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        batch(self.types.record_batch(query.data_type).map_err(Status::from)?)
    }

    async fn get_flight_info_primary_keys(
        &self,
        query: CommandGetPrimaryKeys,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        info_of_command(&query, &primary_key_columns(), request)
    }

    async fn do_get_primary_keys(
        &self,
        query: CommandGetPrimaryKeys,
        request: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        batch(metadata::primary_keys(&self.session(&request)?.session, &query).await?)
    }

    async fn get_flight_info_exported_keys(
        &self,
        query: CommandGetExportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        info_of_command(&query, &foreign_key_columns(), request)
    }

    async fn do_get_exported_keys(
        &self,
        _: CommandGetExportedKeys,
        _: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        batch(foreign_keys())
    }

    async fn get_flight_info_imported_keys(
        &self,
        query: CommandGetImportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        info_of_command(&query, &foreign_key_columns(), request)
    }

    async fn do_get_imported_keys(
        &self,
        _: CommandGetImportedKeys,
        _: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        batch(foreign_keys())
    }

    async fn get_flight_info_cross_reference(
        &self,
        query: CommandGetCrossReference,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        info_of_command(&query, &foreign_key_columns(), request)
    }

    async fn do_get_cross_reference(
        &self,
        _: CommandGetCrossReference,
        _: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        batch(foreign_keys())
    }

    /// What is told is known from the start.
    async fn register_sql_info(&self, _: i32, _: &SqlInfo) {}
}

async fn fetch(session: InUse, statement: Arc<Statement>) -> Result<Response<Messages>, Status> {
    let rows = match statement.columns.clone() {
        // Run when its columns were asked for, and not again when a client fetches its rows twice.
        Some(columns) if statement.runs_at_once() => {
            of_batches(statement.take_answer().unwrap_or_default(), columns)
        }
        Some(columns) => rows_of(session, statement, columns).await,
        None => Ok(nothing()),
    };
    refused(rows).map(Response::new)
}

/// Ends the query of an answer that a client was told of; false if there is none.
fn cancel(session: &FlightSession, info: &FlightInfo) -> bool {
    let tickets = info.endpoint.iter().filter_map(|endpoint| endpoint.ticket.as_ref());
    let handles = tickets.filter_map(|ticket| {
        let any = Any::decode(&*ticket.ticket).ok()?;
        let once = any.unpack::<TicketStatementQuery>().ok().flatten().map(|ticket| ticket.statement_handle);
        let prepared = || any.unpack::<CommandPreparedStatementQuery>().ok().flatten();
        once.or_else(|| prepared().map(|query| query.prepared_statement_handle))
    });
    let mut cancelled = false;
    for handle in handles {
        cancelled |= session.statements.cancel(&handle);
    }
    cancelled
}
