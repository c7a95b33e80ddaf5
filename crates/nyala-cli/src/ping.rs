//! `nyala ping`: whether a server takes queries, for health checks of containers and for scripts.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use nyala_client::http::HttpServer;
use nyala_client::report::Hinted;
use nyala_client::span;
use nyala_client::tls::{Mode, PostgresServer, hint};
use nyala_model::config::ServerConfig;
use serde_json::Value;

use crate::args::ConfigArgs;
use crate::{config, greeting};

/// The application name that servers see.
const NAME: &str = "nyala ping";

/// Arguments of `nyala ping`.
#[derive(Debug, Clone, clap::Args)]
pub struct PingArgs {
    /// Where the configuration file is
    #[command(flatten)]
    config: ConfigArgs,
    /// Server to ask: `http://host:port` or `https://host:port` for `/readyz`, `postgres://user@host:port/database` for
    /// `SELECT 1` [default: the server of this machine, at the address of the configuration]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Runs `SELECT 1` over PostgreSQL's protocol instead of asking for `/readyz`
    #[arg(long)]
    sql: bool,
    /// PEM file of the authorities that may vouch for the server
    #[arg(long, value_name = "FILE", requires = "url")]
    ca: Option<PathBuf>,
    /// Does not check the certificate of an `https://` server, which may be made out to another name
    #[arg(long, requires = "url", conflicts_with = "ca")]
    insecure: bool,
    /// How long the server may take to answer, such as `500ms` or `5s`
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = span::parse)]
    timeout: Duration,
}

/// The server, by the protocol that it is asked in.
enum Server {
    Http(HttpServer),
    Postgres(Box<PostgresServer>),
}

/// Prints a line if the server takes queries, and fails if it does not.
pub async fn command(args: &PingArgs) -> Result<()> {
    let server = server(args)?;
    let begun = Instant::now();
    let asked = async {
        match &server {
            Server::Http(server) => ask_readiness(server).await,
            Server::Postgres(server) => select_one(server).await,
        }
    };
    match tokio::time::timeout(args.timeout, asked).await {
        Ok(answered) => answered?,
        Err(_) => bail!("`{}` did not answer within {:?}", server.place(), args.timeout),
    }
    writeln!(std::io::stdout(), "{} is ready, {} ms", server.place(), begun.elapsed().as_millis())?;
    Ok(())
}

/// The server of the URL, or else of this machine.
fn server(args: &PingArgs) -> Result<Server> {
    let Some(url) = &args.url else {
        let server = config::load(&args.config, &[])?.config.server;
        return if args.sql { local_postgres(&server) } else { local_http(&server) };
    };
    match HttpServer::parse(url, args.ca.as_deref())? {
        // The errors do not repeat the URL, which may hold a password.
        Some(_) if args.sql => Err(Hinted::error(
            "`--sql` runs a statement over PostgreSQL's protocol, and the URL is of another",
            "write `postgres://user@host:port/database`, or leave out `--sql`",
        )),
        Some(server) if args.insecure => Ok(Server::Http(server.unverified()?)),
        Some(server) => Ok(Server::Http(server)),
        None if args.insecure => Err(Hinted::error(
            "`--insecure` is for `https://`, and the URL is of another protocol",
            "leave it out, and write `sslmode=require` into the URL: it checks no certificate",
        )),
        None => {
            let server = PostgresServer::parse(url, args.ca.as_deref(), Mode::Prefer, NAME)?;
            Ok(Server::Postgres(Box::new(server)))
        }
    }
}

fn local_http(config: &ServerConfig) -> Result<Server> {
    let is_encrypted = !config.tls.certificate.as_os_str().is_empty();
    let address = known(config.http_listen, "server.http_listen")?;
    Ok(Server::Http(HttpServer::local(address, is_encrypted)?))
}

/// The PostgreSQL server of this machine, encrypted if it can be. Its certificate, which is for other names than this address, is not checked.
fn local_postgres(config: &ServerConfig) -> Result<Server> {
    let address = known(config.postgres_listen, "server.postgres_listen")?;
    let server = PostgresServer::parse(&format!("postgres://{address}/nyala"), None, Mode::Prefer, NAME)?;
    Ok(Server::Postgres(Box::new(server)))
}

/// The address at which a server with this configuration is reached.
fn known(listen: SocketAddr, key: &str) -> Result<SocketAddr> {
    if listen.port() > 0 {
        return Ok(greeting::reachable(listen));
    }
    let message = format!("`{key}` is `{listen}`: the system chooses the port when the server starts");
    Err(Hinted::error(message, "name the server with `--url`"))
}

impl Server {
    /// Protocol, host and port, without the password that the URL may hold.
    fn place(&self) -> String {
        match self {
            Self::Http(server) => server.place(),
            Self::Postgres(server) => format!("postgres://{}", server.place()),
        }
    }
}

async fn ask_readiness(server: &HttpServer) -> Result<()> {
    let (status, body) = server.get("/readyz", NAME).await?;
    if status.is_success() {
        return Ok(());
    }
    let reason = reason(&body).unwrap_or_else(|| format!("status {status}"));
    bail!("`{}` takes no queries: {reason}", server.place())
}

/// The message of an error over HTTP.
fn reason(body: &[u8]) -> Option<String> {
    let document: Value = serde_json::from_slice(body).ok()?;
    Some(document.get("error")?.get("message")?.as_str()?.to_owned())
}

async fn select_one(server: &PostgresServer) -> Result<()> {
    let place = server.place();
    let connected = server.connect().await.map_err(explain);
    let (client, connection) =
        connected.with_context(|| format!("cannot connect to `postgres://{place}`"))?;
    // The task ends when the client is dropped.
    tokio::spawn(connection);
    let answer = client.simple_query("SELECT 1").await.map_err(explain);
    answer.with_context(|| format!("`postgres://{place}` takes no queries"))?;
    Ok(())
}

/// The server's message, or the error of the connection.
fn explain(error: tokio_postgres::Error) -> anyhow::Error {
    match (error.as_db_error(), hint(&error)) {
        (Some(error), _) => anyhow!("{}", error.message()),
        (None, Some(hint)) => Hinted::error(format!("{:#}", anyhow!(error)), hint),
        (None, None) => anyhow!(error),
    }
}

#[cfg(test)]
mod tests {
    use super::reason;

    #[test]
    fn the_reason_is_in_the_answer() {
        let check = |body: &str, expected: Option<&str>| {
            assert_eq!(reason(body.as_bytes()).as_deref(), expected, "{body}");
        };
        check(
            r#"{"error":{"code":"starting","message":"the server is starting"}}"#,
            Some("the server is starting"),
        );
        check(r#"{"status":"down"}"#, None);
        check("<html>", None);
    }
}
