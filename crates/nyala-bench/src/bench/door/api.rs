//! The HTTP APIs that `nyala bench` measures: their requests and answers.

use std::fmt;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use hyper::StatusCode;
use percent_encoding::percent_decode_str;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Value as Json, json};

use super::{Answer, Failure, Mode, same_width};
use crate::bench::workload::{Query, Value};

/// An API that takes queries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Api {
    /// `POST /api/v1/query`
    Nyala,
    /// `POST /kylin/api/query`, with the value of the header `Authorization` if the URL has a user.
    Kylin { authorization: Option<String> },
}

impl Api {
    /// Takes `kylin://user:password@host:port` apart: the API, and the same place over HTTP. User and password may be percent-encoded.
    /// Other URLs are of Nyala's own API.
    pub fn of(url: &str) -> (Self, String) {
        let Some(rest) = url.strip_prefix("kylin://") else { return (Self::Nyala, url.to_owned()) };
        let (user, place) = match rest.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, rest),
        };
        let authorization = user.map(|user| {
            let user: Vec<u8> = percent_decode_str(user).collect();
            format!("Basic {}", BASE64_STANDARD.encode(user))
        });
        (Self::Kylin { authorization }, format!("http://{place}"))
    }

    /// The path that queries are sent to.
    pub fn path(&self) -> &'static str {
        match self {
            Self::Nyala => "/api/v1/query",
            Self::Kylin { .. } => "/kylin/api/query",
        }
    }

    /// The value of the header `Authorization`.
    pub fn authorization(&self) -> Option<&str> {
        match self {
            Self::Nyala => None,
            Self::Kylin { authorization } => authorization.as_deref(),
        }
    }

    /// The body of a request.
    pub fn body(&self, mode: Mode, query: &Query, values: &[Value]) -> String {
        let (text, field) = match self {
            Self::Nyala => (parameter as fn(&Value) -> Json, "parameters"),
            Self::Kylin { .. } => (typed_parameter as fn(&Value) -> Json, "params"),
        };
        let body = match mode {
            Mode::Simple => json!({ "sql": query.literal(values) }),
            Mode::Extended | Mode::Prepared => {
                json!({ "sql": query.shape, field: values.iter().map(text).collect::<Vec<_>>() })
            }
        };
        body.to_string()
    }
}

fn parameter(value: &Value) -> Json {
    match value {
        Value::Integer(number) => json!(number),
        Value::Text(text) => json!(text),
    }
}

/// A parameter as Kylin's driver sends it.
fn typed_parameter(value: &Value) -> Json {
    match value {
        Value::Integer(number) => json!({ "className": "java.lang.Long", "value": number.to_string() }),
        Value::Text(text) => json!({ "className": "java.lang.String", "value": text }),
    }
}

/// The required parts of an answer of either API. Values are skipped: they need no memory.
#[derive(Deserialize)]
struct Document {
    #[serde(alias = "columnMetas")]
    columns: Option<Count>,
    #[serde(alias = "results")]
    rows: Option<Rows>,
    /// The error of a query: Kylin's API tells it with status 200.
    #[serde(default, rename = "exceptionMessage")]
    exception: Option<String>,
}

/// The number of values in a list.
struct Count(usize);

/// The rows of an answer.
#[derive(Default)]
struct Rows {
    count: u64,
    /// Values in the first row.
    width: Option<usize>,
    /// Values in the first row that has another number of them.
    other_width: Option<usize>,
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Values;
        impl<'de> Visitor<'de> for Values {
            type Value = Count;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Count, A::Error> {
                let mut count = 0;
                while values.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Count(count))
            }
        }
        from.deserialize_seq(Values)
    }
}

impl<'de> Deserialize<'de> for Rows {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Lists;
        impl<'de> Visitor<'de> for Lists {
            type Value = Rows;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of rows")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut lists: A) -> Result<Rows, A::Error> {
                let mut rows = Rows::default();
                while let Some(Count(width)) = lists.next_element()? {
                    rows.count += 1;
                    if *rows.width.get_or_insert(width) != width {
                        rows.other_width.get_or_insert(width);
                    }
                }
                Ok(rows)
            }
        }
        from.deserialize_seq(Lists)
    }
}

#[derive(Deserialize)]
struct Refusal {
    error: Reason,
}

#[derive(Deserialize)]
struct Reason {
    message: String,
}

/// Reads an answer to its end.
pub fn read(status: StatusCode, body: &[u8]) -> Result<Answer, Failure> {
    if status != StatusCode::OK {
        let reason = serde_json::from_slice::<Refusal>(body).map(|refusal| refusal.error.message);
        return Err(Failure::Refused(reason.unwrap_or_else(|_| format!("status {status}"))));
    }
    let document: Document = serde_json::from_slice(body)
        .map_err(|error| Failure::Refused(format!("the answer is not of the form expected: {error}")))?;
    if let Some(reason) = document.exception {
        return Err(Failure::Refused(reason));
    }
    let Document { columns: Some(Count(columns)), rows: Some(rows), .. } = document else {
        return Err(Failure::Refused("the answer has no columns or no rows".to_owned()));
    };
    let mut known = Some(columns);
    for width in [rows.width, rows.other_width].into_iter().flatten() {
        same_width(&mut known, width)?;
    }
    Ok(Answer { columns: known, rows: rows.count })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]
    use super::*;

    #[test]
    fn an_answer_is_counted_or_refused() {
        let check = |status, body: &str, expected: Result<(usize, u64), &str>| {
            let answer = read(status, body.as_bytes());
            let found = answer.map(|answer| (answer.columns.unwrap_or_default(), answer.rows));
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{body}"),
                (Err(found), Err(words)) => assert!(found.to_string().contains(words), "{body}: {found}"),
                (found, expected) => panic!("{body}: {found:?} instead of {expected:?}"),
            }
        };
        let ok = StatusCode::OK;
        check(
            ok,
            r#"{"columns":[{"name":"a"},{}],"rows":[[1,"x"],[null,{"b":[2]}]],"row_count":2}"#,
            Ok((2, 2)),
        );
        check(ok, r#"{"columns":[{}],"rows":[]}"#, Ok((1, 0)));
        check(ok, r#"{"columns":[{}],"rows":[[1],[1,2]]}"#, Err("2 columns in an answer of 1"));
        check(ok, r#"{"columns":[{},{}],"rows":[[1]]}"#, Err("1 columns in an answer of 2"));
        check(ok, r#"{"columns":[{}],"rows":[[1],"#, Err("not of the form"));
        check(ok, r#"{"columns":[{}],"rows":[1]}"#, Err("not of the form"));
        check(ok, r#"{"columns":[{}]}"#, Err("no columns or no rows"));
        check(StatusCode::SERVICE_UNAVAILABLE, r#"{"error":{"message":"too many"}}"#, Err("too many"));
        check(StatusCode::BAD_GATEWAY, "<html>", Err("502"));
    }

    #[test]
    fn an_answer_of_kylin_is_counted_or_refused() {
        let check = |body: &str| read(StatusCode::OK, body.as_bytes()).map(|answer| answer.rows);
        let rows = r#"{"columnMetas":[{"label":"A"}],"results":[["1"],["2"]],"isException":false,"exceptionMessage":null}"#;
        assert_eq!(check(rows), Ok(2));
        let failed =
            r#"{"columnMetas":null,"results":null,"isException":true,"exceptionMessage":"no such table"}"#;
        assert_eq!(check(failed), Err(Failure::Refused("no such table".to_owned())));
    }

    #[test]
    fn a_url_names_the_api() {
        assert_eq!(Api::of("http://h:1"), (Api::Nyala, "http://h:1".to_owned()));
        let kylin =
            |authorization: Option<&str>| Api::Kylin { authorization: authorization.map(str::to_owned) };
        assert_eq!(Api::of("kylin://h:1/"), (kylin(None), "http://h:1/".to_owned()));
        let known = kylin(Some("Basic QURNSU46S1lMSU4="));
        assert_eq!(Api::of("kylin://ADMIN:KYLIN@h:1"), (known, "http://h:1".to_owned()));
        // `ann:p@ss/ö%`
        let decoded = kylin(Some("Basic YW5uOnBAc3Mvw7Yl"));
        assert_eq!(Api::of("kylin://ann:p%40ss%2F%C3%B6%25@h:1"), (decoded, "http://h:1".to_owned()));
    }
}
