//! Tells how to connect to a server that has just started.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;

/// Where clients connect.
#[derive(Debug, Clone, Copy)]
pub struct Ways<'w> {
    pub postgres: SocketAddr,
    pub http: SocketAddr,
    pub flight: Option<SocketAddr>,
    pub kylin: Option<SocketAddr>,
    /// Folder of the socket for clients of this machine.
    pub socket: Option<&'w Path>,
    pub encrypted: bool,
}

/// Writes a line for each way in, with a command or an address that works as it stands.
pub fn write(out: &mut impl Write, ways: Ways<'_>, example: &str) -> io::Result<()> {
    let Ways { postgres, http, flight, kylin, socket, encrypted } = ways;
    let scheme = if encrypted { "https" } else { "http" };
    let (postgres, http) = (reachable(postgres), reachable(http));
    writeln!(out, "  psql  psql -h {} -p {} -U nyala nyala", postgres.ip(), postgres.port())?;
    if let Some(folder) = socket {
        writeln!(out, "        psql -h '{}' -p {} -U nyala nyala", folder.display(), postgres.port())?;
    }
    writeln!(
        out,
        "  curl  curl -s {scheme}://{http}/api/v1/query -H 'content-type: application/json' -d '{{\"sql\": \"{example}\"}}'"
    )?;
    if let Some(flight) = flight.map(reachable) {
        let scheme = if encrypted { "grpc+tls" } else { "grpc" };
        writeln!(out, "  adbc  {scheme}://{flight}")?;
    }
    if let Some(kylin) = kylin.map(reachable) {
        writeln!(out, "  jdbc  jdbc:kylin://{kylin}/nyala")?;
    }
    writeln!(out, "  stop  Ctrl-C")?;
    out.flush()
}

/// An address that a client on this machine can use: "all addresses" is for listening only.
pub fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => SocketAddr::from(([127, 0, 0, 1], v4.port())),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => {
            SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], v6.port()))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
    use super::*;

    #[test]
    fn commands_name_an_address_that_can_be_reached() {
        let mut out = Vec::new();
        let ways = Ways {
            postgres: "0.0.0.0:5433".parse().unwrap(),
            http: "[::]:8090".parse().unwrap(),
            flight: Some("0.0.0.0:50051".parse().unwrap()),
            kylin: Some("0.0.0.0:7070".parse().unwrap()),
            socket: Some(Path::new("/run/nyala")),
            encrypted: false,
        };
        write(&mut out, ways, "SELECT 1").unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("psql -h 127.0.0.1 -p 5433"), "{text}");
        assert!(text.contains("psql -h '/run/nyala' -p 5433"), "{text}");
        assert!(text.contains("http://[::1]:8090/api/v1/query"), "{text}");
        assert!(text.contains("grpc://127.0.0.1:50051"), "{text}");
        assert!(text.contains("jdbc:kylin://127.0.0.1:7070/nyala"), "{text}");
    }
}
