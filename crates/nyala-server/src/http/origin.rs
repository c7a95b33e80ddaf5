//! Keeps web pages of other sites from using a server that only this machine should reach.
//!
//! A loopback address is open to every page in the user's browser, by way of a name that its owner
//! lets point to 127.0.0.1. Browsers tell where such a request comes from in the `Origin` header, so
//! on loopback only local origins are let through. Programs send no such header, and neither do browsers with a GET of the
//! page's own site, which such a name is: so a server that asks for no password answers to no name but `localhost`.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;

use super::{ApiError, Shared};

pub async fn refuse_foreign(
    State(shared): State<Shared>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    check(&shared, &request)?;
    Ok(next.run(request).await)
}

/// Refuses requests of pages of other sites.
pub fn check(shared: &Shared, request: &Request) -> Result<(), ApiError> {
    if !shared.loopback_only {
        return Ok(());
    }
    let origin = request.headers().get(header::ORIGIN).map(|origin| origin.to_str().unwrap_or_default());
    if let Some(origin) = origin
        && !is_local(origin)
    {
        let message = format!("pages of `{origin}` may not use this server");
        return Err(ApiError::new(StatusCode::FORBIDDEN, "forbidden_origin", message));
    }
    if let Some(host) = named(request)
        && shared.authenticator.is_open()
        && !is_own(&host)
    {
        let message = format!("this server is not `{}`", host.host());
        return Err(ApiError::new(StatusCode::FORBIDDEN, "forbidden_origin", message).hint(
            "call it `localhost` or by its address, or have it ask for passwords (`server.authentication`)",
        ));
    }
    Ok(())
}

/// The server's name, as the client calls it.
fn named(request: &Request) -> Option<Authority> {
    let host = || request.headers().get(header::HOST)?.to_str().ok()?.parse().ok();
    request.uri().authority().cloned().or_else(host)
}

/// Whether it is a name that other parties cannot point here.
fn is_own(name: &Authority) -> bool {
    let host = name.host();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok()
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
    use super::{is_local, is_own};

    #[test]
    fn only_localhost_and_addresses_cannot_be_pointed_here() {
        for host in ["localhost:8090", "LocalHost", "127.0.0.1:8090", "[::1]:8090", "10.0.0.1"] {
            assert!(host.parse().is_ok_and(|host| is_own(&host)), "{host}");
        }
        for host in ["evil.example:8090", "localhost.evil.example", "127.0.0.1.evil.example"] {
            assert!(host.parse().is_ok_and(|host| !is_own(&host)), "{host}");
        }
    }

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
