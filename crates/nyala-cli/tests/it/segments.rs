//! Cubes in segments: covered ranges come from cells, the rest from rows, and stale cells are not used.

use arrow::array::{
    Date32Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use nyala_engine::ErrorKind;

use crate::batch;
use crate::harness::{TestEngine, assert_same, sorted, write_parquet};

/// 2024-01-01.
const FIRST_DAY: i32 = 19_723;

/// Sales of some days, three a day; one row has no day if `with_null`.
fn days(from: i32, to: i32, with_null: bool) -> RecordBatch {
    let days: Vec<Option<i32>> =
        (from..to).flat_map(|day| [Some(FIRST_DAY + day); 3]).chain(with_null.then_some(None)).collect();
    let numbers = 0..days.len() as i64;
    batch!(
        "day" => Date32Array::from(days.clone()),
        "shop" => Int32Array::from_iter_values(numbers.clone().map(|n| (n % 3) as i32)),
        "name" => StringArray::from_iter_values(numbers.clone().map(|n| format!("shop {}", n % 5))),
        "amount" => Int64Array::from_iter_values(numbers.map(|n| n + i64::from(from))),
    )
}

/// January and February in one file, March to the 20th in another.
async fn sales() -> TestEngine {
    let test = TestEngine::new().await;
    write_parquet(&test.path("sales/b.parquet"), &[days(60, 80, false)]);
    test.table("sales", &[days(0, 60, false)]).await;
    test.run("SET nyala.check_files = on").await;
    test
}

const CUBE: &str = "CREATE CUBE c PARTITION BY RANGE (day) EVERY INTERVAL '1 month' AS \
                    SELECT shop, sum(amount), count(*), avg(amount), count(DISTINCT amount), min(shop), max(amount), min(name) FROM sales \
                    GROUP BY ROLLUP (shop)";

const QUERIES: &[&str] = &[
    "SELECT shop, sum(amount), avg(amount) FROM sales GROUP BY shop",
    "SELECT count(*), count(DISTINCT amount) FROM sales",
    "SELECT sum(amount) FROM sales WHERE day >= '2024-02-01'",
    "SELECT shop, sum(amount) FROM sales WHERE day < DATE '2024-03-01' GROUP BY shop",
    "SELECT shop, count(*) FROM sales WHERE day BETWEEN '2024-01-20' AND '2024-03-05' GROUP BY shop",
    "SELECT sum(amount) FROM sales WHERE day = '2024-02-10' OR day IS NULL",
    "SELECT count(*) FROM sales WHERE day IN ('2024-01-01', '2024-03-01') AND shop = 1",
    "SELECT sum(amount) FROM sales WHERE day > '2030-01-01'",
    "SELECT count(*) FROM sales WHERE day > '2024-02-01' AND day < '2024-01-01'",
    "SELECT min(shop), max(amount) FROM sales",
    "SELECT min(name) FROM sales",
];

async fn check_all(test: &TestEngine) {
    for query in QUERIES {
        test.check_same(query).await;
    }
}

/// Ranges and states of the segments of `c`.
async fn segments(test: &TestEngine) -> Vec<(String, String)> {
    let rows = test.run("SHOW SEGMENTS FOR c").await;
    rows.into_iter().map(|row| (row[3].clone(), row[4].clone())).collect()
}

fn ranges(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(range, state)| ((*range).to_owned(), (*state).to_owned())).collect()
}

const JANUARY: &str = "[2024-01-01, 2024-02-01)";
const FEBRUARY: &str = "[2024-02-01, 2024-03-01)";
const MARCH: &str = "[2024-03-01, 2024-04-01)";

#[tokio::test(flavor = "multi_thread")]
async fn ranges_without_a_segment_are_read_from_the_tables() {
    let test = sales().await;
    test.run(CUBE).await;
    test.check_miss(QUERIES[0], "has not been built").await;
    test.run("BUILD CUBE c FROM '2024-02-01' TO '2024-03-01'").await;
    assert_eq!(
        segments(&test).await,
        ranges(&[
            ("[2024-01-01, 2024-02-01)", "missing"),
            (FEBRUARY, "ready"),
            ("[2024-03-01, 2024-03-21)", "missing"),
        ])
    );
    let report = test.explain(QUERIES[0]).await;
    assert!(report.contains("cuboid (shop), segments: 1"), "{report}");
    assert!(report.contains("day 2024-01-01 to 2024-01-31, 2024-03-01 to 2024-03-20"), "{report}");
    check_all(&test).await;
    test.check_miss("SELECT sum(amount) FROM sales WHERE day < '2024-02-01'", "no segment covers").await;
    test.run("BUILD CUBE c").await;
    assert_eq!(segments(&test).await, ranges(&[(JANUARY, "ready"), (FEBRUARY, "ready"), (MARCH, "ready")]));
    let report = test.explain(QUERIES[0]).await;
    assert!(report.contains("segments: 3") && !report.contains("tables"), "{report}");
    check_all(&test).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bounds_of_ranges_are_columns() {
    let test = sales().await;
    test.run(CUBE).await;
    let bounds = |of: &str| {
        let sql = format!("SELECT range, range_from, range_to FROM system.segments WHERE cube = '{of}'");
        let test = &test;
        async move { sorted(test.run(&sql).await) }
    };
    let (january, february) = ([JANUARY, "2024-01-01", "2024-02-01"], [FEBRUARY, "2024-02-01", "2024-03-01"]);
    test.run("BUILD CUBE c FROM '2024-02-01' TO '2024-03-01'").await;
    let missing = ["[2024-03-01, 2024-03-21)", "2024-03-01", "2024-03-21"];
    assert_eq!(bounds("c").await, [january, february, missing]);
    write_parquet(&test.path("sales/c.parquet"), &[days(80, 85, true)]);
    test.run("BUILD CUBE c").await;
    let march = [MARCH, "2024-03-01", "2024-04-01"];
    assert_eq!(bounds("c").await, [january, february, march, ["null", "NULL", "NULL"]]);
    // A statement over the range takes these bounds.
    let [_, from, to] = february;
    test.run(&format!("REFRESH CUBE c FROM '{from}' TO '{to}'")).await;
    test.run("CREATE CUBE w AS SELECT shop, count(*) FROM sales GROUP BY shop").await;
    test.run("BUILD CUBE w").await;
    assert_eq!(bounds("w").await, [["all rows", "NULL", "NULL"]]);
    let shown = test.run("SHOW SEGMENTS FOR w").await.remove(0);
    assert_eq!(shown[3], "all rows", "columns of before stay where they were");
    assert_eq!(shown[12..], ["NULL", "NULL"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cuboid_without_the_date_answers_what_whole_segments_hold() {
    let test = sales().await;
    test.run(CUBE).await;
    test.run("BUILD CUBE c").await;
    for condition in [
        "day >= '2024-02-01'",
        "day >= '2024-02-01' AND day <= '2024-02-29'",
        "day < '2024-03-21'",
        "day BETWEEN '2024-01-01' AND '2024-12-31'",
        "day IS NOT NULL",
        "day >= TIMESTAMP '2024-01-31 00:00:01'",
        "NOT shop = 1 AND day < DATE '2024-02-01' + INTERVAL '1 month'",
    ] {
        let query = format!("SELECT shop, sum(amount) FROM sales WHERE {condition} GROUP BY shop");
        let report = test.explain(&query).await;
        assert!(!report.contains("from the tables"), "{condition}\n{report}");
        test.check_hit(&query).await;
    }
    let edge = "SELECT sum(amount) FROM sales WHERE day >= '2024-01-15'";
    let report = test.explain(edge).await;
    assert!(report.contains("segments: 2"), "{report}");
    assert!(report.contains("no segment holds it: day 2024-01-15 to 2024-01-31"), "{report}");
    test.check_same(edge).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cuboid_with_the_date_answers_the_edges_too() {
    let test = sales().await;
    test.run(
        "CREATE CUBE c PARTITION BY RANGE (day) EVERY INTERVAL '1 month' AS \
         SELECT day, shop, sum(amount) FROM sales GROUP BY GROUPING SETS ((day, shop), (shop))",
    )
    .await;
    test.run("BUILD CUBE c").await;
    let edge = "SELECT shop, sum(amount) FROM sales WHERE day >= '2024-01-15' GROUP BY shop";
    let report = test.explain(edge).await;
    assert!(report.contains("cuboids (day, shop), (shop)"), "{report}");
    assert!(!report.contains("from the tables"), "{report}");
    test.check_hit(edge).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_without_a_day_have_a_segment_of_their_own() {
    let test = TestEngine::new().await;
    test.table("sales", &[days(0, 60, true)]).await;
    test.run(CUBE).await;
    test.run("BUILD CUBE c FROM '2024-01-01' TO '2024-03-01'").await;
    let report = test.explain(QUERIES[0]).await;
    assert!(report.contains("holds it: day null"), "{report}");
    check_all(&test).await;
    test.run("BUILD CUBE c").await;
    assert_eq!(segments(&test).await.last().map(|(range, _)| range.as_str()), Some("null"));
    let report = test.explain(QUERIES[0]).await;
    assert!(!report.contains("tables"), "{report}");
    check_all(&test).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_change_make_their_segments_stale() {
    let test = sales().await;
    test.run(CUBE).await;
    test.run("BUILD CUBE c").await;
    // More days of March: the other months stay as they are.
    write_parquet(&test.path("sales/c.parquet"), &[days(80, 85, false)]);
    let stale = ranges(&[(JANUARY, "ready"), (FEBRUARY, "ready"), (MARCH, "stale")]);
    test.run("SELECT 1").await;
    assert_eq!(segments(&test).await, stale);
    let report = test.explain(QUERIES[0]).await;
    assert!(report.contains("segments: 2") && report.contains("day 2024-03-01 to 2024-03-25"), "{report}");
    check_all(&test).await;
    test.error("MERGE CUBE c", ErrorKind::InvalidParameter, "is stale").await;
    test.run("BUILD CUBE c").await;
    let ready = ranges(&[(JANUARY, "ready"), (FEBRUARY, "ready"), (MARCH, "ready")]);
    assert_eq!(segments(&test).await, ready);
    check_all(&test).await;
    // A file is replaced under the same name, and another one is gone.
    write_parquet(&test.path("sales/part-0.parquet"), &[days(0, 61, false)]);
    std::fs::remove_file(test.path("sales/c.parquet")).unwrap();
    check_all(&test).await;
    let all_stale = segments(&test).await.iter().all(|(_, state)| state == "stale");
    assert!(all_stale, "{:?}", segments(&test).await);
    test.check_miss(QUERIES[0], "files of table `public.sales` changed").await;
    test.run("REFRESH CUBE c").await;
    assert_eq!(segments(&test).await, ready);
    check_all(&test).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cube_of_one_segment_is_stale_as_a_whole() {
    let test = sales().await;
    test.run("CREATE CUBE c AS SELECT shop, sum(amount) FROM sales GROUP BY shop").await;
    test.run("BUILD CUBE c").await;
    test.check_hit("SELECT sum(amount) FROM sales").await;
    write_parquet(&test.path("sales/c.parquet"), &[days(80, 85, false)]);
    test.check_miss("SELECT sum(amount) FROM sales", "changed since it was built; run BUILD CUBE").await;
    assert_eq!(test.run("SHOW CUBES").await[0][2], "stale");
    test.run("BUILD CUBE c").await;
    test.check_hit("SELECT sum(amount) FROM sales").await;
    test.error("BUILD CUBE c FROM 1 TO 2", ErrorKind::InvalidDefinition, "not partitioned").await;
    test.error("MERGE CUBE c", ErrorKind::InvalidDefinition, "not partitioned").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_noticed_without_being_asked() {
    let test = TestEngine::with_config(|config| config.cubes.check_files_ms = 100).await;
    test.table("sales", &[days(0, 60, false)]).await;
    test.run("CREATE CUBE c AS SELECT shop, sum(amount) FROM sales GROUP BY shop").await;
    test.run("BUILD CUBE c").await;
    write_parquet(&test.path("sales/c.parquet"), &[days(80, 85, false)]);
    let mut waited = 0;
    while test.run("SHOW CUBES").await[0][2] != "stale" {
        assert!(waited < 100, "the new file was not noticed");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        waited += 1;
    }
    test.check_miss("SELECT sum(amount) FROM sales", "changed since it was built").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn merged_segments_hold_the_same() {
    let test = sales().await;
    test.run(CUBE).await;
    test.run("BUILD CUBE c").await;
    let before = sorted(test.run(QUERIES[0]).await);
    test.run("MERGE CUBE c FROM '2024-01-01' TO '2024-03-01'").await;
    assert_eq!(segments(&test).await, ranges(&[("[2024-01-01, 2024-03-01)", "ready"), (MARCH, "ready")]));
    assert_same("merged", &before, &sorted(test.run(QUERIES[0]).await));
    check_all(&test).await;
    test.run("MERGE CUBE c").await;
    assert_eq!(segments(&test).await, ranges(&[("[2024-01-01, 2024-04-01)", "ready")]));
    check_all(&test).await;
    let cut = "BUILD CUBE c FROM '2024-02-01' TO '2024-03-01'";
    test.error(cut, ErrorKind::InvalidParameter, "cuts segment").await;
    test.run("REFRESH CUBE c").await;
    assert_eq!(segments(&test).await, ranges(&[("[2024-01-01, 2024-04-01)", "ready")]));
    let test = test.reopen().await;
    check_all(&test).await;
    test.check_hit(QUERIES[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_and_times_divide_too() {
    let test = TestEngine::new().await;
    let dates = [20_231_231, 20_240_101, 20_240_131, 20_240_201, 20_240_299, 20_240_301];
    let second = 1_000_000;
    let times = [0, 1, 3_600 * second - 1, 3_600 * second, 7_200 * second];
    let both = batch!(
        "date" => Int32Array::from_iter_values((0..60).map(|n| dates[n % 6])),
        "id" => Int64Array::from_iter_values((0..60).map(|n| n * 7 - 100)),
        "at" => TimestampMicrosecondArray::from_iter_values((0..60).map(|n| times[n % 5])),
        "amount" => Int64Array::from_iter_values(0..60),
    );
    test.table("t", &[both]).await;
    for (clause, count, conditions) in [
        ("date) EVERY INTERVAL '1 month'", 4, ["date >= 20240101", "date < 20240201", "date = 20240299"]),
        ("id) EVERY 100", 5, ["id >= 0", "id BETWEEN -100 AND 199", "id > 55"]),
        (
            "at) EVERY INTERVAL '1 hour'",
            3,
            ["at >= '1970-01-01 01:00:00'", "at < '1970-01-01 00:59:59.9'", "at IS NULL"],
        ),
    ] {
        test.run(&format!(
            "CREATE CUBE c PARTITION BY RANGE ({clause} AS SELECT sum(amount), count(*) FROM t"
        ))
        .await;
        test.run("BUILD CUBE c").await;
        assert_eq!(segments(&test).await.len(), count, "{clause}");
        for condition in conditions {
            test.check_same(&format!("SELECT sum(amount) FROM t WHERE {condition}")).await;
        }
        test.check_hit("SELECT count(*) FROM t").await;
        test.check_hit(&format!("SELECT count(*) FROM t WHERE {}", conditions[0])).await;
        test.run("DROP CUBE c").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fact_table_joined_and_the_key_renamed() {
    let test = sales().await;
    let shops = batch!(
        "id" => Int32Array::from(vec![0, 1, 2]),
        "size" => Int32Array::from(vec![10, 20, 20]),
    );
    test.table("shops", &[shops]).await;
    test.run(
        "CREATE CUBE c PARTITION BY RANGE (day) EVERY INTERVAL '1 month' AS \
         SELECT size, sum(amount) FROM sales JOIN shops ON shop = id GROUP BY size",
    )
    .await;
    test.run("BUILD CUBE c FROM DATE '2024-02-01' TO DATE '2024-03-01'").await;
    for query in [
        "SELECT size, sum(amount) FROM sales JOIN shops ON shop = id GROUP BY size",
        "SELECT s.size, sum(f.amount) FROM shops s JOIN sales f ON f.shop = s.id WHERE f.day > '2024-02-20' GROUP BY s.size",
        "SELECT sum(amount) FROM sales WHERE day > '2024-01-31'",
        "SELECT k, sum(a) FROM (SELECT size AS k, amount AS a, day AS d FROM sales, shops WHERE shop = id) q WHERE d >= '2024-02-01' GROUP BY k",
    ] {
        test.check_same(query).await;
    }
    test.check_hit("SELECT size, sum(amount) FROM shops JOIN sales ON id = shop GROUP BY size").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_that_make_no_sense_are_refused() {
    let test = sales().await;
    let create = |clause: &str| {
        format!("CREATE CUBE d PARTITION BY {clause} AS SELECT shop, sum(amount) FROM sales GROUP BY shop")
    };
    for (clause, kind, words) in [
        ("RANGE (dya) EVERY INTERVAL '1 day'", ErrorKind::UndefinedColumn, "did you mean `day`"),
        ("RANGE (day) EVERY INTERVAL '1 fortnight'", ErrorKind::InvalidDefinition, "1 fortnight"),
        ("RANGE (day) EVERY INTERVAL '1 hour'", ErrorKind::InvalidDefinition, "does not fit column `day`"),
        ("RANGE (day) EVERY 7", ErrorKind::InvalidDefinition, "does not fit column `day`"),
        ("RANGE (amount) EVERY 0", ErrorKind::InvalidDefinition, "does not fit column `amount`"),
        ("RANGE (amount)", ErrorKind::InvalidDefinition, "EVERY"),
        ("day", ErrorKind::Syntax, "RANGE"),
        ("RANGE day", ErrorKind::Syntax, "("),
    ] {
        test.error(&create(clause), kind, words).await;
    }
    test.run(CUBE).await;
    for (range, words) in [
        ("FROM '2024-03-01' TO '2024-02-01'", "is empty"),
        ("FROM '2024-03-01' TO '2024-03-01'", "is empty"),
        ("FROM '2024-03-02' TO '2024-04-01'", "bounds next to it are 2024-03-01 and 2024-04-01"),
        ("FROM 'soon' TO '2024-04-01'", "`'soon'` is no value of column `day`"),
        ("FROM day TO '2024-04-01'", "is no value of column"),
    ] {
        test.error(&format!("BUILD CUBE c {range}"), ErrorKind::InvalidParameter, words).await;
    }
    test.error("BUILD CUBE c FROM '2024-01-01'", ErrorKind::Syntax, "`TO`").await;
    test.error("MERGE CUBE c", ErrorKind::InvalidParameter, "no segment to merge").await;
    test.run("BUILD CUBE c FROM '2024-01-01' TO '2024-02-01'").await;
    test.run("BUILD CUBE c FROM '2024-03-01' TO '2024-04-01'").await;
    test.error("MERGE CUBE c", ErrorKind::InvalidParameter, "no segment holds [2024-02-01, 2024-03-01)")
        .await;
    test.run("BUILD CUBE c FROM '2030-01-01' TO '2030-02-01'").await;
    check_all(&test).await;
}
