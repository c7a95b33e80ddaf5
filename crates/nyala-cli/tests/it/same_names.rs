//! Columns of one name in several tables: filters, keys and orders find the right one.

use arrow::array::{Int64Array, StringArray};

use crate::batch;
use crate::harness::{TestEngine, sorted};

/// Payments, orders and customers with the same ids. The amounts of orders are all greater than those of payments.
async fn shop(test: &TestEngine) {
    let payments = batch!(
        "amount" => Int64Array::from_iter_values((0..100_000).map(|i| 100_000 - i)),
        "id" => Int64Array::from_iter_values(0..100_000),
    );
    let orders = batch!(
        "amount" => Int64Array::from_iter_values((0..200_000).map(|i| 1_000_000 + 10 * i)),
        "id" => Int64Array::from_iter_values(0..200_000),
    );
    test.table("payments", &[payments]).await;
    test.table("orders", &[orders]).await;
    test.table("customers", &[batch!("id" => Int64Array::from_iter_values(0..100_000))]).await;
}

const LEAST: &str = "SELECT o.amount, p.amount FROM orders o JOIN payments p ON o.id = p.id \
                     JOIN customers c ON p.id = c.id ORDER BY p.amount LIMIT 3";

#[tokio::test(flavor = "multi_thread")]
async fn the_bound_of_a_sort_reaches_the_column_that_is_sorted_by() {
    let test = TestEngine::new().await;
    shop(&test).await;
    let least = [["1999990", "1"], ["1999980", "2"], ["1999970", "3"]];
    for _ in 0..3 {
        assert_eq!(test.run(LEAST).await, least);
    }
    // The scan of payments gets it, and the keys of customers.
    let operators = test.operators(LEAST).await;
    let scan = operators.lines().find(|line| line.contains("payments/part-0.parquet")).unwrap();
    assert_eq!(scan.matches("DynamicFilter").count(), 2, "{operators}");

    for table in ["payments", "orders", "customers"] {
        test.run(&format!("CREATE LIVE TABLE live_{table} (amount BIGINT, id BIGINT PRIMARY KEY)")).await;
        let columns = if table == "customers" { "0 AS amount, id" } else { "amount, id" };
        test.run(&format!("INSERT INTO live_{table} SELECT {columns} FROM {table}")).await;
    }
    let live = ["payments p", "orders o", "customers c"]
        .iter()
        .fold(LEAST.to_owned(), |sql, table| sql.replace(&format!(" {table} "), &format!(" live_{table} ")));
    assert!(live.matches(" live_").count() == 3, "{live}");
    assert_eq!(test.run(&live).await, least);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keys_of_a_join_reach_the_column_that_is_joined_by() {
    let test = TestEngine::new().await;
    let a = batch!("id" => StringArray::from(vec!["a1"]), "ty" => StringArray::from(vec!["x1"]));
    test.table("a", &[a]).await;
    test.table("b", &[batch!("id" => StringArray::from(vec!["x1"]))]).await;
    let pairs = "a LEFT JOIN b ON a.ty = b.id";
    let sql = format!("SELECT s.id, a.id, b.id FROM b s JOIN ({pairs}) ON s.id = b.id");
    assert_eq!(test.run(&sql).await, [["x1", "a1", "x1"]]);
    let pairs = format!("SELECT a.id AS a, b.id AS b FROM {pairs} GROUP BY a.id, b.id");
    let sql = format!("SELECT s.id, p.a, p.b FROM b s JOIN ({pairs}) p ON s.id = p.b");
    assert_eq!(test.run(&sql).await, [["x1", "a1", "x1"]]);
    let pairs = "SELECT a.id, b.id FROM a JOIN b ON a.ty = b.id UNION ALL SELECT ty, id FROM a";
    let sql = format!("SELECT s.id, p.x, p.y FROM b s JOIN ({pairs}) p (x, y) ON s.id = p.x");
    assert_eq!(test.run(&sql).await, [["x1", "x1", "a1"]]);
}

/// A semi join gives the rows of its left side. A filter on a key of the left side is also pushed to the key of the right side that
/// equals it, whatever the name of that column.
#[tokio::test(flavor = "multi_thread")]
async fn a_filter_on_the_key_of_a_semi_join_reaches_the_other_key() {
    let test = TestEngine::new().await;
    let keys = || Int64Array::from_iter_values(0..40_000);
    test.table("a", &[batch!("id" => keys(), "x" => keys())]).await;
    let other = Int64Array::from_iter_values((0..40_000).map(|i| 40_000 - i));
    test.table("b", &[batch!("parent" => keys(), "id" => other)]).await;
    let sql =
        "SELECT a.id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.parent = a.id AND b.id <> a.x + 100000)";
    for (order, rows) in [("", ["0", "1", "2"]), (" DESC", ["39999", "39998", "39997"])] {
        let sql = format!("{sql} ORDER BY a.id{order} LIMIT 3");
        assert_eq!(test.run(&sql).await.concat(), rows, "{sql}");
        let joined = format!("SELECT q.id FROM ({sql}) q JOIN a ON a.id = q.id");
        assert_eq!(sorted(test.run(&joined).await), sorted(test.run(&sql).await), "{joined}");
    }
}

/// The keys of the join are those of the aggregation in another order, and both keys of the aggregation have one name.
#[tokio::test(flavor = "multi_thread")]
async fn keys_of_one_name_are_not_mixed_up() {
    const ROWS: i64 = 200_000;
    let test = TestEngine::new().await;
    let keys = || Int64Array::from_iter_values(0..ROWS);
    let back = || Int64Array::from_iter_values((0..ROWS).map(|i| ROWS - i));
    test.table("a", &[batch!("id" => keys(), "x" => keys())]).await;
    test.table("b", &[batch!("parent" => keys(), "id" => back())]).await;
    test.table("u", &[batch!("x" => back(), "y" => keys(), "z" => keys())]).await;
    let pairs =
        "SELECT a.id AS i, b.id AS j, count(*) AS c FROM a JOIN b ON a.x = b.parent GROUP BY a.id, b.id";
    let sql = format!(
        "SELECT count(*), sum(s.i), sum(s.j), sum(s.c) FROM ({pairs}) s JOIN u ON s.j = u.x AND s.i = u.y \
         WHERE u.z > 10"
    );
    assert_eq!(test.run(&sql).await, [["199989", "19999899945", "19997900055", "199989"]]);
}
