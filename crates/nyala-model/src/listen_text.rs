//! Addresses to listen on, as people write them in configuration.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// An address with its port (`127.0.0.1:5433`, `[::1]:5433`, `localhost:5433`), or a port alone (`5433`,
/// `:5433`), which means the loopback address; none if it is neither.
pub fn parse_listen(text: &str) -> Option<SocketAddr> {
    let text = text.trim();
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let port = text.strip_prefix("localhost:").or_else(|| text.strip_prefix(':')).unwrap_or(text);
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse().ok().filter(|_| is_number)?;
    Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_of_this_machine() {
        let check = |text, expected: Option<&str>| {
            assert_eq!(parse_listen(text).map(|address| address.to_string()).as_deref(), expected, "{text}");
        };
        for text in ["5433", ":5433", "localhost:5433", "127.0.0.1:5433", " 5433 "] {
            check(text, Some("127.0.0.1:5433"));
        }
        check("[::1]:0", Some("[::1]:0"));
        check("0.0.0.0:80", Some("0.0.0.0:80"));
        for nonsense in ["", ":", "65536", "-1", "+80", "127.0.0.1", "localhost", "example.org:80", "::1:80:"]
        {
            check(nonsense, None);
        }
    }
}
