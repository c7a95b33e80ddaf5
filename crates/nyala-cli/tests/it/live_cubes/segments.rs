//! Which rows of a live table a segment holds, and when it answers.

use nyala_engine::ErrorKind;

use super::{TOTAL, check_all, put, sales, sales_with};
use crate::harness::TestEngine;
use crate::program::PATIENCE;

/// Rows in cells leave the answers when they expire; rows that were written later stay until they expire.
#[tokio::test(flavor = "multi_thread")]
async fn rows_that_expire_leave_the_answers() {
    let test = sales_with("WITH (ttl = 2000)").await;
    put(&test, 0..100, 0).await;
    test.run("BUILD CUBE c").await;
    assert_eq!(segments(&test).await.len(), 1);
    until_counted(&test, "10", async || put(&test, 200..210, 0).await).await;
    until_counted(&test, "0", async || ()).await;
    check_all(&test).await;
    test.run("BUILD CUBE c").await;
    check_all(&test).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_came_after_a_build_are_added_to_its_cells() {
    let test = sales().await;
    put(&test, 0..100, 0).await;
    test.check_miss(TOTAL, "it has not been built").await;
    test.run("BUILD CUBE c").await;
    let report = test.explain(TOTAL).await;
    assert!(report.contains("answered from cube") && !report.contains("and from the tables"), "{report}");
    check_all(&test).await;
    put(&test, 100..130, 0).await;
    put(&test, 130..131, 0).await;
    let report = test.explain(TOTAL).await;
    assert!(report.contains("segments: 1") && report.contains("31 rows written at"), "{report}");
    let operators = test.operators(TOTAL).await;
    assert!(operators.contains("written=from"), "only new rows are read: {operators}");
    check_all(&test).await;
    assert_eq!(segments(&test).await.iter().map(|s| s.0.as_str()).collect::<Vec<_>>(), ["ready", "missing"]);
    // A build puts new rows into a segment of their own, until it is worth merging.
    test.run("BUILD CUBE c").await;
    let report = test.explain(TOTAL).await;
    assert!(report.contains("segments: 2") && !report.contains("and from the tables"), "{report}");
    check_all(&test).await;
    put(&test, 200..400, 3).await;
    test.run("BUILD CUBE c").await;
    assert_eq!(segments(&test).await.len(), 1, "neighbours that are no larger are merged");
    let report = test.explain(TOTAL).await;
    assert!(report.contains("segments: 1") && !report.contains("and from the tables"), "{report}");
    check_all(&test).await;
    let test = test.reopen().await;
    until_folded(&test).await;
    check_all(&test).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_segment_is_not_used_once_a_row_of_it_changed() {
    let test = sales().await;
    put(&test, 0..100, 0).await;
    test.run("BUILD CUBE c").await;
    for change in [
        "UPDATE sales SET amount = amount + 1 WHERE id = 7",
        "DELETE FROM sales WHERE id = 8",
        "INSERT INTO sales VALUES (9, 4, 'c', 1, 1)",
        "TRUNCATE TABLE sales",
    ] {
        test.check_hit(TOTAL).await;
        test.run(change).await;
        if change.starts_with("TRUNCATE") {
            // No row is left that a segment could be wrong about.
            check_all(&test).await;
            continue;
        }
        test.check_miss(TOTAL, "were written or deleted since").await;
        check_all(&test).await;
        let stale = segments(&test).await;
        assert!(
            stale.iter().any(|(state, reason)| state == "stale" && reason.contains("`public.sales`")),
            "{stale:?}"
        );
        test.run("BUILD CUBE c").await;
    }
    put(&test, 0..10, 5).await;
    check_all(&test).await;
    test.run("BUILD CUBE c").await;
    test.check_hit(TOTAL).await;
    check_all(&test).await;
}

/// A change concerns the segment that has the row; the others go on answering.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_row_concerns_its_segment_only() {
    let test = sales().await;
    put(&test, 0..1000, 0).await;
    test.run("BUILD CUBE c").await;
    put(&test, 1000..1100, 0).await;
    test.run("BUILD CUBE c").await;
    test.run("UPDATE sales SET amount = 0 WHERE id = 1050").await;
    let report = test.explain(TOTAL).await;
    assert!(report.contains("segments: 1") && report.contains("100 rows written at"), "{report}");
    check_all(&test).await;
    test.run("BUILD CUBE c").await;
    let report = test.explain(TOTAL).await;
    assert!(!report.contains("and from the tables"), "{report}");
    check_all(&test).await;
    test.run("MERGE CUBE c").await;
    assert_eq!(segments(&test).await.len(), 1);
    test.check_hit(TOTAL).await;
    check_all(&test).await;
}

/// A disk store that is restored from a copy gives the versions of rows that it lost to other rows. As many of these may be
/// written as the rows that a segment was made from.
#[tokio::test(flavor = "multi_thread")]
async fn a_segment_is_not_used_over_a_store_that_is_older() {
    let test = sales().await;
    put(&test, 0..10, 0).await;
    let copy = tempfile::tempdir().unwrap();
    let kept = copy.path().join("store");
    let test = test.reopen_after(|data| copy_folder(&store_of(data), &kept)).await;
    put(&test, 10..20, 1).await;
    test.run("BUILD CUBE c").await;
    test.check_hit(TOTAL).await;
    let restore = |data: &std::path::Path| {
        let store = store_of(data);
        std::fs::remove_dir_all(&store).unwrap();
        copy_folder(&kept, &store);
    };
    let test = test.reopen_after(restore).await;
    for _ in 0..2 {
        put(&test, 30..40, 2).await;
        check_all(&test).await;
    }
    test.run("BUILD CUBE c").await;
    test.check_hit(TOTAL).await;
    let test = test.reopen().await;
    check_all(&test).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_folds_what_was_written() {
    let test = TestEngine::with_config(|config| config.cubes.check_files_ms = 100).await;
    test.run("CREATE LIVE TABLE sales (id BIGINT PRIMARY KEY, shop BIGINT, kind TEXT, buyer BIGINT, amount BIGINT)")
        .await;
    test.run(
        "CREATE CUBE c WITH (fold_rows = 50, fold_after = '1 second') AS SELECT sum(amount), count(*) FROM sales \
         GROUP BY CUBE (shop, kind)",
    )
    .await;
    put(&test, 0..60, 0).await;
    until_folded(&test).await;
    put(&test, 60..65, 0).await;
    until_folded(&test).await;
    test.run("UPDATE sales SET amount = 1 WHERE id < 3").await;
    until_folded(&test).await;
    test.check_hit(TOTAL).await;
    let jobs = test.run("SHOW JOBS").await;
    assert!(jobs.iter().all(|job| job[1] == "auto_refresh"), "{jobs:?}");
    test.error("ALTER CUBE c SET (fold_rows = 0)", ErrorKind::InvalidParameter, "a number of rows").await;
    test.error("ALTER CUBE c SET (fold_after = 'soon')", ErrorKind::InvalidParameter, "an interval").await;
    test.run("ALTER CUBE c SET (auto_refresh = off)").await;
}

/// State and reason of every segment.
async fn segments(test: &TestEngine) -> Vec<(String, String)> {
    test.run("SHOW SEGMENTS").await.into_iter().map(|row| (row[4].clone(), row[5].clone())).collect()
}

/// Repeats a step until so many rows are counted.
async fn until_counted(test: &TestEngine, expected: &str, step: impl AsyncFn()) {
    let end = std::time::Instant::now() + PATIENCE;
    loop {
        step().await;
        let counted = test.run("SELECT count(*) FROM sales").await;
        if counted == [[expected]] {
            return;
        }
        assert!(std::time::Instant::now() < end, "there are {counted:?} rows, not {expected}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// Waits until the segments of a cube hold all rows as they are.
async fn until_folded(test: &TestEngine) {
    let wait = async {
        loop {
            let report = test.explain(TOTAL).await;
            if report.contains("answered from cube") && !report.contains("and from the tables") {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("nothing folds what was written");
}

/// The folder of the only disk store.
fn store_of(data: &std::path::Path) -> std::path::PathBuf {
    let manifest = |folder: &std::path::Path| {
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        files.into_iter().any(|file| file.file_name().to_string_lossy().starts_with("manifest"))
    };
    let mut waiting = vec![data.to_owned()];
    while let Some(folder) = waiting.pop() {
        if manifest(&folder) {
            return folder;
        }
        let inner = std::fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path());
        waiting.extend(inner.filter(|path| path.is_dir()));
    }
    panic!("no disk store in {}", data.display());
}

fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}
