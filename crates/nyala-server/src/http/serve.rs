//! Serves HTTP connections, of either version, until the server stops.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use axum::http::{HeaderValue, Version, header};
use axum::response::Response;
use axum::routing::future::RouteFuture;
use futures::FutureExt;
use futures::future::{BoxFuture, Either};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio_util::sync::CancellationToken;
use tower_service::Service;

use super::connections::{Connection, Connections, OpenConnection, Peer};
use super::place::Place;
use crate::net::attend_all;
use crate::net::pending::Pending;

/// How long a client may take to send the head of a request, from the end of the request before. Each connection
/// holds one of the places that there are for all. Proxies and pools close theirs after 60 and 90 seconds: they must
/// close first, or a request would meet a connection that is just being closed.
const SILENT: Duration = Duration::from_secs(120);
/// How long a client of HTTP/2 may take to say that it is there.
const REPLY: Duration = Duration::from_secs(20);

/// Bytes that a client of HTTP/2 may send in all its requests together before they are read; a single request may send 1 MiB. The window has
/// room for many requests, so that one which is not read does not hold up the others of its connection.
const CONNECTION_WINDOW: u32 = 64 << 20;
/// Requests of a connection that a client may give up at the same time: a program that cancels many queries is no attacker.
const MAX_RESETS: usize = 1_000;

/// Serves until `shutdown`, and then until the requests that run are answered.
pub async fn serve(connections: Connections, router: Router, shutdown: CancellationToken) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(SILENT);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(SILENT).keep_alive_timeout(REPLY);
    builder.http2().initial_connection_window_size(CONNECTION_WINDOW);
    builder.http2().max_pending_accept_reset_streams(MAX_RESETS).max_local_error_reset_streams(MAX_RESETS);
    let (pending, stopping) = (connections.pending(), shutdown.clone());
    attend_all(connections, pending, shutdown, |connection, pending| {
        answer(builder.clone(), connection, pending, router.clone(), stopping.clone())
    })
    .await;
}

/// Answers the requests of one connection.
async fn answer(
    builder: Builder<TokioExecutor>,
    connection: Connection,
    pending: Pending,
    router: Router,
    shutdown: CancellationToken,
) {
    let Connection { stream, peer, free } = connection;
    let place = Place::new(pending, free);
    let mut ended = pin!(place.ended());
    let open = OpenConnection::new(&place);
    let routes = Routes { router, peer: Peer(peer), open, place };
    let mut served = pin!(builder.serve_connection(TokioIo::new(stream), routes));
    let done = tokio::select! {
        done = served.as_mut() => done,
        // Returning drops the socket, which closes it.
        ended = ended.as_mut() => {
            return tracing::debug!(%peer, ?ended, "closed a connection without a request that was let in");
        }
        () = shutdown.cancelled() => {
            served.as_mut().graceful_shutdown();
            tokio::select! {
                done = served => done,
                _ = ended => return,
            }
        }
    };
    if let Err(error) = done {
        tracing::debug!(%error, "an HTTP connection ended early");
    }
}

/// Answers the requests of one client.
#[derive(Clone)]
struct Routes {
    router: Router,
    peer: Peer,
    open: OpenConnection,
    place: Arc<Place>,
}

impl hyper::service::Service<hyper::Request<Incoming>> for Routes {
    type Response = Response;
    type Error = Infallible;
    type Future = Either<RouteFuture<Infallible>, BoxFuture<'static, Result<Response, Infallible>>>;

    fn call(&self, request: hyper::Request<Incoming>) -> Self::Future {
        let version = request.version();
        let mut request: Request = request.map(axum::body::Body::new);
        request.extensions_mut().insert(ConnectInfo(self.peer));
        request.extensions_mut().insert(self.open.clone());
        if self.place.is_taken() {
            return Either::Left(self.router.clone().call(request));
        }
        request.extensions_mut().insert(Arc::clone(&self.place));
        let (place, answer) = (Arc::clone(&self.place), self.router.clone().call(request));
        Either::Right(
            answer.map(move |answer| answer.map(|answer| last_one(answer, version, &place))).boxed(),
        )
    }
}

/// Tells a client that its connection ends with this answer, unless it has a place by now: the server would close the connection soon,
/// maybe while the next request is on its way.
fn last_one(mut answer: Response, version: Version, place: &Place) -> Response {
    // HTTP/2 has no such header. A client of it is told when the connection is closed.
    if version <= Version::HTTP_11 && !place.is_taken() {
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}
