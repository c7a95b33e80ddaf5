//! The body of `POST /query`.

use std::collections::HashMap;

use arrow::datatypes::{DataType, TimeUnit};
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use datafusion::common::ScalarValue;
use nyala_engine::{ErrorKind, Identity, QueryError, SessionOptions};
use serde::Deserialize;
use serde_json::Value;

/// A query. Kylin's clients send further fields, which have no meaning here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub sql: String,
    #[serde(default)]
    pub project: Option<String>,
    #[serde(default)]
    pub params: Option<Vec<Parameter>>,
    #[serde(default)]
    limit: Option<i64>,
    #[serde(default)]
    offset: Option<i64>,
    #[serde(default)]
    backdoor_toggles: Option<HashMap<String, Value>>,
    /// Whether tables must answer the query, even if a cube could.
    #[serde(default)]
    pub forced_to_push_down: bool,
    /// Whether the query fails unless a cube answers it.
    #[serde(default, rename = "forced_to_index")]
    pub forced_to_index: bool,
    /// The user with whose privileges the program wants the query to run.
    #[serde(default)]
    execute_as: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Parameter {
    #[serde(default)]
    class_name: String,
    #[serde(default)]
    value: Option<Value>,
}

impl Parameter {
    /// The value of the parameter. The engine casts texts to the type that the statement needs; if that is not known, the class tells the type.
    pub fn value(&self, needed: Option<&DataType>) -> ScalarValue {
        let text = match &self.value {
            None | Some(Value::Null) => return ScalarValue::Null,
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        let typed = match self.class_name.as_str() {
            "java.lang.Byte" | "java.lang.Short" | "java.lang.Integer" | "java.lang.Long" => {
                text.parse().ok().map(|value| ScalarValue::Int64(Some(value)))
            }
            "java.lang.Float" | "java.lang.Double" => {
                text.parse().ok().map(|value| ScalarValue::Float64(Some(value)))
            }
            "java.lang.Boolean" => text.parse().ok().map(|value| ScalarValue::Boolean(Some(value))),
            class if needed.is_none() => type_of_class(class, &text)
                .and_then(|data_type| ScalarValue::try_from_string(text.clone(), &data_type).ok()),
            _ => None,
        };
        typed.unwrap_or(ScalarValue::Utf8(Some(text)))
    }
}

/// The type of a class whose values are sent as texts; none for classes of texts.
fn type_of_class(class: &str, text: &str) -> Option<DataType> {
    Some(match class {
        "java.math.BigDecimal" => {
            // A number with an exponent stays a text.
            let number = text.strip_prefix('-').unwrap_or(text);
            let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
            let is_plain = whole.bytes().chain(fraction.bytes()).all(|digit| digit.is_ascii_digit());
            let digits = whole.len() + fraction.len();
            let precision =
                u8::try_from(digits).ok().filter(|digits| is_plain && (1..=38).contains(digits))?;
            DataType::Decimal128(precision, i8::try_from(fraction.len()).ok()?)
        }
        "java.sql.Date" => DataType::Date32,
        "java.sql.Time" => DataType::Time64(TimeUnit::Microsecond),
        "java.sql.Timestamp" => DataType::Timestamp(TimeUnit::Microsecond, None),
        _ => return None,
    })
}

/// Which rows are wanted.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    pub skip: u64,
    pub most: u64,
}

impl Request {
    /// Reads the body of a request.
    pub fn parse(body: Result<Bytes, BytesRejection>) -> Result<Self, QueryError> {
        let invalid = |message: String| QueryError::new(ErrorKind::InvalidText, message);
        let body = body.map_err(|rejection| invalid(rejection.body_text()))?;
        serde_json::from_slice(&body).map_err(|error| invalid(format!("request body: {error}")))
    }

    /// Which rows are wanted.
    pub fn part(&self) -> Part {
        let positive = |number: i64| u64::try_from(number).ok().filter(|number| *number > 0);
        let toggle =
            self.backdoor_toggles.as_ref().and_then(|toggles| toggles.get("ATTR_STATEMENT_MAX_ROWS"));
        let of_statement = toggle.and_then(|value| match value {
            Value::String(text) => text.parse().ok(),
            other => other.as_i64(),
        });
        let limits = [self.limit, of_statement].into_iter().flatten().filter_map(positive);
        Part { skip: self.offset.and_then(positive).unwrap_or(0), most: limits.min().unwrap_or(u64::MAX) }
    }

    /// Refuses to run a query with the privileges of its sender where they should be those of another user.
    pub fn check_user(&self, options: &SessionOptions) -> Result<(), QueryError> {
        let wanted = self.execute_as.as_deref().map(str::trim).filter(|user| !user.is_empty());
        match (wanted, &options.identity) {
            (Some(wanted), Identity::Role(role)) if role != wanted => {
                let message = format!("a query of `{role}` cannot run as `{wanted}`");
                let error = QueryError::new(ErrorKind::PermissionDenied, message);
                Err(error.hint(format!("log in as `{wanted}`, or leave out `executeAs`")))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn limits_of_request_and_statement_both_count() {
        let part = |body: &str| serde_json::from_str::<Request>(body).unwrap().part();
        assert_eq!(part(r#"{"sql": "x"}"#).most, u64::MAX);
        assert_eq!(part(r#"{"sql": "x", "limit": 0, "offset": 0}"#).most, u64::MAX);
        let toggled = r#"{"sql": "x", "limit": 50000, "offset": 7, "backdoorToggles": {"ATTR_STATEMENT_MAX_ROWS": "5"}}"#;
        assert_eq!((part(toggled).skip, part(toggled).most), (7, 5));
        assert_eq!(part(r#"{"sql": "x", "acceptPartial": false, "unknown": {}, "project": null}"#).skip, 0);
    }

    #[test]
    fn parameters_have_the_types_of_their_classes() {
        let value =
            |body: &str| serde_json::from_str::<Parameter>(body).unwrap().value(Some(&DataType::Utf8));
        assert_eq!(value(r#"{"className": "java.lang.Integer", "value": "7"}"#), ScalarValue::Int64(Some(7)));
        assert_eq!(
            value(r#"{"className": "java.lang.Double", "value": "0.5"}"#),
            ScalarValue::Float64(Some(0.5))
        );
        let text = |text: &str| ScalarValue::Utf8(Some(text.to_owned()));
        assert_eq!(value(r#"{"className": "java.sql.Date", "value": "1997-03-31"}"#), text("1997-03-31"));
        assert_eq!(value(r#"{"className": "java.lang.Long", "value": "x"}"#), text("x"));
        assert_eq!(value(r#"{"className": "java.lang.Object"}"#), ScalarValue::Null);
        let alone = |class: &str, text: &str| {
            Parameter { class_name: class.to_owned(), value: Some(json!(text)) }.value(None)
        };
        let decimal = |value, precision, scale| ScalarValue::Decimal128(Some(value), precision, scale);
        assert_eq!(alone("java.math.BigDecimal", "-12.50"), decimal(-1250, 4, 2));
        assert_eq!(alone("java.math.BigDecimal", "7"), decimal(7, 1, 0));
        assert_eq!(alone("java.math.BigDecimal", "1E+3"), text("1E+3"));
        assert_eq!(alone("java.sql.Date", "1997-03-31"), ScalarValue::Date32(Some(9951)));
        let at = ScalarValue::TimestampMicrosecond(Some(859_852_798_500_000), None);
        assert_eq!(alone("java.sql.Timestamp", "1997-03-31 23:59:58.5"), at);
        assert_eq!(alone("java.sql.Time", "00:00:01"), ScalarValue::Time64Microsecond(Some(1_000_000)));
        assert_eq!(alone("java.lang.String", "1997-03-31"), text("1997-03-31"));
    }

    #[test]
    fn a_query_does_not_run_as_another_user() {
        let as_user = |user: &str| -> Request {
            serde_json::from_value(json!({ "sql": "SELECT 1", "executeAs": user })).unwrap()
        };
        let of = |identity| SessionOptions { identity, ..SessionOptions::default() };
        let ann = of(Identity::Role("ann".to_owned()));
        for user in ["ann", ""] {
            as_user(user).check_user(&ann).unwrap();
        }
        assert_eq!(as_user("bob").check_user(&ann).unwrap_err().kind, ErrorKind::PermissionDenied);
        as_user("bob").check_user(&of(Identity::Owner)).unwrap();
    }
}
