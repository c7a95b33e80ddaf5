//! One client's connection, from its greeting to its end.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use futures::future::OptionFuture;
use nyala_engine::{Prepared, Session, Statement, Text};
use nyala_pg::backends::{Backend, Notification};
use nyala_pg::translation::rewrite::{self, ClientStatement};
use pgwire::api::Type;
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::response::{CommandComplete, EmptyQueryResponse, ReadyForQuery};
use pgwire::messages::startup::{Authentication, BackendKeyData, ParameterStatus, SecretKey};
use tokio_util::sync::CancellationToken;

use super::cancel::{CancelKey, Reach, Registration};
use super::counted::Counted;
use super::messages::Request;
use super::portal::{Bound, Plan, Portal, Progress, Rows, RowsTag, attended};
use super::silence::silence;
use super::startup::StartupParameters;
use super::stream::{Input, Output};
use super::transaction::Transaction;
use crate::pgwire::commands::command::Command;
use crate::pgwire::commands::setting_commands::{SettingChange, setting_of};
use crate::pgwire::commands::settings::{Reported, Settings};
use crate::pgwire::errors::{Failure, Severity, Stop, sqlstate};
use crate::pgwire::values::columns::Column;
use crate::pgwire::values::encode::RowWriter;

/// After so many messages without a pause, a client is told that the server stops.
const MESSAGES_UNWATCHED: u64 = 64;

/// A prefix of a statement that contains its first word, after brackets.
const TAG_BYTES: usize = 64;

/// A text that a client sent.
pub enum ClientText {
    /// One query with a cached plan, which may run at once.
    Ready(Prepared),
    /// The statements, to be prepared; none if the text is empty.
    Statements(Vec<ClientStatement>),
}

/// A client's connection.
pub struct Connection {
    pub session: Arc<Session>,
    pub key: CancelKey,
    pub backend: Arc<Backend>,
    pub reach: Reach,
    pub input: Input,
    pub output: Output,
    pub settings: Settings,
    pub transaction: Transaction,
    /// Changes of settings that the end of the transaction may take back, oldest first.
    pub changes: Vec<SettingChange>,
    /// Notifications of the transaction, sent when it is committed.
    pub notifications: Vec<Notification>,
    pub statements: HashMap<String, Arc<super::portal::Stored>>,
    pub portals: HashMap<String, Portal>,
    /// After an error, extended messages are ignored up to the next Sync.
    skipping: bool,
    counted: Counted,
}

/// Result of running a plan.
pub enum Reply {
    /// The text held no statement.
    Empty,
    /// A statement without rows is done. The text is its tag.
    Done(String),
    Rows(Box<Rows>),
}

/// Refuses columns of other types than the client was told, because it would misread them.
fn check_unchanged(described: &SchemaRef, given: &SchemaRef) -> Result<(), Failure> {
    let types = |schema: &SchemaRef| -> Vec<Type> {
        schema.fields().iter().map(|field| Column::of(field).pg_type).collect()
    };
    match Arc::ptr_eq(described, given) || described == given || types(described) == types(given) {
        true => Ok(()),
        false => Err(Failure::changed_columns()),
    }
}

impl Connection {
    /// A connection after its start-up message.
    pub fn new(
        session: Arc<Session>,
        registration: &Registration,
        input: Input,
        output: Output,
        start: &StartupParameters,
    ) -> Self {
        Self {
            session,
            key: registration.key,
            backend: Arc::clone(&registration.backend),
            reach: registration.reach.clone(),
            input,
            output,
            settings: Settings::new(&start.user).of_superuser(registration.backend.is_superuser()),
            transaction: Transaction::default(),
            changes: Vec::new(),
            notifications: Vec::new(),
            statements: HashMap::new(),
            portals: HashMap::new(),
            skipping: false,
            counted: Counted::find(),
        }
    }

    /// Greets the client and serves it until it leaves, fails beyond repair, or `shutdown` is asked for.
    pub async fn run(mut self, start: StartupParameters, limit_bytes: usize, shutdown: CancellationToken) {
        let end = match Box::pin(self.greet(start)).await {
            Ok(()) => self.serve(limit_bytes, &shutdown).await,
            Err(stop) => stop,
        };
        // A statement that still runs has no client to answer.
        self.session.cancel();
        self.portals.clear();
        if let Stop::Failure(failure) = end {
            tracing::info!(sqlstate = failure.sqlstate, "connection closed: {}", failure.message);
            let _ = self.output.put(&Failure { severity: Severity::Fatal, ..failure }.into_message());
            self.output.close().await;
            self.input.drain().await;
        }
    }

    async fn greet(&mut self, start: StartupParameters) -> Result<(), Stop> {
        self.output.put(&PgWireBackendMessage::Authentication(Authentication::Ok))?;
        for (name, value) in start.settings {
            self.apply_at_start(&name, &value).await?;
        }
        self.settings.settle();
        self.session.settle();
        for reported in self.settings.reported() {
            self.report(reported)?;
        }
        let value = setting_of(self, "timezone").unwrap_or_else(|| "UTC".to_owned());
        self.report(Reported { name: "TimeZone", value })?;
        let secret = SecretKey::I32(self.key.secret);
        self.output
            .put(&PgWireBackendMessage::BackendKeyData(BackendKeyData::new(self.key.process_id, secret)))?;
        self.ready().await
    }

    /// Serves messages, and gives the reason for the end of the connection.
    async fn serve(&mut self, limit_bytes: usize, shutdown: &CancellationToken) -> Stop {
        let stopped = || {
            let message = match shutdown.is_cancelled() {
                true => "terminating connection: the server is stopping",
                false => "terminating connection due to administrator command",
            };
            Failure::fatal(sqlstate::ADMIN_SHUTDOWN, message).into()
        };
        // A token of this connection alone, awaited until its end: awaiting the server's token takes a lock that all connections share.
        let own = self.reach.end.clone();
        let mail = Arc::clone(&self.reach.mail);
        let mut stopping = pin!(own.cancelled());
        let mut unwatched = 0;
        loop {
            if self.reach.is_terminated() {
                return stopped();
            }
            unwatched += 1;
            if unwatched == MESSAGES_UNWATCHED {
                // A client that never pauses gets no later chance.
                if own.is_cancelled() {
                    return stopped();
                }
                unwatched = 0;
            }
            let idle = self.settings.idle_timeout(self.transaction.is_open());
            let silence = OptionFuture::from(idle.map(|idle| Box::pin(silence(idle))));
            let request = tokio::select! {
                biased;
                request = self.input.next(limit_bytes) => request,
                () = &mut stopping => return stopped(),
                Some(stop) = silence => return stop,
                () = mail.notified(), if !self.transaction.is_open() => {
                    if let Err(stop) = self.deliver_now().await {
                        return stop;
                    }
                    continue;
                }
            };
            let done = match request {
                Ok(Request::Terminate) => return Stop::Gone,
                Ok(request) => self.handle(request).await,
                // A message that cannot be decoded fails like a statement, unless framing is lost.
                Err(stop) => Box::pin(self.recover(stop, true)).await,
            };
            if let Err(stop) = done {
                return stop;
            }
        }
    }

    /// Sends the notifications that have come to a client that waits.
    async fn deliver_now(&mut self) -> Result<(), Stop> {
        self.deliver()?;
        self.output.flush().await
    }

    /// Handles one message. Rare messages have their state in boxes: this future is part of the state of every connection, and the less of
    /// it a query touches, the more of it stays in the processor's caches where there are many connections.
    async fn handle(&mut self, request: Request) -> Result<(), Stop> {
        match request {
            Request::Sync => self.sync().await,
            // There is no COPY for these rows, or it has failed.
            Request::CopyData(_) | Request::CopyDone | Request::CopyFail(_) => Ok(()),
            _ if self.skipping => Ok(()),
            Request::Query(sql) => {
                // The box takes memory that the last query has just freed, and no room in the connection's state.
                let done = match sql {
                    Ok(sql) => Box::pin(self.simple_query(&sql)).await.map_err(|stop| stop.within(&sql)),
                    Err(unreadable) => Err(unreadable.into()),
                };
                if let Err(stop) = done {
                    Box::pin(self.recover(stop, false)).await?;
                }
                self.end_implicit_transaction();
                self.ready().await
            }
            Request::Flush => self.output.flush().await,
            extended => match Box::pin(self.extended(extended)).await {
                Err(stop) => Box::pin(self.recover(stop, true)).await,
                // A client that sends many messages before it reads must not have all the answers gathered.
                Ok(()) if self.output.is_full() => self.output.flush().await,
                Ok(()) => Ok(()),
            },
        }
    }

    /// Tells the client about a failure and goes on, unless the connection ends with it.
    async fn recover(&mut self, stop: Stop, skip: bool) -> Result<(), Stop> {
        let failure = match stop {
            Stop::Failure(failure) if !failure.is_fatal() => failure,
            stop => return Err(stop),
        };
        // The message may quote the statement, which may hold a password; `system.query_log` has it as it may be shown.
        tracing::debug!(sqlstate = failure.sqlstate, "statement failed");
        let was_cancelled = failure.sqlstate == sqlstate::QUERY_CANCELED;
        if was_cancelled { &self.counted.cancelled } else { &self.counted.error }.increment(1);
        self.transaction.fail();
        self.backend.take_actions();
        if !self.transaction.is_open() {
            self.settle_notifications(false);
        }
        // Cursors of a block that failed are of no more use, and may hold slots.
        self.portals.retain(|_, portal| portal.kept);
        self.skipping = skip;
        self.output.put(&failure.into_message())?;
        // Some clients wait for the error before they send the Sync that ends the skipping.
        if skip { self.output.flush().await } else { Ok(()) }
    }

    async fn sync(&mut self) -> Result<(), Stop> {
        self.skipping = false;
        self.end_implicit_transaction();
        self.ready().await
    }

    /// Outside a block, every Query and every Sync is a transaction of its own: its portals end.
    fn end_implicit_transaction(&mut self) {
        if !self.transaction.is_open() {
            self.keep_held();
            self.settle_notifications(true);
        }
    }

    /// Ends a transaction that is committed: of its portals only those with HOLD stay.
    pub fn keep_held(&mut self) {
        self.portals.retain(|_, portal| {
            portal.kept = portal.hold;
            portal.kept
        });
    }

    pub async fn ready(&mut self) -> Result<(), Stop> {
        if !self.transaction.is_open() {
            self.deliver()?;
        }
        let status = self.transaction.status();
        self.output.put(&PgWireBackendMessage::ReadyForQuery(ReadyForQuery::new(status)))?;
        self.output.flush().await
    }

    /// Tells the client the value of a setting.
    pub fn report(&mut self, reported: Reported) -> Result<(), Stop> {
        let status = ParameterStatus::new(reported.name.to_owned(), reported.value);
        self.output.put(&PgWireBackendMessage::ParameterStatus(status))
    }

    /// Finds the cached plan of a text, or splits it into statements. Values of the session are filled into a statement only when it
    /// runs.
    pub fn read(&self, sql: &str) -> Result<ClientText, Failure> {
        Ok(match self.session.read(sql)? {
            Text::Ready(prepared) => ClientText::Ready(prepared),
            Text::Statements(statements) => ClientText::Statements(rewrite::for_clients(sql, statements)),
        })
    }

    /// Plans one statement, if the transaction admits it.
    pub async fn plan(&mut self, statement: Statement) -> Result<Plan, Stop> {
        if let Some(command) = Command::recognise(&statement)? {
            self.transaction.admit(command.ends_block())?;
            let engines = matches!(&command, Command::Show(name) if setting_of(self, name).is_none());
            if !engines {
                return Ok(Plan::Command(Box::new(command)));
            }
        }
        self.transaction.admit(false)?;
        let tag = RowsTag::of(&statement.beginning(TAG_BYTES));
        let prepared = attended(&mut self.input, self.session.prepare(statement)).await?;
        Ok(Plan::Engine(Box::new(prepared), tag))
    }

    /// Starts the plan of a portal.
    async fn start(&mut self, bound: &Bound) -> Result<Reply, Stop> {
        match &bound.stored.plan {
            Plan::Empty => Ok(Reply::Empty),
            Plan::Engine(prepared, tag) => {
                self.transaction.admit(false)?;
                if prepared.statement().copy_from_client().is_some() {
                    self.check_writable(prepared)?;
                    let rows = Box::pin(self.copy_in(prepared.statement())).await?;
                    return Ok(Reply::Done(format!("COPY {rows}")));
                }
                let reply = self.execute(prepared, *tag, bound.parameters.clone()).await?;
                match (&reply, prepared.schema()) {
                    (Reply::Rows(rows), Some(described)) if !bound.described_on_run => {
                        check_unchanged(&described, &rows.schema)?;
                    }
                    _ => {}
                }
                Ok(reply)
            }
            Plan::Command(command) => {
                self.transaction.admit(command.ends_block())?;
                Box::pin(self.command(command, bound)).await
            }
        }
    }

    /// Sends a finished reply, or rows up to `limit` (and leaves the rest in the portal).
    pub async fn answer(&mut self, portal: &mut Portal, limit: Option<usize>) -> Result<(), Stop> {
        if matches!(portal.progress, Progress::New) {
            self.open(portal).await?;
        }
        let Progress::Running(rows) = &mut portal.progress else {
            return Ok(());
        };
        let mut writer = match rows.writer.take() {
            Some(writer) => writer,
            None => {
                let bound = &portal.bound;
                let options = self.settings.format_options();
                RowWriter::of(bound.stored.plan.prepared(), &rows.schema, &bound.formats, options)?
            }
        };
        let (sent, more) = rows.send(&mut writer, limit, &mut self.input, &mut self.output).await?;
        if more {
            return self.suspended();
        }
        let tag = rows.tag.text(sent);
        if self.session.shows_route()
            && let Some(route) = rows.route()
        {
            // Messages to clients of PostgreSQL get double quotes for back-ticks, which would break the document.
            let route = route.to_string().replace('`', "\\u0060");
            self.notice(Some(Failure::notice(format!("route: {route}"))))?;
        }
        portal.progress = Progress::Finished;
        let bound = Arc::clone(&portal.bound);
        self.perform(&bound.stored.plan).await?;
        self.complete(tag)
    }

    /// Runs the portal far enough to know its rows; a reply without rows is sent at once.
    pub async fn open(&mut self, portal: &mut Portal) -> Result<(), Stop> {
        let bound = Arc::clone(&portal.bound);
        match self.start(&bound).await? {
            Reply::Rows(rows) => portal.progress = Progress::Running(rows),
            Reply::Done(tag) => {
                portal.progress = Progress::Finished;
                self.perform(&bound.stored.plan).await?;
                self.complete(tag)?;
            }
            Reply::Empty => {
                portal.progress = Progress::Finished;
                self.output.put(&PgWireBackendMessage::EmptyQueryResponse(EmptyQueryResponse::new()))?;
            }
        }
        Ok(())
    }

    pub fn complete(&mut self, tag: String) -> Result<(), Stop> {
        self.counted.ok.increment(1);
        self.output.put(&PgWireBackendMessage::CommandComplete(CommandComplete::new(tag)))
    }
}
