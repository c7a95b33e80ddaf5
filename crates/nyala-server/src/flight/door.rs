//! The Flight SQL door: gRPC at an address of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use axum::Router;
use axum::middleware::from_fn_with_state;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

use super::calls;
use super::login;
use super::receive;
use super::receive_budget::{self, MAX_MESSAGE_BYTES, ReceiveBudget};
use super::service::FlightSql;
use super::sessions::Sessions;
use crate::door::{Common, Door, Listen};
use crate::error::ServeError;
use crate::http::{self, Connections, Shared};

/// How often sessions that are over are looked for.
const SWEEP: Duration = Duration::from_secs(10);

/// Flight SQL at an address.
#[derive(Debug)]
pub struct FlightDoor {
    address: SocketAddr,
    connections: Connections,
    router: Router,
    sessions: Arc<Sessions>,
}

impl FlightDoor {
    /// Binds the address; none if no address is configured.
    pub async fn bind(common: &Common) -> Result<Option<Self>, ServeError> {
        let Some(listen) = Listen::flight(&common.config) else { return Ok(None) };
        let (listener, address) = listen.bind().await?;
        let tls = common.tls.as_ref().map(|tls| tls.offering(b"h2"));
        let connections = Connections::new("flight", listener, &common.config, tls);
        let (shared, sessions) = (Shared::new(common, address), Arc::<Sessions>::default());
        let budget = ReceiveBudget::new(common.config.max_flight_receive_bytes);
        let service = FlightSql::new(&shared, Arc::clone(&sessions), Arc::clone(&budget))?;
        let service = FlightServiceServer::new(service)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(usize::MAX);
        let router = Routes::new(service).prepare().into_axum_router();
        let router = router.layer(from_fn_with_state(budget, receive::receive));
        let router = router.layer(from_fn_with_state(shared, login::require));
        Ok(Some(Self { address, connections, router, sessions }))
    }
}

impl Door for FlightDoor {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn serve(self: Box<Self>, shutdown: CancellationToken) -> BoxFuture<'static, ()> {
        calls::describe();
        receive_budget::describe();
        let Self { connections, router, sessions, .. } = *self;
        let sweep = async move {
            loop {
                sleep(SWEEP).await;
                sessions.sweep();
            }
        };
        async move {
            tokio::select! {
                () = http::serve(connections, router, shutdown) => {}
                () = sweep => {}
            }
        }
        .boxed()
    }
}
