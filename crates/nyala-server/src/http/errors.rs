//! Error responses: one table from kind to status and code.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use nyala_engine::{ErrorKind, QueryError, hide_values};
use serde::Serialize;

/// An error response: `{"error":{"code":"…","message":"…","hint":"…"}}` under its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// HTTP status.
    pub status: StatusCode,
    /// Stable name of the error, for programs.
    pub code: &'static str,
    /// Message for people.
    pub message: String,
    /// Advice for the next step.
    pub hint: Option<String>,
}

/// The client closed the request, or the query was cancelled; the number nginx made customary.
const CLIENT_CLOSED_REQUEST: u16 = 499;

/// Answers with this code have the header `Retry-After`.
const TOO_MANY_QUERIES: &str = "too_many_queries";
/// Answers with this code have the header `Retry-After`, too.
pub const TOO_MANY_CONNECTIONS: &str = "too_many_connections";
/// Seconds until a client that found no slot or no place should try again.
const RETRY_AFTER_SECONDS: u16 = 1;

/// Status and code of an error.
fn status_of(error: &QueryError) -> (StatusCode, &'static str) {
    match error.is_unavailable() {
        true => (StatusCode::SERVICE_UNAVAILABLE, "unavailable_source"),
        false => status_of_kind(error.kind),
    }
}

/// Status and code of each kind of error.
fn status_of_kind(kind: ErrorKind) -> (StatusCode, &'static str) {
    match kind {
        ErrorKind::Syntax => (StatusCode::BAD_REQUEST, "syntax_error"),
        // Not 404: the resource the request names, the query endpoint, does exist.
        ErrorKind::UndefinedTable => (StatusCode::BAD_REQUEST, "undefined_table"),
        ErrorKind::UndefinedColumn => (StatusCode::BAD_REQUEST, "undefined_column"),
        ErrorKind::AmbiguousColumn => (StatusCode::BAD_REQUEST, "ambiguous_column"),
        ErrorKind::UndefinedObject => (StatusCode::BAD_REQUEST, "undefined_object"),
        ErrorKind::DuplicateTable => (StatusCode::CONFLICT, "duplicate_table"),
        ErrorKind::DuplicateColumn => (StatusCode::CONFLICT, "duplicate_column"),
        ErrorKind::DuplicateSchema => (StatusCode::CONFLICT, "duplicate_schema"),
        ErrorKind::DuplicateObject => (StatusCode::CONFLICT, "duplicate_object"),
        ErrorKind::InvalidDefinition => (StatusCode::BAD_REQUEST, "invalid_definition"),
        ErrorKind::InvalidParameter => (StatusCode::BAD_REQUEST, "invalid_parameter"),
        ErrorKind::InvalidText => (StatusCode::BAD_REQUEST, "invalid_statement"),
        ErrorKind::Data => (StatusCode::UNPROCESSABLE_ENTITY, "data_error"),
        ErrorKind::InvalidValue => (StatusCode::UNPROCESSABLE_ENTITY, "invalid_value"),
        ErrorKind::InvalidTime => (StatusCode::UNPROCESSABLE_ENTITY, "invalid_datetime"),
        ErrorKind::Cardinality => (StatusCode::UNPROCESSABLE_ENTITY, "cardinality_violation"),
        ErrorKind::OutOfRange => (StatusCode::UNPROCESSABLE_ENTITY, "out_of_range"),
        ErrorKind::DivisionByZero => (StatusCode::UNPROCESSABLE_ENTITY, "division_by_zero"),
        ErrorKind::TooLong => (StatusCode::UNPROCESSABLE_ENTITY, "value_too_long"),
        ErrorKind::NullValue => (StatusCode::UNPROCESSABLE_ENTITY, "null_value"),
        ErrorKind::Unsupported => (StatusCode::NOT_IMPLEMENTED, "unsupported"),
        ErrorKind::LimitExceeded => (StatusCode::BAD_REQUEST, "limit_exceeded"),
        ErrorKind::ResourcesExhausted => (StatusCode::SERVICE_UNAVAILABLE, "resources_exhausted"),
        ErrorKind::TooManyQueries => (StatusCode::SERVICE_UNAVAILABLE, TOO_MANY_QUERIES),
        ErrorKind::DiskFull => (StatusCode::INSUFFICIENT_STORAGE, "disk_full"),
        ErrorKind::Cancelled => {
            (StatusCode::from_u16(CLIENT_CLOSED_REQUEST).unwrap_or(StatusCode::BAD_REQUEST), "cancelled")
        }
        ErrorKind::Timeout => (StatusCode::GATEWAY_TIMEOUT, "timeout"),
        ErrorKind::Unreadable => (StatusCode::BAD_GATEWAY, "unreadable_source"),
        ErrorKind::Changed => (StatusCode::CONFLICT, "changed"),
        ErrorKind::Corrupt => (StatusCode::INTERNAL_SERVER_ERROR, "corrupt"),
        ErrorKind::PermissionDenied => (StatusCode::FORBIDDEN, "permission_denied"),
        ErrorKind::InUse | ErrorKind::Needed => (StatusCode::CONFLICT, "in_use"),
        ErrorKind::Conflict => (StatusCode::CONFLICT, "conflict"),
        ErrorKind::ReadOnly => (StatusCode::SERVICE_UNAVAILABLE, "read_only"),
        ErrorKind::Unconfirmed => (StatusCode::INTERNAL_SERVER_ERROR, "unconfirmed"),
        ErrorKind::Gone => (StatusCode::GONE, "gone"),
        ErrorKind::ShuttingDown => (StatusCode::SERVICE_UNAVAILABLE, "shutting_down"),
        // `Internal`, and kinds this table does not know yet.
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
    }
}

impl ApiError {
    /// An error without a hint.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), hint: None }
    }

    /// Adds advice for the next step.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<QueryError> for ApiError {
    fn from(error: QueryError) -> Self {
        let (status, code) = status_of(&error);
        if status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(error = hide_values(&error.message), "query failed for a reason that is ours");
        }
        Self { status, code, message: error.message, hint: error.hint }
    }
}

#[derive(Serialize)]
struct Envelope<'a> {
    error: Inner<'a>,
}

#[derive(Serialize)]
struct Inner<'a> {
    code: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let error = Inner { code: self.code, message: &self.message, hint: self.hint.as_deref() };
        let body = Json(Envelope { error });
        let mut response = if matches!(self.code, TOO_MANY_QUERIES | TOO_MANY_CONNECTIONS) {
            let later = [(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS))];
            (self.status, later, body).into_response()
        } else {
            (self.status, body).into_response()
        };
        // Clients of Kylin's API read errors in another form.
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
    use super::*;

    #[test]
    fn every_kind_has_its_status_and_code() {
        check(ErrorKind::Syntax, 400, "syntax_error");
        check(ErrorKind::UndefinedTable, 400, "undefined_table");
        check(ErrorKind::DuplicateObject, 409, "duplicate_object");
        check(ErrorKind::PermissionDenied, 403, "permission_denied");
        check(ErrorKind::InUse, 409, "in_use");
        check(ErrorKind::Data, 422, "data_error");
        check(ErrorKind::TooManyQueries, 503, "too_many_queries");
        check(ErrorKind::Cancelled, 499, "cancelled");
        check(ErrorKind::Internal, 500, "internal");
        check(ErrorKind::Unsupported, 501, "unsupported");
        check(ErrorKind::Unreadable, 502, "unreadable_source");
        check(ErrorKind::ResourcesExhausted, 503, "resources_exhausted");
        check(ErrorKind::ShuttingDown, 503, "shutting_down");
        check(ErrorKind::Timeout, 504, "timeout");
        check(ErrorKind::DiskFull, 507, "disk_full");
    }

    #[test]
    fn a_source_that_does_not_answer_is_to_be_asked_again() {
        check_error(
            QueryError { transient: true, ..QueryError::new(ErrorKind::Unreadable, "m") },
            503,
            "unavailable_source",
        );
        check_error(
            QueryError { transient: true, ..QueryError::new(ErrorKind::Changed, "m") },
            409,
            "changed",
        );
    }

    fn check(kind: ErrorKind, expected: u16, code: &str) {
        check_error(QueryError::new(kind, "m"), expected, code);
    }

    fn check_error(error: QueryError, expected: u16, code: &str) {
        let kind = error.kind;
        let error = ApiError::from(error);
        assert_eq!((error.status.as_u16(), error.code), (expected, code), "{kind:?}");
    }
}
