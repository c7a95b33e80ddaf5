//! Opens the doors, and closes them without cutting off running queries.
//!
//! ```text
//! bind all ─▶ open all ─▶ ready ── shutdown token ──▶ stop accepting
//!                                                        │ running queries end, at most `grace`
//!                                                        ▼
//!                                                  cancel the rest ─▶ let answers leave ─▶ stopped
//! ```

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_engine::Engine;
use nyala_model::config::{Authentication, Config, ServerConfig};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::auth::Authenticator;
use crate::door::{Common, Door, Listen};
pub use crate::error::ServeError;
use crate::flight::FlightDoor;
use crate::http::{Phase, Readiness};
use crate::metrics::Metrics;
use crate::net::tls::Tls;
use crate::pgwire::{PostgresDoor, socket_folder};
use crate::rest::HttpDoor;

/// A server with its doors open.
#[derive(Debug)]
pub struct Running {
    /// The address for PostgreSQL clients; the port is the real one also when 0 was configured.
    pub postgres_address: SocketAddr,
    /// The address for HTTP clients.
    pub http_address: SocketAddr,
    /// The address for Flight SQL clients; none if the door is not configured.
    pub flight_address: Option<SocketAddr>,
    /// The address of Kylin's API, besides that of HTTP; none if it has no port of its own.
    pub kylin_address: Option<SocketAddr>,
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
/// [`ServeError::Bind`] if an address is taken, and other errors if serving would not be safe; no door is
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
    let secret = (!config.node.listen.is_empty()).then_some(config.node.secret.as_str());
    let authenticator = Authenticator::new(Arc::clone(&engine), server.authentication, secret);
    let common = Common {
        authenticator: Arc::new(authenticator),
        engine: Arc::clone(&engine),
        config: server.clone(),
        tls: Tls::load(&server.tls)?,
        metrics: Metrics::install()?,
        readiness: Readiness::default(),
    };
    let postgres = PostgresDoor::bind(&common).await?;
    let http = HttpDoor::bind(&common).await?;
    let flight = FlightDoor::bind(&common).await?;
    let kylin = HttpDoor::bind_kylin(&common).await?;
    let (postgres_address, http_address) = (postgres.address(), http.address());
    let flight_address = flight.as_ref().map(Door::address);
    let kylin_address = kylin.as_ref().map(Door::address);
    let postgres_socket = socket_folder(&server.postgres_socket);

    let mut doors = JoinSet::new();
    let bound: [Box<dyn Door>; 2] = [Box::new(postgres), Box::new(http)];
    let flight = flight.map(|door| -> Box<dyn Door> { Box::new(door) });
    let kylin = kylin.map(|door| -> Box<dyn Door> { Box::new(door) });
    for door in bound.into_iter().chain(flight).chain(kylin) {
        doors.spawn(door.serve(shutdown.clone()));
    }
    let Common { metrics, readiness, tls, .. } = common;
    readiness.set(Phase::Ready);
    follow_certificate(tls, shutdown.clone());

    let grace = Duration::from_millis(server.shutdown_grace_ms);
    let supervisor = tokio::spawn(supervise(doors, engine, metrics, readiness, shutdown, grace));
    Ok(Running { postgres_address, http_address, flight_address, kylin_address, postgres_socket, supervisor })
}

/// Refuses addresses that other machines reach, unless the configuration allows them expressly.
///
/// # Errors
/// [`ServeError::Unprotected`].
pub fn check_protected(server: &ServerConfig) -> Result<(), ServeError> {
    match Listen::all(server).find(|listen| !listen.address.ip().is_loopback()) {
        Some(Listen { address, key })
            if !server.allow_unauthenticated && server.authentication == Authentication::None =>
        {
            Err(ServeError::Unprotected { address, key })
        }
        _ => Ok(()),
    }
}

/// Publishes how long the certificate is valid, and takes renewed certificates until the server stops.
fn follow_certificate(tls: Option<Tls>, shutdown: CancellationToken) {
    let Some(tls) = tls else { return };
    tls.measure();
    tokio::spawn(async move {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = tls.follow_files() => {}
        }
    });
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
            // A requested stop comes first: it closes the doors, too.
            biased;
            () = shutdown.cancelled() => break,
            () = sleep(UPKEEP) => metrics.upkeep(),
            Some(_) = doors.join_next() => {
                // A server without one of its doors is worse than none: its operator would not notice.
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
        let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = taken.local_addr().unwrap();
        let error = Listen { address, key: "server.http_listen" }.bind().await.unwrap_err();
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
