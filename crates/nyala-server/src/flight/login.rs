//! Lets calls in, and puts the caller into the request as an extension, for the service.

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::FutureExt;
use futures::future::BoxFuture;
use ring::rand::{SecureRandom, SystemRandom};
use tonic::Status;
use tonic::metadata::MetadataMap;

use super::calls::{Call, NO_COMMAND, name_of_path};
use super::error::beginning;
use super::sessions::{Caller, Owner};
use super::types::Types;
use crate::auth::{Authenticator, Credentials, Ends, Refusal};
use crate::http::login::{self, Denial};
use crate::http::{OpenConnection, Peer, Shared};

/// The header that sets the types of a new session, for clients that cannot set its options: the JDBC driver sends unknown parameters of its
/// URL as headers.
const TYPES: &str = "x-nyala-flight-types";

/// Checks the password or token of a call.
pub async fn require(
    State(shared): State<Shared>,
    ConnectInfo(Peer(peer)): ConnectInfo<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(connection) = request.extensions().get::<OpenConnection>().cloned() else {
        return Status::internal("a call came past its connection").into_http();
    };
    let name = name_of_path(request.uri().path());
    let token = match login::credentials(request.headers()) {
        Some(Credentials::Bearer(token)) => Some(Owner::of_token(&token)),
        _ => None,
    };
    let status = match login::admit(&shared, &mut request, peer).await {
        Ok(options) => match types(request.headers()) {
            Ok(types) => {
                let of_connection = || Owner::Connection(connection.number(), options.user.clone());
                let owner = token.unwrap_or_else(of_connection);
                request.extensions_mut().insert(Caller { owner, options, connection, types });
                return next.run(request).await;
            }
            Err(status) => status,
        },
        Err(Denial::Login(refusal)) => refuse(refusal),
        Err(Denial::Full) => Status::resource_exhausted(
            "the server has as many connections as it may; reuse them, or raise `server.max_connections`",
        ),
    };
    Call::begin(name, NO_COMMAND).refused(status).into_http()
}

fn types(headers: &HeaderMap) -> Result<Types, Status> {
    let Some(header) = headers.get(TYPES) else { return Ok(Types::default()) };
    let name = header.to_str().unwrap_or_default();
    Types::named(name).ok_or_else(|| {
        let name = beginning(name);
        Status::invalid_argument(format!(
            "header `{TYPES}` is `{name}`, and must be `common`, `zoneless` or `arrow`"
        ))
    })
}

fn refuse(refusal: Refusal) -> Status {
    match refusal {
        Refusal::Missing => Status::unauthenticated(
            "the call names no user; connect with a user and a password, or a token [28000]",
        ),
        Refusal::Wrong => Status::unauthenticated(
            "wrong user, password or token; a token ends after an hour and with its password [28P01]",
        ),
        Refusal::Busy => Status::unavailable("too many passwords are being checked; try again"),
    }
}

/// A token for a password. A server that asks for no password gives a token, too: the client's session belongs to it.
pub fn token<'a>(
    authenticator: &'a Authenticator,
    headers: &'a MetadataMap,
) -> BoxFuture<'a, Result<String, Status>> {
    async move {
        if authenticator.is_open() {
            let mut random = [0_u8; 32];
            SystemRandom::new().fill(&mut random).map_err(|_| refuse(Refusal::Busy))?;
            return Ok(URL_SAFE_NO_PAD.encode(random));
        }
        let given = authenticator.token(credentials(headers), Ends::WithSession).await;
        given.map(|(token, _)| token).map_err(refuse)
    }
    .boxed()
}

fn credentials(headers: &MetadataMap) -> Option<Credentials> {
    headers.get(header::AUTHORIZATION.as_str())?.to_str().ok().and_then(Credentials::parse)
}
