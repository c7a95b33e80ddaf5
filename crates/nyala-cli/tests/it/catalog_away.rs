//! Nodes whose catalog is away, or refuses the statements that follow a change.

use std::time::{Duration, Instant};

use crate::forwarding::two;
use crate::program::{PATIENCE, eventually};
use crate::shared_catalog::{SUM, Shared, is_answered_from_cube};

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

/// The requests of a node for the catalog wait for each other, and each for as long as its database may take.
#[test]
fn statements_of_another_node_do_not_wait_for_each_other_while_postgresql_hangs() {
    const STATEMENTS: usize = 8;
    let shared = Shared::new();
    let (mut owner, other) = two(&shared);
    // The owner does not learn of the catalog's version with which the other node plans.
    owner.signal("STOP");
    other.query("CREATE SCHEMA newer");
    shared.postgres.pause();
    owner.signal("CONT");
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let ask = || other.try_query("SELECT count(*) FROM t");
        let asked: Vec<_> = (0..STATEMENTS).map(|_| scope.spawn(ask)).collect();
        for asked in asked {
            let refused = asked.join().unwrap();
            assert!(refused.status != 200 && refused.body.contains("catalog"), "{}", refused.body);
        }
    });
    let took = begun.elapsed();
    shared.postgres.resume();
    // One after the other, requests for the catalog would take eight seconds at least for each statement.
    assert!(took < Duration::from_secs(40), "{took:?}");
    eventually("the newer catalog", PATIENCE, || other.try_query("SELECT count(*) FROM t").status == 200);
}

/// A node that stops tells the others only for their convenience: without that they notice its end by themselves.
#[test]
fn a_node_stops_in_time_while_postgresql_hangs() {
    let shared = Shared::new();
    let mut node = shared.node();
    assert_eq!(node.query("SELECT 1"), [["1"]]);
    shared.postgres.pause();
    let begun = Instant::now();
    node.signal("TERM");
    let finished = node.finish();
    let took = begun.elapsed();
    shared.postgres.resume();
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    // PostgreSQL is asked for a connection for eight seconds each time, and for an answer for fifteen.
    assert!(took < Duration::from_secs(14), "{took:?}");
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

/// A client that is told of a failure repeats its statement, and its rows would be written twice.
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
    // The connection of the two nodes may have broken meanwhile; the node sends a query again.
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

/// The job stays in the catalog as running while the node of its statement lives, so that node must end it.
#[test]
fn a_job_whose_beginning_was_not_confirmed_does_not_run_for_ever() {
    let shared = Shared::new();
    let node = shared.node();
    shared.with_cube(&node, 5000);
    // The job is added, and its number is not told.
    shared.in_catalog(
        "CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         INSERT INTO nyala.jobs (running, body) VALUES (NEW.running, NEW.body); RETURN NULL; END $$; \
         CREATE TRIGGER lose BEFORE INSERT ON nyala.jobs FOR EACH ROW WHEN (pg_trigger_depth() = 0) \
         EXECUTE FUNCTION lose()",
    );
    assert_ne!(node.try_query("BUILD CUBE c").status, 200);
    shared.in_catalog("DROP TRIGGER lose ON nyala.jobs");
    let jobs = || node.query("SELECT state, error FROM system.jobs ORDER BY job");
    assert_eq!(jobs().len(), 1, "{:?}", jobs());
    node.query("BUILD CUBE c");
    eventually("the end of the first job", PATIENCE, || jobs()[0][0] == "failed");
    assert!(jobs()[0][1].contains("did not confirm it"), "{:?}", jobs());
    assert_eq!(jobs()[1][0], "done");
    assert!(is_answered_from_cube(&node));
}
