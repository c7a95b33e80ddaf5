//! Kylin's API, with the clients that people use: kylinpy and three versions of the JDBC driver.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::encryption::Keys;
use crate::program::{run, try_run};
use crate::python::{jar, require, script};
use crate::server::{Server, send};
use crate::star::{Star, repository, sql};

const LISTEN: (&str, &str) = ("NYALA_SERVER__KYLIN_LISTEN", "127.0.0.1:0");

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

/// The port of its own has passwords and encryption like that of HTTP.
#[test]
fn a_port_of_its_own_with_passwords_and_encryption() {
    let (star, keys, classes) = (Star::generate("0.01"), Keys::make(), compiled());
    let data = star.built();
    sql(&data, "CREATE USER root SUPERUSER PASSWORD 'r''oot'");
    let variables = [
        LISTEN,
        ("NYALA_SERVER__AUTHENTICATION", "password"),
        ("NYALA_SERVER__TLS__CERTIFICATE", keys.certificate.to_str().unwrap()),
        ("NYALA_SERVER__TLS__KEY", keys.key.to_str().unwrap()),
    ];
    let server = Server::start_encrypted(&data, &variables);
    let login = [("KYLIN_SSL", "true"), ("KYLIN_USER", "root"), ("KYLIN_PASSWORD", "r'oot")];
    let address = server.kylin.unwrap();
    check(&server, address, script("kylin_kylinpy.py").envs(login));
    for version in VERSIONS {
        check(&server, address, driver(classes.path(), version).envs(login));
    }
    let refused =
        try_run(located(script("kylin_kylinpy.py").envs(login).env("KYLIN_PASSWORD", "x"), address));
    assert_eq!(refused.code, Some(1), "{}", refused.stdout);
    assert!(refused.stdout.contains("UnauthorizedError"), "{}", refused.stdout);
}

#[test]
fn a_port_of_its_own_has_nothing_else() {
    let server = Server::empty(&[LISTEN]);
    let port = server.kylin.unwrap();
    for (address, path, is_there) in [
        (port, "/kylin/api/projects", true),
        (port, "/healthz", false),
        (port, "/metrics", false),
        (port, "/console/", false),
        (port, "/api/v1/query?sql=SELECT+1", false),
        (port, "/kylin/api/nothing", false),
        (server.http, "/kylin/api/projects", true),
        (server.http, "/healthz", true),
    ] {
        let answer = get(address, path);
        assert_eq!(answer.contains(" 200 OK"), is_there, "{path}: {answer}");
        // Errors have the form that Kylin's clients read.
        assert_eq!(answer.contains("\"exception\""), !is_there, "{path}: {answer}");
    }
    let wrong_method = ask(port, "DELETE", "/kylin/api/projects");
    assert!(wrong_method.contains(" 404 ") && wrong_method.contains("\"exception\""), "{wrong_method}");
    server.check_alive("requests to the port of Kylin's API");
}

/// A page of another site must not use a server of this machine, whatever the port.
#[test]
fn a_port_of_its_own_refuses_pages_of_other_sites() {
    let server = Server::empty(&[LISTEN]);
    let request = "GET /kylin/api/projects HTTP/1.0\r\norigin: https://evil.example\r\n\r\n";
    let answer = String::from_utf8(send(server.kylin.unwrap(), request.as_bytes())).unwrap();
    assert!(answer.contains(" 403 "), "{answer}");
}

#[test]
fn there_is_no_port_of_its_own_without_an_address() {
    let server = Server::empty(&[]);
    assert_eq!(server.kylin, None);
    assert!(!server.process.stdout().contains("jdbc:kylin"), "{}", server.process.stdout());
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

fn get(address: SocketAddr, path: &str) -> String {
    ask(address, "GET", path)
}

fn ask(address: SocketAddr, method: &str, path: &str) -> String {
    let request = format!("{method} {path} HTTP/1.0\r\n\r\n");
    String::from_utf8(send(address, request.as_bytes())).unwrap()
}
