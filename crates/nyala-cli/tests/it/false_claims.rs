//! Orders and constant columns of an input that do not hold above it: grouping sets and outer joins make values NULL, joins
//! repeat rows. `tests/slt/meaning/orders.slt` has more of them.

use arrow::array::{Date32Array, Int64Array, TimestampMicrosecondArray};

use crate::batch;
use crate::harness::{TestEngine, assert_same, sorted};
use crate::plans::{becomes_ready, cube, hits, raw};

/// 20,000 days of 2020, 2021 and 2022 each, with numbers that are all different.
async fn days(test: &TestEngine) {
    let rows = || 0..60_000;
    let days = batch!(
        "year" => Int64Array::from_iter_values(rows().map(|i| 2020 + i % 3)),
        "month" => Int64Array::from_iter_values(rows().map(|i| 1 + i / 3 % 12)),
        "k" => Int64Array::from_iter_values(rows()),
    );
    test.table("days", &[days]).await;
}

/// Runs a query with one partition and with several. The rows must come in this order.
async fn check(test: &TestEngine, sql: &str, rows: &[&[&str]]) {
    for partitions in [1, 4] {
        test.run(&format!("SET datafusion.execution.target_partitions = {partitions}")).await;
        assert_eq!(test.run(sql).await, rows, "{partitions} partitions: {sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_that_a_condition_makes_constant_are_null_in_totals() {
    let test = TestEngine::new().await;
    days(&test).await;
    for (sets, groups) in [("ROLLUP", "20002"), ("CUBE", "40002")] {
        let grouped = format!("SELECT year, k FROM days WHERE year = 2021 GROUP BY {sets} (year, k)");
        let counted = format!("SELECT count(*) FROM ({grouped}) g");
        check(&test, &counted, &[&[groups]]).await;
    }
    let grouped = "SELECT year, month, count(*) FROM days WHERE year = 2021 GROUP BY ROLLUP (year, month)";
    let sorted = format!("{grouped} ORDER BY year NULLS FIRST, month NULLS FIRST LIMIT 3");
    check(&test, &sorted, &[&["NULL", "NULL", "20000"], &["2021", "NULL", "20000"], &["2021", "1", "1667"]])
        .await;
    let sorted = format!("{grouped} ORDER BY year, month DESC LIMIT 3");
    check(&test, &sorted, &[&["2021", "NULL", "20000"], &["2021", "12", "1666"], &["2021", "11", "1666"]])
        .await;
    let numbered = format!("SELECT year, row_number() OVER (ORDER BY year, month) FROM ({grouped}) g");
    check(&test, &format!("{numbered} ORDER BY 2 DESC LIMIT 2"), &[&["NULL", "14"], &["2021", "13"]]).await;
}

/// All timestamps of a day were taken for its midnight.
#[tokio::test(flavor = "multi_thread")]
async fn casts_that_merge_values_tell_no_bounds_of_columns() {
    let test = TestEngine::new().await;
    let ids = || 1..=20_000;
    // From 10 o'clock on 2024-01-01 on, minute by minute, beside 2024-01-04.
    let minutes = batch!(
        "id" => Int64Array::from_iter_values(ids()),
        "t" => TimestampMicrosecondArray::from_iter_values(ids().map(|i| (1_704_103_200 + 60 * i) * 1_000_000)),
        "d" => Date32Array::from_value(19_726, 20_000),
    );
    test.table("minutes", &[minutes]).await;
    for (condition, rows) in [
        ("t::date < DATE '2025-01-01' AND id > 5", "19995"),
        ("t::date < d", "3719"),
        ("3 NOT BETWEEN 2 AND DATE '2024-01-01' - d", "20000"),
        ("t::date = DATE '2024-01-01'", "839"),
    ] {
        check(&test, &format!("SELECT count(*) FROM minutes WHERE {condition}"), &[&[rows]]).await;
    }
    let sql = "SELECT id FROM minutes WHERE t::date = DATE '2024-01-01' ORDER BY t DESC LIMIT 2";
    check(&test, sql, &[&["839"], &["838"]]).await;
}

/// PostgreSQL 15 leaves the sort out, too.
#[tokio::test(flavor = "multi_thread")]
async fn totals_are_sorted_by_columns_that_a_condition_makes_constant_or_equal() {
    let test = TestEngine::new().await;
    let sql = "SELECT w, g, count(*) FROM (VALUES (3, 1), (3, 2)) t (w, g) WHERE w = 3 \
               GROUP BY ROLLUP (w), g ORDER BY w, g";
    let rows: &[&[&str]] = &[&["3", "1", "1"], &["3", "2", "1"], &["NULL", "1", "1"], &["NULL", "2", "1"]];
    check(&test, sql, rows).await;
    let sql = "SELECT x, count(*) FROM generate_series(1, 9) s (x) WHERE x = 5 \
               GROUP BY ROLLUP (x) ORDER BY x NULLS FIRST";
    check(&test, sql, &[&["NULL", "1"], &["5", "1"]]).await;
    let sql = "SELECT x, y FROM (SELECT x, x AS y FROM generate_series(1, 2) s (x)) q WHERE x = y \
               GROUP BY CUBE (x, y) ORDER BY x, y";
    let rows: &[&[&str]] = &[
        &["1", "1"],
        &["1", "NULL"],
        &["2", "2"],
        &["2", "NULL"],
        &["NULL", "1"],
        &["NULL", "2"],
        &["NULL", "NULL"],
    ];
    check(&test, sql, rows).await;
}

/// The condition's value differs between runs of one plan.
#[tokio::test(flavor = "multi_thread")]
async fn ready_plans_keep_totals_apart_from_their_groups() {
    let test = TestEngine::new().await;
    cube(&test).await;
    let sql = |year: i32| {
        let cells = "SELECT year AS y, city AS c, sum(a) AS s FROM f";
        format!(
            "SELECT y, c, sum(s) FROM ({cells} WHERE year = {year} GROUP BY year, city) q GROUP BY ROLLUP (y, c)"
        )
    };
    assert!(becomes_ready(&test, &sql(1993)).await, "no plan became ready");
    for year in 1992..1999 {
        let (sql, before) = (sql(year), hits(&test));
        let answer = sorted(test.run(&sql).await);
        assert_eq!(hits(&test), before + 1, "planned again: {sql}");
        assert_same(&sql, &answer, &raw(&test, &sql).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_of_an_optional_side_are_not_constant() {
    let test = TestEngine::new().await;
    days(&test).await;
    let side = "SELECT year, k FROM days WHERE year = 2021 AND k < 10";
    for join in [
        format!("days a LEFT JOIN ({side}) b ON a.k = b.k"),
        format!("({side}) b RIGHT JOIN days a ON a.k = b.k"),
    ] {
        let counted = format!("SELECT b.year, count(*) FROM {join} GROUP BY b.year");
        let rows: &[&[&str]] = &[&["2021", "3"], &["NULL", "59997"]];
        check(&test, &format!("{counted} ORDER BY b.year"), rows).await;
        let last = format!("SELECT a.k, b.year FROM {join} ORDER BY b.year, a.k DESC LIMIT 4");
        check(&test, &last, &[&["7", "2021"], &["4", "2021"], &["1", "2021"], &["59999", "NULL"]]).await;
    }
    let full = format!("days a FULL JOIN ({side}) b ON a.k = b.k GROUP BY b.year, a.month");
    let full = format!("SELECT count(*) FROM (SELECT b.year, a.month, count(*) FROM {full}) g");
    check(&test, &full, &[&["15"]]).await;
}

/// Plans have operators that forget claims only where there is a claim to forget.
#[tokio::test(flavor = "multi_thread")]
async fn usual_plans_forget_nothing() {
    let test = TestEngine::new().await;
    days(&test).await;
    for (sql, forgets) in [
        ("SELECT year, month, count(*) FROM days GROUP BY ROLLUP (year, month)", false),
        ("SELECT a.k, b.month FROM days a JOIN days b ON a.k = b.k ORDER BY a.k, b.month", false),
        ("SELECT a.k, b.month FROM days a LEFT JOIN days b ON a.k = b.k ORDER BY a.k, b.month", false),
        ("SELECT year, month, count(*) FROM days WHERE year = 2021 GROUP BY ROLLUP (year, month)", true),
    ] {
        let operators = test.operators(sql).await;
        assert_eq!(operators.contains("ForgetExec"), forgets, "{sql}\n{operators}");
    }
}
