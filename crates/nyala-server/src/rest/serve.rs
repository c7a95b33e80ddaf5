//! Serves HTTP connections, of either version, until the server stops.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use axum::response::Response;
use axum::routing::future::RouteFuture;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower_service::Service;

use super::connections::{Connection, Connections, Peer};

/// How long a client may take to send the head of a request, from the end of the request before. Each connection
/// holds one of the places that there are for all. Proxies and pools close theirs after 60 and 90 seconds: whoever closes first
/// must be them, or a request would meet a connection that is just being closed.
const SILENT: Duration = Duration::from_secs(120);
/// How long a client of HTTP/2 may take to say that it is there.
const REPLY: Duration = Duration::from_secs(20);

/// Serves until `shutdown`, and then until the requests that run are answered.
pub async fn serve(mut connections: Connections, router: Router, shutdown: CancellationToken) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(SILENT);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(SILENT).keep_alive_timeout(REPLY);
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            Some(_) = open.join_next() => {}
            (connection, peer) = connections.accept() => {
                let routes = Routes { router: router.clone(), peer: Peer(peer) };
                open.spawn(answer(builder.clone(), connection, routes, shutdown.clone()));
            }
        }
    }
    // Nobody is let in any more.
    drop(connections);
    while open.join_next().await.is_some() {}
}

/// Answers the requests of one connection.
async fn answer(
    builder: Builder<TokioExecutor>,
    connection: Connection,
    routes: Routes,
    shutdown: CancellationToken,
) {
    let mut served = pin!(builder.serve_connection(TokioIo::new(connection), routes));
    let done = tokio::select! {
        done = served.as_mut() => done,
        () = shutdown.cancelled() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = done {
        tracing::debug!(%error, "an HTTP connection ended early");
    }
}

/// What answers one client.
#[derive(Clone)]
struct Routes {
    router: Router,
    peer: Peer,
}

impl hyper::service::Service<hyper::Request<Incoming>> for Routes {
    type Response = Response;
    type Error = Infallible;
    type Future = RouteFuture<Infallible>;

    fn call(&self, request: hyper::Request<Incoming>) -> Self::Future {
        let mut request: Request = request.map(axum::body::Body::new);
        request.extensions_mut().insert(ConnectInfo(self.peer));
        self.router.clone().call(request)
    }
}
