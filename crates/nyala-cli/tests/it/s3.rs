//! Files on S3, from a server that knows buckets, objects and signatures.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde::Deserialize;
use serde_json::json;

use crate::harness::{assert_same, sorted};
use crate::program::{PATIENCE, Running, eventually, nyala, run, try_run};
use crate::python::script;
use crate::server::Server;
use crate::star::{queries, repository};

pub const BUCKET: &str = "warehouse";

/// A server with one bucket, and the parameters to use it.
pub struct S3 {
    access: Access,
    _process: Running,
}

#[derive(Deserialize)]
struct Access {
    endpoint: String,
    region: String,
    access_key_id: String,
    secret_access_key: String,
}

impl S3 {
    pub fn start() -> Self {
        let mut process = Running::start(script("s3_server.py").arg(BUCKET));
        eventually("S3 server", PATIENCE, || {
            assert!(process.is_running(), "{}", process.stderr());
            process.stdout().ends_with("}\n")
        });
        let access = serde_json::from_str(&process.stdout()).unwrap();
        Self { access, _process: process }
    }

    pub fn variables(&self) -> [(&str, &str); 5] {
        [
            ("NYALA_STORAGE__S3__ENDPOINT", &self.access.endpoint),
            ("NYALA_STORAGE__S3__REGION", &self.access.region),
            ("NYALA_STORAGE__S3__ACCESS_KEY_ID", &self.access.access_key_id),
            ("NYALA_STORAGE__S3__SECRET_ACCESS_KEY", &self.access.secret_access_key),
            ("NYALA_STORAGE__S3__ALLOW_HTTP", "true"),
        ]
    }

    pub fn proxy(&self) -> Proxy {
        Proxy::start(&self.access.endpoint)
    }

    pub fn serve(&self, data_dir: &Path) -> Server {
        Server::start_with(data_dir, &self.variables())
    }

    fn generate(&self, scale: &str, arguments: &[&str]) {
        let out = format!("s3://{BUCKET}/ssb/");
        let mut command = nyala(&["gen", "ssb", "--scale", scale, "--out", &out]);
        let summary = run(command.args(arguments).envs(self.variables()));
        assert!(summary.contains(&format!("{out}lineorder/")), "{summary}");
    }
}

#[test]
fn a_cube_over_objects_answers_until_they_are_replaced() {
    let s3 = S3::start();
    s3.generate("0.01", &[]);
    let folder = tempfile::tempdir().unwrap();
    let server = s3.serve(folder.path());
    let benchmark =
        |name| std::fs::read_to_string(repository("benchmarks/ssb").join(name)).expect("statements");
    let tables = benchmark("tables.sql").replace("${DATA}", &format!("s3://{BUCKET}/ssb"));
    for line in tables.lines().filter(|line| line.starts_with("CREATE")) {
        server.query(line.trim_end_matches(';'));
    }
    server.query(&benchmark("cube.sql"));
    server.query("BUILD CUBE ssb");
    check_answers(&server);

    // Other objects get the same names.
    s3.generate("0.02", &["--overwrite"]);
    let checked = json!({"nyala.check_files": "on"});
    for (name, sql) in queries() {
        let report = server.query_with(&format!("EXPLAIN {sql}"), &checked)[0][1].clone();
        assert!(report.starts_with("answered from the tables"), "{name}\n{report}");
        assert!(report.contains("changed since it was built"), "{name}\n{report}");
        let current = sorted(server.query_with(&sql, &checked));
        assert_same(&name, &current, &sorted(server.query_tables(&sql)));
    }
    assert_eq!(server.query("SHOW CUBES")[0][2], "stale");
    server.query("BUILD CUBE ssb");
    check_answers(&server);
}

/// S3 answers so when a connection was idle for too long. The client takes this error for final.
const TIMED_OUT: &str =
    "<Error><Code>RequestTimeout</Code><Message>Idle connections will be closed.</Message></Error>";

#[test]
fn a_store_that_fails_for_a_moment_delays_a_build_and_nothing_else() {
    let s3 = S3::start();
    s3.generate("0.01", &[]);
    let proxy = Proxy::start(&s3.access.endpoint);
    let folder = tempfile::tempdir().unwrap();
    let mut variables = s3.variables().to_vec();
    variables[0].1 = &proxy.url;
    // With a cache, the second build would find all rows there.
    variables.push(("NYALA_STORAGE__CACHE__ENABLED", "false"));
    let server = Server::start_with(folder.path(), &variables);
    let benchmark =
        |name| std::fs::read_to_string(repository("benchmarks/ssb").join(name)).expect("statements");
    let tables = benchmark("tables.sql").replace("${DATA}", &format!("s3://{BUCKET}/ssb"));
    for line in tables.lines().filter(|line| line.starts_with("CREATE")) {
        server.query(line.trim_end_matches(';'));
    }
    let months = "ssb PARTITION BY RANGE (lo_orderdate) EVERY INTERVAL '1 year' AS";
    for definition in [benchmark("cube.sql"), benchmark("cube.sql").replace("ssb AS", months)] {
        server.query(&definition);
        // The build first reads the values of dimensions, then the rows.
        for lucky in [0, 1] {
            proxy.fail_after(lucky);
            server.query("REFRESH CUBE ssb");
            let job = server.query("SHOW JOBS").swap_remove(0);
            assert_eq!(job[3], "done", "{lucky}: {job:?}");
            // The ranges of a partitioned cube are found before there is a job that counts what was retried.
            let retried: &[&str] = if definition.contains("PARTITION") { &["0", "1"] } else { &["1"] };
            assert!(retried.contains(&job[14].as_str()), "{lucky}: {job:?}");
            assert!(!proxy.is_armed(), "{lucky}: nothing failed");
            check_answers(&server);
            let findings = server.query("CHECK CUBE ssb SAMPLE 5");
            assert!(findings.iter().all(|row| row[3] == "ok"), "{findings:?}");
        }
        server.query("DROP CUBE ssb");
    }
}

/// Passes requests on to a store, except for one request, or for all.
pub struct Proxy {
    pub url: String,
    /// One more than the requests for rows of the fact table that are passed on before one is answered with an error; 0 when all are
    /// passed on.
    armed: Arc<AtomicUsize>,
    /// Whether no request is answered.
    closed: Arc<AtomicBool>,
}

impl Proxy {
    fn start(endpoint: &str) -> Self {
        let store: SocketAddr = endpoint.trim_start_matches("http://").parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (armed, closed) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let (counter, is_closed) = (Arc::clone(&armed), Arc::clone(&closed));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten().filter(|_| !is_closed.load(Ordering::SeqCst)) {
                let counter = Arc::clone(&counter);
                // A client that leaves in between is no failure of this test.
                std::thread::spawn(move || hand_on(client, store, &counter).ok());
            }
        });
        Self { url, armed, closed }
    }

    /// Leaves all requests unanswered from now on, or answers them again.
    pub fn close(&self, closed: bool) {
        self.closed.store(closed, Ordering::SeqCst);
    }

    fn fail_after(&self, requests: usize) {
        self.armed.store(requests + 1, Ordering::SeqCst);
    }

    fn is_armed(&self) -> bool {
        self.armed.load(Ordering::SeqCst) > 0
    }
}

/// Serves one request a connection: the client is told to connect anew for the next.
fn hand_on(client: TcpStream, store: SocketAddr, armed: &AtomicUsize) -> std::io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
        if !lower.starts_with("connection:") {
            head.push_str(&line);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let mut client = client;
    let reads_rows = head.starts_with("GET") && head.contains("/lineorder/lineorder-");
    let last = |left: usize| left.checked_sub(1);
    if reads_rows && armed.fetch_update(Ordering::SeqCst, Ordering::SeqCst, last) == Ok(1) {
        let length = TIMED_OUT.len();
        let head =
            format!("HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
        return client.write_all((head + TIMED_OUT).as_bytes());
    }
    let mut store = TcpStream::connect(store)?;
    store.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes())?;
    store.write_all(&body)?;
    std::io::copy(&mut store, &mut client)?;
    Ok(())
}

fn check_answers(server: &Server) {
    let mut rows = 0;
    for (name, sql) in queries() {
        let report = server.explain(&sql);
        assert!(report.starts_with("answered from cube"), "{name}\n{report}");
        let from_cube = sorted(server.query(&sql));
        assert_same(&name, &from_cube, &sorted(server.query_tables(&sql)));
        rows += from_cube.len();
    }
    assert!(rows > 100, "only {rows} rows in all answers");
}

#[test]
fn what_is_not_there_is_said_when_the_table_is_created() {
    let s3 = S3::start();
    let folder = tempfile::tempdir().unwrap();
    let server = s3.serve(folder.path());
    let check = |location: &str, words: &str| {
        let sql = format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{location}'");
        let response = server.try_query(&sql);
        assert_ne!(response.status, 200, "{sql}");
        assert!(response.body.contains(words), "{}", response.body);
        assert!(!response.body.contains("<Error>"), "{}", response.body);
        assert_eq!(server.try_query("SELECT 1 FROM t").status, 400, "{sql}");
    };
    check(&format!("s3://{BUCKET}/nothing/"), "/nothing/` holds no readable file");
    check(&format!("s3://{BUCKET}/nothing.parquet"), "nothing.parquet");
    check("s3://wharehouse/ssb/", "bucket `wharehouse` does not exist");
    let mut command = nyala(&["gen", "ssb", "--scale", "0.001", "--out", "s3://wharehouse/ssb/"]);
    let failed = try_run(command.envs(s3.variables()));
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.stderr.contains("bucket `wharehouse` does not exist"), "{}", failed.stderr);
    assert!(!failed.stderr.contains("<Error>"), "{}", failed.stderr);
}

#[test]
fn refused_credentials_are_named_and_no_secret_is_told() {
    let s3 = S3::start();
    s3.generate("0.001", &[]);
    let create = format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 's3://{BUCKET}/ssb/lineorder/'");
    for (variable, value, reason) in [
        ("NYALA_STORAGE__S3__SECRET_ACCESS_KEY", "wrong/Secret+Of+Nobody", "SignatureDoesNotMatch"),
        ("NYALA_STORAGE__S3__ACCESS_KEY_ID", "AKIAOFNOBODY", "InvalidAccessKeyId"),
    ] {
        let secret = match variable {
            "NYALA_STORAGE__S3__SECRET_ACCESS_KEY" => value,
            _ => &s3.access.secret_access_key,
        };
        let folder = tempfile::tempdir().unwrap();
        let out = format!("s3://{BUCKET}/other/");
        for arguments in [
            vec!["sql", "--data-dir", folder.path().to_str().unwrap(), "-c", &create],
            vec!["gen", "ssb", "--scale", "0.001", "--out", &out],
            vec!["config"],
        ] {
            let mut command = nyala(&arguments);
            command.envs(s3.variables()).env(variable, value).env("RUST_LOG", "debug");
            let finished = try_run(&mut command);
            let said = format!("{}{}", finished.stdout, finished.stderr);
            if arguments != ["config"] {
                assert_eq!(finished.code, Some(1), "{said}");
                let words = format!("access to bucket `{BUCKET}` was refused: {reason}");
                assert!(said.contains(&words), "{said}");
            }
            assert!(!said.contains(secret), "the secret is told by {arguments:?}");
        }
    }
}
