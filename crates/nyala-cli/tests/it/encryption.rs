//! TLS on both doors, with psql and curl, and addresses that must not be open to everybody.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::program::{Finished, PATIENCE, Running, eventually, nyala, run, try_run};
use crate::python::require;
use crate::server::{Server, send};

#[test]
fn both_doors_speak_tls_and_nothing_else() {
    let server = Encrypted::start(&[]);
    let verified = format!("sslmode=verify-full sslrootcert={}", server.certificate().display());
    let answer = server.psql(&verified, "SELECT 40 + 2");
    assert_eq!((answer.code, answer.stdout.trim()), (Some(0), "42"), "{answer:?}");
    let answer = server.psql("sslmode=require", "SELECT 1; SELECT repeat('x', 100000)");
    assert_eq!((answer.code, answer.stdout.len()), (Some(0), 100_003), "large answers arrive whole");

    let refused = server.psql("sslmode=disable", "SELECT 1");
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("wants encrypted connections"), "{refused:?}");

    let answer = server.curl(&["--cacert", server.certificate().to_str().unwrap()], "https");
    assert!(answer.stdout.contains("[42]"), "{answer:?}");
    let untrusted = server.curl(&[], "https");
    assert_ne!(untrusted.code, Some(0), "the test's certificate is trusted by nobody: {untrusted:?}");
    let plain = server.curl(&[], "http");
    assert_ne!(plain.code, Some(0), "{plain:?}");
}

#[test]
fn plain_text_is_let_in_only_if_that_was_configured() {
    let server = Encrypted::start(&[("NYALA_SERVER__TLS__ALLOW_PLAINTEXT", "true")]);
    for mode in ["sslmode=disable", "sslmode=require"] {
        let answer = server.psql(mode, "SELECT 1");
        assert_eq!((answer.code, answer.stdout.trim()), (Some(0), "1"), "{mode}: {answer:?}");
    }
}

/// Whoever sits between client and server can put bytes behind the request for encryption. They must not be
/// taken for what the client sent under its protection.
#[test]
fn what_is_sent_before_encryption_begins_is_never_obeyed() {
    let server = Encrypted::start(&[]);
    let request = [0, 0, 0, 8, 4, 210, 22, 47];
    let parameters = b"user\0mallory\0\0";
    let length = (8 + parameters.len()) as u32;
    let start_up = [&length.to_be_bytes()[..], &[0, 3, 0, 0], parameters].concat();
    let received = send(server.server.postgres, &[&request[..], &start_up].concat());
    assert_eq!(received.first(), Some(&b'S'), "{received:?}");
    assert!(!received[1..].starts_with(b"R"), "a session was opened: {received:?}");
    let answer = server.psql("sslmode=require", "SELECT 1");
    assert_eq!(answer.code, Some(0), "the server goes on: {answer:?}");
}

#[test]
fn a_certificate_that_cannot_be_used_keeps_the_server_from_starting() {
    let keys = Keys::make();
    let nothing = keys.folder.path().join("nothing.pem");
    std::fs::write(&nothing, "no certificate").unwrap();
    let check = |certificate: &Path, key: &Path, words: &str| {
        let finished = refused(&[
            ("NYALA_SERVER__TLS__CERTIFICATE", certificate.to_str().unwrap()),
            ("NYALA_SERVER__TLS__KEY", key.to_str().unwrap()),
        ]);
        assert!(finished.stderr.contains(words), "{words}: {}", finished.stderr);
    };
    let none = Path::new("");
    check(&keys.certificate, none, "`server.tls.certificate` is set, but `server.tls.key` is not");
    check(none, &keys.key, "`server.tls.key` is set, but `server.tls.certificate` is not");
    check(&nothing, &keys.key, "holds no certificate");
    check(&keys.certificate, &nothing, "the value of `server.tls.key`, cannot be used");
    check(
        &keys.certificate,
        &keys.folder.path().join("absent"),
        "the value of `server.tls.key`, cannot be used",
    );
    check(&keys.certificate, &Keys::make().key, "certificate and key of `server.tls` cannot be used");
}

#[test]
fn addresses_that_other_machines_reach_need_a_flag() {
    let listen =
        [("NYALA_SERVER__HTTP_LISTEN", "0.0.0.0:0"), ("NYALA_SERVER__POSTGRES_LISTEN", "127.0.0.1:0")];
    let finished = refused(&listen);
    assert!(finished.stderr.contains("`server.http_listen` is `0.0.0.0:0`"), "{}", finished.stderr);
    assert!(finished.stderr.contains("--allow-unauthenticated"), "{}", finished.stderr);
    let folder = tempfile::tempdir().unwrap();
    let mut command = nyala(&["serve", "--allow-unauthenticated"]);
    command.arg("--data-dir").arg(folder.path()).envs(listen);
    let mut process = Running::start(&mut command);
    eventually("greeting", PATIENCE, || {
        assert!(process.is_running(), "{}", process.stderr());
        process.stdout().contains("Ctrl-C")
    });
    assert!(process.stderr().contains("there is no authentication"), "{}", process.stderr());
}

/// A server that must not start.
fn refused(variables: &[(&str, &str)]) -> Finished {
    let folder = tempfile::tempdir().unwrap();
    let mut command = nyala(&["serve", "--data-dir"]);
    command.arg(folder.path()).envs([
        ("NYALA_SERVER__HTTP_LISTEN", "127.0.0.1:0"),
        ("NYALA_SERVER__POSTGRES_LISTEN", "127.0.0.1:0"),
    ]);
    let finished = try_run(command.envs(variables.iter().copied()));
    assert_eq!(finished.code, Some(1), "{variables:?}: {finished:?}");
    finished
}

/// A certificate for `localhost` that signs itself.
pub struct Keys {
    folder: TempDir,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Keys {
    pub fn make() -> Self {
        require("openssl", "OpenSSL (Debian: openssl)");
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("certificate.pem"), folder.path().join("key.pem"));
        let fixed = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
                     -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE";
        let mut command = Command::new("openssl");
        command.args(fixed.split_whitespace()).arg("-keyout").arg(&key).arg("-out").arg(&certificate);
        run(&mut command);
        Self { folder, certificate, key }
    }
}

struct Encrypted {
    keys: Keys,
    server: Server,
    _data: TempDir,
}

impl Encrypted {
    fn start(variables: &[(&str, &str)]) -> Self {
        let (keys, data) = (Keys::make(), tempfile::tempdir().unwrap());
        let files = [
            ("NYALA_SERVER__TLS__CERTIFICATE", keys.certificate.to_str().unwrap()),
            ("NYALA_SERVER__TLS__KEY", keys.key.to_str().unwrap()),
        ];
        let server = Server::start_encrypted(data.path(), &[&files, variables].concat());
        Self { keys, server, _data: data }
    }

    fn certificate(&self) -> &Path {
        &self.keys.certificate
    }

    fn psql(&self, how: &str, sql: &str) -> Finished {
        require("psql", "the PostgreSQL client (Debian: postgresql-client)");
        let place =
            format!("host=localhost port={} user=nyala dbname=nyala {how}", self.server.postgres.port());
        try_run(Command::new("psql").args(["-X", "-A", "-t", "-c", sql, &place]))
    }

    fn curl(&self, how: &[&str], scheme: &str) -> Finished {
        require("curl", "curl");
        let url = format!("{scheme}://localhost:{}/api/v1/query", self.server.http.port());
        let seconds = Duration::from_secs(30).as_secs().to_string();
        let mut command = Command::new("curl");
        command.args(["-s", "-S", "--noproxy", "*", "-m", &seconds, "-H", "content-type: application/json"]);
        try_run(command.args(["-d", r#"{"sql": "SELECT 40 + 2"}"#]).args(how).arg(url))
    }
}
