//! The sender of a request, as the log, limits and `system.queries` name it.

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderName, StatusCode};
use nyala_engine::SessionOptions;

use super::ApiError;

/// The header that names the client's application, as `application_name` does for clients of PostgreSQL.
const APPLICATION: HeaderName = HeaderName::from_static("x-nyala-application");

/// The owner of the request's session. The login has put it into the request.
pub struct Caller(pub SessionOptions);

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        known(&parts.extensions).map(Self)
    }
}

/// The same of a request that is not taken apart.
pub fn caller(request: &Request) -> Result<SessionOptions, ApiError> {
    known(request.extensions())
}

fn known(extensions: &Extensions) -> Result<SessionOptions, ApiError> {
    extensions.get::<SessionOptions>().cloned().ok_or_else(|| {
        let message = "internal error: a request came past the login";
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    })
}

/// The application that a client names itself.
pub fn named_application(headers: &HeaderMap) -> Option<&str> {
    headers.get(APPLICATION)?.to_str().ok().map(str::trim).filter(|name| !name.is_empty())
}
