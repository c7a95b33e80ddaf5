//! Live tables as dimensions of cubes.

use arrow::array::Int64Array;
use nyala_engine::ErrorKind;

use super::{STAR_QUERIES, put, sales};
use crate::batch;
use crate::harness::TestEngine;

#[tokio::test(flavor = "multi_thread")]
async fn a_dimension_that_changed_makes_segments_stale() {
    let test = sales().await;
    test.run("CREATE LIVE TABLE shops (shop_id BIGINT PRIMARY KEY, city TEXT)").await;
    test.run("INSERT INTO shops VALUES (0, 'Rome'), (1, 'Rome'), (2, 'Oslo'), (3, 'Bern'), (4, 'Bern')")
        .await;
    put(&test, 0..100, 0).await;
    test.run("DROP CUBE c").await;
    test.run(
        "CREATE CUBE star WITH (auto_refresh = off) AS SELECT sum(amount), count(*) FROM sales \
         JOIN shops ON shop = shop_id GROUP BY CUBE (city, kind)",
    )
    .await;
    test.run("BUILD CUBE star").await;
    for query in STAR_QUERIES {
        test.check_hit(query).await;
    }
    put(&test, 100..120, 0).await;
    let report = test.explain(STAR_QUERIES[0]).await;
    assert!(report.contains("20 rows written at"), "{report}");
    for change in [
        "UPDATE shops SET city = 'Pisa' WHERE shop_id = 1",
        "INSERT INTO shops VALUES (5, 'Nice')",
        "DELETE FROM shops WHERE shop_id = 4",
    ] {
        test.run(change).await;
        for query in STAR_QUERIES {
            test.check_miss(query, "rows of table `public.shops` changed").await;
        }
        test.run("BUILD CUBE star").await;
        for query in STAR_QUERIES {
            test.check_hit(query).await;
        }
    }
    test.error("DROP TABLE shops", ErrorKind::Needed, "star").await;
    test.error("DROP TABLE sales", ErrorKind::Needed, "star").await;
    test.run("DROP CUBE star").await;
    test.run("DROP TABLE shops").await;
}

/// The planner also groups by columns that a primary key determines; a cube has only its listed dimensions, and
/// queries need only the columns that they name.
#[tokio::test(flavor = "multi_thread")]
async fn keys_of_live_tables_are_dimensions_like_others() {
    let test = sales().await;
    test.run("CREATE LIVE TABLE shops (shop_id BIGINT PRIMARY KEY, city TEXT, owner TEXT)").await;
    test.run("INSERT INTO shops VALUES (0, 'Rome', 'a'), (1, 'Rome', 'b'), (2, 'Oslo', 'b'), (3, 'Bern', 'c'), (4, 'Bern', 'c')")
        .await;
    put(&test, 0..100, 0).await;
    test.run("DROP CUBE c").await;
    test.run(
        "CREATE CUBE star WITH (auto_refresh = off) AS SELECT sum(amount), count(*) FROM sales \
         JOIN shops ON shop = shop_id GROUP BY CUBE (shop_id, city)",
    )
    .await;
    test.run("BUILD CUBE star").await;
    let joined = "FROM sales JOIN shops ON shop = shop_id";
    for query in [
        format!("SELECT shop_id, sum(amount) {joined} GROUP BY shop_id"),
        format!("SELECT sum(amount) AS s {joined} GROUP BY shop_id HAVING count(*) > 3 ORDER BY s"),
        format!("SELECT shop_id, city, sum(amount) {joined} GROUP BY shop_id"),
        format!("SELECT city, sum(amount) {joined} GROUP BY shop_id, city, owner HAVING shop_id > 1"),
        "SELECT s.city, sum(amount) FROM sales JOIN shops AS s ON shop = s.shop_id GROUP BY s.shop_id, s.city".to_owned(),
        format!("SELECT max(n) FROM (SELECT count(*) AS n {joined} GROUP BY shop_id)"),
    ] {
        test.check_hit(&query).await;
    }
    // Columns that the key determines are looked up.
    let other = format!("SELECT owner, sum(amount) {joined} GROUP BY shop_id");
    test.check_hit(&other).await;
    assert!(test.explain(&other).await.contains("joined with `public.shops`"));
    // A key that an outer join makes NULL is left as it is.
    let outer = "SELECT sum(amount) FROM sales LEFT JOIN shops ON shop = shop_id AND city = 'Oslo' GROUP BY shop_id, owner";
    test.check_same(outer).await;
    test.run("CREATE CUBE d AS SELECT count(*), sum(amount) FROM sales GROUP BY id").await;
    test.run("BUILD CUBE d").await;
    test.check_hit("SELECT id, sum(amount) FROM sales GROUP BY id").await;
    test.check_miss("SELECT id, kind, sum(amount) FROM sales GROUP BY id", "kind").await;
}

/// The key of a table determines its own columns alone: ORDER BY keeps a column of another table behind the key.
#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_one_dimension_does_not_order_the_cells_of_another() {
    let test = TestEngine::new().await;
    test.run("CREATE LIVE TABLE one (id BIGINT PRIMARY KEY, name TEXT)").await;
    test.run("CREATE LIVE TABLE two (id BIGINT PRIMARY KEY, x BIGINT)").await;
    test.run("CREATE LIVE TABLE facts (id BIGINT PRIMARY KEY, a BIGINT, b BIGINT, v BIGINT)").await;
    test.run("INSERT INTO one VALUES (1, 'a'), (2, 'b')").await;
    test.run("INSERT INTO two VALUES (1, 10), (2, 20), (3, 30)").await;
    let rows: Vec<String> = (0..60).map(|i| format!("({i}, {}, {}, {i})", 1 + i % 2, 1 + i % 3)).collect();
    test.run(&format!("INSERT INTO facts VALUES {}", rows.join(", "))).await;
    let joined = "FROM facts f JOIN one ON f.a = one.id JOIN two ON f.b = two.id";
    test.run(&format!(
        "CREATE CUBE c AS SELECT sum(f.v), count(*) {joined} GROUP BY one.id, one.name, two.x"
    ))
    .await;
    test.run("BUILD CUBE c").await;
    let ordered = format!("SELECT one.id, two.x {joined} GROUP BY one.id, two.x ORDER BY one.id, two.x DESC");
    test.check_hit(&ordered).await;
    let expected = [["1", "30"], ["1", "20"], ["1", "10"], ["2", "30"], ["2", "20"], ["2", "10"]];
    assert_eq!(test.run(&ordered).await, expected);
    let grouped = format!("SELECT one.id, two.x, sum(f.v) AS s {joined} GROUP BY one.id, two.x");
    let repeated =
        format!("SELECT k.id FROM (VALUES (1), (2)) AS k (id) LEFT JOIN ({grouped}) AS g ON g.id = k.id");
    test.check_hit(&repeated).await;
    assert_eq!(test.run(&repeated).await.len(), 6);
}

/// Segments by ranges of an external table, with a live dimension.
#[tokio::test(flavor = "multi_thread")]
async fn a_live_table_may_be_the_dimension_of_files() {
    let test = TestEngine::new().await;
    let rows = batch!(
        "day" => Int64Array::from_iter_values(0..100),
        "shop" => Int64Array::from_iter_values((0..100).map(|i| i % 5)),
        "amount" => Int64Array::from_iter_values(0..100),
    );
    test.table("orders", &[rows]).await;
    test.run("CREATE LIVE TABLE shops (shop_id BIGINT PRIMARY KEY, city TEXT)").await;
    test.run("INSERT INTO shops VALUES (0, 'Rome'), (1, 'Rome'), (2, 'Oslo'), (3, 'Bern'), (4, 'Bern')")
        .await;
    test.run(
        "CREATE CUBE c PARTITION BY RANGE (day) EVERY 10 AS SELECT sum(amount), count(*) FROM orders \
         JOIN shops ON shop = shop_id GROUP BY CUBE (city, day)",
    )
    .await;
    test.run("BUILD CUBE c FROM 0 TO 50").await;
    let query = "SELECT city, sum(amount) FROM orders JOIN shops ON shop = shop_id GROUP BY city";
    let report = test.explain(query).await;
    assert!(report.contains("segments: 5") && report.contains("day 50 to 99"), "{report}");
    test.check_hit(query).await;
    test.run("UPDATE shops SET city = 'Pisa' WHERE shop_id = 3").await;
    test.check_miss(query, "rows of table `public.shops` changed").await;
    test.run("BUILD CUBE c").await;
    test.check_hit(query).await;
}
