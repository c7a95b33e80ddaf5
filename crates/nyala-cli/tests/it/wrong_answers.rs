//! Queries that once had a wrong answer, each with the right one: they look like another query, but differ in meaning.

use std::time::Duration;

use arrow::array::{
    Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, StringArray,
    TimestampMicrosecondArray,
};
use datafusion::common::ScalarValue;
use nyala_engine::{Answer, ErrorKind, Prepared};
use serde_json::json;
use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::batch;
use crate::cubes::shop_star;
use crate::harness::{TestEngine, parsed, rows_of, sorted};
use crate::plans::becomes_ready;
use crate::server::Server;

/// 2024-01-01.
const FIRST_DAY: i32 = 19_723;

const JANUARY: &str = "day >= DATE '2024-01-01' AND day < DATE '2024-02-01'";
const FEBRUARY: &str = "day >= DATE '2024-02-01' AND day < DATE '2024-03-01'";

/// Checks that the tables give these rows, and a cube gives the same.
async fn check_hit(test: &TestEngine, sql: &str, rows: &[&[&str]]) {
    test.check_hit(sql).await;
    assert_eq!(sorted(test.run(sql).await), rows, "{sql}");
}

/// Checks that the tables give these rows, since no cube can.
async fn check_miss(test: &TestEngine, sql: &str, reason: &str, rows: &[&[&str]]) {
    test.check_miss(sql, reason).await;
    assert_eq!(sorted(test.run(sql).await), rows, "{sql}");
}

async fn execute(test: &TestEngine, prepared: &Prepared) -> Vec<Vec<String>> {
    match test.session.execute(prepared, Vec::new()).await.unwrap() {
        Answer::Rows(rows) => rows_of(&rows.collect().await.unwrap()),
        Answer::Done(_) => panic!("no rows"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn subqueries_over_other_segments_are_other_subqueries() {
    let test = TestEngine::new().await;
    let sales = batch!(
        "day" => Date32Array::from(vec![FIRST_DAY + 9, FIRST_DAY + 10, FIRST_DAY + 40]),
        "shop" => Int32Array::from(vec![1, 2, 1]),
        "x" => Int64Array::from(vec![1, 2, 40]),
    );
    test.table("sales", &[sales]).await;
    test.run(
        "CREATE CUBE c PARTITION BY RANGE (day) EVERY INTERVAL '1 month' AS
         SELECT shop, sum(x), count(*) FROM sales GROUP BY ROLLUP (shop)",
    )
    .await;
    test.run("BUILD CUBE c").await;
    let sum = |month: &str| format!("(SELECT sum(x) FROM sales WHERE {month})");
    // Cells that are groups are not merged: no aggregation is left that could tell the two subqueries apart.
    let largest = |month: &str| {
        format!("(SELECT max(s) FROM (SELECT shop, sum(x) AS s FROM sales WHERE {month} GROUP BY shop))")
    };
    let (january, february) = (sum(JANUARY), sum(FEBRUARY));
    let sql = format!("SELECT {february} AS feb, {january} AS jan");
    check_hit(&test, &sql, &[&["40", "3"]]).await;
    let sql = format!("SELECT {} AS feb, {} AS jan", largest(FEBRUARY), largest(JANUARY));
    check_hit(&test, &sql, &[&["40", "2"]]).await;
    let sql = format!("SELECT count(*) FROM sales WHERE {february} > 30 AND {january} > 30");
    check_hit(&test, &sql, &[&["0"]]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_optional_side_computes_is_null_without_a_partner() {
    let test = TestEngine::new().await;
    test.table("fact", &[batch!("k" => Int32Array::from(vec![1, 2, 3]))]).await;
    let dim = batch!(
        "k" => Int32Array::from(vec![1, 2]),
        "region" => StringArray::from(vec![Some("north"), None]),
    );
    test.table("dim", &[dim]).await;
    test.run("CREATE CUBE c AS SELECT k, count(*) FROM fact GROUP BY CUBE (k)").await;
    test.run("BUILD CUBE c").await;
    let reason = "the optional side of an outer join is not a plain table";
    let one = "FROM fact LEFT JOIN (SELECT k, 1 AS one FROM dim) d ON fact.k = d.k";
    check_miss(&test, &format!("SELECT count(d.one), count(*) {one}"), reason, &[&["2", "3"]]).await;
    check_miss(&test, &format!("SELECT count(*) {one} WHERE d.one IS NULL"), reason, &[&["1"]]).await;
    let sql = "SELECT d.r, count(*) FROM fact \
               LEFT JOIN (SELECT k, coalesce(region, 'none') AS r FROM dim) d ON fact.k = d.k GROUP BY d.r";
    check_miss(&test, sql, reason, &[&["NULL", "1"], &["none", "1"], &["north", "1"]]).await;
    let sql = "SELECT d.area, count(*) FROM fact \
               LEFT JOIN (SELECT k AS id, region AS area FROM dim) d ON fact.k = d.id GROUP BY d.area";
    check_hit(&test, sql, &[&["NULL", "2"], &["north", "1"]]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_unique_as_they_are_compared() {
    let test = TestEngine::new().await;
    let fact = batch!(
        "day" => Date32Array::from(vec![FIRST_DAY, FIRST_DAY + 1]),
        "id" => Int64Array::from(vec![1, 2]),
    );
    test.table("fact", &[fact]).await;
    let hour = |hour: i64| (i64::from(FIRST_DAY) * 24 + hour) * 3_600_000_000;
    let slots = batch!(
        "ts" => TimestampMicrosecondArray::from(vec![hour(1), hour(2), hour(30)]),
        "id" => Int32Array::from(vec![1, 2, 3]),
        "label" => StringArray::from(vec!["a", "b", "c"]),
    );
    test.table("slots", &[slots]).await;
    for join in ["LEFT JOIN", "JOIN"] {
        let cube = |condition: &str| {
            format!(
                "CREATE CUBE c AS SELECT label, count(*) FROM fact {join} slots ON {condition}
                 GROUP BY ROLLUP (label)"
            )
        };
        let sql = "SELECT count(*) FROM fact";
        // Two slots lie on one day.
        test.run(&cube("fact.day = CAST(slots.ts AS DATE)")).await;
        test.run("BUILD CUBE c").await;
        check_miss(&test, sql, "may add or remove rows", &[&["2"]]).await;
        test.run("DROP CUBE c").await;
        test.run(&cube("fact.id = CAST(slots.id AS BIGINT)")).await;
        test.run("BUILD CUBE c").await;
        check_hit(&test, sql, &[&["2"]]).await;
        test.run("DROP CUBE c").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_equals_itself_where_it_is_not_null() {
    let test = TestEngine::new().await;
    let sales = batch!(
        "shop" => Int32Array::from(vec![Some(1), Some(1), Some(2), None, Some(2)]),
        "amount" => Int64Array::from(vec![Some(5), None, Some(7), Some(1), None]),
    );
    test.table("sales", &[sales]).await;
    test.run("CREATE CUBE c AS SELECT shop, count(*) FROM sales GROUP BY ROLLUP (shop)").await;
    test.run("BUILD CUBE c").await;
    let by_amount = "SELECT count(*) FROM sales WHERE amount = amount";
    check_miss(&test, by_amount, "is not computable", &[&["3"]]).await;
    let sql = "SELECT count(*) FROM (SELECT amount AS a, amount AS b FROM sales) WHERE a = b";
    check_miss(&test, sql, "is not computable", &[&["3"]]).await;
    check_hit(&test, "SELECT count(*) FROM sales WHERE shop = shop", &[&["4"]]).await;
    test.run("DROP CUBE c").await;
    test.run(
        "CREATE CUBE c AS SELECT shop, count(*) FROM sales WHERE amount = amount GROUP BY ROLLUP (shop)",
    )
    .await;
    test.run("BUILD CUBE c").await;
    check_miss(&test, "SELECT count(*) FROM sales", "only has rows where", &[&["5"]]).await;
    check_hit(&test, by_amount, &[&["3"]]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sum_of_no_rows_is_null() {
    let test = TestEngine::new().await;
    let sales = batch!(
        "shop" => Int32Array::from(vec![1, 2]),
        "amount" => Int64Array::from(vec![5, 7]),
    );
    test.table("sales", &[sales]).await;
    test.run("CREATE CUBE c AS SELECT shop, count(*) FROM sales GROUP BY ROLLUP (shop)").await;
    test.run("BUILD CUBE c").await;
    let none = "SELECT sum(0) FILTER (WHERE amount = 99) FROM sales";
    check_miss(&test, none, "has no measure", &[&["NULL"]]).await;
    check_hit(&test, "SELECT sum(0) FILTER (WHERE shop = 99) FROM sales", &[&["NULL"]]).await;
    check_hit(&test, "SELECT sum(0) FROM sales", &[&["0"]]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_subquery_gives_may_change() {
    let test = shop_star().await;
    let known = "product = ANY (SELECT product_id FROM product)";
    test.error(
        &format!("CREATE CUBE c AS SELECT shop, count(*) FROM sales WHERE {known} GROUP BY shop"),
        ErrorKind::InvalidDefinition,
        "may change with time",
    )
    .await;
}

/// Noon in the session's time zone, in seconds since 1970.
const NOON: &str = "SELECT CAST(extract(epoch FROM CAST('2024-01-01 12:00:00' AS TIMESTAMPTZ)) AS BIGINT)";
const NOON_UTC: &str = "1704110400";
const NOON_IN_OSLO: &str = "1704106800";

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_of_the_time_zone_whatever_that_is_called() {
    let test = TestEngine::new().await;
    let names = ["timezone", "datafusion.execution.time_zone"];
    for (first, second) in [(names[0], names[1]), (names[1], names[0])] {
        test.session.set(first, "Europe/Oslo").unwrap();
        assert!(becomes_ready(&test, NOON).await, "{first}");
        assert_eq!(test.run(NOON).await, [[NOON_IN_OSLO]]);
        test.session.set(second, "UTC").unwrap();
        assert_eq!(test.run(NOON).await, [[NOON_UTC]], "{second}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_statement_follows_the_time_zone() {
    let test = TestEngine::new().await;
    let prepared = test.session.prepare(parsed(&test.session, NOON)).await.unwrap();
    assert_eq!(execute(&test, &prepared).await, [[NOON_UTC]]);
    test.session.set("timezone", "Europe/Oslo").unwrap();
    assert_eq!(execute(&test, &prepared).await, [[NOON_IN_OSLO]]);
    test.session.set("timezone", "UTC").unwrap();
    assert_eq!(execute(&test, &prepared).await, [[NOON_UTC]]);
}

/// A plan cached for HTTP clients is looked up only after PostgreSQL's session functions have got their values.
#[tokio::test]
async fn a_session_function_has_one_value_at_one_door() {
    let server = Server::empty(&[]);
    let sql = "SELECT current_schema()";
    for _ in 0..40 {
        server.query_with(sql, &json!({"search_path": "sales"}));
        std::thread::sleep(Duration::from_millis(5));
    }
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    client.batch_execute("SET search_path = sales").await.unwrap();
    let simple = client.simple_query(sql).await.unwrap();
    let row = simple.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    assert_eq!(row, Some("sales"));
    let extended: String = client.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(extended, "sales");
    drop(client);
    connection.await.unwrap().unwrap();
}

/// A file begins and ends at midnight, and times of day in it do not all lie between these two.
#[tokio::test(flavor = "multi_thread")]
async fn files_are_not_left_out_by_what_their_extremes_are_cast_to() {
    const HOUR: i64 = 3_600_000_000;
    let test = TestEngine::new().await;
    let rows = batch!(
        "moment" => TimestampMicrosecondArray::from_iter_values([0, 10 * HOUR, 24 * HOUR]),
        "n" => Int64Array::from_iter_values([-5, 0, 5]),
    );
    test.table("f", &[rows]).await;
    let check = async |sql: &str| assert_eq!(test.run(sql).await, [["0"]], "{sql}");
    check("SELECT n FROM f WHERE CAST(moment AS TIME) >= TIME '09:00'").await;
    check("SELECT n FROM f WHERE NOT CAST(n AS BOOLEAN)").await;
    check("SELECT n FROM f WHERE TRY_CAST(moment AS TIME) = TIME '10:00'").await;
    check("SELECT n FROM f ORDER BY CAST(moment AS TIME) DESC LIMIT 1").await;
    check("SELECT n FROM f JOIN (VALUES (TIME '10:00')) v (t) ON CAST(moment AS TIME) = v.t").await;
}

/// A cast may make one of several values, or none: a constant that is cast back to their type is equal to one of them only.
#[tokio::test(flavor = "multi_thread")]
async fn casts_are_not_left_out_where_they_change_what_is_equal() {
    const HOUR: i64 = 3_600_000_000;
    let test = TestEngine::new().await;
    let prices = Decimal128Array::from_iter_values([140, 150, 200, 249, 250]);
    let rows = batch!(
        "id" => Int64Array::from_iter_values([1, 10, 100, 1000, 10_000]),
        "price" => prices.with_precision_and_scale(10, 2).unwrap(),
        "weight" => Float64Array::from_iter_values([1.4, 1.5, 2.5, 3.5, 2.6]),
        "n" => Int64Array::from_iter_values([1, 2, 40_000, 40_001, 40_002]),
        "moment" => TimestampMicrosecondArray::from_iter_values((0..5).map(|hour| hour * HOUR)),
    );
    test.table("t", &[rows]).await;
    test.run(
        "CREATE CUBE c AS SELECT price, weight, n, moment, sum(id), count(*) FROM t
         GROUP BY price, weight, n, moment",
    )
    .await;
    test.run("BUILD CUBE c").await;
    test.session.set("timezone", "Europe/Oslo").unwrap();
    for (condition, expected) in [
        ("price::int = 2", "1110"),
        ("2 = price::int", "1110"),
        ("price::int > 2", "10000"),
        ("price::int <> 2", "10001"),
        ("price::int IN (2, 5)", "1110"),
        ("price::int NOT IN (2, 5)", "10001"),
        ("price::int BETWEEN 2 AND 2", "1110"),
        ("price::int = ANY(ARRAY[2, 5])", "1110"),
        ("price::int IS NOT DISTINCT FROM 2", "1110"),
        ("price::decimal(10, 1) = 2.5", "11000"),
        ("weight::int = 2", "110"),
        ("weight::real::bigint IN (3, 4)", "11000"),
        ("price::int = 2.5::decimal(2, 1)::int - 1", "1110"),
        ("TRY_CAST(n AS SMALLINT) = 2", "10"),
        ("NOT TRY_CAST(n AS SMALLINT) = 2", "1"),
        ("TRY_CAST(n AS SMALLINT) IS DISTINCT FROM 2", "11101"),
        ("moment::timestamptz = TIMESTAMPTZ '1970-01-01T01:00:00Z'", "100"),
    ] {
        let sql = format!("SELECT sum(id) FROM t WHERE {condition}");
        test.check_hit(&sql).await;
        assert_eq!(test.run(&sql).await, [[expected]], "{sql}");
        assert!(becomes_ready(&test, &sql).await, "{sql}");
        assert_eq!(test.run(&sql).await, [[expected]], "ready: {sql}");
        let beside = format!("SELECT sum(id) FROM (SELECT id, {condition} AS fits FROM t) WHERE fits");
        assert_eq!(test.run(&beside).await, [[expected]], "{beside}");
    }
    let sql = "SELECT sum(id) FROM (SELECT price::int AS whole, id FROM t) WHERE whole = 2";
    assert_eq!(test.run(sql).await, [["1110"]]);
    for (sql, expected) in [
        ("SELECT sum(id) FROM t JOIN (VALUES (2), (7)) v (whole) ON price::int = whole", "1110"),
        (
            "SELECT sum(a.id) FROM t a JOIN t b ON a.n::int = b.n AND a.price::decimal(9, 1) = b.price::decimal(9, 1)",
            "11111",
        ),
        ("SELECT sum(id) FROM t WHERE n::int IN (SELECT 40000 UNION ALL SELECT 2)", "110"),
        ("SELECT sum(id) FROM t WHERE price::int IN (SELECT 2)", "1110"),
        ("SELECT sum(id) FROM t WHERE price::int BETWEEN 2 AND n + 1", "11110"),
        (
            "SELECT sum(id) FROM t WHERE EXISTS (SELECT 1 FROM (VALUES (2)) v (whole) WHERE t.price::int = whole)",
            "1110",
        ),
        (
            "SELECT sum(c) FROM (SELECT (SELECT count(*) FROM t b WHERE b.price::bigint = a.n) AS c FROM t a WHERE id < 100)",
            "4",
        ),
        ("SELECT sum(place) FROM (SELECT rank() OVER (ORDER BY price::int, n::int) AS place FROM t)", "15"),
        (
            "SELECT string_agg(id::text, ' ' ORDER BY price::int DESC, n::smallint) FROM t WHERE n < 40000",
            "10 1",
        ),
        ("SELECT sum(place) FROM (SELECT rank() OVER (ORDER BY price::int = 2) AS place FROM t)", "11"),
        (
            "SELECT sum(id) FROM (SELECT 1.5::decimal(2, 1) AS half, id, price FROM t) WHERE half::int = price::int",
            "1110",
        ),
    ] {
        assert_eq!(test.run(sql).await, [[expected]], "{sql}");
    }
    let sql = "SELECT id FROM t WHERE n::smallint = 2";
    test.error(sql, ErrorKind::OutOfRange, "40000").await;
}

/// As PostgreSQL and DuckDB do it: halves of decimals away from zero, of floating-point numbers to the even number.
#[tokio::test(flavor = "multi_thread")]
async fn casts_to_whole_numbers_take_the_nearest() {
    let test = TestEngine::new().await;
    let prices = Decimal128Array::from_iter_values([-250, -149, 150, 249, 250]);
    let rows = batch!(
        "id" => Int64Array::from_iter_values(0..5),
        "price" => prices.with_precision_and_scale(10, 2).unwrap(),
        "weight" => Float64Array::from_iter_values([-2.5, -1.4, 1.5, 2.5, 2.51]),
    );
    test.table("t", &[rows]).await;
    let sql = "SELECT price::int, TRY_CAST(price AS BIGINT), weight::int, weight::real::smallint FROM t ORDER BY id";
    let expected = [
        ["-3", "-3", "-2", "-2"],
        ["-1", "-1", "-1", "-1"],
        ["2", "2", "2", "2"],
        ["2", "2", "2", "2"],
        ["3", "3", "3", "3"],
    ];
    assert_eq!(test.run(sql).await, expected);
    assert_eq!(test.run("SELECT 1.5::int, (-1.6)::int, 9.99::decimal(3, 2)::int").await, [["2", "-2", "10"]]);
    let groups = "SELECT price::int AS whole, weight::int, count(*), sum(price) FROM t GROUP BY price::int, weight::int";
    test.run(&format!("CREATE CUBE c AS {groups}")).await;
    test.run("BUILD CUBE c").await;
    let groups = "SELECT weight::int, price::int, sum(price) FROM t GROUP BY weight::int, price::int";
    test.check_hit(groups).await;
    let expected = [["-1", "-1", "-1.49"], ["-2", "-3", "-2.50"], ["2", "2", "3.99"], ["3", "3", "2.50"]];
    assert_eq!(sorted(test.run(groups).await), expected);
    test.check_hit("SELECT sum(price) FROM t WHERE weight::int = 2 GROUP BY price::int").await;

    test.run("CREATE TABLE whole (id INT PRIMARY KEY, n INT, m INT DEFAULT 2.5::decimal(2, 1))").await;
    test.run("INSERT INTO whole (id, n) VALUES (1, 1.5), (2, -1.6)").await;
    test.run("INSERT INTO whole (id, n) SELECT 3, price FROM t WHERE weight > 2.5").await;
    test.run("UPDATE whole SET m = 3.5 WHERE id = 2").await;
    let insert = parsed(&test.session, "INSERT INTO whole (id, n) VALUES (4, $1)");
    let insert = test.session.prepare(insert).await.unwrap();
    test.session.execute(&insert, vec![ScalarValue::Float64(Some(2.6))]).await.unwrap();
    let expected = [["1", "2", "3"], ["2", "-2", "4"], ["3", "3", "3"], ["4", "3", "3"]];
    assert_eq!(test.run("SELECT id, n, m FROM whole ORDER BY id").await, expected);
}
