//! Opens both doors, and closes them without cutting off running queries.
//!
//! ```text
//! bind both ─▶ open both ─▶ ready ── shutdown token ──▶ stop accepting
//!                                                        │ running queries end, at most `grace`
//!                                                        ▼
//!                                                  cancel the rest ─▶ let answers leave ─▶ stopped
//! ```

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use metrics_exporter_prometheus::BuildError;
use nyala_engine::Engine;
use nyala_model::config::{Authentication, Config, ServerConfig};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::auth::Authenticator;
use crate::metrics::Metrics;
use crate::net::tls::{Tls, TlsError};
use crate::pgwire::{self, Listener, LocalSocket};
use crate::rest::{self, Connections, Phase, Readiness, Shared};

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address cannot be listened on.
    #[error("cannot listen on `{address}`, the value of `{key}`: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The configuration key it came from.
        key: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// There can be no socket for clients of this machine.
    #[error("cannot make a socket in `{folder}`, the value of `server.postgres_socket`: {source}")]
    Socket {
        /// The folder.
        folder: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Other machines would reach a server that does not ask for a password.
    #[error("`{key}` is `{address}`, which other machines reach, and whoever reaches it could do everything")]
    Unprotected {
        /// The address.
        address: SocketAddr,
        /// The configuration key it came from.
        key: &'static str,
    },
    /// Encryption is configured and cannot be had.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The metrics recorder cannot be set up.
    #[error("cannot set up metrics: {0}")]
    Metrics(#[from] BuildError),
}

impl ServeError {
    /// Advice for the next step.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Bind { address, key, source } => Some(bind_hint(*address, key, source.kind())),
            Self::Socket { source, .. } => Some(socket_hint(source.kind()).to_owned()),
            Self::Unprotected { .. } => Some(
                "set `server.authentication = \"password\"`, listen on 127.0.0.1, or start with \
                 `--allow-unauthenticated` if something else protects the address"
                    .to_owned(),
            ),
            Self::Tls(_) => Some("name PEM files of a certificate and its key".to_owned()),
            Self::Metrics(_) => None,
        }
    }
}

fn bind_hint(address: SocketAddr, key: &str, kind: io::ErrorKind) -> String {
    match kind {
        io::ErrorKind::AddrInUse => {
            format!("stop the process that uses port {}, or set `{key}` to another address", address.port())
        }
        io::ErrorKind::PermissionDenied => {
            format!("ports below 1024 need privileges; set `{key}` to a higher port")
        }
        io::ErrorKind::AddrNotAvailable => {
            format!("set `{key}` to an address of this machine, `0.0.0.0` for all of them")
        }
        _ => format!("set `{key}` to another address"),
    }
}

fn socket_hint(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::AddrInUse => "stop the server that listens there, or name another folder",
        io::ErrorKind::AlreadyExists => "remove the file, or name another folder",
        io::ErrorKind::NotFound => "make the folder, or name another one",
        io::ErrorKind::InvalidInput => {
            "name a folder with a shorter path: with the file's name it has to fit in about a hundred bytes"
        }
        _ => "name a folder in which this user may make files",
    }
}

/// A server with both doors open.
#[derive(Debug)]
pub struct Running {
    /// Where PostgreSQL clients connect; the port is the real one also when 0 was asked for.
    pub postgres_address: SocketAddr,
    /// Where HTTP clients connect.
    pub http_address: SocketAddr,
    /// The folder of the socket for clients of this machine; none without a socket.
    pub postgres_socket: Option<PathBuf>,
    supervisor: JoinHandle<()>,
}

impl Running {
    /// Waits until the server has stopped, which it does after its shutdown token was cancelled.
    pub async fn stopped(self) {
        // The supervisor does not panic and is never aborted.
        let _ = self.supervisor.await;
    }
}

/// Starts serving `engine` on the configured addresses. Cancelling `shutdown` stops it: no more
/// connections, running queries get `server.shutdown_grace_ms` to end, then they are cancelled. The
/// engine is shut down with the server.
///
/// # Errors
/// [`ServeError::Bind`] if either address is taken, and other errors if it would not be safe; no door is
/// open then.
pub fn serve(
    config: &Config,
    engine: Arc<Engine>,
    shutdown: CancellationToken,
) -> BoxFuture<'_, Result<Running, ServeError>> {
    // Boxed: a crate that awaits an `async fn` compiles it anew, here with all doors, with its own settings.
    open_doors(config, engine, shutdown).boxed()
}

async fn open_doors(
    config: &Config,
    engine: Arc<Engine>,
    shutdown: CancellationToken,
) -> Result<Running, ServeError> {
    let server = &config.server;
    check_protected(server)?;
    let tls = Tls::load(&server.tls)?;
    let postgres = bind(server.postgres_listen, "server.postgres_listen").await?;
    let postgres_address = postgres.local_addr().unwrap_or(server.postgres_listen);
    let postgres_socket = absolute(&server.postgres_socket);
    let local = bind_local(postgres_socket.as_deref(), postgres_address.port()).await?;
    let postgres = Listener::new(postgres, local);
    let http = bind(server.http_listen, "server.http_listen").await?;
    let metrics = Metrics::install()?;
    let http_address = http.local_addr().unwrap_or(server.http_listen);
    let authenticator = Arc::new(Authenticator::new(Arc::clone(&engine), server.authentication));
    let shared = Shared::new(Arc::clone(&engine), Arc::clone(&authenticator), metrics.clone(), server);
    let readiness = shared.readiness.clone();

    let mut doors = JoinSet::new();
    let connections = Connections::new(http, server, tls.clone());
    let limits = server.clone();
    doors.spawn(pgwire::serve(Arc::clone(&engine), authenticator, postgres, limits, tls, shutdown.clone()));
    doors.spawn(rest::serve(connections, rest::router(shared), shutdown.clone()));
    readiness.set(Phase::Ready);

    let grace = Duration::from_millis(server.shutdown_grace_ms);
    let supervisor = tokio::spawn(supervise(doors, engine, metrics, readiness, shutdown, grace));
    Ok(Running { postgres_address, http_address, postgres_socket, supervisor })
}

/// Refuses addresses that more than this machine reaches, unless they were asked for expressly.
fn check_protected(server: &ServerConfig) -> Result<(), ServeError> {
    let addresses =
        [(server.postgres_listen, "server.postgres_listen"), (server.http_listen, "server.http_listen")];
    match addresses.into_iter().find(|(address, _)| !address.ip().is_loopback()) {
        Some((address, key))
            if !server.allow_unauthenticated && server.authentication == Authentication::None =>
        {
            Err(ServeError::Unprotected { address, key })
        }
        _ => Ok(()),
    }
}

async fn bind(address: SocketAddr, key: &'static str) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address).await.map_err(|source| ServeError::Bind { address, key, source })
}

/// The folder, if one is named, as clients must name it: they take other paths for names of machines.
fn absolute(folder: &Path) -> Option<PathBuf> {
    let named = Some(folder).filter(|folder| !folder.as_os_str().is_empty());
    named.map(|folder| std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned()))
}

async fn bind_local(folder: Option<&Path>, port: u16) -> Result<Option<LocalSocket>, ServeError> {
    let Some(folder) = folder else { return Ok(None) };
    let socket = LocalSocket::bind(folder, port).await;
    socket.map(Some).map_err(|source| ServeError::Socket { folder: folder.to_owned(), source })
}

/// How often recorded request times are moved into the histogram.
const UPKEEP: Duration = Duration::from_secs(5);

async fn supervise(
    mut doors: JoinSet<()>,
    engine: Arc<Engine>,
    metrics: Metrics,
    readiness: Readiness,
    shutdown: CancellationToken,
    grace: Duration,
) {
    loop {
        tokio::select! {
            // A stop that was asked for comes first: it closes the doors too.
            biased;
            () = shutdown.cancelled() => break,
            () = sleep(UPKEEP) => metrics.upkeep(),
            Some(_) = doors.join_next() => {
                // A server with one door is worse than none: its operator would not notice.
                tracing::error!("a door closed unasked; stopping");
                shutdown.cancel();
            }
        }
    }
    readiness.set(Phase::Stopping);
    drain(&mut doors, &engine, grace).await;
}

/// How long answers that are already computed may take to leave.
const FLUSH: Duration = Duration::from_secs(1);

/// Waits for running queries, then for their answers to leave; ends both after their time.
async fn drain(doors: &mut JoinSet<()>, engine: &Engine, grace: Duration) {
    engine.shutdown(grace).await;
    let all_closed = async { while doors.join_next().await.is_some() {} };
    if timeout(FLUSH, all_closed).await.is_err() {
        tracing::warn!("closing connections that did not take their answers");
        doors.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
    use super::*;

    #[tokio::test]
    async fn a_taken_port_names_address_key_and_next_step() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = taken.local_addr().unwrap();
        let error = bind(address, "server.http_listen").await.unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with(&format!("cannot listen on `{address}`, the value of `server.http_listen`"))
        );
        assert!(error.hint().unwrap().contains(&format!("port {}", address.port())));
    }

    #[test]
    fn an_address_that_others_reach_needs_protection() {
        let check = |postgres: &str, http: &str, allowed, refused: Option<&str>| {
            let server = ServerConfig {
                postgres_listen: postgres.parse().unwrap(),
                http_listen: http.parse().unwrap(),
                allow_unauthenticated: allowed,
                ..ServerConfig::default()
            };
            let found = check_protected(&server).err().map(|error| error.to_string());
            assert_eq!(found.is_some(), refused.is_some(), "{postgres} {http}: {found:?}");
            assert!(found.unwrap_or_default().contains(refused.unwrap_or_default()));
        };
        check("127.0.0.1:1", "[::1]:1", false, None);
        check("0.0.0.0:1", "127.0.0.1:1", false, Some("server.postgres_listen"));
        check("127.0.0.1:1", "10.0.0.7:1", false, Some("`server.http_listen` is `10.0.0.7:1`"));
        check("0.0.0.0:1", "[::]:1", true, None);
    }
}
