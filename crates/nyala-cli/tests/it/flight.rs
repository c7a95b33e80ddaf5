//! Arrow Flight SQL, with the clients that people use: ADBC in Python and the JDBC driver.

use std::path::Path;
use std::process::Command;

use crate::encryption::Keys;
use crate::program::{PATIENCE, eventually, run, try_run};
use crate::python::{jar, require, script};
use crate::server::Server;
use crate::star::{Star, repository, sql};

const LISTEN: (&str, &str) = ("NYALA_SERVER__FLIGHT_LISTEN", "127.0.0.1:0");

#[test]
fn adbc() {
    let star = Star::generate("0.01");
    let server = Server::start_with(&star.built(), &[LISTEN]);
    let uri = format!("grpc://{}", server.flight.unwrap());
    let metrics = format!("http://{}/metrics", server.http);
    check(&server, script("flight_adbc.py").env("FLIGHT_URI", uri).env("METRICS", metrics));
    server.check_alive("ADBC");
}

#[test]
fn adbc_with_passwords_and_encryption() {
    let (star, keys) = (Star::generate("0.01"), Keys::make());
    let data = star.built();
    sql(&data, "CREATE USER root SUPERUSER PASSWORD 'r''oot'");
    let log = star.path("audit.jsonl");
    let variables = [
        LISTEN,
        ("NYALA_SERVER__AUDIT_LOG", log.to_str().unwrap()),
        ("NYALA_SERVER__AUTHENTICATION", "password"),
        ("NYALA_SERVER__TLS__CERTIFICATE", keys.certificate.to_str().unwrap()),
        ("NYALA_SERVER__TLS__KEY", keys.key.to_str().unwrap()),
    ];
    let mut server = Server::start_encrypted(&data, &variables);
    let uri = format!("grpc+tls://localhost:{}", server.flight.unwrap().port());
    let mut client = script("flight_adbc.py");
    client.env("FLIGHT_URI", uri).env("FLIGHT_ROOTS", &keys.certificate);
    check(&server, client.env("FLIGHT_USER", "root").env("FLIGHT_PASSWORD", "r'oot"));
    server.process.signal("TERM");
    assert_eq!(server.finish(PATIENCE).code, Some(0));
    // Listing tables with their columns is no attempt to read them.
    let text = std::fs::read_to_string(&log).unwrap();
    let denied: Vec<&str> =
        text.lines().filter(|line| line.contains("\"denied\"") && line.contains("SELECT")).collect();
    assert!(!denied.is_empty(), "{text}");
    assert!(denied.iter().all(|line| line.contains("SELECT * FROM dates\"")), "{denied:?}");
}

#[test]
fn calls_that_drivers_do_not_make() {
    let server = Server::empty(&[LISTEN]);
    let uri = format!("grpc://{}", server.flight.unwrap());
    check(&server, script("flight_calls.py").env("FLIGHT_URI", uri));
    server.check_alive("calls by hand");
}

#[test]
fn what_clients_send_is_bounded() {
    let server = Server::empty(&[LISTEN, ("NYALA_SERVER__MAX_FLIGHT_RECEIVE_BYTES", "1MiB")]);
    let uri = format!("grpc://{}", server.flight.unwrap());
    check(&server, script("flight_receive.py").env("FLIGHT_URI", uri));
    eventually("nothing is held", PATIENCE, || {
        server.get("/metrics").body.lines().any(|line| line == "nyala_flight_receive_bytes 0")
    });
    server.check_alive("large batches");
}

#[test]
fn jdbc() {
    let star = Star::generate("0.01");
    let server = Server::start_with(&star.built(), &[LISTEN]);
    let (address, classes) = (server.flight.unwrap(), tempfile::tempdir().unwrap());
    check(&server, jdbc_client(classes.path(), address.port()).env("FLIGHTHOST", address.ip().to_string()));
    server.check_alive("the JDBC driver");
}

#[test]
fn jdbc_with_passwords_and_encryption() {
    let (star, keys) = (Star::generate("0.01"), Keys::make());
    let data = star.built();
    sql(&data, "CREATE USER root SUPERUSER PASSWORD 'secret'");
    let variables = [
        LISTEN,
        ("NYALA_SERVER__AUTHENTICATION", "password"),
        ("NYALA_SERVER__TLS__CERTIFICATE", keys.certificate.to_str().unwrap()),
        ("NYALA_SERVER__TLS__KEY", keys.key.to_str().unwrap()),
    ];
    let server = Server::start_encrypted(&data, &variables);
    let classes = tempfile::tempdir().unwrap();
    let mut client = jdbc_client(classes.path(), server.flight.unwrap().port());
    client.env("FLIGHTHOST", "localhost").env("FLIGHT_ROOTS", &keys.certificate);
    check(&server, client.env("FLIGHT_USER", "root").env("FLIGHT_PASSWORD", "secret"));
}

/// The program that uses the JDBC driver, compiled into a folder.
fn jdbc_client(classes: &Path, port: u16) -> Command {
    require("javac", "a JDK, 17 or later (Debian: default-jdk-headless)");
    let source = repository("tests/compat/FlightJdbc.java");
    run(Command::new("javac").arg("-d").arg(classes).arg(source));
    let driver = jar("org.apache.arrow:flight-sql-jdbc-driver", "18.3.0");
    let class_path = std::env::join_paths([classes, driver.as_path()]).unwrap();
    let mut client = Command::new("java");
    client.arg("--add-opens=java.base/java.nio=ALL-UNNAMED").arg("-cp").arg(class_path).arg("FlightJdbc");
    client.env("FLIGHTPORT", port.to_string());
    client
}

fn check(server: &Server, client: &mut Command) {
    let finished = try_run(client);
    println!("{}", finished.stdout);
    let log = server.process.stderr();
    assert_eq!(finished.code, Some(0), "{}\n{}\nserver: {log}", finished.stdout, finished.stderr);
    assert!(!log.contains(" ERROR "), "the server reports faults of its own:\n{log}");
}

#[test]
fn the_door_is_closed_without_an_address() {
    let server = Server::empty(&[]);
    assert_eq!(server.flight, None);
    assert!(!server.process.stdout().contains("adbc"), "{}", server.process.stdout());
}
