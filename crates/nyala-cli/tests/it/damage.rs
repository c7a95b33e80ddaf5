//! Cuboid files that are not as they were written: no wrong value, one statement that fails, and then right answers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use arrow::array::{Date32Array, Int64Array, StringArray};
use nyala_engine::ErrorKind;
use nyala_model::SegmentState;

use crate::batch;
use crate::harness::{TestEngine, flip};
use crate::program::PATIENCE;

const SUM: &str = "SELECT shop, sum(amount) FROM sales GROUP BY shop ORDER BY shop";

/// 60 days from 2024-01-01 on: two months.
async fn sales(cube: &str) -> TestEngine {
    let test = TestEngine::with_config(|config| config.cubes.check_files_ms = 100).await;
    let n = 6000;
    let rows = batch!(
        "day" => Date32Array::from_iter_values((0..n).map(|n| 19_723 + n % 60)),
        "shop" => StringArray::from_iter_values((0..n).map(|n| format!("shop {}", n % 30))),
        "amount" => Int64Array::from_iter_values((0..n).map(|n| i64::from(n * 31 % 997))),
    );
    test.table("sales", &[rows]).await;
    test.run(&format!(
        "CREATE CUBE c {cube} AS SELECT shop, day, sum(amount) FROM sales GROUP BY CUBE (shop, day)"
    ))
    .await;
    test.run("BUILD CUBE c").await;
    test
}

/// The files of a segment's cuboid over these dimensions.
fn files_of(test: &TestEngine, segment: usize, dimensions: u64) -> Vec<PathBuf> {
    let snapshot = test.engine.catalog().snapshot();
    let segment = &snapshot.cubes.values().next().unwrap().segments[segment];
    let folder = test.path("data").join(&segment.location);
    let cuboid = segment.cuboids.iter().find(|cuboid| cuboid.dimensions.bits() == dimensions).unwrap();
    cuboid.files.iter().map(|file| folder.join(&file.name)).collect()
}

async fn states(test: &TestEngine) -> Vec<(String, String)> {
    let rows = test.run("SHOW SEGMENTS").await;
    rows.into_iter().map(|row| (row[4].clone(), row[5].clone())).collect()
}

fn name(file: &Path) -> &str {
    file.file_name().unwrap().to_str().unwrap()
}

/// The statement that meets the damage names the file; statements after it read the tables, and a build replaces the segment.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_fails_one_statement() {
    let test = sales("").await;
    let expected = test.run(SUM).await;
    for (part, bit) in [("pages", 800), ("the end", usize::MAX)] {
        let file = files_of(&test, 0, 1).remove(0);
        let bytes = usize::try_from(std::fs::metadata(&file).unwrap().len()).unwrap();
        flip(&file, bit.min(bytes * 8 - 80));
        // Cuboids in memory go on answering until a query reads the file.
        let found = test.run("CHECK CUBE c SAMPLE 0").await;
        assert!(
            found.iter().any(|row| row[3] == "damaged" && row[4].contains(name(&file))),
            "{part}: {found:?}"
        );
        assert_eq!(test.run(SUM).await, expected);
        let (state, reason) = states(&test).await.remove(0);
        assert!(state == "damaged" && reason.contains(name(&file)), "{part}: {state} {reason}");
        test.check_miss(SUM, "is damaged: ").await;
        assert_eq!(test.engine.stats().damaged_segments, 1);
        assert_eq!(test.run("SHOW CUBES").await[0][2], "damaged");
        test.run("BUILD CUBE c").await;
        assert_eq!(states(&test).await, [("ready".to_owned(), "NULL".to_owned())]);
        test.check_hit(SUM).await;
        assert_eq!(test.engine.stats().damaged_segments, 0);
        assert!(test.run("CHECK CUBE c").await.iter().all(|row| row[3] == "ok"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_statement_that_meets_the_damage_names_the_file() {
    let test = sales("").await;
    let expected = test.run(SUM).await;
    let file = files_of(&test, 0, 1).remove(0);
    let test = test.reopen_after(|_| flip(&file, 500)).await;
    test.error(SUM, ErrorKind::Corrupt, name(&file)).await;
    assert_eq!(test.run(SUM).await, expected, "it was taken out of use before the error was told");
    // The segment stays out of use after a restart.
    let test = test.reopen().await;
    test.check_miss(SUM, "is damaged: ").await;
    test.run("BUILD CUBE c").await;
    test.check_hit(SUM).await;
    let old = file.parent().unwrap();
    assert!(old.exists(), "queries that began before may still read it");
}

/// Only the damaged segment is lost, and only its rows are read from the tables.
#[tokio::test(flavor = "multi_thread")]
async fn other_segments_go_on() {
    let test = sales("PARTITION BY RANGE (day) EVERY INTERVAL '1 month'").await;
    let expected = test.run(SUM).await;
    let file = files_of(&test, 1, 1).remove(0);
    let test = test.reopen_after(|_| std::fs::remove_file(&file).unwrap()).await;
    test.error(SUM, ErrorKind::Corrupt, "it is missing").await;
    assert_eq!(test.run(SUM).await, expected);
    let report = test.explain(SUM).await;
    assert!(report.contains("answered from cube"), "the other month: {report}");
    let states: Vec<String> = states(&test).await.into_iter().map(|(state, _)| state).collect();
    assert_eq!(states.iter().filter(|state| *state == "ready").count(), 1, "{states:?}");
    assert_eq!(states.iter().filter(|state| *state == "damaged").count(), 1, "{states:?}");
    test.run("BUILD CUBE c").await;
    test.check_hit(SUM).await;
    let after = test.run("SHOW SEGMENTS").await;
    assert!(after.len() == 2 && after.iter().all(|row| row[4] == "ready"), "{after:?}");
}

/// Automatic refreshes mend cubes in the same way.
#[tokio::test(flavor = "multi_thread")]
async fn upkeep_builds_a_damaged_segment_again() {
    let test = sales("WITH (auto_refresh = on)").await;
    let file = files_of(&test, 0, 1).remove(0);
    flip(&file, 700);
    test.run("CHECK CUBE c SAMPLE 0").await;
    let mended = async {
        while test.engine.catalog().snapshot().cubes.values().next().unwrap().segments[0].state
            != SegmentState::Ready
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, mended).await.expect("nothing builds it again");
    test.run("CREATE SCHEMA other").await;
    test.check_hit(SUM).await;
}

/// A build that reads a damaged cuboid fails; the next makes all of the segment from rows.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_built_from_a_damaged_file() {
    let test = sales("PARTITION BY RANGE (day) EVERY INTERVAL '1 month'").await;
    for dimensions in [0, 1, 2, 3] {
        flip(&files_of(&test, 0, dimensions)[0], 600);
    }
    test.error("MERGE CUBE c", ErrorKind::Corrupt, "is damaged: ").await;
    test.check_same(SUM).await;
    test.run("BUILD CUBE c").await;
    test.check_hit(SUM).await;
    test.run("MERGE CUBE c").await;
    test.check_hit(SUM).await;
}
