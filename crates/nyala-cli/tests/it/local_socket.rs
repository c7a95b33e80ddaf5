//! PostgreSQL clients of the same machine, over a Unix socket.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::encryption::Keys;
use crate::program::{Finished, PATIENCE, Running, eventually, nyala, run, try_run};
use crate::python::require;
use crate::server::Server;

#[test]
fn clients_of_this_machine_are_served_without_network() {
    let local = Local::start(&[]);
    let answer = local.psql("", "SELECT 40 + 2; SELECT repeat('x', 100000)");
    assert_eq!((answer.code, answer.stdout.len()), (Some(0), 100_004), "{answer:?}");
    let client = local.psql("", "SELECT client FROM system.queries").stdout;
    assert!(client.trim().strip_prefix("local:").is_some_and(|process| process.parse::<u32>().is_ok()));

    let sql = ["sql", "--format", "csv", "-c", "SELECT 40 + 2 AS a", "--url"];
    assert_eq!(run(nyala(&sql).arg(local.url())), "a\n42\n");
    let file = local.folder.path().join("q.sql");
    std::fs::write(&file, "SELECT {{n: 1..9}} AS n").unwrap();
    let bench = ["bench", "--clients", "2", "--duration", "300ms", "--warmup", "0s", "--ceiling", "0s"];
    let measured = run(nyala(&bench).arg(&file).args(["--mode", "prepared", "--url"]).arg(local.url()));
    assert!(measured.contains("p99"), "{measured}");
    local.server.check_alive("clients without network");
}

/// A cancel request comes over a connection of its own, through the same socket.
#[test]
fn ctrl_c_cancels_over_the_socket() {
    let local = Local::start(&[]);
    let endless = "SELECT count(*) FROM generate_series(1, 100000) a(n), generate_series(1, 10000000) b(m) WHERE n <> m";
    let mut client = Running::start(nyala(&["sql", "-c", endless, "--url"]).arg(local.url()));
    let running = "SELECT count(*) FROM system.queries WHERE application = 'nyala sql'";
    eventually("it runs", PATIENCE, || local.psql("", running).stdout.trim() == "1");
    client.signal("INT");
    let finished = client.finish(PATIENCE);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.stderr.contains("cancel"), "{finished:?}");
}

#[test]
fn passwords_are_asked_for_and_encryption_is_not() {
    let keys = Keys::make();
    let local = Local::start(&[
        ("NYALA_SERVER__AUTHENTICATION", "password"),
        ("NYALA_SERVER__TLS__CERTIFICATE", keys.certificate.to_str().unwrap()),
        ("NYALA_SERVER__TLS__KEY", keys.key.to_str().unwrap()),
    ]);
    let answer = local.psql("password=secret", "SELECT current_user");
    assert_eq!((answer.code, answer.stdout.trim()), (Some(0), "ann"), "{answer:?}");
    let url = local.url().replace("tester", "ann:secret");
    for mode in ["disable", "prefer", "require", "verify-full"] {
        let statement = ["sql", "--format", "csv", "-c", "SELECT 40 + 2 AS a", "--url"];
        assert_eq!(run(nyala(&statement).arg(format!("{url}?sslmode={mode}"))), "a\n42\n", "{mode}");
    }
    let mut client = UnixStream::connect(&local.path).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).unwrap();
    let mut answer = [0];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"N", "encryption is not offered");
    let refused = local.psql("password=guessed", "SELECT 1");
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("password authentication failed"), "{refused:?}");
}

#[test]
fn the_socket_goes_with_the_server_and_only_a_socket_is_replaced() {
    let Local { mut server, folder, path } = Local::start(&[]);
    assert!(path.exists());
    let greeting = server.process.stdout();
    assert!(greeting.contains(&format!("psql -h '{}' -p", folder.path().display())), "{greeting}");
    server.process.signal("TERM");
    let finished = server.finish(PATIENCE);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(!path.exists(), "it is removed at the end");

    let port = path.extension().unwrap().to_str().unwrap().to_owned();
    std::fs::write(&path, "mine").unwrap();
    let refused = |folder: &Path, words: &str| {
        // No other test listens at this address.
        let listen = format!("127.0.0.2:{port}");
        let data = tempfile::tempdir().unwrap();
        let mut command = nyala(&["serve", "--http-listen", "127.0.0.1:0", "--postgres-listen", &listen]);
        let finished =
            try_run(command.arg("--data-dir").arg(data.path()).arg("--postgres-socket").arg(folder));
        assert_eq!(finished.code, Some(1), "{finished:?}");
        assert!(finished.stderr.contains("`server.postgres_socket`"), "{}", finished.stderr);
        assert!(finished.stderr.contains(words), "{words}: {}", finished.stderr);
    };
    refused(folder.path(), "is no socket");
    refused(&folder.path().join("absent"), "make the folder");
    refused(&folder.path().join("long/".repeat(30)), "shorter path");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
}

/// A server with a socket, and a user `ann`.
struct Local {
    server: Server,
    folder: TempDir,
    path: PathBuf,
}

impl Local {
    fn start(variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let user = "CREATE USER ann PASSWORD 'secret'";
        run(nyala(&["sql", "-c", user, "--data-dir"]).arg(&data));
        let socket = [("NYALA_SERVER__POSTGRES_SOCKET", folder.path().to_str().unwrap())];
        let server = Server::start_encrypted(&data, &[&socket, variables].concat());
        let path = folder.path().join(format!(".s.PGSQL.{}", server.postgres.port()));
        Self { server, folder, path }
    }

    fn url(&self) -> String {
        let folder = self.folder.path().to_str().unwrap().replace('/', "%2F");
        format!("postgres://tester@{folder}:{}/nyala", self.server.postgres.port())
    }

    fn psql(&self, how: &str, sql: &str) -> Finished {
        require("psql", "the PostgreSQL client (Debian: postgresql-client)");
        let (folder, port) = (self.folder.path().display(), self.server.postgres.port());
        let place = format!("host={folder} port={port} user=ann dbname=nyala {how}");
        try_run(Command::new("psql").args(["-X", "-A", "-t", "-c", sql, &place]))
    }
}
