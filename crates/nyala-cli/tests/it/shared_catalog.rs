//! Nodes that share a catalog in PostgreSQL and cuboids in a bucket.

use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use nyala_testing::PostgresServer;
use tempfile::TempDir;

use crate::forwarding::{VARIABLES, two};
use crate::program::{Finished, PATIENCE, Running, eventually, nyala, run, try_run};
use crate::s3::{BUCKET, S3};
use crate::server::Server;

const SUM: &str = "SELECT d, sum(v) FROM t GROUP BY d ORDER BY d";

/// A bucket and a database.
pub struct Shared {
    s3: S3,
    postgres: PostgresServer,
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

    /// The node of a data folder.
    pub fn serve_folder(&self, folder: TempDir, more: &[(&str, &str)]) -> Node {
        let mut variables = self.variables();
        variables.extend(more);
        Node { server: Server::start_with(folder.path(), &variables), folder }
    }

    /// Starts a node, and does not wait until it serves.
    fn begin_node(&self, data_dir: &Path, more: &[(&str, &str)]) -> Running {
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
    /// Sends its process a signal.
    pub fn signal(&mut self, name: &str) {
        self.server.process.signal(name);
    }

    /// Waits for its end, after it was asked to stop.
    pub fn finish(self) -> Finished {
        self.server.finish(PATIENCE)
    }

    /// Ends it at once; returns its data folder.
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

fn is_answered_from_cube(server: &Server) -> bool {
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
    // Both change the catalog: neither works on what the other has replaced.
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
    // The right to alter it is given back behind the statement.
    eventually("the other node switches it on", PATIENCE, || {
        other.try_query("ALTER CUBE c SET (answers = on)").status == 200
    });
    eventually("the cube is on again", PATIENCE, || is_answered_from_cube(&one));
    let jobs = other.query("SHOW JOBS");
    assert_eq!(jobs[0][3], "done", "{jobs:?}");
    let nodes = other.query("SELECT state, count(*) FROM system.nodes GROUP BY state");
    assert_eq!(nodes, [["serving", "2"]]);
    // What one asked, the other gives advice for.
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
        // The node dies meanwhile.
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
    // As if the time of the lease were over, and that of the node.
    shared.in_catalog("UPDATE nyala.leases SET until = clock_timestamp() - interval '1 s'");
    other.query("BUILD CUBE c");
    assert!(is_answered_from_cube(&other));
    assert_eq!(other.query(SUM), other.query_tables(SUM));
    assert_eq!(other.query("SELECT state, count(*) FROM system.segments GROUP BY state"), [["ready", "1"]]);
    // Another node comes in the same moment, and stays: as many nodes are there as before.
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
fn queries_go_on_while_postgresql_is_away() {
    let shared = Shared::new();
    let node = shared.node();
    shared.with_cube(&node, 5000);
    node.query("BUILD CUBE c");
    let expected = node.query(SUM);
    shared.postgres.stop();
    assert_eq!(node.query(SUM), expected);
    assert!(is_answered_from_cube(&node));
    let refused = node.try_query("CREATE SCHEMA mart");
    assert!(refused.body.contains("the catalog in PostgreSQL at"), "{}", refused.body);
    assert_eq!(refused.status, 503, "{}", refused.body);
    shared.postgres.run();
    node.query("CREATE SCHEMA mart");
    node.query("REFRESH CUBE c");
    assert_eq!(node.query(SUM), expected);
}

#[test]
fn queries_go_on_while_postgresql_hangs() {
    let shared = Shared::new();
    let node = shared.node();
    shared.with_cube(&node, 5000);
    node.query("BUILD CUBE c");
    let expected = node.query(SUM);
    shared.postgres.pause();
    std::thread::scope(|scope| {
        let changing = scope.spawn(|| node.try_query("CREATE SCHEMA mart"));
        assert_eq!(node.query(SUM), expected);
        assert!(is_answered_from_cube(&node));
        // The node cannot tell whether PostgreSQL made the schema.
        let refused = changing.join().unwrap();
        assert!(
            refused.status >= 500 && refused.body.contains("catalog"),
            "{} {}",
            refused.status,
            refused.body
        );
    });
    shared.postgres.resume();
    eventually("a change once it answers", PATIENCE, || {
        node.try_query("CREATE SCHEMA IF NOT EXISTS mart").status == 200
    });
    assert_eq!(node.query(SUM), expected);
}

/// While no node can tell that it lives, none is taken for dead; nor afterwards, until all have told again.
#[test]
fn nodes_reach_each_other_while_postgresql_is_away() {
    let shared = Shared::new();
    let (owner, other) = two(&shared);
    let there = owner.query("SELECT node FROM system.local_queries")[0][0].clone();
    let states = "SELECT state, count(*) FROM system.nodes GROUP BY state";
    eventually("both nodes", PATIENCE, || other.query(states) == [["serving", "2"]]);
    shared.postgres.stop();
    let mut rows = 3;
    // A node that tells nothing for ten seconds while PostgreSQL answers is dead.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(14) {
        rows += 1;
        other.query(&format!("INSERT INTO t VALUES ({rows}, 'x')"));
        assert_eq!(other.query("SELECT count(*) FROM t"), [[rows.to_string()]]);
        assert_eq!(other.query(states), [["serving", "2"]]);
        std::thread::sleep(Duration::from_millis(200));
    }
    let asked = other.try_query(&format!("KILL QUERY 4711 ON NODE '{there}'"));
    assert!(asked.body.contains(&format!("is running on node `{there}`")), "{}", asked.body);
    shared.postgres.run();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(6) {
        assert_eq!(other.query(states), [["serving", "2"]]);
        assert_eq!(other.query("SELECT count(*) FROM t"), [[rows.to_string()]]);
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A client that is told of a failure repeats its statement, and the rows would count twice.
#[test]
fn what_another_node_has_written_is_written_although_the_catalog_is_away() {
    let shared = Shared::new();
    let (owner, mut other) = two(&shared);
    let one = "INSERT INTO t VALUES (4, 'd')";
    // The owner knows a newer catalog than the node that is asked, which cannot read it any more.
    other.signal("STOP");
    owner.query("CREATE SCHEMA newer");
    shared.postgres.stop();
    other.signal("CONT");
    // The connection of the two may have broken meanwhile; a query is sent again.
    eventually("the owner", PATIENCE, || other.try_query("SELECT count(*) FROM t").status == 200);
    let written = other.try_query(one);
    assert_eq!(written.status, 200, "{}", written.body);
    assert_eq!(other.query("SELECT count(*) FROM t"), [["4"]]);
    assert_eq!(owner.query("SELECT count(*) FROM t"), [["4"]]);
    shared.postgres.run();
    eventually("the newer catalog", PATIENCE, || {
        other.try_query("DROP SCHEMA IF EXISTS newer").status == 200
    });
}

/// An alteration is made before segments are dropped for it.
#[test]
fn a_cube_is_altered_although_its_old_segments_cannot_be_dropped() {
    let shared = Shared::new();
    let node = shared.node();
    shared.with_cube(&node, 5000);
    node.query("CREATE CUBE s PARTITION BY RANGE (d) EVERY 1 AS SELECT d, sum(v) FROM t GROUP BY d");
    node.query("BUILD CUBE s");
    let segments =
        || node.query("SELECT segment FROM system.segments WHERE cube = 's' AND state = 'ready'").len();
    assert_eq!(segments(), 10);
    shared.in_catalog(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$; \
         CREATE TRIGGER refuse BEFORE DELETE ON nyala.entries FOR EACH ROW WHEN (OLD.kind = 'segment') \
         EXECUTE FUNCTION refuse()",
    );
    node.query("ALTER CUBE s SET (retention = 3)");
    assert_eq!(segments(), 10);
    shared.in_catalog("DROP TRIGGER refuse ON nyala.entries");
    node.query("ALTER CUBE s SET (retention = 2)");
    assert!(segments() < 10);
}

/// Otherwise the others wait for its connection at each restart.
#[test]
fn a_node_that_starts_tells_its_address_once_it_serves() {
    let shared = Shared::new();
    let other = shared.node_with(&VARIABLES);
    shared.with_cube(&other, 5000);
    other.query("BUILD CUBE c");
    // A bucket that does not answer delays the start by some seconds.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let [listen, secret] = VARIABLES;
    let endpoint = ("NYALA_STORAGE__S3__ENDPOINT", endpoint.as_str());
    let _starting = shared.begin_node(folder.path(), &[listen, secret, endpoint]);
    let states = "SELECT state, address IS NULL FROM system.nodes ORDER BY state";
    eventually("the node that starts", PATIENCE, || {
        other.query(states) == [["serving", "false"], ["starting", "true"]]
    });
    eventually("the node that serves", PATIENCE, || {
        other.query(states) == [["serving", "false"], ["serving", "false"]]
    });
}

#[test]
fn a_node_that_stops_says_so_until_its_last_statement_has_ended() {
    let shared = Shared::new();
    let (mut one, other) = (shared.node(), shared.node());
    let name = one.query("SELECT node FROM system.local_queries")[0][0].clone();
    let address = one.http;
    let running = std::thread::spawn(move || {
        let sql = "SELECT count(*) FROM generate_series(1, 1000000) a(x), generate_series(1, 1000000) b(y) WHERE x + y = 1";
        crate::server::send(address, &crate::server::statement_request(sql))
    });
    eventually("the statement", PATIENCE, || one.query("SELECT query FROM system.local_queries").len() == 2);
    one.signal("TERM");
    let state = format!("SELECT state FROM system.nodes WHERE node = '{name}'");
    eventually("the node that stops", PATIENCE, || other.query(&state) == [["stopping"]]);
    let answer = String::from_utf8_lossy(&running.join().unwrap()).into_owned();
    assert!(answer.contains("the server stopped before the statement ended"), "{answer}");
    eventually("its end", PATIENCE, || other.query(&state).is_empty());
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
    // Its next start is the later one.
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

/// A node that keeps cuboids elsewhere would not find those that there are.
fn check_no_place_of_others(shared: &Shared, data_dir: &Path) {
    let mut command = nyala(&["serve", "--http-listen", "127.0.0.1:0", "--postgres-listen", "127.0.0.1:0"]);
    command.arg("--data-dir").arg(data_dir).envs(shared.variables());
    let refused = try_run(command.env("NYALA_STORAGE__DATA", format!("s3://{BUCKET}/other/")));
    assert!(refused.stderr.contains(&shared.place), "{}", refused.stderr);
}
