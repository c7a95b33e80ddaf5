//! The HTTP door, and the port that has Kylin's API alone.

use std::net::SocketAddr;

use axum::Router;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::{kylin_router, router};
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
    /// Binds the address of all routes.
    pub async fn bind(common: &Common) -> Result<Self, ServeError> {
        Self::at(Listen::http(&common.config), "http", common, router).await
    }

    /// Binds the address of Kylin's API; none if it has no port of its own.
    pub async fn bind_kylin(common: &Common) -> Result<Option<Self>, ServeError> {
        match Listen::kylin(&common.config) {
            Some(listen) => Self::at(listen, "kylin", common, kylin_router).await.map(Some),
            None => Ok(None),
        }
    }

    async fn at(
        listen: Listen,
        door: &'static str,
        common: &Common,
        router: fn(Shared) -> Router,
    ) -> Result<Self, ServeError> {
        let (listener, address) = listen.bind().await?;
        let connections = Connections::new(door, listener, &common.config, common.tls.clone());
        Ok(Self { address, connections, router: router(Shared::new(common, address)) })
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
