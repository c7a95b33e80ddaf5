//! `COPY … TO STDOUT`: rows as files that PostgreSQL's clients write, and that can be loaded again.

use std::path::Path;
use std::process::Command;

use crate::program::{Finished, try_run};
use crate::python::require;
use crate::server::Server;

/// A table of every kind of value, with texts that mean something to the formats.
fn server() -> Server {
    let server = Server::empty(&[]);
    for name in ["things", "again"] {
        server.query(&format!(
            "CREATE LIVE TABLE {name} (id BIGINT PRIMARY KEY, text TEXT, flag BOOLEAN, small SMALLINT, n INT, \
             ratio DOUBLE, price DECIMAL(12, 3), born DATE, seen TIMESTAMP)"
        ));
    }
    let texts = [
        "",
        "NULL",
        "\\N",
        "\\.",
        "a,b",
        "\"q\"",
        "tab\there",
        "line\nbreak\r",
        "\\",
        "'",
        "größer ☕",
        " x ",
    ];
    for (id, text) in texts.iter().enumerate() {
        server.query(&format!(
            "INSERT INTO things VALUES ({id}, '{}', {}, {id}, -{id}, {id} / 3.0, {id}.125, '2026-11-{:02}', \
             '2026-11-22T10:38:58.{id:06}')",
            text.replace('\'', "''"),
            id % 2 == 0,
            id + 1
        ));
    }
    server.query("INSERT INTO things (id, ratio) VALUES (100, 'NaN'), (101, '-Infinity')");
    server
}

fn psql(server: &Server, commands: &[&str]) -> Finished {
    require("psql", "the PostgreSQL client (Debian: postgresql-client)");
    let mut command = Command::new("psql");
    command.args(["-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", &server.url()]);
    command.args(commands.iter().flat_map(|sql| ["-c", sql]));
    try_run(&mut command)
}

fn copied(server: &Server, sql: &str) -> String {
    let finished = psql(server, &[sql]);
    assert_eq!(finished.code, Some(0), "{sql}: {finished:?}");
    finished.stdout
}

#[test]
fn what_is_copied_out_can_be_copied_in_again() {
    let server = server();
    let all = |table: &str| server.query(&format!("SELECT * FROM {table} ORDER BY id"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows");
    for options in [
        "",
        "CSV HEADER",
        "(FORMAT csv, DELIMITER ';', QUOTE '''', ESCAPE '\\', NULL 'none')",
        "(FORMAT binary)",
        "(DELIMITER '|', NULL '-')",
    ] {
        round_trip(&server, &file, options);
        assert_eq!(all("again"), all("things"), "{options}");
    }
}

fn round_trip(server: &Server, file: &Path, options: &str) {
    server.query("TRUNCATE TABLE again");
    let out = format!("\\copy things TO '{}' {options}", file.display());
    let into = format!("\\copy again FROM '{}' {options}", file.display());
    let done = psql(server, &[&out, &into]);
    assert_eq!(
        done.code,
        Some(0),
        "{options}: {done:?}\n{}",
        String::from_utf8_lossy(&std::fs::read(file).unwrap())
    );
}

#[test]
fn lines_are_those_of_postgresql() {
    let server = server();
    let check = |sql: &str, expected: &str| assert_eq!(copied(&server, sql), expected, "{sql}");
    check(
        "COPY (SELECT 1, NULL, 'a' || chr(9) || '\\', true, 1.50, date '2026-11-22') TO STDOUT",
        "1\t\\N\ta\\t\\\\\tt\t1.50\t2026-11-22\n",
    );
    check(
        "COPY (SELECT 1 AS a, '' AS b, NULL AS c, 'x,\"y' AS d) TO STDOUT (FORMAT csv, HEADER)",
        "a,b,c,d\n1,\"\",,\"x,\"\"y\"\n",
    );
    check("COPY (SELECT 1 AS a, 'x' AS b) TO STDOUT (FORMAT csv, FORCE_QUOTE (b))", "1,\"x\"\n");
    check("COPY (SELECT 7 AS a, 'x' AS b) TO STDOUT (HEADER, DELIMITER ';')", "a;b\n7;x\n");
    check("COPY (SELECT '\\.') TO STDOUT CSV", "\"\\.\"\n");
    check(
        "COPY (SELECT n, id FROM things WHERE id > 9 ORDER BY id) TO STDOUT CSV",
        "-10,10\n-11,11\n,100\n,101\n",
    );
    assert!(
        copied(&server, "COPY things (n, id) TO STDOUT (DELIMITER ';')").lines().any(|line| line == "-7;7")
    );
    check("COPY (SELECT id FROM things WHERE id > 1000) TO STDOUT", "");
    let many = copied(
        &server,
        "COPY (SELECT value, 'name ' || value FROM generate_series(1, 100000) AS s (value) ORDER BY value) TO STDOUT CSV",
    );
    assert_eq!(many.lines().count(), 100_000);
    assert!(many.ends_with("100000,name 100000\n"));
    for (sql, words) in [
        ("COPY nobody TO STDOUT", "\"nobody\" does not exist"),
        ("COPY things (nope) TO STDOUT", "nope"),
        ("COPY things TO STDOUT (FORMAT xml)", "\"xml\" is not supported"),
        ("COPY things TO STDOUT (FORMAT binary, HEADER)", "has no meaning in the binary format"),
        ("COPY things TO STDOUT (FORCE_QUOTE (text))", "FORCE_QUOTE needs FORMAT csv"),
        ("COPY things TO STDOUT (FORMAT binary, FORCE_QUOTE (text))", "FORCE_QUOTE needs FORMAT csv"),
        (
            "COPY things TO STDOUT (FORMAT csv, FORCE_QUOTE (nope))",
            "column \"nope\", which COPY does not have",
        ),
        ("COPY things TO STDOUT please", "expected the end of COPY"),
        ("COPY (INSERT INTO things (id) VALUES (7)) TO STDOUT", ""),
        ("COPY (SELECT 1 / (id - 3) FROM things) TO STDOUT", "zero"),
    ] {
        let refused = psql(&server, &[sql]);
        assert!(refused.code != Some(0) && refused.stderr.contains(words), "{sql}: {refused:?}");
    }
    // The HTTP door refuses COPY, and says how to get a file.
    let response =
        server.post_to("/api/v1/query", "application/json", br#"{"sql": "COPY things TO STDOUT"}"#);
    assert!(response.status == 400 || response.status == 501, "{} {}", response.status, response.body);
    assert!(response.body.contains("text/csv"), "{}", response.body);
}
