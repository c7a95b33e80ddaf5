//! Numbers that do not fit their type: an error in PostgreSQL and DuckDB, and so here.

use arrow::array::{Int32Array, Int64Array, StringArray, UInt64Array};
use nyala_engine::ErrorKind;

use crate::batch;
use crate::harness::{TestEngine, sorted};

async fn numbers() -> TestEngine {
    let test = TestEngine::new().await;
    let rows = batch!(
        "k" => Int32Array::from(vec![1, 1, 2]),
        "i" => Int32Array::from(vec![Some(2_000_000_000), Some(3), None]),
        "b" => Int64Array::from(vec![i64::MAX, 1, 5]),
        "u" => UInt64Array::from(vec![u64::MAX, 1, 5]),
    );
    test.table("n", &[rows]).await;
    test
}

async fn out_of_range(test: &TestEngine, sql: &str) {
    test.error(sql, ErrorKind::OutOfRange, "out of ").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn results_that_do_not_fit_are_errors() {
    let test = numbers().await;
    for sql in [
        "SELECT i * i FROM n",
        "SELECT k FROM n WHERE i + i > 0",
        "SELECT k FROM n ORDER BY i - CAST(-2000000000 AS INT)",
        "SELECT k, sum(i * i) FROM n GROUP BY k",
        "SELECT a.k FROM n a JOIN n b ON a.i + a.i = b.i * b.i",
        "SELECT k FROM n WHERE b IN (SELECT b + 1 FROM n)",
        "SELECT (SELECT max(m.b + 1) FROM n m WHERE m.k = n.k) FROM n",
        "SELECT sum(b + 1) OVER (ORDER BY k) FROM n",
        "SELECT u - CAST(6 AS BIGINT UNSIGNED) FROM n WHERE k = 2",
        "SELECT max(CAST(b AS DECIMAL(38, 0)) * CAST(b AS DECIMAL(38, 0)) * CAST(b AS DECIMAL(38, 0))) FROM n",
        "SELECT 9223372036854775807 + 1",
        "SELECT k FROM n WHERE b > 4611686018427387904 * 2",
        "SELECT CAST(2147483647 AS INT) + CAST(1 AS INT)",
    ] {
        out_of_range(&test, sql).await;
    }
    assert_eq!(test.run("SELECT CAST(i AS BIGINT) * 2 FROM n WHERE i > 3").await, [["4000000000"]]);
    assert_eq!(test.run("SELECT 9223372036854775806 + 1, 3 * 4 - 5").await, [["9223372036854775807", "7"]]);
    assert_eq!(
        test.run("SELECT CASE WHEN i < 10 THEN i * i ELSE 0 END AS m FROM n WHERE k = 1 ORDER BY m").await,
        [["0"], ["9"]],
        "what no row asks for is not computed"
    );
    // Columns are named after the expressions as written.
    for sql in [
        "SELECT DISTINCT row_number() OVER (ORDER BY b - 1) FROM n",
        "SELECT DISTINCT k, sum(b) FILTER (WHERE b - 1 > 3) FROM n WHERE k = 2 GROUP BY k",
        "SELECT DISTINCT array_agg(k ORDER BY b - 1) FROM n",
        "SELECT k FROM n UNION ALL SELECT k - 1 FROM n",
        "SELECT k - 1, count(*) FROM n GROUP BY GROUPING SETS ((k - 1), ()) HAVING count(*) - 1 > 0",
        "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r WHERE x < 5) SELECT sum(x - 1) FROM r",
    ] {
        assert!(!test.run(sql).await.is_empty(), "{sql}");
    }
    assert_eq!(test.run("SELECT DATE '2024-01-31' + INTERVAL '1 month' - DATE '2024-01-01'").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_that_do_not_fit_are_errors() {
    let test = numbers().await;
    for sql in [
        "SELECT sum(b) FROM n",
        "SELECT sum(u) FROM n",
        "SELECT k, sum(b) FROM n GROUP BY k",
        "SELECT k, sum(u) FROM n GROUP BY k",
        "SELECT sum(s) FROM (SELECT k, max(b) AS s FROM n GROUP BY k)",
    ] {
        out_of_range(&test, sql).await;
    }
    assert_eq!(test.run("SELECT sum(b), sum(i) FROM n WHERE k = 2").await, [["5", "NULL"]]);
    assert_eq!(
        test.run("SELECT k, sum(i) FROM n GROUP BY k ORDER BY k").await,
        [["1", "2000000003"], ["2", "NULL"]]
    );
    assert_eq!(
        test.run("SELECT sum(CAST(b AS DECIMAL(38, 0))) FROM n").await,
        [["9223372036854775813"]],
        "what the hint says"
    );
    assert_eq!(test.run("SELECT sum(b) FILTER (WHERE k = 2) FROM n").await, [["5"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn cells_that_do_not_fit_are_errors_and_others_answer() {
    let test = numbers().await;
    test.run("CREATE CUBE c AS SELECT sum(i * i), count(*) FROM n GROUP BY k").await;
    test.error("BUILD CUBE c", ErrorKind::OutOfRange, "out of ").await;
    test.run("DROP CUBE c").await;
    // Each cell fits its type. Their sum does not.
    test.run("CREATE CUBE c AS SELECT sum(b), sum(k + 1), count(*) FROM n GROUP BY b, k").await;
    test.run("BUILD CUBE c").await;
    test.check_hit("SELECT b, sum(b) FROM n GROUP BY b").await;
    test.check_hit("SELECT k, sum(k + 1) FROM n GROUP BY k").await;
    out_of_range(&test, "SELECT sum(b) FROM n").await;
    out_of_range(&test, "SELECT k, sum(b) FROM n GROUP BY k").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_not_written_with_numbers_that_do_not_fit() {
    let test = numbers().await;
    test.run("CREATE LIVE TABLE t (id INT PRIMARY KEY, amount INT)").await;
    test.run("INSERT INTO t VALUES (1, 2000000000), (2, 5)").await;
    out_of_range(&test, "UPDATE t SET amount = amount * amount").await;
    out_of_range(&test, "DELETE FROM t WHERE amount + amount > 0").await;
    out_of_range(&test, "INSERT INTO t VALUES (3, 1) RETURNING amount + CAST(2147483647 AS INT)").await;
    assert_eq!(test.run("SELECT count(*), sum(amount) FROM t").await, [["2", "2000000005"]]);
    test.run("UPDATE t SET amount = amount - 5 WHERE id = 1").await;
    assert_eq!(test.run("SELECT amount FROM t WHERE id = 1").await, [["1999999995"]]);
}

/// An expression that fails for some rows does not matter where conditions exclude these rows.
#[tokio::test(flavor = "multi_thread")]
async fn conditions_come_before_what_they_guard() {
    let test = TestEngine::new().await;
    let rows = batch!(
        "id" => Int32Array::from(vec![Some(1), Some(2), Some(3), Some(4), None]),
        "a" => Int32Array::from(vec![10, 10, 8, i32::MAX, i32::MAX]),
        "c" => Int32Array::from(vec![Some(0), Some(5), Some(2), None, Some(0)]),
        "d" => Int32Array::from(vec![1, 1, 2, -1, -1]),
        "t" => StringArray::from(vec!["x", "2", "3", "y", "z"]),
    );
    test.table("e", &[rows]).await;
    test.run("CREATE LIVE TABLE l (PRIMARY KEY (t)) AS SELECT * FROM e").await;
    for table in ["e", "l"] {
        for (sql, rows) in [
            ("SELECT c, (a - d) / c FROM e WHERE c <> 0", vec![vec!["2", "3"], vec!["5", "1"]]),
            ("SELECT id FROM e WHERE c <> 0 AND a / c > 1", vec![vec!["2"], vec!["3"]]),
            ("SELECT id FROM e WHERE a / c > 1 AND c <> 0", vec![vec!["2"], vec!["3"]]),
            ("SELECT id FROM e WHERE id > 2 AND id < 4 AND a % c = 0 AND a - d = 6", vec![vec!["3"]]),
            ("SELECT id FROM e WHERE id IN (2, 3) AND CAST(t AS INT) = id", vec![vec!["2"], vec!["3"]]),
            ("SELECT id, a - d FROM e WHERE id <= 3", vec![vec!["1", "9"], vec!["2", "9"], vec!["3", "6"]]),
            ("SELECT id, CAST(t AS INT) + a FROM e WHERE id = 2", vec![vec!["2", "12"]]),
            (
                "SELECT id, max(a) - min(d) FROM e GROUP BY id HAVING count(*) = 1 AND max(id) < 3",
                vec![vec!["1", "9"], vec!["2", "9"]],
            ),
            (
                "SELECT x.id, x.a / y.c FROM e x JOIN e y ON x.id = y.id WHERE y.c <> 0",
                vec![vec!["2", "2"], vec!["3", "4"]],
            ),
            ("SELECT id FROM e WHERE id > 0 AND c - 2 <> 0 AND 6 / (c - 2) > 1 AND c <> 0", vec![vec!["2"]]),
            ("SELECT id FROM e WHERE c <> 0 AND a / c BETWEEN 1 AND 3", vec![vec!["2"]]),
            ("SELECT id FROM e WHERE random() >= 0 AND id < 4 AND c > 0 AND a / c = 2", vec![vec!["2"]]),
            (
                "SELECT id FROM e WHERE CASE WHEN c <> 0 THEN a / c > 1 ELSE false END OR id = 7",
                vec![vec!["2"], vec!["3"]],
            ),
            (
                "SELECT id, CASE WHEN c = 0 THEN NULL WHEN a / c > 2 THEN true ELSE a / c > 7 END FROM e WHERE id < 4",
                vec![vec!["1", "NULL"], vec!["2", "false"], vec!["3", "true"]],
            ),
            (
                "SELECT c, (x + y) / c FROM (SELECT c, a AS x, d AS y FROM e WHERE c > 0
                 UNION ALL SELECT c, d, a FROM e WHERE c > 0)",
                vec![vec!["2", "5"], vec!["2", "5"], vec!["5", "2"], vec!["5", "2"]],
            ),
            (
                "SELECT c, m / c FROM (SELECT c, a - d AS m FROM e WHERE id < 4 UNION ALL SELECT c, d FROM e WHERE id < 4)
                 WHERE c <> 0 ORDER BY m LIMIT 1",
                vec![vec!["5", "0"]],
            ),
        ] {
            let sql = sql.replace("FROM e", &format!("FROM {table}")).replace("JOIN e", &format!("JOIN {table}"));
            assert_eq!(sorted(test.run(&sql).await), rows, "{sql}");
        }
    }
    test.error("SELECT id FROM e WHERE id > 0 AND a / c > 1", ErrorKind::DivisionByZero, "zero").await;
}
