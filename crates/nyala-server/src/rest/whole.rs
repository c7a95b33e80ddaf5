//! Answers for clients of HTTP/1.0, and for proxies that speak it to servers. There the end of the connection is
//! the end of the answer, so that a truncated answer would look whole. So an answer is gathered before it is sent.

use std::error::Error;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, StatusCode, Version, header};
use axum::response::{IntoResponse, Response};
use http_body_util::LengthLimitError;
use nyala_engine::QueryError;

use crate::http::ApiError;

/// Largest answer that is gathered. Each request may hold this much memory.
const WHOLE_BYTES: usize = 64 << 20;

/// The answer as a client of this version can be given it.
pub async fn for_version(version: Version, response: Response) -> Response {
    // Events may come without end, and each is sent whole.
    if version >= Version::HTTP_11 || is_stream_of_events(response.headers()) {
        return response;
    }
    let (head, body) = response.into_parts();
    match to_bytes(body, WHOLE_BYTES).await {
        Ok(whole) => Response::from_parts(head, Body::from(whole)),
        Err(error) => failure(&error).into_response(),
    }
}

fn is_stream_of_events(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
}

fn failure(error: &(dyn Error + 'static)) -> ApiError {
    let mut source = Some(error);
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<QueryError>() {
            return error.clone().into();
        }
        if error.is::<LengthLimitError>() {
            let limit = WHOLE_BYTES >> 20;
            let message = format!(
                "an answer of more than {limit} MiB, of which HTTP/1.0 could not tell that it is whole"
            );
            return ApiError::new(StatusCode::HTTP_VERSION_NOT_SUPPORTED, "http_version", message)
                .hint("ask with HTTP/1.1; for nginx, `proxy_http_version 1.1;`");
        }
        source = error.source();
    }
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", format!("internal error: {error}"))
}
