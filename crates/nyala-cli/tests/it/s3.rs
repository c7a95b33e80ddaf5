//! Files on S3, from a server that knows buckets, objects and signatures.

use std::path::Path;

use serde::Deserialize;
use serde_json::json;

use crate::harness::{assert_same, sorted};
use crate::program::{PATIENCE, Running, eventually, nyala, run, try_run};
use crate::python::script;
use crate::server::Server;
use crate::star::{queries, repository};

const BUCKET: &str = "warehouse";

/// A server with one bucket, and what to know to use it.
struct S3 {
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
    fn start() -> Self {
        let mut process = Running::start(script("s3_server.py").arg(BUCKET));
        eventually("S3 server", PATIENCE, || {
            assert!(process.is_running(), "{}", process.stderr());
            process.stdout().ends_with("}\n")
        });
        let access = serde_json::from_str(&process.stdout()).unwrap();
        Self { access, _process: process }
    }

    fn variables(&self) -> [(&str, &str); 5] {
        [
            ("NYALA_STORAGE__S3__ENDPOINT", &self.access.endpoint),
            ("NYALA_STORAGE__S3__REGION", &self.access.region),
            ("NYALA_STORAGE__S3__ACCESS_KEY_ID", &self.access.access_key_id),
            ("NYALA_STORAGE__S3__SECRET_ACCESS_KEY", &self.access.secret_access_key),
            ("NYALA_STORAGE__S3__ALLOW_HTTP", "true"),
        ]
    }

    fn serve(&self, data_dir: &Path) -> Server {
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

    // Other objects under the same names.
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
