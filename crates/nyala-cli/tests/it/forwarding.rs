//! Statements that a node sends to the one that has the live tables they need.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use crate::program::{NOTICED, PATIENCE, eventually};
use crate::server::{Server, send};
use crate::shared_catalog::{Node, Shared};

const SECRET: &str = "0123456789abcdef0123456789abcdef";
pub const VARIABLES: [(&str, &str); 2] =
    [("NYALA_NODE__LISTEN", "127.0.0.1:0"), ("NYALA_NODE__SECRET", SECRET)];

/// Two nodes, and on the first a live table of three rows.
pub fn two(shared: &Shared) -> (Node, Node) {
    let (owner, other) = (shared.node_with(&VARIABLES), shared.node_with(&VARIABLES));
    owner.query("CREATE LIVE TABLE t (id BIGINT PRIMARY KEY, v TEXT)");
    owner.query("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, NULL)");
    eventually("the table on the other node", PATIENCE, || other.try_query("SELECT * FROM t").status == 200);
    (owner, other)
}

#[test]
fn live_tables_are_read_and_written_from_any_node() {
    let shared = Shared::new();
    let (owner, other) = two(&shared);
    assert_eq!(other.query("SELECT id, v FROM t ORDER BY id"), [["1", "a"], ["2", "b"], ["3", "NULL"]]);
    other.query("INSERT INTO t VALUES (4, 'd')");
    other.query("UPDATE t SET v = 'x' WHERE id = 1");
    assert_eq!(other.query("DELETE FROM t WHERE id = 2 RETURNING id, v"), [["2", "b"]]);
    assert_eq!(owner.query("SELECT id, v FROM t ORDER BY id"), [["1", "x"], ["3", "NULL"], ["4", "d"]]);

    // Errors arrive unchanged.
    let refused = other.try_query("INSERT INTO t VALUES (4, 'again') ON CONFLICT DO NOTHING RETURNING id");
    assert_eq!(refused.status, 200, "{}", refused.body);
    let (here, there) =
        (owner.try_query("SELECT 1 / (id - id) FROM t"), other.try_query("SELECT 1 / (id - id) FROM t"));
    assert_eq!((here.status, here.body), (there.status, there.body));

    // Settings, tables of the other node, and statements that change tables arrive, too.
    let zone = json!({"timezone": "Asia/Tokyo"});
    let sql = "SELECT to_timestamp(id)::timestamptz::text FROM t WHERE id = 1";
    assert_eq!(other.query_with(sql, &zone), owner.query_with(sql, &zone));
    other.query("CREATE LIVE TABLE u (id BIGINT PRIMARY KEY)");
    other.query("INSERT INTO u SELECT id FROM t");
    other.query("ALTER TABLE u ADD COLUMN w BIGINT");
    other.query("INSERT INTO u VALUES (9, 7)");
    assert_eq!(owner.query("SELECT count(*), sum(w) FROM u"), other.query("SELECT count(*), sum(w) FROM u"));
    other.query("DROP TABLE u");
    other.query("CREATE LIVE TABLE u WITH (disk_store = main) AS SELECT id FROM t");
    assert_eq!(owner.query("SELECT count(*) FROM u"), [["3"]]);
    other.query("DROP TABLE u");

    // A value arrives that is larger than the default limit of a message, 4 MB.
    owner.query("INSERT INTO t VALUES (5, repeat('z', 6000000))");
    assert!(other.query("SELECT v FROM t WHERE id = 5") == [["z".repeat(6_000_000)]]);
    other.query("DELETE FROM t WHERE id = 5");

    // 200,000 rows arrive whole.
    owner.query("INSERT INTO t SELECT v + 10, repeat('y', 100) FROM generate_series(1, 200000) AS s(v)");
    let expected = owner.query("SELECT count(*), sum(length(v)) FROM t");
    assert_eq!(other.query("SELECT count(*), sum(length(v)) FROM t"), expected);
    let all = other.query("SELECT id, v FROM t WHERE id > 10");
    assert_eq!(all.len(), 200_000);

    // A statement needs a store of this node and one of the other.
    other.query("CREATE DISK STORE near");
    other.query("CREATE LIVE TABLE n (id BIGINT PRIMARY KEY) WITH (disk_store = 'near')");
    other.query("INSERT INTO n VALUES (1)");
    eventually("the second store on the first node", PATIENCE, || {
        owner.try_query("SELECT * FROM n").status == 200
    });
    let both = other.try_query("SELECT count(*) FROM n JOIN t USING (id)");
    assert!(both.body.contains("is of node"), "{}", both.body);
    // Each table is emptied on its own node.
    for (asked, sql) in
        [(&owner, "TRUNCATE TABLE t, n"), (&other, "TRUNCATE TABLE t, n"), (&owner, "TRUNCATE TABLE n, t")]
    {
        owner.query("INSERT INTO t VALUES (1, 'a')");
        other.query("INSERT INTO n VALUES (1)");
        asked.query(sql);
        let left = (owner.query("SELECT count(*) FROM t"), other.query("SELECT count(*) FROM n"));
        assert_eq!(left, (vec![vec!["0".to_owned()]], vec![vec!["0".to_owned()]]), "{sql}");
    }
}

/// How many parts a query may have depends on the threads of its node.
#[test]
fn statements_of_a_large_node_run_on_a_small_one() {
    let shared = Shared::new();
    let node =
        |threads: &str| shared.node_with(&[VARIABLES[0], VARIABLES[1], ("NYALA_QUERY__THREADS", threads)]);
    let (owner, other) = (node("1"), node("8"));
    owner.query("CREATE LIVE TABLE t (id BIGINT PRIMARY KEY)");
    let (sql, parts) = ("SELECT count(*) FROM t", json!({"datafusion.execution.target_partitions": "30"}));
    eventually("the table on the other node", PATIENCE, || other.try_query(sql).status == 200);
    let refused = owner.try_query_with(sql, &parts);
    assert!(refused.body.contains("target_partitions"), "{}", refused.body);
    assert_eq!(other.query_with(sql, &parts), [["0"]]);
}

#[test]
fn loads_reach_the_owner_from_any_node() {
    let shared = Shared::new();
    let (owner, other) = two(&shared);
    let load = |server: &Server, query: &str, rows: &str| {
        server.post_to(&format!("/api/v1/tables/t/rows{query}"), "text/csv", rows.as_bytes())
    };
    let loaded = load(&other, "", "id,v\n11,k\n12,l\n");
    assert!(loaded.status == 200 && loaded.body.contains("\"rows\":2"), "{}", loaded.body);
    // Columns that are left out get their defaults on the owner.
    assert_eq!(load(&other, "", "id\n13\n").status, 200);
    assert_eq!(
        owner.query("SELECT id, v FROM t WHERE id > 10 ORDER BY id"),
        [["11", "k"], ["12", "l"], ["13", "NULL"]]
    );
    // A label counts on whichever node the load arrives.
    for (server, before) in [(&other, false), (&other, true), (&owner, true)] {
        let loaded = load(server, "?label=one", "id,v\n14,m\n");
        assert!(loaded.body.contains(&format!("\"applied_before\":{before}")), "{}", loaded.body);
    }
    let refused = load(&other, "?label=two", "id,v\nx,n\n");
    assert!(refused.status != 200 && refused.body.contains("id"), "{}", refused.body);
    let refused = load(&other, "", "id,w\n1,n\n");
    assert!(refused.body.contains("no column `w`"), "{}", refused.body);

    // Many rows with COPY, in several statements.
    let rows: String = (1000..201_000).map(|id| format!("{id}\t{}\n", "y".repeat(100))).collect();
    let copied = crate::loads::psql(&other, "COPY t FROM STDIN", &rows);
    assert_eq!(copied.code, Some(0), "{}", copied.stderr);
    let sql = "SELECT count(*), sum(length(v)) FROM t WHERE id >= 1000";
    assert_eq!(owner.query(sql), [["200000", "20000000"]]);
    // A row is larger than the default limit of a message, 4 MB.
    let copied = crate::loads::psql(&other, "COPY t FROM STDIN", &format!("15\t{}\n", "z".repeat(6_000_000)));
    assert_eq!(copied.code, Some(0), "{}", copied.stderr);
    assert_eq!(owner.query("SELECT length(v) FROM t WHERE id = 15"), [["6000000"]]);
    // A row that cannot be read fails the load.
    let refused = crate::loads::psql(&other, "COPY t FROM STDIN", "7\tx\nseven\ty\n");
    assert!(refused.code != Some(0) && refused.stderr.contains("seven"), "{}", refused.stderr);
    assert_eq!(owner.query("SELECT count(*) FROM system.local_queries WHERE query LIKE 'COPY%'"), [["0"]]);

    // A client that leaves in the middle of its load gives it up on both nodes.
    let mut client = TcpStream::connect(other.http).unwrap();
    let head = "POST /api/v1/tables/t/rows HTTP/1.0\r\ncontent-type: text/csv\r\ncontent-length: 999999999\r\n\r\nid,v\n";
    client.write_all(head.as_bytes()).unwrap();
    let some: String = (300_000..400_000).map(|id| format!("{id},{}\n", "z".repeat(100))).collect();
    client.write_all(some.as_bytes()).unwrap();
    let loads = |server: &Server| {
        server.query("SELECT count(*) FROM system.local_queries WHERE query NOT LIKE '%system%'")
    };
    eventually("the load on its owner", PATIENCE, || loads(&owner) == [["1"]]);
    drop(client);
    eventually("its end", PATIENCE, || loads(&owner) == [["0"]] && loads(&other) == [["0"]]);
    // Statements that the load had begun are still written.
    eventually("the same rows through both", PATIENCE, || other.query(sql) == owner.query(sql));
}

#[test]
fn changes_are_followed_from_any_node() {
    let shared = Shared::new();
    let (owner, other) = two(&shared);
    let follow = |server: &Server, after: &str| {
        let mut stream = TcpStream::connect(server.http).unwrap();
        let request = format!("GET /api/v1/tables/t/changes{after} HTTP/1.0\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        stream
    };
    // Reads until the wanted text has come.
    let read = |stream: &mut TcpStream, text: &mut String, wanted: &str| {
        eventually(wanted, PATIENCE, || {
            let mut bytes = [0; 4096];
            if let Ok(count) = stream.read(&mut bytes) {
                text.push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
            text.contains(wanted) && text.ends_with("\n\n")
        });
    };
    let (mut here, mut there) = (follow(&owner, ""), follow(&other, ""));
    let (mut from_owner, mut from_other) = (String::new(), String::new());
    read(&mut here, &mut from_owner, "id: ");
    read(&mut there, &mut from_other, "id: ");
    other.query("INSERT INTO t VALUES (4, 'd'), (5, 'e')");
    owner.query("DELETE FROM t WHERE id = 1");
    owner.query("INSERT INTO t VALUES (6, 'the last')");
    read(&mut here, &mut from_owner, "the last");
    read(&mut there, &mut from_other, "the last");
    let events = |text: &str| -> Vec<String> {
        text.lines()
            .filter(|line| !line.is_empty() && !line.contains("HTTP") && !line.contains("date"))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(events(&from_owner), events(&from_other));
    drop((here, there));
    // Both follow the changes from a position on.
    let (mut here, mut there) = (follow(&owner, "?after=0"), follow(&other, "?after=0"));
    let (mut from_owner, mut from_other) = (String::new(), String::new());
    read(&mut here, &mut from_owner, "the last");
    read(&mut there, &mut from_other, "the last");
    assert_eq!(events(&from_owner), events(&from_other));
    let running = "SELECT count(*) FROM system.local_queries WHERE sent_by IS NOT NULL";
    eventually("the follower on the owner", PATIENCE, || owner.query(running) != [["0"]]);
    drop(there);
    drop(here);
    eventually("the end of all followers of the other node", PATIENCE, || {
        // The node notices that its client has gone when it sends the next change.
        other.query("INSERT INTO t VALUES (7, 'again')");
        owner.query(running) == [["0"]]
    });
}

#[test]
fn privileges_are_those_of_the_user_on_any_node() {
    let shared = Shared::new();
    let (owner, other) = two(&shared);
    owner.query("CREATE ROLE ann LOGIN PASSWORD 'secret-of-ann'");
    drop(other);
    let mut variables = VARIABLES.to_vec();
    variables.push(("NYALA_SERVER__AUTHENTICATION", "password"));
    let other = shared.node_with(&variables);
    let login = "Authorization: Basic YW5uOnNlY3JldC1vZi1hbm4=\r\n";
    let refused = other.post_with("{\"sql\": \"SELECT count(*) FROM t\"}", login);
    assert!(refused.body.contains("lacks SELECT"), "{}", refused.body);
    owner.query("GRANT SELECT ON t TO ann");
    eventually("the grant on the other node", PATIENCE, || {
        other.post_with("{\"sql\": \"SELECT count(*) FROM t\"}", login).status == 200
    });
    let refused = other.post_with("{\"sql\": \"DELETE FROM t\"}", login);
    assert!(refused.body.contains("lacks DELETE"), "{}", refused.body);
}

/// Behind a load balancer the next request may go to another node.
#[test]
fn a_token_of_one_node_is_taken_by_the_others() {
    let shared = Shared::new();
    let owner = shared.node_with(&VARIABLES);
    owner.query("CREATE ROLE ann LOGIN PASSWORD 'secret-of-ann'");
    let variables = [&VARIABLES[..], &[("NYALA_SERVER__AUTHENTICATION", "password")]].concat();
    let (one, other) = (shared.node_with(&variables), shared.node_with(&variables));
    let request = "POST /api/v1/token HTTP/1.0\r\nAuthorization: Basic YW5uOnNlY3JldC1vZi1hbm4=\r\ncontent-length: 0\r\n\r\n";
    let answer = String::from_utf8(send(one.http, request.as_bytes())).unwrap();
    let document: Value = serde_json::from_str(answer.rsplit("\r\n\r\n").next().unwrap()).expect(&answer);
    let bearer = format!("Authorization: Bearer {}\r\n", document["token"].as_str().unwrap());
    let ask = |node: &Server| node.post_with("{\"sql\": \"SELECT current_user\"}", &bearer);
    for node in [&one, &other] {
        let answer = ask(node);
        assert!(answer.status == 200 && answer.body.contains("[\"ann\"]"), "{}", answer.body);
    }
    owner.query("ALTER ROLE ann PASSWORD 'another'");
    eventually("the end of the token", PATIENCE, || ask(&one).status == 401 && ask(&other).status == 401);
}

#[test]
fn a_client_that_leaves_ends_its_statement_on_the_other_node() {
    let shared = Shared::new();
    let (owner, other) = two(&shared);
    let long = "SELECT count(*) FROM t a, generate_series(1, 100000) b(x), generate_series(1, 1000000) c(y) WHERE x + y = a.id";
    let body = json!({ "sql": long }).to_string();
    let head = format!(
        "POST /api/v1/query HTTP/1.0\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let running = |server: &Server| {
        server.query("SELECT count(*) FROM system.local_queries WHERE query LIKE '%generate_series%' AND query NOT LIKE '%system%'")
    };
    let mut client = TcpStream::connect(other.http).unwrap();
    client.write_all((head + &body).as_bytes()).unwrap();
    eventually("the statement on its owner", PATIENCE, || running(&owner) == [["1"]]);
    assert_eq!(running(&other), [["1"]]);
    drop(client);
    eventually("the end of the statement on its owner", PATIENCE, || running(&owner) == [["0"]]);
    assert_eq!(running(&other), [["0"]]);
    // A timeout ends the statement, too.
    let timed = json!({"statement_timeout": "300"});
    let response = other.post(&json!({ "sql": long, "settings": timed }).to_string());
    assert!(response.body.contains("statement_timeout"), "{}", response.body);
    eventually("the end of the second statement", PATIENCE, || running(&owner) == [["0"]]);
}

#[test]
fn a_node_that_dies_fails_its_statements_and_comes_back() {
    let shared = Shared::new();
    let (owner, other) = two(&shared);
    let folder = owner.kill();
    let refused = other.try_query("SELECT count(*) FROM t");
    assert!(refused.body.contains("is not reached"), "{}", refused.body);
    let owner = shared.serve_folder(folder, &VARIABLES);
    eventually("the node that is back", PATIENCE, || other.try_query("SELECT count(*) FROM t").status == 200);
    assert_eq!(other.query("SELECT count(*) FROM t"), [["3"]]);
    drop(owner);
}

#[test]
fn all_statements_between_two_nodes_share_a_connection() {
    let shared = Shared::new();
    let (owner, other) = two(&shared);
    let address: SocketAddr = owner
        .query("SELECT address FROM system.nodes WHERE address IS NOT NULL ORDER BY started_at")[0][0]
        .parse()
        .unwrap();
    std::thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| {
                for _ in 0..20 {
                    assert_eq!(other.query("SELECT count(*) FROM t"), [["3"]]);
                }
            });
        }
    });
    assert_eq!(connections_to(address.port()), 1);
}

/// Established connections of this machine to a port.
pub fn connections_to(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let wanted = format!(":{port:04X}");
    let lines = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines.filter(|line| line[2].ends_with(&wanted) && line[3] == "01").count()
}

#[test]
fn strangers_are_refused_at_the_nodes_port() {
    let shared = Shared::new();
    let (owner, other) = two(&shared);
    let address: SocketAddr = owner
        .query("SELECT address FROM system.nodes WHERE address IS NOT NULL ORDER BY started_at")[0][0]
        .parse()
        .unwrap();
    for garbage in [
        b"GET / HTTP/1.1\r\n\r\n".as_slice(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &[0; 4096],
        &[0x16, 3, 1, 255, 255],
    ] {
        let mut stranger = TcpStream::connect(address).unwrap();
        stranger.set_read_timeout(Some(PATIENCE)).unwrap();
        // The node may close before all is written.
        let _ = stranger.write_all(garbage);
        let mut answer = Vec::new();
        let _ = stranger.read_to_end(&mut answer);
        assert!(answer.len() < 100, "{answer:?}");
    }
    // Many silent connections do not keep other nodes out for long.
    let silent: Vec<_> = (0..80).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert_eq!(other.query("SELECT count(*) FROM t"), [["3"]]);
    drop(silent);
    let wrong = [VARIABLES[0], ("NYALA_NODE__SECRET", "fedcba9876543210fedcba9876543210")];
    let stranger = shared.node_with(&wrong);
    let refused = stranger.try_query("SELECT count(*) FROM t");
    assert!(refused.body.contains("is not reached"), "{}", refused.body);
    assert_eq!(other.query("SELECT count(*) FROM t"), [["3"]]);
}

#[test]
fn temporary_tables_stay_on_the_node_of_their_session() {
    let shared = Shared::new();
    let (owner, other) = two(&shared);
    let sql = "CREATE TEMP TABLE x AS SELECT 1 AS a; INSERT INTO x VALUES (2); SELECT sum(a) FROM x";
    for node in [&owner, &other] {
        let url = node.url();
        let answer = crate::program::run(&mut crate::program::nyala(&[
            "sql", "--url", &url, "--format", "csv", "-c", sql,
        ]));
        assert!(answer.ends_with("\n3\n"), "{answer}");
        // Rows of a temporary table may come from a table of another node.
        let copy = "CREATE TEMP TABLE x AS SELECT id, v FROM t; SELECT count(*), count(v) FROM x";
        let answer = crate::program::run(&mut crate::program::nyala(&[
            "sql", "--url", &url, "--format", "csv", "-c", copy,
        ]));
        assert!(answer.ends_with("\n3,2\n"), "{answer}");
        // A temporary table itself does not go to another node.
        let copy = "CREATE TEMP TABLE x WITH (disk_store = 'main') AS SELECT 1 AS a; SELECT a FROM x";
        let command = &mut crate::program::nyala(&["sql", "--url", &url, "--format", "csv", "-c", copy]);
        let finished = crate::program::try_run(command);
        match node.url() == owner.url() {
            true => assert!(finished.stdout.ends_with("a\n1\n"), "{finished:?}"),
            false => assert!(finished.stderr.contains("disk store \"main\" is of node"), "{finished:?}"),
        }
    }
    eventually("the end of temporary tables", PATIENCE, || {
        owner.query("SELECT count(*) FROM information_schema.tables WHERE table_name = 'x'") == [["0"]]
    });
    other.query("DROP TABLE t");
    eventually("a dropped table on its node", PATIENCE, || owner.try_query("SELECT * FROM t").status != 200);
    let refused = other.try_query("DROP DISK STORE main");
    assert_eq!(refused.status, 200, "{}", refused.body);
    owner.query("CREATE LIVE TABLE t (id BIGINT PRIMARY KEY)");
}

#[test]
fn a_node_that_does_not_answer_is_noticed() {
    let shared = Shared::new();
    let (mut owner, other) = two(&shared);
    owner.signal("STOP");
    let ask = |sql: &str| {
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| other.try_query(sql));
            eventually("an error that names the node", NOTICED, || asked.is_finished());
            asked.join().unwrap()
        })
    };
    // The node answers so on the present connection, and on a new one.
    let refused = ask("SELECT count(*) FROM t");
    assert!(refused.body.contains("is not reached"), "{}", refused.body);
    let unknown = ask("INSERT INTO t VALUES (7, 'x')");
    assert!(unknown.status >= 500, "{}", unknown.body);
    owner.signal("CONT");
    eventually("the node that answers again", PATIENCE, || {
        other.try_query("SELECT count(*) FROM t").status == 200
    });
}
