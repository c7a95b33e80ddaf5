//! Accepts connections, bounds their number, and sees them off when the server stops.

use std::sync::Arc;
use std::time::Duration;

use nyala_engine::{Engine, Identity, SessionOptions};
use nyala_model::config::ServerConfig;
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::cancel::CancelMap;
use super::connection::Connection;
use super::errors::{Failure, Stop, sqlstate};
use super::listen::{Listener, Peer, Socket};
use super::login::login;
use super::startup::{Head, Opening, StartupParameters, encrypt, open};
use super::stream::{Input, Output, split};
use crate::auth::Authenticator;
use crate::tls::Tls;

/// How long a client may take to say what it wants.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(10);

/// Sockets beyond the limit that are still heard, to be told so, or to cancel something.
const SPARE_SOCKETS: usize = 64;

/// How long to wait when the system has no socket to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

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
    let most_sockets = limits.max_connections.saturating_add(SPARE_SOCKETS);
    let slots = Semaphore::new(limits.max_connections.min(Semaphore::MAX_PERMITS));
    let cancels = Arc::default();
    let door =
        Arc::new(Door { engine, authenticator, cancels, slots, limits, tls, shutdown: shutdown.clone() });
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            Some(ended) = connections.join_next() => log_panic(ended),
            accepted = listener.accept() => match accepted {
                Ok((socket, peer)) if connections.len() < most_sockets => {
                    connections.spawn(Arc::clone(&door).attend(socket, peer));
                }
                Ok((_, peer)) => tracing::warn!(%peer, "too many sockets; closing a new one unheard"),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
    drop(listener);
    while let Some(ended) = connections.join_next().await {
        log_panic(ended);
    }
}

fn describe_metrics() {
    ::metrics::describe_gauge!("nyala_postgres_connections", "PostgreSQL connections open.");
    ::metrics::describe_counter!("nyala_postgres_statements_total", "PostgreSQL statements by result.");
    ::metrics::describe_counter!(
        "nyala_postgres_refused_total",
        "PostgreSQL connections refused by the limit."
    );
}

fn log_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a connection ended by a fault of the server");
    }
}

/// What all connections share.
struct Door {
    engine: Arc<Engine>,
    authenticator: Arc<Authenticator>,
    cancels: Arc<CancelMap>,
    slots: Semaphore,
    limits: ServerConfig,
    tls: Option<Tls>,
    shutdown: CancellationToken,
}

/// A connection that has said what it wants.
struct Opened {
    opening: Result<Opening, Stop>,
    input: Input,
    output: Output,
    /// Nobody on the way can read it.
    private: bool,
}

impl Door {
    /// Serves one socket to its end.
    async fn attend(self: Arc<Self>, socket: Socket, peer: Peer) {
        let opened = tokio::select! {
            () = self.shutdown.cancelled() => return,
            opened = timeout(STARTUP_TIMEOUT, self.open(socket)) => opened,
        };
        let Ok(opened) = opened else {
            return tracing::info!(%peer, "no start-up message within {} s", STARTUP_TIMEOUT.as_secs());
        };
        let Ok(Opened { opening, mut input, mut output, private }) = opened else {
            return tracing::debug!(%peer, "connection closed before start-up");
        };
        match opening {
            Ok(Opening::Session(start)) if private || self.admits_plaintext() => {
                self.session(start, input, output, peer).await;
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

    async fn session(&self, start: StartupParameters, mut input: Input, mut output: Output, peer: Peer) {
        let Ok(_slot) = self.slots.try_acquire() else {
            ::metrics::counter!("nyala_postgres_refused_total").increment(1);
            tracing::warn!(%peer, limit = self.limits.max_connections, "connection limit reached");
            return refuse(self.too_many(), &mut output).await;
        };
        let _open = OpenConnection::count();
        let mut options = options_of(&start, peer);
        match self.login(&start.user, &mut input, &mut output).await {
            Ok(identity) => options.identity = identity,
            Err(Stop::Gone) => return tracing::debug!(%peer, "connection closed during the login"),
            Err(Stop::Failure(failure)) => {
                tracing::info!(%peer, user = start.user, "refused a login: {}", failure.message);
                self.engine.audit_login(&options, Some(&failure.message));
                return refuse(failure, &mut output).await;
            }
        }
        self.engine.audit_login(&options, None);
        let session = self.engine.session(options);
        let registration = self.cancels.register(Arc::clone(&session));
        tracing::debug!(%peer, user = start.user, database = start.database, "connection opened");
        let connection = Connection::new(session, registration.key, input, output, &start);
        connection.run(start, self.limits.max_body_bytes, self.shutdown.clone()).await;
        tracing::debug!(%peer, "connection closed");
    }

    async fn login(&self, user: &str, input: &mut Input, output: &mut Output) -> Result<Identity, Stop> {
        tokio::select! {
            () = self.shutdown.cancelled() => Err(Stop::Gone),
            identity = timeout(STARTUP_TIMEOUT, login(&self.authenticator, user, input, output)) => {
                identity.unwrap_or(Err(Stop::Gone))
            }
        }
    }

    fn too_many(&self) -> Failure {
        let limit = self.limits.max_connections;
        Failure::fatal(sqlstate::TOO_MANY_CONNECTIONS, format!("all {limit} connections are taken"))
            .hint("close some, or raise `server.max_connections`")
    }
}

/// Who a session is for, as the client tells it.
fn options_of(start: &StartupParameters, peer: Peer) -> SessionOptions {
    let application = start.settings.iter().rfind(|(name, _)| name == "application_name");
    SessionOptions {
        user: start.user.clone(),
        application: application.map(|(_, value)| value.clone()).unwrap_or_default(),
        client: peer.to_string(),
        ..SessionOptions::default()
    }
}

fn unencrypted() -> Failure {
    let message = "this server wants encrypted connections";
    Failure::fatal(sqlstate::INVALID_AUTHORIZATION, message)
        .hint("connect with `sslmode=require` or stricter")
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
