//! Cuboids that one of several nodes keeps in memory for all.

use serde_json::json;

use crate::forwarding::VARIABLES;
use crate::program::{PATIENCE, eventually};
use crate::s3::BUCKET;
use crate::server::Server;
use crate::shared_catalog::{Node, Shared};

const CUBES: u32 = 40;

/// A node with memory for less than half of the cuboids.
fn node(shared: &Shared) -> Node {
    let [listen, secret] = VARIABLES;
    let little = [("NYALA_QUERY__MEMORY_LIMIT_BYTES", "67108864"), ("NYALA_CACHE__HOT_CUBOIDS_PERCENT", "1")];
    shared.node_with(&[listen, secret, little[0], little[1]])
}

fn query(cube: u32) -> String {
    format!("SELECT k{cube}, sum(v) FROM t WHERE k{cube} < 100 GROUP BY k{cube} ORDER BY k{cube}")
}

/// The node that keeps the cuboid of a query in memory, as `server` sees it; none if `server` reads the cuboid itself.
fn keeper(server: &Server, cube: u32) -> Option<String> {
    let plan = server.query(&format!("EXPLAIN {}", query(cube)));
    let row = plan.into_iter().find(|row| row[0] == "nodes")?;
    Some(row[1].strip_suffix(", which keeps the cuboids in memory")?.to_owned())
}

#[test]
fn the_memory_of_all_nodes_counts() {
    let shared = Shared::new();
    let (one, other) = (node(&shared), node(&shared));
    let columns: Vec<String> = (0..CUBES).map(|cube| format!("v % {} AS k{cube}", 8000 + cube)).collect();
    let file = format!("s3://{BUCKET}/t.parquet");
    let rows = format!("SELECT {}, v FROM generate_series(1, 50000) AS s(v)", columns.join(", "));
    one.query(&format!("COPY ({rows}) TO '{file}'"));
    one.query(&format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{file}'"));
    for cube in 0..CUBES {
        one.query(&format!("CREATE CUBE c{cube} AS SELECT k{cube}, sum(v) FROM t GROUP BY k{cube}"));
        one.query(&format!("BUILD CUBE c{cube}"));
    }
    let tables = json!({"nyala.use_cubes": "off"});
    let expected: Vec<_> = (0..CUBES).map(|cube| one.query_with(&query(cube), &tables)).collect();
    let ask_all = |server: &Server| {
        for (cube, expected) in (0..CUBES).zip(&expected) {
            assert_eq!(server.query(&query(cube)), *expected, "{cube}");
        }
    };
    eventually("the cubes on the other node", PATIENCE, || {
        other.query("SELECT count(*) FROM system.cubes") == [[CUBES.to_string()]]
    });
    // Cuboids are loaded behind the queries.
    let name = other.query("SELECT node FROM system.local_queries")[0][0].clone();
    let kept = || (0..CUBES).filter(|cube| keeper(&one, *cube).as_ref() == Some(&name)).collect::<Vec<_>>();
    eventually("cuboids for which there is no room here", PATIENCE, || {
        ask_all(&one);
        kept().len() >= 3
    });
    // Queries to the other node soon bring its cuboids into memory, and queries to this node are answered from that memory.
    let hits = |server: &Server| -> u64 {
        let sql = "SELECT hits FROM system.caches WHERE cache = 'hot_cuboids'";
        server.query(sql)[0][0].parse().unwrap()
    };
    let cube = *kept().first().unwrap();
    eventually("hits of the other node's memory", PATIENCE, || {
        let before = hits(&other);
        let one_more: Vec<_> = (0..4).map(|_| one.query(&query(cube))).collect();
        assert!(one_more.iter().all(|rows| *rows == expected[cube as usize]));
        hits(&other) >= before + 4
    });
    // Both nodes still answer all queries.
    ask_all(&one);
    ask_all(&other);

    // Without the other node, this node reads the files.
    drop(other);
    ask_all(&one);
    eventually("no other node", PATIENCE, || kept().is_empty());
    ask_all(&one);
}
