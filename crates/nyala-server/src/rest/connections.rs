//! Accepts HTTP connections. Those without a request that was let in are bounded apart, as [`PendingConnections`].

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nyala_model::config::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use super::place::Place;
use crate::keepalive::notice_death;
use crate::pending::{Origin, PendingConnections};
use crate::tls::{Stream, Tls};

/// How long to wait when the system has no socket to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A listener that knows how many connections there may be.
#[derive(Debug)]
pub struct Connections {
    listener: TcpListener,
    free: Arc<Semaphore>,
    pending: Arc<PendingConnections>,
    /// With it, every connection is encrypted.
    tls: Option<Tls>,
}

impl Connections {
    /// Wraps a bound listener.
    pub fn new(listener: TcpListener, config: &ServerConfig, tls: Option<Tls>) -> Self {
        let free = Arc::new(Semaphore::new(config.max_connections.min(Semaphore::MAX_PERMITS)));
        Self { listener, free, pending: PendingConnections::new("http", config), tls }
    }

    /// The next connection. Dropping the future loses none.
    pub(super) async fn accept(&mut self) -> Connection {
        let (stream, peer) = loop {
            match self.listener.accept().await {
                Ok(accepted) => break accepted,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    // Most likely there are no file descriptors.
                    self.pending.evict_oldest();
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        };
        // Answers are written in one go; waiting for more to send only delays them.
        let _ = stream.set_nodelay(true);
        notice_death(&stream);
        let stream = match &self.tls {
            Some(tls) => tls.open(stream),
            None => Stream::Plain(stream),
        };
        let pending = self.pending.admit(Origin::of(peer)).await;
        Connection { stream, peer, place: Place::new(pending, Arc::clone(&self.free)) }
    }
}

/// A connection that was accepted.
pub(super) struct Connection {
    pub(super) stream: Stream,
    pub(super) peer: SocketAddr,
    pub(super) place: Arc<Place>,
}

/// The client's address, for handlers.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);
