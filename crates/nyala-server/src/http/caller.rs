//! The sender of a request, as the log, limits and `system.queries` name it.

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use nyala_engine::{Identity, SessionOptions};

use super::{ApiError, Peer};

/// The owner of the request's session. The login has put it into the request.
pub struct Caller(pub SessionOptions);

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let known = (parts.extensions.get::<Identity>(), parts.extensions.get::<ConnectInfo<Peer>>());
        let (Some(identity), Some(ConnectInfo(Peer(peer)))) = known else {
            let message = "internal error: a request came past the login";
            return Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message));
        };
        let application = parts.headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
        Ok(Self(SessionOptions {
            user: user_of(identity),
            application: application.unwrap_or("http").to_owned(),
            client: peer.to_string(),
            identity: identity.clone(),
            ..SessionOptions::default()
        }))
    }
}

fn user_of(identity: &Identity) -> String {
    match identity {
        Identity::Role(role) => role.clone(),
        Identity::Owner => String::new(),
    }
}
