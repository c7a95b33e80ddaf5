//! Connections without a login, and clients that connect beside them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;

use crate::encryption::Keys;
use crate::program::{PATIENCE, eventually, nyala, run, try_run};
use crate::python::require;
use crate::server::{Server, send};

/// Bytes that a client may have sent before it fell silent.
const POSTGRES: [&[u8]; 6] = [
    b"",
    b"\0\0\0",
    // A start-up message that goes on, one that asks for a password, and requests for encryption.
    b"\0\0\0\x29\0\x03\0\0user\0to",
    b"\0\0\0\x10\0\x03\0\0user\0x\0\0",
    b"\0\0\0\x08\x04\xd2\x16\x2f",
    b"\0\0\0\x08\x04\xd2\x16\x30",
];
const HTTP: [&[u8]; 5] = [
    b"",
    b"GET /api",
    b"GET /api/v1/ HTTP/1.1\r\nhost: x\r\nx-long: ",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
    b"POST /api/v1/query HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{",
];
/// The beginning of a TLS handshake, for either door.
const TLS: &[u8] = b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03";

const USER: &str = "CREATE USER ann SUPERUSER PASSWORD 'secret'";

#[test]
fn sockets_on_which_nobody_logs_in_keep_nobody_out() {
    let server = Guarded::start(&[
        ("NYALA_SERVER__MAX_CONNECTIONS", "10"),
        ("NYALA_SERVER__MAX_PENDING_CONNECTIONS", "100"),
        ("NYALA_SERVER__MAX_PENDING_PER_ADDRESS", "40"),
        ("NYALA_SERVER__LOGIN_TIMEOUT_MS", "600000"),
    ]);
    let before = server.descriptors();
    let mut held = Vec::new();
    for number in 0..2000 {
        held.extend(half_open(server.server.postgres, POSTGRES[number % POSTGRES.len()]));
        if number % 4 == 0 {
            held.extend(half_open(server.server.http, HTTP[number / 4 % HTTP.len()]));
        }
        if number % 500 == 499 {
            server.check_logins();
        }
    }
    assert!(held.len() > 2000, "{} sockets", held.len());
    let open = server.descriptors();
    // Each door holds as many connections at most, besides those that are being closed.
    assert!(
        open <= before + 2 * (40 + 64),
        "{before} descriptors before, {open} beside {} sockets",
        held.len()
    );
    server.check_logins();
    let metrics = server.metrics();
    for line in [
        "nyala_pending_connections{door=\"postgres\"}",
        "nyala_pending_connections{door=\"http\"}",
        "nyala_pending_closed_total{door=\"postgres\",reason=\"evicted\"}",
        "nyala_pending_closed_total{door=\"http\",reason=\"evicted\"}",
    ] {
        assert!(value_of(&metrics, line) > 0.0, "{line}\n{metrics}");
    }
    drop(held);
    eventually("they are forgotten", PATIENCE, || {
        value_of(&server.metrics(), "nyala_pending_connections{door=\"postgres\"}") == 0.0
    });
}

#[test]
fn sockets_that_stop_in_the_middle_of_encryption_keep_nobody_out() {
    let keys = Keys::make();
    let server = Guarded::start(&[
        ("NYALA_SERVER__TLS__CERTIFICATE", keys.certificate.to_str().unwrap()),
        ("NYALA_SERVER__TLS__KEY", keys.key.to_str().unwrap()),
        ("NYALA_SERVER__MAX_CONNECTIONS", "5"),
        ("NYALA_SERVER__MAX_PENDING_PER_ADDRESS", "20"),
        ("NYALA_SERVER__LOGIN_TIMEOUT_MS", "600000"),
    ]);
    let before = server.descriptors();
    let encrypted = [b"\0\0\0\x08\x04\xd2\x16\x2f", TLS].concat();
    let held: Vec<_> = (0..300)
        .flat_map(|_| [(server.server.postgres, encrypted.as_slice()), (server.server.http, TLS)])
        .filter_map(|(door, said)| half_open(door, said))
        .collect();
    let answer = server.psql("sslmode=require", "SELECT 40 + 2");
    assert_eq!((answer.code, answer.stdout.trim()), (Some(0), "42"), "{answer:?}");
    require("curl", "curl");
    let url = format!("https://localhost:{}/api/v1/", server.server.http.port());
    let mut command = Command::new("curl");
    command.args(["-s", "-S", "--noproxy", "*", "-m", "30", "-u", "ann:secret", "--cacert"]);
    let index = run(command.arg(&keys.certificate).arg(url));
    assert!(index.contains("\"name\":\"nyala\""), "{index}");
    assert!(server.descriptors() <= before + 2 * (20 + 64), "{} descriptors", server.descriptors());
    drop(held);
}

#[test]
fn sockets_of_the_same_machine_are_bounded_too() {
    let server = Guarded::start(&[
        ("NYALA_SERVER__MAX_CONNECTIONS", "5"),
        ("NYALA_SERVER__MAX_PENDING_PER_ADDRESS", "20"),
        ("NYALA_SERVER__LOGIN_TIMEOUT_MS", "600000"),
    ]);
    let path = server.socket.join(format!(".s.PGSQL.{}", server.server.postgres.port()));
    let held: Vec<_> = (0..300_usize)
        .map(|number| {
            let mut socket = UnixStream::connect(&path).unwrap();
            // The server may have closed the socket by now.
            let _ = socket.write_all(POSTGRES[number % POSTGRES.len()]);
            socket
        })
        .collect();
    let place = format!("host={} user=ann password=secret dbname=nyala", server.socket.display());
    let port = server.server.postgres.port().to_string();
    let answer =
        try_run(Command::new("psql").args(["-X", "-A", "-t", "-p", &port, "-c", "SELECT 42", &place]));
    assert_eq!((answer.code, answer.stdout.trim()), (Some(0), "42"), "{answer:?}");
    drop(held);
}

/// Only a successful login takes a connection slot; a wrong password does not.
#[test]
fn a_place_is_taken_by_a_login_that_succeeded_and_by_nothing_else() {
    let server = Guarded::start(&[("NYALA_SERVER__MAX_CONNECTIONS", "1")]);
    let (postgres, http) = (server.server.postgres, server.server.http);
    let held: Vec<_> = POSTGRES.iter().filter_map(|said| half_open(postgres, said)).collect();
    let mut first = psql_session(&server);
    let refused = server.psql("", "SELECT 1");
    assert!(refused.stderr.contains("all 1 connections are taken"), "{refused:?}");
    let wrong = server.psql("password=wrong", "SELECT 1");
    assert!(
        wrong.stderr.contains("password authentication failed"),
        "places are told to clients only: {wrong:?}"
    );
    first.kill().unwrap();
    first.wait().unwrap();
    eventually("it is free again", PATIENCE, || server.psql("", "SELECT 1").code == Some(0));
    drop(held);

    // A request that is refused leaves the place to others, and its connection is closed.
    let unknown = b"GET /api/v1/ HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n";
    let answer = String::from_utf8_lossy(&send(http, unknown)).into_owned();
    assert!(answer.starts_with("HTTP/1.1 401") && answer.contains("connection: close"), "{answer}");
    let answer = String::from_utf8_lossy(&send(http, b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"))
        .into_owned();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("connection: close"), "{answer}");

    let known = b"GET /api/v1/ HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Basic YW5uOnNlY3JldA==\r\n\r\n";
    let mut open = TcpStream::connect(http).unwrap();
    open.set_read_timeout(Some(PATIENCE)).unwrap();
    for _ in 0..3 {
        open.write_all(known).unwrap();
        let answer = read_answer(&mut open);
        assert!(answer.starts_with("HTTP/1.1 200") && !answer.contains("connection: close"), "{answer}");
    }
    let answer = String::from_utf8_lossy(&send(http, known)).into_owned();
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("too_many_connections"), "{answer}");
    assert!(answer.contains("retry-after: 1"), "{answer}");
    assert!(
        String::from_utf8_lossy(&send(http, unknown)).starts_with("HTTP/1.1 401"),
        "whether there are places is told to clients only"
    );
    drop(open);
    eventually("it is free again", PATIENCE, || send(http, &closing(known)).starts_with(b"HTTP/1.1 200"));
}

#[test]
fn whoever_does_not_log_in_is_sent_away() {
    let server = Guarded::start(&[("NYALA_SERVER__LOGIN_TIMEOUT_MS", "3000")]);
    let (postgres, http) = (server.server.postgres, server.server.http);
    let said = POSTGRES.map(|said| (postgres, said)).into_iter().chain(HTTP.map(|said| (http, said)));
    let held: Vec<_> = said.map(|(door, said)| (half_open(door, said).unwrap(), said)).collect();
    for (mut socket, said) in held {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut rest = Vec::new();
        let waited = |error: std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
        assert!(!socket.read_to_end(&mut rest).is_err_and(waited), "{said:?} is still open");
    }
    server.check_logins();
    let metrics = server.metrics();
    let closed = value_of(&metrics, "nyala_pending_closed_total{door=\"postgres\",reason=\"timeout\"}");
    assert!(closed >= POSTGRES.len() as f64, "{metrics}");
}

/// Connection pools open their connections at once.
#[test]
fn many_clients_that_come_at_once_all_get_in() {
    let server = Guarded::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("q.sql");
    std::fs::write(&file, "SELECT 1").unwrap();
    let url = format!("postgres://ann:secret@{}/nyala", server.server.postgres);
    let mut bench =
        nyala(&["bench", "--clients", "150", "--duration", "300ms", "--warmup", "0s", "--ceiling", "0s"]);
    let report = run(bench.arg(&file).args(["--url", &url]));
    assert!(report.contains("p99"), "{report}");
}

#[test]
fn bounds_that_let_nobody_in_are_refused() {
    for (key, value, rule) in [
        ("MAX_PENDING_CONNECTIONS", "0", "`server.max_pending_connections` must be at least 1"),
        ("MAX_PENDING_PER_ADDRESS", "0", "`server.max_pending_per_address` must be at least 1"),
        ("LOGIN_TIMEOUT_MS", "0", "`server.login_timeout_ms` must be between 100 and 600000"),
        ("LOGIN_TIMEOUT_MS", "600001", "`server.login_timeout_ms` must be between 100 and 600000"),
    ] {
        let refused = try_run(nyala(&["serve"]).env(format!("NYALA_SERVER__{key}"), value));
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.stderr.contains(rule), "{refused:?}");
    }
}

/// A server with passwords, a Unix socket, and the superuser `ann`.
struct Guarded {
    server: Server,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Guarded {
    fn start(variables: &[(&str, &str)]) -> Self {
        require("psql", "the PostgreSQL client (Debian: postgresql-client)");
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        run(nyala(&["sql", "-c", USER, "--data-dir"]).arg(&data));
        let socket = folder.path().to_owned();
        let fixed = [
            ("NYALA_SERVER__AUTHENTICATION", "password"),
            ("NYALA_SERVER__POSTGRES_SOCKET", socket.to_str().unwrap()),
        ];
        let server = Server::start_encrypted(&data, &[&fixed, variables].concat());
        Self { server, socket, _folder: folder }
    }

    /// Logs in at both doors; each login waits for ten seconds at most.
    fn check_logins(&self) {
        let answer = self.psql("", "SELECT current_user");
        assert_eq!((answer.code, answer.stdout.trim()), (Some(0), "ann"), "{answer:?}");
        let request = b"GET /api/v1/ HTTP/1.0\r\nauthorization: Basic YW5uOnNlY3JldA==\r\n\r\n";
        let answer = String::from_utf8_lossy(&send(self.server.http, request)).into_owned();
        assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    }

    fn psql(&self, how: &str, sql: &str) -> crate::program::Finished {
        try_run(Command::new("psql").args(["-X", "-A", "-t", "-c", sql, &self.place(how)]))
    }

    fn place(&self, how: &str) -> String {
        let port = self.server.postgres.port();
        format!("host=localhost port={port} user=ann dbname=nyala connect_timeout=10 password=secret {how}")
    }

    fn metrics(&self) -> String {
        let request = b"GET /metrics HTTP/1.0\r\nauthorization: Basic YW5uOnNlY3JldA==\r\n\r\n";
        String::from_utf8_lossy(&send(self.server.http, request)).into_owned()
    }

    fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.server.process.id())).unwrap().count()
    }
}

/// A session of psql that goes on, because psql waits for its input.
fn psql_session(server: &Guarded) -> std::process::Child {
    let mut command = Command::new("psql");
    command.args(["-X", "-q", "-A", "-t", "-f", "-", &server.place("")]);
    let (input, output) = (std::process::Stdio::piped(), std::process::Stdio::piped());
    let mut session = command.stdin(input).stdout(output).spawn().unwrap();
    session.stdin.as_mut().unwrap().write_all(b"SELECT 'here';\n").unwrap();
    let mut answer = [0; 4];
    session.stdout.as_mut().unwrap().read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"here");
    session
}

/// A socket on which only these bytes are sent. The server may close it while they are sent.
fn half_open(door: SocketAddr, said: &[u8]) -> Option<TcpStream> {
    let mut socket = TcpStream::connect(door).ok()?;
    let _ = socket.write_all(said);
    Some(socket)
}

/// One answer of a connection that stays open.
fn read_answer(socket: &mut TcpStream) -> String {
    let mut chunk = [0; 65536];
    let mut read = String::new();
    loop {
        if let Some((head, body)) = read.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if body.len() >= length.parse().unwrap() {
                return read;
            }
        }
        let length = socket.read(&mut chunk).unwrap();
        assert!(length > 0, "closed after {read}");
        read.push_str(std::str::from_utf8(&chunk[..length]).unwrap());
    }
}

/// The request, as the last one of its connection.
fn closing(request: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(request)
        .replace("host: 127.0.0.1", "host: 127.0.0.1\r\nconnection: close")
        .into_bytes()
}

fn value_of(metrics: &str, name: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.parse().ok()).unwrap_or_default()
}
