//! The sender of a request, as the log, limits and `system.queries` name it.

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use nyala_engine::{Identity, SessionOptions};

use super::{ApiError, Peer};

/// The header that names the client's application, as `application_name` does for clients of PostgreSQL.
const APPLICATION: HeaderName = HeaderName::from_static("x-nyala-application");

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
        let agent = parts.headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
        let application = named_application(&parts.headers).or(agent);
        Ok(Self(SessionOptions {
            user: user_of(identity),
            application: application.unwrap_or("http").to_owned(),
            client: peer.to_string(),
            identity: identity.clone(),
            ..SessionOptions::default()
        }))
    }
}

/// The application that a client names itself.
pub fn named_application(headers: &HeaderMap) -> Option<&str> {
    headers.get(APPLICATION)?.to_str().ok().map(str::trim).filter(|name| !name.is_empty())
}

fn user_of(identity: &Identity) -> String {
    match identity {
        Identity::Role(role) => role.clone(),
        Identity::Owner => String::new(),
    }
}
