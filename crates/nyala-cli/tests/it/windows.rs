//! Window functions that look at other rows: LEAD and LAG, with and without NULLs. The answers are DuckDB's, since PostgreSQL has no
//! IGNORE NULLS.

use crate::harness::TestEngine;
use crate::plans::becomes_ready;

/// A live table, and a cube over it.
async fn values() -> TestEngine {
    let test = TestEngine::new().await;
    test.run("CREATE LIVE TABLE t (id BIGINT PRIMARY KEY, v BIGINT)").await;
    let values = "(1, 10), (2, 20), (3, 30), (4, 40), (5, NULL), (6, NULL), (7, 70), (8, 80), (9, NULL)";
    test.run(&format!("INSERT INTO t VALUES {values}")).await;
    test.run("CREATE CUBE c AS SELECT max(v), count(*) FROM t GROUP BY id").await;
    test.run("BUILD CUBE c").await;
    test
}

/// The only column of the answer, in one line.
async fn column(test: &TestEngine, sql: &str) -> String {
    test.run(sql).await.concat().join(" ")
}

#[tokio::test(flavor = "multi_thread")]
async fn lead_and_lag_pass_over_nulls_in_both_directions() {
    const WHOLE: &str = "ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW";
    const HALVES: &str = "PARTITION BY id % 2 ORDER BY id";
    let test = values().await;
    for (call, window, expected) in [
        ("lead(v) IGNORE NULLS", "ORDER BY id", "20 30 40 70 70 70 80 NULL NULL"),
        ("lead(v, 2) IGNORE NULLS", "ORDER BY id", "30 40 70 80 80 80 NULL NULL NULL"),
        ("lead(v, 3, -1) IGNORE NULLS", "ORDER BY id", "40 70 80 -1 -1 -1 -1 -1 -1"),
        ("lead(v, 0, -1) IGNORE NULLS", "ORDER BY id", "10 20 30 40 NULL NULL 70 80 NULL"),
        ("lead(v, -2) IGNORE NULLS", "ORDER BY id", "NULL NULL 10 20 30 30 30 40 70"),
        ("lead(v, 2) IGNORE NULLS", "ORDER BY id DESC", "NULL NULL 10 20 30 30 30 40 70"),
        ("lead(v, 2) IGNORE NULLS", HALVES, "70 80 NULL NULL NULL NULL NULL NULL NULL"),
        ("lead(v, 2) IGNORE NULLS", WHOLE, "30 40 70 80 80 80 NULL NULL NULL"),
        ("lag(v, 2) IGNORE NULLS", "ORDER BY id", "NULL NULL 10 20 30 30 30 40 70"),
        ("lag(v, -2, -1) IGNORE NULLS", "ORDER BY id", "30 40 70 80 80 80 -1 -1 -1"),
        ("lag(v, 0) IGNORE NULLS", "ORDER BY id", "10 20 30 40 NULL NULL 70 80 NULL"),
        ("lead(v, 2)", "ORDER BY id", "30 40 NULL NULL 70 80 NULL NULL NULL"),
        ("lag(v, -2, -1)", "ORDER BY id", "30 40 NULL NULL 70 80 NULL -1 -1"),
    ] {
        let sql = format!("SELECT {call} OVER ({window}) FROM t ORDER BY id");
        assert_eq!(column(&test, &sql).await, expected, "{sql}");
        let sql = format!("SELECT {call} OVER ({window}) FROM t ORDER BY id LIMIT 1");
        assert_eq!(Some(column(&test, &sql).await.as_str()), expected.split(' ').next(), "{sql}");
        let sql = format!(
            "SELECT {call} OVER ({window}) FROM (SELECT id, max(v) AS v FROM t GROUP BY id) AS s ORDER BY id"
        );
        test.check_hit(&sql).await;
        assert_eq!(column(&test, &sql).await, expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn windows_of_one_query_pass_over_nulls_each_for_itself() {
    let test = values().await;
    let sql = "SELECT lead(v, 2) IGNORE NULLS OVER w, lag(v) IGNORE NULLS OVER w, lead(v) OVER w, \
               count(*) OVER (ORDER BY id) FROM t WINDOW w AS (ORDER BY id) ORDER BY id";
    let expected = [
        ["30", "NULL", "20", "1"],
        ["40", "10", "30", "2"],
        ["70", "20", "40", "3"],
        ["80", "30", "NULL", "4"],
        ["80", "40", "NULL", "5"],
        ["80", "40", "70", "6"],
        ["NULL", "40", "80", "7"],
        ["NULL", "70", "NULL", "8"],
        ["NULL", "80", "NULL", "9"],
    ];
    assert_eq!(test.run(sql).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn ready_plans_look_ahead_by_their_own_offset() {
    let test = values().await;
    let query = |offset: i64| {
        format!("SELECT lead(v, {offset}) IGNORE NULLS OVER (ORDER BY id) FROM t WHERE id > 2 ORDER BY id")
    };
    becomes_ready(&test, &query(2)).await;
    assert_eq!(column(&test, &query(2)).await, "70 80 80 80 NULL NULL NULL");
    assert_eq!(column(&test, &query(1)).await, "40 70 70 70 80 NULL NULL");
    assert_eq!(column(&test, &query(2)).await, "70 80 80 80 NULL NULL NULL");
}

/// A LAG with a negative offset looks ahead, so that a LIMIT must not be pushed below it.
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_leaves_lag_the_rows_that_it_looks_at() {
    let test = values().await;
    let frame = "ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW";
    for (call, expected) in
        [("lag(v, -2)", "30"), ("lag(v, -3, 5)", "40"), ("lead(v, 2)", "30"), ("lag(v)", "NULL")]
    {
        let sql = format!("SELECT {call} OVER ({frame}) FROM t ORDER BY id LIMIT 1");
        assert_eq!(column(&test, &sql).await, expected, "{sql}");
    }
}
