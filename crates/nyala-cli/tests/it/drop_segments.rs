//! `ALTER CUBE … DROP SEGMENTS`: a cube is emptied, or a range of it; queries read those rows from the tables.

use std::path::PathBuf;
use std::time::Duration;

use arrow::array::{Date32Array, Int64Array, RecordBatch};
use nyala_catalog::Change;
use nyala_engine::ErrorKind;
use nyala_model::{CubeEntry, KeyRange, NodeId, SegmentRange};

use crate::batch;
use crate::harness::{TestEngine, write_parquet};
use crate::program::PATIENCE;

/// 2024-01-01.
const FIRST_DAY: i32 = 19_723;

fn rows(days: impl Iterator<Item = Option<i32>>) -> RecordBatch {
    let days: Vec<Option<i32>> = days.map(|day| day.map(|day| FIRST_DAY + day)).collect();
    batch!(
        "day" => Date32Array::from(days.clone()),
        "amount" => Int64Array::from_iter_values(0..days.len() as i64),
    )
}

/// A cube with January, February, March and a row without a day.
async fn sales() -> TestEngine {
    let test = TestEngine::new().await;
    test.table("sales", &[rows((0..91).map(Some).chain([None]))]).await;
    test.run(
        "CREATE CUBE c PARTITION BY RANGE (day) EVERY INTERVAL '1 month' AS \
         SELECT day, sum(amount), count(*) FROM sales GROUP BY ROLLUP (day)",
    )
    .await;
    test.run("BUILD CUBE c").await;
    test
}

/// Ranges and states of the segments.
async fn segments(test: &TestEngine) -> Vec<String> {
    let rows = test.run("SHOW SEGMENTS FOR c").await;
    rows.into_iter().map(|row| format!("{} {}", row[3], row[4])).collect()
}

async fn check_all(test: &TestEngine) {
    for query in [
        "SELECT sum(amount), count(*) FROM sales",
        "SELECT sum(amount) FROM sales WHERE day >= '2024-02-10' AND day < '2024-03-05'",
        "SELECT day, count(*) FROM sales GROUP BY day",
    ] {
        test.check_same(query).await;
    }
}

/// The cube as the catalog has it.
fn cube(test: &TestEngine) -> CubeEntry {
    test.engine.catalog().snapshot().cubes.values().next().unwrap().as_ref().clone()
}

const BUILT: [&str; 4] = [
    "[2024-01-01, 2024-02-01) ready",
    "[2024-02-01, 2024-03-01) ready",
    "[2024-03-01, 2024-04-01) ready",
    "null ready",
];
const SUM: &str = "SELECT sum(amount), count(*) FROM sales";

#[tokio::test(flavor = "multi_thread")]
async fn a_range_is_dropped_in_whole_segments() {
    let test = sales().await;
    assert_eq!(segments(&test).await, BUILT);
    let march = test.run("SHOW SEGMENTS FOR c").await[2][2].clone();
    for (from, to, words) in [
        ("2024-03-05", "2024-04-01", format!("cuts segment {march}, which holds [2024-03-01, 2024-04-01)")),
        ("2024-01-01", "2024-03-02", format!("cuts segment {march}, which holds [2024-03-01, 2024-04-01)")),
        ("2024-03-01", "2024-03-01", "range [2024-03-01, 2024-03-01) is empty".to_owned()),
    ] {
        let sql = format!("ALTER CUBE c DROP SEGMENTS FROM '{from}' TO '{to}'");
        test.error(&sql, ErrorKind::InvalidParameter, &words).await;
    }
    assert_eq!(segments(&test).await, BUILT, "what is refused drops nothing");
    test.run("ALTER CUBE c DROP SEGMENTS FROM '2024-01-01' TO '2024-03-01'").await;
    let left = ["[2024-01-01, 2024-03-01) missing", BUILT[2], BUILT[3]];
    assert_eq!(segments(&test).await, left);
    let report = test.explain(SUM).await;
    assert!(report.contains("segments: 2") && report.contains("day 2024-01-01 to 2024-02-29"), "{report}");
    check_all(&test).await;
    // Where there is no segment, a range may begin and end anywhere.
    test.run("ALTER CUBE c DROP SEGMENTS FROM '2020-01-15' TO '2024-02-10'").await;
    let test = test.reopen().await;
    test.run("SET nyala.check_files = on").await;
    check_all(&test).await;
    assert_eq!(segments(&test).await, left);
    test.run("BUILD CUBE c").await;
    assert_eq!(segments(&test).await, BUILT);
    test.check_hit(SUM).await;
    check_all(&test).await;
}

/// A client that has looked up a number must not drop the segment that a refresh has made in the same range since.
#[tokio::test(flavor = "multi_thread")]
async fn a_number_never_means_another_segment() {
    let test = sales().await;
    let numbers = async || -> Vec<String> {
        test.run("SHOW SEGMENTS FOR c").await.into_iter().map(|mut row| row.remove(2)).collect()
    };
    let before = numbers().await;
    let drop_two = format!("ALTER CUBE c DROP SEGMENTS {}, {}", before[1], before[0]);
    test.run("REFRESH CUBE c FROM '2024-01-01' TO '2024-02-01'").await;
    let now = numbers().await;
    assert!(now[0] != before[0] && now[1..] == before[1..], "{before:?} {now:?}");
    let gone = |number: &str| format!("cube `public.c` has no segment `{number}`");
    test.error(&drop_two, ErrorKind::UndefinedObject, &gone(&before[0])).await;
    assert_eq!(segments(&test).await, BUILT, "what is refused drops nothing");
    let drop_two = format!("ALTER CUBE c DROP SEGMENTS {}, {}, {}", now[1], now[0], now[1]);
    test.run(&drop_two).await;
    let left = ["[2024-01-01, 2024-03-01) missing", BUILT[2], BUILT[3]];
    assert_eq!(segments(&test).await, left);
    test.error(&drop_two, ErrorKind::UndefinedObject, &gone(&now[1])).await;
    let nulls = format!("ALTER CUBE c DROP SEGMENTS {}", now[3]);
    test.error(&nulls, ErrorKind::InvalidParameter, "goes with all others only").await;
    assert_eq!(segments(&test).await, left);
    check_all(&test).await;
    test.run(&format!("ALTER CUBE c DROP SEGMENTS {}, {}", now[2], now[3])).await;
    assert!(cube(&test).segments.is_empty());
    check_all(&test).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merged_segment_goes_as_a_whole() {
    let test = sales().await;
    test.run("MERGE CUBE c FROM '2024-01-01' TO '2024-03-01'").await;
    let part = "ALTER CUBE c DROP SEGMENTS FROM '2024-02-01' TO '2024-04-01'";
    test.error(part, ErrorKind::InvalidParameter, "which holds [2024-01-01, 2024-03-01)").await;
    test.run("ALTER CUBE c DROP SEGMENTS FROM '2023-12-24' TO '2024-03-01'").await;
    assert_eq!(segments(&test).await, ["[2024-01-01, 2024-03-01) missing", BUILT[2], BUILT[3]]);
    check_all(&test).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cube_is_emptied_and_its_files_go() {
    let test = sales().await;
    let data = test.path("data");
    let folders: Vec<PathBuf> =
        cube(&test).segments.iter().map(|segment| data.join(&segment.location)).collect();
    let files = |folder: &PathBuf| std::fs::read_dir(folder).map_or(0, Iterator::count);
    assert!(folders.iter().all(|folder| files(folder) > 0), "{folders:?}");
    let before = cube(&test);
    test.run("ALTER CUBE c DROP SEGMENTS").await;
    assert_eq!(cube(&test), CubeEntry { segments: Vec::new(), ..before });
    assert_eq!(test.run("SHOW CUBES").await[0][2], "not built");
    test.check_miss(SUM, "it has not been built; run BUILD CUBE").await;
    assert!(folders.iter().all(|folder| files(folder) > 0), "queries that began before may still read them");
    test.engine.collect_leftovers(Duration::ZERO).await.unwrap();
    assert!(folders.iter().all(|folder| files(folder) == 0), "{folders:?}");
    test.run("ALTER CUBE c DROP SEGMENTS").await;
    test.run("BUILD CUBE c").await;
    assert_eq!(segments(&test).await, BUILT);
    test.check_hit(SUM).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cubes_without_ranges_are_emptied_as_a_whole() {
    let test = sales().await;
    test.run("DROP CUBE c").await;
    test.run("CREATE CUBE c AS SELECT sum(amount), count(*) FROM sales").await;
    test.run("BUILD CUBE c").await;
    let range = "ALTER CUBE c DROP SEGMENTS FROM 1 TO 2";
    test.error(range, ErrorKind::InvalidDefinition, "not partitioned by a column").await;
    test.check_hit(SUM).await;
    test.run("ALTER CUBE c DROP SEGMENTS").await;
    test.check_miss(SUM, "it has not been built").await;
    test.run("DROP CUBE c").await;

    test.run("CREATE LIVE TABLE f (id BIGINT PRIMARY KEY, a BIGINT)").await;
    test.run("INSERT INTO f VALUES (1, 2), (2, 3)").await;
    test.run("CREATE CUBE c WITH (auto_refresh = off) AS SELECT a, count(*) FROM f GROUP BY a").await;
    test.run("BUILD CUBE c").await;
    test.error(range, ErrorKind::InvalidDefinition, "not partitioned by a column").await;
    let query = "SELECT a, count(*) FROM f GROUP BY a";
    test.check_hit(query).await;
    test.run("ALTER CUBE c DROP SEGMENTS").await;
    assert!(cube(&test).segments.is_empty());
    test.check_miss(query, "it has not been built").await;
    test.run("BUILD CUBE c").await;
    test.check_hit(query).await;
    test.error("ALTER CUBE d DROP SEGMENTS", ErrorKind::UndefinedTable, "`public.d` does not exist").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unfinished_segment_goes_and_the_record_of_a_gap_stays() {
    let test = TestEngine::new().await;
    test.table("sales", &[rows((0..31).map(Some))]).await;
    write_parquet(&test.path("sales/april.parquet"), &[rows((91..121).map(Some))]);
    test.run("SET nyala.check_files = on").await;
    test.run(
        "CREATE CUBE c PARTITION BY RANGE (day) EVERY INTERVAL '1 month' AS \
         SELECT day, sum(amount), count(*) FROM sales GROUP BY ROLLUP (day)",
    )
    .await;
    test.run("BUILD CUBE c FROM '2024-01-01' TO '2024-05-01'").await;
    let (gap, april) = ("[2024-02-01, 2024-04-01) empty", "[2024-04-01, 2024-05-01) ready");
    assert_eq!(segments(&test).await, [BUILT[0], gap, april]);
    let CubeEntry { id, definition, .. } = cube(&test);
    let begin = Change::BeginSegment {
        cube: id,
        revision: definition.revision,
        location: format!("cubes/{id}/half/"),
        range: SegmentRange::Keys(KeyRange { from: FIRST_DAY.into(), to: (FIRST_DAY + 121).into() }),
        sources: Vec::new(),
        node: NodeId::default(),
    };
    test.engine.catalog().commit(begin).await.unwrap();
    test.run("CREATE SCHEMA other").await;
    assert_eq!(cube(&test).segments.len(), 4);
    test.run("ALTER CUBE c DROP SEGMENTS FROM '2024-01-01' TO '2024-03-01'").await;
    let left = ["[2024-01-01, 2024-02-01) missing", gap, april];
    assert_eq!(segments(&test).await, left);
    check_all(&test).await;
    test.run("BUILD CUBE c").await;
    assert_eq!(segments(&test).await, [BUILT[0], gap, april]);
    check_all(&test).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_being_built_is_not_dropped() {
    let test = sales().await;
    let (name, elsewhere) = (format!("cube {}", cube(&test).id), NodeId("elsewhere".to_owned()));
    let taken = async {
        loop {
            // The build releases its lease after its statement has ended.
            if let Some(lease) = test.engine.catalog().take_lease(&name, &elsewhere).await.unwrap() {
                return lease;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let lease = tokio::time::timeout(PATIENCE, taken).await.expect("the lease is not given back");
    let drop_all = "ALTER CUBE c DROP SEGMENTS";
    test.error(drop_all, ErrorKind::InUse, "is being built or altered on another node").await;
    assert_eq!(segments(&test).await, BUILT);
    drop(lease);
    let dropped = async {
        while test.try_run(drop_all).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, dropped).await.expect("the lease is not given back");
    assert!(cube(&test).segments.is_empty());
}
