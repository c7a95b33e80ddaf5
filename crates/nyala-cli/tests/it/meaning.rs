//! PostgreSQL's meaning: files of records whose answers were recorded from PostgreSQL 15, asked over its protocol.
//!
//! A record with `skipif nyala` before it is left out. `NYALA_MEANING_URL` runs all of them against another server, such as the
//! PostgreSQL that they were recorded from.

use std::path::{Path, PathBuf};

use regex::Regex;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::server::Server;
use crate::star::repository;

/// The expected outcome of a statement.
enum Expected<'a> {
    Done,
    /// An error with a message that this pattern finds.
    Error(Option<Regex>),
    Rows {
        sorted: bool,
        rows: Vec<&'a str>,
    },
}

struct Record<'a> {
    line: usize,
    sql: String,
    expected: Expected<'a>,
    skipped: bool,
}

fn records<'a>(path: &Path, text: &'a str) -> Vec<Record<'a>> {
    let lines: Vec<&str> = text.lines().collect();
    let mut records = Vec::new();
    let mut first = 0;
    for block in lines.split(|line| line.trim().is_empty()) {
        let number = first + 1;
        first += block.len() + 1;
        let head = block.iter().position(|line| !line.starts_with('#') && !line.starts_with("skipif "));
        let Some(head) = head else { continue };
        let skipped = block[..head].contains(&"skipif nyala");
        let words: Vec<&str> = block[head].split_whitespace().collect();
        let end = block.iter().position(|line| *line == "----");
        let expected = match words.as_slice() {
            ["statement", "ok"] => Expected::Done,
            ["statement", "error", ..] => {
                let words = block[head]["statement error".len()..].trim();
                Expected::Error((!words.is_empty()).then(|| Regex::new(words).unwrap()))
            }
            ["query", _, order @ ..] => {
                let end = end.unwrap_or_else(|| panic!("{}:{number}: there is no `----`", path.display()));
                Expected::Rows { sorted: order.contains(&"rowsort"), rows: block[end + 1..].to_vec() }
            }
            other => panic!("{}:{number}: {other:?} begins no record", path.display()),
        };
        let sql = block[head + 1..end.unwrap_or(block.len())].join("\n");
        records.push(Record { line: number, sql, expected, skipped });
    }
    records
}

/// The difference between the answer and the expected one; none if they agree.
async fn compare(client: &Client, record: &Record<'_>) -> Option<String> {
    let answer = client.simple_query(&record.sql).await;
    match (&record.expected, answer) {
        (Expected::Done, Ok(_)) => None,
        (Expected::Error(words), Err(error)) => {
            let Some(error) = error.as_db_error() else { return Some(error.to_string()) };
            let is_ours = error.code().code().starts_with("XX");
            let is_found = words.as_ref().is_none_or(|words| words.is_match(error.message()));
            (is_ours || !is_found).then(|| format!("{}: {}", error.code().code(), error.message()))
        }
        (Expected::Rows { sorted, rows }, Ok(messages)) => {
            let mut found: Vec<String> = messages.iter().filter_map(shown).collect();
            let mut wanted: Vec<String> = rows.iter().map(|row| plain(row)).collect();
            if *sorted {
                found.sort();
                wanted.sort();
            }
            (found != wanted).then(|| format!("found {found:?} in place of {wanted:?}"))
        }
        (Expected::Error(_), Ok(_)) => Some("it is no error".to_owned()),
        (_, Err(error)) => {
            Some(error.as_db_error().map_or(error.to_string(), |error| error.message().to_owned()))
        }
    }
}

fn shown(message: &SimpleQueryMessage) -> Option<String> {
    let SimpleQueryMessage::Row(row) = message else { return None };
    let values = (0..row.len()).map(|at| match row.get(at) {
        None => "NULL",
        Some("") => "(empty)",
        Some(text) => text,
    });
    Some(plain(&values.collect::<Vec<_>>().join(" ")))
}

/// The row without zeros at the ends of fractions: a column shows one number of digits for all rows.
fn plain(row: &str) -> String {
    let word = |word: &str| {
        let is_number =
            word.parse::<f64>().is_ok() && word.bytes().all(|byte| b"0123456789.-".contains(&byte));
        match is_number && word.contains('.') {
            true => word.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => word.to_owned(),
        }
    };
    row.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(repository("tests/slt/meaning")).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "slt"));
    paths.sort();
    paths
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_postgresqls() {
    let other = std::env::var("NYALA_MEANING_URL").ok();
    let server = other.is_none().then(|| Server::empty(&[]));
    let url = other.or_else(|| server.as_ref().map(Server::url)).unwrap();
    if server.is_some() {
        connect(&url).await.simple_query("CREATE DISK STORE of_records").await.unwrap();
    }
    let (mut wrong, mut count) = (Vec::new(), 0);
    for path in files() {
        let text = std::fs::read_to_string(&path).unwrap();
        let client = connect(&url).await;
        for record in records(&path, &text) {
            if record.skipped && server.is_some() {
                continue;
            }
            count += 1;
            if let Some(what) = compare(&client, &record).await {
                wrong.push(format!("{}:{}: {}\n  {what}", path.display(), record.line, record.sql));
            }
        }
    }
    assert!(count > 1000, "only {count} records were found");
    assert!(wrong.is_empty(), "{} of {count} records are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
