//! Settings of the server: its listeners, and who may log in.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::values::{address_or_empty, listen, listen_or_not, size};
use super::{InvalidConfig, check};

/// Network listeners and logins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerConfig {
    /// PostgreSQL wire protocol. Default `127.0.0.1:5433`.
    #[serde(deserialize_with = "listen")]
    pub postgres_listen: SocketAddr,
    /// Folder of a Unix socket, `.s.PGSQL.<port>`, for local PostgreSQL clients. Default empty: none.
    pub postgres_socket: PathBuf,
    /// HTTP API, health and metrics. Default `127.0.0.1:8090`.
    #[serde(deserialize_with = "listen")]
    pub http_listen: SocketAddr,
    /// Arrow Flight SQL, by custom `127.0.0.1:50051`. Default empty: it is not served.
    #[serde(deserialize_with = "listen_or_not", serialize_with = "address_or_empty")]
    pub flight_listen: Option<SocketAddr>,
    /// Kylin's REST API alone, by custom `127.0.0.1:7070`. Default empty: it is served at `http_listen` only.
    #[serde(deserialize_with = "listen_or_not", serialize_with = "address_or_empty")]
    pub kylin_listen: Option<SocketAddr>,
    /// Largest HTTP request body accepted, in bytes. Default 16 MiB.
    #[serde(deserialize_with = "size")]
    pub max_body_bytes: usize,
    /// Memory for messages that clients of Flight SQL are sending, in bytes, for all clients together. One user may take a
    /// quarter, at least 64 MiB, and more while half of the memory is free. Default 512 MiB.
    #[serde(deserialize_with = "size")]
    pub max_flight_receive_bytes: usize,
    /// Logged-in clients of each listener; further ones are refused with a clear error. Default 1000.
    pub max_connections: usize,
    /// Connections to each listener before login. When one more comes, the oldest is closed. Default
    /// 1024.
    pub max_pending_connections: usize,
    /// Connections of one address before login. Clients that open many at once need as many. Default 256.
    pub max_pending_per_address: usize,
    /// Time limit of a login, in milliseconds. Default 10000.
    pub login_timeout_ms: u64,
    /// How long a stop waits for running queries, in milliseconds. Default 10000.
    pub shutdown_grace_ms: u64,
    /// Authentication of clients. Default: none.
    pub authentication: Authentication,
    /// Name of the superuser that the server makes when it starts and there is no superuser with a password. Default
    /// `admin`.
    pub first_user: String,
    /// File with the password of that user. Default empty: none is made.
    pub first_password_file: PathBuf,
    /// File that gets a line for each login, change and refusal. Default empty: none.
    pub audit_log: PathBuf,
    /// Whether to listen, without authentication, on addresses that other machines reach: then every
    /// client can do everything. Default false.
    pub allow_unauthenticated: bool,
    /// Encryption of the listeners.
    pub tls: TlsConfig,
}

/// Authentication of clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Authentication {
    /// Every client is let in, and may do everything.
    #[default]
    None,
    /// Clients log in as a role, by its password; they have the role's privileges.
    Password,
}

/// Encryption of the listeners. Without a certificate there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsConfig {
    /// PEM file with the server's certificate chain. Default empty: no encryption.
    pub certificate: PathBuf,
    /// PEM file with the private key of the certificate. Default empty.
    pub key: PathBuf,
    /// Whether PostgreSQL clients may connect unencrypted despite a certificate. Default false.
    pub allow_plaintext: bool,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            postgres_listen: SocketAddr::from(([127, 0, 0, 1], 5433)),
            postgres_socket: PathBuf::new(),
            http_listen: SocketAddr::from(([127, 0, 0, 1], 8090)),
            flight_listen: None,
            kylin_listen: None,
            max_body_bytes: 16 << 20,
            max_flight_receive_bytes: 512 << 20,
            max_connections: 1000,
            max_pending_connections: 1024,
            max_pending_per_address: 256,
            login_timeout_ms: 10_000,
            shutdown_grace_ms: 10_000,
            authentication: Authentication::None,
            first_user: "admin".to_owned(),
            first_password_file: PathBuf::new(),
            audit_log: PathBuf::new(),
            allow_unauthenticated: false,
            tls: TlsConfig::default(),
        }
    }
}

impl ServerConfig {
    pub(super) fn validate(&self) -> Result<(), InvalidConfig> {
        let at_least_one = [
            (self.max_connections, "server.max_connections"),
            (self.max_pending_connections, "server.max_pending_connections"),
            (self.max_pending_per_address, "server.max_pending_per_address"),
        ];
        for (value, key) in at_least_one {
            check(value > 0, key, "at least 1", &value)?;
        }
        let timeout = self.login_timeout_ms;
        check(
            (100..=600_000).contains(&timeout),
            "server.login_timeout_ms",
            "between 100 and 600000",
            &timeout,
        )?;
        check(!self.first_user.is_empty(), "server.first_user", "a name", &self.first_user)?;
        check(self.max_body_bytes >= 1024, "server.max_body_bytes", "at least 1024", &self.max_body_bytes)?;
        let received = self.max_flight_receive_bytes;
        check(received >= 1 << 20, "server.max_flight_receive_bytes", "at least 1048576", &received)
    }
}
