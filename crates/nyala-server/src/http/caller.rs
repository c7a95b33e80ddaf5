//! The sender of a request, as the log, limits and `system.queries` name it.

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderName, StatusCode};
use nyala_engine::SessionOptions;

use super::ApiError;

/// The header that names the client's application, as `application_name` does for clients of PostgreSQL.
const APPLICATION: HeaderName = HeaderName::from_static("x-nyala-application");

/// The session options of the caller, as a handler extracts them. The login has put them into the request.
pub struct Caller(pub SessionOptions);

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        known(&parts.extensions).map(Self)
    }
}

/// The session options of the caller, for handlers that take the request as a whole.
pub fn caller(request: &Request) -> Result<SessionOptions, ApiError> {
    known(request.extensions())
}

fn known(extensions: &Extensions) -> Result<SessionOptions, ApiError> {
    extensions.get::<SessionOptions>().cloned().ok_or_else(|| {
        let message = "internal error: a request came past the login";
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    })
}

/// The application that a client names in a header.
pub fn named_application(headers: &HeaderMap) -> Option<&str> {
    headers.get(APPLICATION)?.to_str().ok().map(str::trim).filter(|name| !name.is_empty())
}
