//! The server that is measured, and one connection to it.

use std::path::Path;

use anyhow::Result;
use clap::ValueEnum;
use nyala_client::report::Hinted;
use serde::Serialize;

use super::http::{Http, HttpTarget};
use super::postgres::{Postgres, PostgresTarget};
use super::{Answer, Failure};
use crate::bench::workload::{Query, Value};

/// How values reach the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// As literals in the text
    Simple,
    /// Beside the text, which is parsed each time
    Extended,
    /// Beside a statement that each connection prepares once (PostgreSQL only)
    Prepared,
}

/// A server, its protocol and how it is asked.
#[derive(Debug, Clone)]
pub enum Target {
    Postgres(Box<PostgresTarget>),
    Http(HttpTarget),
}

impl Target {
    /// Reads `postgres://user@host:port/database`, `http://host:port`, `https://host:port` or `kylin://user:password@host:port`.
    /// `ca` names a file of authorities to trust.
    pub fn parse(url: &str, mode: Mode, ca: Option<&Path>) -> Result<Self> {
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            return PostgresTarget::parse(url, mode, ca).map(Box::new).map(Self::Postgres);
        }
        if let Some(target) = HttpTarget::parse(url, mode, ca)? {
            return Ok(Self::Http(target));
        }
        Err(Hinted::error(
            "the URL begins with none of `postgres://`, `postgresql://`, `http://`, `https://`, `kylin://`",
            "write `postgres://127.0.0.1:5433/nyala` or `http://127.0.0.1:8090`",
        ))
    }

    /// Protocol and place for reports; never the password that the URL may hold.
    pub fn place(&self) -> String {
        match self {
            Self::Postgres(target) => target.place(),
            Self::Http(target) => target.place(),
        }
    }

    /// Opens one connection.
    pub async fn connect(&self) -> Result<Connection, Failure> {
        Ok(match self {
            Self::Postgres(target) => Connection::Postgres(Box::new(target.connect().await?)),
            Self::Http(target) => Connection::Http(Box::new(target.connect().await?)),
        })
    }
}

/// A connection, used by one client, for one query at a time.
pub enum Connection {
    Postgres(Box<Postgres>),
    Http(Box<Http>),
}

impl Connection {
    /// The server's version, if the protocol reports it.
    pub fn server_version(&self) -> Option<String> {
        match self {
            Self::Postgres(connection) => connection.server_version(),
            Self::Http(_) => None,
        }
    }

    /// Whether the server has closed the connection while no query was under way, so that the next query needs another one. PostgreSQL's
    /// protocol has no such end: there a closed connection is an error.
    pub fn has_ended(&mut self) -> bool {
        match self {
            Self::Postgres(_) => false,
            Self::Http(connection) => connection.has_ended(),
        }
    }

    /// Runs a query and reads its answer to the end.
    pub async fn run(&mut self, query: &Query, values: Vec<Value>) -> Result<Answer, Failure> {
        let answer = match self {
            Self::Postgres(connection) => connection.run(query, values).await?,
            Self::Http(connection) => Box::pin(connection.run(query, &values)).await?,
        };
        match (query.columns, answer.columns) {
            (Some(expected), Some(columns)) if expected != columns => {
                Err(Failure::Refused(format!("an answer of {columns} columns instead of {expected}")))
            }
            _ => Ok(answer),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use nyala_client::report;

    #[test]
    fn reports_name_the_server_without_its_password() {
        let check = |url: &str, place: &str| {
            assert_eq!(Target::parse(url, Mode::Simple, None).unwrap().place(), place, "{url}");
        };
        check("postgres://me:secret@db.example:6000/sales", "postgres://db.example:6000");
        check("postgresql://127.0.0.1/x", "postgres://127.0.0.1:5432");
        check("http://127.0.0.1:8090/", "http://127.0.0.1:8090");
        check("http://example.org", "http://example.org:80");
        check("https://example.org/", "https://example.org:443");
        check("https://[::1]:8090", "https://[::1]:8090");
        check("kylin://ADMIN:KYLIN@127.0.0.1:8090", "kylin://127.0.0.1:8090");
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        let check = |url: &str, mode, words: &str| {
            let error = report::text(&Target::parse(url, mode, None).unwrap_err());
            assert!(error.contains(words), "{url}: {error}");
        };
        check("mysql://h/d", Mode::Simple, "begins with none of");
        check("postgres://h:port/d", Mode::Simple, "is not a server");
        check("postgres://h:1,g:2/d", Mode::Simple, "names several servers");
        check("http://h:port", Mode::Simple, "is not a server");
        check("http://h:1", Mode::Prepared, "cannot prepare");
        check("http://u:p@h:1", Mode::Simple, "is not a server");
        check("https://u:p@h:1", Mode::Simple, "is not a server");
        check("postgres://h/d?sslmode=maybe", Mode::Simple, "`sslmode=maybe` is not known");
    }
}
