//! Statements and jobs of all nodes, seen and ended from any node.

use serde_json::json;

use crate::forwarding::{VARIABLES, two};
use crate::program::{PATIENCE, eventually};
use crate::server::{Response, Server};
use crate::shared_catalog::{Node, Shared};

/// A statement that runs for hours on the node that is asked.
pub const LONG: &str =
    "SELECT count(*) FROM generate_series(1, 1000000) a(x), generate_series(1, 1000000) b(y) WHERE x + y = 1";

/// A statement that the owner of table `t` runs for hours.
const LONG_ELSEWHERE: &str = "SELECT count(*) FROM t, generate_series(1, 1000000) a(x), generate_series(1, 1000000) b(y) WHERE x + y = id - 9";

/// A statement that the owner of table `t` runs for hours, and that writes a row in the end.
const LONG_CHANGE: &str = "INSERT INTO t SELECT count(*), 'x' FROM t, generate_series(1, 1000000) a(x), generate_series(1, 1000000) b(y) \
                           WHERE x + y = id - 9";

/// The header of the role `ann`.
const ANN: &str = "Authorization: Basic YW5uOnNlY3JldC1vZi1hbm4=\r\n";

/// The name of a node.
pub fn name_of(server: &Server) -> String {
    server.query("SELECT node FROM system.local_queries")[0][0].clone()
}

/// Node, number and sender of the long statements that a node knows of.
fn long_ones(asked: &Server) -> Vec<Vec<String>> {
    asked.query(
        "SELECT node, query_id, sent_by FROM system.queries \
         WHERE query LIKE '%generate_series(1, 1000000)%' AND query NOT LIKE '%system.%' ORDER BY sent_by NULLS FIRST",
    )
}

/// Waits for `count` long statements; returns them.
pub fn wait_for_long_ones(asked: &Server, count: usize) -> Vec<Vec<String>> {
    eventually("the long statements", PATIENCE, || long_ones(asked).len() == count);
    long_ones(asked)
}

fn as_ann(server: &Server, sql: &str) -> Response {
    server.post_with(&json!({ "sql": sql }).to_string(), ANN)
}

/// A node with password authentication, and the role `ann` without privileges.
fn strict(shared: &Shared, owner: &Node) -> Node {
    owner.query("CREATE ROLE ann LOGIN PASSWORD 'secret-of-ann'");
    let mut variables = VARIABLES.to_vec();
    variables.push(("NYALA_SERVER__AUTHENTICATION", "password"));
    shared.node_with(&variables)
}

#[test]
fn statements_are_seen_and_killed_from_any_node() {
    let shared = Shared::new();
    let (owner, other) = two(&shared);
    let (there, here) = (name_of(&owner), name_of(&other));
    std::thread::scope(|scope| {
        let running = scope.spawn(|| owner.try_query(LONG));
        let listed = wait_for_long_ones(&other, 1);
        assert_eq!([&listed[0][0], &listed[0][2]], [&there, "NULL"]);
        let kill = format!("KILL QUERY {} ON NODE '{there}'", listed[0][1]);
        other.query(&kill);
        let ended = running.join().unwrap();
        assert_eq!(ended.status, 499, "{}", ended.body);
        // The statement is listed for a moment longer than its client waits.
        eventually("the end of the statement", PATIENCE, || {
            let over = other.try_query(&kill);
            over.status == 400 && over.body.contains(&format!("is running on node `{there}`"))
        });
        let status = format!("SELECT status FROM system.query_log WHERE query_id = {}", listed[0][1]);
        assert_eq!(owner.query(&status), [["killed"]]);

        // The statement can be ended on the node that sent it, and on the node that runs it.
        for at in [0, 1] {
            let running = scope.spawn(|| other.try_query(LONG_ELSEWHERE));
            let listed = wait_for_long_ones(&owner, 2);
            assert_eq!([&listed[0][0], &listed[0][2]], [&here, "NULL"]);
            assert_eq!([&listed[1][0], &listed[1][2]], [&there, &here]);
            let [node, id, _] = &listed[at][..] else { panic!("{listed:?}") };
            let killed = owner.delete(&format!("/api/v1/queries/{id}?node={node}"));
            assert_eq!(killed.status, 204, "{}", killed.body);
            let ended = running.join().unwrap();
            assert_eq!(ended.status, 499, "{}", ended.body);
            eventually("the end of both", PATIENCE, || long_ones(&other).is_empty());
        }
    });
    // A statement that writes ends as soon, and its client is told that nothing was written.
    std::thread::scope(|scope| {
        let running = scope.spawn(|| other.try_query(LONG_CHANGE));
        let listed = wait_for_long_ones(&owner, 2);
        assert_eq!([&listed[0][0], &listed[0][2]], [&here, "NULL"]);
        other.query(&format!("KILL QUERY {}", listed[0][1]));
        let ended = running.join().unwrap();
        assert_eq!(ended.status, 499, "{}", ended.body);
        eventually("the end of both", PATIENCE, || long_ones(&other).is_empty());
        assert_eq!(owner.query("SELECT count(*) FROM t"), [["3"]]);
    });
    let unknown = other.try_query("KILL QUERY 1 ON NODE 'nowhere'");
    assert!(unknown.body.contains("there is no node `nowhere`"), "{}", unknown.body);
    assert!(unknown.body.contains("system.nodes"), "{}", unknown.body);
    let wrong = other.delete("/api/v1/queries/1?server=x");
    assert_eq!(wrong.status, 400, "{}", wrong.body);
    // `system.local_queries` lists the statements of one node alone.
    assert_eq!(other.query("SELECT count(*) FROM system.local_queries"), [["1"]]);
}

#[test]
fn what_others_run_on_another_node_is_for_superusers() {
    let shared = Shared::new();
    let (owner, other) = two(&shared);
    drop(other);
    let other = strict(&shared, &owner);
    let there = name_of(&owner);
    let refused = as_ann(&other, "SELECT * FROM system.queries");
    assert!(refused.body.contains("system.queries"), "{}", refused.body);
    assert_ne!(refused.status, 200, "{}", refused.body);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| owner.try_query(LONG));
        let listed = wait_for_long_ones(&owner, 1);
        let kill = format!("KILL QUERY {} ON NODE '{there}'", listed[0][1]);
        let refused = as_ann(&other, &kill);
        assert_eq!(refused.status, 403, "{}", refused.body);
        assert!(refused.body.contains("killing what others run"), "{}", refused.body);
        assert_eq!(long_ones(&owner), listed);
        owner.query(&kill);
        assert_eq!(running.join().unwrap().status, 499);

        // A role may end a statement that the other node runs for it.
        owner.query("GRANT SELECT ON t TO ann");
        eventually("the grant on the other node", PATIENCE, || {
            as_ann(&other, "SELECT count(*) FROM t").status == 200
        });
        let running = scope.spawn(|| as_ann(&other, LONG_ELSEWHERE));
        let listed = wait_for_long_ones(&owner, 2);
        let killed = as_ann(&other, &format!("KILL QUERY {} ON NODE '{there}'", listed[1][1]));
        assert_eq!(killed.status, 200, "{}", killed.body);
        assert_eq!(running.join().unwrap().status, 499);
    });
}

#[test]
fn a_node_that_does_not_answer_delays_no_list() {
    let shared = Shared::new();
    let (mut owner, other) = two(&shared);
    let (there, here) = (name_of(&owner), name_of(&other));
    let nodes = "SELECT DISTINCT node FROM system.queries ORDER BY node";
    let error = format!("SELECT error FROM system.nodes WHERE node = '{there}'");
    assert_eq!(other.query(nodes), [[here.clone()]], "the other one runs nothing");
    assert_eq!(other.query(&error), [["NULL"]]);

    owner.signal("STOP");
    assert_eq!(other.query(nodes), [[here]]);
    let told = other.query(&error).swap_remove(0).swap_remove(0);
    assert!(told.contains(&there) && told.contains("did not answer within 2 seconds"), "{told}");
    let refused = other.try_query(&format!("KILL QUERY 1 ON NODE '{there}'"));
    assert!(refused.body.contains("is not reached"), "{}", refused.body);
    assert_eq!(refused.status, 503, "{}", refused.body);

    owner.signal("CONT");
    eventually("an answer of the node", PATIENCE, || {
        other.query(nodes);
        other.query(&error) == [["NULL"]]
    });
    drop(owner);
    let refused = other.try_query(&format!("KILL QUERY 1 ON NODE '{there}'"));
    assert!(refused.body.contains("is not reached"), "{}", refused.body);
    other.query(nodes);
}

#[test]
fn jobs_are_cancelled_from_any_node() {
    let shared = Shared::new();
    let owner = shared.node_with(&VARIABLES);
    let other = strict(&shared, &owner);
    shared.with_cube(&owner, 3_000_000);
    let states = || owner.query("SELECT state FROM system.jobs ORDER BY job");
    std::thread::scope(|scope| {
        let building = scope.spawn(|| owner.try_query("BUILD CUBE c"));
        eventually("the job", PATIENCE, || states() == [["running"]]);
        let cancel = format!("CANCEL JOB {}", owner.query("SELECT job FROM system.jobs")[0][0]);
        let refused = as_ann(&other, &cancel);
        assert_eq!(refused.status, 403, "{}", refused.body);
        assert!(refused.body.contains("lacks BUILD"), "{}", refused.body);
        // The other node learns of the grant from the request.
        owner.query("GRANT BUILD ON c TO ann");
        eventually("the end of the job", PATIENCE, || as_ann(&other, &cancel).status == 200);
        let ended = building.join().unwrap();
        assert_eq!(ended.status, 499, "{}", ended.body);
        assert_eq!(states(), [["cancelled"]]);
        let over = owner.try_query(&cancel);
        assert!(over.body.contains("has ended already: it is cancelled"), "{}", over.body);
        let refused = as_ann(&other, &cancel);
        assert!(refused.body.contains("cancelling a job that does not run"), "{}", refused.body);
    });
    let missing = owner.try_query("CANCEL JOB 4711");
    assert!(missing.body.contains("job 4711 does not exist"), "{}", missing.body);
}
