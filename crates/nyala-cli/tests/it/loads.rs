//! Loads as statements: done once under their label, listed, cancelled, and logged.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::program::{Finished, PATIENCE, eventually, try_run};
use crate::python::{require, script};
use crate::random::{Random, seed};
use crate::server::{Response, Server};

const TABLE: &str = "CREATE LIVE TABLE people (id BIGINT PRIMARY KEY, name TEXT)";
const CSV: &str = "text/csv";

fn load(server: &Server, query: &str, body: &str) -> Response {
    server.post_to(&format!("/api/v1/tables/people/rows{query}"), CSV, body.as_bytes())
}

fn document(response: &Response) -> Value {
    assert_eq!(response.status, 200, "{}", response.body);
    serde_json::from_str(&response.body).unwrap_or_else(|error| panic!("{error}: {}", response.body))
}

/// A load that must be taken: rows, LSN, and whether it had been done before.
fn loaded(server: &Server, query: &str, body: &str) -> (u64, u64, bool) {
    let answer = document(&load(server, query, body));
    let number = |name: &str| answer[name].as_u64().unwrap_or_else(|| panic!("no {name} in {answer}"));
    (number("rows"), number("lsn"), answer["applied_before"].as_bool().unwrap())
}

/// Pages of a body are checked before they are read, and the bodies of other writers must pass.
#[test]
fn parquet_of_other_writers_is_loaded() {
    let server = Server::empty(&[]);
    let mut bodies = script("parquet_bodies.py");
    let finished = try_run(bodies.env("NYALA_HTTP", format!("http://{}", server.http)));
    assert_eq!(finished.code, Some(0), "{}\n{}", finished.stdout, finished.stderr);
    assert!(!server.process.stderr().contains("panicked"), "{}", server.process.stderr());
}

/// Runs a statement with psql, which gives it `input`.
pub fn psql(server: &Server, sql: &str, input: &str) -> Finished {
    require("psql", "the PostgreSQL client (Debian: postgresql-client)");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("input");
    std::fs::write(&file, input).unwrap();
    let mut command = Command::new("psql");
    command.args(["-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-c", sql, &server.url()]);
    command.stdin(std::fs::File::open(file).unwrap());
    try_run(&mut command)
}

#[test]
fn a_load_with_a_label_is_done_once_through_every_door() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.query(TABLE);
    let (rows, lsn, before) = loaded(&server, "?label=monday", "id,name\n1,Ada\n2,Bo\n");
    assert_eq!((rows, before), (2, false));
    assert_eq!(server.query("SELECT DISTINCT _version FROM people"), [[lsn.to_string()]]);
    server.query("UPDATE people SET name = 'changed' WHERE id = 1");
    assert_eq!(loaded(&server, "?label=monday", "id,name\n1,Ada\n2,Bo\n"), (2, lsn, true));
    // A known label answers the same for any body, even an invalid one.
    assert_eq!(loaded(&server, "?label=monday", "ix\nx\n"), (2, lsn, true));
    let told = "SELECT id, name FROM people ORDER BY id";
    assert_eq!(server.query(told), [["1", "changed"], ["2", "Bo"]]);
    let lenient = document(&load(&server, "?label=tuesday&max_rejects=1", "id,name\n3,C\nx,D\n"));
    assert_eq!((&lenient["rows"], &lenient["rejected"]), (&1.into(), &1.into()));
    let again = document(&load(&server, "?label=tuesday&max_rejects=1", "id,name\n3,C\nx,D\n"));
    assert_eq!((&again["rows"], &again["rejected"], &again["lsn"]), (&1.into(), &1.into(), &lenient["lsn"]));

    let many: String =
        (0..60_000).map(|n| format!("{},some text that makes it longer {n}\n", n + 1000)).collect();
    let failing = load(&server, "?label=wednesday", &format!("id,name\n{many}x,y\n"));
    assert!(failing.status == 422 && failing.body.contains("no row was written"), "{}", failing.body);
    assert_eq!(server.query("SELECT count(*) FROM people WHERE id >= 1000"), [["0"]]);
    assert_eq!(loaded(&server, "?label=wednesday", &format!("id,name\n{many}")).0, 60_000);
    let versions = "SELECT count(DISTINCT _version), count(*) FROM people WHERE id >= 1000";
    assert_eq!(server.query(versions), [["1", "60000"]], "one statement");

    let copy = "COPY people FROM STDIN WITH (LABEL 'thursday')";
    let first = psql(&server, copy, "4\tD\n");
    assert!(first.code == Some(0) && first.stderr.is_empty(), "{first:?}");
    let second = psql(&server, copy, "4\tanother\n");
    assert!(second.code == Some(0) && second.stderr.contains("was done before, at LSN"), "{second:?}");
    // The file is not in the folder of the server, which no table may read.
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("people.csv");
    std::fs::write(&file, "id,name\n5,E\n").unwrap();
    let copy = format!("COPY people FROM '{}' WITH (FORMAT csv, HEADER, LABEL 'friday')", file.display());
    assert_eq!(psql(&server, &copy, "").stderr, "");
    std::fs::remove_file(&file).unwrap();
    assert!(psql(&server, &copy, "").stderr.contains("was done before"));
    assert_eq!(server.query("SELECT name FROM people WHERE id IN (4, 5) ORDER BY id"), [["D"], ["E"]]);

    let nothing = loaded(&server, "?label=empty", "");
    assert_eq!((nothing.0, nothing.2), (0, false));
    for bad in ["", "a%0Ab", &"x".repeat(129)] {
        let refused = load(&server, &format!("?label={bad}"), "id\n9\n");
        assert!(
            refused.status == 400 && refused.body.contains("a label has 1 to 128 bytes"),
            "{}",
            refused.body
        );
    }
    drop(server);
    let server = Server::start(folder.path());
    assert_eq!(loaded(&server, "?label=monday", "id,name\n1,Ada\n"), (2, lsn, true));
    assert_eq!(loaded(&server, "?label=empty", "id\n1\n"), (0, nothing.1, true));
    assert_eq!(server.query("SELECT name FROM people WHERE id = 1"), [["changed"]]);
}

#[test]
fn of_loads_with_one_label_at_once_one_is_done() {
    let server = Server::empty(&[]);
    server.query(TABLE);
    for round in 0..5 {
        let told: Vec<_> = std::thread::scope(|scope| {
            let server = &server;
            let loads: Vec<_> = (0..6)
                .map(|id| {
                    scope.spawn(move || loaded(server, &format!("?label={round}"), &format!("id\n{id}\n")))
                })
                .collect();
            loads.into_iter().map(|load| load.join().unwrap()).collect()
        });
        assert_eq!(told.iter().filter(|(.., before)| !before).count(), 1, "{told:?}");
        let lsns: BTreeSet<u64> = told.iter().map(|(_, lsn, _)| *lsn).collect();
        assert_eq!(lsns.len(), 1, "{told:?}");
        let written = format!("SELECT count(*) FROM people WHERE _version = {}", told[0].1);
        assert_eq!(server.query(&written), [["1"]]);
    }
}

/// Loads one label after the other until the connection breaks; gives the answers, and the unanswered label.
fn load_until_killed(address: std::net::SocketAddr, from: u64) -> (Vec<(u64, u64)>, u64) {
    let mut answered = Vec::new();
    for label in from.. {
        let path = format!("/api/v1/tables/people/rows?label={label}");
        let body = format!("id,name\n{label},a\n{},b\n", label + 1_000_000);
        let request = format!(
            "POST {path} HTTP/1.0\r\ncontent-type: {CSV}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut received = String::new();
        let answer = TcpStream::connect(address).and_then(|mut stream| {
            stream.write_all(request.as_bytes())?;
            stream.read_to_string(&mut received)
        });
        let lsn = answer.ok().and_then(|_| {
            let document: Value = serde_json::from_str(received.split_once("\r\n\r\n")?.1).ok()?;
            document["lsn"].as_u64()
        });
        match lsn {
            Some(lsn) => answered.push((label, lsn)),
            None => return (answered, label),
        }
    }
    unreachable!("labels do not end")
}

/// A client without an answer sends its load again: the load is done once, whether the server died before it or after it.
#[test]
fn a_load_that_nobody_answered_for_can_be_sent_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(seed());
    let mut server = Server::start(folder.path());
    server.query("CREATE DISK STORE small WITH (seal_bytes = 16384, checkpoint_bytes = 4096, checkpoint_interval_ms = 50)");
    server.query(&format!("{TABLE} WITH (disk_store = small)"));
    let (mut next, mut total) = (0, 0);
    for round in 0..4 {
        let address = server.http;
        let loads = std::thread::spawn(move || load_until_killed(address, next));
        std::thread::sleep(Duration::from_millis(100 + random.below(300) as u64));
        server.process.kill();
        let (answered, doubtful) = loads.join().unwrap();
        drop(server);
        server = Server::start(folder.path());
        total += answered.len();
        for (label, lsn) in &answered {
            let written =
                format!("SELECT count(*) FROM people WHERE _version = {lsn} AND id % 1000000 = {label}");
            assert_eq!(server.query(&written), [["2"]], "load {label} of round {round}");
        }
        for (label, lsn) in answered.iter().rev().take(5) {
            assert_eq!(loaded(&server, &format!("?label={label}"), "id\n1\n"), (2, *lsn, true));
        }
        let body = format!("id,name\n{doubtful},a\n{},b\n", doubtful + 1_000_000);
        let (rows, lsn, _) = loaded(&server, &format!("?label={doubtful}"), &body);
        assert_eq!(rows, 2);
        let versions = format!("SELECT DISTINCT _version FROM people WHERE id % 1000000 = {doubtful}");
        assert_eq!(
            server.query(&versions),
            [[lsn.to_string()]],
            "load {doubtful}, which nobody answered for"
        );
        next = doubtful + 1;
    }
    assert!(total > 4, "too little was loaded to tell anything");
}

/// Begins a load over HTTP and does not end it.
fn unfinished(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(server.http).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = "POST /api/v1/tables/people/rows?label=slow HTTP/1.0\r\ncontent-type: text/csv\r\ncontent-length: 1000\r\n\r\n";
    stream.write_all(format!("{head}id,name\n1,Ada\n").as_bytes()).unwrap();
    stream
}

fn running(server: &Server, words: &str) -> Option<String> {
    let listed = format!(
        "SELECT query_id FROM system.queries WHERE query LIKE '%{words}%' AND query NOT LIKE '%system%'"
    );
    server.query(&listed).first().map(|row| row[0].clone())
}

#[test]
fn loads_are_listed_ended_and_written_down() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.jsonl");
    let variables = [("NYALA_SERVER__AUDIT_LOG", log.to_str().unwrap())];
    let mut server = Server::start_with(&folder.path().join("data"), &variables);
    server.query(TABLE);
    loaded(&server, "?label=done", "id\n7\n");
    assert_eq!(psql(&server, "COPY people FROM STDIN", "8\tH\n").code, Some(0));
    assert_ne!(psql(&server, "COPY people FROM STDIN", "x\ty\n").code, Some(0));

    let mut stream = unfinished(&server);
    let mut id = None;
    eventually("listed", PATIENCE, || {
        id = running(&server, "label=slow");
        id.is_some()
    });
    server.query(&format!("KILL QUERY {}", id.unwrap()));
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.0 499") && answer.contains("cancelled"), "{answer}");
    assert_eq!(running(&server, "label=slow"), None);
    let mut stream = unfinished(&server);
    eventually("listed again", PATIENCE, || running(&server, "label=slow").is_some());
    let id = running(&server, "label=slow").unwrap();
    assert!(server.delete(&format!("/api/v1/queries/{id}")).status < 300);
    stream.read_to_string(&mut String::new()).unwrap();
    drop(unfinished(&server));
    eventually("forgotten when its client has gone", PATIENCE, || {
        let ended = "SELECT count(*) FROM system.query_log WHERE query LIKE 'POST%slow%'";
        server.query(ended) == [["3"]]
    });
    let ended = "SELECT status, rows FROM system.query_log WHERE query LIKE 'POST%' OR query LIKE 'COPY%' ORDER BY query_id";
    let ended = server.query(ended);
    assert_eq!(ended[..3], [["finished", "1"], ["finished", "1"], ["failed", "0"]]);
    assert_eq!([&ended[3][0], &ended[4][0], &ended[5][0]], ["killed", "killed", "failed"]);
    assert_eq!(server.query("SELECT count(*) FROM people"), [["2"]]);

    server.process.signal("TERM");
    assert_eq!(server.finish(PATIENCE).code, Some(0));
    let text = std::fs::read_to_string(&log).unwrap();
    let told: Vec<String> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter_map(|line| Some(format!("{} {}", line["event"].as_str()?, line["statement"].as_str()?)))
        .filter(|line| line.contains("people"))
        .collect();
    assert!(told.contains(&"changed POST /api/v1/tables/people/rows?label=done".to_owned()), "{told:?}");
    assert!(told.contains(&"changed COPY people FROM STDIN".to_owned()), "{told:?}");
    assert!(told.contains(&"failed COPY people FROM STDIN".to_owned()), "{told:?}");
    assert!(told.contains(&"failed POST /api/v1/tables/people/rows?label=slow".to_owned()), "{told:?}");
}
