//! Rows that clients send: over HTTP, and with COPY of PostgreSQL.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::ipc::writer::StreamWriter;
use serde_json::Value;

use crate::batch;
use crate::harness::write_parquet;
use crate::program::{Finished, PATIENCE, run, try_run};
use crate::python::{require, script};
use crate::server::{Response, Server};

fn server() -> Server {
    let server = Server::empty(&[]);
    server.query("CREATE LIVE TABLE people (id BIGINT PRIMARY KEY, name TEXT, born DATE, score DOUBLE)");
    server
}

fn load(server: &Server, query: &str, media_type: &str, body: &[u8]) -> Response {
    server.post_to(&format!("/api/v1/tables/people/rows{query}"), media_type, body)
}

fn document(response: &Response) -> Value {
    serde_json::from_str(&response.body).unwrap_or_else(|error| panic!("{error}: {}", response.body))
}

/// Loads rows that must all be taken.
fn check(server: &Server, media_type: &str, body: &[u8], rows: u64) {
    let response = load(server, "", media_type, body);
    assert_eq!(response.status, 200, "{}", response.body);
    assert_eq!(document(&response)["rows"], rows, "{}", response.body);
}

/// Loads rows of which one must be refused.
fn check_refused(server: &Server, media_type: &str, body: &str, status: u16, words: &str) {
    let response = load(server, "", media_type, body.as_bytes());
    assert_eq!(response.status, status, "{body}: {}", response.body);
    assert!(response.body.contains(words), "{body}: {}", response.body);
}

fn all(server: &Server) -> Vec<Vec<String>> {
    server.query("SELECT * FROM people ORDER BY id")
}

fn people() -> RecordBatch {
    batch!(
        "name" => StringArray::from(vec![Some("Ada"), None]),
        "id" => Int64Array::from(vec![1, 2]),
    )
}

#[test]
fn rows_come_in_every_format() {
    let server = server();
    check(&server, "text/csv", b"id,name,born,score\n1,Ada,1990-02-03,1.5\n2,\"B,\"\"o\",,\n3,\"\",,-1e3", 3);
    let loaded = all(&server);
    assert_eq!(loaded[0], ["1", "Ada", "1990-02-03", "1.5"]);
    assert_eq!(loaded[1], ["2", "B,\"o", "NULL", "NULL"]);
    assert_eq!(loaded[2], ["3", "", "NULL", "-1000.0"]);
    server.query("TRUNCATE TABLE people");
    check(&server, "text/csv; charset=utf-8", b"name,id\r\nAda,1\r\n", 1);
    check(
        &server,
        "application/x-ndjson",
        b"{\"id\": 2, \"name\": \"B\\no\", \"score\": 3}\n{\"id\":3}\n\n",
        2,
    );
    let loaded = all(&server);
    assert_eq!(loaded[0], ["1", "Ada", "NULL", "NULL"]);
    assert_eq!(loaded[1], ["2", "B\no", "NULL", "3.0"]);
    assert_eq!(loaded[2], ["3", "NULL", "NULL", "NULL"]);
    server.query("TRUNCATE TABLE people");
    let mut stream = StreamWriter::try_new(Vec::new(), &people().schema()).unwrap();
    stream.write(&people()).unwrap();
    check(&server, "application/vnd.apache.arrow.stream", &stream.into_inner().unwrap(), 2);
    assert_eq!(all(&server)[0], ["1", "Ada", "NULL", "NULL"]);
    server.query("TRUNCATE TABLE people");
    let folder = tempfile::tempdir().unwrap();
    write_parquet(&folder.path().join("people.parquet"), &[people()]);
    let file = std::fs::read(folder.path().join("people.parquet")).unwrap();
    check(&server, "application/vnd.apache.parquet", &file, 2);
    assert_eq!(all(&server)[1], ["2", "NULL", "NULL", "NULL"]);
    check(&server, "text/csv", b"", 0);
    check(&server, "text/csv", b"id,name\n", 0);
    check(&server, "application/x-ndjson", b"", 0);
}

#[test]
fn uuids_are_texts_in_every_format() {
    let server = Server::empty(&[]);
    server.query("CREATE LIVE TABLE visits (id UUID PRIMARY KEY, n BIGINT)");
    let load = |media_type: &str, body: &[u8]| server.post_to("/api/v1/tables/visits/rows", media_type, body);
    let (a, b, c) = (
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "c0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    );
    let mut arrow =
        StreamWriter::try_new(Vec::new(), &batch!("id" => StringArray::from(vec![c])).schema()).unwrap();
    arrow.write(&batch!("id" => StringArray::from(vec![c]))).unwrap();
    for (media_type, body) in [
        ("text/csv", format!("id,n\n{a},1\n").into_bytes()),
        ("application/x-ndjson", format!("{{\"id\": \"{b}\", \"n\": 2}}\n").into_bytes()),
        ("application/vnd.apache.arrow.stream", arrow.into_inner().unwrap()),
    ] {
        let loaded = load(media_type, &body);
        assert_eq!(loaded.status, 200, "{media_type}: {}", loaded.body);
    }
    assert_eq!(server.query("SELECT id FROM visits ORDER BY id"), [[a], [b], [c]]);
    let refused = load("application/x-ndjson", b"{\"id\": \"no uuid\"}\n");
    assert!(refused.status == 422 && refused.body.contains("no uuid"), "{}", refused.body);
}

#[test]
fn a_follower_is_told_that_its_table_was_dropped() {
    let server = server();
    let mut stream = TcpStream::connect(server.http).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /api/v1/tables/people/changes HTTP/1.0\r\n\r\n").unwrap();
    let mut some = [0; 1024];
    assert!(stream.read(&mut some).unwrap() > 0);
    server.query("DROP TABLE people");
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("event: error") && rest.contains("was dropped"), "{rest}");
}

#[test]
fn a_large_body_is_loaded_as_it_comes() {
    let server = server();
    let lines: String =
        (0..300_000).map(|n| format!("{n},name {n} with some more text around it,,{n}.25\n")).collect();
    check(&server, "text/csv", format!("id,name,born,score\n{lines}").as_bytes(), 300_000);
    let sums = server.query("SELECT count(*), sum(id), sum(score) FROM people");
    assert_eq!(sums, [["300000", "44999850000", "44999925000.0"]]);
}

/// Many clients read the answer only when they have sent everything; a reset of their connection meanwhile would lose it.
#[test]
fn a_client_that_sends_on_behind_a_bad_row_is_answered() {
    let server = server();
    let body = format!("id,name\nx,b\n{}", "1,a\n".repeat(6 << 20));
    let head =
        "POST /api/v1/tables/people/rows?label=bad HTTP/1.0\r\ncontent-type: text/csv\r\ncontent-length: ";
    let mut stream = TcpStream::connect(server.http).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(format!("{head}{}\r\n\r\n{body}", body.len()).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.0 422") && answer.contains("line 2, column `id`"), "{answer}");
    check(&server, "text/csv", b"id,name\n1,a\n", 1);
}

/// Without a refusal, a client with `Expect: 100-continue` would send megabytes that nothing takes.
#[test]
fn a_client_that_waits_sends_no_rows_for_a_table_that_is_not_there() {
    let server = server();
    let head = "POST /api/v1/tables/nobody/rows HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                content-type: text/csv\r\nexpect: 100-continue\r\ncontent-length: 1000\r\n\r\n";
    let mut stream = TcpStream::connect(server.http).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("undefined_table"), "{answer}");
}

#[test]
fn bad_rows_are_named() {
    let server = server();
    let csv = "text/csv";
    check_refused(
        &server,
        csv,
        "id,name\n1,a\nx,b\n",
        422,
        "line 3, column `id`: `x` is not a value of type Int64",
    );
    check_refused(&server, csv, "id,name\n1\n", 422, "line 2: 1 fields, not 2");
    check_refused(&server, csv, "id,nobody\n1,2\n", 400, "has no column `nobody`");
    check_refused(&server, csv, "id,id\n1,2\n", 400, "named twice");
    check_refused(&server, csv, "id,name\n,a\n", 422, "null in column `id`");
    check_refused(&server, csv, "id,name\n1,\"open\n", 422, "line 2: a quote is not closed");
    let json = "application/x-ndjson";
    check_refused(&server, json, "{\"id\": 1}\n{\"id\": \"x\"}\n", 422, "line 2, column `id`: `x`");
    check_refused(
        &server,
        json,
        "{\"id\": 1}\n{\"id\": 2, \"born\": \"x\"}\n",
        422,
        "line 2, column `born`: ",
    );
    check_refused(
        &server,
        json,
        "{\"id\": 1}\n{\"ix\": 2}\n",
        422,
        "line 2, column `ix`: the table has no such column",
    );
    check_refused(&server, json, "{\"id\": 1}\nnonsense\n", 422, "line 2");
    check_refused(&server, "application/vnd.apache.arrow.stream", "nonsense", 422, "Arrow stream");
    check_refused(&server, "application/vnd.apache.parquet", "nonsense", 422, "Parquet file");
    check_refused(&server, "image/png", "", 415, "text/csv");
    let lenient = load(&server, "?max_rejects=2", csv, b"id,name\n7,a\nx,b\n8\n9,c\n");
    let answer = document(&lenient);
    assert_eq!((lenient.status, &answer["rows"], &answer["rejected"]), (200, &2.into(), &2.into()));
    assert_eq!(answer["rejects"][0]["line"], 3);
    assert_eq!(answer["rejects"][0]["column"], "id");
    assert_eq!(answer["rejects"][1]["line"], 4);
    let lenient = load(&server, "?max_rejects=1", json, b"{\"id\": 10}\n{\"id\": []}\n{\"id\": 11}\n");
    let answer = document(&lenient);
    assert_eq!((&answer["rows"], &answer["rejects"][0]["column"]), (&2.into(), &"id".into()), "{answer}");
    assert_eq!(load(&server, "?max_reject=1", csv, b"id\n1\n").status, 400);
    let missing = server.post_to("/api/v1/tables/nobody/rows", csv, b"id\n1\n");
    assert!(missing.status == 400 && missing.body.contains("nobody"), "{}", missing.body);
    assert_eq!(server.query("SELECT count(*) FROM people WHERE id >= 7"), [["4"]]);
    server.check_alive("bad rows");
}

fn psql(server: &Server, sql: &str, input: &str) -> Finished {
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
fn postgresql_clients_copy_rows() {
    let server = server();
    let copied = psql(&server, "COPY people FROM STDIN", "1\tAda\t1990-02-03\t1.5\n2\tB\\to\\\\\t\\N\t\\N\n");
    assert_eq!(copied.code, Some(0), "{copied:?}");
    let loaded = all(&server);
    assert_eq!(loaded[0], ["1", "Ada", "1990-02-03", "1.5"]);
    assert_eq!(loaded[1], ["2", "B\to\\", "NULL", "NULL"]);
    let csv = "COPY people (name, id) FROM STDIN WITH (FORMAT csv, HEADER true, DELIMITER ';')";
    let copied = psql(&server, csv, "name;id\n\"x;y\";3\n;4\n");
    assert_eq!(copied.code, Some(0), "{copied:?}");
    assert_eq!(all(&server)[2..], [["3", "x;y", "NULL", "NULL"], ["4", "NULL", "NULL", "NULL"]]);
    for (sql, input, words) in [
        ("COPY people FROM STDIN", "9\tx\n", "line 1: 2 fields, not 4"),
        ("COPY people (id) FROM STDIN", "x\n", "line 1, column \"id\""),
        ("COPY people (ix) FROM STDIN", "1\n", "has no column \"ix\""),
        ("COPY nobody FROM STDIN", "1\n", "\"nobody\" does not exist"),
        ("COPY people FROM STDIN (FORMAT binary)", "1\n", "the signature is not that of PostgreSQL"),
        ("COPY people FROM STDIN (FORMAT binary)", "PGCOPY\n", "signature is"),
        ("COPY people FROM STDIN (FORMAT binary)", "", "the signature is missing"),
        ("COPY people FROM STDIN (FORMAT binary, HEADER)", "", "has no meaning in the binary format"),
        ("COPY people FROM STDIN (FORMAT xml)", "", "\"xml\" is not supported"),
    ] {
        let refused = psql(&server, sql, input);
        assert!(refused.code != Some(0) && refused.stderr.contains(words), "{sql}: {refused:?}");
    }
    let many: String = (0..100_000).map(|n| format!("{n}\tname {n}\t\\N\t{n}\n")).collect();
    assert_eq!(psql(&server, "COPY people FROM STDIN", &many).code, Some(0));
    let told = psql(&server, "SELECT count(*), sum(score) FROM people", "");
    assert_eq!(told.stdout.trim(), "100000|4999950000");
}

#[test]
fn postgresql_drivers_write() {
    for name in ["pg_live.py", "pg_asyncpg.py"] {
        let server = server();
        let mut client = script(name);
        client.env("PGHOST", server.postgres.ip().to_string());
        client.env("PGPORT", server.postgres.port().to_string());
        println!("{}", run(&mut client));
    }
}

#[test]
fn changes_are_streamed_as_they_happen() {
    let server = server();
    server.query("INSERT INTO people (id, name) VALUES (1, 'before')");
    let mut stream = TcpStream::connect(server.http).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /api/v1/tables/people/changes HTTP/1.0\r\n\r\n").unwrap();
    let mut received = Vec::new();
    let mut until = |words: &str| {
        let mut chunk = [0; 4096];
        while !String::from_utf8_lossy(&received).contains(words) {
            let count = stream.read(&mut chunk).unwrap();
            assert!(count > 0, "{}", String::from_utf8_lossy(&received));
            received.extend_from_slice(&chunk[..count]);
        }
        String::from_utf8_lossy(&received).into_owned()
    };
    until("text/event-stream");
    server.query("INSERT INTO people (id, name) VALUES (2, 'now')");
    until("\"name\":\"now\"");
    server.query("DELETE FROM people WHERE id = 1");
    let all = until("event: delete");
    assert!(!all.contains("before") && all.contains("event: upsert"), "{all}");
    let again = server.get("/api/v1/tables/nobody/changes");
    assert!(again.status == 400 && again.body.contains("nobody"), "{}", again.body);
}

/// The events until `words` come: type, id and data of each.
fn followed(server: &Server, table: &str, last_id: &str, words: &str) -> Vec<[String; 3]> {
    let mut stream = TcpStream::connect(server.http).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET /api/v1/tables/{table}/changes HTTP/1.0\r\nLast-Event-ID: {last_id}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let (mut received, mut chunk) = (String::new(), [0; 4096]);
    while !(received.contains(words) && received.ends_with("\n\n")) {
        let count = stream.read(&mut chunk).unwrap();
        assert!(count > 0, "{received}");
        received.push_str(&String::from_utf8_lossy(&chunk[..count]));
    }
    let (_, body) = received.split_once("\r\n\r\n").unwrap();
    let field = |event: &str, name: &str| {
        let value = event.lines().find_map(|line| line.strip_prefix(name));
        value.unwrap_or_default().trim().to_owned()
    };
    let of = |event: &str| ["event:", "id:", "data:"].map(|name| field(event, name));
    body.split("\n\n").map(of).filter(|[kind, id, _]| !kind.is_empty() || !id.is_empty()).collect()
}

#[test]
fn who_is_cut_off_within_a_statement_gets_it_again() {
    let server = server();
    server.query("INSERT INTO people (id, name) VALUES (0, 'before')");
    let before = server.query("SELECT max(_lsn) FROM changes('people')")[0][0].clone();
    server.query("INSERT INTO people (id) SELECT value FROM generate_series(1, 5) AS s (value)");
    server.query("INSERT INTO people (id) VALUES (6)");
    let all = followed(&server, "people", &before, "\"id\":6");
    assert_eq!(all[0], [String::new(), before.clone(), String::new()], "where it begins, and no event");
    assert_eq!(all.len(), 1 + 6, "{all:?}");
    let ids: Vec<&str> = all.iter().map(|[_, id, _]| id.as_str()).collect();
    let whole = ids[5];
    assert_eq!(ids, [before.as_str(), "", "", "", "", whole, ids[6]]);
    assert!(!whole.is_empty() && !ids[6].is_empty(), "{all:?}");
    // A client that was cut off behind some of the five rows has the id that came before them.
    let seen = ids[..3].iter().rev().find(|id| !id.is_empty()).unwrap();
    assert_eq!(followed(&server, "people", seen, "\"id\":6")[1..], all[1..]);
    assert_eq!(followed(&server, "people", whole, "\"id\":6")[1..], all[6..]);
}

#[test]
fn a_renamed_column_keeps_its_values_for_those_who_follow() {
    let server = server();
    server.query("CREATE LIVE TABLE accounts (id BIGINT PRIMARY KEY, amount BIGINT)");
    server.query("INSERT INTO accounts VALUES (1, 10)");
    let mut stream = TcpStream::connect(server.http).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /api/v1/tables/accounts/changes?after=0 HTTP/1.0\r\n\r\n").unwrap();
    let mut received = Vec::new();
    let mut until = |words: &str| {
        let mut chunk = [0; 4096];
        while !String::from_utf8_lossy(&received).contains(words) {
            let count = stream.read(&mut chunk).unwrap();
            assert!(count > 0, "{}", String::from_utf8_lossy(&received));
            received.extend_from_slice(&chunk[..count]);
        }
    };
    until("{\"id\":1,\"amount\":10}");
    server.query("ALTER TABLE accounts RENAME COLUMN amount TO cents");
    server.query("ALTER TABLE accounts ADD COLUMN amount BIGINT");
    server.query("INSERT INTO accounts (id, cents, amount) VALUES (2, 20, 99)");
    until("{\"id\":2,\"amount\":20}");
    let told = "SELECT id, cents, amount FROM changes('accounts', 0) WHERE _op = 'upsert' ORDER BY _lsn";
    assert_eq!(server.query(told), [["1", "10", "NULL"], ["2", "20", "99"]]);
}

#[test]
fn columns_that_are_not_loaded_get_their_default() {
    let server = server();
    server.query(
        "CREATE LIVE TABLE prices (item TEXT PRIMARY KEY, cents BIGINT, since TIMESTAMP DEFAULT now(), \
         shop INT NOT NULL DEFAULT 1 + 6, ticket TEXT DEFAULT uuid(), note TEXT)",
    );
    let rows = |range: std::ops::Range<u32>, separator: &str| -> String {
        range.map(|n| format!("item {n}{separator}{n}\n")).collect()
    };
    let csv = format!("item,cents\n{}", rows(0..100, ","));
    let loaded = server.post_to("/api/v1/tables/prices/rows", "text/csv", csv.as_bytes());
    assert_eq!(loaded.status, 200, "{}", loaded.body);
    let copied = psql(&server, "COPY prices (item, cents) FROM STDIN", &rows(100..200, "\t"));
    assert_eq!(copied.code, Some(0), "{copied:?}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("prices.csv");
    std::fs::write(&file, format!("item,cents\n{}", rows(200..300, ","))).unwrap();
    server.query(&format!("COPY prices (item, cents) FROM '{}' (FORMAT csv, HEADER)", file.display()));
    let told = "SELECT count(*), count(since), min(shop), max(shop), count(DISTINCT ticket), count(note) FROM prices";
    assert_eq!(server.query(told), [["300", "300", "7", "7", "300", "0"]]);
    let told = "SELECT count(DISTINCT since) FROM prices WHERE cents < 100";
    assert_eq!(server.query(told), [["1"]], "a load is one statement");
    // A null that is given is not replaced by the default.
    let given = server.post_to("/api/v1/tables/prices/rows", "text/csv", b"item,since,shop\nx,,3\n");
    assert_eq!(given.status, 200, "{}", given.body);
    assert_eq!(server.query("SELECT since, shop FROM prices WHERE item = 'x'"), [["NULL", "3"]]);
}

#[test]
fn changes_can_be_followed() {
    let server = server();
    server.query("INSERT INTO people (id, name) VALUES (1, 'Ada'), (2, 'Bo')");
    let seen = server.query("SELECT max(_lsn) FROM changes('people')");
    server.query("UPDATE people SET name = 'Eva' WHERE id = 1");
    server.query("DELETE FROM people WHERE id = 2");
    server.query("ALTER TABLE people ADD COLUMN more INT");
    server.query("INSERT INTO people (id, more) VALUES (3, 4)");
    let all = server.query("SELECT _op, id, name, more FROM changes('people') ORDER BY _lsn, id");
    assert_eq!(all[0], ["upsert", "1", "Ada", "NULL"]);
    let new =
        format!("SELECT _op, id, name, more FROM changes('public.people', {}) ORDER BY _lsn", seen[0][0]);
    let expected = [
        ["upsert", "1", "Eva", "NULL"],
        ["delete", "2", "NULL", "NULL"],
        ["alter", "NULL", "NULL", "NULL"],
        ["upsert", "3", "NULL", "4"],
    ];
    assert_eq!(server.query(&new), expected);
    for (sql, words) in [
        ("SELECT * FROM changes('nobody')", "nobody"),
        ("SELECT * FROM changes()", "changes('table')"),
        ("SELECT * FROM changes('people', 'x')", "x"),
        ("SELECT * FROM changes('people', NULL)", "null"),
    ] {
        let refused = server.try_query(sql);
        assert!(refused.status == 400 || refused.status == 422, "{sql}: {}", refused.body);
        assert!(refused.body.contains(words), "{sql}: {}", refused.body);
    }
}
