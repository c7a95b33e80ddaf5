//! Cubes whose partition column has gaps and far outliers: ranges without rows cost nothing.

use arrow::array::{Date32Array, Int64Array, RecordBatch};
use nyala_engine::ErrorKind;

use crate::batch;
use crate::harness::{TestEngine, write_parquet};

/// Days since the epoch of 0001-01-01, 9999-12-31 and 2024-01-01.
const FIRST: i32 = -719_162;
const LAST: i32 = 2_932_896;
const DAY: i32 = 19_723;

fn rows(days: &[Option<i32>]) -> RecordBatch {
    batch!(
        "day" => Date32Array::from(days.to_vec()),
        "shop" => Int64Array::from_iter_values((0..days.len() as i64).map(|n| n % 3)),
        "amount" => Int64Array::from_iter_values(0..days.len() as i64),
    )
}

async fn cube(days: &[Option<i32>], step: &str) -> TestEngine {
    let test = TestEngine::new().await;
    test.table("sales", &[rows(days)]).await;
    test.run("SET nyala.check_files = on").await;
    test.run(&format!(
        "CREATE CUBE c PARTITION BY RANGE (day) EVERY INTERVAL '{step}' AS \
         SELECT shop, day, sum(amount), count(*) FROM sales GROUP BY CUBE (shop, day)"
    ))
    .await;
    test.run("BUILD CUBE c").await;
    test
}

/// Ranges and states of the segments.
async fn segments(test: &TestEngine) -> Vec<String> {
    let rows = test.run("SHOW SEGMENTS FOR c").await;
    rows.into_iter().map(|row| format!("{} {}", row[3], row[4])).collect()
}

const QUERIES: &[&str] = &[
    "SELECT count(*) FROM sales",
    "SELECT shop, sum(amount) FROM sales GROUP BY shop",
    "SELECT count(*) FROM sales WHERE day > DATE '2024-01-31'",
    "SELECT count(*) FROM sales WHERE day = DATE '0001-01-01' OR day = DATE '9999-12-31'",
    "SELECT count(*) FROM sales WHERE day BETWEEN DATE '1500-01-01' AND DATE '1600-01-01'",
    "SELECT day, count(*) FROM sales WHERE day < DATE '2024-02-10' GROUP BY day",
    "SELECT count(*) FROM sales WHERE day IS DISTINCT FROM NULL",
    "SELECT count(*) FROM sales WHERE NULL IS DISTINCT FROM day",
    "SELECT count(*) FROM sales WHERE day IS NOT DISTINCT FROM NULL",
    "SELECT count(*) FROM sales WHERE day IS DISTINCT FROM DATE '2024-01-01'",
    "SELECT count(*) FROM sales WHERE day IS NOT DISTINCT FROM DATE '2024-01-01'",
    "SELECT count(*) FROM sales WHERE NOT (day IS NULL)",
    "SELECT count(*) FROM sales WHERE NOT (day IS NOT NULL)",
    "SELECT count(*) FROM sales WHERE NOT (day IS DISTINCT FROM NULL)",
    "SELECT count(*) FROM sales WHERE NOT (day < DATE '2024-01-02')",
    "SELECT count(*) FROM sales WHERE day <> NULL OR day IS NULL",
    "SELECT count(*) FROM sales WHERE coalesce(day, DATE '2024-01-01') = DATE '2024-01-01'",
    "SELECT count(*) FROM sales WHERE CASE WHEN day IS NULL THEN true ELSE day > DATE '2024-01-15' END",
    "SELECT count(*) FROM sales WHERE day IS NULL OR day > DATE '2024-02-01'",
    "SELECT count(*) FROM sales WHERE day NOT IN (DATE '2024-01-01', NULL)",
    "SELECT count(*) FROM sales WHERE nullif(day, DATE '2024-01-01') IS NULL",
];

async fn check_all(test: &TestEngine) {
    for query in QUERIES {
        test.check_same(query).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_are_two_segments_and_the_gaps_between_have_no_files() {
    let months: Vec<Option<i32>> = (0..60).map(|n| Some(DAY + n)).collect();
    let days = [months, vec![Some(FIRST), Some(LAST), None]].concat();
    let test = cube(&days, "1 month").await;
    let expected = [
        "[0001-01-01, 0001-02-01) ready",
        "[0001-02-01, 2024-01-01) empty",
        "[2024-01-01, 2024-02-01) ready",
        "[2024-02-01, 2024-03-01) ready",
        "[2024-03-01, 9999-12-01) empty",
        "[9999-12-01, +10000-01-01) ready",
        "null ready",
    ];
    assert_eq!(segments(&test).await, expected);
    check_all(&test).await;
    test.check_hit("SELECT shop, count(*) FROM sales GROUP BY shop").await;
    test.check_hit("SELECT count(*) FROM sales WHERE day >= DATE '2024-02-01'").await;
    test.run("BUILD CUBE c").await;
    assert_eq!(segments(&test).await, expected, "there was nothing to do");
    // Rows are added where there were none.
    write_parquet(&test.path("sales/more.parquet"), &[rows(&[Some(DAY + 100), Some(DAY + 100)])]);
    check_all(&test).await;
    test.run("BUILD CUBE c").await;
    let after = segments(&test).await;
    assert!(after.contains(&"[2024-04-01, 2024-05-01) ready".to_owned()), "{after:?}");
    assert!(after.contains(&"[2024-05-01, 9999-12-01) empty".to_owned()), "{after:?}");
    assert!(after.iter().all(|segment| !segment.ends_with("stale")), "{after:?}");
    check_all(&test).await;
    test.check_hit("SELECT shop, count(*) FROM sales GROUP BY shop").await;
    test.run("MERGE CUBE c FROM '2024-01-01' TO '2024-05-01'").await;
    check_all(&test).await;
    test.run("ALTER CUBE c ADD MEASURE max(amount)").await;
    test.run("BUILD CUBE c").await;
    test.check_hit("SELECT shop, max(amount) FROM sales GROUP BY shop").await;
    let findings = test.run("CHECK CUBE c SAMPLE 20").await;
    assert!(findings.iter().all(|row| ["ok", "not compared"].contains(&row[3].as_str())), "{findings:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_few_rows_over_a_century_are_a_few_segments() {
    let days: Vec<Option<i32>> = (0..80).map(|n| Some(-26_000 + n * 563)).collect();
    let test = cube(&days, "1 month").await;
    let segments = segments(&test).await;
    assert!(segments.len() < 10, "{segments:?}");
    check_all(&test).await;
    test.check_hit("SELECT shop, count(*) FROM sales GROUP BY shop").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_is_looked_through_before_it_is_built() {
    let test = cube(&[Some(DAY), Some(DAY + 400)], "1 day").await;
    test.run("REFRESH CUBE c FROM '2024-01-01' TO '2024-03-01'").await;
    check_all(&test).await;
    let files: u64 =
        test.run("SHOW CUBOIDS FOR c").await.iter().map(|row| row[6].parse::<u64>().unwrap()).sum();
    assert!(files <= 8, "{files} files");
}

#[tokio::test(flavor = "multi_thread")]
async fn more_outliers_than_a_build_has_segments_are_all_built() {
    let days: Vec<Option<i32>> = (0..25_000).map(|n| Some(FIRST + 50 * n)).collect();
    let test = cube(&days, "1 day").await;
    assert!(segments(&test).await.len() < 100);
    test.check_same("SELECT count(*) FROM sales").await;
    test.check_same("SELECT shop, sum(amount) FROM sales WHERE day > DATE '2024-01-31' GROUP BY shop").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_filled_steps_than_a_build_has_segments_are_refused() {
    let days: Vec<Option<i32>> = (0..25_000).map(Some).collect();
    let test = TestEngine::new().await;
    test.table("sales", &[rows(&days)]).await;
    test.run(
        "CREATE CUBE c PARTITION BY RANGE (day) EVERY INTERVAL '1 day' AS \
         SELECT shop, sum(amount) FROM sales GROUP BY shop",
    )
    .await;
    let words = "more than 10000 segments would be built at once";
    test.error("BUILD CUBE c", ErrorKind::InvalidParameter, words).await;
}
