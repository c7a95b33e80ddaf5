//! Kylin's API, with the clients that people use: kylinpy and three versions of the JDBC driver.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::{run, try_run};
use crate::python::{jar, require, script};
use crate::server::Server;
use crate::star::{Star, repository};

#[test]
fn kylinpy() {
    let star = Star::generate("0.01");
    let server = Server::start(&star.built());
    check(&server, server.http, &mut script("kylin_kylinpy.py"));
    server.check_alive("kylinpy");
}

#[test]
fn jdbc() {
    let star = Star::generate("0.01");
    let (server, classes) = (Server::start(&star.built()), compiled());
    for version in VERSIONS {
        check(&server, server.http, &mut driver(classes.path(), version));
    }
    server.check_alive("the JDBC drivers");
}

const VERSIONS: [&str; 3] = ["3.1.3", "4.0.3", "5.0.0-beta"];

/// The folder of the compiled program that uses a driver.
fn compiled() -> tempfile::TempDir {
    require("javac", "a JDK, 17 or later (Debian: default-jdk-headless)");
    let (classes, source) = (tempfile::tempdir().unwrap(), repository("tests/compat/KylinJdbc.java"));
    run(Command::new("javac").arg("-d").arg(classes.path()).arg(source));
    classes
}

fn driver(classes: &Path, version: &str) -> Command {
    println!("Kylin's driver {version}");
    // What the driver misses in a Java of today.
    let jars = [jar("org.apache.kylin:kylin-jdbc", version), jar("javax.xml.bind:jaxb-api", "2.3.1")];
    let class_path = std::env::join_paths(jars.iter().map(PathBuf::as_path).chain([classes])).unwrap();
    let mut command = Command::new("java");
    command.arg("-cp").arg(class_path).arg("KylinJdbc");
    command
}

fn located(client: &mut Command, address: SocketAddr) -> &mut Command {
    client.env("HTTPHOST", address.ip().to_string()).env("HTTPPORT", address.port().to_string())
}

/// Runs a client, on the tables of the Star Schema Benchmark.
fn check(server: &Server, address: SocketAddr, client: &mut Command) {
    let finished = try_run(located(client, address));
    println!("{}", finished.stdout);
    let log = server.process.stderr();
    assert_eq!(finished.code, Some(0), "{}\n{}\nserver: {log}", finished.stdout, finished.stderr);
    assert!(!log.contains(" ERROR "), "the server reports faults of its own:\n{log}");
}
