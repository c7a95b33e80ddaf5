//! Builds of cubes of which several nodes make the segments.

use std::thread::JoinHandle;

use serde_json::json;

use crate::forwarding::VARIABLES;
use crate::program::{PATIENCE, eventually};
use crate::s3::BUCKET;
use crate::server::{Server, send, statement_request};
use crate::shared_catalog::{Node, Shared};

const STEPS: u32 = 6;
const ROWS: u32 = 300_000;
const SUM: &str = "SELECT step, d, sum(v), count(*) FROM t GROUP BY step, d ORDER BY step, d";

/// A node that takes statements, and nodes that read files and build for it.
struct Nodes {
    coordinator: Node,
    executors: Vec<Node>,
    shared: Shared,
}

impl Nodes {
    /// Nodes with two executors, and cube `c` over a table of one file for each step.
    fn with_cube(options: &str) -> Self {
        let shared = Shared::new();
        let [listen, secret] = VARIABLES;
        let coordinator = shared.node_with(&[listen, secret, ("NYALA_NODE__EXECUTOR", "false")]);
        let executors = vec![shared.node_with(&VARIABLES), shared.node_with(&VARIABLES)];
        for step in 0..STEPS {
            let sql = format!(
                "SELECT {step}::bigint AS step, v % 10 AS d, v % 1000 AS e, v % 777 AS f, v FROM generate_series(1, {ROWS}) AS s(v)"
            );
            coordinator.query(&format!("COPY ({sql}) TO 's3://{BUCKET}/t/{step}.parquet'"));
        }
        coordinator.query(&format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 's3://{BUCKET}/t/'"));
        coordinator.query(&format!(
            "CREATE CUBE c PARTITION BY RANGE (step) EVERY 1 AS \
             SELECT step, d, e, f, sum(v), count(*) FROM t GROUP BY {options}"
        ));
        let nodes = Self { coordinator, executors, shared };
        nodes.wait_for(2);
        nodes
    }

    fn wait_for(&self, executors: usize) {
        let sql = "SELECT node FROM system.nodes WHERE executor AND state = 'serving'";
        eventually("the executors", PATIENCE, || self.coordinator.query(sql).len() == executors);
    }

    /// Begins builds until both executors make a segment: a build leaves out an executor that was lost just before.
    fn start_on_both(&self, sql: &str) -> JoinHandle<String> {
        let address = self.coordinator.http;
        let start = || {
            let request = statement_request(sql);
            std::thread::spawn(move || String::from_utf8_lossy(&send(address, &request)).into_owned())
        };
        let mut building = start();
        eventually("segments on both executors", PATIENCE, || {
            if building.is_finished() {
                let answer = std::mem::replace(&mut building, start()).join().unwrap();
                assert!(answer.contains(" 200 "), "{answer}");
            }
            self.executors.iter().all(|node| !units(node).is_empty())
        });
        building
    }

    /// Waits until both executors make a segment.
    fn wait_until_both_build(&self) {
        eventually("segments on both executors", PATIENCE, || {
            self.executors.iter().all(|node| !units(node).is_empty())
        });
    }

    fn check_complete(&self) {
        let states = self.coordinator.query("SELECT state, count(*) FROM system.segments GROUP BY state");
        assert_eq!(states, [["ready".to_owned(), STEPS.to_string()]]);
        let tables = json!({"nyala.use_cubes": "off"});
        assert!(self.coordinator.explain(SUM).starts_with("answered from cube"));
        assert_eq!(self.coordinator.query(SUM), self.coordinator.query_with(SUM, &tables));
    }
}

/// The units of builds that a node makes for others.
fn units(server: &Server) -> Vec<Vec<String>> {
    server.query("SELECT query_id, query FROM system.local_queries WHERE query LIKE 'BUILD CUBE%' AND sent_by IS NOT NULL")
}

fn name_of(server: &Server) -> String {
    server.query("SELECT node FROM system.local_queries")[0][0].clone()
}

#[test]
fn all_executors_make_segments_of_a_cube() {
    let nodes = Nodes::with_cube("GROUPING SETS ((step, d, e, f), (step, d), (step))");
    nodes.coordinator.query("BUILD CUBE c");
    nodes.check_complete();
    let mut makers = nodes.coordinator.query("SELECT DISTINCT node FROM system.segments");
    let mut executors: Vec<Vec<String>> = nodes.executors.iter().map(|node| vec![name_of(node)]).collect();
    makers.sort();
    executors.sort();
    assert_eq!(makers, executors);
    let job = "SELECT state, rows_read, cuboids_done, cuboids_total, percent, retries FROM system.jobs";
    let expected = ["done", &(STEPS * ROWS).to_string(), "18", "18", "100", "0"];
    assert_eq!(nodes.coordinator.query(job), [expected]);
    // An executor that runs the job makes segments, too.
    nodes.executors[0].query("REFRESH CUBE c");
    nodes.check_complete();
    let makers = nodes.coordinator.query("SELECT DISTINCT node FROM system.segments");
    assert_eq!(makers.len(), 2, "{makers:?}");
}

#[test]
fn what_a_lost_node_was_making_another_makes() {
    let mut nodes = Nodes::with_cube("CUBE (step, d, e, f)");
    let building = nodes.start_on_both("BUILD CUBE c");
    let killed = nodes.executors.remove(0).kill();
    let answer = building.join().unwrap();
    assert!(answer.contains(" 200 "), "{answer}");
    nodes.check_complete();
    assert_ne!(nodes.coordinator.query("SELECT max(retries) FROM system.jobs"), [["0"]]);

    // A node that hangs and comes back finds that its part is not wanted any more.
    nodes.executors.insert(0, nodes.shared.serve_folder(killed, &VARIABLES));
    nodes.wait_for(2);
    let building = nodes.start_on_both("REFRESH CUBE c");
    nodes.executors[0].signal("STOP");
    let answer = building.join().unwrap();
    assert!(answer.contains(" 200 "), "{answer}");
    nodes.check_complete();
    nodes.executors[0].signal("CONT");
    eventually("the end of what is not wanted", PATIENCE, || units(&nodes.executors[0]).is_empty());
    nodes.check_complete();
}

#[test]
fn a_cancelled_build_ends_on_all_nodes() {
    let nodes = Nodes::with_cube("CUBE (step, d, e, f)");
    std::thread::scope(|scope| {
        let building = scope.spawn(|| nodes.coordinator.try_query("BUILD CUBE c"));
        nodes.wait_until_both_build();
        nodes.executors[0].query("CANCEL JOB 1");
        let answer = building.join().unwrap();
        assert!(answer.body.contains("job 1 was cancelled"), "{}", answer.body);
    });
    eventually("the end of all parts", PATIENCE, || {
        nodes.executors.iter().all(|node| units(node).is_empty())
    });
    let building = "SELECT count(*) FROM system.segments WHERE state = 'building'";
    eventually("no unfinished segment", PATIENCE, || nodes.coordinator.query(building) == [["0"]]);

    // The build is ended on a node that makes a part.
    std::thread::scope(|scope| {
        let building = scope.spawn(|| nodes.coordinator.try_query("BUILD CUBE c"));
        nodes.wait_until_both_build();
        let unit = units(&nodes.executors[1])[0][0].clone();
        nodes.executors[1].query(&format!("KILL QUERY {unit}"));
        let answer = building.join().unwrap();
        assert!(answer.status != 200 && answer.body.contains("cancel"), "{}", answer.body);
    });
    nodes.coordinator.query("BUILD CUBE c");
    nodes.check_complete();
}
