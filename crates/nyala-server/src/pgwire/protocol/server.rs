//! Accepts connections, bounds their number, and closes them when the server stops.
//!
//! A connection is one of [`PendingConnections`] until its client has logged in, and only then takes a place of
//! `server.max_connections`.

use std::sync::Arc;

use nyala_engine::{Engine, SessionOptions};
use nyala_model::config::ServerConfig;
use nyala_pg::DATABASE;
use nyala_pg::backends::BACKENDS;
use nyala_pg::translation::DIALECT;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::cancel::CancelMap;
use super::connection::Connection;
use super::listen::{Listener, Peer, Socket};
use super::login::login;
use super::startup::{Head, Opening, StartupParameters, encrypt, open};
use super::stream::{Input, Output, split};
use crate::auth::Authenticator;
use crate::net::attend_all;
use crate::net::pending::{Ended, Pending, PendingConnections};
use crate::net::tls::Tls;
use crate::pgwire::errors::{Failure, Stop, sqlstate};

/// Serves PostgreSQL clients on `listener` until `shutdown` is cancelled; then idle connections are
/// closed, and running statements may end. Gives when the last connection has closed; dropping the
/// future closes them at once.
pub async fn serve(
    engine: Arc<Engine>,
    authenticator: Arc<Authenticator>,
    listener: Listener,
    limits: ServerConfig,
    tls: Option<Tls>,
    shutdown: CancellationToken,
) {
    describe_metrics();
    let slots = Semaphore::new(limits.max_connections.min(Semaphore::MAX_PERMITS));
    let pending = PendingConnections::new("postgres", &limits);
    let cancels = Arc::default();
    let door =
        Arc::new(Door { engine, authenticator, cancels, slots, limits, tls, shutdown: shutdown.clone() });
    attend_all(listener, pending, shutdown, |(socket, peer), place| {
        Arc::clone(&door).attend(socket, peer, place)
    })
    .await;
}

fn describe_metrics() {
    ::metrics::describe_gauge!(
        "nyala_postgres_connections",
        "PostgreSQL connections whose clients have logged in."
    );
    ::metrics::describe_counter!("nyala_postgres_statements_total", "PostgreSQL statements by result.");
    ::metrics::describe_counter!(
        "nyala_postgres_refused_total",
        "PostgreSQL connections refused by the limit."
    );
}

/// State that all connections share.
struct Door {
    engine: Arc<Engine>,
    authenticator: Arc<Authenticator>,
    cancels: Arc<CancelMap>,
    slots: Semaphore,
    limits: ServerConfig,
    tls: Option<Tls>,
    shutdown: CancellationToken,
}

/// A connection after its first packet.
struct Opened {
    opening: Result<Opening, Stop>,
    input: Input,
    output: Output,
    /// Whether nothing between client and server can read the traffic.
    private: bool,
}

/// A client that has logged in, with its place.
struct Admitted<'a> {
    start: StartupParameters,
    options: SessionOptions,
    input: Input,
    output: Output,
    _slot: SemaphorePermit<'a>,
}

/// Logs at debug level, because metrics count floods of connections.
fn log_ended(ended: Ended, peer: Peer) {
    match ended {
        Ended::Evicted => tracing::debug!(%peer, "closed a connection without login: newer ones came"),
        Ended::Late => {
            tracing::debug!(%peer, "closed a connection without login: `server.login_timeout_ms` is over")
        }
    }
}

impl Door {
    /// Serves one socket to its end.
    async fn attend(self: Arc<Self>, socket: Socket, peer: Peer, pending: Pending) {
        let admitted = tokio::select! {
            () = self.shutdown.cancelled() => return,
            // Returning drops the socket, which closes it.
            ended = pending.ended() => return log_ended(ended, peer),
            admitted = self.admit(socket, peer) => admitted,
        };
        drop(pending);
        if let Some(admitted) = admitted {
            self.serve(admitted, peer).await;
        }
    }

    /// Reads the client's request and authenticates it; none if the client got its answer, or left.
    async fn admit(&self, socket: Socket, peer: Peer) -> Option<Admitted<'_>> {
        let Ok(Opened { opening, mut input, mut output, private }) = self.open(socket).await else {
            tracing::debug!(%peer, "connection closed before start-up");
            return None;
        };
        match opening {
            Ok(Opening::Session(start)) if private || self.admits_plaintext() => {
                return self.log_in(start, input, output, peer).await;
            }
            Ok(Opening::Session(_)) => {
                tracing::info!(%peer, "refused a connection without encryption");
                refuse(unencrypted(), &mut output).await;
            }
            // Clients send these without encryption; the secret in them is good for nothing else.
            Ok(Opening::Cancel(key)) => {
                let found = self.cancels.cancel(key);
                tracing::debug!(%peer, process_id = key.process_id, found, "cancel request");
                // Encrypted connections are closed in order, or the client takes it for a failure.
                output.close().await;
            }
            Err(Stop::Failure(failure)) => {
                tracing::info!(%peer, "refused a connection: {}", failure.message);
                input.discard();
                refuse(failure, &mut output).await;
            }
            Err(Stop::Gone) => tracing::debug!(%peer, "connection closed before start-up"),
        }
        None
    }

    async fn open(&self, socket: Socket) -> Result<Opened, Stop> {
        let (stream, head) = encrypt(socket, self.tls.as_ref()).await?;
        let private = stream.is_private();
        let (mut input, mut output) = split(stream, head.as_ref().map(Head::as_slice).unwrap_or_default());
        let opening = open(&mut input, &mut output).await;
        Ok(Opened { opening, input, output, private })
    }

    fn admits_plaintext(&self) -> bool {
        self.tls.is_none() || self.limits.tls.allow_plaintext
    }

    async fn log_in(
        &self,
        start: StartupParameters,
        mut input: Input,
        mut output: Output,
        peer: Peer,
    ) -> Option<Admitted<'_>> {
        let mut options = options_of(&start, peer);
        match login(&self.authenticator, &start.user, &mut input, &mut output).await {
            Ok(identity) => options.identity = identity,
            Err(Stop::Gone) => {
                tracing::debug!(%peer, "connection closed during the login");
                return None;
            }
            Err(Stop::Failure(failure)) => {
                tracing::info!(%peer, user = start.user, "refused a login: {}", failure.message);
                self.engine.audit_login(&options, Some(&failure.message));
                refuse(failure, &mut output).await;
                return None;
            }
        }
        let Ok(slot) = self.slots.try_acquire() else {
            ::metrics::counter!("nyala_postgres_refused_total").increment(1);
            tracing::warn!(%peer, limit = self.limits.max_connections, "connection limit reached");
            refuse(self.too_many(), &mut output).await;
            return None;
        };
        if start.database != DATABASE {
            tracing::info!(%peer, user = start.user, "refused a connection to database `{}`", start.database);
            refuse(unknown_database(&start.database), &mut output).await;
            return None;
        }
        self.engine.audit_login(&options, None);
        Some(Admitted { start, options, input, output, _slot: slot })
    }

    /// Serves a client that has logged in until it leaves.
    async fn serve(&self, admitted: Admitted<'_>, peer: Peer) {
        let Admitted { start, mut options, input, output, _slot } = admitted;
        let _open = OpenConnection::count();
        options.process_id = BACKENDS.next_id();
        let session = self.engine.session(options);
        let registration = self.cancels.register(&session, self.shutdown.child_token());
        tracing::debug!(%peer, user = start.user, database = start.database, "connection opened");
        let connection = Connection::new(session, &registration, input, output, &start);
        connection.run(start, self.limits.max_body_bytes, self.shutdown.clone()).await;
        tracing::debug!(%peer, "connection closed");
    }

    fn too_many(&self) -> Failure {
        let limit = self.limits.max_connections;
        Failure::fatal(sqlstate::TOO_MANY_CONNECTIONS, format!("all {limit} connections are taken"))
            .hint("close some, or raise `server.max_connections`")
    }
}

/// The user and application of a session, as the client tells them.
fn options_of(start: &StartupParameters, peer: Peer) -> SessionOptions {
    let application = start.settings.iter().rfind(|(name, _)| name == "application_name");
    SessionOptions {
        user: start.user.clone(),
        application: application.map(|(_, value)| value.clone()).unwrap_or_default(),
        client: peer.to_string(),
        dialect: DIALECT,
        ..SessionOptions::default()
    }
}

fn unencrypted() -> Failure {
    let message = "this server wants encrypted connections";
    Failure::fatal(sqlstate::INVALID_AUTHORIZATION, message)
        .hint("connect with `sslmode=require` or stricter")
}

fn unknown_database(name: &str) -> Failure {
    Failure::fatal(sqlstate::INVALID_CATALOG, format!("database `{name}` does not exist"))
        .hint(format!("there is one database: connect to `{DATABASE}`"))
}

async fn refuse(failure: Failure, output: &mut Output) {
    let _ = output.put(&failure.into_message());
    output.close().await;
}

/// Counts a connection while it lives.
struct OpenConnection;

impl OpenConnection {
    fn count() -> Self {
        ::metrics::gauge!("nyala_postgres_connections").increment(1.0);
        Self
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        ::metrics::gauge!("nyala_postgres_connections").decrement(1.0);
    }
}
