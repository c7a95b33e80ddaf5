//! Reasons why a server could not start.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use metrics_exporter_prometheus::BuildError;

use crate::net::tls::TlsError;

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address cannot be listened on.
    #[error("cannot listen on `{address}`, the value of `{key}`: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The configuration key it came from.
        key: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// There can be no socket for clients of this machine.
    #[error("cannot make a socket in `{folder}`, the value of `server.postgres_socket`: {source}")]
    Socket {
        /// The folder.
        folder: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Other machines would reach a server that does not ask for a password.
    #[error("`{key}` is `{address}`, which other machines reach, and whoever reaches it could do everything")]
    Unprotected {
        /// The address.
        address: SocketAddr,
        /// The configuration key it came from.
        key: &'static str,
    },
    /// Encryption is configured and cannot be had.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Arrow cannot write `SqlInfo`, by which the Flight SQL door describes the server.
    #[error("cannot open the Flight SQL door: {0}")]
    Flight(arrow_flight::error::FlightError),
    /// The metrics recorder cannot be set up.
    #[error("cannot set up metrics: {0}")]
    Metrics(#[from] BuildError),
}

impl ServeError {
    /// Advice for the next step.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Bind { address, key, source } => Some(bind_hint(*address, key, source.kind())),
            Self::Socket { source, .. } => Some(socket_hint(source.kind()).to_owned()),
            Self::Unprotected { .. } => Some(
                "set `server.authentication = \"password\"`, listen on 127.0.0.1, or start with \
                 `--allow-unauthenticated` if something else protects the address"
                    .to_owned(),
            ),
            Self::Tls(_) => Some("name PEM files of a certificate and its key".to_owned()),
            Self::Flight(_) | Self::Metrics(_) => None,
        }
    }
}

fn bind_hint(address: SocketAddr, key: &str, kind: io::ErrorKind) -> String {
    match kind {
        io::ErrorKind::AddrInUse => {
            format!("stop the process that uses port {}, or set `{key}` to another address", address.port())
        }
        io::ErrorKind::PermissionDenied => {
            format!("ports below 1024 need privileges; set `{key}` to a higher port")
        }
        io::ErrorKind::AddrNotAvailable => {
            format!("set `{key}` to an address of this machine, `0.0.0.0` for all of them")
        }
        _ => format!("set `{key}` to another address"),
    }
}

fn socket_hint(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::AddrInUse => "stop the server that listens there, or name another folder",
        io::ErrorKind::AlreadyExists => "remove the file, or name another folder",
        io::ErrorKind::NotFound => "make the folder, or name another one",
        io::ErrorKind::InvalidInput => {
            "name a folder with a shorter path: with the file's name it has to fit in about a hundred bytes"
        }
        _ => "name a folder in which this user may make files",
    }
}
