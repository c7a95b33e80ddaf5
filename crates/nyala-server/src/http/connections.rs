//! Accepts connections of HTTP and of protocols built on it. [`PendingConnections`] bounds connections without an admitted request.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use nyala_model::config::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::place::Place;
use crate::net::Accept;
use crate::net::keepalive::notice_death;
use crate::net::pending::{Origin, PendingConnections};
use crate::net::tls::{Stream, Tls};

/// A listener that bounds its connections.
#[derive(Debug)]
pub struct Connections {
    listener: TcpListener,
    free: Arc<Semaphore>,
    pending: Arc<PendingConnections>,
    /// If there is a certificate, every connection is encrypted.
    tls: Option<Tls>,
}

impl Connections {
    /// Wraps a bound listener of a door.
    pub fn new(door: &'static str, listener: TcpListener, config: &ServerConfig, tls: Option<Tls>) -> Self {
        let free = Arc::new(Semaphore::new(config.max_connections.min(Semaphore::MAX_PERMITS)));
        Self { listener, free, pending: PendingConnections::new(door, config), tls }
    }

    /// The bound of connections without an admitted request.
    pub(super) fn pending(&self) -> Arc<PendingConnections> {
        Arc::clone(&self.pending)
    }
}

impl Accept for Connections {
    type Connection = Connection;

    async fn accept(&self) -> io::Result<(Connection, Origin)> {
        let (stream, peer) = self.listener.accept().await?;
        // Answers are written in one go; waiting for more to send only delays them.
        let _ = stream.set_nodelay(true);
        notice_death(&stream);
        let stream = match &self.tls {
            Some(tls) => tls.open(stream),
            None => Stream::Plain(stream),
        };
        Ok((Connection { stream, peer, free: Arc::clone(&self.free) }, Origin::of(peer)))
    }
}

/// A connection that was accepted.
pub struct Connection {
    pub(super) stream: Stream,
    pub(super) peer: SocketAddr,
    /// As many permits as there are places for connections with an admitted request.
    pub(super) free: Arc<Semaphore>,
}

/// The client's address, for handlers.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

/// A handle of a connection, for state that is kept as long as the connection is open.
#[derive(Debug, Clone)]
pub struct OpenConnection {
    number: u64,
    place: Weak<Place>,
}

impl OpenConnection {
    /// A connection that has just been opened.
    pub(super) fn new(place: &Arc<Place>) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        Self { number: NUMBERS.fetch_add(1, Ordering::Relaxed), place: Arc::downgrade(place) }
    }

    /// The number of the connection, unique in this process.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether the connection is open, or a request of it goes on.
    pub fn is_open(&self) -> bool {
        self.place.strong_count() > 0
    }
}
