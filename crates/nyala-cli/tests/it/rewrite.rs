//! The rules by which a query is answered from a cube that was not made for it: each with queries that it
//! serves, queries that it must leave to the tables, and the reason it gives for them.

use std::sync::Arc;

use arrow::array::{Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};

use crate::batch;
use crate::cubes::shop_star;
use crate::harness::TestEngine;

const ALL: &str = "sales JOIN shop ON shop = shop_id JOIN product ON product = product_id";

/// The star with a cube of these measures by country, city, category and day, shop, and in total.
async fn with_measures(measures: &str) -> TestEngine {
    let test = shop_star().await;
    test.run(&format!(
        "CREATE CUBE c AS SELECT country, city, category, day, shop, {measures} FROM {ALL}
         GROUP BY GROUPING SETS ((country, city, category, day, shop), (country, category), (country), (shop), ())"
    ))
    .await;
    test.run("BUILD CUBE c").await;
    test
}

/// Checks calls over all rows, over groups, over no rows, and over groups of no rows.
async fn check_calls(test: &TestEngine, calls: &[&str]) {
    for call in calls {
        test.check_hit(&format!("SELECT {call} FROM {ALL}")).await;
        test.check_hit(&format!("SELECT country, {call} AS v FROM {ALL} GROUP BY country")).await;
        test.check_hit(&format!("SELECT {call} FROM {ALL} WHERE country = 'XX'")).await;
        test.check_hit(&format!("SELECT category, {call} AS v FROM {ALL} WHERE city IS NULL GROUP BY 1"))
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn distinct_is_a_grouping_without_aggregates() {
    let test = with_measures("count(*)").await;
    for query in [
        "SELECT DISTINCT country FROM sales JOIN shop ON shop = shop_id",
        &format!("SELECT DISTINCT city, upper(category) AS c FROM {ALL} WHERE country = 'NO'"),
        &format!("SELECT city FROM {ALL} GROUP BY city"),
        &format!("SELECT count(*) FROM (SELECT DISTINCT country, category FROM {ALL})"),
        &format!("SELECT category FROM product WHERE category IN (SELECT DISTINCT category FROM {ALL})"),
        "SELECT DISTINCT 1 FROM sales",
        &format!("SELECT country, upper(country) FROM {ALL} GROUP BY country, 2, country"),
    ] {
        test.check_hit(query).await;
    }
    test.check_miss("SELECT DISTINCT buyer FROM sales", "`sales.buyer` is not computable").await;
    let report = test.explain(&format!("SELECT DISTINCT country FROM {ALL}")).await;
    assert!(report.contains("cuboid (country), estimated rows: 2"), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_grouping_set_reads_its_smallest_cuboid() {
    let test = with_measures("count(*), sum(quantity), avg(price), count(DISTINCT buyer)").await;
    for grouping in [
        "ROLLUP (country, category)",
        "CUBE (country, category)",
        "country, ROLLUP (category)",
        "GROUPING SETS ((country), (category, day), (country), ())",
        "GROUPING SETS ((country), (country))",
        "ROLLUP (upper(country), date_trunc('month', day))",
        "GROUPING SETS (())",
    ] {
        for filter in ["", "WHERE category = 'tea'", "WHERE country = 'XX'"] {
            let calls = "count(*), sum(quantity), avg(price), count(DISTINCT buyer)";
            test.check_hit(&format!("SELECT {calls} FROM {ALL} {filter} GROUP BY {grouping}")).await;
        }
    }
    test.check_hit(&format!(
        "SELECT country, category, GROUPING(country) AS a, GROUPING(category, country) AS b, sum(quantity)
         FROM {ALL} GROUP BY CUBE (country, category) HAVING GROUPING(country) = 0 OR count(*) > 900"
    ))
    .await;
    test.check_hit(&format!("SELECT country, category FROM {ALL} GROUP BY CUBE (country, category)")).await;
    let report =
        test.explain(&format!("SELECT count(*) FROM {ALL} GROUP BY ROLLUP (country, category)")).await;
    assert!(report.contains("cuboids (), (country), (country, category), estimated rows: 7"), "{report}");
    test.check_miss(
        &format!("SELECT count(*) FROM {ALL} GROUP BY ROLLUP (country, buyer)"),
        "`sales.buyer` is not computable",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn averages_counts_and_sums_follow_from_each_other() {
    let test = with_measures(
        "count(*), sum(product), count(product), sum(money), count(money), sum(price), count(price),
         sum(quantity), count(quantity)",
    )
    .await;
    check_calls(&test, &["avg(product)", "avg(money)", "avg(price)", "avg(money) + sum(product)"]).await;
    test.check_miss("SELECT avg(quantity) FROM sales", "64-bit integers may be out of range").await;
    test.check_miss("SELECT avg(buyer) FROM sales", "has no measure `avg(").await;
    test.check_miss("SELECT sum(DISTINCT quantity) FROM sales", "has no measure").await;
    let ordered = "SELECT first_value(quantity ORDER BY price) FROM sales";
    test.check_miss(ordered, "`first_value` depends on the order of rows").await;

    let test = with_measures("avg(money), avg(price), avg(quantity), var(quantity)").await;
    check_calls(&test, &["sum(money)", "sum(price)", "count(price)", "count(quantity)"]).await;
    test.check_miss("SELECT sum(quantity) FROM sales", "has no measure `sum(").await;
    test.check_miss("SELECT count(*) FROM sales", "has no measure `count(").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_that_keep_the_same_states_serve_each_other() {
    let test =
        with_measures("var_pop(price), covar_samp(price, quantity), regr_count(price, quantity)").await;
    check_calls(
        &test,
        &[
            "stddev(price)",
            "stddev_pop(price)",
            "var(price)",
            "covar_pop(price, quantity)",
            "regr_slope(price, quantity)",
            "regr_r2(price, quantity)",
            "stddev(price) FILTER (WHERE city = 'Oslo')",
        ],
    )
    .await;
    test.check_miss("SELECT corr(price, quantity) FROM sales", "has no measure `corr(").await;
    test.check_miss("SELECT covar_pop(quantity, price) FROM sales", "has no measure `covar_pop(").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_of_what_is_never_null_counts_rows() {
    let test = shop_star().await;
    let schema = Schema::new(vec![
        Field::new("line", DataType::Int64, false),
        Field::new("kind", DataType::Utf8, true),
        Field::new("amount", DataType::Int64, true),
    ]);
    let lines = RecordBatch::try_new(
        Arc::new(schema),
        vec![
            Arc::new(Int64Array::from(vec![1, 2, 3])),
            Arc::new(StringArray::from(vec![Some("a"), None, Some("a")])),
            Arc::new(Int64Array::from(vec![None, Some(4), None])),
        ],
    )
    .unwrap();
    test.table("lines", &[lines]).await;
    for measure in ["count(*)", "count(line)"] {
        test.run(&format!("CREATE CUBE c AS SELECT kind, {measure} FROM lines GROUP BY ROLLUP (kind)")).await;
        test.run("BUILD CUBE c").await;
        for call in
            ["count(*)", "count(line)", "count(1)", "count(kind)", "count(*) FILTER (WHERE kind = 'a')"]
        {
            test.check_hit(&format!("SELECT {call} FROM lines")).await;
            test.check_hit(&format!("SELECT kind, {call} FROM lines GROUP BY kind")).await;
        }
        test.check_miss("SELECT count(amount) FROM lines", "has no measure `count(lines.amount)`").await;
        test.run("DROP CUBE c").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn constants_and_dimensions_are_taken_out_of_sums() {
    let test =
        with_measures("count(*), sum(quantity), count(quantity), sum(money), count(money), sum(price)").await;
    check_calls(
        &test,
        &[
            "sum(1)",
            "sum(CAST(2.5 AS DECIMAL(4, 2)))",
            "sum(3 * quantity)",
            "sum(quantity * shop)",
            "sum(quantity + 7)",
            "sum(quantity - shop)",
            "sum(money * 2)",
            "sum(shop)",
            "sum(2.5)",
            "avg(shop)",
            "count(city)",
            "sum(CASE WHEN city = 'Oslo' THEN 2 ELSE 1 END)",
        ],
    )
    .await;
    test.check_miss("SELECT sum(2 * price) FROM sales", "has no measure `sum(").await;
    test.check_miss("SELECT sum(quantity + buyer) FROM sales", "has no measure `sum(").await;
    test.check_miss("SELECT sum(shop - quantity) FROM sales", "has no measure `sum(").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn aggregates_to_which_repetition_means_nothing_come_from_dimensions() {
    let test = with_measures("count(*)").await;
    check_calls(
        &test,
        &[
            "min(city)",
            "max(day)",
            "max(date_trunc('month', day))",
            "count(DISTINCT city)",
            "count(DISTINCT upper(category))",
            "sum(DISTINCT date_part('month', day))",
            "bool_or(city = 'Oslo')",
            "bool_and(category = 'tea')",
            "min(city) FILTER (WHERE category = 'tea')",
            "min(CASE WHEN category = 'tea' THEN city ELSE 'none' END)",
            "approx_distinct(city)",
        ],
    )
    .await;
    test.check_hit("SELECT max(shop), bit_and(shop), count(DISTINCT shop) FROM sales GROUP BY shop").await;
    test.check_miss("SELECT min(buyer) FROM sales", "has no measure `min(").await;
    test.check_miss("SELECT bit_xor(shop) FROM sales", "has no measure `bit_xor(").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_over_dimensions_choose_cells() {
    let test = with_measures(
        "count(*), sum(quantity), avg(price), min(price), stddev(price), count(DISTINCT buyer),
         sum(quantity) FILTER (WHERE price > 9)",
    )
    .await;
    check_calls(
        &test,
        &[
            "sum(quantity) FILTER (WHERE city = 'Oslo')",
            "sum(quantity) FILTER (WHERE city = 'Rome')",
            "count(*) FILTER (WHERE city IS NULL)",
            "avg(price) FILTER (WHERE day > '2022-06-01' AND category = 'tea')",
            "count(DISTINCT buyer) FILTER (WHERE city = 'Bergen' OR country = 'SE')",
            "stddev(price) FILTER (WHERE city = 'Rome')",
            "sum(quantity) FILTER (WHERE price > 9 AND city = 'Oslo')",
            "sum(CASE WHEN city = 'Oslo' THEN quantity END)",
            "sum(CASE WHEN city = 'Oslo' THEN quantity ELSE 0 END)",
            "sum(CASE WHEN city = 'Rome' THEN quantity ELSE 0 END)",
            "sum(CASE city WHEN 'Oslo' THEN quantity WHEN 'Bergen' THEN 3 ELSE NULL END)",
            "sum(CASE WHEN price > 9 THEN quantity END)",
            "count(CASE WHEN city = 'Oslo' THEN 1 END)",
            "sum(CASE WHEN city = 'Oslo' THEN 1 ELSE 0 END)",
            "avg(CASE WHEN city = 'Oslo' THEN price END)",
            "min(CASE WHEN city = 'Oslo' THEN price ELSE 5 END)",
            "min(CASE WHEN city = 'Oslo' THEN price WHEN city = 'Bergen' THEN 2.5 END)",
            "100 * sum(CASE WHEN city = 'Oslo' THEN quantity ELSE 0 END) / sum(quantity)",
        ],
    )
    .await;
    test.check_miss("SELECT sum(quantity) FILTER (WHERE buyer = 3) FROM sales", "has no measure").await;
    test.check_miss(
        "SELECT sum(CASE WHEN buyer = 3 THEN quantity ELSE 0 END) FROM sales",
        "`sales.buyer` is not computable",
    )
    .await;
    test.check_miss(
        "SELECT stddev(CASE WHEN shop = 3 THEN price ELSE 1 END) FROM sales",
        "has no measure `stddev(",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cells_that_are_groups_are_finished_where_they_stand() {
    let test = with_measures(
        "count(*), sum(quantity), avg(money), corr(price, quantity), count(DISTINCT buyer), regr_r2(price, quantity)",
    )
    .await;
    let calls = "count(*), sum(quantity), avg(money), corr(price, quantity), count(DISTINCT buyer),
        regr_r2(price, quantity), sum(quantity) FILTER (WHERE category = 'tea'), max(category)";
    let plan = async |query: &str| test.run(&format!("EXPLAIN {query}")).await[2][1].clone();
    for query in [
        format!("SELECT category, country, {calls} FROM {ALL} GROUP BY country, category"),
        format!("SELECT {calls} FROM {ALL} WHERE category <> 'salt' GROUP BY country, category"),
        format!("SELECT category, {calls} FROM {ALL} GROUP BY country, category HAVING count(*) > 400"),
        format!("SELECT DISTINCT country, category FROM {ALL}"),
    ] {
        test.check_hit(&query).await;
        let plan = plan(&query).await;
        assert!(!plan.contains("AggregateExec"), "{query}\n{plan}");
    }
    for query in [
        format!("SELECT upper(country), category, {calls} FROM {ALL} GROUP BY upper(country), category"),
        format!("SELECT {calls} FROM {ALL}"),
        format!("SELECT {calls} FROM {ALL} GROUP BY ROLLUP (country, category)"),
        format!("SELECT category, {calls} FROM {ALL} WHERE country IN ('NO', 'DE') GROUP BY category"),
        format!("SELECT category, {calls} FROM {ALL} WHERE upper(country) = 'NO' GROUP BY category"),
        // The only group is there even if it has no cell.
        format!("SELECT {calls} FROM {ALL} WHERE country = 'XX' AND category = 'tea'"),
    ] {
        test.check_hit(&query).await;
        let plan = plan(&query).await;
        assert!(plan.contains("AggregateExec"), "{query}\n{plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_comes_of_no_rows() {
    let test = TestEngine::new().await;
    let none = batch!("d" => Int32Array::from(Vec::<i32>::new()), "x" => Int64Array::from(Vec::<i64>::new()));
    test.table("empty", &[none]).await;
    test.run("CREATE CUBE c AS SELECT d, count(*), sum(x), count(x) FROM empty GROUP BY ROLLUP (d)").await;
    test.run("BUILD CUBE c").await;
    for query in [
        "SELECT 1 AS one, count(*) FROM empty GROUP BY 1",
        "SELECT DISTINCT 1 FROM empty",
        "SELECT max(d), sum(3), sum(x + 1), count(d), sum(CASE WHEN d > 1 THEN x ELSE 0 END) FROM empty",
        "SELECT d, count(*), sum(x) FROM empty GROUP BY ROLLUP (d)",
        "SELECT count(*), avg(d) FROM empty GROUP BY GROUPING SETS ((), ())",
    ] {
        test.check_hit(query).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_grouped_by_twice_is_one_column() {
    let test = with_measures("count(*), sum(quantity)").await;
    for query in [
        &format!("SELECT country, sum(quantity) FROM {ALL} GROUP BY country, country"),
        &format!("SELECT country, category, count(*), sum(quantity) FROM {ALL} GROUP BY country, 2, 1, category"),
        &format!(
            "SELECT shop AS a, shop AS b, sum(quantity) AS m, sum(sum(quantity)) OVER (ORDER BY shop ROWS 2 PRECEDING)
             FROM {ALL} GROUP BY shop, shop"
        ),
    ] {
        test.check_hit(query).await;
    }
}
