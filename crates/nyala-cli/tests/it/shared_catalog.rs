//! Nodes that share a catalog in PostgreSQL and cuboids in a bucket.

use std::path::Path;
use std::time::Duration;

use nyala_testing::PostgresServer;
use tempfile::TempDir;

use crate::program::{Finished, PATIENCE, Running, eventually, nyala, run, try_run};
use crate::s3::{BUCKET, S3};
use crate::server::Server;

pub const SUM: &str = "SELECT d, sum(v) FROM t GROUP BY d ORDER BY d";

/// A bucket and a database.
pub struct Shared {
    s3: S3,
    pub postgres: PostgresServer,
    url: String,
    place: String,
}

impl Shared {
    pub fn new() -> Self {
        let postgres = PostgresServer::start();
        let url = postgres.create_database();
        Self { s3: S3::start(), postgres, url, place: format!("s3://{BUCKET}/nyala/") }
    }

    fn variables(&self) -> Vec<(&str, &str)> {
        let mut variables = self.s3.variables().to_vec();
        variables.push(("NYALA_CATALOG__URL", &self.url));
        variables.push(("NYALA_STORAGE__DATA", &self.place));
        variables
    }

    pub fn node(&self) -> Node {
        self.node_with(&[])
    }

    /// A node with further variables.
    pub fn node_with(&self, more: &[(&str, &str)]) -> Node {
        self.serve_folder(tempfile::tempdir().unwrap(), more)
    }

    /// A node over this data folder.
    pub fn serve_folder(&self, folder: TempDir, more: &[(&str, &str)]) -> Node {
        let mut variables = self.variables();
        variables.extend(more);
        Node { server: Server::start_with(folder.path(), &variables), folder }
    }

    /// Starts a node, and does not wait until it serves.
    pub fn begin_node(&self, data_dir: &Path, more: &[(&str, &str)]) -> Running {
        let mut command =
            nyala(&["serve", "--postgres-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"]);
        command.arg("--data-dir").arg(data_dir).envs(self.variables()).envs(more.iter().copied());
        Running::start(&mut command)
    }

    /// Runs a statement in the database of the catalog.
    pub fn in_catalog(&self, sql: &str) {
        assert!(self.postgres.query("test0", sql), "{sql}");
    }

    /// Makes table `t` and cube `c` over rows in the bucket.
    pub fn with_cube(&self, server: &Server, rows: u32) {
        let file = format!("s3://{BUCKET}/t.parquet");
        let sql = format!(
            "SELECT v % 10 AS d, v % 1000 AS e, v % 777 AS f, v FROM generate_series(1, {rows}) AS s(v)"
        );
        server.query(&format!("COPY ({sql}) TO '{file}'"));
        server.query(&format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{file}'"));
        server.query("CREATE CUBE c AS SELECT d, e, f, sum(v), count(*) FROM t GROUP BY CUBE (d, e, f)");
    }
}

/// A node and its data folder.
pub struct Node {
    server: Server,
    folder: TempDir,
}

impl Node {
    /// Sends a signal to the node's process.
    pub fn signal(&mut self, name: &str) {
        self.server.process.signal(name);
    }

    /// Waits for the end of a node that was asked to stop.
    pub fn finish(self) -> Finished {
        self.server.finish(PATIENCE)
    }

    /// Kills the node; returns its data folder.
    pub fn kill(self) -> TempDir {
        drop(self.server);
        self.folder
    }
}

impl std::ops::Deref for Node {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

pub fn is_answered_from_cube(server: &Server) -> bool {
    server.explain(SUM).starts_with("answered from cube")
}

#[test]
fn what_one_node_does_the_others_know() {
    let shared = Shared::new();
    let (one, other) = (shared.node(), shared.node());
    one.query("CREATE SCHEMA mart");
    one.query("CREATE ROLE ann LOGIN");
    eventually("the schema on the other node", Duration::from_secs(5), || {
        other.query("SELECT schema_name FROM information_schema.schemata WHERE schema_name = 'mart'").len()
            == 1
    });
    // Both nodes change the catalog: neither works on a version that the other has replaced.
    other.query("CREATE SCHEMA stage");
    let refused = one.try_query("CREATE SCHEMA stage");
    assert!(refused.body.contains("schema `stage` already exists"), "{}", refused.body);

    shared.with_cube(&one, 5000);
    one.query("BUILD CUBE c");
    eventually("the cube on the other node", PATIENCE, || {
        other.try_query(SUM).status == 200 && is_answered_from_cube(&other)
    });
    assert_eq!(other.query(SUM), one.query_tables(SUM));
    one.query("ALTER CUBE c SET (answers = off)");
    eventually("the cube is off on the other node", PATIENCE, || !is_answered_from_cube(&other));
    // The lease of the cube is released after the statement.
    eventually("the other node switches it on", PATIENCE, || {
        other.try_query("ALTER CUBE c SET (answers = on)").status == 200
    });
    eventually("the cube is on again", PATIENCE, || is_answered_from_cube(&one));
    let jobs = other.query("SHOW JOBS");
    assert_eq!(jobs[0][3], "done", "{jobs:?}");
    let nodes = other.query("SELECT state, count(*) FROM system.nodes GROUP BY state");
    assert_eq!(nodes, [["serving", "2"]]);
    // The history of one node's queries reaches the other one, for its advice.
    one.query("SELECT e, max(v) FROM t GROUP BY e");
    eventually("the other's query history", PATIENCE, || {
        let history = other.query("SHOW QUERY HISTORY");
        history.iter().any(|row| row.iter().any(|cell| cell.contains("max")))
    });

    let local = one.try_query("CREATE EXTERNAL TABLE l STORED AS CSV LOCATION '/etc/passwd'");
    assert!(local.body.contains("allowed_locations"), "{}", local.body);
    one.query("CREATE LIVE TABLE far (id BIGINT PRIMARY KEY)");
    eventually("the table of the other node", PATIENCE, || {
        other.try_query("SELECT * FROM far").body.contains("is not reached")
    });
    drop(one);
    eventually("a node that is gone", PATIENCE, || {
        other.query("SELECT count(*) FROM system.nodes WHERE state = 'silent'") == [["1"]]
    });
    assert_eq!(other.query(SUM), other.query_tables(SUM));
}

#[test]
fn every_node_sees_that_files_changed() {
    let shared = Shared::new();
    let often = [("NYALA_CUBES__CHECK_FILES_MS", "100")];
    let (one, other) = (shared.node_with(&often), shared.node_with(&often));
    let copy = |part: u32| {
        let rows = format!("generate_series({}, {}) AS s(v)", part * 1000, part * 1000 + 999);
        one.query(&format!("COPY (SELECT v % 10 AS d, v FROM {rows}) TO 's3://{BUCKET}/f/{part}.parquet'"));
    };
    copy(0);
    one.query(&format!("CREATE EXTERNAL TABLE f STORED AS PARQUET LOCATION 's3://{BUCKET}/f/'"));
    one.query("CREATE CUBE g AS SELECT d, sum(v) FROM f GROUP BY d");
    one.query("BUILD CUBE g");
    let sql = "SELECT d, sum(v) FROM f GROUP BY d ORDER BY d";
    let is_from_cube = |node: &Server| node.explain(sql).starts_with("answered from cube");
    eventually("the cube on both nodes", PATIENCE, || is_from_cube(&one) && is_from_cube(&other));
    copy(1);
    for node in [&one, &other] {
        eventually("cells of old files are not used", PATIENCE, || !is_from_cube(node));
        assert_eq!(node.query(sql), node.query_tables(sql));
    }
    other.query("REFRESH CUBE g");
    eventually("the new cells on both nodes", PATIENCE, || is_from_cube(&one) && is_from_cube(&other));
    assert_eq!(one.query(sql), other.query_tables(sql));
}

#[test]
fn a_build_of_a_node_that_died_is_made_by_another() {
    let shared = Shared::new();
    let (one, other) = (shared.node(), shared.node());
    shared.with_cube(&one, 1_000_000);
    eventually("the cube on the other node", PATIENCE, || other.query("SHOW CUBES").len() == 1);
    let address = one.http;
    let building = std::thread::spawn(move || {
        // The node is killed while it builds.
        let request = "{\"sql\": \"BUILD CUBE c\"}";
        let head = format!(
            "POST /api/v1/query HTTP/1.0\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            request.len()
        );
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        std::io::Write::write_all(&mut stream, (head + request).as_bytes()).unwrap();
        let _ = std::io::Read::read_to_end(&mut stream, &mut Vec::new());
    });
    eventually("a segment that is being built", PATIENCE, || {
        other.query("SELECT count(*) FROM system.segments WHERE state = 'building'") == [["1"]]
    });
    let refused = other.try_query("BUILD CUBE c");
    assert!(refused.body.contains("is being built or altered on another node"), "{}", refused.body);
    let refused = other.try_query("ALTER CUBE c ADD MEASURE max(v)");
    assert!(refused.body.contains("is being built or altered on another node"), "{}", refused.body);
    for (answers, shown) in [("off", "false"), ("on", "true")] {
        other.query(&format!("ALTER CUBE c SET (answers = {answers})"));
        assert_eq!(other.query("SELECT answers FROM system.cubes"), [[shown]]);
    }
    drop(one);
    building.join().unwrap();
    assert_eq!(other.query("SELECT state FROM system.jobs"), [["running"]]);
    let refused = other.try_query("BUILD CUBE c");
    assert!(refused.body.contains("is being built or altered on another node"), "{}", refused.body);
    // Ends the leases, as if their time were over.
    shared.in_catalog("UPDATE nyala.leases SET until = clock_timestamp() - interval '1 s'");
    other.query("BUILD CUBE c");
    assert!(is_answered_from_cube(&other));
    assert_eq!(other.query(SUM), other.query_tables(SUM));
    assert_eq!(other.query("SELECT state, count(*) FROM system.segments GROUP BY state"), [["ready", "1"]]);
    // Another node comes in the same moment, and stays: the number of nodes does not change.
    shared.in_catalog(
        "WITH dead AS (UPDATE nyala.nodes SET beat_at = beat_at - interval '5 min' \
         WHERE beat_at < clock_timestamp() - interval '3 s' RETURNING body) \
         INSERT INTO nyala.nodes (id, beat_at, body) SELECT 'another', clock_timestamp() + interval '1 h', \
         regexp_replace(body, '\"id\": ?\"[^\"]*\"', '\"id\":\"another\"') FROM dead LIMIT 1",
    );
    eventually("the job of the dead node", PATIENCE, || {
        other.query("SELECT state, error FROM system.jobs ORDER BY job").swap_remove(0)[1]
            .contains("stopped while it ran")
    });
}

#[test]
fn a_copied_data_folder_makes_no_second_node_of_one_name() {
    let shared = Shared::new();
    let one = shared.node();
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(one.folder.path().join("node"), folder.path().join("node")).unwrap();
    let copy = shared.serve_folder(folder, &[]);
    let has_given_way =
        |node: &Server| node.try_query("SELECT 1").body.contains("another process runs as node");
    eventually("the process that started first gives way", PATIENCE, || has_given_way(&one));
    assert_eq!(one.get("/readyz").status, 503);
    assert_eq!(copy.query("SELECT count(*) FROM system.nodes"), [["1"]]);
    // With its next start, the first node is the later one.
    let one = shared.serve_folder(one.kill(), &[]);
    eventually("the copy gives way", PATIENCE, || has_given_way(&copy));
    one.query("CREATE SCHEMA mart");
}

#[test]
fn a_database_that_outgrew_its_machine_gets_further_nodes() {
    let shared = Shared::new();
    let folder = tempfile::tempdir().unwrap();
    let alone = Server::start_with(folder.path(), &shared.s3.variables());
    shared.with_cube(&alone, 5000);
    alone.query("BUILD CUBE c");
    alone.query("CREATE LIVE TABLE l (id BIGINT PRIMARY KEY)");
    alone.query("INSERT INTO l VALUES (7)");
    let expected = alone.query(SUM);
    drop(alone);
    let command = |arguments: &[&str]| {
        let mut command = nyala(arguments);
        command.arg("--data-dir").arg(folder.path()).envs(shared.variables());
        command
    };
    let early = try_run(&mut command(&["serve"]));
    assert!(early.stderr.contains("nyala catalog move"), "{}", early.stderr);
    let early = try_run(&mut command(&["catalog", "move"]));
    assert!(early.stderr.contains("nyala storage move"), "{}", early.stderr);
    run(&mut command(&["storage", "move", &shared.place]));
    let report = run(&mut command(&["catalog", "move"]));
    assert!(report.contains("1 tables, 1 cubes") || report.contains("2 tables, 1 cubes"), "{report}");
    let one = Server::start_with(folder.path(), &shared.variables());
    let other = shared.node();
    for node in [&one, &other.server] {
        assert_eq!(node.query(SUM), expected);
        assert!(is_answered_from_cube(node));
    }
    assert_eq!(one.query("SELECT id FROM l"), [["7"]]);
    one.query("INSERT INTO l VALUES (8)");
    other.query("REFRESH CUBE c");
    assert_eq!(other.query(SUM), expected);
    check_no_place_of_others(&shared, &folder.path().join("none"));
}

/// A node with another place of cuboids would not find the existing ones.
fn check_no_place_of_others(shared: &Shared, data_dir: &Path) {
    let mut command = nyala(&["serve", "--http-listen", "127.0.0.1:0", "--postgres-listen", "127.0.0.1:0"]);
    command.arg("--data-dir").arg(data_dir).envs(shared.variables());
    let refused = try_run(command.env("NYALA_STORAGE__DATA", format!("s3://{BUCKET}/other/")));
    assert!(refused.stderr.contains(&shared.place), "{}", refused.stderr);
}
