//! Damaged bodies and files, of every format, against a running server: each gets an answer, and the server goes on.
//!
//! `NYALA_MUTANTS=100000` sends so many of each format; `NYALA_SEED` begins with another one.

use std::net::SocketAddr;
use std::path::Path;

use async_compression::tokio::bufread::{GzipEncoder, ZstdEncoder};
use nyala_fuzz::{Random, corpus, mutant};
use tokio::io::AsyncReadExt;

use crate::harness::write_parquet;
use crate::server::{Server, send};

/// Mutants of each format, unless `NYALA_MUTANTS` asks for more.
const MUTANTS: u64 = 150;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|value| value.parse().ok())
}

/// Mutants of a corpus, each with the seed that repeats it.
fn mutants(bodies: &[Vec<u8>], share: u64) -> impl Iterator<Item = (u64, Vec<u8>)> {
    let first = number("NYALA_SEED").unwrap_or(1);
    let count = number("NYALA_MUTANTS").unwrap_or(MUTANTS) / share;
    (first..first + count)
        .map(|seed| (seed, mutant(&mut Random(seed.wrapping_mul(0xD134_2543_DE82_EF95)), bodies)))
}

fn server() -> Server {
    let server = Server::empty(&[]);
    server.query(
        "CREATE LIVE TABLE people (id BIGINT PRIMARY KEY, name TEXT, born DATE, score DOUBLE, at TIMESTAMP, \
         flag BOOLEAN, data BYTEA, amount DECIMAL(20, 2), small SMALLINT, list BIGINT[])",
    );
    server
}

/// The status of the answer; none if the server closed the connection before all was sent, which loses the answer.
fn post(door: SocketAddr, headers: &str, body: &[u8]) -> Option<u16> {
    let head = format!(
        "POST /api/v1/tables/people/rows?max_rejects=5 HTTP/1.0\r\n{headers}content-length: {}\r\n\r\n",
        body.len()
    );
    let answer = send(door, &[head.as_bytes(), body].concat());
    let answer = String::from_utf8_lossy(&answer).into_owned();
    answer.split(' ').nth(1).and_then(|status| status.parse().ok())
}

/// Sends mutants; each is accepted, or refused with a client error.
fn check(server: &mut Server, headers: &str, bodies: &[Vec<u8>]) {
    for (seed, body) in mutants(bodies, 1) {
        let status = post(server.http, headers, &body);
        let is_answer = status.is_none_or(|status| matches!(status, 200 | 400..=499 | 501));
        assert!(is_answer, "{status:?} for NYALA_SEED={seed} NYALA_MUTANTS=1 {headers:?}");
        assert!(
            server.process.is_running(),
            "dead by NYALA_SEED={seed} {headers:?}\n{}",
            server.process.stderr()
        );
    }
    server.check_alive(headers);
}

/// Panics of decoders that the server caught and logged so far.
fn panics(server: &Server) -> Vec<String> {
    let log = server.process.stderr();
    log.lines().filter(|line| line.contains("panicked at")).map(str::to_owned).collect()
}

fn of_type(media_type: &str) -> String {
    format!("content-type: {media_type}\r\n")
}

#[test]
fn damaged_bodies_are_refused_and_nothing_else_happens() {
    let mut server = server();
    for (media_type, bodies) in [
        ("application/vnd.apache.arrow.stream", corpus::arrow_streams()),
        ("text/csv", corpus::csv()),
        ("application/x-ndjson", corpus::ndjson()),
        ("application/vnd.apache.parquet", corpus::parquet_files()),
    ] {
        check(&mut server, &of_type(media_type), &bodies);
        assert_eq!(panics(&server), [""; 0], "{media_type}");
    }
}

fn compressed(is_gzip: bool, plain: &[u8]) -> Vec<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut bytes = Vec::new();
        match is_gzip {
            true => GzipEncoder::new(plain).read_to_end(&mut bytes).await.unwrap(),
            false => ZstdEncoder::new(plain).read_to_end(&mut bytes).await.unwrap(),
        };
        bytes
    })
}

#[test]
fn bodies_may_be_compressed_and_damaged_ones_are_refused() {
    let mut server = server();
    let lines: String = (0..3000).map(|row| format!("{row},name {row}\n")).collect();
    let text = format!("id,name\n{lines}");
    for (coding, is_gzip) in [("gzip", true), ("zstd", false)] {
        let body = compressed(is_gzip, text.as_bytes());
        assert!(3 * body.len() < text.len(), "{} bytes", body.len());
        let headers = format!("{}content-encoding: {coding}\r\n", of_type("text/csv"));
        server.query("TRUNCATE TABLE people");
        assert_eq!(post(server.http, &headers, &body), Some(200));
        assert_eq!(server.query("SELECT count(*), max(name) FROM people"), [["3000", "name 999"]]);
        let half = &body[..body.len() / 2];
        assert_eq!(post(server.http, &headers, half), Some(400), "a {coding} body that is cut off");
        check(&mut server, &headers, &[body]);
    }
    let headers = format!("{}content-encoding: br\r\n", of_type("text/csv"));
    assert_eq!(post(server.http, &headers, b"id\n1\n"), Some(415));
    let bomb = compressed(true, &vec![b'\n'; 100 << 20]);
    let headers = format!("{}content-encoding: gzip\r\n", of_type("text/csv"));
    assert_eq!(post(server.http, &headers, &bomb), Some(413), "100 MiB of {} bytes", bomb.len());
    server.check_alive("a body that becomes a hundred times as long");
}

/// Overwrites a file with mutants; only a statement that reads the file may fail.
fn check_file(server: &mut Server, path: &Path, bodies: &[Vec<u8>], sql: impl Fn(u64) -> String) {
    for (seed, body) in mutants(bodies, 2) {
        std::fs::write(path, &body).unwrap();
        let sql = sql(seed);
        let answer = server.try_query(&sql);
        assert!(server.process.is_running(), "dead by NYALA_SEED={seed} {sql}\n{}", server.process.stderr());
        assert_ne!(answer.status, 503, "NYALA_SEED={seed} {sql}: {}", answer.body);
    }
    server.check_alive("damaged files");
}

#[test]
fn damaged_files_of_tables_fail_one_statement() {
    let mut server = Server::empty(&[]);
    let folder = tempfile::tempdir().unwrap();
    for (format, bodies) in
        [("PARQUET", corpus::parquet_files()), ("CSV", corpus::csv()), ("NDJSON", corpus::ndjson())]
    {
        let path = folder.path().join(format.to_lowercase());
        match format {
            "PARQUET" => write_parquet(&path, &[corpus::people()]),
            _ => std::fs::write(&path, &bodies[0]).unwrap(),
        }
        let table = format!("t_{format}");
        let create = |name: &str| {
            format!("CREATE EXTERNAL TABLE {name} STORED AS {format} LOCATION '{}'", path.display())
        };
        server.query(&create(&table));
        let select = format!("SELECT * FROM {table} WHERE id > 1 OR name = 'x' LIMIT 1000");
        check_file(&mut server, &path, &bodies, |_| select.clone());
        check_file(&mut server, &path, &bodies, |seed| create(&format!("{table}_{seed}")));
    }
}
