//! Queries of which several nodes do parts.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nyala_model::{Homes, NodeId, PlacedFile};
use serde_json::json;

use crate::administration::name_of;
use crate::cancel_operators::tasks_of_large;
use crate::forwarding;
use crate::program::{NOTICED, PATIENCE, eventually, eventually_or_tell};
use crate::s3::BUCKET;
use crate::server::Server;
use crate::shared_catalog::{Node, Shared};

/// Settings of nodes that reach each other, and divide every query that can be divided.
const VARIABLES: [(&str, &str); 3] =
    [forwarding::VARIABLES[0], forwarding::VARIABLES[1], ("NYALA_QUERY__SINGLE_NODE_ROWS", "1")];

/// A node that takes statements, and nodes that read files for it.
pub struct Nodes {
    pub shared: Shared,
    pub coordinator: Node,
    pub executors: Vec<Node>,
}

impl Nodes {
    /// Nodes with `count` executors, and tables in several files. Each executor is the home of a file of `sales`.
    pub fn with_tables(count: usize) -> Self {
        Self::with_executors(count, &VARIABLES)
    }

    /// Nodes with `count` executors, which have these variables.
    fn with_executors(count: usize, variables: &[(&str, &str)]) -> Self {
        let shared = Shared::new();
        let coordinator = coordinator(&shared);
        let executors = (0..count).map(|_| shared.node_with(variables)).collect();
        let nodes = Self { shared, coordinator, executors };
        let names = nodes.names();
        for (table, rows, sql) in [
            ("sales", 60_000, "v AS id, v % 97 AS item, v % 11 AS store, v * 3 AS price, v % 5 = 0 AS paid"),
            ("items", 97, "v AS item, 'item ' || v AS name, v % 7 AS class"),
            ("stores", 9, "v AS store, 'store ' || v AS city"),
        ] {
            let files = if rows > 1000 { 6 } else { 1 };
            for (part, file) in files_of(table, files, &names).into_iter().enumerate() {
                let rows = format!("generate_series({}, {}) AS s(v)", rows * part, rows * part + rows - 1);
                nodes.coordinator.query(&format!("COPY (SELECT {sql} FROM {rows}) TO '{file}'"));
            }
            let location = format!("s3://{BUCKET}/{table}/");
            nodes
                .coordinator
                .query(&format!("CREATE EXTERNAL TABLE {table} STORED AS PARQUET LOCATION '{location}'"));
        }
        nodes.wait_for(count);
        nodes
    }

    /// Waits until the coordinator knows so many executors.
    fn wait_for(&self, executors: usize) {
        let sql = "SELECT node FROM system.nodes WHERE executor AND state = 'serving'";
        eventually("the executors", PATIENCE, || self.coordinator.query(sql).len() == executors);
    }

    /// The names of the executors.
    fn names(&self) -> Vec<NodeId> {
        self.executors.iter().map(|node| NodeId(name_of(node))).collect()
    }

    /// For a failure because an executor reads nothing: the nodes that the coordinator knows, the nodes that do its queries, the bytes that
    /// each executor has read, and the coordinator's log.
    fn state(&self) -> String {
        let listed = self.coordinator.query("SELECT * FROM system.nodes ORDER BY node");
        let place = place(&self.coordinator, "SELECT sum(price) FROM sales");
        let read = |node: &Node| (name_of(node), bytes_read(node, FROM_ANYWHERE));
        let read: Vec<_> = self.executors.iter().map(read).collect();
        format!("{listed:?}\n{place:?}\n{read:?}\n{}", self.coordinator.process.stderr())
    }
}

/// Names for `count` files of a table. Each executor is the home of a file; fewer files than executors have different homes.
///
/// The home of a part of a file is found from the names of the file and of the nodes, and names of nodes are random: if six files always
/// had the same names, one of three nodes would be the home of none in 26 of 100 clusters, and would read nothing however long a test
/// waits. So the names of the files follow from those of the nodes.
fn files_of(table: &str, count: usize, executors: &[NodeId]) -> Vec<String> {
    let homes = Homes::among(executors);
    let named = |mark: u32| -> Vec<String> {
        (0..count).map(|part| format!("s3://{BUCKET}/{table}/{part}-{mark}.parquet")).collect()
    };
    let is_on_all = |files: &Vec<String>| {
        let used: BTreeSet<_> = files.iter().map(|file| homes.of(PlacedFile::new(file), 0)).collect();
        used.len() == count.min(executors.len())
    };
    (0..1000).map(named).find(is_on_all).expect("names by which each node is a home")
}

fn coordinator(shared: &Shared) -> Node {
    let [listen, secret, rows] = VARIABLES;
    shared.node_with(&[listen, secret, rows, ("NYALA_NODE__EXECUTOR", "false")])
}

/// Whether other nodes do parts of a query; if not, the reason.
fn divided(server: &Server, sql: &str) -> Result<(), String> {
    let plan = server.query(&format!("EXPLAIN {sql}"));
    match plan.iter().any(|row| row[1].contains("SpreadExec")) {
        true => Ok(()),
        false => Err(format!("{sql}: {:?}", place(server, sql))),
    }
}

/// The nodes that do a query, or the reason why one node does all of it, as EXPLAIN tells.
fn place(server: &Server, sql: &str) -> Option<Vec<String>> {
    server.query(&format!("EXPLAIN {sql}")).into_iter().find(|row| row[0] == "nodes")
}

/// Queries with one possible answer: their ORDER BY sorts by enough columns to fix the place of every row.
const QUERIES: &[&str] = &[
    "SELECT count(*), sum(price), avg(price) FROM sales",
    "SELECT store, count(*), min(price), max(price) FROM sales GROUP BY store ORDER BY store",
    "SELECT item, sum(price + id) FROM sales WHERE paid GROUP BY item HAVING count(*) > 100 ORDER BY 2 DESC, 1 LIMIT 7",
    "SELECT name, city, count(*) FROM sales JOIN items USING (item) JOIN stores USING (store) \
     GROUP BY name, city ORDER BY 3 DESC, 1, 2 LIMIT 20",
    "SELECT city, count(id) FROM stores LEFT JOIN sales USING (store) GROUP BY city ORDER BY city",
    "SELECT s.store, i.class, count(*) FROM sales s FULL JOIN items i ON s.item = i.item AND s.id < 500 \
     GROUP BY 1, 2 ORDER BY 1 NULLS FIRST, 2 NULLS FIRST",
    "SELECT store, sum(price) FROM sales WHERE item IN (SELECT item FROM items WHERE class = 3) \
     GROUP BY store ORDER BY store",
    "SELECT store, count(*) FROM sales WHERE item NOT IN (SELECT item FROM items WHERE class < 5) \
     GROUP BY store ORDER BY store",
    "SELECT count(*) FROM sales WHERE price > (SELECT avg(price) FROM sales)",
    "SELECT item, price FROM sales o WHERE price = (SELECT max(price) FROM sales i WHERE i.item = o.item) \
     ORDER BY item LIMIT 5",
    "SELECT store, id, rank() OVER (PARTITION BY store ORDER BY price DESC) FROM sales \
     WHERE id % 1000 = 0 ORDER BY store, 3, id LIMIT 30",
    // A column that a condition makes constant is left out of the sort.
    "SELECT store, item, n, rank() OVER (PARTITION BY store, paid ORDER BY n, item) FROM \
     (SELECT store, item, paid, count(*) AS n, avg(count(*)) OVER (PARTITION BY store, paid) AS a FROM sales \
      GROUP BY store, item, paid) t WHERE paid = true AND n > 1 ORDER BY store, 4, item LIMIT 40",
    "SELECT store, sum(sum(price)) OVER (ORDER BY store) FROM sales GROUP BY store ORDER BY store",
    "SELECT store, item, sum(price) FROM sales WHERE item < 3 GROUP BY ROLLUP (store, item) \
     ORDER BY 1 NULLS FIRST, 2 NULLS FIRST",
    // A column that a condition makes constant is NULL in totals, and on an optional side of a join.
    "SELECT store, item, count(*) FROM sales WHERE store = 3 GROUP BY CUBE (store, item) ORDER BY 1, 2 LIMIT 150",
    "SELECT class, city, count(*) FROM sales JOIN items USING (item) \
     LEFT JOIN (SELECT * FROM stores WHERE city = 'store 4') s USING (store) GROUP BY 1, 2 ORDER BY 2, 1",
    // Rows of the one side that are equal are not sorted by the other side.
    "SELECT c.store, i.name, count(*) FROM (SELECT * FROM items ORDER BY name LIMIT 30) i \
     JOIN (SELECT item, store FROM sales ORDER BY store, id LIMIT 2000) c USING (item) \
     GROUP BY 1, 2 ORDER BY 1, 2 LIMIT 50",
    "SELECT kind, count(*) FROM (SELECT 'sale' AS kind, item FROM sales UNION ALL SELECT 'item', item FROM items \
     UNION ALL SELECT 'none', item FROM sales WHERE id < 0) u GROUP BY kind ORDER BY kind",
    "SELECT item FROM items INTERSECT SELECT item FROM sales WHERE store = 4 ORDER BY item LIMIT 5",
    "SELECT count(DISTINCT item), count(DISTINCT store) FROM sales",
    "WITH t AS (SELECT store, sum(price) AS p FROM sales GROUP BY store) \
     SELECT a.store, count(*) FROM t a JOIN t b ON a.p < b.p GROUP BY a.store ORDER BY a.store",
    "SELECT i.class, s.city FROM items i CROSS JOIN stores s WHERE i.item < 4 ORDER BY 1, 2",
    "SELECT id, price FROM sales ORDER BY price DESC LIMIT 5",
    "SELECT DISTINCT store FROM sales ORDER BY store",
    "SELECT id FROM sales WHERE id BETWEEN 59998 AND 60002 ORDER BY id",
];

#[test]
fn several_nodes_give_the_answers_of_one() {
    let nodes = Nodes::with_tables(3);
    let alone = json!({"nyala.distributed": "off"});
    for sql in QUERIES {
        let expected = nodes.coordinator.query_with(sql, &alone);
        assert_eq!(nodes.coordinator.query(sql), expected, "{sql}");
        assert_eq!(nodes.executors[0].query(sql), expected, "through an executor: {sql}");
    }
    let here: Vec<_> = QUERIES.iter().filter_map(|sql| divided(&nodes.coordinator, sql).err()).collect();
    assert!(here.is_empty(), "{here:#?}");

    // Metrics are told for each operator, and do not depend on how the query was divided.
    for sql in QUERIES {
        let measured = nodes.coordinator.query(&format!("EXPLAIN ANALYZE {sql}"));
        let figures = measured.iter().find(|row| row[0] == "plan_with_metrics").unwrap();
        assert!(figures[1].contains("Stage 1"), "{sql}: {}", figures[1]);
        for line in figures[1].lines().filter(|line| line.contains("DistributedLeafExec")) {
            assert!(line.contains("output_rows="), "{sql}: {line}");
        }
    }
    let counted = nodes
        .coordinator
        .query("EXPLAIN ANALYZE SELECT store, sum(price) FROM sales WHERE id >= 0 GROUP BY store");
    let figures = counted.concat().concat();
    let scan = figures.lines().find(|line| line.contains("DistributedLeafExec")).unwrap();
    assert!(scan.contains("output_rows=360.0 K") || scan.contains("output_rows=360000"), "{scan}");
    let of_each = nodes
        .coordinator
        .query("EXPLAIN ANALYZE VERBOSE SELECT max(price) FROM sales WHERE id >= 0")
        .concat()
        .concat();
    assert!(of_each.contains("output_rows_0=") || of_each.contains("output_rows={"), "{of_each}");

    // A query with a live table, a system table or VALUES runs on one node.
    nodes.coordinator.query("CREATE LIVE TABLE here (item BIGINT PRIMARY KEY)");
    nodes.coordinator.query("INSERT INTO here VALUES (1), (2)");
    for sql in [
        "SELECT count(*) FROM sales JOIN here USING (item)",
        "SELECT count(*) FROM sales, system.nodes",
        "SELECT count(*) FROM sales JOIN (VALUES (1), (2)) AS v (item) USING (item)",
    ] {
        let reason = divided(&nodes.coordinator, sql).unwrap_err();
        assert!(reason.contains("it reads more than Parquet files in buckets"), "{reason}");
        assert_eq!(nodes.coordinator.query(sql), nodes.coordinator.query_with(sql, &alone), "{sql}");
    }
}

#[test]
fn a_query_over_few_rows_is_done_by_one_node() {
    let nodes = Nodes::with_tables(3);
    let few = json!({"nyala.single_node_rows": "1000000"});
    let alone = json!({"nyala.distributed": "off"});
    for sql in QUERIES {
        let expected = nodes.coordinator.query_with(sql, &alone);
        assert_eq!(nodes.coordinator.query_with(sql, &few), expected, "{sql}");
        assert_eq!(nodes.executors[0].query_with(sql, &few), expected, "through an executor: {sql}");
    }
    let place = |sql: &str| -> String {
        let plan = nodes.coordinator.query_with(&format!("EXPLAIN {sql}"), &few);
        plan.into_iter().find(|row| row[0] == "nodes").unwrap().swap_remove(1)
    };
    let places: Vec<String> = QUERIES.iter().map(|sql| place(sql)).collect();
    assert!(places.iter().all(|place| place.ends_with(" alone: it reads few rows")), "{places:#?}");
    assert!(!places.iter().any(|place| place.starts_with("this node")), "{places:#?}");
    for node in &nodes.executors {
        assert!(bytes_read(node, FROM_ANYWHERE) > 0, "{}", nodes.state());
    }

    // Errors and the end of a statement are the same as from all nodes together.
    let wrong = "SELECT sum(1 / (id - 59999)) FROM sales";
    let (here, there) =
        (nodes.coordinator.try_query_with(wrong, &alone), nodes.coordinator.try_query_with(wrong, &few));
    assert_eq!((here.status, here.body), (there.status, there.body));
    let late = json!({"nyala.single_node_rows": "1000000", "statement_timeout": "1s"});
    let late = nodes.coordinator.try_query_with(LONG, &late);
    assert!(late.status != 200 && late.body.contains("statement_timeout"), "{}", late.body);
    eventually("the end of the statement", PATIENCE, || {
        nodes.executors.iter().all(|node| parts(node).is_empty())
    });
}

/// The average is one side of a join that DataFusion executes a second time when it had no memory. It is computed over an exchange,
/// which panics the second time: the end of the panicking task must not be taken for the end of the rows.
#[test]
fn a_side_of_a_join_that_has_no_memory_is_not_an_empty_one() {
    let [listen, secret, _] = VARIABLES;
    let little = ("NYALA_QUERY__MEMORY_LIMIT_BYTES", "67108864");
    let nodes = Nodes::with_executors(1, &[listen, secret, little]);
    let wide = "SELECT id, repeat(md5(id::text), 8) AS text FROM sales";
    let sql = format!(
        "SELECT count(*) FROM sales JOIN (SELECT avg(n) AS a FROM (SELECT o.id, count(*) AS n \
         FROM ({wide}) o JOIN ({wide}) i ON o.id = i.id AND o.text <= i.text GROUP BY o.id) g) s ON sales.price > s.a"
    );
    for rows in ["1", "10000000"] {
        let settings = json!({"nyala.single_node_rows": rows});
        let explained = nodes.coordinator.query_with(&format!("EXPLAIN {sql}"), &settings);
        let place = explained.iter().find(|row| row[0] == "nodes").unwrap();
        assert!(place[1].contains(" alone: ") && !place[1].starts_with("this node"), "{place:?}");
        let answer = nodes.coordinator.try_query_with(&sql, &settings);
        assert!(answer.status != 200 && answer.body.contains("memory"), "{rows}: {}", answer.body);
        assert!(!answer.body.contains("internal error"), "{rows}: {}", answer.body);
    }
}

/// Queries that must run on one node: encoded operators lose their FILTER, DISTINCT, IGNORE NULLS or limit, or would give a row on
/// each node.
const KEPT_TOGETHER: &[&str] = &[
    "SELECT id, count(*) FILTER (WHERE paid) OVER (PARTITION BY store) FROM sales ORDER BY id LIMIT 20",
    "SELECT id, sum(DISTINCT item) OVER (PARTITION BY store) FROM sales ORDER BY id LIMIT 20",
    "SELECT id, lag(price) IGNORE NULLS OVER (PARTITION BY store ORDER BY id) FROM sales ORDER BY id LIMIT 20",
    "SELECT id, row_number() OVER (PARTITION BY store ORDER BY id DESC), lag(price) OVER (PARTITION BY store ORDER BY id) \
     FROM sales ORDER BY id LIMIT 20",
    "SELECT count(*) FROM (SELECT price FROM sales UNION ALL SELECT avg(price) FROM sales WHERE false) t",
    "SELECT count(*) FROM (SELECT id FROM sales LIMIT 4294967296) t",
    "SELECT count(random()) FROM sales",
];

/// Queries that take as many rows as their limits say, wherever the rows come from.
const LIMITED: &[&str] = &[
    "SELECT count(*) FROM (SELECT * FROM big LIMIT 5) t",
    "SELECT count(*) FROM ((SELECT v FROM big LIMIT 5) UNION ALL (SELECT v FROM big LIMIT 7)) t",
    "SELECT sum(n) FROM (SELECT v % 3, count(*) AS n FROM (SELECT * FROM big LIMIT 1000) t GROUP BY 1) u",
    "SELECT count(*) FROM (SELECT * FROM big OFFSET 10 LIMIT 5) t",
    "SELECT count(*) FROM (SELECT * FROM big WHERE v % 2 = 0 LIMIT 9) t",
];

/// Queries with limits below joins, where each node could take as many rows for itself. Columns are not renamed: a projection
/// would come between limit and join.
const LIMITED_BELOW_JOINS: &[&str] = &[
    "SELECT count(*) FROM (SELECT id FROM sales LIMIT 50) b JOIN sales s ON b.id = s.id",
    "SELECT count(*) FROM (SELECT id FROM sales GROUP BY id LIMIT 70) b JOIN sales s ON b.id = s.id",
    "SELECT count(*) FROM ((SELECT id FROM sales LIMIT 5) UNION ALL (SELECT id FROM sales LIMIT 7)) b \
     JOIN sales s ON b.id = s.id",
    "SELECT count(*) FROM (SELECT id FROM sales WHERE id % 2 = 0 UNION ALL SELECT id FROM sales WHERE id % 2 = 1 LIMIT 9) b \
     JOIN sales s ON b.id = s.id",
    "SELECT count(*) FROM (SELECT b.id FROM (SELECT id FROM sales LIMIT 50) b JOIN sales s ON b.id = s.id LIMIT 40) t",
    "SELECT count(*), count(b.id) FROM sales s LEFT JOIN (SELECT id FROM sales LIMIT 70) b ON b.id = s.id",
    "SELECT count(*), count(s.id) FROM (SELECT id FROM sales LIMIT 70) b LEFT JOIN sales s ON b.id = s.id",
    "SELECT count(*), count(a.id), count(b.id) FROM (SELECT id FROM sales LIMIT 30) a \
     FULL JOIN (SELECT id FROM sales LIMIT 40) b ON a.id = b.id + 1000000",
    "SELECT count(*) FROM sales WHERE id IN (SELECT id FROM sales LIMIT 50)",
    "SELECT count(*) FROM sales WHERE id IN (SELECT s.id FROM sales s JOIN items USING (item) LIMIT 20)",
    "SELECT count(*) FROM sales WHERE id NOT IN (SELECT id FROM sales LIMIT 50)",
    "SELECT count(*) FROM sales WHERE id < 0 OR id IN (SELECT id FROM sales LIMIT 50)",
    "SELECT count(*) FROM sales s WHERE NOT EXISTS (SELECT FROM (SELECT id FROM sales LIMIT 50) b WHERE b.id = s.id)",
    // Without a pair of equal columns.
    "SELECT count(*), count(DISTINCT b.id) FROM (SELECT id FROM sales LIMIT 5) b CROSS JOIN sales s WHERE s.id % 100 = 0",
    "SELECT count(*), count(DISTINCT b.id) FROM (SELECT id FROM sales LIMIT 5) b \
     JOIN sales s ON b.id > s.id - 1000000 WHERE s.id % 100 = 0",
    "SELECT count(*), count(DISTINCT b.id) FROM (SELECT id FROM sales WHERE id % 100 = 0) s \
     LEFT JOIN (SELECT id FROM sales LIMIT 5) b ON b.id > s.id - 1000000",
    "SELECT count(*), count(s.id) FROM sales s RIGHT JOIN (SELECT id FROM sales LIMIT 5) b ON s.id < b.id - 1000000",
    "SELECT count(*), count(s.id) FROM sales s FULL JOIN (SELECT id FROM sales LIMIT 5) b ON s.id < b.id - 1000000",
    "SELECT count(*) FROM (SELECT id FROM sales LIMIT 5) b WHERE EXISTS (SELECT FROM sales s WHERE s.id < b.id + 1000000)",
    "SELECT count(*) FROM (SELECT id FROM sales LIMIT 5) b \
     WHERE NOT EXISTS (SELECT FROM sales s WHERE s.id > b.id + 1000000)",
];

/// Aggregations that give a row for no rows, over a join with a table of which no file is read.
const OVER_NO_FILES: &[&str] = &[
    "SELECT city, n FROM stores CROSS JOIN (SELECT count(*) AS n FROM sales JOIN years ON sales.id = years.id \
     WHERE year = 2) c ORDER BY city",
    "SELECT count(*) FROM (SELECT id FROM sales UNION ALL SELECT count(*) FROM \
     (SELECT item, sum(id) AS s FROM sales GROUP BY item) a JOIN years ON a.s < years.id WHERE year = 2) t",
];

#[test]
fn nothing_of_a_query_is_lost_on_the_way() {
    let nodes = Nodes::with_tables(2);
    let alone = json!({"nyala.distributed": "off"});
    for sql in KEPT_TOGETHER {
        divided(&nodes.coordinator, sql).unwrap_err();
        assert_eq!(nodes.coordinator.query(sql), nodes.coordinator.query_with(sql, &alone), "{sql}");
    }
    // A file of several parts, with several row groups in each.
    let file = format!("s3://{BUCKET}/big/0.parquet");
    let sql = "SELECT v, md5(v::text) AS a, md5((v + 1)::text) AS b FROM generate_series(1, 600000) AS s(v)";
    nodes.coordinator.query(&format!("COPY ({sql}) TO '{file}' (ROW_GROUP_SIZE 20000)"));
    nodes
        .coordinator
        .query(&format!("CREATE EXTERNAL TABLE big STORED AS PARQUET LOCATION 's3://{BUCKET}/big/'"));
    for sql in LIMITED {
        assert_eq!(nodes.coordinator.query(sql), nodes.coordinator.query_with(sql, &alone), "{sql}");
    }
    assert_eq!(nodes.coordinator.query("SELECT * FROM big LIMIT 5").len(), 5);
    for sql in LIMITED_BELOW_JOINS {
        divided(&nodes.coordinator, sql).unwrap();
        assert_eq!(nodes.coordinator.query(sql), nodes.coordinator.query_with(sql, &alone), "{sql}");
    }
    let folder = format!("s3://{BUCKET}/years/");
    nodes
        .coordinator
        .query(&format!("COPY (SELECT id FROM sales WHERE id < 1000) TO '{folder}year=1/0.parquet'"));
    nodes.coordinator.query(&format!(
        "CREATE EXTERNAL TABLE years STORED AS PARQUET PARTITIONED BY (year INT) LOCATION '{folder}'"
    ));
    for sql in OVER_NO_FILES {
        assert_eq!(nodes.coordinator.query(sql), nodes.coordinator.query_with(sql, &alone), "{sql}");
    }
    // The last one gives a value larger than a message may be by default, which is 4 MB.
    for sql in [
        "SELECT count(*), sum(v), count(DISTINCT a) FROM big",
        "SELECT repeat(city, 900000) FROM stores WHERE store = 3",
    ] {
        divided(&nodes.coordinator, sql).unwrap();
        let (there, here) = (nodes.coordinator.query(sql), nodes.coordinator.query_with(sql, &alone));
        assert!(there == here, "{sql}");
    }
}

#[test]
fn settings_and_errors_travel_with_a_query() {
    let nodes = Nodes::with_tables(2);
    for zone in ["Asia/Tokyo", "America/New_York"] {
        let sql = "SELECT to_timestamp(id * 86400)::timestamptz::text AS t, count(*) FROM sales \
                   WHERE id < 3 GROUP BY t ORDER BY t";
        divided(&nodes.coordinator, sql).unwrap();
        let there = nodes.coordinator.query_with(sql, &json!({"timezone": zone}));
        let here = nodes.coordinator.query_with(sql, &json!({"timezone": zone, "nyala.distributed": "off"}));
        assert_eq!(there, here, "{zone}");
    }
    for sql in [
        "SELECT sum(1 / (id - 59999)) FROM sales",
        "SELECT store, sum(price * 9223372036854775807) FROM sales WHERE id IN (0, 7) GROUP BY store",
        "SELECT max(left(city, 5)::bigint) FROM stores JOIN sales USING (store)",
    ] {
        divided(&nodes.coordinator, sql).unwrap();
        let alone = json!({"nyala.distributed": "off"});
        let (here, there) = (nodes.coordinator.try_query_with(sql, &alone), nodes.coordinator.try_query(sql));
        assert_eq!((here.status, here.body), (there.status, there.body), "{sql}");
    }
}

/// Bytes from the store and from the caches.
const FROM_ANYWHERE: &str = "bytes_from_store + bytes_from_disk + bytes_from_memory";

/// Bytes that a node has read of tables in the bucket since its start, by where they came from.
fn bytes_read(server: &Server, from: &str) -> u64 {
    let sql = format!("SELECT coalesce(sum({from}), 0) FROM system.caches");
    server.query(&sql)[0][0].parse().unwrap()
}

#[test]
fn every_part_of_a_file_is_read_by_one_node() {
    let nodes = Nodes::with_tables(3);
    let second = coordinator(&nodes.shared);
    eventually("the executors on the second coordinator", PATIENCE, || {
        second.query("SELECT node FROM system.nodes WHERE executor AND state = 'serving'").len() == 3
    });
    let ask_all = |server: &Server| QUERIES.iter().for_each(|sql| drop(server.query(sql)));
    ask_all(&nodes.coordinator);
    let read: Vec<u64> = nodes.executors.iter().map(|node| bytes_read(node, "bytes_from_store")).collect();
    // The coordinator had read some blocks from the store, and given them to their home.
    let all_read = nodes.executors.iter().all(|node| bytes_read(node, FROM_ANYWHERE) > 0);
    assert!(all_read, "each node reads some\n{}", nodes.state());
    // Through another coordinator the same nodes read the same parts.
    ask_all(&second);
    ask_all(&nodes.coordinator);
    let again: Vec<u64> = nodes.executors.iter().map(|node| bytes_read(node, "bytes_from_store")).collect();
    assert_eq!(again, read);
    // Nodes do not take blocks of each other's caches for parts that are not theirs, either: each would have all blocks in the end.
    let blocks = |node: &Server| -> u64 {
        node.query("SELECT count(*) FROM system.cache_blocks")[0][0].parse().unwrap()
    };
    let copies: u64 = nodes.executors.iter().map(|node| blocks(node)).sum();
    for table in ["sales", "items", "stores"] {
        let warm = format!("WARM CACHE FOR TABLE {table}");
        eventually("all blocks on the second coordinator", PATIENCE, || second.query(&warm)[0][2] == "0");
    }
    let all = blocks(&second);
    assert!(copies < 2 * all, "{copies} copies of {all} blocks");
}

/// Checks that there are no more connections to an executor than those of the coordinator and of the other executor.
fn check_connections(executor: &Server) {
    let name = executor.query("SELECT node FROM system.local_queries")[0][0].clone();
    let address = executor.query(&format!("SELECT address FROM system.nodes WHERE node = '{name}'"));
    let address: std::net::SocketAddr = address[0][0].parse().unwrap();
    let count = crate::forwarding::connections_to(address.port());
    assert!(count <= 2, "{count} connections");
}

#[test]
fn many_clients_share_the_connections_of_the_nodes() {
    let nodes = Nodes::with_tables(2);
    let few = &QUERIES[..3];
    let expected: Vec<_> = few.iter().map(|sql| nodes.coordinator.query(sql)).collect();
    std::thread::scope(|scope| {
        let ask = || {
            for (sql, expected) in few.iter().zip(&expected) {
                assert_eq!(nodes.coordinator.query(sql), *expected, "{sql}");
            }
        };
        let asking: Vec<_> = (0..64).map(|_| scope.spawn(ask)).collect();
        asking.into_iter().for_each(|asking| asking.join().unwrap());
    });
    nodes.executors.iter().for_each(|node| check_connections(node));
}

#[test]
fn parts_share_the_connections_of_their_nodes_and_wait_for_no_slots_there() {
    let [listen, secret, rows] = VARIABLES;
    let nodes = Nodes::with_executors(2, &[listen, secret, rows, ("NYALA_ADMISSION__SLOTS", "1")]);
    let own = "SELECT count(*) FROM generate_series(1, 1000000) a(x), generate_series(1, 1000000) b(y) WHERE x + y = 1";
    let alone = json!({"nyala.distributed": "off"});
    let ask =
        |sql: &&str| assert_eq!(nodes.coordinator.query(sql), nodes.coordinator.query_with(sql, &alone));
    std::thread::scope(|scope| {
        // Each executor has its only slot taken by a query of its own.
        let own: Vec<_> =
            nodes.executors.iter().map(|node| scope.spawn(move || node.try_query(own))).collect();
        eventually("the own queries of the executors", PATIENCE, || {
            nodes.executors.iter().all(|node| node.query("SELECT query FROM system.local_queries").len() == 2)
        });
        let asking: Vec<_> = (0..8).map(|_| scope.spawn(|| QUERIES.iter().for_each(ask))).collect();
        asking.into_iter().for_each(|asking| asking.join().unwrap());
        for node in &nodes.executors {
            check_connections(node);
            let running = "SELECT query_id FROM system.local_queries WHERE query LIKE '%b(y)%' AND query NOT LIKE '%system%'";
            let id = node.query(running)[0][0].clone();
            node.query(&format!("KILL QUERY {id}"));
        }
        own.into_iter().for_each(|own| assert_ne!(own.join().unwrap().status, 200));
    });
}

/// A query that takes minutes, of which each node does a part.
const LONG: &str = "SELECT sum(sqrt(a.price + b.price)) FROM sales a JOIN sales b ON a.store = b.store";

/// The statements that a node runs for others.
fn parts(server: &Server) -> Vec<Vec<String>> {
    server.query("SELECT query_id, query FROM system.local_queries WHERE sent_by IS NOT NULL")
}

#[test]
fn the_parts_of_a_query_end_with_it() {
    let nodes = Nodes::with_tables(2);
    divided(&nodes.coordinator, LONG).unwrap();
    let wait_for_parts = || {
        eventually("the parts of the query", PATIENCE, || {
            nodes.executors.iter().all(|node| parts(node).iter().any(|row| row[1] == LONG))
        });
    };
    let wait_until_gone = || {
        eventually("the end of all parts", PATIENCE, || {
            nodes.executors.iter().all(|node| parts(node).is_empty())
        });
    };
    std::thread::scope(|scope| {
        // The query is ended by its number, on the node that got it.
        let asked = scope.spawn(|| nodes.coordinator.try_query(LONG));
        wait_for_parts();
        // On threads that serve connections, the parts would delay answers to pings.
        eventually("parts on the threads of long queries", PATIENCE, || {
            nodes.executors.iter().all(|node| tasks_of_large(node) > 0)
        });
        let running = "SELECT query_id FROM system.local_queries WHERE sent_by IS NULL AND query LIKE 'SELECT sum(sqrt%'";
        let id = nodes.coordinator.query(running)[0][0].clone();
        nodes.coordinator.query(&format!("KILL QUERY {id}"));
        assert_ne!(asked.join().unwrap().status, 200);
        wait_until_gone();

        // The query is ended on one of the nodes that do a part.
        let asked = scope.spawn(|| nodes.coordinator.try_query(LONG));
        wait_for_parts();
        let part = parts(&nodes.executors[0])[0][0].clone();
        nodes.executors[0].query(&format!("KILL QUERY {part}"));
        let ended = asked.join().unwrap();
        assert!(ended.status != 200 && ended.body.contains("cancel"), "{}", ended.body);
        wait_until_gone();

        // The query is ended by its deadline.
        let late = nodes.coordinator.try_query_with(LONG, &json!({"statement_timeout": "1s"}));
        assert!(late.status != 200 && late.body.contains("statement_timeout"), "{}", late.body);
        wait_until_gone();
    });
    // Nothing is left of the ended queries.
    for node in &nodes.executors {
        assert_eq!(node.query("SELECT count(*) FROM sales"), [["360000"]]);
    }
}

#[test]
fn a_query_survives_the_end_of_a_node() {
    let mut nodes = Nodes::with_tables(3);
    let sql = "SELECT store, count(*), sum(price) FROM sales GROUP BY store ORDER BY store";
    let expected = nodes.coordinator.query(sql);
    let ask_for = |coordinator: &Server, time: Duration| {
        let begun = Instant::now();
        while begun.elapsed() < time {
            assert_eq!(coordinator.query(sql), expected);
        }
    };
    let killed = nodes.executors.remove(0);
    let folder = std::thread::scope(|scope| {
        let asking: Vec<_> =
            (0..4).map(|_| scope.spawn(|| ask_for(&nodes.coordinator, Duration::from_secs(4)))).collect();
        std::thread::sleep(Duration::from_secs(1));
        let folder = killed.kill();
        asking.into_iter().for_each(|asking| asking.join().unwrap());
        folder
    });
    // The node comes back, and takes its part again.
    nodes.executors.insert(0, nodes.shared.serve_folder(folder, &VARIABLES));
    nodes.wait_for(3);
    let takes_part = || {
        assert_eq!(nodes.coordinator.query(sql), expected);
        bytes_read(&nodes.executors[0], FROM_ANYWHERE) > 0
    };
    eventually_or_tell("a part for the node that is back", PATIENCE, takes_part, || nodes.state());

    // A node that hangs is found, too.
    let mut stopped = nodes.executors.remove(1);
    stopped.signal("STOP");
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| nodes.coordinator.query(sql));
        eventually("the answer without the node that hangs", NOTICED, || asked.is_finished());
        assert_eq!(asked.join().unwrap(), expected);
    });
    stopped.signal("CONT");
}

/// A node's clients may use the threads of all executors.
#[test]
fn a_node_has_the_slots_of_all_executors() {
    let mut nodes = Nodes::with_tables(3);
    let slots = |nodes: &Nodes, column: &str| -> u64 {
        let sql = format!("SELECT {column} FROM system.resource_groups WHERE resource_group = 'default'");
        nodes.coordinator.query(&sql)[0][0].parse().unwrap()
    };
    eventually("the slots of three", PATIENCE, || {
        slots(&nodes, "spread_slots") == 3 * slots(&nodes, "slots")
    });
    drop(nodes.executors.pop().unwrap().kill());
    eventually("the slots of two", PATIENCE, || slots(&nodes, "spread_slots") == 2 * slots(&nodes, "slots"));
}
