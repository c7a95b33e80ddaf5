//! How an answer tells what made it: over HTTP, in a notice of the PostgreSQL door, and in system tables.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::{PATIENCE, eventually};
use crate::server::{Response, Server};

const BY_CITY: &str = "SELECT city, sum(price) FROM sales GROUP BY city ORDER BY city";
const BY_DAY: &str = "SELECT day, count(*) FROM sales GROUP BY day ORDER BY day";

/// A table of files with a cube that answers by city, and one that answers by shop.
fn sales() -> (TempDir, Server) {
    let (folder, server) = (tempfile::tempdir().unwrap(), Server::empty(&[]));
    let file = folder.path().join("sales.parquet");
    let file = file.display();
    for sql in [
        format!(
            "COPY (SELECT 'city ' || v % 7 AS city, v % 3 AS shop, v % 50 AS day, v AS price \
             FROM generate_series(1, 5000) AS s(v)) TO '{file}'"
        ),
        format!("CREATE EXTERNAL TABLE sales STORED AS PARQUET LOCATION '{file}'"),
        "CREATE CUBE cities AS SELECT city, sum(price), count(*) FROM sales GROUP BY city".to_owned(),
        "CREATE CUBE shops AS SELECT shop, sum(price), count(*) FROM sales GROUP BY shop".to_owned(),
        "BUILD CUBE cities".to_owned(),
        "BUILD CUBE shops".to_owned(),
    ] {
        server.query(&sql);
    }
    (folder, server)
}

fn ask(server: &Server, sql: &str, more: &Value) -> Value {
    let mut body = json!({ "sql": sql });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let response = server.post(&body.to_string());
    assert_eq!(response.status, 200, "{sql}: {}", response.body);
    serde_json::from_str(&response.body).unwrap()
}

#[test]
fn an_answer_tells_its_route() {
    let (_folder, server) = sales();
    let wanted = json!({"route": true});
    let first = ask(&server, BY_CITY, &wanted);
    let route = &first["route"];
    assert_eq!(route["answered_from"], "public.cities", "{first}");
    assert_eq!(route["aggregations"][0]["cuboids"], json!([["city"]]));
    let others = route["aggregations"][0]["other_cubes"].as_array().unwrap();
    assert!(others.iter().any(|miss| miss["cube"] == "public.shops"), "{first}");
    assert_eq!(route["ready_plan"], false);
    for phase in ["planning", "queued", "running", "sending"] {
        assert!(route["phases_us"][phase].is_u64(), "{first}");
    }
    let preparing = |answer: &Value| answer["route"]["phases_us"]["preparing"].as_u64().unwrap();
    assert!(preparing(&first) > 0, "{first}");
    // Without `route` the answer tells nothing of it, and later statements run a cached plan.
    assert!(ask(&server, BY_CITY, &json!({})).get("route").is_none());
    eventually("a ready plan", PATIENCE, || {
        let again = ask(&server, BY_CITY, &wanted);
        assert_eq!(again["route"]["aggregations"][0]["cuboids"], json!([["city"]]), "{again}");
        let is_ready = again["route"]["ready_plan"] == true;
        assert!(!is_ready || preparing(&again) == 0, "{again}");
        is_ready
    });

    let missed = ask(&server, BY_DAY, &wanted);
    assert_eq!(missed["route"]["answered_from"], Value::Null);
    let reasons = missed["route"]["aggregations"][0]["other_cubes"].to_string();
    assert!(reasons.contains("public.cities") && reasons.contains("day"), "{reasons}");

    // Other formats have no place for the route.
    let accept = "accept: text/csv\r\n";
    let refused = server.post_with(&json!({"sql": BY_CITY, "route": true}).to_string(), accept);
    assert!(refused.status == 400 && refused.body.contains("`route` needs"), "{}", refused.body);
}

#[test]
fn an_answer_of_some_rows_tells_whether_there_are_more() {
    let (_folder, server) = sales();
    for (most, rows, more) in [(0, 0, true), (1, 1, true), (6, 6, true), (7, 7, false), (100, 7, false)] {
        let answer = ask(&server, BY_CITY, &json!({ "max_rows": most }));
        assert_eq!(answer["rows"].as_array().unwrap().len(), rows, "{answer}");
        assert_eq!((&answer["row_count"], &answer["more"]), (&json!(rows), &json!(more)), "{most}");
    }
    assert!(ask(&server, BY_CITY, &json!({})).get("more").is_none());
    // A query that would never end by itself ends after the wanted rows, and has not failed.
    let endless = "SELECT a.v FROM generate_series(1, 100000000) a(v), generate_series(1, 100000000) b(v)";
    let answer = ask(&server, endless, &json!({ "max_rows": 10_000 }));
    assert_eq!((&answer["row_count"], &answer["more"]), (&json!(10_000), &json!(true)));
    let log =
        "SELECT status FROM system.query_log WHERE query LIKE '%100000000%' AND query NOT LIKE '%system%'";
    eventually("its end", PATIENCE, || server.query(log) == [["finished"]]);
}

#[test]
fn a_statement_is_found_by_its_number() {
    let (_folder, server) = sales();
    let number = |response: &Response| -> u64 {
        let line = response.head.lines().find(|line| line.to_ascii_lowercase().starts_with("x-nyala-query:"));
        line.unwrap().split_once(':').unwrap().1.trim().parse().unwrap()
    };
    let found = |query: u64| -> Value {
        let response = server.get(&format!("/api/v1/queries/{query}"));
        assert_eq!(response.status, 200, "{}", response.body);
        serde_json::from_str(&response.body).unwrap()
    };
    let csv = server.post_with(&json!({ "sql": BY_CITY }).to_string(), "accept: text/csv\r\n");
    let ended = found(number(&csv));
    assert_eq!((&ended["state"], &ended["rows"]), (&json!("finished"), &json!(7)), "{ended}");
    assert_eq!(ended["route"]["answered_from"], "public.cities", "{ended}");
    assert_eq!(ended["progress"], Value::Null);
    let unknown = server.get("/api/v1/queries/999999999");
    assert!(unknown.status == 404 && unknown.body.contains("999999999"), "{}", unknown.body);
    assert_eq!(server.get("/api/v1/queries/x").status, 400);

    // A running statement tells its progress.
    let long = "SELECT count(*) FROM sales a, sales b, sales c, generate_series(1, 100000) d(v) WHERE a.price + b.price + c.price = d.v";
    std::thread::scope(|scope| {
        scope.spawn(|| server.try_query(long));
        let running = "SELECT query_id, rows_total FROM system.queries WHERE query LIKE '%generate_series(1, 100000)%' \
                       AND state = 'running' AND query NOT LIKE '%system%'";
        eventually("its work", PATIENCE, || !server.query(running).is_empty());
        let query = server.query(running)[0][0].clone();
        let seen = found(query.parse().unwrap());
        assert_eq!(seen["state"], "running", "{seen}");
        assert!(seen["progress"]["rows_read"].is_u64(), "{seen}");
        server.query(&format!("KILL QUERY {query}"));
    });
}

#[test]
fn a_notice_tells_the_route() {
    let (_folder, server) = sales();
    let script = format!("SET nyala.show_route = on; {BY_CITY}; SET nyala.show_route = off; {BY_DAY}");
    let output = crate::loads::psql(&server, &script, "");
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let notices: Vec<&str> = output.stderr.lines().filter(|line| line.contains("route:")).collect();
    assert_eq!(notices.len(), 1, "{}", output.stderr);
    let text = notices[0].split_once("route: ").unwrap().1;
    let route: Value = serde_json::from_str(text).unwrap();
    assert_eq!(route["answered_from"], "public.cities");
}

#[test]
fn tables_tell_what_missed_and_what_hit() {
    let (_folder, server) = sales();
    for _ in 0..3 {
        server.query(BY_CITY);
        server.query(BY_DAY);
    }
    let misses = server.query("SELECT query, misses, reason, asked FROM system.misses");
    let missed = misses.iter().find(|row| row[0].contains("day")).unwrap();
    assert_eq!((missed[1].as_str(), missed[3].as_str()), ("3", "3"), "{misses:?}");
    assert!(missed[2].contains("day"), "{missed:?}");
    assert!(!misses.iter().any(|row| row[0].contains("city")), "{misses:?}");
    let cuboids = server.query(
        "SELECT cube, cuboid, hits, last_used IS NULL, memory_bytes FROM system.cuboids ORDER BY cube, cuboid",
    );
    let hits = |cube: &str| -> u64 {
        cuboids.iter().filter(|row| row[0] == cube).map(|row| row[2].parse::<u64>().unwrap()).sum()
    };
    assert_eq!((hits("cities"), hits("shops")), (3, 0), "{cuboids:?}");
    let log = server.query(
        "SELECT DISTINCT cuboids, miss_reason IS NULL FROM system.query_log WHERE query LIKE '%FROM sales GROUP BY%' \
         AND query NOT LIKE 'CREATE%' ORDER BY 1 NULLS LAST",
    );
    assert_eq!(log, [["public.cities cuboid (city)", "true"], ["NULL", "false"]]);
}

#[test]
fn a_link_asks_and_changes_nothing() {
    let (_folder, server) = sales();
    let link = |rest: &str| server.get(&format!("/api/v1/query?sql={rest}"));
    let asked = link("SELECT%20count(*)%20AS%20n%20FROM%20sales&format=csv");
    assert_eq!((asked.status, asked.body.as_str()), (200, "n\n5000\n"), "{}", asked.body);
    let asked = link("SELECT%20city%20FROM%20sales&max_rows=2");
    assert!(asked.body.contains("\"more\":true"), "{}", asked.body);
    for changing in [
        "DROP%20CUBE%20cities",
        "INSERT%20INTO%20x%20VALUES%20(1)",
        "KILL%20QUERY%201",
        "CREATE%20SCHEMA%20s",
    ] {
        let refused = link(changing);
        assert!(matches!(refused.status, 400 | 405), "{changing}: {}", refused.body);
    }
    assert_eq!(server.query("SELECT count(*) FROM system.cubes"), [["2"]]);
    for wrong in ["SELECT%201&format=xml", "SELECT%201&fromat=csv", "SELECT%201&format=csv&route=true"] {
        assert_eq!(link(wrong).status, 400, "{wrong}");
    }
}
