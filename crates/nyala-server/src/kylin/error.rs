//! Errors as Kylin's clients read them: the JDBC driver prints the body, kylinpy the field `exception`, and ODBC knows three statuses.

use axum::Json;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use nyala_engine::{ErrorKind, QueryError};
use serde_json::json;

/// A failed request of anything but a query.
#[derive(Debug)]
pub struct KylinError {
    status: StatusCode,
    message: String,
}

impl KylinError {
    /// A request that cannot be meant.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, message: message.into() }
    }
}

/// The message with its advice: these clients have no other place for it.
pub fn text_of(error: &QueryError) -> String {
    match &error.hint {
        Some(hint) => format!("{} ({hint})", error.message),
        None => error.message.clone(),
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
