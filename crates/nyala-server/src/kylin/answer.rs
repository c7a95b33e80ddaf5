//! The three dialects of Kylin's API.

use std::convert::Infallible;

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// How a client wants answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Kylin up to version 4, and kylinpy: the bare value.
    Bare,
    /// Kyligence 3, and kylinpy with `version=v2`: the objects of Kylin up to version 4 in an envelope. A list is in an object that
    /// names it.
    Named,
    /// Kylin 5: in an envelope.
    Envelope,
}

impl<S: Sync> FromRequestParts<S> for Dialect {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::asked(&parts.headers))
    }
}

impl Dialect {
    /// The dialect that a request accepts.
    pub fn asked(headers: &HeaderMap) -> Self {
        let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
        Self::of(accept.unwrap_or_default())
    }

    fn of(accept: &str) -> Self {
        let is_new = |name: &str| {
            accept.split("application/vnd.apache.kylin-").skip(1).any(|version| version.starts_with(name))
        };
        match (is_new("v4"), is_new("v2")) {
            (true, _) => Self::Envelope,
            (false, true) => Self::Named,
            (false, false) => Self::Bare,
        }
    }

    /// Whether a value is in an envelope.
    pub fn has_envelope(self) -> bool {
        self != Self::Bare
    }

    /// A value.
    pub fn value(self, value: Value) -> Response {
        let body = match self.has_envelope() {
            true => json!({ "code": "000", "data": value, "msg": "" }),
            false => value,
        };
        Json(body).into_response()
    }

    /// A list, of which a client may want a part. `name` tells what is in it.
    pub fn list(self, name: &str, all: Vec<Value>, page: Page) -> Response {
        let total = all.len();
        self.part(name, all.into_iter().skip(page.offset).take(page.limit).collect(), total, page)
    }

    /// A part of a list that has `total` values.
    pub fn part(self, name: &str, part: Vec<Value>, total: usize, page: Page) -> Response {
        match self {
            Self::Bare => self.value(Value::Array(part)),
            Self::Named => self.value(json!({ name: part, "size": total })),
            Self::Envelope => self.value(json!({
                "value": part,
                "offset": page.number,
                "limit": page.shown_limit(total),
                "total_size": total,
            })),
        }
    }
}

/// The part of a list that a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Rows before the part.
    pub offset: usize,
    pub limit: usize,
    /// The number of the row or page that the client asked for: Kylin 5 repeats the number of the page.
    pub number: usize,
}

impl Default for Page {
    fn default() -> Self {
        Self::of_rows(None, None)
    }
}

impl Page {
    /// A page that is counted in rows, as up to Kylin 4.
    pub fn of_rows(offset: Option<usize>, limit: Option<usize>) -> Self {
        let offset = offset.unwrap_or(0);
        Self { offset, limit: limit.unwrap_or(usize::MAX), number: offset }
    }

    /// A page that is counted in pages, as in Kylin 5.
    pub fn of_pages(number: Option<usize>, size: Option<usize>) -> Self {
        let (number, limit) = (number.unwrap_or(0), size.unwrap_or(usize::MAX));
        Self { offset: number.saturating_mul(limit), limit, number }
    }

    /// The limit that the client asked for, or how many values the list has.
    pub fn shown_limit(self, total: usize) -> usize {
        if self.limit == usize::MAX { total } else { self.limit }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use axum::body::to_bytes;

    use super::*;

    #[test]
    fn a_dialect_is_told_by_its_media_type() {
        for (accept, dialect) in [
            ("", Dialect::Bare),
            ("application/json, text/plain", Dialect::Bare),
            ("application/vnd.apache.kylin-v4-public+json", Dialect::Envelope),
            ("application/vnd.apache.kylin-v4+json", Dialect::Envelope),
            ("application/vnd.apache.kylin-v2+json", Dialect::Named),
            ("application/vnd.apache.kylin-v2+json, application/vnd.apache.kylin-v4+json", Dialect::Envelope),
            ("application/vnd.apache.kylin-v1+json", Dialect::Bare),
        ] {
            assert_eq!(Dialect::of(accept), dialect, "{accept}");
        }
    }

    #[tokio::test]
    async fn each_dialect_has_lists_in_its_own_form() {
        for (dialect, expected) in [
            (Dialect::Bare, json!([2, 3])),
            (Dialect::Named, json!({ "code": "000", "data": { "cubes": [2, 3], "size": 4 }, "msg": "" })),
            (
                Dialect::Envelope,
                json!({
                    "code": "000",
                    "data": { "value": [2, 3], "offset": 1, "limit": 2, "total_size": 4 },
                    "msg": "",
                }),
            ),
        ] {
            let all = [0, 1, 2, 3].map(Value::from).to_vec();
            let answer = dialect.list("cubes", all, Page::of_pages(Some(1), Some(2)));
            let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
            assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), expected, "{dialect:?}");
        }
    }

    #[test]
    fn pages_do_not_overflow() {
        assert_eq!(Page::of_pages(Some(3), Some(10)), Page { offset: 30, limit: 10, number: 3 });
        let beyond = Page { offset: usize::MAX, limit: usize::MAX, number: 3 };
        assert_eq!(Page::of_pages(Some(3), None), beyond);
        assert_eq!(Page::of_rows(None, Some(2)), Page { offset: 0, limit: 2, number: 0 });
        assert_eq!((beyond.shown_limit(5), Page::of_rows(None, Some(9)).shown_limit(5)), (5, 9));
    }
}
