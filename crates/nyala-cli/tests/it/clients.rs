//! Programs that people use with PostgreSQL, against a server: each runs a script of `tests/compat`,
//! which checks the features that program needs.

use std::process::Command;

use crate::program::{nyala, run, try_run};
use crate::python::{jdbc_driver, require, script};
use crate::server::Server;
use crate::star::{Star, repository};

#[test]
fn psycopg() {
    check(&mut script("pg_psycopg.py"));
}

#[test]
fn sqlalchemy() {
    check(&mut script("pg_sqlalchemy.py"));
}

#[test]
fn catalogs() {
    check(&mut script("pg_catalogs.py"));
}

#[test]
fn delta_tables() {
    check(&mut script("delta_tables.py"));
}

#[test]
fn psql() {
    require("psql", "the PostgreSQL client (Debian: postgresql-client)");
    check(Command::new("bash").arg(repository("tests/compat/psql.sh")));
}

#[test]
fn jdbc() {
    require("javac", "a JDK, 17 or later (Debian: default-jdk-headless)");
    let (driver, classes) = (jdbc_driver(), tempfile::tempdir().unwrap());
    let source = repository("tests/compat/PgJdbc.java");
    run(Command::new("javac").arg("-cp").arg(&driver).arg("-d").arg(classes.path()).arg(source));
    let class_path = std::env::join_paths([classes.path(), driver.as_path()]).unwrap();
    check(Command::new("java").arg("-cp").arg(class_path).arg("PgJdbc"));
}

/// Runs a client with PGHOST and the like set, on the tables of the Star Schema Benchmark.
fn check(client: &mut Command) {
    let star = Star::generate("0.01");
    let server = Server::start(&star.built());
    client.env("PGHOST", server.postgres.ip().to_string());
    client.env("PGPORT", server.postgres.port().to_string());
    client.env("PGUSER", "compat").env("PGDATABASE", "nyala");
    let finished = try_run(client);
    println!("{}", finished.stdout);
    let log = server.process.stderr();
    assert_eq!(finished.code, Some(0), "{}\n{}\nserver: {log}", finished.stdout, finished.stderr);
    server.check_alive("the client");
    assert!(!log.contains(" ERROR "), "the server reports faults of its own:\n{log}");
}

/// The address that the greeting shows works as it stands.
#[test]
fn our_own_client() {
    let server = Server::empty(&[]);
    let finished = try_run(&mut nyala(&["sql", "--url", &server.url(), "-c", "SELECT 1; SELECT nope"]));
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.stdout.contains("(1 row"), "{finished:?}");
    assert!(finished.stderr.contains("\"nope\""), "{finished:?}");
}
