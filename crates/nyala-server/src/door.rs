//! A door: one protocol at its address.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use nyala_engine::Engine;
use nyala_model::config::ServerConfig;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::auth::Authenticator;
use crate::error::ServeError;
use crate::http::Readiness;
use crate::metrics::Metrics;
use crate::net::tls::Tls;

/// Parts of the server that every door uses.
#[derive(Debug, Clone)]
pub struct Common {
    pub engine: Arc<Engine>,
    pub authenticator: Arc<Authenticator>,
    pub config: ServerConfig,
    pub tls: Option<Tls>,
    pub metrics: Metrics,
    pub readiness: Readiness,
}

/// A protocol, bound to its address and not serving yet.
pub trait Door: Debug + Send {
    /// The address; the port is the real one also when 0 was asked for.
    fn address(&self) -> SocketAddr;

    /// Serves until `shutdown`, and then until its answers have left. Dropping the future closes all connections.
    fn serve(self: Box<Self>, shutdown: CancellationToken) -> BoxFuture<'static, ()>;
}

/// An address in the configuration, and its key.
#[derive(Debug, Clone, Copy)]
pub struct Listen {
    pub address: SocketAddr,
    pub key: &'static str,
}

impl Listen {
    /// The address of each door.
    pub fn all(config: &ServerConfig) -> impl Iterator<Item = Self> {
        let always = [Self::postgres(config), Self::http(config)];
        always.into_iter().chain(Self::flight(config)).chain(Self::kylin(config))
    }

    pub fn postgres(config: &ServerConfig) -> Self {
        Self { address: config.postgres_listen, key: "server.postgres_listen" }
    }

    pub fn http(config: &ServerConfig) -> Self {
        Self { address: config.http_listen, key: "server.http_listen" }
    }

    /// None if the door is not wanted.
    pub fn flight(config: &ServerConfig) -> Option<Self> {
        config.flight_listen.map(|address| Self { address, key: "server.flight_listen" })
    }

    /// None if Kylin's API has no port of its own.
    pub fn kylin(config: &ServerConfig) -> Option<Self> {
        config.kylin_listen.map(|address| Self { address, key: "server.kylin_listen" })
    }

    /// Binds the address.
    pub async fn bind(self) -> Result<(TcpListener, SocketAddr), ServeError> {
        let Self { address, key } = self;
        let bound = TcpListener::bind(address).await;
        let listener = bound.map_err(|source| ServeError::Bind { address, key, source })?;
        let address = listener.local_addr().unwrap_or(address);
        Ok((listener, address))
    }
}
