//! Errors as Kylin's clients read them: the JDBC driver prints the body, kylinpy the field `exception`, and ODBC knows three statuses.

use axum::Json;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use nyala_engine::{ErrorKind, QueryError};
use serde_json::json;

use crate::http::ApiError;

/// Longest text of an error that is taken over from elsewhere, in bytes.
const MAX_TEXT_BYTES: usize = 8 << 10;

/// A failed request of anything but a query.
#[derive(Debug)]
pub struct KylinError {
    status: StatusCode,
    message: String,
}

impl KylinError {
    /// The error of an invalid request.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, message: message.into() }
    }
}

/// The message with its advice: clients of this API have no other place for advice.
pub fn text_of(error: &QueryError) -> String {
    with_hint(&error.message, error.hint.as_deref())
}

fn with_hint(message: &str, hint: Option<&str>) -> String {
    match hint {
        Some(hint) => format!("{message} ({hint})"),
        None => message.to_owned(),
    }
}

impl From<QueryError> for KylinError {
    fn from(error: QueryError) -> Self {
        let status = match error.kind {
            ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self { status, message: text_of(&error) }
    }
}

impl IntoResponse for KylinError {
    fn into_response(self) -> Response {
        let message = self.message;
        let body = json!({
            "code": "999",
            "data": null,
            "msg": message,
            "exception": message,
            "stacktrace": "",
            "url": "",
        });
        (self.status, Json(body)).into_response()
    }
}

/// There is no such path, or Nyala has nothing like it.
pub async fn not_found(request: Request) -> KylinError {
    let message = format!(
        "`{} {}` is not one of Kylin's calls that Nyala answers; docs/guide/kylin.md lists them",
        request.method(),
        request.uri().path()
    );
    KylinError { status: StatusCode::NOT_FOUND, message }
}

/// An answer whose error has the form of this API, also where it comes from the login, a limit or a path that cannot be read: kylinpy
/// fails while it shows an error without the field `exception`.
pub async fn in_kylins_form(mut response: Response) -> Response {
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return response;
    }
    let message = match response.extensions_mut().remove::<ApiError>() {
        Some(error) => with_hint(&error.message, error.hint.as_deref()),
        None if is_json(response.headers()) => return response,
        None => match to_bytes(std::mem::take(response.body_mut()), MAX_TEXT_BYTES).await {
            Ok(text) => String::from_utf8_lossy(&text).into_owned(),
            Err(_) => status.to_string(),
        },
    };
    let mut answer = KylinError { status, message }.into_response();
    for name in [header::WWW_AUTHENTICATE, header::RETRY_AFTER] {
        if let Some(value) = response.headers_mut().remove(&name) {
            answer.headers_mut().insert(name, value);
        }
    }
    answer
}

/// Whether an answer is a document of JSON, as all errors of this API are.
fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("application/json"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use axum::http::HeaderValue;
    use serde_json::Value;

    use super::*;

    async fn shown(response: Response) -> (u16, Value) {
        let response = in_kylins_form(response).await;
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn errors_from_elsewhere_have_the_field_that_kylinpy_shows() {
        let refused = ApiError::new(StatusCode::UNAUTHORIZED, "unauthenticated", "wrong password").hint("h");
        let mut refused = refused.into_response();
        refused.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic"));
        let challenged = in_kylins_form(refused).await;
        assert_eq!(challenged.headers().get(header::WWW_AUTHENTICATE).unwrap(), "Basic");
        let body = to_bytes(challenged.into_body(), usize::MAX).await.unwrap();
        let error: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&error["exception"], &error["code"]), (&json!("wrong password (h)"), &json!("999")));

        let plain = (StatusCode::PAYLOAD_TOO_LARGE, "length limit exceeded").into_response();
        let (status, error) = shown(plain).await;
        assert_eq!((status, &error["exception"]), (413, &json!("length limit exceeded")));
    }

    #[tokio::test]
    async fn other_answers_stay_as_they_are() {
        let (status, error) = shown(KylinError::invalid("m").into_response()).await;
        assert_eq!((status, &error["msg"]), (500, &json!("m")));
        let (status, value) = shown(Json(json!([1])).into_response()).await;
        assert_eq!((status, value), (200, json!([1])));
    }
}
