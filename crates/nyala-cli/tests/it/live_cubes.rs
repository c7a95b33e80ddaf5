//! Cubes over live tables: however rows change, cubes make no difference to an answer.

mod any_order;
mod dimensions;
mod segments;

use nyala_engine::{Answer, ErrorKind};

use crate::harness::{TestEngine, parsed, rows_of};

const QUERIES: &[&str] = &[
    "SELECT count(*), sum(amount), min(amount), max(amount), avg(amount) FROM sales",
    "SELECT shop, count(*), sum(amount) FROM sales GROUP BY shop",
    "SELECT kind, bitmap_distinct(buyer), count(DISTINCT buyer) FROM sales GROUP BY kind",
    "SELECT shop, kind, avg(amount) FROM sales WHERE kind <> 'b' GROUP BY shop, kind",
    "SELECT kind, sum(amount) FROM sales WHERE shop = 2 GROUP BY ROLLUP (kind)",
    "SELECT DISTINCT shop FROM sales",
    "SELECT sum(amount) FROM sales WHERE shop = 99",
];

const STAR_QUERIES: &[&str] = &[
    "SELECT city, sum(amount) FROM sales JOIN shops ON shop = shop_id GROUP BY city",
    "SELECT city, kind, count(*) FROM sales JOIN shops ON shop = shop_id WHERE kind = 'a' GROUP BY city, kind",
    "SELECT kind, sum(amount) FROM sales JOIN shops ON shop = shop_id GROUP BY kind",
];

const TOTAL: &str = "SELECT shop, count(*), sum(amount) FROM sales GROUP BY shop";

/// A live fact table and a cube over it that is only built when a test says so.
async fn sales() -> TestEngine {
    sales_with("").await
}

async fn sales_with(options: &str) -> TestEngine {
    let test = TestEngine::new().await;
    let columns = "id BIGINT PRIMARY KEY, shop BIGINT, kind TEXT, buyer BIGINT, amount BIGINT";
    test.run(&format!("CREATE LIVE TABLE sales ({columns}) {options}")).await;
    test.run(
        "CREATE CUBE c WITH (auto_refresh = off) AS SELECT sum(amount), count(*), min(amount), max(amount), \
         bitmap_distinct(buyer), count(DISTINCT buyer) FROM sales GROUP BY CUBE (shop, kind)",
    )
    .await;
    test
}

/// Writes rows with these keys, replacing earlier ones.
async fn put(test: &TestEngine, keys: std::ops::Range<i64>, salt: i64) {
    let row = |id: i64| {
        let kind = ["'a'", "'b'", "'c'", "NULL"][(id + salt).rem_euclid(4) as usize];
        format!("({id}, {}, {kind}, {}, {})", (id * 7 + salt) % 5, id % 11, id * 3 + salt)
    };
    let rows: Vec<String> = keys.map(row).collect();
    test.run(&format!("INSERT INTO sales VALUES {}", rows.join(", "))).await;
}

async fn check_all(test: &TestEngine) {
    for query in QUERIES {
        test.check_same(query).await;
    }
}

/// A repeated text is answered from a cached plan, and a result may be cached: neither may outlive a write.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_ready_outlives_a_write() {
    let test = sales().await;
    put(&test, 0..50, 0).await;
    test.run("BUILD CUBE c").await;
    test.run("SET nyala.result_cache = on").await;
    let query = "SELECT count(*), sum(amount) FROM sales WHERE shop < 9";
    let prepared = test.session.prepare(parsed(&test.session, query)).await.unwrap();
    for round in 0..6_i64 {
        let expected =
            [[(50 + round).to_string(), (0..50 + round).map(|id| id * 3).sum::<i64>().to_string()]];
        for _ in 0..4 {
            test.check_hit(query).await;
            assert_eq!(test.run(query).await, expected);
            let answer = test.session.execute(&prepared, Vec::new()).await.unwrap();
            let Answer::Rows(rows) = answer else { panic!("no rows") };
            assert_eq!(rows_of(&rows.collect().await.unwrap()), expected);
            test.settle().await;
        }
        put(&test, 50 + round..51 + round, 0).await;
    }
}

/// A total has a row even for no rows: a condition without columns must stay above the total.
#[tokio::test(flavor = "multi_thread")]
async fn a_condition_without_columns_keeps_or_drops_a_total() {
    let test = sales().await;
    put(&test, 0..100, 0).await;
    test.run("BUILD CUBE c").await;
    let having = |condition: &str| {
        format!("SELECT count(*) FROM sales HAVING (SELECT max(id) FROM sales WHERE id < 10) {condition}")
    };
    test.check_hit(&having("< 0")).await;
    assert!(test.run(&having("< 0")).await.is_empty());
    assert_eq!(test.run(&having("> 0")).await, [["100"]]);
}

/// The empty set of groups has one row also where the table has none. Without an aggregate it reads no row of the table.
#[tokio::test(flavor = "multi_thread")]
async fn sets_of_groups_without_aggregates_have_their_rows() {
    let test = sales().await;
    put(&test, 0..100, 0).await;
    test.run("BUILD CUBE c").await;
    put(&test, 100..200, 0).await;
    for (grouping, rows) in [("()", 1), ("ROLLUP (kind)", 0), ("kind, ()", 0), ("GROUPING SETS ((), ())", 2)]
    {
        let sql = format!("SELECT 1 FROM sales GROUP BY {grouping}");
        test.check_hit(&sql).await;
        let found = test.run(&sql).await;
        test.run("SET nyala.use_cubes = off").await;
        assert_eq!(found, test.run(&sql).await, "{sql}");
        test.run("SET nyala.use_cubes = on").await;
        assert!(rows == 0 || found.len() == rows, "{sql}: {found:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_can_be_added_under_a_cube() {
    let test = sales().await;
    put(&test, 0..20, 0).await;
    test.run("BUILD CUBE c").await;
    test.run("ALTER TABLE sales ADD COLUMN note TEXT").await;
    test.check_hit(TOTAL).await;
    test.run("UPDATE sales SET note = 'x' WHERE id = 3").await;
    test.check_miss(TOTAL, "were written or deleted since").await;
    test.run("BUILD CUBE c").await;
    test.run("ALTER CUBE c ADD MEASURE count(note)").await;
    test.run("BUILD CUBE c").await;
    test.check_hit("SELECT kind, count(note) FROM sales GROUP BY kind").await;
    test.error("ALTER TABLE sales DROP COLUMN amount", ErrorKind::InUse, "is used by cube").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_no_sense_over_live_tables_is_refused() {
    let test = sales().await;
    test.error(
        "CREATE CUBE d PARTITION BY RANGE (id) EVERY 10 AS SELECT count(*) FROM sales GROUP BY kind",
        ErrorKind::InvalidDefinition,
        "leave PARTITION BY out",
    )
    .await;
    test.error(
        "CREATE CUBE d AS SELECT kind, count(*) FROM sales GROUP BY id",
        ErrorKind::InvalidDefinition,
        "a column that GROUP BY does not list",
    )
    .await;
    test.error("BUILD CUBE c FROM 1 TO 5", ErrorKind::InvalidDefinition, "divided by when rows were written")
        .await;
    test.error("MERGE CUBE c", ErrorKind::InvalidParameter, "run BUILD CUBE first").await;
    // An empty table has a segment too.
    test.run("BUILD CUBE c").await;
    check_all(&test).await;
    put(&test, 0..10, 0).await;
    test.check_hit(TOTAL).await;
    let found = test.run("CHECK CUBE c").await;
    assert!(found.iter().any(|row| row[0] == "source" && row[3] == "ok"), "{found:?}");
    assert!(found.iter().all(|row| row[3] == "ok" || row[3] == "not compared"), "{found:?}");
}
