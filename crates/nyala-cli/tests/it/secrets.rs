//! Passwords and keys: in no log, list or table, for every kind of statement that contains them.

use std::process::Command;

use serde_json::json;

use crate::program::{Finished, nyala, run, try_run};
use crate::python::require;
use crate::server::{Server, send};

/// Must not occur in any output.
const SECRET: &str = "hunter2";

/// Statements with a secret, most of which cannot be parsed or carried out.
const STATEMENTS: &[&str] = &[
    "ALTER USER ann PASSWORD 'hunter2'",
    "alter role ann with encrypted passWord E'\\x68hunter2'",
    "EXPLAIN ALTER USER ann PASSWORD 'hunter2'",
    "EXPLAIN ALTER USER ann PASSWORD hunter2",
    "CREATE USER eve IDENTIFIED BY 'hunter2'",
    "CREATE USER eve IDENTIFIED BY \"hunter2\"",
    "CREATE USER eve PASSWORD $$hunter2$$",
    "CREATE USER eve PASSWORD $tag$it's hunter2$tag$",
    "CREATE USER eve PASSWORD U&'hunter2'",
    "CREATE USER eve PASSWORD 'hunter2",
    "CREATE USER eve PASSWORD 'don''t hunter2' SUPERUSER NONSENSE",
    "SET password = 'hunter2'",
    "SET password = hunter2",
    "SET password TO \"hunter2\"",
    "SET my.secret = 'hunter2'",
    "SELECT 'hunter2' AS password",
    "SELECT CAST('hunter2' AS INT) AS token",
    "SELECT absent('hunter2') AS api_key",
    "SELECT 1 -- the password is 'hunter2'",
    "SELECT 1 /* secret: 'hunter2' */ FROM nowhere",
    "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 's3://AKIA:hunter2@bucket/t/'",
    "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 's3://AKIA:hun/hunter2@bucket/t/'",
    "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'https://h/t?X-Amz-Signature=hunter2'",
    "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/nowhere' OPTIONS ('aws.secret_access_key' 'hunter2')",
    "SELECT 'postgres://ann:hunter2@db/x'",
    "SELEC 'postgres://ann:hunter2@db/x'",
    "COPY nowhere FROM 's3://AKIA:hunter2@bucket/t.csv'",
    "DO $$ BEGIN EXECUTE 'ALTER USER ann PASSWORD ''hunter2'''; END $$",
    "PREPARE p AS ALTER USER ann PASSWORD 'hunter2'",
    "EXECUTE change_password('hunter2')",
    "INSERT INTO nowhere (name, password) VALUES ('ann', 'hunter2')",
    "CREATE LIVE TABLE t (id BIGINT PRIMARY KEY, s TEXT DEFAULT 'hunter2', password TEXT)",
    "INSERT INTO t VALUES (1, 'hunter2', 'hunter2') RETURNING password / 0",
];

#[test]
fn secrets_are_in_no_log_and_no_list() {
    let folder = tempfile::tempdir().unwrap();
    let (data, audit) = (folder.path().join("data"), folder.path().join("audit.log"));
    run(nyala(&["sql", "-c", "CREATE USER ann PASSWORD 'a'", "--data-dir"]).arg(&data));
    let server = Server::start_with(
        &data,
        &[
            ("NYALA_SERVER__AUDIT_LOG", audit.to_str().unwrap()),
            ("NYALA_QUERY__SLOW_MS", "1"),
            ("NYALA_LOG", "debug"),
        ],
    );
    for sql in STATEMENTS {
        server.try_query(sql);
        server.post(&json!({"sql": sql, "parameters": [SECRET]}).to_string());
        server.post(&json!({"sql": format!("{sql}; SELECT 1")}).to_string());
        psql(&server, &[sql]);
        psql(&server, &["SELECT 1", sql, "SELECT 2"]);
    }
    // The bodies are no requests.
    server.post("{\"sql\": \"SELECT 1\", \"password\": \"hunter2\"}");
    server.post("{\"sql\": \"ALTER USER ann PASSWORD 'hunter2'\"");
    for table in ["query_log", "queries", "stuck", "query_history", "tasks"] {
        // The text of this query is among the rows, and has no secret in it.
        let rows = server.query(&format!("SELECT * FROM system.{table}"));
        let shown = rows.iter().flatten().find(|value| value.contains(SECRET));
        assert_eq!(shown, None, "system.{table}");
    }
    let log = server.query("SELECT query FROM system.query_log");
    let is_listed = |words: &str| log.iter().any(|row| row[0].contains(words));
    for words in [
        "EXPLAIN ALTER USER ann PASSWORD '********'",
        "CREATE USER eve IDENTIFIED ********",
        "SET password = '********'",
        "SELECT '********' AS password",
        "SELEC 'postgres://********@db/x'",
        "COPY nowhere FROM 's3://********@bucket/t.csv'",
    ] {
        assert!(is_listed(words), "{words}: {log:?}");
    }
    let audited = std::fs::read_to_string(&audit).unwrap();
    assert!(audited.contains("ALTER ROLE ann PASSWORD '********'"), "{audited}");
    for (name, text) in
        [("audit log", audited), ("stderr", server.process.stderr()), ("stdout", server.process.stdout())]
    {
        let line = text.lines().find(|line| line.contains(SECRET));
        assert_eq!(line, None, "{name}");
    }
    assert!(server.process.stderr().contains("slow statement"), "they would have been logged");
}

fn psql(server: &Server, statements: &[&str]) -> Finished {
    require("psql", "the PostgreSQL client (Debian: postgresql-client)");
    let mut command = Command::new("psql");
    command.args(["-X", &server.url()]);
    try_run(command.args(statements.iter().flat_map(|sql| ["-c", sql])))
}

const ROLES: &str = "
    CREATE USER root SUPERUSER PASSWORD 'r';
    CREATE USER ann PASSWORD 'a';
    CREATE SCHEMA shop;
    GRANT ALL ON SCHEMA shop TO ann;
";

/// PostgreSQL shows verifiers to superusers. Here no role sees them.
#[test]
fn no_table_shows_what_passwords_are_checked_with() {
    require("psql", "the PostgreSQL client (Debian: postgresql-client)");
    let folder = tempfile::tempdir().unwrap();
    for sql in ROLES.split(';').map(str::trim).filter(|sql| !sql.is_empty()) {
        run(nyala(&["sql", "-c", sql, "--data-dir"]).arg(folder.path()));
    }
    let server = Server::start_encrypted(folder.path(), &[("NYALA_SERVER__AUTHENTICATION", "password")]);
    let ask = |user: &str, sql: &str| {
        let place = format!(
            "host=127.0.0.1 port={} user={user} password={} dbname=nyala",
            server.postgres.port(),
            user.chars().next().unwrap()
        );
        try_run(Command::new("psql").args(["-X", "-A", "-t", "-v", "VERBOSITY=verbose", "-c", sql, &place]))
    };
    for sql in [
        "SELECT * FROM pg_authid",
        "SELECT rolname FROM pg_catalog.pg_authid",
        "SELECT count(*) FROM nyala.pg_catalog.\"pg_authid\" AS a",
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM pg_catalog.pg_authid)",
        "WITH a AS (SELECT * FROM pg_authid) SELECT * FROM a",
        "PREPARE p AS SELECT * FROM pg_catalog.pg_authid",
        "EXPLAIN SELECT * FROM pg_catalog.pg_authid",
    ] {
        let refused = ask("ann", sql);
        assert_eq!(refused.code, Some(1), "{sql}: {refused:?}");
        assert!(refused.stderr.contains("42501"), "{sql}: {refused:?}");
    }
    let authorization = "authorization: Basic YW5uOmE=";
    let body = json!({"sql": "SELECT * FROM pg_catalog.pg_authid"}).to_string();
    let request = format!(
        "POST /api/v1/query HTTP/1.0\r\n{authorization}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = String::from_utf8_lossy(&send(server.http, request.as_bytes())).into_owned();
    assert!(answer.starts_with("HTTP/1.0 403"), "{answer}");
    for (user, sql) in [
        ("root", "SELECT * FROM pg_authid"),
        ("ann", "SELECT * FROM pg_roles"),
        ("ann", "SELECT rolname, rolsuper, rolpassword FROM pg_catalog.pg_roles ORDER BY 1"),
        ("ann", "\\du"),
        ("ann", "SHOW ROLES"),
        ("ann", "SELECT * FROM system.settings"),
        ("root", "SELECT * FROM pg_settings"),
    ] {
        let shown = ask(user, sql);
        assert_eq!(shown.code, Some(0), "{sql}: {shown:?}");
        for part in ["SCRAM-SHA-256$", "$argon2", "md5"] {
            assert!(!shown.stdout.contains(part), "{sql}: {shown:?}");
        }
    }
}
