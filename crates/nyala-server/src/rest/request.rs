//! Reads a query request: content type, JSON, parameters and settings.

use std::collections::BTreeMap;

use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode, header};
use datafusion::common::ScalarValue;
use serde::Deserialize;
use serde_json::Value;

use crate::http::ApiError;

/// The body of `POST /api/v1/query`. Unknown fields are refused, so that a misspelt one is not
/// silently without effect.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueryRequest {
    /// Exactly one statement.
    pub sql: String,
    /// Values of `$1`, `$2`, …
    #[serde(default)]
    pub parameters: Vec<Value>,
    /// Session settings for this request only.
    #[serde(default)]
    pub settings: BTreeMap<String, Value>,
    /// Rows to send at most; the answer then tells whether there are more.
    #[serde(default)]
    pub max_rows: Option<u64>,
    /// Whether the answer tells how it was computed.
    #[serde(default)]
    pub route: bool,
    /// The name of the client's application in lists and logs; without it, the name in the request's headers.
    #[serde(default)]
    pub application: Option<String>,
}

impl QueryRequest {
    /// Parses the body, or names the place of its first error.
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        serde_json::from_slice(body).map_err(|error| {
            let code = if error.is_data() { "invalid_request" } else { "malformed_json" };
            // serde_json's message ends with line and column.
            ApiError::new(StatusCode::BAD_REQUEST, code, format!("request body: {error}"))
                .hint("send an object such as {\"sql\": \"SELECT 1\", \"parameters\": [], \"settings\": {}}")
        })
    }

    /// The parameters as values of the types JSON knows; the engine casts them for the statement.
    pub fn parameters(&self) -> Result<Vec<ScalarValue>, ApiError> {
        self.parameters.iter().enumerate().map(|(index, value)| parameter(index, value)).collect()
    }

    /// The settings as texts.
    pub fn settings(&self) -> impl Iterator<Item = Result<(&str, String), ApiError>> {
        self.settings.iter().map(|(name, value)| {
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Bool(_) | Value::Number(_) => value.to_string(),
                Value::Null | Value::Array(_) | Value::Object(_) => {
                    let message = format!("setting `{name}` must be a text, a number or a boolean");
                    return Err(ApiError::new(StatusCode::BAD_REQUEST, "invalid_request", message));
                }
            };
            Ok((name.as_str(), text))
        })
    }
}

fn parameter(index: usize, value: &Value) -> Result<ScalarValue, ApiError> {
    match value {
        Value::Null => Ok(ScalarValue::Null),
        Value::Bool(value) => Ok(ScalarValue::Boolean(Some(*value))),
        Value::Number(number) => Ok(match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => ScalarValue::Int64(Some(value)),
            (None, Some(value)) => ScalarValue::UInt64(Some(value)),
            (None, None) => ScalarValue::Float64(number.as_f64()),
        }),
        Value::String(text) => Ok(ScalarValue::Utf8(Some(text.clone()))),
        Value::Array(_) | Value::Object(_) => {
            let message = format!("parameter `${}` must be a text, a number, a boolean or null", index + 1);
            Err(ApiError::new(StatusCode::BAD_REQUEST, "invalid_request", message)
                .hint("send it as text and cast it in the statement"))
        }
    }
}

/// Refuses bodies that are not declared as JSON. Besides being honest, this keeps web pages of other
/// sites out: a browser sends JSON across sites only after asking, which this server never grants.
pub fn require_json(headers: &HeaderMap) -> Result<(), ApiError> {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let message = format!("content type `{given}` is not understood");
    Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
        .hint("send the header `Content-Type: application/json`"))
}

/// A body that could not be read: too large, or the connection broke.
pub fn unreadable_body(rejection: &BytesRejection, limit: usize) -> ApiError {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        let message = format!("request body is larger than {limit} bytes");
        return ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
            .hint("raise `server.max_body_bytes`");
    }
    ApiError::new(StatusCode::BAD_REQUEST, "unreadable_body", rejection.body_text())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
    use super::*;

    #[test]
    fn parameters_keep_their_type() {
        let body = br#"{"sql": "x", "parameters": [null, true, 9223372036854775807, 18446744073709551615, 0.5, "t"]}"#;
        let expected = vec![
            ScalarValue::Null,
            ScalarValue::Boolean(Some(true)),
            ScalarValue::Int64(Some(i64::MAX)),
            ScalarValue::UInt64(Some(u64::MAX)),
            ScalarValue::Float64(Some(0.5)),
            ScalarValue::Utf8(Some("t".to_owned())),
        ];
        assert_eq!(QueryRequest::parse(body).unwrap().parameters().unwrap(), expected);
    }

    #[test]
    fn errors_say_what_and_where() {
        check(b"{\"sql\": \"x\",", "malformed_json", "line 1 column 12");
        check(b"", "malformed_json", "line 1 column 0");
        check(b"{\"sql\": \"x\", \"sqll\": 1}", "invalid_request", "unknown field `sqll`");
        check(b"{}", "invalid_request", "missing field `sql`");
        let request = QueryRequest::parse(b"{\"sql\": \"x\", \"parameters\": [1, []]}").unwrap();
        assert!(request.parameters().unwrap_err().message.contains("`$2`"));
    }

    #[test]
    fn settings_become_texts() {
        let body = br#"{"sql": "x", "settings": {"a": "off", "b": true, "c": 5, "d": null}}"#;
        let request = QueryRequest::parse(body).unwrap();
        let settings: Vec<_> = request.settings().collect();
        assert_eq!(settings[0], Ok(("a", "off".to_owned())));
        assert_eq!(settings[1], Ok(("b", "true".to_owned())));
        assert_eq!(settings[2], Ok(("c", "5".to_owned())));
        assert!(settings[3].is_err());
    }

    #[test]
    fn only_json_is_read() {
        let declared = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, value.parse().unwrap());
            require_json(&headers).map_err(|error| error.status.as_u16())
        };
        assert_eq!(declared("application/json"), Ok(()));
        assert_eq!(declared("Application/JSON; charset=utf-8"), Ok(()));
        assert_eq!(declared("text/plain"), Err(415));
        assert!(require_json(&HeaderMap::new()).is_err());
    }

    fn check(body: &[u8], code: &str, message: &str) {
        let error = QueryRequest::parse(body).unwrap_err();
        assert_eq!(error.code, code);
        assert!(error.message.contains(message), "{}", error.message);
    }
}
