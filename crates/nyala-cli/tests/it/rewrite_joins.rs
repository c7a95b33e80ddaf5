//! Queries that join otherwise than the cube, or ask for other units of time: cubes answer some, others must
//! be left to the tables, with a reason.

use arrow::array::{Int32Array, Int64Array, StringArray, TimestampMicrosecondArray};

use crate::batch;
use crate::cubes::shop_star;
use crate::harness::TestEngine;

const ALL: &str = "sales JOIN shop ON shop = shop_id JOIN product ON product = product_id";

async fn with_cube(select: &str) -> TestEngine {
    let test = shop_star().await;
    test.run(&format!("CREATE CUBE c AS SELECT {select}")).await;
    test.run("BUILD CUBE c").await;
    test
}

#[tokio::test(flavor = "multi_thread")]
async fn left_joins_that_are_inner_joins() {
    let test = with_cube(&format!(
        "city, country, shop, sum(quantity), count(*) FROM {ALL} GROUP BY CUBE (city, country), shop"
    ))
    .await;
    let left = "FROM sales LEFT JOIN shop ON shop = shop_id";
    // The build saw that every sale has its shop.
    test.check_hit(&format!("SELECT country, sum(quantity) {left} GROUP BY country")).await;
    test.check_hit(&format!("SELECT count(*) {left} WHERE shop_id = 2")).await;
    // The key is a dimension, so the table can be joined to the cells.
    test.check_hit(&format!("SELECT country, count(*) {left} AND country = 'NO' GROUP BY country")).await;

    let test = shop_star().await;
    let some_shops =
        batch!("id" => Int32Array::from(vec![1, 2]), "kind" => StringArray::from(vec!["a", "b"]));
    test.table("some_shops", &[some_shops]).await;
    test.run("CREATE CUBE c AS SELECT kind, count(*) FROM sales JOIN some_shops ON shop = id GROUP BY ROLLUP (kind)")
        .await;
    test.run("BUILD CUBE c").await;
    let left = "FROM sales LEFT JOIN some_shops ON shop = id";
    for filter in [
        "kind = 'a'",
        "kind LIKE 'b%' OR kind IN ('a')",
        "kind IS NOT NULL",
        "upper(kind) <> 'x' AND kind > ''",
    ] {
        test.check_hit(&format!("SELECT kind, count(*) {left} WHERE {filter} GROUP BY kind")).await;
    }
    for filter in ["kind IS NULL", "coalesce(kind, 'a') = 'a'", "kind = 'a' OR 1 = 1"] {
        test.check_miss(
            &format!("SELECT kind, count(*) {left} WHERE {filter} GROUP BY kind"),
            "in another way",
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_both_sides_serve_and_lossless_joins_are_left_out() {
    let test =
        with_cube(&format!("shop, category, count(*) FROM {ALL} GROUP BY CUBE (shop, category)")).await;
    test.check_hit("SELECT shop_id, count(*) FROM sales JOIN shop ON shop = shop_id GROUP BY shop_id").await;
    test.check_hit("SELECT count(*) FROM sales JOIN shop ON shop = shop_id WHERE shop_id > 1 AND shop < 3")
        .await;
    test.check_hit("SELECT shop, count(*) FROM sales GROUP BY shop").await;
    test.check_hit("SELECT count(*) FROM sales").await;
    test.check_hit(
        "SELECT count(*) FROM sales, shop
         WHERE (shop = shop_id AND shop_id = 1) OR (shop = shop_id AND shop > 2 AND shop_id IN (2, 3))",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_equality_of_the_cube_is_not_vouched_for_by_another_one() {
    // Three columns are equal in the cube, and one join of them alone does not say so.
    let test =
        with_cube("shop, count(*) FROM sales JOIN shop ON shop = shop_id WHERE product = shop GROUP BY shop")
            .await;
    test.check_miss("SELECT count(*) FROM sales", "only has rows where").await;
    test.check_miss("SELECT count(*) FROM sales JOIN shop ON shop = shop_id", "only has rows where").await;
    test.check_hit("SELECT count(*) FROM sales JOIN shop ON shop = shop_id WHERE product = shop_id").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_the_cube_lacks_are_joined_to_its_cells() {
    let test = with_cube(&format!(
        "country, shop, category, date_trunc('month', day) AS month, count(*), sum(quantity), avg(price)
         FROM {ALL} GROUP BY CUBE (country, shop, category, date_trunc('month', day))"
    ))
    .await;
    // One country is in two unions, one in none.
    let unions = batch!(
        "land" => StringArray::from(vec![Some("NO"), Some("NO"), Some("FI"), None]),
        "union_name" => StringArray::from(vec!["EEA", "NATO", "EU", "none"]),
    );
    test.table("unions", &[unions]).await;
    let calls = "count(*), sum(quantity), avg(price)";
    for query in [
        format!("SELECT union_name, {calls} FROM {ALL} JOIN unions ON land = country GROUP BY union_name"),
        format!("SELECT union_name, {calls} FROM {ALL} LEFT JOIN unions ON land = country GROUP BY union_name"),
        format!("SELECT {calls} FROM {ALL} LEFT JOIN unions ON land = country AND union_name < 'F' WHERE category = 'tea'"),
        format!("SELECT DISTINCT union_name, category FROM {ALL} JOIN unions ON land = country"),
        format!("SELECT category, union_name, {calls} FROM {ALL}, unions WHERE upper(land) = country GROUP BY CUBE (category, union_name)"),
        format!("SELECT {calls} FROM {ALL} JOIN unions ON land < country OR union_name = category"),
        // Columns of the cube's own table that are no dimensions are joined by its key, which is one.
        "SELECT city, sum(quantity) FROM sales JOIN shop ON shop = shop_id GROUP BY city".to_owned(),
        "SELECT count(*) FROM sales JOIN shop ON shop_id = shop WHERE city LIKE 'O%' AND country = 'NO'".to_owned(),
        "SELECT b.city, count(*) FROM sales JOIN shop a ON shop = a.shop_id JOIN shop b ON a.shop_id < b.shop_id GROUP BY 1".to_owned(),
    ] {
        test.check_hit(&query).await;
        let report = test.explain(&query).await;
        assert!(report.contains("joined with `public."), "{query}\n{report}");
    }
    test.check_miss(
        &format!("SELECT count(*) FROM {ALL} JOIN unions ON land = CAST(buyer AS TEXT)"),
        "it cannot be joined to the cells: `sales.buyer` is not computable",
    )
    .await;
    test.check_miss(
        &format!("SELECT max(union_name) FROM {ALL} JOIN unions ON land = country"),
        "`max(unions.union_name)` reads a table that would be joined to the cells",
    )
    .await;
    test.check_miss(
        "SELECT land, count(shop) FROM unions LEFT JOIN sales ON land = 'NO' GROUP BY land",
        "optional side",
    )
    .await;
    test.check_miss("SELECT count(*) FROM sales CROSS JOIN unions", "no condition on the cells").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn coarser_units_of_time_follow_from_finer_ones() {
    let test = with_cube(
        "date_trunc('day', day) AS d, count(*), sum(quantity) FROM sales GROUP BY date_trunc('day', day)",
    )
    .await;
    for unit in [
        "date_trunc('month', day)",
        "date_trunc('week', day)",
        "date_trunc('YEAR', day)",
        "day",
        "extract(dow FROM day)",
        "date_part('doy', day)",
        "extract(week FROM day)",
        "day + INTERVAL '1 day'",
        "date_trunc('hour', day)",
    ] {
        test.check_hit(&format!("SELECT {unit} AS u, count(*), sum(quantity) FROM sales GROUP BY {unit}"))
            .await;
    }
    test.check_hit(
        "SELECT count(*) FROM sales WHERE day BETWEEN '2022-02-03' AND '2022-03-09' OR day = '2023-01-01'",
    )
    .await;

    let test =
        with_cube("date_trunc('month', day) AS m, count(*) FROM sales GROUP BY date_trunc('month', day)")
            .await;
    for unit in [
        "date_trunc('month', day)",
        "date_trunc('quarter', day)",
        "date_trunc('year', day)",
        "extract(month FROM day)",
        "date_part('year', day)",
    ] {
        test.check_hit(&format!("SELECT {unit} AS u, count(*) FROM sales GROUP BY {unit}")).await;
    }
    for unit in ["day", "date_trunc('week', day)", "extract(day FROM day)", "extract(week FROM day)"] {
        test.check_miss(
            &format!("SELECT {unit} AS u, count(*) FROM sales GROUP BY {unit}"),
            "is not computable",
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_that_begin_and_end_with_a_unit() {
    for dimension in ["date_trunc('month', day)", "date_trunc('year', day)", "extract(year FROM day)"] {
        let test = with_cube(&format!("{dimension} AS u, count(*) FROM sales GROUP BY {dimension}")).await;
        for range in [
            "day >= DATE '2023-01-01'",
            "day < DATE '2023-01-01' AND day >= '2022-01-01'",
            "day BETWEEN '2022-01-01' AND '2022-12-31'",
            "day NOT BETWEEN '2022-01-01' AND '2022-12-31'",
            "DATE '2022-12-31' >= day",
            "NOT day > DATE '2022-12-31'",
            "day >= DATE '2022-01-01' + INTERVAL '1 year'",
            "day < TIMESTAMP '2023-01-01 00:00:00'",
        ] {
            test.check_hit(&format!("SELECT count(*) FROM sales WHERE {range}")).await;
        }
        for range in [
            "day >= DATE '2023-01-02'",
            "day <= DATE '2023-01-01'",
            "day = DATE '2023-01-01'",
            "day < TIMESTAMP '2023-01-01 00:00:01'",
            "day <> DATE '2023-01-01'",
        ] {
            test.check_miss(&format!("SELECT count(*) FROM sales WHERE {range}"), "is not computable").await;
        }
        test.check_same("SELECT count(*) FROM sales WHERE day < DATE '2900-01-01'").await;
        test.check_same("SELECT count(*) FROM sales WHERE day < NULL").await;
    }
    let test =
        with_cube("date_trunc('month', day) AS u, count(*) FROM sales GROUP BY date_trunc('month', day)")
            .await;
    test.check_hit("SELECT count(*) FROM sales WHERE day >= '2022-06-01' AND day <= '2022-06-30'").await;
    test.check_miss("SELECT count(*) FROM sales WHERE day <= '2022-06-29'", "is not computable").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stands_above_an_aggregation_does_not_matter() {
    let test = with_cube(&format!(
        "country, category, date_trunc('month', day) AS m, count(*), sum(quantity)
         FROM {ALL} GROUP BY CUBE (country, category, date_trunc('month', day))"
    ))
    .await;
    let by_month = format!("SELECT date_trunc('month', day) AS m, sum(quantity) AS q FROM {ALL} GROUP BY 1");
    for query in [
        format!(
            "SELECT a.m, a.q, b.q FROM ({by_month}) a LEFT JOIN ({by_month}) b ON a.m = b.m + INTERVAL '1 year'"
        ),
        format!(
            "SELECT m, q, sum(q) OVER (ORDER BY m) AS running, rank() OVER (ORDER BY q DESC, m) FROM ({by_month})"
        ),
        format!("SELECT country, sum(sum(quantity)) OVER () AS total, count(*) FROM {ALL} GROUP BY country"),
        format!("WITH t AS ({by_month}) SELECT m FROM t WHERE q > (SELECT avg(q) FROM t)"),
        format!(
            "SELECT country AS x, count(*) FROM {ALL} GROUP BY 1 UNION ALL SELECT category, count(*) FROM {ALL} GROUP BY 1"
        ),
        format!(
            "SELECT country FROM {ALL} GROUP BY country HAVING sum(quantity) > 100 ORDER BY count(*) DESC LIMIT 1"
        ),
    ] {
        test.check_hit(&query).await;
        test.run("SET nyala.pushdown = off").await;
        test.run(&query).await;
        test.run("SET nyala.pushdown = on").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn timestamps_of_any_unit_and_zone() {
    let test = TestEngine::new().await;
    let hours =
        |n: i64| (0..n).map(|i| (i % 11 != 0).then_some(1_640_000_000_000_000 + i * 3_600_000_000 * 5));
    let events = batch!(
        "at" => TimestampMicrosecondArray::from_iter(hours(3000)),
        "local" => TimestampMicrosecondArray::from_iter(hours(3000)).with_timezone("Europe/Oslo"),
    );
    test.table("events", &[events]).await;
    for column in ["at", "local"] {
        test.run(&format!(
            "CREATE CUBE c AS SELECT date_trunc('day', {column}) AS d, count(*) FROM events GROUP BY date_trunc('day', {column})"
        ))
        .await;
        test.run("BUILD CUBE c").await;
        for unit in [
            "date_trunc('month', X)",
            "date_trunc('week', X)",
            "extract(month FROM X)",
            "date_part('doy', X)",
        ] {
            let unit = unit.replace('X', column);
            test.check_hit(&format!("SELECT {unit} AS u, count(*) FROM events GROUP BY {unit}")).await;
        }
        for unit in ["X", "date_trunc('hour', X)", "extract(hour FROM X)"] {
            let unit = unit.replace('X', column);
            test.check_miss(
                &format!("SELECT {unit} AS u, count(*) FROM events GROUP BY {unit}"),
                "not computable",
            )
            .await;
        }
        for bound in ["'2022-03-01'", "'2022-10-30 00:00:00'", "TIMESTAMP '2022-05-05 00:00:00'"] {
            for aligned in [format!("{column} >= {bound}"), format!("{bound} > {column}")] {
                let query = format!("SELECT count(*) FROM events WHERE {aligned}");
                // The clock of a time zone can show one time twice.
                match column {
                    "at" => test.check_hit(&query).await,
                    _ => test.check_miss(&query, "not computable").await,
                }
            }
            for op in ["<=", ">", "="] {
                let query = format!("SELECT count(*) FROM events WHERE {column} {op} {bound}");
                test.check_miss(&query, "not computable").await;
            }
        }
        test.check_miss(
            &format!("SELECT count(*) FROM events WHERE {column} < TIMESTAMP '2022-05-05 01:00:00'"),
            "not computable",
        )
        .await;
        test.run("DROP CUBE c").await;
    }
}

/// There are so many cells that they are merged in parallel before they are finished.
#[tokio::test(flavor = "multi_thread")]
async fn many_cells_are_merged_in_parallel() {
    let test = TestEngine::new().await;
    let n = 150_000;
    let facts = batch!(
        "a" => Int32Array::from_iter((0..n).map(|i| (i % 9 != 0).then_some(i % 50_000))),
        "b" => StringArray::from_iter((0..n).map(|i| (i % 7 != 0).then(|| format!("b{}", i % 13)))),
        "x" => Int64Array::from_iter((0..n).map(|i| (i % 5 != 0).then_some(i64::from(i)))),
    );
    let names = batch!(
        "key" => Int32Array::from_iter_values(0..40_000),
        "name" => StringArray::from_iter_values((0..40_000).map(|i| format!("n{}", i % 100))),
    );
    test.table("facts", &[facts]).await;
    test.table("names", &[names]).await;
    test.run("CREATE CUBE c AS SELECT a, b, count(*), sum(x), count(x) FROM facts GROUP BY a, b").await;
    test.run("BUILD CUBE c").await;
    let calls = "count(*), sum(x), sum(x + a), count(DISTINCT a), min(b), sum(x) FILTER (WHERE b > 'b2')";
    for query in [
        format!("SELECT b, {calls} FROM facts GROUP BY b"),
        format!("SELECT {calls} FROM facts"),
        format!("SELECT a % 100 AS m, b, {calls} FROM facts GROUP BY ROLLUP (a % 100, b)"),
        format!("SELECT name, {calls} FROM facts JOIN names ON a = key GROUP BY name"),
        format!("SELECT {calls} FROM facts LEFT JOIN names ON a = key WHERE name IS NULL"),
        "SELECT DISTINCT a / 3 AS t FROM facts".to_owned(),
    ] {
        let query = query.replace(
            "count(DISTINCT a), min(b), sum(x) FILTER (WHERE b > 'b2')",
            if query.contains("name") {
                "count(x)"
            } else {
                "count(DISTINCT a), min(b), sum(x) FILTER (WHERE b > 'b2')"
            },
        );
        test.check_hit(&query).await;
    }
}
