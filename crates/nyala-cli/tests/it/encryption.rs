//! TLS on both doors, with psql and curl, and addresses that must not be open without authentication.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

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

/// Certbot and cert-manager replace the files without a signal to the server.
#[test]
fn renewed_files_are_taken_without_a_restart() {
    let (server, renewed, folder) = (Encrypted::start(&[]), Keys::make(), tempfile::tempdir().unwrap());
    let first = folder.path().join("first.pem");
    std::fs::copy(server.certificate(), &first).unwrap();
    let is_trusted_by =
        |authority: &Path| server.curl(&["--cacert", authority.to_str().unwrap()], "https").code == Some(0);
    assert!(is_trusted_by(&first) && !is_trusted_by(&renewed.certificate));
    std::fs::copy(&renewed.certificate, server.certificate()).unwrap();
    std::fs::copy(&renewed.key, &server.keys.key).unwrap();
    eventually("the renewed certificate", PATIENCE, || is_trusted_by(&renewed.certificate));
    assert!(!is_trusted_by(&first));
    let psql = format!("sslmode=verify-full sslrootcert={}", renewed.certificate.display());
    assert_eq!(server.psql(&psql, "SELECT 1").code, Some(0), "the other door");

    // A certificate that cannot be used is logged, and the server goes on with the one that it has.
    std::fs::write(server.certificate(), "no certificate").unwrap();
    let is_told = || server.server.process.stderr().contains("the renewed certificate is not taken");
    eventually("a line of the log", PATIENCE, is_told);
    assert!(is_trusted_by(&renewed.certificate));
    // A key that cannot be read is logged, too, such as one that a renewal leaves to root.
    std::fs::copy(&renewed.certificate, server.certificate()).unwrap();
    std::fs::remove_file(&server.keys.key).unwrap();
    let names_key =
        || server.server.process.stderr().contains("the value of `server.tls.key`, cannot be used");
    eventually("a line of the log that names the key", PATIENCE, names_key);
    assert!(is_trusted_by(&renewed.certificate));
}

/// Metrics show a renewal that fails before clients refuse the server.
#[test]
fn metrics_tell_when_the_certificate_ends() {
    const DAY: f64 = 86_400.0;
    let server = Encrypted::start(&[]);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
    let metric = |authority: &Path, name: &str| {
        let page = server.metrics(authority);
        page.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok())
    };
    let (not_before, not_after) =
        ("nyala_tls_certificate_not_before_seconds ", "nyala_tls_certificate_not_after_seconds ");
    let [from, until] = [not_before, not_after].map(|name| metric(server.certificate(), name).unwrap());
    assert!(from <= now && until > now + DAY && until <= now + 2.0 * DAY, "{from} {now} {until}");

    let renewed = Keys::of_days(9);
    std::fs::copy(&renewed.certificate, server.certificate()).unwrap();
    std::fs::copy(&renewed.key, &server.keys.key).unwrap();
    eventually("the end of the renewed certificate", PATIENCE, || {
        metric(&renewed.certificate, not_after).is_some_and(|until| until > now + 8.0 * DAY)
    });
}

#[test]
fn plain_text_is_let_in_only_if_that_was_configured() {
    let server = Encrypted::start(&[("NYALA_SERVER__TLS__ALLOW_PLAINTEXT", "true")]);
    for mode in ["sslmode=disable", "sslmode=require"] {
        let answer = server.psql(mode, "SELECT 1");
        assert_eq!((answer.code, answer.stdout.trim()), (Some(0), "1"), "{mode}: {answer:?}");
    }
}

#[test]
fn nyala_sql_asks_for_encryption_in_the_words_of_psql() {
    let server = Encrypted::start(&[]);
    let port = server.server.postgres.port();
    let (own, other) = (server.certificate().display().to_string(), Keys::make());
    let other = other.certificate.display().to_string();
    let check = |host: &str, query: &str, more: &[&str], expected: Result<&str, &str>| {
        let url = format!("postgres://tester@{host}:{port}/nyala?{query}");
        let statement = ["sql", "--format", "csv", "-c", "SELECT 40 + 2 AS a", "--url", &url];
        let finished = try_run(&mut nyala(&[&statement, more].concat()));
        match expected {
            Ok(answer) => {
                assert_eq!((finished.code, finished.stdout.as_str()), (Some(0), answer), "{finished:?}")
            }
            Err(words) => {
                assert_eq!(finished.code, Some(1), "{query}: {finished:?}");
                assert!(finished.stderr.contains(words), "{query}: {words}: {}", finished.stderr);
            }
        }
    };
    let answer = Ok("a\n42\n");
    check("localhost", "sslmode=disable", &[], Err("wants encrypted connections"));
    check("localhost", "", &[], answer);
    check("localhost", "sslmode=require", &[], answer);
    // Clients trust the test's certificate only if it is named.
    check("localhost", "sslmode=verify-full", &[], Err("--ca"));
    check("localhost", "sslmode=verify-ca", &[], Err("--ca"));
    check("localhost", "", &["--ca", &own], answer);
    check("127.0.0.1", &format!("sslmode=verify-full&sslrootcert={own}"), &[], answer);
    check(
        "localhost",
        &format!("sslmode=verify-full&sslrootcert={other}"),
        &[],
        Err("invalid peer certificate"),
    );
    check(
        "localhost",
        &format!("sslmode=verify-ca&sslrootcert={other}"),
        &[],
        Err("invalid peer certificate"),
    );
    check("localhost", &format!("sslmode=require&sslrootcert={other}"), &[], Err("invalid peer certificate"));
    check("localhost", "sslmode=verify-full", &["--ca", "/absent.pem"], Err("`/absent.pem`"));
    // The certificate is for another name.
    let elsewhere = format!("hostaddr=127.0.0.1&sslrootcert={own}&sslmode=");
    check("db.example", &format!("{elsewhere}verify-full"), &[], Err("db.example"));
    check("db.example", &format!("{elsewhere}verify-ca"), &[], answer);
}

#[test]
fn a_server_without_a_certificate_is_refused_where_encryption_is_asked_for() {
    let server = Server::empty(&[]);
    let check = |mode: &str, code: i32, words: &str| {
        let url = format!("{}?sslmode={mode}", server.url());
        let finished = try_run(&mut nyala(&["sql", "-c", "SELECT 40 + 2", "--url", &url]));
        assert_eq!(finished.code, Some(code), "{mode}: {finished:?}");
        assert!(finished.stdout.contains(words) || finished.stderr.contains(words), "{mode}: {finished:?}");
    };
    check("prefer", 0, "42");
    check("require", 1, "server does not support TLS");
}

/// Ctrl-C goes to the server on a connection of its own, which has to be encrypted too.
#[test]
fn ctrl_c_cancels_over_an_encrypted_connection() {
    let server = Encrypted::start(&[]);
    let url = format!("postgres://tester@localhost:{}/nyala", server.server.postgres.port());
    let endless = "SELECT count(*) FROM generate_series(1, 100000) a(n), generate_series(1, 10000000) b(m) WHERE n <> m";
    let mut command = nyala(&["sql", "--url", &url, "-c", endless, "--ca"]);
    let mut client = Running::start(command.arg(server.certificate()));
    eventually("it runs", PATIENCE, || {
        server
            .psql("sslmode=require", "SELECT count(*) FROM system.queries WHERE application = 'nyala sql'")
            .stdout
            .trim()
            == "1"
    });
    client.signal("INT");
    let finished = client.finish(PATIENCE);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.stderr.contains("cancel"), "{finished:?}");
}

#[test]
fn nyala_bench_measures_encrypted_servers() {
    let server = Encrypted::start(&[]);
    let (postgres, http) = (server.server.postgres.port(), server.server.http.port());
    let file = server.keys.folder.path().join("q.sql");
    std::fs::write(&file, "SELECT {{n: 1..9}} AS n").unwrap();
    let check = |url: &str, more: &[&str], words: Result<&str, &str>| {
        let short =
            ["--clients", "2", "--duration", "300ms", "--warmup", "0s", "--ceiling", "0s", "--url", url];
        let finished = try_run(nyala(&["bench"]).arg(&file).args(short).args(more));
        let (code, words) = words.map_or_else(|words| (1, words), |words| (0, words));
        assert_eq!(finished.code, Some(code), "{url}: {finished:?}");
        assert!(finished.stdout.contains(words) || finished.stderr.contains(words), "{url}: {finished:?}");
    };
    let own = server.certificate().to_str().unwrap();
    let secure = format!("https://localhost:{http}");
    check(&secure, &["--ca", own], Ok("p99"));
    check(&secure, &[], Err("cannot connect"));
    check(&format!("http://localhost:{http}"), &[], Err("query `q` fails"));
    let wire = format!("postgres://localhost:{postgres}/nyala");
    check(&format!("{wire}?sslmode=require"), &["--mode", "prepared"], Ok("p99"));
    check(&wire, &["--ca", own], Ok("p99"));
    check(&wire, &[], Err("wants encrypted connections"));
}

/// An attacker between client and server can put bytes behind the request for encryption. They must not be
/// taken for bytes that the client sent encrypted.
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
    for (variable, key) in [
        ("NYALA_SERVER__FLIGHT_LISTEN", "server.flight_listen"),
        ("NYALA_SERVER__KYLIN_LISTEN", "server.kylin_listen"),
    ] {
        let finished = refused(&[(variable, "0.0.0.0:0")]);
        assert!(finished.stderr.contains(&format!("`{key}` is `0.0.0.0:0`")), "{}", finished.stderr);
    }
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
        Self::of_days(2)
    }

    fn of_days(days: u32) -> Self {
        require("openssl", "OpenSSL (Debian: openssl)");
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("certificate.pem"), folder.path().join("key.pem"));
        let fixed = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost \
                     -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE";
        let mut command = Command::new("openssl");
        command
            .args(fixed.split_whitespace())
            .args(["-days", &days.to_string()])
            .arg("-keyout")
            .arg(&key)
            .arg("-out")
            .arg(&certificate);
        run(&mut command);
        Self { folder, certificate, key }
    }
}

pub(crate) struct Encrypted {
    keys: Keys,
    server: Server,
    _data: TempDir,
}

impl Encrypted {
    pub(crate) fn start(variables: &[(&str, &str)]) -> Self {
        let (keys, data) = (Keys::make(), tempfile::tempdir().unwrap());
        let files = [
            ("NYALA_SERVER__TLS__CERTIFICATE", keys.certificate.to_str().unwrap()),
            ("NYALA_SERVER__TLS__KEY", keys.key.to_str().unwrap()),
        ];
        let server = Server::start_encrypted(data.path(), &[&files, variables].concat());
        Self { keys, server, _data: data }
    }

    pub(crate) fn port(&self) -> u16 {
        self.server.postgres.port()
    }

    pub(crate) fn http(&self) -> SocketAddr {
        self.server.http
    }

    pub(crate) fn certificate(&self) -> &Path {
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

    /// The page of metrics; empty for a client that does not trust the server.
    fn metrics(&self, authority: &Path) -> String {
        require("curl", "curl");
        let mut command = Command::new("curl");
        command.args(["-s", "--noproxy", "*", "-m", "30", "--cacert"]).arg(authority);
        try_run(command.arg(format!("https://localhost:{}/metrics", self.server.http.port()))).stdout
    }
}
