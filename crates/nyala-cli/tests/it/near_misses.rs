//! Queries that are not written as the cube is, and are answered from it all the same.

use arrow::array::{Int64Array, StringArray};

use crate::batch;
use crate::cubes::shop_star;

const CUBE: &str = "
    CREATE CUBE c AS
    SELECT country, category, shop, product, sum(quantity), count(quantity), count(*), sum(money), count(money),
           bitmap_distinct(buyer), min(price), bitmap_distinct(money)
    FROM sales JOIN shop ON shop = shop_id JOIN product ON product = product_id
    GROUP BY CUBE (country, shop, product, category)";

#[tokio::test(flavor = "multi_thread")]
async fn queries_that_are_written_in_another_way_hit() {
    let test = shop_star().await;
    test.run(CUBE).await;
    test.run("BUILD CUBE c").await;
    for query in [
        "SELECT count(DISTINCT buyer) FROM sales",
        "SELECT shop, count(DISTINCT buyer), count(DISTINCT money), count(DISTINCT product) FROM sales GROUP BY shop",
        "SELECT count(DISTINCT buyer) FILTER (WHERE shop = 1) FROM sales",
        "SELECT shop, product, count(DISTINCT buyer) FROM sales GROUP BY ROLLUP (shop, product)",
        "SELECT sum(CASE WHEN shop = 1 THEN money ELSE 0 END) FROM sales",
        "SELECT sum(CASE WHEN shop = 1 THEN money ELSE 0.5 END) FROM sales",
        "SELECT product, sum(CASE WHEN shop = 1 THEN money END), avg(money) FROM sales GROUP BY product",
        "SELECT min(1), max('a'), count(DISTINCT 3) FROM sales",
        "SELECT shop, min(1), bool_or(true) FROM sales GROUP BY shop",
        "SELECT min(1), sum(coalesce(quantity, 0)) FROM sales WHERE shop = 17",
        "SELECT sum(coalesce(quantity, 0)), sum(coalesce(money, 0)) FROM sales",
        "SELECT shop, sum(coalesce(quantity, 0)) FROM sales GROUP BY shop",
        "SELECT country, sum(quantity) FROM shop RIGHT JOIN sales ON shop = shop_id GROUP BY country",
        "SELECT label, sum(quantity) FROM sales JOIN (VALUES (1, 'one'), (2, 'two')) AS v (id, label) ON shop = id GROUP BY label",
        "SELECT label, sum(quantity) FROM sales LEFT JOIN (VALUES (1, 'one')) AS v (id, label) ON shop = id GROUP BY label",
        "SELECT sum(quantity) FROM sales JOIN (SELECT shop_id FROM shop ORDER BY shop_id LIMIT 2) AS s ON shop = s.shop_id",
        "SELECT s.city, sum(quantity) FROM sales JOIN (SELECT DISTINCT shop_id, city FROM shop) AS s ON shop = s.shop_id GROUP BY s.city",
        "SELECT sum(quantity) FROM sales JOIN (SELECT 1 AS id UNION SELECT 2) AS s ON shop = s.id",
        "SELECT sum(quantity) FROM sales JOIN (SELECT shop AS id, sum(quantity) AS q FROM sales GROUP BY shop) AS s ON shop = s.id WHERE q > 10",
        "SELECT city, category, sum(quantity) FROM sales JOIN shop ON shop = shop_id JOIN product ON product = product_id GROUP BY city, category",
    ] {
        test.check_hit(query).await;
    }
}

/// Of three lookup tables, the cube has all columns of one, and lacks some columns of two.
#[tokio::test(flavor = "multi_thread")]
async fn some_of_the_tables_are_joined_late() {
    let test = shop_star().await;
    let colours = batch!(
        "id" => Int64Array::from_iter_values(0..97),
        "colour" => StringArray::from_iter_values((0..97).map(|n| format!("colour {}", n % 4))),
    );
    test.table("buyers", &[colours]).await;
    test.run(
        "CREATE CUBE c AS SELECT country, shop, product, buyer, sum(quantity), count(*)
         FROM sales JOIN shop ON shop = shop_id JOIN product ON product = product_id JOIN buyers ON buyer = id
         GROUP BY country, shop, product, buyer",
    )
    .await;
    test.run("BUILD CUBE c").await;
    let all =
        "sales JOIN shop ON shop = shop_id JOIN product ON product = product_id JOIN buyers ON buyer = id";
    for query in [
        format!(
            "SELECT country, category, colour, sum(quantity) FROM {all} GROUP BY country, category, colour"
        ),
        format!(
            "SELECT country, count(*) FROM {all} WHERE category = 'tea' AND colour <> 'colour 1' GROUP BY country"
        ),
        format!(
            "SELECT city, category, sum(quantity) FROM {all} WHERE country = 'NO' GROUP BY city, category"
        ),
    ] {
        test.check_hit(&query).await;
    }
}
