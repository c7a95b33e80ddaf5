//! Background maintenance of cubes: retention, merges, refreshes; and its jobs.

use std::task::Poll;

use arrow::array::{Date32Array, Int64Array, RecordBatch};
use nyala_engine::ErrorKind;

use crate::batch;
use crate::harness::{TestEngine, write_parquet};
use crate::program::{PATIENCE, eventually};

/// 2024-01-01.
const FIRST_DAY: i32 = 19_723;

fn days(from: i32, to: i32) -> RecordBatch {
    batch!(
        "day" => Date32Array::from_iter_values((from..to).map(|day| FIRST_DAY + day)),
        "amount" => Int64Array::from_iter_values((from..to).map(i64::from)),
    )
}

/// A year of days in two files.
async fn sales(change: impl FnOnce(&mut nyala_model::config::Config)) -> TestEngine {
    let test = TestEngine::with_config(change).await;
    write_parquet(&test.path("sales/b.parquet"), &[days(180, 366)]);
    test.table("sales", &[days(0, 180)]).await;
    test.run("SET nyala.check_files = on").await;
    test
}

fn cube(step: &str, options: &str) -> String {
    format!(
        "CREATE CUBE c PARTITION BY RANGE (day) EVERY INTERVAL '{step}' {options} AS \
         SELECT day, sum(amount), count(*) FROM sales GROUP BY ROLLUP (day)"
    )
}

/// Ranges of the segments that are not missing.
async fn held(test: &TestEngine) -> Vec<String> {
    let rows = test.run("SHOW SEGMENTS").await.into_iter().filter(|row| row[4] != "missing");
    rows.map(|row| row[3].clone()).collect()
}

async fn check_all(test: &TestEngine) {
    for query in [
        "SELECT sum(amount), count(*) FROM sales",
        "SELECT sum(amount) FROM sales WHERE day >= '2024-02-10' AND day < '2024-11-05'",
        "SELECT day, count(*) FROM sales GROUP BY day",
    ] {
        test.check_same(query).await;
    }
}

const STATEMENT: &str = "SELECT sum(amount), count(*) FROM sales";

#[tokio::test(flavor = "multi_thread")]
async fn old_segments_go_and_their_rows_still_answer() {
    let test = sales(|_| {}).await;
    test.run(&cube("1 month", "")).await;
    test.run("BUILD CUBE c").await;
    assert_eq!(held(&test).await.len(), 12);
    test.run("ALTER CUBE c SET (retention = '3 months')").await;
    let last = ["[2024-10-01, 2024-11-01)", "[2024-11-01, 2024-12-01)", "[2024-12-01, 2025-01-01)"];
    assert_eq!(held(&test).await, last);
    let report = test.explain(STATEMENT).await;
    assert!(report.contains("segments: 3") && report.contains("day 2024-01-01 to 2024-09-30"), "{report}");
    check_all(&test).await;
    // A build finds nothing missing that the cube would keep.
    test.run("BUILD CUBE c").await;
    assert_eq!(held(&test).await, last);
    let refused = "lies before 2024-10-01, from which the cube keeps segments";
    let build = "BUILD CUBE c FROM '2024-01-01' TO '2024-03-01'";
    test.error(build, ErrorKind::InvalidParameter, refused).await;
    // A newer month takes the place of the oldest.
    write_parquet(&test.path("sales/c.parquet"), &[days(366, 370)]);
    test.run("BUILD CUBE c").await;
    assert_eq!(held(&test).await.first().map(String::as_str), Some("[2024-11-01, 2024-12-01)"));
    check_all(&test).await;
    test.run("ALTER CUBE c SET (retention = 'off')").await;
    test.run("BUILD CUBE c").await;
    assert_eq!(held(&test).await.len(), 13);
    check_all(&test).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn neighbours_are_merged_when_their_time_is_over() {
    let test = sales(|_| {}).await;
    test.run(&cube("1 day", "WITH (auto_merge = '1 month, 6 months')")).await;
    test.run("BUILD CUBE c FROM '2024-01-01' TO '2024-02-10'").await;
    let ranges = held(&test).await;
    // January is complete, and its segments are merged; those of February are not.
    assert_eq!((ranges.len(), ranges[0].as_str()), (10, "[2024-01-01, 2024-02-01)"));
    check_all(&test).await;
    test.run("BUILD CUBE c").await;
    let ranges = held(&test).await;
    assert_eq!(ranges.len(), 1 + 5 + 31, "{ranges:?}");
    assert_eq!(ranges[0], "[2024-01-01, 2024-07-01)");
    assert_eq!(ranges[5], "[2024-11-01, 2024-12-01)");
    let job = test.run("SHOW JOBS").await.remove(0);
    assert_eq!((job[3].as_str(), &job[5]), ("done", &job[6]), "{job:?}");
    assert_eq!(job[12], "100");
    check_all(&test).await;
    let report = test.explain(STATEMENT).await;
    assert!(report.contains("segments: 37") && !report.contains("from the tables"), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_change_are_read_without_being_asked() {
    let test = sales(|config| config.cubes.check_files_ms = 100).await;
    test.run(&cube("1 month", "WITH (auto_refresh = on)")).await;
    let engine = std::sync::Arc::clone(&test.engine);
    let segments = move || {
        let snapshot = engine.catalog().snapshot();
        snapshot.cubes.values().map(|cube| cube.segments.len()).sum::<usize>()
    };
    eventually("the first build", PATIENCE, || segments() == 12 && test.engine.build_progress().is_empty());
    write_parquet(&test.path("sales/c.parquet"), &[days(366, 400)]);
    eventually("the second build", PATIENCE, || segments() == 14 && test.engine.build_progress().is_empty());
    check_all(&test).await;
    assert_eq!(test.run("SHOW CUBES").await[0][2], "ready");
    let jobs = test.run("SHOW JOBS").await;
    assert!(jobs.iter().all(|job| job[1] == "auto_refresh" && job[3] == "done"), "{jobs:?}");
    test.run("ALTER CUBE c SET (auto_refresh = off)").await;
    write_parquet(&test.path("sales/d.parquet"), &[days(430, 440)]);
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert_eq!(test.run("SHOW JOBS").await.len(), jobs.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_statement_has_the_options_that_count() {
    let test = sales(|_| {}).await;
    test.run(&cube("1 day", "WITH (retention = '2 years', auto_refresh = on)")).await;
    test.run("ALTER CUBE c SET (auto_merge = '1 week', auto_refresh = off, retention = '1 year')").await;
    let snapshot = test.engine.catalog().snapshot();
    let entry = snapshot.cubes.values().next().unwrap();
    let expected = "EVERY INTERVAL '1 day' WITH (auto_merge = '1 week', retention = '1 year') AS SELECT day";
    assert!(entry.statement.contains(expected), "{}", entry.statement);
    test.run("DROP CUBE c").await;
    test.run(&entry.statement).await;
    let again = test.engine.catalog().snapshot();
    assert_eq!(again.cubes.values().next().unwrap().definition.options, entry.definition.options);
}

#[tokio::test(flavor = "multi_thread")]
async fn options_that_make_no_sense_are_refused() {
    let test = sales(|_| {}).await;
    test.run(&cube("1 week", "")).await;
    let whole = "CREATE CUBE w WITH (retention = '1 year') AS SELECT sum(amount) FROM sales";
    test.error(whole, ErrorKind::InvalidDefinition, "needs a cube with PARTITION BY RANGE").await;
    for (options, kind, words) in [
        ("retention = 'soon'", ErrorKind::InvalidParameter, "an interval such as '2 years'"),
        ("retention = 100", ErrorKind::InvalidParameter, "an interval such as '2 years'"),
        ("retention = '1 hour'", ErrorKind::InvalidParameter, "an interval such as '2 years'"),
        ("auto_merge = '1 month'", ErrorKind::InvalidDefinition, "do not fill `1 month`"),
        ("auto_merge = '2 weeks, 3 weeks'", ErrorKind::InvalidDefinition, "do not fill `3 weeks`"),
        ("auto_refresh = maybe", ErrorKind::InvalidParameter, "use on or off"),
        ("automerge = '1 month'", ErrorKind::UndefinedObject, "retention, auto_merge and auto_refresh"),
    ] {
        test.error(&format!("ALTER CUBE c SET ({options})"), kind, words).await;
    }
    test.run("ALTER CUBE c SET (auto_merge = '2 weeks, 4 weeks')").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_cancelled_by_its_number() {
    let test = sales(|_| {}).await;
    test.run(&cube("1 day", "")).await;
    let session = test.engine.session(Default::default());
    let building = tokio::spawn(async move { session.query("BUILD CUBE c").await.map(|_| ()) });
    eventually("the build runs", PATIENCE, || !test.engine.build_progress().is_empty());
    let job = test.engine.build_progress().remove(0).id.0;
    test.run(&format!("CANCEL JOB {job}")).await;
    let error = building.await.unwrap().unwrap_err();
    assert_eq!((error.kind, error.message), (ErrorKind::Cancelled, format!("job {job} was cancelled")));
    let row = test.run("SHOW JOBS").await.remove(0);
    assert_eq!(row[3], "cancelled");
    assert_ne!(row[12], "100");
    test.error(&format!("CANCEL JOB {job}"), ErrorKind::InvalidParameter, "has ended already").await;
    test.error("CANCEL JOB 4711", ErrorKind::UndefinedObject, "job 4711 does not exist").await;
    assert_eq!(test.engine.stats().builds.cancelled, 1);
    check_all(&test).await;
    test.run("BUILD CUBE c").await;
    let stats = test.engine.stats().builds;
    assert_eq!((stats.done, stats.running), (1, 0));
    assert!(stats.rows >= 366 && stats.bytes > 0, "{stats:?}");
    check_all(&test).await;
}

/// The output of a future that is done within so many polls; after that the future is dropped.
async fn within<T>(turns: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let mut left = turns;
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

/// At whatever point a statement is given up, its job ends, and its space is freed.
#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_is_given_up_at_any_moment_leaves_no_job_that_runs() {
    let test = sales(|config| config.cubes.check_files_ms = 100).await;
    test.run(&cube("1 month", "")).await;
    for turns in 0..200 {
        let session = test.engine.session(Default::default());
        let ended = within(turns, session.query("BUILD CUBE c")).await;
        eventually("the build has ended", PATIENCE, || test.engine.build_progress().is_empty());
        if ended.is_some_and(|answer| answer.is_ok()) {
            break;
        }
    }
    let end = std::time::Instant::now() + PATIENCE;
    loop {
        let jobs = test.run("SHOW JOBS").await;
        let segments = test.run("SHOW SEGMENTS").await;
        let running = jobs.iter().any(|job| job[3] == "running");
        if !running && segments.iter().all(|segment| segment[4] == "ready" || segment[4] == "missing") {
            break;
        }
        assert!(std::time::Instant::now() < end, "{jobs:?} {segments:?}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    test.run("BUILD CUBE c").await;
    assert_eq!(held(&test).await.len(), 12);
    check_all(&test).await;
}
