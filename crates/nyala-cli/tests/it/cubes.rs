//! Cubes from definition to answer, over a star small enough to check by eye.

use arrow::array::{Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, StringArray};
use nyala_engine::ErrorKind;

use crate::batch;
use crate::harness::TestEngine;

/// 3 shops in 2 countries, 2 products, 2,000 sales over two years.
pub async fn shop_star() -> TestEngine {
    let test = TestEngine::new().await;
    let shop = batch!(
        "shop_id" => Int32Array::from(vec![1, 2, 3]),
        "city" => StringArray::from(vec![Some("Oslo"), Some("Bergen"), None]),
        "country" => StringArray::from(vec!["NO", "NO", "SE"]),
    );
    let product = batch!(
        "product_id" => Int32Array::from(vec![1, 2]),
        "category" => StringArray::from(vec!["tea", "salt"]),
    );
    let n = 2000;
    let sales = batch!(
        "shop" => Int32Array::from_iter_values((0..n).map(|i| i % 3 + 1)),
        "product" => Int32Array::from_iter_values((0..n).map(|i| i % 2 + 1)),
        "day" => Date32Array::from_iter_values((0..n).map(|i| 19_000 + i % 700)),
        "quantity" => Int64Array::from_iter((0..n).map(|i| (i % 7 != 0).then_some(i64::from(i % 11)))),
        "price" => Float64Array::from_iter_values((0..n).map(|i| f64::from(i) * 0.25)),
        "money" => Decimal128Array::from_iter_values((0..n).map(|i| i128::from(i * 13 % 5000)))
            .with_precision_and_scale(10, 2)
            .unwrap(),
        "buyer" => Int64Array::from_iter_values((0..n).map(|i| i64::from(i * 7919 % 97))),
    );
    test.table("shop", &[shop]).await;
    test.table("product", &[product]).await;
    test.table("sales", &[sales]).await;
    test
}

pub const CUBE: &str = "
    CREATE CUBE shop_sales AS
    SELECT country, city, category, date_trunc('month', day) AS month,
           sum(quantity), count(quantity), count(*), min(price), max(price), avg(price), stddev(price),
           count(DISTINCT buyer), corr(quantity, price), sum(quantity * price)
    FROM sales JOIN shop ON shop = shop_id JOIN product ON product = product_id
    GROUP BY ROLLUP (country, city), CUBE (category, date_trunc('month', day))";

async fn built() -> TestEngine {
    let test = shop_star().await;
    test.run(CUBE).await;
    test.run("BUILD CUBE shop_sales").await;
    test
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_are_answered_from_the_smallest_cuboid() {
    let test = built().await;
    test.check_hit("SELECT sum(quantity) FROM sales").await;
    let joined = "FROM sales JOIN shop ON shop = shop_id JOIN product ON product = product_id";
    test.check_hit(&format!("SELECT country, sum(quantity), count(*) {joined} GROUP BY country")).await;
    test.check_hit(&format!("SELECT city, avg(price), stddev(price) {joined} GROUP BY city")).await;
    test.check_hit(&format!(
        "SELECT upper(category) AS c, count(DISTINCT buyer), corr(quantity, price) {joined}
         WHERE country = 'NO' AND city IN ('Oslo', 'Bergen') GROUP BY upper(category) HAVING count(*) > 1 ORDER BY c"
    ))
    .await;
    test.check_hit(&format!(
        "SELECT date_trunc('month', day) AS m, max(price) {joined}
         WHERE date_trunc('month', day) >= '2022-06-01' GROUP BY 1 ORDER BY 2 DESC LIMIT 3"
    ))
    .await;
    let report = test.explain(&format!("SELECT country, count(*) {joined} GROUP BY country")).await;
    assert!(report.contains("cube `public.shop_sales`, cuboid (country), estimated rows: 2"), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_under_other_names_and_orders_are_recognised() {
    let test = built().await;
    test.check_hit(
        "SELECT x.country, sum(s.quantity * s.price) AS v FROM shop AS x, sales AS s
         WHERE x.shop_id = s.shop GROUP BY x.country",
    )
    .await;
    test.check_hit(
        "SELECT category, count(*) FROM product p JOIN sales s ON p.product_id = s.product GROUP BY 1",
    )
    .await;
    test.check_hit(
        "WITH t AS (SELECT country AS land, quantity AS q FROM sales JOIN shop ON shop_id = shop)
         SELECT land, sum(q) FROM t WHERE land <> 'SE' GROUP BY land",
    )
    .await;
    test.check_hit(
        "SELECT a.country, a.n, b.n FROM
           (SELECT country, count(*) AS n FROM sales JOIN shop ON shop = shop_id GROUP BY country) a
           JOIN (SELECT country, sum(quantity) AS n FROM sales JOIN shop ON shop = shop_id GROUP BY country) b
           ON a.country = b.country",
    )
    .await;
    test.check_hit(
        "SELECT country FROM shop WHERE (SELECT count(*) FROM sales) > 10 AND shop_id IN (SELECT 1)",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_miss_has_its_reason() {
    let test = built().await;
    test.check_miss("SELECT buyer, count(*) FROM sales GROUP BY buyer", "`sales.buyer` is not computable")
        .await;
    test.check_miss("SELECT sum(money) FROM sales", "has no measure `sum(sales.money)`").await;
    test.check_miss(
        "SELECT count(*) FROM sales s JOIN shop a ON s.shop = a.shop_id JOIN shop b ON s.shop = b.shop_id",
        "reads `public.shop` more often",
    )
    .await;
    test.check_miss(
        "SELECT country, count(*) FROM sales JOIN shop ON product = shop_id GROUP BY 1",
        "only has rows where",
    )
    .await;
    test.check_miss(
        "SELECT count(*) FROM sales LEFT JOIN shop ON shop = shop_id AND country = 'NO'",
        "joins `public.shop` in another way",
    )
    .await;
    test.check_miss("SELECT count(*) FROM sales WHERE random() >= 0", "gives another value each time").await;
    let report = test.explain("SELECT count(*) FROM shop").await;
    assert!(report.contains("no aggregation reads the fact table of a cube"), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_that_loses_or_doubles_rows_is_never_dropped() {
    let test = shop_star().await;
    let some_shops = batch!(
        "id" => Int32Array::from(vec![1, 2]),
        "kind" => StringArray::from(vec!["big", "small"]),
    );
    let double_shops = batch!(
        "did" => Int32Array::from(vec![1, 2, 3, 3]),
        "dkind" => StringArray::from(vec!["a", "b", "c", "d"]),
    );
    test.table("some_shops", &[some_shops]).await;
    test.table("double_shops", &[double_shops]).await;
    for (name, table, key, kind) in
        [("c1", "some_shops", "id", "kind"), ("c2", "double_shops", "did", "dkind")]
    {
        test.run(&format!(
            "CREATE CUBE {name} AS SELECT {kind}, category, count(*) FROM sales JOIN {table} ON shop = {key}
             JOIN product ON product = product_id GROUP BY CUBE ({kind}, category)"
        ))
        .await;
        test.run(&format!("BUILD CUBE {name}")).await;
        test.check_miss("SELECT count(*) FROM sales", "that join may add or remove rows").await;
        test.check_hit(&format!(
            "SELECT {kind}, count(*) FROM sales JOIN {table} ON shop = {key} GROUP BY {kind}"
        ))
        .await;
        test.run(&format!("DROP CUBE {name}")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_left_join_of_a_unique_key_can_be_left_out() {
    let test = shop_star().await;
    test.run(
        "CREATE CUBE c AS SELECT city, count(*), sum(quantity) FROM sales LEFT JOIN shop ON shop = shop_id
         GROUP BY ROLLUP (city)",
    )
    .await;
    test.run("BUILD CUBE c").await;
    test.check_hit("SELECT count(*) FROM sales").await;
    test.check_hit("SELECT city, sum(quantity) FROM sales LEFT JOIN shop ON shop = shop_id GROUP BY city")
        .await;
    test.check_miss(
        "SELECT city, sum(quantity) FROM sales JOIN shop ON shop = shop_id GROUP BY city",
        "another way",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_left_join_does_not_vouch_for_its_condition() {
    let test = shop_star().await;
    // Shop 3 has no size, so the inner join behind the left join loses its sales.
    let sizes = batch!("size_of" => Int32Array::from(vec![1, 2]));
    let kinds = batch!(
        "kind_of" => Int32Array::from(vec![1, 2, 3]),
        "kind" => StringArray::from(vec!["a", "b", "c"]),
    );
    test.table("sizes", &[sizes]).await;
    test.table("kinds", &[kinds]).await;
    test.run(
        "CREATE CUBE c AS SELECT kind, count(*) FROM sales LEFT JOIN sizes ON shop = size_of
         JOIN kinds ON size_of = kind_of GROUP BY kind",
    )
    .await;
    test.run("BUILD CUBE c").await;
    test.check_hit(
        "SELECT kind, count(*) FROM sales LEFT JOIN sizes ON shop = size_of JOIN kinds ON size_of = kind_of GROUP BY kind",
    )
    .await;
    test.check_miss(
        "SELECT kind, count(*) FROM sales JOIN kinds ON shop = kind_of GROUP BY kind",
        "the cube joins `public.sizes`",
    )
    .await;
    test.check_same(
        "SELECT kind, count(*) FROM sales JOIN kinds ON shop IS NOT DISTINCT FROM kind_of GROUP BY kind",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cube_with_a_filter_serves_only_queries_with_it() {
    let test = shop_star().await;
    test.run("CREATE CUBE c AS SELECT product, count(*) FROM sales WHERE quantity > 3 GROUP BY product")
        .await;
    test.run("BUILD CUBE c").await;
    test.check_hit("SELECT product, count(*) FROM sales WHERE quantity > 3 GROUP BY product").await;
    test.check_hit("SELECT count(*) FROM sales WHERE 3 < quantity AND product = 1").await;
    test.check_miss("SELECT product, count(*) FROM sales GROUP BY product", "only has rows where").await;
    test.check_miss(
        "SELECT product, count(*) FROM sales WHERE quantity > 4 GROUP BY product",
        "only has rows where",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cubes_survive_a_restart_and_can_be_rebuilt() {
    let test = built().await.reopen().await;
    test.check_hit("SELECT sum(quantity) FROM sales").await;
    test.run("BUILD CUBE shop_sales").await;
    test.check_hit("SELECT sum(quantity) FROM sales").await;
    let cubes = test.run("SHOW CUBES").await;
    assert_eq!(
        (cubes[0][1].as_str(), cubes[0][2].as_str(), cubes[0][7].as_str()),
        ("shop_sales", "ready", "2000")
    );
    let jobs = test.run("SHOW JOBS").await;
    assert_eq!(jobs.len(), 2);
    assert!(jobs.iter().all(|job| job[3] == "done" && job[4] == "2000"), "{jobs:?}");
    assert_eq!(test.run("SHOW SEGMENTS FOR shop_sales").await.len(), 1);
    assert_eq!(test.run("SHOW CUBOIDS FOR shop_sales").await.len(), 12);
    test.run("DROP CUBE shop_sales").await;
    assert!(test.run("SHOW CUBES").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_that_make_no_sense_are_refused() {
    let test = shop_star().await;
    let cases: &[(&str, ErrorKind, &str)] = &[
        ("SELECT count(*) FROM salez", ErrorKind::UndefinedTable, "did you mean `sales`"),
        (
            "SELECT day, count(qantity) FROM sales GROUP BY day",
            ErrorKind::UndefinedColumn,
            "did you mean `quantity`",
        ),
        ("SELECT day FROM sales GROUP BY day", ErrorKind::InvalidDefinition, "has no aggregate"),
        (
            "SELECT random() AS r, count(*) FROM sales GROUP BY random()",
            ErrorKind::InvalidDefinition,
            "another value",
        ),
        (
            "SELECT day, count(*) FROM sales WHERE day < now() GROUP BY day",
            ErrorKind::InvalidDefinition,
            "may change",
        ),
        (
            "SELECT day, count(*) FROM sales WHERE shop IN (SELECT 1) GROUP BY day",
            ErrorKind::InvalidDefinition,
            "may change",
        ),
        (
            "SELECT now() AS n, count(*) FROM sales GROUP BY now()",
            ErrorKind::InvalidDefinition,
            "another value",
        ),
        (
            "SELECT sum(CASE WHEN day < now() THEN 1 END) FROM sales",
            ErrorKind::InvalidDefinition,
            "another value",
        ),
        ("SELECT day, median(price) FROM sales GROUP BY day", ErrorKind::InvalidDefinition, "approx_median"),
        (
            "SELECT day, bitmap_distinct(DISTINCT buyer) FROM sales GROUP BY day",
            ErrorKind::InvalidDefinition,
            "DISTINCT values",
        ),
        (
            "SELECT day, array_agg(buyer) FROM sales GROUP BY day",
            ErrorKind::InvalidDefinition,
            "order of rows",
        ),
        (
            "SELECT day, count(*) FROM sales GROUP BY day ORDER BY day",
            ErrorKind::InvalidDefinition,
            "ORDER BY",
        ),
        (
            "SELECT day, count(*) FROM sales GROUP BY day HAVING count(*) > 1",
            ErrorKind::InvalidDefinition,
            "HAVING",
        ),
        ("SELECT day, count(*) FROM sales GROUP BY day, sales.day", ErrorKind::InvalidDefinition, "day"),
        (
            "SELECT shop, shop_id, count(*) FROM sales JOIN shop ON shop = shop_id GROUP BY shop, shop_id",
            ErrorKind::InvalidDefinition,
            "always equal",
        ),
    ];
    for (select, kind, words) in cases {
        test.error(&format!("CREATE CUBE c AS {select}"), *kind, words).await;
    }
    test.run("CREATE CUBE c AS SELECT count(*) FROM sales").await;
    test.error("CREATE CUBE c AS SELECT count(*) FROM sales", ErrorKind::DuplicateTable, "already exists")
        .await;
    test.error(
        "CREATE CUBE sales AS SELECT count(*) FROM sales",
        ErrorKind::DuplicateTable,
        "already exists",
    )
    .await;
    test.run("CREATE CUBE IF NOT EXISTS c AS SELECT count(*) FROM sales").await;
    test.error("DROP TABLE sales", ErrorKind::Needed, "needed by").await;
    test.error("SELECT * FROM c", ErrorKind::UndefinedTable, "is a cube").await;
    test.error("BUILD CUBE d", ErrorKind::UndefinedTable, "cube `public.d` does not exist").await;
    test.error("DROP CUBE d", ErrorKind::UndefinedTable, "does not exist").await;
    test.run("DROP CUBE IF EXISTS d").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_memory_is_too_short_for_takes_several_passes() {
    let test = TestEngine::with_config(|config| {
        config.query.memory_limit_bytes = 200 << 20;
        config.query.threads = 2;
    })
    .await;
    let rows = 150_000;
    let name = |prefix: &str, n: i64| format!("{prefix} with a name that is long enough to matter {n}");
    let sales = batch!(
        "buyer" => StringArray::from_iter_values((0..rows).map(|n| name("buyer", n))),
        "thing" => StringArray::from_iter_values((0..rows).map(|n| name("thing", n * 7))),
        "place" => StringArray::from_iter_values((0..rows).map(|n| name("place", n * 13))),
        "amount" => Int64Array::from_iter_values(0..rows),
    );
    test.table("sales", &[sales]).await;
    test.run(
        "CREATE CUBE c AS SELECT sum(amount), count(*) FROM sales \
         GROUP BY GROUPING SETS ((buyer), (thing), (place), (buyer, thing), (thing, place), ())",
    )
    .await;
    test.run("BUILD CUBE c").await;
    let cubes = test.run("SHOW CUBES").await;
    assert_eq!(cubes[0][7], rows.to_string(), "{cubes:?}");
    test.check_hit("SELECT count(*), sum(amount), min(thing), max(thing) FROM sales").await;
    test.check_hit(
        "SELECT buyer, thing, sum(amount) FROM sales WHERE buyer LIKE '%77' GROUP BY buyer, thing",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dimensions_may_be_of_any_type() {
    let test = TestEngine::new().await;
    let rows = 0..1000_i64;
    let table = batch!(
        "f" => arrow::array::Float64Array::from_iter_values(rows.clone().map(|i| (i % 7) as f64 / 4.0)),
        "b" => arrow::array::BooleanArray::from_iter(rows.clone().map(|i| (i % 5 != 0).then_some(i % 2 == 0))),
        "d" => arrow::array::Decimal128Array::from_iter_values(rows.clone().map(|i| i128::from(i % 11))),
        "y" => arrow::array::BinaryArray::from_iter_values(rows.clone().map(|i| (i % 3).to_le_bytes())),
        "t" => arrow::array::TimestampMicrosecondArray::from_iter_values(rows.clone().map(|i| i % 13)),
        "a" => arrow::array::Int64Array::from_iter_values(rows),
    );
    test.table("t", &[table]).await;
    test.run("CREATE CUBE c AS SELECT sum(a) FROM t GROUP BY GROUPING SETS ((f, b), (d, y), (t))").await;
    test.run("BUILD CUBE c").await;
    for dimension in ["f", "b", "d", "y", "t"] {
        test.check_hit(&format!("SELECT {dimension}, sum(a) FROM t GROUP BY {dimension}")).await;
    }
}
