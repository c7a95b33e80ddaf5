//! Keeps web pages of other sites from using a server that only this machine should reach.
//!
//! A loopback address is open to every page in the user's browser, by way of a name that its owner
//! lets point to 127.0.0.1. Browsers tell where such a request comes from in the `Origin` header, so
//! on loopback only local origins are let through. Programs send no such header.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;

use super::{ApiError, Shared};

pub(super) async fn refuse_foreign(
    State(shared): State<Shared>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let origin = request.headers().get(header::ORIGIN).map(|origin| origin.to_str().unwrap_or_default());
    match origin {
        Some(origin) if shared.loopback_only && !is_local(origin) => {
            let message = format!("pages of `{origin}` may not use this server");
            Err(ApiError::new(StatusCode::FORBIDDEN, "forbidden_origin", message))
        }
        _ => Ok(next.run(request).await),
    }
}

/// Whether an origin such as `http://localhost:8090` is of this machine.
fn is_local(origin: &str) -> bool {
    let Ok(origin) = origin.parse::<axum::http::Uri>() else { return false };
    let host = origin.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::is_local;

    #[test]
    fn only_names_of_this_machine_are_local() {
        for origin in ["http://localhost:8090", "http://127.0.0.1", "http://[::1]:8090", "https://LOCALHOST"]
        {
            assert!(is_local(origin), "{origin}");
        }
        for origin in
            ["http://evil.example:8090", "null", "", "http://localhost.evil.example", "http://10.0.0.1"]
        {
            assert!(!is_local(origin), "{origin}");
        }
    }
}
