//! Lets calls in, and tells the service by an extension of the request who calls.

use axum::extract::{ConnectInfo, Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_engine::{Identity, SessionOptions};
use ring::rand::{SecureRandom, SystemRandom};
use tonic::Status;
use tonic::metadata::MetadataMap;

use super::sessions::{Caller, Owner};
use crate::auth::{Authenticator, Credentials, Ends, Refusal};
use crate::http::{OpenConnection, Peer, Shared, login};

/// Checks the password or token of a call.
pub async fn require(
    State(shared): State<Shared>,
    ConnectInfo(Peer(peer)): ConnectInfo<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    let credentials = login::credentials(request.headers());
    let options = login::options_of(credentials.as_ref(), request.headers(), peer);
    let Some(connection) = request.extensions().get::<OpenConnection>().cloned() else {
        return Status::internal("a call came past its connection").into_http();
    };
    let user = options.user.clone();
    let owner = match &credentials {
        Some(Credentials::Bearer(token)) => Owner::of_token(token),
        _ => Owner::Connection(connection.number(), user),
    };
    match shared.authenticator.identify(credentials).await {
        Ok(identity) => {
            if login::take_place(request.extensions_mut(), peer).is_err() {
                let message = "the server has as many connections as it may; reuse them, or raise `server.max_connections`";
                return Status::resource_exhausted(message).into_http();
            }
            let user = match &identity {
                Identity::Role(role) => role.clone(),
                Identity::Owner => options.user.clone(),
            };
            let options = SessionOptions { user, identity, ..options };
            request.extensions_mut().insert(Caller { owner, options, connection });
            next.run(request).await
        }
        Err(refusal) => {
            tracing::info!(%peer, path = request.uri().path(), ?refusal, "refused a call");
            shared.engine.audit_login(&options, Some(refusal.reason()));
            refuse(refusal).into_http()
        }
    }
}

fn refuse(refusal: Refusal) -> Status {
    match refusal {
        Refusal::Missing => Status::unauthenticated(
            "who calls is not said; connect with a user and a password, or a token [28000]",
        ),
        Refusal::Wrong => Status::unauthenticated(
            "wrong user, password or token; a token ends after an hour and with its password [28P01]",
        ),
        Refusal::Busy => Status::unavailable("too many passwords are being checked; try again"),
    }
}

/// A token for a password. Without passwords a token, too: it is what the client's session belongs to.
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
