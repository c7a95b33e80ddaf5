//! The query history: which queries are one shape, its counts, and that it survives a restart.

use crate::cubes::shop_star;
use crate::harness::TestEngine;

/// The history of each shape: query, times asked, misses, answering cuboid, and the reason of a miss.
async fn history(test: &TestEngine) -> Vec<[String; 5]> {
    let rows = test.run("SHOW QUERY HISTORY").await;
    rows.into_iter()
        .map(|row| [row[0].clone(), row[1].clone(), row[5].clone(), row[6].clone(), row[7].clone()])
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_that_differ_in_values_are_one() {
    let test = shop_star().await;
    for query in [
        "SELECT country, sum(quantity) FROM sales JOIN shop ON shop = shop_id WHERE city = 'Oslo' AND price > 3 GROUP BY country",
        "SELECT s.country AS c, sum(x.quantity) AS q FROM shop AS s, sales AS x
         WHERE x.price > 7.5 AND s.shop_id = x.shop AND s.city = 'Bergen' GROUP BY s.country HAVING count(*) > 0",
        "WITH t AS (SELECT city, country, quantity, price FROM sales JOIN shop ON shop_id = shop)
         SELECT country, sum(quantity) FROM t WHERE price > 1 AND city = 'x' GROUP BY 1 ORDER BY 2 LIMIT 1",
    ] {
        test.run(query).await;
    }
    let found = history(&test).await;
    let plain = "SELECT shop.country, sum(sales.quantity) FROM public.sales JOIN public.shop ON sales.shop = shop.shop_id \
                 WHERE sales.price > ? AND shop.city = ? GROUP BY shop.country";
    assert!(found.iter().any(|row| row[0] == plain && row[1] == "2" && row[2] == "2"), "{found:#?}");
    // HAVING asks for one aggregate more.
    assert!(found.iter().any(|row| row[0].contains("count(1)") && row[1] == "1"), "{found:#?}");
    assert_eq!(found.len(), 2, "{found:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_answered_is_recorded_and_kept() {
    let test = shop_star().await;
    let query = "SELECT country, sum(quantity) FROM sales JOIN shop ON shop = shop_id GROUP BY country";
    test.run(query).await;
    let found = history(&test).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0][1..], ["1", "1", "NULL", "NULL"]);
    test.run("CREATE CUBE c AS SELECT country, sum(quantity) FROM sales JOIN shop ON shop = shop_id GROUP BY country")
        .await;
    test.run(query).await;
    assert!(history(&test).await[0][4].contains("has not been built"));
    test.run("BUILD CUBE c").await;
    for _ in 0..3 {
        test.run(query).await;
    }
    let expected = ["5", "2", "public.c (country)"];
    assert_eq!(history(&test).await[0][1..4], expected);
    // EXPLAIN does not count, nor does a query with cubes off, nor CHECK CUBE.
    test.run(&format!("EXPLAIN {query}")).await;
    test.run("SET nyala.use_cubes = off").await;
    test.run(query).await;
    test.run("CHECK CUBE c").await;
    assert_eq!(history(&test).await[0][1..4], expected);
    let test = test.reopen().await;
    assert_eq!(history(&test).await[0][1..4], expected);
    test.run(query).await;
    let found = history(&test).await;
    assert_eq!((found.len(), found[0][1].as_str()), (1, "6"), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn left_joins_grouping_sets_distinct_and_subqueries() {
    let test = shop_star().await;
    for (query, shape) in [
        (
            "SELECT city, count(*) FROM sales LEFT JOIN shop ON shop = shop_id GROUP BY ROLLUP (city)",
            "FROM public.sales LEFT JOIN public.shop ON sales.shop = shop.shop_id GROUP BY GROUPING SETS ((), (shop.city))",
        ),
        (
            "SELECT DISTINCT product FROM sales",
            "SELECT sales.product FROM public.sales GROUP BY sales.product",
        ),
        (
            "SELECT max(q) FROM (SELECT sum(quantity) AS q FROM sales WHERE shop IN (1, 2) GROUP BY product)",
            "SELECT sales.product, sum(sales.quantity) FROM public.sales WHERE sales.shop IN (?) GROUP BY sales.product",
        ),
        (
            "SELECT count(*) FROM shop a JOIN shop b ON a.country = b.country WHERE a.city < b.city",
            "FROM public.shop JOIN public.shop AS shop_2 ON shop.country = shop_2.country WHERE shop.city < shop_2.city",
        ),
    ] {
        test.run(query).await;
        let found = history(&test).await;
        assert!(found.iter().any(|row| row[0].contains(shape)), "{shape}\n{found:#?}");
    }
    test.run("SELECT 1").await;
    test.run("SELECT count(*) FROM information_schema.tables").await;
    assert_eq!(history(&test).await.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn cuboids_that_nobody_used_are_named() {
    let test = shop_star().await;
    test.run("CREATE CUBE c AS SELECT product, shop, sum(quantity) FROM sales GROUP BY CUBE (product, shop)")
        .await;
    test.run("BUILD CUBE c").await;
    let used = "SELECT product, sum(quantity) FROM sales GROUP BY product";
    test.run(used).await;
    test.run(&format!("{used} ORDER BY 1")).await;
    test.run("SELECT sum(quantity) FROM sales WHERE shop = 2").await;
    let rows = test.run("ANALYZE CUBE c").await;
    let shown: Vec<_> =
        rows.iter().map(|row| [row[0].as_str(), row[1].as_str(), row[3].as_str(), row[5].as_str()]).collect();
    assert_eq!(
        shown,
        [
            ["(product, shop)", "6", "0", "not used"],
            ["()", "1", "0", "not used"],
            ["(shop)", "3", "1", "NULL"],
            ["(product)", "2", "2", "NULL"],
        ]
    );
    assert!(rows.iter().all(|row| (row[4] == "NULL") == (row[5] == "not used") && row[2] != "0"), "{rows:?}");
    // A new cube of the same name was never used.
    test.run("DROP CUBE c").await;
    test.run("CREATE CUBE c AS SELECT product, shop, sum(quantity) FROM sales GROUP BY CUBE (product, shop)")
        .await;
    assert!(test.run("ANALYZE CUBE c").await.iter().all(|row| row[5] == "not used"));
    test.error("ANALYZE CUBE d", nyala_engine::ErrorKind::UndefinedTable, "`public.d` does not exist").await;
}

/// Constants within aggregates belong to a shape, and a thousand shapes are kept.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_very_long_is_not_kept() {
    let test = shop_star().await;
    for city in ["Oslo".to_owned(), "o".repeat(40_000)] {
        let one = format!("count(CASE WHEN city = '{city}' THEN 1 END)");
        let sql = format!("SELECT country, {one} FROM sales JOIN shop ON shop = shop_id GROUP BY country");
        test.run(&sql).await;
    }
    let found = history(&test).await;
    assert_eq!(found.len(), 1, "{} are kept", found.len());
    assert_eq!(found[0][1], "1");
}
