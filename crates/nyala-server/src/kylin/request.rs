//! Bodies of requests.

use axum::body::Bytes;
use serde::Deserialize;

use super::error::KylinError;

/// The body of a request.
pub fn body<'b, T: Deserialize<'b>>(bytes: &'b Bytes) -> Result<T, KylinError> {
    serde_json::from_slice(bytes).map_err(|error| KylinError::invalid(format!("request body: {error}")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_body_that_is_no_json_is_refused_with_the_reason() {
        assert_eq!(body::<u32>(&Bytes::from_static(b"7")).unwrap(), 7);
        assert!(body::<u32>(&Bytes::from_static(b"{")).is_err());
    }
}
