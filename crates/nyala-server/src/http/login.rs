//! Checks the password or token of requests, and gives tokens.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Json;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use nyala_engine::{Identity, SessionOptions};
use serde_json::{Value, json};

use super::caller::named_application;
use super::errors::TOO_MANY_CONNECTIONS;
use super::place::{Full, Place};
use super::{ApiError, Peer, Shared};
use crate::auth::{Credentials, Ends, Refusal};

/// Why a request was not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denial {
    /// The credentials are missing or wrong.
    Login(Refusal),
    /// There are as many connections as there may be.
    Full,
}

/// Authenticates the client, and puts its session options into the request for the handler.
pub async fn require(
    State(shared): State<Shared>,
    ConnectInfo(Peer(peer)): ConnectInfo<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    match let_in(&shared, &mut request, peer).await {
        Ok(()) => next.run(request).await,
        Err(denial) => denial.into_response(),
    }
}

/// Authenticates the client of a request, for routes without this layer.
pub async fn let_in(shared: &Shared, request: &mut Request, peer: SocketAddr) -> Result<(), Denial> {
    let mut options = admit(shared, request, peer).await?;
    if let Identity::Owner = options.identity {
        // Nothing proves this name.
        options.user.clear();
    }
    request.extensions_mut().insert(options);
    Ok(())
}

impl IntoResponse for Denial {
    fn into_response(self) -> Response {
        match self {
            Self::Login(refusal) => refuse(refusal),
            Self::Full => full().into_response(),
        }
    }
}

/// Checks the credentials in the headers of a request, and takes a place for its connection. Gives the session options of the client, for all
/// protocols that are built on HTTP.
pub async fn admit(
    shared: &Shared,
    request: &mut Request,
    peer: SocketAddr,
) -> Result<SessionOptions, Denial> {
    let credentials = credentials(request.headers());
    let mut options = options_of(credentials.as_ref(), request.headers(), peer);
    match shared.authenticator.identify(credentials).await {
        Ok(identity) => options.identity = identity,
        Err(refusal) => {
            tracing::info!(%peer, path = request.uri().path(), ?refusal, "refused a request");
            shared.engine.audit_login(&options, Some(refusal.reason()));
            return Err(Denial::Login(refusal));
        }
    }
    if let Identity::Role(role) = &options.identity {
        options.user.clone_from(role);
    }
    take_place(request.extensions_mut(), peer)?;
    Ok(options)
}

/// `POST /api/v1/token`: a token for a password.
pub async fn token(
    State(shared): State<Shared>,
    ConnectInfo(Peer(peer)): ConnectInfo<Peer>,
    request: Request,
) -> Result<Json<Value>, Response> {
    let (mut head, _) = request.into_parts();
    if shared.authenticator.is_open() {
        let message = "there is no authentication, and so there are no tokens";
        return Err(ApiError::new(StatusCode::NOT_FOUND, "no_authentication", message).into_response());
    }
    let credentials = credentials(&head.headers);
    let options = options_of(credentials.as_ref(), &head.headers, peer);
    match shared.authenticator.token(credentials, Ends::OnTime).await {
        Ok((token, lifetime)) => {
            take_place(&mut head.extensions, peer).map_err(|_| full().into_response())?;
            shared.engine.audit_login(&options, None);
            Ok(Json(json!({"token": token, "type": "Bearer", "expires_in": lifetime.as_secs()})))
        }
        Err(refusal) => {
            tracing::info!(%peer, ?refusal, "refused a token");
            shared.engine.audit_login(&options, Some(refusal.reason()));
            Err(refuse(refusal))
        }
    }
}

/// Takes one of the places for connections for an admitted client, unless its connection has one.
fn take_place(request: &mut Extensions, peer: SocketAddr) -> Result<(), Denial> {
    // A request carries the place of its connection only until the connection has taken it.
    let Some(place) = request.remove::<Arc<Place>>() else { return Ok(()) };
    place.take().map_err(|Full| {
        tracing::warn!(%peer, "refused a connection: `server.max_connections` are open");
        Denial::Full
    })
}

fn full() -> ApiError {
    ::metrics::counter!("nyala_http_refused_total").increment(1);
    let message = "the server has as many connections as it may";
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, TOO_MANY_CONNECTIONS, message)
        .hint("reuse connections, or raise `server.max_connections`")
}

/// The credentials in the headers of a request.
pub fn credentials(headers: &HeaderMap) -> Option<Credentials> {
    headers.get(header::AUTHORIZATION)?.to_str().ok().and_then(Credentials::parse)
}

/// What is known of a client before its login.
fn options_of(credentials: Option<&Credentials>, headers: &HeaderMap, peer: SocketAddr) -> SessionOptions {
    let application = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
    SessionOptions {
        user: credentials.and_then(Credentials::user).unwrap_or_default().to_owned(),
        application: named_application(headers).or(application).unwrap_or("http").to_owned(),
        client: peer.to_string(),
        ..SessionOptions::default()
    }
}

fn refuse(refusal: Refusal) -> Response {
    let (status, code, hint) = match refusal {
        Refusal::Missing => (
            StatusCode::UNAUTHORIZED,
            "unauthenticated",
            "send `Authorization: Basic …` or `Authorization: Bearer …`",
        ),
        Refusal::Wrong => (
            StatusCode::UNAUTHORIZED,
            "unauthenticated",
            "a token ends after an hour and with its password; get another at `POST /api/v1/token`",
        ),
        Refusal::Busy => (StatusCode::SERVICE_UNAVAILABLE, "busy", "try again, or use a token"),
    };
    let mut response = ApiError::new(status, code, refusal.reason()).hint(hint).into_response();
    if refusal != Refusal::Busy {
        let challenge = HeaderValue::from_static("Basic realm=\"nyala\", charset=\"UTF-8\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}
