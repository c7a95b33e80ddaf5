//! A `nyala serve` process on free ports, and an HTTP client just large enough to talk to it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::{Finished, PATIENCE, Running, eventually, nyala, run};

/// A server, ended by SIGKILL when it is dropped.
pub struct Server {
    pub process: Running,
    pub postgres: SocketAddr,
    pub http: SocketAddr,
    /// The address for Flight SQL clients, if the door is open.
    pub flight: Option<SocketAddr>,
    /// The address of Kylin's API alone, if it has a port of its own.
    pub kylin: Option<SocketAddr>,
    _folder: Option<TempDir>,
}

impl Server {
    /// Serves a data folder.
    pub fn start(data_dir: &Path) -> Self {
        Self::start_with(data_dir, &[])
    }

    /// Serves an empty data folder of its own.
    pub fn empty(variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Self::start_with(folder.path(), variables);
        Self { _folder: Some(folder), ..server }
    }

    /// Serves with these environment variables.
    pub fn start_with(data_dir: &Path, variables: &[(&str, &str)]) -> Self {
        let server = Self::greeted(data_dir, variables);
        eventually("ready", PATIENCE, || server.get("/readyz").status == 200);
        server
    }

    /// Serves with variables that name a certificate. The plain HTTP functions of this type cannot be used with it.
    pub fn start_encrypted(data_dir: &Path, variables: &[(&str, &str)]) -> Self {
        Self::greeted(data_dir, variables)
    }

    fn greeted(data_dir: &Path, variables: &[(&str, &str)]) -> Self {
        let mut command =
            nyala(&["serve", "--postgres-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"]);
        command.arg("--data-dir").arg(data_dir).envs(variables.iter().copied());
        let mut process = Running::start(&mut command);
        eventually("greeting", PATIENCE, || {
            assert!(process.is_running(), "{}", process.stderr());
            process.stdout().contains("Ctrl-C")
        });
        let greeting = process.stdout();
        let (postgres, http) = addresses(&greeting);
        let flight = greeting.lines().find_map(|line| line.trim().strip_prefix("adbc  "));
        let flight = flight.map(|uri| uri.split("://").nth(1).unwrap().parse().unwrap());
        let kylin = greeting.lines().find_map(|line| line.trim().strip_prefix("jdbc  jdbc:kylin://"));
        let kylin = kylin.map(|url| url.split('/').next().unwrap().parse().unwrap());
        Self { process, postgres, http, flight, kylin, _folder: None }
    }

    /// The URL for PostgreSQL clients.
    pub fn url(&self) -> String {
        format!("postgres://tester@{}/nyala", self.postgres)
    }

    pub fn get(&self, path: &str) -> Response {
        exchange(self.http, format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())
    }

    /// Sends a body of any type.
    pub fn post_to(&self, path: &str, media_type: &str, body: &[u8]) -> Response {
        let head = format!(
            "POST {path} HTTP/1.0\r\ncontent-type: {media_type}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        exchange(self.http, &[head.as_bytes(), body].concat())
    }

    pub fn delete(&self, path: &str) -> Response {
        exchange(self.http, format!("DELETE {path} HTTP/1.0\r\n\r\n").as_bytes())
    }

    /// Sends a body to the query endpoint.
    pub fn post(&self, body: &str) -> Response {
        exchange(self.http, &post_request(body))
    }

    /// Sends a body to the query endpoint, with further header lines.
    pub fn post_with(&self, body: &str, headers: &str) -> Response {
        let request = String::from_utf8(post_request(body)).unwrap();
        exchange(self.http, request.replacen("\r\n", &format!("\r\n{headers}"), 1).as_bytes())
    }

    /// Runs a statement over HTTP.
    pub fn try_query(&self, sql: &str) -> Response {
        self.post(&json!({ "sql": sql }).to_string())
    }

    /// Runs a statement that must succeed; gives its rows.
    pub fn query(&self, sql: &str) -> Vec<Vec<String>> {
        self.query_with(sql, &json!({}))
    }

    /// Runs a query without cubes.
    pub fn query_tables(&self, sql: &str) -> Vec<Vec<String>> {
        self.query_with(sql, &json!({"nyala.use_cubes": "off"}))
    }

    /// Runs a statement with these settings.
    pub fn try_query_with(&self, sql: &str, settings: &Value) -> Response {
        self.post(&json!({ "sql": sql, "settings": settings }).to_string())
    }

    /// Runs a statement with these settings that must succeed; gives its rows.
    pub fn query_with(&self, sql: &str, settings: &Value) -> Vec<Vec<String>> {
        let response = self.try_query_with(sql, settings);
        assert_eq!(response.status, 200, "{sql:.500}\n{}", response.body);
        rows_of(&serde_json::from_str(&response.body).unwrap())
    }

    /// The cubes part of EXPLAIN.
    pub fn explain(&self, sql: &str) -> String {
        self.query(&format!("EXPLAIN {sql}"))[0][1].clone()
    }

    /// Checks that both doors answer.
    pub fn check_alive(&self, after: &str) {
        assert_eq!(self.query("SELECT 40 + 2"), [["42"]], "HTTP after {after}");
        let answer =
            run(&mut nyala(&["sql", "--url", &self.url(), "--format", "csv", "-c", "SELECT 1 AS a"]));
        assert_eq!(answer, "a\n1\n", "PostgreSQL after {after}");
    }

    /// Waits for the end of a server that was asked to stop.
    pub fn finish(self, within: Duration) -> Finished {
        self.process.finish(within)
    }
}

fn addresses(greeting: &str) -> (SocketAddr, SocketAddr) {
    let word_after = |mark: &str| {
        let rest = greeting.split(mark).nth(1).unwrap_or_else(|| panic!("no `{mark}` in {greeting}"));
        rest.split([' ', '/']).next().unwrap().to_owned()
    };
    let postgres = format!("{}:{}", word_after("psql -h "), word_after(" -p "));
    (postgres.parse().unwrap(), word_after("://").parse().unwrap())
}

/// Rows of a result in the HTTP API's JSON, as texts.
pub fn rows_of(document: &Value) -> Vec<Vec<String>> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => "NULL".to_owned(),
        other => other.to_string(),
    };
    let rows = document["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    rows.iter().map(|row| row.as_array().unwrap().iter().map(text).collect()).collect()
}

/// An HTTP response.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    /// The status line and the headers.
    pub head: String,
    pub body: String,
}

/// The request that sends a statement to the query endpoint.
pub fn statement_request(sql: &str) -> Vec<u8> {
    post_request(&json!({ "sql": sql }).to_string())
}

fn post_request(body: &str) -> Vec<u8> {
    let head = format!(
        "POST /api/v1/query HTTP/1.0\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

/// Sends a whole request and reads the whole response. HTTP/1.0, because there the end of the
/// connection is the end of the body.
fn exchange(address: SocketAddr, request: &[u8]) -> Response {
    let received = String::from_utf8_lossy(&send(address, request)).into_owned();
    let (head, body) = received
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("no response from {address} but {received:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect(head);
    Response { status, head: head.to_owned(), body: body.to_owned() }
}

/// Sends bytes and reads the response until the server closes the connection. A server may
/// answer and close before it has read everything, so both directions run at once.
pub fn send(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut received = Vec::new();
    std::thread::scope(|scope| {
        let mut sending = &stream;
        scope.spawn(move || sending.write_all(bytes));
        let mut chunk = [0; 65536];
        while let Ok(length @ 1..) = (&stream).read(&mut chunk) {
            received.extend_from_slice(&chunk[..length]);
        }
    });
    received
}
