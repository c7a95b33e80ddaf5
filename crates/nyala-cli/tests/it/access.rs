//! Passwords, tokens and the audit log, as clients meet them.

use std::process::Command;

use serde_json::{Value, json};

use crate::encryption::Keys;
use crate::program::{Finished, PATIENCE, nyala, run, try_run};
use crate::python::{require, script};
use crate::server::{Server, send};
use crate::star::Star;

const PASSWORDS: (&str, &str) = ("NYALA_SERVER__AUTHENTICATION", "password");

/// Roles that the owner of the data folder creates. `ann` reads two tables as one of the readers, `bob` none.
const ROLES: &str = "
    CREATE USER root SUPERUSER PASSWORD 'r''oot';
    CREATE USER ann PASSWORD 'secret';
    CREATE USER bob PASSWORD 'bob';
    CREATE ROLE readers;
    CREATE ROLE nobody PASSWORD 'n';
    CREATE USER unset;
    GRANT SELECT ON lineorder, dates TO readers;
    GRANT readers TO ann;
";

#[test]
fn a_password_opens_the_postgresql_door() {
    let (_star, server) = start();
    let check = |user: &str, password: &str, expected: Result<&str, &str>| {
        let finished = psql(&server, user, password, "SELECT current_user");
        match expected {
            Ok(name) => assert_eq!(finished.stdout.trim(), name, "{user}: {finished:?}"),
            Err(words) => {
                assert_eq!(finished.code, Some(2), "{user}: {finished:?}");
                assert!(finished.stderr.contains(words), "{user}: {finished:?}");
            }
        }
    };
    check("ann", "secret", Ok("ann"));
    check("root", "r'oot", Ok("root"));
    check("ann", "Secret", Err("password authentication failed for user \"ann\""));
    check("ann", "", Err("no password supplied"));
    // No client learns which names exist, or why a login fails.
    for (user, password) in [("mallory", "x"), ("nobody", "n"), ("unset", "x"), ("readers", "x")] {
        check(user, password, Err(&format!("password authentication failed for user \"{user}\"")));
    }
}

#[test]
fn http_wants_a_password_or_a_token() {
    let (_star, server) = start();
    let query = |authorization: &str, sql: &str| {
        request(&server, "POST", "/api/v1/query", authorization, &json!({ "sql": sql }).to_string())
    };
    let check = |authorization: &str, sql: &str, status: u16, words: &str| {
        let (found, body) = query(authorization, sql);
        assert_eq!(found, status, "{sql}: {body}");
        assert!(body.contains(words), "{sql}: {body}");
    };
    check("", "SELECT 1", 401, "www-authenticate: Basic");
    check(&basic("ann", "secret"), "SELECT count(*) FROM dates", 200, "[2557]");
    check(&basic("ann", "wrong"), "SELECT 1", 401, "unauthenticated");
    check(&basic("mallory", "secret"), "SELECT 1", 401, "unauthenticated");
    check(&basic("ann", "secret"), "SELECT count(*) FROM customer", 403, "permission_denied");
    check("Bearer nonsense", "SELECT 1", 401, "unauthenticated");

    let (status, body) = request(&server, "POST", "/api/v1/token", &basic("ann", "secret"), "");
    assert_eq!(status, 200, "{body}");
    let document: Value = serde_json::from_str(body.rsplit("\r\n\r\n").next().unwrap()).unwrap();
    let bearer = format!("Bearer {}", document["token"].as_str().unwrap());
    check(&bearer, "SELECT current_schema(), 40 + 2", 200, "42");
    check(&bearer, "SELECT count(*) FROM customer", 403, "permission_denied");
    assert_eq!(request(&server, "POST", "/api/v1/token", &basic("ann", "wrong"), "").0, 401);
    assert_eq!(request(&server, "POST", "/api/v1/token", &bearer, "").0, 401, "a token gives no token");

    check(&basic("ann", "secret"), "ALTER USER ann PASSWORD 'other'", 200, "ALTER ROLE");
    check(&bearer, "SELECT 1", 401, "unauthenticated");
    assert_eq!(request(&server, "GET", "/metrics", "", "").0, 401);
    assert_eq!(request(&server, "GET", "/metrics", &basic("ann", "other"), "").0, 200);
    for path in ["/debug/flamegraph?seconds=1", "/debug/heap"] {
        assert_eq!(request(&server, "GET", path, "", "").0, 401, "{path}");
        let (status, body) = request(&server, "GET", path, &basic("ann", "other"), "");
        assert!(status == 403 && body.contains("for superusers only"), "{path}: {body}");
        let (status, body) = request(&server, "GET", path, &basic("root", "r'oot"), "");
        assert!(matches!(status, 200 | 501), "{path}: {body}");
    }
    assert_eq!(
        request(&server, "GET", "/healthz", "", "").0,
        200,
        "whoever watches the process needs no password"
    );
}

#[test]
fn statements_know_their_user() {
    let (_star, server) = start();
    let ask = |authorization: &str, sql: &str| -> Value {
        let body = json!({ "sql": sql }).to_string();
        let (status, answer) = request(&server, "POST", "/api/v1/query", authorization, &body);
        assert_eq!(status, 200, "{sql}: {answer}");
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    };
    let root = basic("root", "r'oot");
    ask(&root, "CREATE TABLE notes (id BIGINT PRIMARY KEY, owner TEXT)");
    ask(&root, "GRANT SELECT, INSERT ON notes TO ann, bob");
    let (_, token) = request(&server, "POST", "/api/v1/token", &basic("bob", "bob"), "");
    let token: Value = serde_json::from_str(token.rsplit("\r\n\r\n").next().unwrap()).unwrap();
    let bearer = format!("Bearer {}", token["token"].as_str().unwrap());
    let users = [("ann", basic("ann", "secret")), ("bob", bearer), ("root", root.clone())];
    let names = "SELECT current_user, session_user, user, current_role, upper(current_user) AS loud";
    // Repeated texts get cached plans, which all users share.
    for round in 0..4 {
        for (user, authorization) in &users {
            let told = ask(authorization, names);
            assert_eq!(told["rows"][0], json!([user, user, user, user, user.to_uppercase()]), "{round}");
            let columns: Vec<&str> = told["columns"]
                .as_array()
                .unwrap()
                .iter()
                .map(|column| column["name"].as_str().unwrap())
                .collect();
            assert_eq!(columns, ["current_user", "session_user", "user", "current_role", "loud"]);
            ask(authorization, "INSERT INTO notes SELECT count(*), current_user FROM notes");
            let own = ask(authorization, "SELECT count(*), min(owner) FROM notes WHERE owner = current_user");
            assert_eq!(own["rows"][0], json!([round + 1, user]));
        }
    }
    assert_eq!(psql(&server, "ann", "secret", "SELECT user").stdout.trim(), "ann");
    assert_eq!(psql(&server, "ann", "secret", "SELECT user || session_user").stdout.trim(), "annann");
    // `current_user` would be the same for all readers of the view.
    let view =
        json!({"sql": "CREATE VIEW own AS SELECT * FROM notes WHERE owner = current_user"}).to_string();
    let (status, refused) = request(&server, "POST", "/api/v1/query", &root, &view);
    assert!(status == 501 && refused.contains("`current_user` in a view"), "{refused}");
}

#[test]
fn a_statement_is_shown_to_its_user_and_to_superusers() {
    let (_star, server) = start();
    let asked =
        request(&server, "POST", "/api/v1/query", &basic("ann", "secret"), "{\"sql\": \"SELECT 7\"}").1;
    let number =
        asked.lines().find_map(|line| line.strip_prefix("x-nyala-query: ")).unwrap().trim().to_owned();
    let show = |authorization: &str| {
        request(&server, "GET", &format!("/api/v1/queries/{number}"), authorization, "")
    };
    let (status, body) = show(&basic("ann", "secret"));
    assert!(status == 200 && body.contains("SELECT 7"), "{body}");
    assert_eq!(show(&basic("root", "r'oot")).0, 200);
    let (status, body) = show(&basic("bob", "bob"));
    assert!(status == 404 && !body.contains("SELECT 7"), "{body}");
}

#[test]
fn psycopg_logs_in_over_tls() {
    let keys = Keys::make();
    let star = prepared();
    let server = Server::start_encrypted(
        &star.path("data"),
        &[
            PASSWORDS,
            ("NYALA_SERVER__TLS__CERTIFICATE", keys.certificate.to_str().unwrap()),
            ("NYALA_SERVER__TLS__KEY", keys.key.to_str().unwrap()),
        ],
    );
    let mut client = script("pg_login.py");
    client.env("PGHOST", "localhost").env("PGPORT", server.postgres.port().to_string());
    client.env("PGDATABASE", "nyala").env("PGSSLROOTCERT", &keys.certificate);
    let finished = try_run(&mut client);
    assert_eq!(finished.code, Some(0), "{}\n{}", finished.stdout, finished.stderr);
}

#[test]
fn passwords_are_neither_stored_nor_logged() {
    let folder = tempfile::tempdir().unwrap();
    let statement = "CREATE USER ann PASSWORD 'hunter2hunter2'; ALTER USER ann PASSWORD 'hunter2hunter2'";
    let mut command = nyala(&["sql", "-c", statement, "--data-dir"]);
    let finished = try_run(command.arg(folder.path()).env("NYALA_LOG", "trace"));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let told = format!("{}{}", finished.stdout, finished.stderr);
    assert!(!told.contains("hunter2"), "{told}");
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            assert!(!bytes.windows(7).any(|window| window == b"hunter2"), "{}", path.display());
        }
    }
}

#[test]
fn the_audit_log_tells_who_came_and_what_they_did() {
    let star = prepared();
    let log = star.path("audit.jsonl");
    let variables = [PASSWORDS, ("NYALA_SERVER__AUDIT_LOG", log.to_str().unwrap())];
    let mut server = Server::start_with(&star.path("data"), &variables);
    psql(&server, "ann", "wrong", "SELECT 1");
    psql(&server, "ann", "secret", "SELECT count(*) FROM dates");
    psql(&server, "ann", "secret", "SELECT count(*) FROM customer");
    psql(&server, "root", "r'oot", "ALTER USER bob PASSWORD 'hunter2'");
    psql(&server, "root", "r'oot", "DROP TABLE dates");
    assert_eq!(request(&server, "POST", "/api/v1/query", "", "{}").0, 401);
    server.process.signal("TERM");
    assert_eq!(server.finish(PATIENCE).code, Some(0));
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(!text.contains("hunter2"), "{text}");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told =
        |line: &Value| format!("{} {}", line["event"].as_str().unwrap(), line["user"].as_str().unwrap());
    assert_eq!(
        lines.iter().map(told).collect::<Vec<_>>(),
        [
            "login_refused ann",
            "login ann",
            "login ann",
            "denied ann",
            "login root",
            "changed root",
            "login root",
            "failed root",
            "login_refused "
        ]
    );
    assert_eq!(lines[3]["statement"], "SELECT count(*) FROM customer");
    assert_eq!(lines[5]["statement"], "ALTER ROLE bob PASSWORD '********'");
    assert!(lines[7]["error"].as_str().unwrap().contains("needed by cube"), "{}", lines[7]);
    assert_eq!(lines[1]["application"], "psql");
}

#[test]
fn the_audit_log_tells_which_rows_were_written() {
    let star = prepared();
    let log = star.path("audit.jsonl");
    let table = "CREATE LIVE TABLE stock (id BIGINT PRIMARY KEY, n BIGINT NOT NULL);
                 GRANT SELECT, INSERT, UPDATE ON stock TO bob";
    run(nyala(&["sql", "-c", table, "--data-dir"]).arg(star.path("data")));
    let variables = [PASSWORDS, ("NYALA_SERVER__AUDIT_LOG", log.to_str().unwrap())];
    let mut server = Server::start_with(&star.path("data"), &variables);
    // Statements over the simple and the extended protocol, and over HTTP.
    let statements = [
        ("INSERT INTO stock VALUES (1, 10), (2, 20)", "changed"),
        ("INSERT INTO stock SELECT id + 2, n FROM stock", "changed"),
        ("UPDATE stock SET n = n + 1 WHERE id = 1", "changed"),
        ("INSERT INTO stock VALUES (3, NULL)", "failed"),
        ("DELETE FROM stock WHERE id = 2", "denied"),
        ("TRUNCATE TABLE stock", "denied"),
    ];
    for (sql, event) in statements {
        let done = psql(&server, "bob", "bob", sql);
        assert_eq!(done.code == Some(0), event == "changed", "{sql}: {done:?}");
    }
    psql(&server, "bob", "bob", "EXPLAIN SELECT * FROM stock");
    psql(&server, "root", "r'oot", "DELETE FROM stock WHERE id = 2");
    let body = json!({"sql": "TRUNCATE TABLE stock"}).to_string();
    assert_eq!(request(&server, "POST", "/api/v1/query", &basic("root", "r'oot"), &body).0, 200);
    server.process.signal("TERM");
    assert_eq!(server.finish(PATIENCE).code, Some(0));
    let text = std::fs::read_to_string(&log).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let told: Vec<(String, String, String)> = lines
        .filter(|line| line["statement"].is_string())
        .map(|line| ["user", "event", "statement"].map(|name| line[name].as_str().unwrap().to_owned()).into())
        .collect();
    let of = |user: &str, event: &str, sql: &str| (user.to_owned(), event.to_owned(), sql.to_owned());
    let mut expected: Vec<_> = statements.iter().map(|(sql, event)| of("bob", event, sql)).collect();
    expected.push(of("root", "changed", "DELETE FROM stock WHERE id = 2"));
    expected.push(of("root", "changed", "TRUNCATE TABLE stock"));
    assert_eq!(told, expected);
}

/// The benchmark's tables and cube, and roles.
fn prepared() -> Star {
    let star = Star::generate("0.01");
    let data = star.built();
    run(nyala(&["sql", "-c", ROLES, "--data-dir"]).arg(data));
    star
}

pub fn start() -> (Star, Server) {
    let star = prepared();
    let server = Server::start_with(&star.path("data"), &[PASSWORDS]);
    (star, server)
}

pub fn psql(server: &Server, user: &str, password: &str, sql: &str) -> Finished {
    require("psql", "the PostgreSQL client (Debian: postgresql-client)");
    let port = server.postgres.port().to_string();
    let place = ["-h", "127.0.0.1", "-p", &port, "-U", user, "-w", "-v", "VERBOSITY=verbose"];
    let mut command = Command::new("psql");
    command.args(["-X", "-A", "-t"]).args(place).args(["-c", sql, "nyala"]);
    if !password.is_empty() {
        command.env("PGPASSWORD", password);
    }
    try_run(&mut command)
}

/// Status, and headers with body.
fn request(server: &Server, method: &str, path: &str, authorization: &str, body: &str) -> (u16, String) {
    let header =
        if authorization.is_empty() { String::new() } else { format!("authorization: {authorization}\r\n") };
    let request = format!(
        "{method} {path} HTTP/1.0\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{header}\r\n{body}",
        body.len()
    );
    let received = String::from_utf8(send(server.http, request.as_bytes())).unwrap();
    let status = received.split(' ').nth(1).and_then(|status| status.parse().ok()).expect(&received);
    (status, received)
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", base64(&format!("{user}:{password}")))
}

fn base64(text: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let encode = |chunk: &[u8]| {
        let bits =
            chunk.iter().chain(&[0, 0]).take(3).fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
        let letter = |place: usize| char::from(LETTERS[bits >> (18 - 6 * place) & 63]);
        let letters: String = (0..=chunk.len()).map(letter).collect();
        format!("{letters:=<4}")
    };
    text.as_bytes().chunks(3).map(encode).collect()
}
