//! Cubes that change: built cuboids go on answering, and a build adds only new ones.

use arrow::array::{Int32Array, Int64Array, RecordBatch, StringArray};
use nyala_engine::ErrorKind;

use crate::batch;
use crate::harness::{TestEngine, write_parquet};

fn rows(from: i32, to: i32) -> RecordBatch {
    batch!(
        "day" => Int32Array::from_iter_values((from..to).map(|n| 20_240_101 + n / 10)),
        "shop" => Int32Array::from_iter((from..to).map(|n| (n % 7 > 0).then_some(n % 5))),
        "kind" => StringArray::from_iter_values((from..to).map(|n| format!("K{}", n % 3))),
        "color" => StringArray::from_iter_values((from..to).map(|n| ["red", "blue"][n as usize % 2])),
        "amount" => Int64Array::from_iter((from..to).map(|n| (n % 11 > 0).then_some(i64::from(n)))),
    )
}

async fn sales() -> TestEngine {
    let test = TestEngine::new().await;
    test.table("sales", &[rows(0, 600)]).await;
    test.run("SET nyala.check_files = on").await;
    test
}

const CUBE: &str = "CREATE CUBE c AS SELECT shop, kind, sum(amount), count(*) FROM sales \
                    GROUP BY ROLLUP (shop, kind)";
const BY_DAY: &str = "CREATE CUBE c PARTITION BY RANGE (day) EVERY INTERVAL '1 month' AS \
                      SELECT shop, kind, sum(amount), count(*) FROM sales GROUP BY ROLLUP (shop, kind)";

const QUERIES: &[&str] = &[
    "SELECT shop, kind, sum(amount), count(*) FROM sales GROUP BY shop, kind",
    "SELECT shop, count(*) FROM sales WHERE kind <> 'K1' GROUP BY shop",
    "SELECT kind, avg(amount), max(amount) FROM sales GROUP BY kind",
    "SELECT count(*), sum(amount), min(amount) FROM sales",
    "SELECT color, sum(amount) FROM sales GROUP BY color",
    "SELECT shop, color, max(amount), count(DISTINCT kind) FROM sales GROUP BY shop, color",
    "SELECT DISTINCT shop FROM sales",
];

/// Checks all queries with and without cuboids in memory.
async fn check_all(test: &TestEngine) {
    for query in QUERIES {
        test.check_same(query).await;
        test.settle().await;
        test.check_same(query).await;
    }
}

/// State of the cube, cuboids of each segment, and cuboids and rows of the last job.
async fn summary(test: &TestEngine) -> (String, Vec<String>, [String; 2]) {
    let state = test.run("SHOW CUBES").await[0][2].clone();
    let cuboids = test.run("SHOW SEGMENTS").await.into_iter().map(|row| row[7].clone()).collect();
    let job = test.run("SHOW JOBS").await.remove(0);
    (state, cuboids, [job[6].clone(), job[4].clone()])
}

fn is(state: &str, cuboids: &[&str], job: [&str; 2]) -> (String, Vec<String>, [String; 2]) {
    let text = |text: &str| text.to_owned();
    (text(state), cuboids.iter().map(|cuboids| text(cuboids)).collect(), job.map(text))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grouping_set_is_rolled_up_from_what_is_there() {
    let test = sales().await;
    test.run(CUBE).await;
    test.run("BUILD CUBE c").await;
    assert_eq!(summary(&test).await, is("ready", &["3"], ["3", "600"]));
    test.run("ALTER CUBE c ADD GROUPING SET (kind)").await;
    assert_eq!(test.run("SHOW CUBES").await[0][2], "partial");
    let by_kind = "SELECT kind, sum(amount) FROM sales GROUP BY kind";
    assert!(test.explain(by_kind).await.contains("cuboid (shop, kind)"));
    test.check_hit(by_kind).await;
    test.run("BUILD CUBE c").await;
    // No row was read.
    assert_eq!(summary(&test).await, is("ready", &["4"], ["1", "0"]));
    assert!(test.explain(by_kind).await.contains("cuboid (kind)"));
    check_all(&test).await;
    test.run("ALTER CUBE c DROP GROUPING SET (shop, kind), GROUPING SET ()").await;
    assert_eq!(test.run("SHOW SEGMENTS").await[0][7], "2");
    check_all(&test).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_measure_needs_rows_and_the_others_do_not() {
    let test = sales().await;
    test.run(CUBE).await;
    test.run("BUILD CUBE c").await;
    test.run("ALTER CUBE c ADD MEASURE max(amount), MEASURE avg(amount), MEASURE count(amount)").await;
    let maximum = "SELECT shop, max(amount) FROM sales GROUP BY shop";
    test.check_miss(
        maximum,
        "`max(sales.amount)` was added after segment all rows was built; run BUILD CUBE",
    )
    .await;
    test.check_hit("SELECT shop, sum(amount) FROM sales GROUP BY shop").await;
    check_all(&test).await;
    test.run("BUILD CUBE c").await;
    assert_eq!(summary(&test).await, is("ready", &["3"], ["3", "600"]));
    for query in [maximum, "SELECT avg(amount), count(amount), count(*) FROM sales", QUERIES[0]] {
        test.check_hit(query).await;
    }
    check_all(&test).await;
    assert!(test.run("CHECK CUBE c SAMPLE 30").await.iter().all(|row| row[3] == "ok"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_average_comes_from_sum_and_count_until_it_is_built() {
    let test = sales().await;
    test.run("CREATE CUBE c AS SELECT kind, sum(shop), count(shop) FROM sales GROUP BY kind").await;
    test.run("BUILD CUBE c").await;
    test.run("ALTER CUBE c ADD MEASURE avg(shop)").await;
    test.check_hit("SELECT kind, avg(shop) FROM sales GROUP BY kind").await;
    test.run("BUILD CUBE c").await;
    test.check_hit("SELECT kind, avg(shop) FROM sales GROUP BY kind").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_dropped_and_added_again_is_another_measure() {
    let test = sales().await;
    test.run("CREATE CUBE c AS SELECT shop, count(*), sum(amount), max(amount) FROM sales GROUP BY shop")
        .await;
    test.run("BUILD CUBE c").await;
    check_all(&test).await;
    test.run("ALTER CUBE c DROP MEASURE SUM(amount)").await;
    assert_eq!(test.run("SHOW CUBES").await[0][2], "ready");
    test.check_miss("SELECT shop, sum(amount) FROM sales GROUP BY shop", "it has no measure").await;
    // The cube's columns have moved within the cuboid, in memory as in files.
    test.check_hit("SELECT shop, max(amount), count(*) FROM sales GROUP BY shop").await;
    check_all(&test).await;
    test.run("ALTER CUBE c ADD MEASURE sum(amount * 2), MEASURE sum(amount)").await;
    test.check_miss("SELECT shop, sum(amount) FROM sales GROUP BY shop", "was added after").await;
    test.run("BUILD CUBE c").await;
    check_all(&test).await;
    test.check_hit("SELECT shop, sum(amount), max(amount) FROM sales GROUP BY shop").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dimension_joins_the_largest_sets_or_those_that_name_it() {
    let test = sales().await;
    test.run(CUBE).await;
    test.run("BUILD CUBE c").await;
    test.run("ALTER CUBE c ADD DIMENSION color, ADD GROUPING SET (color)").await;
    let by_color = "SELECT color, sum(amount) FROM sales GROUP BY color";
    test.check_miss(by_color, "segment all rows has no cuboid with all of (color) yet; run BUILD CUBE").await;
    test.run("BUILD CUBE c").await;
    assert_eq!(summary(&test).await, is("ready", &["4"], ["1", "600"]));
    test.check_hit(by_color).await;
    test.run("ALTER CUBE c ADD DIMENSION amount % 2 AS odd").await;
    test.run("BUILD CUBE c").await;
    // (shop, kind, odd) and (color, odd)
    assert_eq!(summary(&test).await, is("ready", &["6"], ["2", "600"]));
    test.check_hit("SELECT shop, amount % 2, sum(amount) FROM sales GROUP BY 1, 2").await;
    check_all(&test).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_outlive_a_dimension_they_never_asked_for() {
    let test = sales().await;
    test.run(
        "CREATE CUBE c AS SELECT shop, kind, color, sum(amount), count(*) FROM sales \
         GROUP BY GROUPING SETS ((shop, kind, color), (kind, color))",
    )
    .await;
    test.run("BUILD CUBE c").await;
    check_all(&test).await;
    test.run("ALTER CUBE c DROP DIMENSION kind").await;
    assert_eq!(test.run("SHOW CUBES").await[0][2], "partial");
    let query = "SELECT shop, color, sum(amount), count(*) FROM sales GROUP BY shop, color";
    test.check_hit(query).await;
    check_all(&test).await;
    test.check_miss("SELECT kind, sum(amount) FROM sales GROUP BY kind", "not computable").await;
    test.run("BUILD CUBE c").await;
    assert_eq!(summary(&test).await, is("ready", &["2"], ["2", "0"]));
    test.check_hit(query).await;
    check_all(&test).await;
    // A dimension with another expression under the name of an earlier one.
    test.run("ALTER CUBE c ADD DIMENSION lower(kind) AS kind").await;
    test.check_same("SELECT lower(kind), sum(amount) FROM sales GROUP BY 1").await;
    test.run("BUILD CUBE c").await;
    test.check_hit("SELECT lower(kind), sum(amount) FROM sales GROUP BY 1").await;
    check_all(&test).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn segments_are_extended_each_for_itself() {
    let test = sales().await;
    write_parquet(&test.path("sales/b.parquet"), &[rows(1000, 1300)]);
    test.run(BY_DAY).await;
    test.run("BUILD CUBE c FROM 20240101 TO 20240201").await;
    test.run("ALTER CUBE c ADD MEASURE max(amount), GROUPING SET (kind)").await;
    test.run("BUILD CUBE c FROM 20240201 TO 20240301").await;
    let query = "SELECT shop, max(amount) FROM sales GROUP BY shop";
    let report = test.explain(query).await;
    assert!(
        report.contains("segments: 1") && report.contains("was added after segment [20240101"),
        "{report}"
    );
    check_all(&test).await;
    let refused = "segment [20240101, 20240201) was built before the cube was altered";
    test.error("MERGE CUBE c", ErrorKind::InvalidParameter, refused).await;
    let states: Vec<_> = test.run("SHOW SEGMENTS").await.into_iter().map(|row| row[4].clone()).collect();
    assert_eq!(&states[..2], ["partial", "ready"]);
    test.run("BUILD CUBE c").await;
    check_all(&test).await;
    assert_eq!(test.run("SHOW CUBES").await[0][2], "ready");
    let report = test.explain(query).await;
    assert!(!report.contains("tables") && !report.contains("added after"), "{report}");
    let _ = test.try_run("MERGE CUBE c").await;
    check_all(&test).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changed_meanwhile_is_built_anew() {
    let test = sales().await;
    test.run(CUBE).await;
    test.run("BUILD CUBE c").await;
    test.run("ALTER CUBE c ADD MEASURE max(amount)").await;
    write_parquet(&test.path("sales/b.parquet"), &[rows(600, 700)]);
    check_all(&test).await;
    test.run("BUILD CUBE c").await;
    assert_eq!(summary(&test).await, is("ready", &["3"], ["3", "700"]));
    check_all(&test).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_statement_stays_true_over_restarts() {
    let test = sales().await;
    test.run(
        "CREATE CUBE c AS SELECT shop AS s, sum(amount) / count(*) AS ratio, upper(kind) FROM sales \
         GROUP BY s, ROLLUP (3)",
    )
    .await;
    test.run("BUILD CUBE c").await;
    test.run("ALTER CUBE c ADD MEASURE min(amount)").await;
    let catalog = std::sync::Arc::clone(test.engine.catalog());
    let text = move || catalog.snapshot().cubes.values().next().unwrap().statement.clone();
    let expected = "CREATE CUBE c AS SELECT shop AS s, upper(kind), sum(amount), count(*), min(amount) \
                    FROM sales GROUP BY s, ROLLUP (upper(kind))";
    assert_eq!(text(), expected);
    test.run("ALTER CUBE c DROP MEASURE count(*), ADD GROUPING SET ()").await;
    let expected = "CREATE CUBE c AS SELECT shop AS s, upper(kind), sum(amount), min(amount) FROM sales \
                    GROUP BY GROUPING SETS ((s, upper(kind)), (s), ())";
    assert_eq!(text(), expected);
    drop(text);
    let test = test.reopen().await;
    test.run("SET nyala.check_files = on").await;
    test.run("BUILD CUBE c").await;
    test.check_hit("SELECT shop, upper(kind), min(amount), sum(amount) FROM sales GROUP BY 1, 2").await;
    check_all(&test).await;
    test.run("DROP CUBE c").await;
    test.run(expected).await;
    test.run("BUILD CUBE c").await;
    test.check_hit("SELECT min(amount), sum(amount) FROM sales").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_what_was_dropped_go_at_the_next_start() {
    let test = sales().await;
    test.run(CUBE).await;
    test.run("BUILD CUBE c").await;
    test.run("ALTER CUBE c DROP GROUPING SET (shop), ADD MEASURE max(amount)").await;
    test.run("BUILD CUBE c").await;
    let listed = |test: &TestEngine| {
        let snapshot = test.engine.catalog().snapshot();
        let segment = &snapshot.cubes.values().next().unwrap().segments[0];
        let names = segment.cuboids.iter().flat_map(|c| &c.files).map(|file| file.name.clone());
        (test.path("data").join(&segment.location), names.collect::<std::collections::BTreeSet<_>>())
    };
    let (folder, _) = listed(&test);
    // Queries that began before the alteration may still read the old files.
    assert!(std::fs::read_dir(&folder).unwrap().count() >= 5);
    let test = test.reopen().await;
    let (folder, names) = listed(&test);
    let found =
        std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    assert_eq!(found.collect::<std::collections::BTreeSet<_>>(), names);
    check_all(&test).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_that_make_no_sense_are_refused() {
    let test = sales().await;
    test.run(CUBE).await;
    for (change, kind, words) in [
        ("ADD DIMENSION shop", ErrorKind::DuplicateObject, "has dimension `shop` already"),
        ("ADD DIMENSION sales.shop AS s", ErrorKind::InvalidDefinition, "always equal"),
        ("ADD DIMENSION sum(amount) AS s", ErrorKind::InvalidText, ""),
        ("ADD DIMENSION colour", ErrorKind::UndefinedColumn, "colour"),
        ("DROP DIMENSION color", ErrorKind::UndefinedColumn, "it has `shop`, `kind`"),
        ("ADD MEASURE sum(amount)", ErrorKind::DuplicateObject, "has measure `sum(amount)` already"),
        ("ADD MEASURE sum(sales.amount)", ErrorKind::DuplicateObject, "in another spelling"),
        ("ADD MEASURE amount + 1", ErrorKind::InvalidDefinition, "has no aggregate"),
        ("ADD MEASURE median(amount)", ErrorKind::InvalidDefinition, "cannot be stored"),
        ("DROP MEASURE sum(shop)", ErrorKind::UndefinedObject, "it has `sum(amount)`, `count(*)`"),
        (
            "ADD GROUPING SET (kind, shop)",
            ErrorKind::DuplicateObject,
            "has grouping set (shop, kind) already",
        ),
        ("DROP MEASURE sum(amount), MEASURE count(*)", ErrorKind::InvalidDefinition, "would have no measure"),
        ("DROP GROUPING SET (kind)", ErrorKind::UndefinedObject, "has no grouping set (kind)"),
        (
            "DROP GROUPING SET (), GROUPING SET (shop), GROUPING SET (shop, kind)",
            ErrorKind::InvalidDefinition,
            "no grouping set",
        ),
    ] {
        test.error(&format!("ALTER CUBE c {change}"), kind, words).await;
    }
    test.error(
        "ALTER CUBE d ADD MEASURE max(amount)",
        ErrorKind::UndefinedTable,
        "`public.d` does not exist",
    )
    .await;
    // A statement with a refused part changes nothing.
    test.error("ALTER CUBE c ADD DIMENSION color, DIMENSION shop", ErrorKind::DuplicateObject, "already")
        .await;
    assert_eq!(test.run("SHOW CUBES").await[0][3], "2");
}
