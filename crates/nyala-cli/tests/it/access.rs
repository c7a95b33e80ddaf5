//! Passwords, tokens and grants, as clients meet them.

use std::process::Command;

use serde_json::{Value, json};

use crate::encryption::Keys;
use crate::program::{Finished, PATIENCE, eventually, nyala, run, try_run};
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
fn what_was_not_granted_is_refused_wherever_it_stands() {
    let (_star, server) = start();
    let ann = |sql: &str| psql(&server, "ann", "secret", sql);
    let total = "SELECT d_year, sum(lo_revenue) FROM lineorder JOIN dates ON lo_orderdate = d_datekey GROUP BY d_year";
    let granted = ann(total);
    assert_eq!((granted.code, granted.stdout.lines().count()), (Some(0), 7), "{granted:?}");
    assert!(
        ann(&format!("EXPLAIN {total}")).stdout.contains("answered from cube"),
        "a cube answers whom its tables do"
    );
    for sql in [
        "SELECT 1",
        "SELECT count(*) FROM information_schema.tables",
        "SHOW CUBES",
        "SHOW ROLES",
        "SHOW GRANTS",
    ] {
        assert_eq!(ann(sql).code, Some(0), "{sql}: {:?}", ann(sql));
    }
    for sql in [
        "SELECT count(*) FROM customer",
        "SELECT count(*) FROM public.customer AS dates",
        "WITH dates AS (SELECT * FROM customer) SELECT count(*) FROM dates",
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM customer)",
        "SELECT (SELECT count(*) FROM customer)",
        "SELECT d_year FROM dates UNION ALL SELECT c_custkey FROM customer",
        "SELECT d_year FROM dates WHERE d_datekey IN (SELECT c_custkey FROM customer)",
        "SELECT count(*) FROM dates, LATERAL (SELECT * FROM customer) AS c",
        "EXPLAIN SELECT count(*) FROM customer",
        "EXPLAIN ANALYZE SELECT count(*) FROM customer",
        "PREPARE p AS SELECT count(*) FROM customer",
        "DECLARE c CURSOR WITH HOLD FOR SELECT * FROM customer",
        "CREATE CUBE public.mine AS SELECT c_city, count(*) FROM customer GROUP BY c_city",
        "BUILD CUBE ssb",
        "CHECK CUBE ssb",
        "ANALYZE CUBE ssb",
        "DROP CUBE ssb",
        "ALTER CUBE ssb DROP SEGMENTS",
        "ALTER CUBE ssb SET (answers = off)",
        "DROP TABLE dates",
        "CREATE SCHEMA s",
        "DROP SCHEMA IF EXISTS public CASCADE",
        "CREATE EXTERNAL TABLE etc STORED AS CSV LOCATION '/etc/passwd'",
        "SHOW QUERY HISTORY",
        "RECOMMEND CUBE FOR SCHEMA public",
        "CREATE USER eve SUPERUSER PASSWORD 'e'",
        "ALTER USER ann SUPERUSER",
        "ALTER USER root PASSWORD 'mine'",
        "GRANT SELECT ON customer TO ann",
        "REVOKE readers FROM ann",
        "DROP USER bob",
    ] {
        check_denied(&ann(sql), sql);
    }
    check_denied(&psql(&server, "bob", "bob", "SELECT count(*) FROM dates"), "bob");
}

fn check_denied(finished: &Finished, sql: &str) {
    assert_eq!(finished.code, Some(1), "{sql}: {finished:?}");
    assert!(finished.stderr.contains("ERROR:  42501"), "{sql}: {finished:?}");
}

#[test]
fn live_tables_are_read_and_written_by_those_who_may() {
    let (_star, server) = start();
    let root = |sql: &str| {
        let finished = psql(&server, "root", "r'oot", sql);
        assert_eq!(finished.code, Some(0), "{sql}: {finished:?}");
    };
    let bob = |sql: &str| psql(&server, "bob", "bob", sql);
    let may = |sql: &str| assert_eq!(bob(sql).code, Some(0), "{sql}: {:?}", bob(sql));
    let copied = "CREATE LIVE TABLE shop.mine (PRIMARY KEY (c_custkey)) AS SELECT c_custkey FROM customer";
    let load = "COPY shop.t FROM '/etc/passwd' (FORMAT csv)";
    root("CREATE SCHEMA shop");
    root("CREATE LIVE TABLE shop.t (id BIGINT PRIMARY KEY, n BIGINT)");
    for sql in ["INSERT INTO shop.t VALUES (1, 2)", "SELECT * FROM changes('shop.t')", "CREATE DISK STORE d"]
    {
        check_denied(&bob(sql), sql);
    }
    root("GRANT SELECT, INSERT ON shop.t TO bob");
    may("INSERT INTO shop.t VALUES (1, 2)");
    may("SELECT * FROM changes('shop.t')");
    for sql in [
        "UPDATE shop.t SET n = 3",
        "DELETE FROM shop.t",
        "TRUNCATE TABLE shop.t",
        "INSERT INTO shop.t SELECT c_custkey, 1 FROM customer",
        "ALTER TABLE shop.t ADD COLUMN x INT",
        "DROP TABLE shop.t",
        "SELECT * FROM '/srv/none.csv'",
        "SELECT * FROM shop.t WHERE n IN (SELECT n FROM read_parquet('/srv/*.parquet'))",
        "EXPLAIN SELECT * FROM '/srv/none.csv'",
        "COPY shop.t TO '/srv/none.csv'",
        copied,
        load,
    ] {
        check_denied(&bob(sql), sql);
    }
    root("GRANT UPDATE, DELETE ON shop.t TO bob");
    root("GRANT CREATE ON SCHEMA shop TO bob");
    may("UPDATE shop.t SET n = 3");
    may("DELETE FROM shop.t WHERE n = 3");
    // To create a table is not to read another.
    check_denied(&bob(copied), copied);
    root("GRANT SELECT ON customer TO bob");
    assert_eq!(bob(copied).code, Some(0));
}

#[test]
fn a_grant_on_a_view_is_enough_for_what_it_shows() {
    let (_star, server) = start();
    let root = |sql: &str| {
        let finished = psql(&server, "root", "r'oot", sql);
        assert_eq!(finished.code, Some(0), "{sql}: {finished:?}");
    };
    let bob = |sql: &str| psql(&server, "bob", "bob", sql);
    root("CREATE VIEW few AS SELECT c_custkey, c_city FROM customer WHERE c_custkey <= 3");
    root("CREATE VIEW fewer AS SELECT * FROM few WHERE c_custkey = 1");
    root("CREATE SCHEMA shop");
    root("GRANT CREATE ON SCHEMA shop TO bob");
    check_denied(&bob("SELECT count(*) FROM few"), "few");
    root("GRANT SELECT ON few TO bob");
    assert_eq!(bob("SELECT count(*), max(c_custkey) FROM few").stdout.trim(), "3|3");
    for sql in [
        "SELECT count(*) FROM customer",
        "SELECT count(*) FROM few JOIN customer USING (c_custkey)",
        "SELECT (SELECT count(*) FROM customer) FROM few",
        "SELECT * FROM fewer",
        "CREATE VIEW shop.mine AS SELECT * FROM customer",
        "CREATE TABLE shop.mine AS SELECT c_custkey FROM customer",
        "CREATE OR REPLACE VIEW few AS SELECT 1 AS c_custkey, 'x' AS c_city",
        "DROP VIEW few",
        "ALTER VIEW few RENAME TO other",
    ] {
        check_denied(&bob(sql), sql);
    }
    assert_eq!(bob("CREATE VIEW shop.mine AS SELECT c_city FROM few").code, Some(0));
    assert_eq!(
        bob("CREATE TEMP TABLE t AS SELECT c_custkey FROM few; SELECT max(c_custkey) FROM t").code,
        Some(0)
    );
    root("ALTER VIEW few RENAME TO some");
    assert_eq!(bob("SELECT count(*) FROM some").stdout.trim(), "3", "a grant goes with the name");
}

#[test]
fn grants_on_schemas_and_cubes_allow_just_that() {
    let (_star, server) = start();
    let root = |sql: &str| {
        let finished = psql(&server, "root", "r'oot", sql);
        assert_eq!(finished.code, Some(0), "{sql}: {finished:?}");
    };
    let bob = |sql: &str| psql(&server, "bob", "bob", sql);
    root("GRANT BUILD ON CUBE ssb TO bob");
    assert_eq!(bob("BUILD CUBE ssb").code, Some(0), "{:?}", bob("BUILD CUBE ssb"));
    check_denied(&bob("SELECT count(*) FROM dates"), "building is not reading");
    check_denied(&bob("CHECK CUBE ssb"), "a check shows what it finds");
    check_denied(&bob("ALTER CUBE ssb DROP SEGMENTS"), "building is not dropping");
    root("GRANT SELECT ON SCHEMA public TO bob");
    assert_eq!(bob("SELECT count(*) FROM customer").code, Some(0));
    assert_eq!(bob("CHECK CUBE ssb SAMPLE 1").code, Some(0));
    check_denied(
        &bob("CREATE CUBE mine AS SELECT d_year, count(*) FROM dates GROUP BY d_year"),
        "reading is not creating",
    );
    root("GRANT CREATE ON SCHEMA public TO bob");
    let create = "CREATE CUBE mine AS SELECT d_year, count(*) FROM dates GROUP BY d_year";
    assert_eq!(bob(create).code, Some(0), "{:?}", bob(create));
    root("REVOKE ALL ON SCHEMA public FROM bob");
    check_denied(&bob("SELECT count(*) FROM customer"), "what was taken is gone");
    let shown = psql(&server, "root", "r'oot", "SHOW GRANTS");
    assert!(shown.stdout.contains("bob|BUILD|cube|public|ssb"), "{shown:?}");
    let mine = bob("ALTER USER bob PASSWORD 'new'");
    assert_eq!(mine.code, Some(0), "{mine:?}");
    assert_eq!(bob("SELECT 1").code, Some(2), "the old password");
    assert_eq!(psql(&server, "bob", "new", "SELECT 1").code, Some(0));
}

/// A statement that was prepared when it was allowed is not allowed for ever.
#[tokio::test]
async fn what_is_revoked_ends_also_for_prepared_statements() {
    let (_star, server) = start();
    let url = format!("postgres://ann:secret@{}/nyala", server.postgres);
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let prepared = client.prepare("SELECT count(*) FROM dates WHERE d_year > $1").await.unwrap();
    let count: i64 = client.query_one(&prepared, &[&1990_i32]).await.unwrap().get(0);
    assert_eq!(count, 2557);
    let revoked = psql(&server, "root", "r'oot", "REVOKE SELECT ON dates FROM readers");
    assert_eq!(revoked.code, Some(0), "{revoked:?}");
    let error = client.query_one(&prepared, &[&1990_i32]).await.unwrap_err();
    assert_eq!(error.code().map(|code| code.code()), Some("42501"), "{error}");
    drop(client);
    connection.await.unwrap().unwrap();
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
    // Texts that come again have plans that are ready, and each is of all users.
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
    // It would be the same for all who read it.
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
    // Over the simple and the extended protocol, and over HTTP.
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

fn start() -> (Star, Server) {
    let star = prepared();
    let server = Server::start_with(&star.path("data"), &[PASSWORDS]);
    (star, server)
}

fn psql(server: &Server, user: &str, password: &str, sql: &str) -> Finished {
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

/// A plan cached for one user must not answer another user without SELECT on its tables.
#[test]
fn ready_plans_and_what_others_run_are_not_for_everybody() {
    let (_star, server) = start();
    let query = |year: u32| {
        format!(
            "SELECT d_year, sum(lo_revenue) FROM lineorder JOIN dates ON lo_orderdate = d_datekey \
             JOIN customer ON lo_custkey = c_custkey WHERE c_region = 'ASIA' AND d_year = {year} GROUP BY d_year"
        )
    };
    let root = |sql: &str| psql(&server, "root", "r'oot", sql);
    let ready = "SELECT count(*) FROM system.query_log WHERE ready_plan";
    eventually("the plan is ready", PATIENCE, || {
        assert_eq!(root(&query(1993)).code, Some(0));
        root(ready).stdout.trim() != "0"
    });
    let ann = |sql: &str| psql(&server, "ann", "secret", sql);
    for year in [1993, 1994] {
        let refused = ann(&query(year));
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.stderr.contains("lacks SELECT on \"public.customer\""), "{refused:?}");
        assert!(refused.stdout.is_empty(), "{refused:?}");
    }
    for (sql, words) in [
        ("SELECT * FROM system.queries", "system.queries"),
        ("SELECT * FROM system.query_log", "system.query_log"),
        ("SELECT * FROM system.query_history", "system.query_history"),
        ("SELECT * FROM system.stuck", "system.stuck"),
        ("SELECT state FROM system.disk_stores", "system.disk_stores"),
        ("KILL QUERY 1", "killing what others run"),
        ("CANCEL JOB 1", "cancelling a job"),
        ("ALTER CUBE ssb SET (auto_refresh = on)", "lacks CREATE"),
    ] {
        let refused = ann(sql);
        assert_eq!(refused.code, Some(1), "{sql}: {refused:?}");
        assert!(refused.stderr.contains(words), "{sql}: {refused:?}");
    }
    assert_eq!(ann("SELECT * FROM system.caches").code, Some(0));
    assert_eq!(root("SELECT * FROM system.queries").code, Some(0));
    assert_eq!(root("SELECT folder FROM system.disk_stores").code, Some(0));
}

/// The rows that a recursive query reads of itself are of no table.
#[test]
fn a_recursive_query_needs_grants_for_its_tables_only() {
    let (_star, server) = start();
    let steps = |begin: &str, tables: &str| {
        let sql = format!(
            "WITH RECURSIVE steps AS (SELECT {begin} UNION ALL SELECT n + 1 FROM {tables} WHERE n < 10) \
             SELECT count(*) FROM steps"
        );
        psql(&server, "ann", "secret", &sql)
    };
    let counted = steps("1 AS n", "steps");
    assert_eq!((counted.code, counted.stdout.trim()), (Some(0), "10"), "{counted:?}");
    let begin = "CAST(max(c_custkey) AS BIGINT) AS n FROM customer";
    check_denied(&steps(begin, "steps"), "where it begins");
    check_denied(&steps("1 AS n", "steps, customer"), "where it goes on");
}

/// CREATE CUBE needs SELECT on every table that it names, also if a CTE has the same name; for cells reveal rows.
#[test]
fn cubes_are_made_only_of_what_their_makers_may_read() {
    let (_star, server) = start();
    let ann = |sql: &str| psql(&server, "ann", "secret", sql);
    let granted = psql(&server, "root", "r'oot", "GRANT CREATE, BUILD ON SCHEMA public TO ann");
    assert_eq!(granted.code, Some(0), "{granted:?}");
    for sql in [
        "CREATE CUBE cities AS SELECT c_city, count(*) FROM customer GROUP BY c_city",
        "CREATE CUBE cities AS SELECT c_city, count(*) FROM \
         (WITH customer AS (SELECT d_year AS c_city FROM dates) SELECT * FROM customer) AS c GROUP BY c_city",
        "ALTER CUBE ssb ADD MEASURE max(c_custkey)",
        "ALTER CUBE ssb ADD DIMENSION c_name",
        "ALTER CUBE ssb SET (auto_merge = 2), ADD GROUPING SET (c_city)",
    ] {
        check_denied(&ann(sql), sql);
    }
    for sql in [
        "CREATE CUBE years AS SELECT d_year, count(*) FROM dates GROUP BY d_year",
        "ALTER CUBE years ADD MEASURE max(d_datekey)",
        "BUILD CUBE years",
    ] {
        assert_eq!(ann(sql).code, Some(0), "{sql}: {:?}", ann(sql));
    }
}

/// Cuboid files hold rows of tables, and reading a file would bypass the privileges on these tables.
#[test]
fn files_of_the_server_are_no_tables_for_everybody() {
    let (star, server) = start();
    let root = |sql: &str| psql(&server, "root", "r'oot", sql);
    let bob = |sql: &str| psql(&server, "bob", "bob", sql);
    assert_eq!(root("CREATE SCHEMA shop").code, Some(0));
    assert_eq!(root("GRANT ALL ON SCHEMA shop TO bob").code, Some(0));
    std::os::unix::fs::symlink(star.path("data"), star.path("alias")).unwrap();
    let table = |location: &str| {
        let location = star.path(location);
        format!("CREATE EXTERNAL TABLE shop.t STORED AS PARQUET LOCATION '{}'", location.display())
    };
    for location in ["data/cubes/", "data", "ssb/../data/cubes/", "alias/cubes/", "alias/later/", ""] {
        check_denied(&bob(&table(location)), location);
    }
    let copy = format!("COPY shop.t FROM '{}' (FORMAT parquet)", star.path("data/cubes/").display());
    check_denied(&bob(&copy), &copy);
    let other = bob(&table("ssb/dates/"));
    assert_eq!(other.code, Some(0), "{other:?}");
    assert_eq!(bob("SELECT count(*) FROM shop.t").stdout.trim(), "2557");
}

/// The planner lowercases ASCII letters only, and so must GRANT and REVOKE for the same schema.
#[test]
fn schemas_with_other_letters_are_granted_as_they_are_created() {
    let (_star, server) = start();
    let root = |sql: &str| psql(&server, "root", "r'oot", sql);
    for sql in
        ["CREATE SCHEMA ÄRGER", "GRANT SELECT ON SCHEMA ÄRGER TO bob", "REVOKE ALL ON SCHEMA Ärger FROM bob"]
    {
        let done = root(sql);
        assert_eq!(done.code, Some(0), "{sql}: {done:?}");
    }
}
