//! A server with the PostgreSQL protocol, from its URL.

use std::path::Path;

use anyhow::Result;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{CancelToken, Client, Config, Error, Socket};

use super::{Connector, Mode, Policy, Stream};
use crate::password;
use crate::report::Hinted;

/// The future that moves the bytes of a connection.
pub type Driver = tokio_postgres::Connection<Socket, Stream<Socket>>;

/// Address of a server, user and application, and protection of connections.
#[derive(Debug, Clone)]
pub struct PostgresServer {
    config: Config,
    connector: Connector,
}

impl PostgresServer {
    /// Reads a URL. Defaults: user `nyala`, password of `PGPASSWORD` or a password file, application name `application`, `sslmode` as
    /// `default`.
    pub fn parse(url: &str, ca: Option<&Path>, default: Mode, application: &str) -> Result<Self> {
        let (url, policy) = Policy::of_url(url, ca, default)?;
        // The error does not repeat the URL, which may hold a password.
        let mut config: Config = url.parse().map_err(|error: Error| {
            let cause = error.into_source().map(|cause| format!(": {cause}")).unwrap_or_default();
            Hinted::error(
                format!("the URL is not a server{cause}"),
                "write `postgres://127.0.0.1:5433/nyala`",
            )
        })?;
        if config.get_user().is_none() {
            config.user("nyala");
        }
        if config.get_password().is_none()
            && let Some(password) = password::find(&config)
        {
            config.password(password);
        }
        if config.get_application_name().is_none() {
            config.application_name(application);
        }
        config.ssl_mode(match policy.mode {
            // A Unix socket has no attacker on the way, and servers do not encrypt it.
            _ if is_local(&config) => SslMode::Disable,
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        });
        Ok(Self { config, connector: Connector::new(&policy, b"postgresql")? })
    }

    /// Opens one connection.
    pub async fn connect(&self) -> Result<(Client, Driver), Error> {
        self.config.connect(self.connector.clone()).await
    }

    /// Address, user and application.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Encrypts connections to the server.
    pub fn connector(&self) -> &Connector {
        &self.connector
    }

    /// Asks the server to end a connection's query, over an equally protected connection.
    pub async fn cancel(&self, token: &CancelToken) -> Result<(), Error> {
        token.cancel_query(self.connector.clone()).await
    }

    /// Host and port for messages, without the password of the URL.
    pub fn place(&self) -> String {
        let host = self.config.get_hosts().first().map(|host| match host {
            Host::Tcp(name) => name.clone(),
            #[cfg(unix)]
            Host::Unix(path) => path.display().to_string(),
        });
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        format!("{}:{port}", host.unwrap_or_else(|| "localhost".to_owned()))
    }
}

/// Whether the URL names only Unix sockets.
fn is_local(config: &Config) -> bool {
    #[cfg(unix)]
    return !config.get_hosts().is_empty()
        && config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_)));
    #[cfg(not(unix))]
    false
}

/// The next step, if a connection failed because it could not be encrypted, or because there is no password.
pub fn hint(error: &Error) -> Option<&'static str> {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        let inner = io.and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match inner.or_else(|| error.downcast_ref()) {
            Some(rustls::Error::InvalidCertificate(_)) => {
                return Some(
                    "name the file of its authority by `--ca`, or use the name that its certificate is made out to",
                );
            }
            _ => cause = error.source(),
        }
    }
    let text = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    match text.as_str() {
        "server does not support TLS" => Some("it is configured without a certificate: see `server.tls`"),
        "password missing" => Some(password::HINT),
        _ => None,
    }
}
