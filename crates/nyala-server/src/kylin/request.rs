//! What requests bring: bodies of JSON, and flags in the query of a URL.

use axum::body::Bytes;
use serde::{Deserialize, Deserializer};

use super::error::KylinError;

/// The body of a request.
pub fn body<'b, T: Deserialize<'b>>(bytes: &'b Bytes) -> Result<T, KylinError> {
    serde_json::from_slice(bytes).map_err(|error| KylinError::invalid(format!("request body: {error}")))
}

/// A flag in the query of a URL: programs in Python write `True`.
pub fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(String::deserialize(deserializer)?.eq_ignore_ascii_case("true"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use axum::extract::Query;
    use axum::http::Uri;

    use super::*;

    #[derive(Debug, Deserialize)]
    struct Asked {
        #[serde(default, deserialize_with = "flag")]
        exact: bool,
    }

    #[test]
    fn flags_are_read_as_programs_write_them() {
        for (query, expected) in [
            ("exact=True", true),
            ("exact=true", true),
            ("exact=False", false),
            ("exact=", false),
            ("", false),
        ] {
            let uri: Uri = format!("/models?{query}").parse().unwrap();
            assert_eq!(Query::<Asked>::try_from_uri(&uri).unwrap().exact, expected, "{query}");
        }
    }

    #[test]
    fn a_body_that_is_no_json_is_refused_with_the_reason() {
        assert_eq!(body::<u32>(&Bytes::from_static(b"7")).unwrap(), 7);
        assert!(body::<u32>(&Bytes::from_static(b"{")).is_err());
    }
}
