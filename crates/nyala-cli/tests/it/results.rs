//! The result cache: only for sessions that turn it on, unchanged tables, and roles that may read them.

use arrow::array::{Int32Array, Int64Array, StringArray};
use datafusion::common::ScalarValue;
use nyala_engine::{Answer, Identity, Session, SessionOptions};

use crate::batch;
use crate::harness::{TestEngine, parsed, rows_of, sorted};

const SQL: &str = "SELECT city, sum(a) FROM f WHERE year = 1993 GROUP BY city";

async fn cube(test: &TestEngine) {
    let rows = batch!(
        "year" => Int32Array::from_iter_values((0..2000).map(|i| 1992 + i % 7)),
        "city" => StringArray::from_iter_values((0..2000).map(|i| format!("city {}", i % 12))),
        "a" => Int64Array::from_iter_values(0..2000),
    );
    test.table("f", &[rows]).await;
    test.run("CREATE CUBE c AS SELECT sum(a), count(*) FROM f GROUP BY year, city").await;
    test.run("BUILD CUBE c").await;
}

fn hits(test: &TestEngine) -> u64 {
    test.engine.stats().results.hits
}

/// Whether the second of two runs gets the cached answer of the first.
async fn is_given_again(test: &TestEngine, sql: &str) -> bool {
    let first = sorted(test.run(sql).await);
    let before = hits(test);
    assert_eq!(sorted(test.run(sql).await), first, "{sql}");
    hits(test) > before
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_cuboids_answered_is_given_again_and_only_on_demand() {
    let test = TestEngine::new().await;
    cube(&test).await;
    assert!(!is_given_again(&test, SQL).await, "nobody asked for it");
    assert_eq!(test.engine.stats().results.entries, 0);
    test.run("SET nyala.result_cache = on").await;
    for sql in
        [SQL, "SELECT count(*) FROM f WHERE year = 1900", "SELECT year, count(*) AS n FROM f GROUP BY year"]
    {
        assert!(is_given_again(&test, sql).await, "{sql}");
    }
    for sql in [
        "SELECT sum(a) FROM f WHERE a > 3",
        "SELECT count(*) FROM system.settings",
        "SELECT now() > '2020-01-01', sum(a) FROM f WHERE year = 1993",
        "SELECT 1",
        "SELECT n, f.a FROM (SELECT year, count(*) AS n FROM f GROUP BY year) g JOIN f ON f.year = g.year AND f.a < 9",
    ] {
        assert!(!is_given_again(&test, sql).await, "{sql}");
    }
    test.run("CREATE LIVE TABLE names (city TEXT PRIMARY KEY, name TEXT)").await;
    test.run("INSERT INTO names VALUES ('city 1', 'old')").await;
    let joined = format!("SELECT name FROM ({SQL}) g JOIN names ON g.city = names.city");
    assert_eq!(test.run(&joined).await, [["old"]]);
    test.run("UPDATE names SET name = 'new'").await;
    assert_eq!(test.run(&joined).await, [["new"]]);
    // Queries with other values, settings or catalogs do not share an answer.
    let other = "SELECT city, sum(a) FROM f WHERE year = 1994 GROUP BY city";
    assert_ne!(sorted(test.run(SQL).await), sorted(test.run(other).await));
    let before = hits(&test);
    test.run("SET datafusion.execution.batch_size = 100").await;
    test.run(SQL).await;
    assert_eq!(hits(&test), before);
    test.run("RESET datafusion.execution.batch_size").await;
    test.run("DROP CUBE c").await;
    assert!(!is_given_again(&test, SQL).await, "an answer outlived its cube");
    let shown = test.run("SELECT entries, bytes FROM system.caches WHERE cache = 'results'").await;
    assert_ne!(shown, [["0", "0"]]);
}

/// An answer is cached however often its shape was asked, and so also from a cached plan.
#[tokio::test(flavor = "multi_thread")]
async fn answers_of_ready_plans_are_given_again() {
    let test = TestEngine::new().await;
    cube(&test).await;
    for _ in 0..50 {
        test.run(SQL).await;
        test.settle().await;
        if test.engine.stats().plans.hits > 0 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(test.engine.stats().plans.hits > 0);
    test.run("SET nyala.result_cache = on").await;
    assert!(is_given_again(&test, SQL).await);
    let planned = test.engine.stats().plans;
    assert!(is_given_again(&test, SQL).await);
    assert_eq!(test.engine.stats().plans.hits, planned.hits, "computed although known");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_kept_within_their_budget() {
    let test = TestEngine::with_config(|config| config.cache.results_bytes = 1 << 20).await;
    cube(&test).await;
    test.run("SET nyala.result_cache = on").await;
    for n in 0..500 {
        test.run(&format!("SELECT city AS c{n}, sum(a) FROM f GROUP BY city")).await;
    }
    let stats = test.engine.stats().results;
    assert!(stats.entries > 0 && stats.bytes <= 1 << 20, "{stats:?}");
    let none = TestEngine::with_config(|config| config.cache.results_bytes = 0).await;
    cube(&none).await;
    none.run("SET nyala.result_cache = on").await;
    assert!(!is_given_again(&none, SQL).await);
}

async fn ask(session: &Session, sql: &str) -> Result<Vec<Vec<String>>, String> {
    match session.query(sql).await.map_err(|error| error.to_string())? {
        Answer::Rows(rows) => Ok(rows_of(&rows.collect().await.map_err(|error| error.to_string())?)),
        Answer::Done(_) => Ok(Vec::new()),
    }
}

/// A role without SELECT gets no cached answer, also while another role gets it, and after a REVOKE.
#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_read_the_table_gets_no_kept_answer() {
    let test = TestEngine::new().await;
    cube(&test).await;
    test.run("CREATE ROLE ann LOGIN PASSWORD 'secret'").await;
    test.run("CREATE ROLE bob LOGIN PASSWORD 'secret'").await;
    test.run("GRANT SELECT ON f TO ann").await;
    let session = |role: &str| {
        let identity = Identity::Role(role.to_owned());
        test.engine.session(SessionOptions { identity, ..SessionOptions::default() })
    };
    let (ann, bob) = (session("ann"), session("bob"));
    for session in [&ann, &bob] {
        ask(session, "SET nyala.result_cache = on").await.unwrap();
    }
    let first = sorted(ask(&ann, SQL).await.unwrap());
    let before = hits(&test);
    assert_eq!(sorted(ask(&ann, SQL).await.unwrap()), first);
    assert!(hits(&test) > before);
    let refused = ask(&bob, SQL).await.unwrap_err();
    assert!(refused.contains("lacks SELECT on `public.f`"), "{refused}");
    test.run("REVOKE SELECT ON f FROM ann").await;
    assert!(ask(&ann, SQL).await.is_err());
}

/// A cached answer keeps its query and parameters, which may be much longer.
#[tokio::test(flavor = "multi_thread")]
async fn what_answers_are_known_by_counts_too() {
    const LONG: usize = 30_000;
    let test = TestEngine::with_config(|config| config.cache.results_bytes = 1 << 20).await;
    cube(&test).await;
    test.run("SET nyala.result_cache = on").await;
    let sql = "SELECT city, sum(a) FROM f WHERE city = $1 GROUP BY city";
    let statement = parsed(&test.session, sql);
    let prepared = test.session.prepare(statement).await.unwrap();
    for n in 0..60 {
        let city = ScalarValue::Utf8(Some(format!("{n:0LONG$}")));
        match test.session.execute(&prepared, vec![city]).await.unwrap() {
            Answer::Rows(rows) => assert_eq!(rows_of(&rows.collect().await.unwrap()).len(), 0),
            Answer::Done(_) => panic!("no rows"),
        }
    }
    let stats = test.engine.stats().results;
    assert!(stats.entries > 0 && stats.entries * LONG as u64 <= 1 << 20, "{stats:?}");
}
