//! The PostgreSQL protocol.

mod login;
mod wire;

use std::collections::HashMap;
use std::path::Path;

use anyhow::Result;
use nyala_client::report::Hinted;
use nyala_client::tls::{self, PostgresServer};
use tokio_postgres::Error;

use super::{Answer, Failure, Mode, same_width};
use crate::bench::workload::{Query, Value};
use wire::Wire;

/// A server that speaks PostgreSQL's protocol.
#[derive(Debug, Clone)]
pub struct PostgresTarget {
    server: PostgresServer,
    mode: Mode,
}

impl PostgresTarget {
    /// Reads a URL. Encryption is used only if the URL asks for it: servers that are compared must do the same work.
    pub fn parse(url: &str, mode: Mode, ca: Option<&Path>) -> Result<Self> {
        let server = PostgresServer::parse(url, ca, tls::Mode::Disable, "nyala bench")?;
        if server.config().get_hosts().len() > 1 || server.config().get_ports().len() > 1 {
            return Err(Hinted::error(
                "the URL names several servers",
                "name one: a report is about one server",
            ));
        }
        Ok(Self { server, mode })
    }

    /// Host and port.
    pub fn place(&self) -> String {
        format!("postgres://{}", self.server.place())
    }

    /// Opens one connection.
    pub async fn connect(&self) -> Result<Postgres, Failure> {
        let (socket, version) = login::log_in(&self.server).await?;
        Ok(Postgres { mode: self.mode, version, wire: Wire::new(socket), prepared: HashMap::new() })
    }
}

/// A connection.
pub struct Postgres {
    mode: Mode,
    version: Option<String>,
    wire: Wire,
    /// Name and number of columns of each prepared statement, by its text.
    prepared: HashMap<String, (String, usize)>,
}

impl Postgres {
    /// The server's version, if it reported one at login.
    pub fn server_version(&self) -> Option<String> {
        self.version.clone()
    }

    /// Runs a query and reads its answer to the end.
    pub async fn run(&mut self, query: &Query, values: Vec<Value>) -> Result<Answer, Failure> {
        match self.mode {
            Mode::Simple => {
                let text = query.literal(&values);
                drop(values);
                self.wire.simple(text).await
            }
            Mode::Extended => self.wire.extended(&query.shape, values).await,
            Mode::Prepared => {
                if !self.prepared.contains_key(&query.shape) {
                    let name = format!("s{}", self.prepared.len());
                    let columns = Box::pin(self.wire.prepare(&name, &query.shape, &values)).await?;
                    self.prepared.insert(query.shape.clone(), (name, columns));
                }
                let known = self.prepared.get(&query.shape);
                let (name, columns) = known.map_or(("", 0), |(name, columns)| (name, *columns));
                self.wire.prepared(name, columns, values).await
            }
        }
    }
}

fn broken(error: &Error) -> Failure {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    match error.as_db_error() {
        Some(db) => Failure::Broken(db.message().to_owned()),
        None => Failure::Broken(format!("{error}{cause}")),
    }
}
