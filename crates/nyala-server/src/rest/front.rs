//! Checks that requests of the API pass before their handlers, and steps that answers pass after them.
//!
//! It is one layer: each layer of axum copies the layers within it for each request, and moves request and answer through futures of its own.
//! The routes of queries have no layer at all: their handlers call [`answered`] themselves.

use std::net::SocketAddr;
use std::time::Instant;

use axum::extract::{ConnectInfo, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::{compressed, whole};
use crate::http::{Peer, Shared, login, origin};

/// The layer of routes that need a login.
pub async fn with_login(
    State(shared): State<Shared>,
    ConnectInfo(Peer(peer)): ConnectInfo<Peer>,
    request: Request,
    next: Next,
) -> Response {
    answered(&shared, peer, request, |request| next.run(request)).await
}

/// The answer of `handler` to a request, if the client is let in.
pub async fn answered<F: Future<Output = Response>>(
    shared: &Shared,
    peer: SocketAddr,
    request: Request,
    handler: impl FnOnce(Request) -> F,
) -> Response {
    let (started, version) = (Instant::now(), request.version());
    let answer = match let_in(shared, request, peer).await {
        Ok(request) => handler(request).await,
        Err(refusal) => refusal,
    };
    counted(started, whole::for_version(version, answer).await)
}

/// The layer of routes without a login.
pub async fn without_login(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let (started, version) = (Instant::now(), request.version());
    let answer = match origin::check(&shared, &request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    counted(started, whole::for_version(version, answer).await)
}

/// The request, ready for its handler, or the answer that refuses it.
async fn let_in(shared: &Shared, mut request: Request, peer: SocketAddr) -> Result<Request, Response> {
    origin::check(shared, &request).map_err(IntoResponse::into_response)?;
    login::let_in(shared, &mut request, peer).await.map_err(IntoResponse::into_response)?;
    compressed::decompressed(request, shared).map_err(IntoResponse::into_response)
}

/// Counts the request by its status, with the time until the status was known.
fn counted(started: Instant, response: Response) -> Response {
    crate::metrics::http_request(response.status().as_u16(), started.elapsed());
    response
}
