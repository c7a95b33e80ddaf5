//! The HTTP door.

use std::net::SocketAddr;

use axum::Router;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::router;
use crate::door::{Common, Door, Listen};
use crate::error::ServeError;
use crate::http::{self, Connections, Shared};

/// Routes at an address.
#[derive(Debug)]
pub struct HttpDoor {
    address: SocketAddr,
    connections: Connections,
    router: Router,
}

impl HttpDoor {
    /// Binds the address.
    pub async fn bind(common: &Common) -> Result<Self, ServeError> {
        let (listener, address) = Listen::http(&common.config).bind().await?;
        let connections = Connections::new("http", listener, &common.config, common.tls.clone());
        Ok(Self { address, connections, router: router(Shared::new(common)) })
    }
}

impl Door for HttpDoor {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn serve(self: Box<Self>, shutdown: CancellationToken) -> BoxFuture<'static, ()> {
        http::serve(self.connections, self.router, shutdown).boxed()
    }
}
