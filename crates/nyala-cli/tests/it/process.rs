//! The process as its neighbours see it: starting, being fed nonsense, stopping, exit codes, output.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::program::{Finished, PATIENCE, Running, eventually, nyala, run, try_run};
use crate::server::{Server, send, statement_request};

/// A query that counts for hours.
const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 10000000000000) AS s (n) WHERE n % 3 = 4";

/// A PostgreSQL start-up message: length, protocol 3.0, user `x`.
const STARTUP: &[u8] = b"\x00\x00\x00\x10\x00\x03\x00\x00user\0x\0\0";

#[test]
fn a_data_folder_is_held_by_one_process_and_its_name_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let holder = format!("in use by `nyala serve` (process {})", server.process.id());
    let second = try_run(serve_anywhere().arg("--data-dir").arg(folder.path()));
    check_refused(&second, &[&holder, "stop it"]);
    let prompt = try_run(nyala(&["sql", "-c", "SELECT 1", "--data-dir"]).arg(folder.path()));
    let address = format!("nyala sql --url postgres://{}/nyala`", server.postgres);
    check_refused(&prompt, &[&holder, &address]);
    server.check_alive("a second process on its data folder");
    drop(server);
    Server::start(folder.path()).check_alive("the lock of a killed process");
}

#[test]
fn a_taken_port_names_address_and_key() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let flags = ["--postgres-listen", "--http-listen", "--flight-listen", "--kylin-listen"];
    let keys =
        ["server.postgres_listen", "server.http_listen", "server.flight_listen", "server.kylin_listen"];
    for (flag, key) in flags.into_iter().zip(keys) {
        let mut command = nyala(&["serve", flag, &address, "--data-dir"]);
        command.arg(folder.path());
        for other in flags.into_iter().filter(|other| *other != flag) {
            command.args([other, "127.0.0.1:0"]);
        }
        let refused = try_run(&mut command);
        check_refused(&refused, &[&format!("`{address}`"), &format!("`{key}`"), "hint: stop the process"]);
    }
}

#[test]
fn unknown_configuration_keys_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nyala.toml");
    for (text, words) in [
        ("[server]\nhttp_lisen = \"127.0.0.1:0\"\n", ["`server.http_lisen`", "did you mean `http_listen`"]),
        ("datadir = \"x\"\n", ["`datadir`", "did you mean `data_dir`"]),
        ("[query]\nbatch_rows = \"many\"\n", ["`query.batch_rows`", "nyala.toml"]),
        ("[build]\nzstd_level = 40\n", ["`build.zstd_level` must be between 1 and 22", "`40`"]),
        ("[server\n", ["nyala.toml", "cannot read"]),
    ] {
        std::fs::write(&file, text).unwrap();
        for command in ["serve", "config"] {
            check_refused(&try_run(nyala(&[command, "--config"]).arg(&file)), &words);
        }
    }
    for (name, value, words) in [
        (
            "NYALA_QUERY__BATCH_ROW",
            "1",
            ["`NYALA_QUERY__BATCH_ROW`", "did you mean `NYALA_QUERY__BATCH_ROWS`"],
        ),
        ("NYALA_QUERY__BATCH_ROWS", "few", ["`NYALA_QUERY__BATCH_ROWS` must be a whole number", "`few`"]),
    ] {
        check_refused(&try_run(nyala(&["serve"]).env(name, value)), &words);
    }
    check_refused(&try_run(&mut nyala(&["serve", "--config", "/no/such.toml"])), &["/no/such.toml", "hint:"]);
}

#[test]
fn bytes_of_no_protocol_harm_nobody() {
    let server = Server::empty(&[]);
    let noise: Vec<u8> =
        (0..65536_u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect();
    let cases: &[(&str, Vec<u8>)] = &[
        ("random bytes", noise.clone()),
        ("zeros", vec![0; 4096]),
        ("ones", vec![0xff; 4096]),
        ("an HTTP request", b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_vec()),
        ("a TLS greeting", b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00".to_vec()),
        ("an HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec()),
        ("a length of 2 GB", b"\x7f\xff\xff\xff\x00\x03\x00\x00".to_vec()),
        ("half a start-up message", STARTUP[..9].to_vec()),
        ("random bytes after start-up", [STARTUP, &noise].concat()),
        ("a negative length after start-up", [STARTUP, b"Q\xff\xff\xff\xff"].concat()),
        ("an endless header", [b"GET / HTTP/1.1\r\nx: ".as_slice(), &vec![b'a'; 4 << 20]].concat()),
        (
            "a body shorter than announced",
            b"POST /api/v1/query HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{"
                .to_vec(),
        ),
    ];
    // Silent connections stay open all the while.
    let silent: Vec<TcpStream> = (0..20)
        .flat_map(|_| [server.postgres, server.http])
        .map(|door| TcpStream::connect(door).unwrap())
        .collect();
    for (name, bytes) in cases {
        for door in [server.postgres, server.http] {
            // The server may wait for the rest; the test is its reaction when the client hangs up.
            let mut stream = TcpStream::connect(door).unwrap();
            let _ = stream.write_all(bytes);
            drop(stream);
        }
        server.check_alive(name);
    }
    drop(silent);
    let log = server.process.stderr();
    assert!(!log.contains(" ERROR ") && !log.contains("panicked"), "{log}");
}

#[test]
fn requests_that_are_not_understood_get_their_status() {
    let server = Server::empty(&[]);
    for (body, status, code) in [
        ("", 400, "malformed_json"),
        ("{\"sql\": \"SEL", 400, "malformed_json"),
        ("[1, 2]", 400, "invalid_request"),
        ("{\"sqll\": \"SELECT 1\"}", 400, "invalid_request"),
        ("{\"sql\": 1}", 400, "invalid_request"),
        ("{\"sql\": \"\"}", 400, "invalid_request"),
        ("{\"sql\": \"SELECT 1; SELECT 2\"}", 400, "invalid_request"),
        ("{\"sql\": \"SELECT 1\", \"settings\": {\"no.such\": 1}}", 400, "undefined_object"),
        ("{\"sql\": \"SELECT $1 + 1\", \"parameters\": []}", 400, "invalid_parameter"),
        ("{\"sql\": \"SELEC 1\"}", 400, "syntax_error"),
        ("{\"sql\": \"SELECT * FROM nowhere\"}", 400, "undefined_table"),
        ("{\"sql\": \"SELECT 1/0\"}", 422, "division_by_zero"),
        ("{\"sql\": \"SELECT 9223372036854775807 + 1\"}", 422, "out_of_range"),
        ("{\"sql\": \"SELECT CAST('x' AS INT)\"}", 422, "invalid_value"),
    ] {
        let response = server.post(body);
        assert_eq!(response.status, status, "{body}: {}", response.body);
        assert!(response.body.contains(&format!("\"code\":\"{code}\"")), "{body}: {}", response.body);
    }
    // Deeper than any parser should follow.
    assert_eq!(server.post(&"[".repeat(1 << 20)).status, 400);
    assert_eq!(server.get("/nowhere").status, 404);
    assert_eq!(server.delete("/api/v1/query").status, 405);
    let without_sql = server.get("/api/v1/query");
    assert!(without_sql.status == 400 && without_sql.body.contains("sql"), "{}", without_sql.body);
    server.check_alive("bad requests");
}

#[test]
fn a_text_of_100_megabytes_is_refused_by_both_doors() {
    let server = Server::empty(&[]);
    let sql = format!("SELECT '{}'", "x".repeat(100 << 20));
    let response = server.try_query(&sql);
    assert_eq!(response.status, 413, "{}", response.body);
    server.check_alive("a large body");
    let received = send(server.postgres, &simple_query(&sql));
    let text = String::from_utf8_lossy(&received);
    assert!(text.contains("C54000") || text.contains("C54001"), "{text:?}");
    server.check_alive("a large message");
    // The text is just below the limit of messages, and above that of statements.
    let response = server.try_query(&sql[..15 << 20]);
    assert_eq!(response.status, 400, "{}", response.body);
    assert!(response.body.contains("limit_exceeded"), "{}", response.body);
}

/// Most CPU time of the process for a statement through both doors. A few tenths of a second are usual; work for each
/// pair of words would take minutes. It is CPU time, so that other work on the machine does not matter.
const MONSTER_CPU: Duration = Duration::from_secs(5);

#[test]
fn monstrous_statements_are_answered_or_refused_without_much_ado() {
    let server = Server::empty(&[]);
    let statements = [
        ("a sum", format!("SELECT {}", vec!["1"; 100_000].join("+"))),
        ("an OR chain", format!("SELECT 1 WHERE {}", vec!["1=1"; 100_000].join(" OR "))),
        ("an OR chain over a column", {
            let terms: Vec<String> = (0..50_000).map(|i| format!("n={i}")).collect();
            format!("SELECT count(*) FROM generate_series(1, 9) AS s (n) WHERE {}", terms.join(" OR "))
        }),
        ("a UNION", vec!["SELECT 1"; 50_000].join(" UNION ALL ")),
        ("brackets", format!("SELECT {}1{}", "(".repeat(100_000), ")".repeat(100_000))),
        ("nested calls", format!("SELECT {}1{}", "abs(".repeat(100_000), ")".repeat(100_000))),
        ("NOT NOT NOT", format!("SELECT {} true", "NOT ".repeat(100_000))),
        ("signs", format!("SELECT {}1", "- ".repeat(100_000))),
        ("casts", format!("SELECT 1{}", "::bigint".repeat(50_000))),
        (
            "CASE in CASE",
            format!("SELECT {}1{}", "CASE WHEN true THEN ".repeat(20_000), " END".repeat(20_000)),
        ),
        ("a long list", format!("SELECT 1 WHERE 1 IN ({})", vec!["1"; 100_000].join(","))),
        ("a concatenation", format!("SELECT {}", vec!["'a'"; 100_000].join("||"))),
    ];
    for (name, sql) in &statements {
        let before = cpu_time(&server);
        ask_both_doors(&server, sql);
        let computed = cpu_time(&server) - before;
        assert!(computed < MONSTER_CPU, "{name} took {computed:?} of processor time");
        server.check_alive(name);
    }
}

/// Sends a statement to both doors, each of which must answer it.
fn ask_both_doors(server: &Server, sql: &str) {
    let response = server.try_query(sql);
    assert!(matches!(response.status, 200 | 400 | 413 | 501), "{}: {}", response.status, response.body);
    let received = send(server.postgres, &simple_query(sql));
    assert!(received.last_chunk() == Some(b"Z\x00\x00\x00\x05I"), "the statement did not end: {received:?}");
}

/// CPU time of the server's threads since it started, by `/proc/[pid]/stat`: proc(5), fields 14 and 15.
fn cpu_time(server: &Server) -> Duration {
    const TICKS_PER_SECOND: u64 = 100;
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.process.id())).unwrap();
    // The name in brackets may hold spaces; the field after it is the third.
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let ticks: Vec<u64> = fields.split(' ').skip(11).take(2).map(|ticks| ticks.parse().unwrap()).collect();
    Duration::from_millis((ticks[0] + ticks[1]) * 1000 / TICKS_PER_SECOND)
}

/// The messages of a PostgreSQL client that runs one statement and leaves.
fn simple_query(sql: &str) -> Vec<u8> {
    let mut bytes = STARTUP.to_vec();
    bytes.push(b'Q');
    bytes.extend(u32::try_from(sql.len() + 5).unwrap().to_be_bytes());
    bytes.extend(sql.as_bytes());
    bytes.extend(b"\0X\x00\x00\x00\x04");
    bytes
}

#[test]
fn a_log_for_programs_is_lines_of_json() {
    let server = Server::empty(&[("NYALA_LOG", "debug"), ("NYALA_LOG_FORMAT", "json")]);
    server.query("SELECT 1");
    let log = server.process.stderr();
    let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let lines: Vec<Value> = log.lines().map(read).collect();
    assert!(!lines.is_empty());
    for line in lines {
        assert!(["time", "level", "target", "message"].iter().all(|key| line[key].is_string()), "{line}");
        assert!(line["fields"].is_object(), "{line}");
    }
    let wrong = Server::empty(&[("NYALA_LOG_FORMAT", "xml")]);
    assert!(wrong.process.stderr().contains("ignoring `NYALA_LOG_FORMAT`"), "{}", wrong.process.stderr());
}

/// A client could write lines into the log that seem to be the server's.
#[test]
fn a_name_that_a_client_sends_ends_no_line_of_the_log() {
    let server = Server::empty(&[]);
    let parameters = b"\x00\x03\x00\x00user\0x\0database\0none\nforged\0\0";
    let length = u32::try_from(parameters.len() + 4).unwrap().to_be_bytes();
    send(server.postgres, &[length.as_slice(), parameters].concat());
    let is_there = || server.process.stderr().contains("refused a connection to database `none\\nforged`");
    eventually("the line of the log", PATIENCE, is_there);
}

#[test]
fn sigterm_lets_a_running_query_end() {
    let mut server = Server::empty(&[]);
    let (sql, usual) = query_of_about_a_second(&server);
    let address = server.http;
    let query = std::thread::spawn(move || send(address, &statement_request(&sql)));
    std::thread::sleep(usual / 4);
    server.process.signal("TERM");
    let answer = String::from_utf8_lossy(&query.join().unwrap()).into_owned();
    assert!(answer.starts_with("HTTP/1.0 200") && answer.contains("\"row_count\":1"), "{answer}");
    let finished = server.finish(Duration::from_secs(10));
    assert_eq!(finished.code, Some(0), "{finished:?}");
}

#[test]
fn a_stop_ends_within_the_grace() {
    for (name, signals) in
        [("SIGTERM", &["TERM"][..]), ("SIGINT", &["INT"]), ("two signals", &["TERM", "INT"])]
    {
        // With two signals the grace is too long to be waited for.
        let grace = if signals.len() == 1 { "1000" } else { "600000" };
        let mut server = Server::empty(&[("NYALA_SERVER__SHUTDOWN_GRACE_MS", grace)]);
        let address = server.http;
        let query = std::thread::spawn(move || send(address, &statement_request(ENDLESS)));
        let running = |server: &Server| server.get("/metrics").body.contains("queries_running 1");
        eventually("query running", PATIENCE, || running(&server));
        let asked = Instant::now();
        for signal in signals {
            server.process.signal(signal);
            // Two signals at once would count as one.
            std::thread::sleep(Duration::from_millis(300));
        }
        let postgres = server.postgres;
        let finished = server.finish(Duration::from_secs(20));
        // This is time for the grace, the cancel, the rest of the answer, and a busy machine.
        assert!(asked.elapsed() < Duration::from_secs(6), "{name} took {:?}", asked.elapsed());
        assert_eq!(finished.code, Some(0), "{name}: {finished:?}");
        let answer = String::from_utf8_lossy(&query.join().unwrap()).into_owned();
        assert!(
            answer.starts_with("HTTP/1.0 503") || answer.starts_with("HTTP/1.0 499"),
            "{name}: {answer:?}"
        );
        TcpStream::connect(postgres).unwrap_err();
    }
}

#[test]
fn an_idle_server_stops_at_once() {
    let mut server = Server::empty(&[]);
    let idle = [server.postgres, server.http].map(|door| TcpStream::connect(door).unwrap());
    server.process.signal("TERM");
    let asked = Instant::now();
    let finished = server.finish(PATIENCE);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(asked.elapsed() < Duration::from_secs(3), "took {:?}", asked.elapsed());
    drop(idle);
}

/// In a container a program gets only signals that it listens for, also while it starts: here it waits for a database that does not answer.
#[test]
fn a_server_that_starts_can_be_stopped() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    silent.set_nonblocking(true).unwrap();
    let catalog = format!("postgres://nyala@{}/nyala", silent.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    for name in ["TERM", "INT"] {
        let mut command = serve_anywhere();
        command.env("NYALA_CATALOG__URL", &catalog).env("NYALA_STORAGE__DATA", "s3://bucket/nyala/");
        let mut starting = Running::start(command.arg("--data-dir").arg(folder.path()));
        let mut connection = None;
        eventually("the catalog is asked for", PATIENCE, || {
            connection = silent.accept().ok();
            connection.is_some()
        });
        starting.signal(name);
        let asked = Instant::now();
        let finished = starting.finish(PATIENCE);
        assert_eq!(finished.code, Some(0), "{name}: {finished:?}");
        assert!(finished.stderr.contains("stopped before the server was ready"), "{name}: {finished:?}");
        assert!(asked.elapsed() < Duration::from_secs(5), "{name} took {:?}", asked.elapsed());
    }
}

/// Opening may compute for long, or wait for a disk that does not answer: here it reads a pipe that nothing is written to.
#[test]
fn a_server_that_is_held_up_while_it_starts_can_be_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().canonicalize().unwrap().join("password");
    run(Command::new("mkfifo").arg(&file));
    // While the pipe has a writer, reading it does not end.
    let _writer = File::options().read(true).write(true).open(&file).unwrap();
    let mut command = serve_anywhere();
    command.env("NYALA_SERVER__FIRST_PASSWORD_FILE", &file);
    let mut starting = Running::start(command.arg("--data-dir").arg(folder.path().join("data")));
    let descriptors = format!("/proc/{}/fd", starting.id());
    eventually("the file is read", PATIENCE, || {
        let mut open = std::fs::read_dir(&descriptors).into_iter().flatten().flatten();
        open.any(|descriptor| std::fs::read_link(descriptor.path()).is_ok_and(|target| target == file))
    });
    starting.signal("TERM");
    let finished = starting.finish(PATIENCE);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.stderr.contains("stopped before the server was ready"), "{finished:?}");
}

/// A query that keeps this machine busy for about a second, and how long it took.
fn query_of_about_a_second(server: &Server) -> (String, Duration) {
    let mut rows: u64 = 1_000_000;
    loop {
        let sql = format!("SELECT count(*) FROM generate_series(1, {rows}) AS s (n) WHERE n % 3 = 4");
        let begin = Instant::now();
        server.query(&sql);
        if begin.elapsed() > Duration::from_millis(800) {
            return (sql, begin.elapsed());
        }
        rows *= 2;
    }
}

#[test]
fn nyala_sql_tells_success_from_failure() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let in_data = |arguments: &[&str]| {
        let mut command = nyala(&["sql"]);
        command.args(arguments).arg("--data-dir").arg(&data);
        command
    };
    assert_eq!(try_run(&mut in_data(&["-c", "SELECT 1"])).code, Some(0));
    assert_eq!(try_run(&mut in_data(&["-c", ""])).code, Some(0));
    assert_eq!(run(&mut in_data(&["--format", "csv", "-c", "-- a comment\nSELECT 1 AS a"])), "a\n1\n");
    check_refused(&try_run(&mut in_data(&["-c", "SELECT nope"])), &["error: ", "`nope`"]);
    check_refused(&try_run(&mut in_data(&["/no/such.sql"])), &["cannot read `/no/such.sql`"]);
    assert_eq!(try_run(&mut in_data(&["--no-such-flag"])).code, Some(2));
    assert_eq!(try_run(&mut in_data(&["-c", "SELECT 1", "--format", "xml"])).code, Some(2));
    let nobody = try_run(&mut nyala(&["sql", "--url", "postgres://x@127.0.0.1:1/nyala", "-c", "SELECT 1"]));
    check_refused(&nobody, &["127.0.0.1:1"]);
    // Statements before the failure have taken effect, those after it have not.
    let half = try_run(&mut in_data(&["-c", "CREATE SCHEMA a; SELECT nope; CREATE SCHEMA b"]));
    check_refused(&half, &["`nope`"]);
    let listed = "SELECT schema_name FROM information_schema.schemata WHERE schema_name IN ('a', 'b')";
    assert_eq!(run(&mut in_data(&["--format", "csv", "-c", listed])), "schema_name\na\n");
    // Statements from standard input, with and without `-`.
    let script = folder.path().join("script.sql");
    std::fs::write(&script, "-- two\nSELECT 1 AS a;\nSELECT 'x;y' AS b;\n").unwrap();
    for arguments in [&["--format", "csv", "-"][..], &["--format", "csv"]] {
        let input = std::fs::File::open(&script).unwrap();
        assert_eq!(run(in_data(arguments).stdin(input)), "a\n1\nb\nx;y\n");
    }
    check_reader_that_leaves(&data);
}

/// A reader of the output that has read enough is no failure.
fn check_reader_that_leaves(data: &Path) {
    let many = "SELECT n FROM generate_series(1, 1000000) AS s (n) ORDER BY n";
    let mut command = nyala(&["sql", "--format", "csv", "-c", many, "--data-dir"]);
    let mut child = command.arg(data).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut begin = [0; 4];
    child.stdout.take().unwrap().read_exact(&mut begin).unwrap();
    assert_eq!(&begin, b"n\n1\n");
    let finished = child.wait_with_output().unwrap();
    assert_eq!((finished.status.code(), finished.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn results_are_written_as_csv_and_json() {
    let folder = tempfile::tempdir().unwrap();
    let values = "SELECT 9007199254740993 AS big, CAST(0.1 AS DOUBLE) AS f, CAST(12.50 AS DECIMAL(10, 2)) AS d, \
                  'a,\"b\"\nc' AS t, '' AS blank, NULL AS nothing, DATE '2024-02-29' AS day, true AS yes, 'žluť' AS u";
    let csv = "big,f,d,t,blank,nothing,day,yes,u\n\
               9007199254740993,0.1,12.50,\"a,\"\"b\"\"\nc\",\"\",,2024-02-29,true,žluť\n";
    let row = json!({"big": 9_007_199_254_740_993_i64, "f": 0.1, "d": 12.5, "t": "a,\"b\"\nc", "blank": "",
                     "nothing": null, "day": "2024-02-29", "yes": true, "u": "žluť"});
    let check = |connection: &[&str]| {
        let written =
            |format: &str, sql: &str| run(nyala(&["sql", "--format", format, "-c", sql]).args(connection));
        assert_eq!(written("csv", values), csv, "{connection:?}");
        let line: serde_json::Value = serde_json::from_str(&written("ndjson", values)).unwrap();
        assert_eq!(line, row, "{connection:?}");
        let document: serde_json::Value = serde_json::from_str(&written("json", values)).unwrap();
        assert_eq!(document["row_count"], 1, "{connection:?}");
        assert_eq!(
            document["columns"][0],
            json!({"name": "big", "type": "bigint",
            "nullable": document["columns"][0]["nullable"]})
        );
        let names = ["big", "f", "d", "t", "blank", "nothing", "day", "yes", "u"];
        let expected: Vec<_> = names.iter().map(|name| row[name].clone()).collect();
        assert_eq!(document["rows"], json!([expected]), "{connection:?}");
        // CSV has a header for no rows, and nothing for a statement that gives none.
        assert_eq!(written("csv", "SELECT 1 AS a WHERE false"), "a\n");
        assert_eq!(written("csv", "SET nyala.use_cubes = off"), "");
        assert!(written("table", "SELECT 1 AS a").contains("(1 row, "));
    };
    let data = folder.path().join("data");
    check(&["--data-dir", &data.to_string_lossy()]);
    let server = Server::start(&data);
    check(&["--url", &server.url()]);
}

fn serve_anywhere() -> Command {
    nyala(&["serve", "--postgres-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"])
}

fn check_refused(finished: &Finished, words: &[&str]) {
    assert_eq!(finished.code, Some(1), "{finished:?}");
    for word in words {
        assert!(finished.stderr.contains(word), "no {word:?} in {finished:?}");
    }
}
