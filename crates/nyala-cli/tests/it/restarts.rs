//! Nodes that start and stop beside others, and nodes of another version.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::administration::{LONG, name_of, wait_for_long_ones};
use crate::distributed::Nodes;
use crate::forwarding::VARIABLES;
use crate::program::{PATIENCE, eventually};
use crate::server::{send, statement_request};
use crate::shared_catalog::Shared;

/// If a node told its address earlier, the others would wait for its connection at each restart.
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
        send(address, &statement_request(sql))
    });
    eventually("the statement", PATIENCE, || one.query("SELECT query FROM system.local_queries").len() == 2);
    one.signal("TERM");
    let state = format!("SELECT state FROM system.nodes WHERE node = '{name}'");
    eventually("the node that stops", PATIENCE, || other.query(&state) == [["stopping"]]);
    let answer = String::from_utf8_lossy(&running.join().unwrap()).into_owned();
    assert!(answer.contains("the server stopped before the statement ended"), "{answer}");
    eventually("its end", PATIENCE, || other.query(&state).is_empty());
}

/// Statements of a node that stops go on for a while, and no new ones come to it.
#[test]
fn what_a_node_that_stops_still_runs_is_seen_and_killed() {
    let shared = Shared::new();
    let patient = [&VARIABLES[..], &[("NYALA_SERVER__SHUTDOWN_GRACE_MS", "100000")]].concat();
    let (mut stopping, other) = (shared.node_with(&patient), shared.node_with(&VARIABLES));
    stopping.query("CREATE LIVE TABLE t (id BIGINT PRIMARY KEY)");
    eventually("the table on the other node", PATIENCE, || other.try_query("SELECT * FROM t").status == 200);
    let (there, address) = (name_of(&stopping), stopping.http);
    let running = std::thread::spawn(move || send(address, &statement_request(LONG)));
    let listed = wait_for_long_ones(&other, 1);
    stopping.signal("TERM");
    let state = format!("SELECT state FROM system.nodes WHERE node = '{there}'");
    eventually("the node that stops", PATIENCE, || other.query(&state) == [["stopping"]]);
    assert_eq!(wait_for_long_ones(&other, 1), listed);
    let refused = other.try_query("SELECT * FROM t");
    assert!(refused.body.contains("it is stopping"), "{}", refused.body);
    other.query(&format!("KILL QUERY {} ON NODE '{there}'", listed[0][1]));
    let answer = String::from_utf8_lossy(&running.join().unwrap()).into_owned();
    assert_eq!(answer.split(' ').nth(1), Some("499"), "{answer}");
    assert_eq!(stopping.finish().code, Some(0));
    eventually("a list without it", PATIENCE, || other.query(&state).is_empty());
}

/// The last parts of a stopping executor end, and new parts go to the others.
#[test]
fn an_executor_that_is_asked_to_stop_fails_no_query() {
    let mut nodes = Nodes::with_tables(3);
    let sql = "SELECT store, count(*), sum(price) FROM sales GROUP BY store ORDER BY store";
    let expected = nodes.coordinator.query(sql);
    let mut stopped = nodes.executors.remove(0);
    std::thread::scope(|scope| {
        let ask = || {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(5) {
                assert_eq!(nodes.coordinator.query(sql), expected);
            }
        };
        let asking: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        std::thread::sleep(Duration::from_secs(1));
        stopped.signal("TERM");
        let finished = stopped.finish();
        assert_eq!(finished.code, Some(0), "{}", finished.stderr);
        asking.into_iter().for_each(|asking| asking.join().unwrap());
    });
    assert_eq!(nodes.coordinator.query(sql), expected);
}

/// Plans may mean something else to nodes of another version.
#[test]
fn nodes_of_another_version_do_no_parts() {
    let nodes = Nodes::with_tables(3);
    let sql = "SELECT store, count(*), sum(price) FROM sales GROUP BY store ORDER BY store";
    let expected = nodes.coordinator.query(sql);
    let names: Vec<String> = nodes
        .executors
        .iter()
        .map(|node| node.query("SELECT node FROM system.local_queries")[0][0].clone())
        .collect();
    // The version that a node tells is replaced on its way into the catalog.
    nodes.shared.in_catalog(
        "CREATE FUNCTION older() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         NEW.body := regexp_replace(NEW.body, '\"version\": ?\"[^\"]*\"', '\"version\":\"0.0.9\"'); \
         RETURN NEW; END $$",
    );
    let make_older = |name: &str| {
        nodes.shared.in_catalog(&format!(
            "CREATE TRIGGER \"{name}\" BEFORE INSERT OR UPDATE ON nyala.nodes FOR EACH ROW \
             WHEN (NEW.id = '{name}') EXECUTE FUNCTION older()"
        ));
    };
    let place = || -> String {
        let plan = nodes.coordinator.query(&format!("EXPLAIN {sql}"));
        plan.into_iter().find(|row| row[0] == "nodes").unwrap().swap_remove(1)
    };
    make_older(&names[0]);
    eventually("the older node does no part", PATIENCE, || {
        let place = place();
        !place.contains(&names[0]) && place.contains(&names[1]) && place.contains(&names[2])
    });
    assert_eq!(nodes.coordinator.query(sql), expected);
    names[1..].iter().for_each(|name| make_older(name));
    eventually("no node does a part", PATIENCE, || place().contains("run version 0.0.9, and this node"));
    assert_eq!(nodes.coordinator.query(sql), expected);
    // Whole statements are still sent to nodes of another version.
    nodes.executors[0].query("CREATE LIVE TABLE t (id BIGINT PRIMARY KEY)");
    eventually("the table on the coordinator", PATIENCE, || {
        nodes.coordinator.try_query("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING").status == 200
    });
    assert_eq!(nodes.executors[0].query("SELECT id FROM t"), [["1"]]);
}
