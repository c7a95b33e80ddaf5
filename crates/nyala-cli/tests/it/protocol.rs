//! The guarantees of both doors' protocols for clients, message by message.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use crate::encryption::Encrypted;
use crate::program::{PATIENCE, eventually, run};
use crate::server::{Server, rows_of, send};

/// A client that speaks in single messages.
struct Client(TcpStream);

impl Client {
    fn connect(server: &Server, settings: &[(&str, &str)]) -> Self {
        let mut body = 196_608_i32.to_be_bytes().to_vec();
        for (name, value) in [("user", "tester")].iter().chain(settings) {
            body.extend_from_slice(format!("{name}\0{value}\0").as_bytes());
        }
        body.push(0);
        let mut socket = TcpStream::connect(server.postgres).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = i32::try_from(body.len() + 4).unwrap();
        socket.write_all(&[&length.to_be_bytes()[..], &body].concat()).unwrap();
        Self(socket)
    }

    fn send(&mut self, kind: u8, body: &[u8]) {
        let length = i32::try_from(body.len() + 4).unwrap();
        self.0.write_all(&[&[kind][..], &length.to_be_bytes(), body].concat()).unwrap();
    }

    /// Type and text of the next message.
    fn next(&mut self) -> (char, String) {
        let mut head = [0; 5];
        self.0.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize - 4;
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        (char::from(head[0]), String::from_utf8_lossy(&body).into_owned())
    }

    /// Sends a text of statements; gives the first message of a type, and waits for the end.
    fn query(&mut self, sql: &str, kind: char) -> String {
        self.send(b'Q', format!("{sql}\0").as_bytes());
        let found = self.until(kind);
        if kind != 'Z' {
            self.until('Z');
        }
        found
    }

    /// The next message of a type; others are passed over.
    fn until(&mut self, kind: char) -> String {
        loop {
            let (found, body) = self.next();
            assert!(found == kind || !matches!(found, 'E' | 'Z'), "{found} and not {kind}: {body}");
            if found == kind {
                return body;
            }
        }
    }
}

/// asyncpg and pipelines of libpq send Sync only when they have seen the error.
#[test]
fn an_error_comes_before_it_is_asked_for() {
    let server = Server::empty(&[]);
    let mut client = Client::connect(&server, &[]);
    client.until('Z');
    client.send(b'P', b"\0SELECT nope\0\0\0");
    client.send(b'D', b"S\0");
    client.send(b'H', b"");
    assert!(client.until('E').contains("nope"));
    client.send(b'S', b"");
    client.until('Z');
    client.send(b'Q', b"SELECT 1\0");
    client.until('D');
}

/// Timeouts and cancels end a statement also while its client does not read; it gets the error when it reads again.
#[test]
fn a_client_that_does_not_read_keeps_no_statement() {
    const UNREAD: &str = "SELECT i, repeat('x', 1000) FROM generate_series(1, 10000000) AS t(i)";
    let running = "SELECT query_id FROM system.queries WHERE starts_with(query, 'SELECT i, repeat')";
    let sending = format!("{running} AND state = 'sending'");
    let server = Server::empty(&[]);
    for timeout in ["0", "2s"] {
        let mut client = Client::connect(&server, &[]);
        client.until('Z');
        client.query(&format!("SET statement_timeout = '{timeout}'"), 'C');
        client.send(b'Q', format!("{UNREAD}\0").as_bytes());
        if timeout == "0" {
            eventually("it waits for its client", PATIENCE, || server.query(&sending).len() == 1);
            server.query(&format!("KILL QUERY {}", server.query(&sending)[0][0]));
        } else {
            eventually("it has begun", PATIENCE, || server.query(running).len() == 1);
        }
        eventually("it has ended", PATIENCE, || server.query(running).is_empty());
        assert!(client.until('E').contains("57014"));
        client.until('Z');
        assert!(client.query("SELECT 7", 'D').contains('7'));
    }
}

/// Portals of an open transaction hold slots, and every connection counts against the limit of connections.
#[test]
fn clients_may_be_silent_as_long_as_their_settings_say() {
    let server = Server::empty(&[]);
    for (setting, begin, code) in [
        ("idle_session_timeout", "SELECT 1", "57P05"),
        ("idle_in_transaction_session_timeout", "BEGIN", "25P03"),
    ] {
        let mut client = Client::connect(&server, &[]);
        client.until('Z');
        client.query(&format!("SET {setting} = '300ms'"), 'C');
        client.query(begin, 'C');
        let told = client.until('E');
        assert!(told.contains(code) && told.contains(setting), "{told}");
        assert_eq!(client.0.read(&mut [0]).unwrap(), 0, "the connection is closed");
        // The timeout within transactions does not end a client outside of one.
        let mut client = Client::connect(&server, &[("idle_in_transaction_session_timeout", "300ms")]);
        client.until('Z');
        std::thread::sleep(Duration::from_millis(600));
        client.query("SELECT 1", 'C');
    }
}

/// In HTTP/1.0 the end of the connection is the end of the answer, and nothing else would tell that it broke off. nginx speaks HTTP/1.0
/// to servers if it is not told otherwise.
#[test]
fn answers_over_http_1_0_are_whole_or_errors() {
    let server = Server::empty(&[]);
    let ask = |rows: u32| {
        let body = format!(
            "{{\"sql\": \"SELECT n, 1 / (200000 - n) AS x FROM generate_series(1, {rows}) AS t(n)\"}}"
        );
        let length = body.len();
        let head = "POST /api/v1/query HTTP/1.0\r\ncontent-type: application/json\r\naccept: text/csv";
        let request = format!("{head}\r\ncontent-length: {length}\r\n\r\n{body}");
        String::from_utf8(send(server.http, request.as_bytes())).unwrap()
    };
    let whole = ask(150_000);
    assert!(whole.starts_with("HTTP/1.0 200") && whole.lines().count() > 150_000, "{}", &whole[..200]);
    let failed = ask(300_000);
    assert!(failed.starts_with("HTTP/1.0 422") && failed.contains("division_by_zero"), "{}", &failed[..200]);
}

/// Drivers know the error by its words, and prepare the statement again.
#[test]
fn a_prepared_statement_whose_columns_became_others_is_refused() {
    let server = Server::empty(&[]);
    server.query("CREATE LIVE TABLE t (id BIGINT PRIMARY KEY, v INT)");
    server.query("INSERT INTO t VALUES (1, 4)");
    let mut client = Client::connect(&server, &[]);
    client.until('Z');
    client.send(b'P', b"s\0SELECT * FROM t WHERE id = $1\0\0\0");
    client.send(b'D', b"Ss\0");
    client.send(b'S', b"");
    client.until('T');
    client.until('Z');
    let run = |client: &mut Client| {
        client.send(b'B', b"\0s\0\0\0\0\x01\0\0\0\x011\0\x01\0\x01");
        client.send(b'E', b"\0\0\0\0\0");
        client.send(b'S', b"");
    };
    run(&mut client);
    client.until('D');
    client.until('Z');
    for change in ["ALTER TABLE t ADD COLUMN w INT", "DROP TABLE t"] {
        server.query(change);
        if change.starts_with("DROP") {
            server.query("CREATE LIVE TABLE t (id BIGINT PRIMARY KEY, v TEXT)");
            server.query("INSERT INTO t VALUES (1, 'four')");
        }
        run(&mut client);
        let told = client.until('E');
        assert!(told.contains("0A000") && told.contains("cached plan must not change result type"), "{told}");
        client.until('Z');
    }
}

/// Connection pools reset connections with these statements, and expect the settings that the client connected with.
#[test]
fn a_connection_is_reset_to_what_it_began_with() {
    let server = Server::empty(&[]);
    let begun = [("search_path", "system"), ("statement_timeout", "5s"), ("application_name", "app")];
    let mut client = Client::connect(&server, &begun);
    client.until('Z');
    for reset in [
        "DISCARD ALL",
        "RESET ALL",
        "SELECT pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *; RESET ALL;",
        "SET SESSION AUTHORIZATION DEFAULT;RESET ALL",
        "RESET SESSION AUTHORIZATION;RESET search_path;RESET statement_timeout;RESET application_name",
    ] {
        client.query(
            "SET search_path = public; SET statement_timeout = 0; SET application_name = 'other'",
            'Z',
        );
        client.query(reset, 'Z');
        for (setting, value) in
            [("search_path", "system"), ("statement_timeout", "5000"), ("application_name", "app")]
        {
            let shown = client.query(&format!("SHOW {setting}"), 'D');
            assert!(shown.ends_with(value), "{reset}: {setting} is {shown}");
        }
    }
    client.query("BEGIN READ ONLY, NOT DEFERRABLE; ABORT", 'Z');
}

/// A transaction block releases its resources as soon as it fails, not only when its client ends it.
#[test]
fn cursors_of_a_failed_block_hold_no_slot() {
    let server = Server::empty(&[]);
    let mut client = Client::connect(&server, &[]);
    client.until('Z');
    client.query("BEGIN", 'C');
    client.query("DECLARE c CURSOR FOR SELECT * FROM generate_series(1, 10000000)", 'C');
    client.query("FETCH 1 FROM c", 'D');
    let running = "SELECT query_id FROM system.queries WHERE starts_with(query, 'SELECT * FROM generate')";
    eventually("it runs", PATIENCE, || !server.query(running).is_empty());
    client.query("SELECT nope", 'E');
    eventually("it has ended", PATIENCE, || server.query(running).is_empty());
}

/// A client may send many messages before it reads the answers.
#[test]
fn answers_to_what_is_asked_ahead_are_not_gathered() {
    let server = Server::empty(&[]);
    let mut client = Client::connect(&server, &[]);
    client.until('Z');
    client.send(b'P', b"s\0SELECT * FROM system.query_log\0\0\0");
    let mut ahead = client.0.try_clone().unwrap();
    let asks = std::thread::spawn(move || {
        let describe: Vec<u8> = b"D\0\0\0\x07Ss\0".repeat(1000);
        // The server stops reading when the client does not read its answers: then so much is not sent in time.
        ahead.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
        (0..2000).all(|_| ahead.write_all(&describe).is_ok())
    });
    assert!(!asks.join().unwrap(), "two million answers were gathered");
    server.check_alive("a client asked and did not read");
}

#[test]
fn a_query_that_is_not_utf8_is_refused_and_the_next_one_answered() {
    let server = Server::empty(&[]);
    let mut client = Client::connect(&server, &[]);
    client.until('Z');
    client.send(b'Q', b"SELECT '\xff'\0");
    assert!(client.until('E').contains("22021"));
    client.until('Z');
    client.send(b'Q', b"SELECT 1\0");
    client.until('D');
}

/// psql asks for `SQL_ASCII` where no locale is set.
#[test]
fn clients_without_an_encoding_are_let_in() {
    let server = Server::empty(&[]);
    for (encoding, reported) in [("SQL_ASCII", "SQL_ASCII"), ("WIN1252", "UTF8"), ("utf8", "UTF8")] {
        let mut client = Client::connect(&server, &[("client_encoding", encoding)]);
        let mut told = String::new();
        loop {
            match client.next() {
                ('S', body) if body.starts_with("client_encoding") => told = body,
                ('E', body) => panic!("{encoding}: {body}"),
                ('Z', _) => break,
                _ => {}
            }
        }
        assert_eq!(told, format!("client_encoding\0{reported}\0"));
    }
}

#[test]
fn a_transaction_that_only_reads_writes_nothing() {
    let server = Server::empty(&[]);
    server.query("CREATE LIVE TABLE t (id BIGINT PRIMARY KEY)");
    let mut client = Client::connect(&server, &[]);
    client.until('Z');
    for sql in
        ["INSERT INTO t VALUES (1)", "CREATE LIVE TABLE u (id BIGINT PRIMARY KEY)", "COPY t FROM STDIN"]
    {
        client.send(b'Q', b"BEGIN READ ONLY\0");
        client.until('Z');
        client.send(b'Q', format!("{sql}\0").as_bytes());
        assert!(client.until('E').contains("25006"), "{sql}");
        client.until('Z');
        client.send(b'Q', b"ROLLBACK\0");
        client.until('Z');
    }
    client.send(b'Q', b"SET default_transaction_read_only = on; SELECT count(*) FROM t\0");
    assert!(client.until('D').ends_with('0'));
    client.until('Z');
    client.send(b'Q', b"DELETE FROM t\0");
    assert!(client.until('E').contains("25006"));
    client.until('Z');
    client.send(b'Q', b"RESET default_transaction_read_only; INSERT INTO t VALUES (1)\0");
    client.until('Z');
    assert_eq!(server.query("SELECT count(*) FROM t"), [["1"]]);
}

/// JDBC adds the offset of the client's clock to each time.
#[test]
fn an_offset_says_nothing_where_a_time_has_no_zone() {
    let server = Server::empty(&[]);
    server.query("CREATE LIVE TABLE t (at TIMESTAMP PRIMARY KEY)");
    server.query("INSERT INTO t VALUES (TIMESTAMP '2024-01-01 00:00:00')");
    let mut client = Client::connect(&server, &[]);
    client.until('Z');
    for time in ["2024-01-01 00:00:00+05:30", "2024-01-01 00:00:00Z", "2024-01-01 00:00:00"] {
        client.send(b'P', b"\0SELECT count(*) FROM t WHERE at = $1\0\0\0");
        let length = u32::try_from(time.len()).unwrap().to_be_bytes();
        client.send(b'B', &[&b"\0\0\0\0\0\x01"[..], &length, time.as_bytes(), b"\0\0"].concat());
        client.send(b'E', b"\0\0\0\0\0");
        client.send(b'S', b"");
        assert!(client.until('D').ends_with('1'), "{time}");
        client.until('Z');
    }
}

#[test]
fn numbers_with_fractions_are_compared_as_such() {
    let server = Server::empty(&[]);
    server.query("CREATE LIVE TABLE t (qty INT PRIMARY KEY, price DECIMAL(10,2), day DATE)");
    server.query("INSERT INTO t VALUES (1, 12.34, DATE '2024-01-01'), (2, 12.35, DATE '2024-01-02')");
    let count = |condition: &str, value: &str| {
        let sql = format!("SELECT count(*) FROM t WHERE {condition}");
        let response = server.post(&format!("{{\"sql\":\"{sql}\",\"parameters\":[{value}]}}"));
        assert_eq!(response.status, 200, "{condition} {value}: {}", response.body);
        rows_of(&serde_json::from_str(&response.body).unwrap())[0][0].clone()
    };
    assert_eq!(count("qty < $1", "1.5"), "1");
    assert_eq!(count("qty < $1", "2"), "1");
    assert_eq!(count("qty = $1", "1.5"), "0");
    assert_eq!(count("qty < $1", "3000000000"), "2");
    assert_eq!(count("price <= $1", "12.345"), "1");
    assert_eq!(count("price = $1", "12.35"), "1");
    let refused = server.post("{\"sql\":\"SELECT $1 + 1\",\"parameters\":[41.5]}");
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert!(refused.body.contains("CAST($1 AS DOUBLE)"), "{}", refused.body);
}

/// TLS takes more bytes than the socket has room for; the rest must be sent later.
#[test]
fn a_slow_client_gets_the_end_of_a_large_answer_over_tls() {
    let server = Encrypted::start(&[]);
    let script = r#"
import socket, ssl, struct, sys, time
raw = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
raw.sendall(struct.pack("!ii", 8, 80877103))
assert raw.recv(1) == b"S"
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
tls = context.wrap_socket(raw)
tls.settimeout(60)
body = struct.pack("!i", 196608) + b"user\0tester\0\0"
tls.sendall(struct.pack("!i", len(body) + 4) + body)
query = b"SELECT repeat('x', 1000) FROM generate_series(1, 20000)\0"
tls.sendall(b"Q" + struct.pack("!i", len(query) + 4) + query)
time.sleep(1)
buffer, ends, rows = b"", 0, 0
while ends < 2:
    while len(buffer) < 5 or len(buffer) < 1 + struct.unpack("!i", buffer[1:5])[0]:
        part = tls.recv(1 << 16)
        assert part
        buffer += part
        if len(buffer) < 1 << 20:
            time.sleep(0.001)
    length = 1 + struct.unpack("!i", buffer[1:5])[0]
    kind, buffer = buffer[:1], buffer[length:]
    ends, rows = ends + (kind == b"Z"), rows + (kind == b"D")
print(rows)
"#;
    let port = server.port().to_string();
    assert_eq!(run(Command::new("python3").args(["-c", script, &port])), "20000\n");
}

/// Silent connections are closed, because each counts against the limit for all.
#[test]
fn who_says_nothing_over_http_is_not_kept() {
    let server = Server::empty(&[]);
    let mut silent = TcpStream::connect(server.http).unwrap();
    let mut hesitant = TcpStream::connect(server.http).unwrap();
    hesitant.write_all(b"P").unwrap();
    for socket in [&mut silent, &mut hesitant] {
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        match socket.read(&mut [0; 100]) {
            Ok(0) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            other => panic!("{other:?}"),
        }
    }
    server.check_alive("silent clients");
}

/// With DNS rebinding a page asks its own site, as far as the browser knows, but its name points to this machine.
#[test]
fn names_that_others_can_point_here_are_not_answered() {
    let server = Server::empty(&[]);
    for (host, status) in [("localhost:8090", "200"), ("127.0.0.1", "200"), ("evil.example:8090", "403")] {
        for path in ["/api/v1/queries", "/metrics", "/debug/tasks"] {
            let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
            let answer = String::from_utf8_lossy(&send(server.http, request.as_bytes())).into_owned();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{host} {path}: {answer}");
        }
    }
}

/// A read-only transaction may still end queries and jobs that run for too long.
#[test]
fn queries_and_jobs_are_ended_from_where_nothing_is_written() {
    let server = Server::empty(&[]);
    let mut client = Client::connect(&server, &[]);
    client.until('Z');
    for sql in ["KILL QUERY 987654321", "CANCEL JOB 987654321"] {
        client.query("BEGIN READ ONLY", 'Z');
        let error = client.query(sql, 'E');
        assert!(error.contains("987654321") && !error.contains("25006"), "{sql}: {error}");
        client.query("ROLLBACK", 'Z');
    }
}

#[test]
fn names_of_prepared_statements_keep_their_case_in_quotes() {
    let server = Server::empty(&[]);
    let mut client = Client::connect(&server, &[]);
    client.until('Z');
    client.query("PREPARE \"Name\" AS SELECT 'mixed'", 'Z');
    client.query("PREPARE Name AS SELECT 'lower'", 'Z');
    assert!(client.query("EXECUTE \"Name\"", 'D').ends_with("mixed"));
    assert!(client.query("EXECUTE NAME", 'D').ends_with("lower"));
    client.query("DEALLOCATE \"Name\"", 'Z');
    assert!(client.query("EXECUTE \"Name\"", 'E').contains("26000"));
    assert!(client.query("EXECUTE \"name\"", 'D').ends_with("lower"));
}

#[test]
fn a_rollback_closes_cursors_of_its_own_transaction_only() {
    let server = Server::empty(&[]);
    let mut client = Client::connect(&server, &[]);
    client.until('Z');
    client.query("BEGIN; DECLARE kept CURSOR WITH HOLD FOR SELECT 'a' UNION ALL SELECT 'a'; COMMIT", 'Z');
    client.query("DECLARE alone CURSOR WITH HOLD FOR SELECT 'b'", 'Z');
    client.query("BEGIN", 'Z');
    client.query("DECLARE gone CURSOR WITH HOLD FOR SELECT 'c'", 'Z');
    assert!(client.query("FETCH 1 FROM kept", 'D').ends_with('a'));
    client.query("ROLLBACK", 'Z');
    assert!(client.query("FETCH 1 FROM gone", 'E').contains("34000"));
    client.query("ROLLBACK", 'Z');
    assert!(client.query("FETCH 1 FROM kept", 'D').ends_with('a'));
    assert!(client.query("FETCH 1 FROM alone", 'D').ends_with('b'));
}

#[test]
fn statements_of_one_text_see_what_those_before_have_set() {
    let server = Server::empty(&[]);
    server.query("CREATE SCHEMA sales");
    let mut client = Client::connect(&server, &[]);
    client.until('Z');
    assert!(client.query("SET search_path TO sales; SELECT current_schema()", 'D').ends_with("sales"));
    let named = "SET application_name = 'later'; SELECT current_setting('application_name')";
    assert!(client.query(named, 'D').ends_with("later"));
    let back = "SET search_path TO public; SELECT current_schema(), 1; SET search_path TO sales";
    assert!(client.query(back, 'D').contains("public"));
}
