//! A cancelled statement ends in every operator: its slot is free, no thread computes, and other statements go on.
//!
//! Each of these queries would take hours, most within one poll of one operator, which only the operator itself can end.

use std::time::Duration;

use serde_json::json;

use crate::program::{PATIENCE, eventually};
use crate::server::Server;
use crate::star::Star;

/// An operator, and a query that computes in it for hours.
const ENDLESS: &[(&str, &str)] = &[
    (
        "nested loop join, inner",
        "SELECT count(*) FROM lineorder a, lineorder b WHERE a.lo_orderkey + b.lo_orderkey = -7",
    ),
    (
        "nested loop join, left",
        "SELECT count(*) FROM lineorder a LEFT JOIN lineorder b ON a.lo_orderkey + b.lo_orderkey = -7",
    ),
    (
        "nested loop join, full",
        "SELECT count(*) FROM lineorder a FULL JOIN lineorder b ON a.lo_orderkey + b.lo_orderkey = -7",
    ),
    (
        "nested loop join, semi",
        "SELECT count(*) FROM lineorder a
         WHERE EXISTS (SELECT 1 FROM lineorder b WHERE a.lo_orderkey + b.lo_orderkey = -7)",
    ),
    (
        "nested loop join, anti",
        "SELECT count(*) FROM lineorder a
         WHERE NOT EXISTS (SELECT 1 FROM lineorder b WHERE a.lo_orderkey + b.lo_orderkey = -7)",
    ),
    (
        "nested loop join, dear condition",
        "SELECT count(*) FROM lineorder a, lineorder b
         WHERE regexp_replace(a.lo_orderpriority || b.lo_shipmode, '[A-M]+(.)', '\\1') = 'none'",
    ),
    (
        "cross join",
        "SELECT max(a.lo_orderkey + b.lo_orderkey + c.lo_orderkey) FROM lineorder a, lineorder b, lineorder c",
    ),
    (
        "hash join on one key",
        "SELECT count(*) FROM lineorder a JOIN lineorder b ON a.lo_orderkey % 2 = b.lo_orderkey % 2
         JOIN lineorder c ON c.lo_orderkey % 2 = b.lo_orderkey % 2",
    ),
    (
        "hash join on one key with a condition",
        "SELECT count(*) FROM lineorder a JOIN lineorder b
         ON a.lo_orderkey % 2 = b.lo_orderkey % 2 AND a.lo_orderkey + b.lo_orderkey = -7",
    ),
    ("sort", "SELECT a.lo_orderkey FROM lineorder a, lineorder b ORDER BY a.lo_orderkey * b.lo_orderkey"),
    (
        "aggregate by group",
        "SELECT a.lo_orderkey + b.lo_orderkey, count(*) FROM lineorder a, lineorder b, lineorder c GROUP BY 1",
    ),
    (
        "distinct",
        "SELECT count(DISTINCT a.lo_orderkey % 10 + b.lo_orderkey % 10) FROM lineorder a, lineorder b, lineorder c",
    ),
    (
        "window over many rows",
        "SELECT max(m) FROM (SELECT median(lo_revenue) OVER (ORDER BY lo_orderkey, lo_linenumber) AS m FROM lineorder)",
    ),
    (
        "window of the rest",
        "SELECT count(m) FROM (SELECT array_agg(lo_revenue) OVER (ORDER BY lo_orderkey
         ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS m FROM lineorder)",
    ),
    ("unnest", "SELECT count(n) FROM (SELECT unnest(range(0, 1000)) AS n FROM lineorder, lineorder b)"),
    (
        "recursive",
        "WITH RECURSIVE numbers AS (SELECT 1 AS n UNION ALL SELECT n % 1000 + 1 FROM numbers)
         SELECT count(*) FROM numbers",
    ),
    (
        "union",
        "SELECT max(n) FROM (SELECT a.lo_orderkey + c.lo_tax AS n FROM lineorder a, lineorder b, lineorder c
         UNION ALL SELECT a.lo_custkey + c.lo_tax FROM lineorder a, lineorder b, lineorder c)",
    ),
    ("limit", "SELECT * FROM lineorder a, lineorder b WHERE a.lo_orderkey + b.lo_orderkey = -7 LIMIT 1"),
    ("live table", "SELECT count(*) FROM live a, live b, live c WHERE a.k + b.k + c.k = -7"),
    (
        "explain analyze",
        "EXPLAIN ANALYZE SELECT count(*) FROM lineorder a, lineorder b WHERE a.lo_orderkey + b.lo_orderkey = -7",
    ),
    (
        "insert",
        "INSERT INTO live SELECT a.lo_orderkey FROM lineorder a, lineorder b WHERE a.lo_orderkey + b.lo_orderkey = -7",
    ),
    (
        "delete",
        "DELETE FROM live WHERE EXISTS (SELECT 1 FROM lineorder a, lineorder b WHERE a.lo_orderkey + b.lo_orderkey = k - 1000000)",
    ),
];

#[test]
fn a_cancelled_statement_frees_its_slot_and_its_threads_in_any_operator() {
    let star = Star::generate("0.05");
    let data = star.built();
    let config = star.path("nyala.toml");
    std::fs::write(&config, "admission.groups.default.slots = 1\n").unwrap();
    let server = Server::start_with(&data, &[("NYALA_CONFIG", config.to_str().unwrap())]);
    server.query("CREATE TABLE live (k BIGINT PRIMARY KEY)");
    server.query("INSERT INTO live SELECT DISTINCT lo_custkey FROM lineorder");
    for (operator, sql) in ENDLESS {
        cancel_within(&server, operator, sql);
    }
    // A timeout ends a query as a request does.
    let (_, sql) = ENDLESS[0];
    let request = json!({"sql": sql, "settings": {"statement_timeout": "300ms"}}).to_string();
    for _ in 0..5 {
        let answer = server.post(&request);
        assert!(answer.body.contains("statement_timeout"), "{}", answer.body);
    }
    idle(&server, "timeouts");
    server.check_alive("statements were cancelled");
}

/// Runs a query, waits until it computes, and ends it.
fn cancel_within(server: &Server, operator: &str, sql: &str) {
    std::thread::scope(|scope| {
        let running = scope.spawn(|| server.try_query(sql));
        let mut id = None;
        eventually(&format!("{operator} computes"), PATIENCE, || {
            assert!(!running.is_finished(), "{operator} is not endless");
            let found = server.query(
                "SELECT query_id FROM system.queries WHERE state = 'running' AND query NOT LIKE '%system.queries%'",
            );
            id = found.first().map(|row| row[0].clone());
            id.is_some()
        });
        // The query must be deep within the operator.
        std::thread::sleep(Duration::from_millis(200));
        let status = server.delete(&format!("/api/v1/queries/{}", id.unwrap())).status;
        let answer = running.join().unwrap();
        assert!(answer.status == 499 && status == 204, "{operator}: {} {}", answer.status, answer.body);
    });
    idle(server, operator);
    // The other query needs the only slot.
    let other = "SELECT count(*) FROM lineorder a, customer b WHERE a.lo_custkey + b.c_custkey = -1";
    assert_eq!(server.query(other), [["0"]], "after {operator}");
}

/// Waits until nothing computes: no statement is listed, and no task is left on any thread.
fn idle(server: &Server, after: &str) {
    eventually(&format!("nothing computes after {after}"), Duration::from_secs(20), || {
        server.query("SELECT sum(running), sum(queued) FROM system.resource_groups") == [["0", "0"]]
            && server.query("SELECT count(*) FROM system.queries") == [["1"]]
            && tasks_of_large(server) == 0
    });
}

/// Tasks on the threads of long queries.
pub fn tasks_of_large(server: &Server) -> u64 {
    let found = server
        .query("SELECT waits_for FROM system.tasks WHERE kind = 'runtime' AND what LIKE '%nyala-large%'");
    found[0][0].split(' ').next().unwrap().parse().unwrap()
}

/// Batches of a cross join are as large as those of its right side.
#[test]
fn a_cross_join_gives_whole_batches() {
    let server = Server::empty(&[]);
    let sql =
        "EXPLAIN ANALYZE SELECT a.n + b.n FROM generate_series(1, 100) a(n), generate_series(1, 5000) b(n)";
    let figures = server.query(sql).concat().concat();
    let join = figures.lines().find(|line| line.contains("CrossJoinExec")).unwrap();
    let batches =
        join.split("output_batches=").nth(1).and_then(|rest| rest.split([',', ']']).next()).unwrap();
    assert!(batches.trim().parse::<u64>().unwrap() <= 400, "{join}");
}
