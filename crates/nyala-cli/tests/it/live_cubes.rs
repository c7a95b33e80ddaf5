//! Cubes over live tables: however rows change, cubes make no difference to an answer.

use nyala_engine::{Answer, ErrorKind, Session, SessionOptions};

use crate::batch;
use crate::harness::{TestEngine, assert_same, parsed, rows_of, sorted};
use crate::program::PATIENCE;
use crate::random::{Random, seed};

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

/// Rows of cells leave the answers when their time is over; those that were written since stay until theirs is.
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

const TOTAL: &str = "SELECT shop, count(*), sum(amount) FROM sales GROUP BY shop";

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
    // The new rows of a build are a segment of their own, until it is worth merging.
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
            // Not even one row is left that a segment could be wrong about.
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

/// A disk store that is restored from a copy gives the versions of rows it does not have to other rows. So many may be
/// written that their number is that of the rows a segment was made from.
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

/// A text that comes again is answered from a ready plan, and a result may be kept: neither may outlive a write.
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

#[tokio::test(flavor = "multi_thread")]
async fn a_dimension_that_changed_makes_segments_stale() {
    let test = sales().await;
    test.run("CREATE LIVE TABLE shops (shop_id BIGINT PRIMARY KEY, city TEXT)").await;
    test.run("INSERT INTO shops VALUES (0, 'Rome'), (1, 'Rome'), (2, 'Oslo'), (3, 'Bern'), (4, 'Bern')")
        .await;
    put(&test, 0..100, 0).await;
    test.run("DROP CUBE c").await;
    test.run(
        "CREATE CUBE star WITH (auto_refresh = off) AS SELECT sum(amount), count(*) FROM sales \
         JOIN shops ON shop = shop_id GROUP BY CUBE (city, kind)",
    )
    .await;
    test.run("BUILD CUBE star").await;
    for query in STAR_QUERIES {
        test.check_hit(query).await;
    }
    put(&test, 100..120, 0).await;
    let report = test.explain(STAR_QUERIES[0]).await;
    assert!(report.contains("20 rows written at"), "{report}");
    for change in [
        "UPDATE shops SET city = 'Pisa' WHERE shop_id = 1",
        "INSERT INTO shops VALUES (5, 'Nice')",
        "DELETE FROM shops WHERE shop_id = 4",
    ] {
        test.run(change).await;
        for query in STAR_QUERIES {
            test.check_miss(query, "rows of table `public.shops` changed").await;
        }
        test.run("BUILD CUBE star").await;
        for query in STAR_QUERIES {
            test.check_hit(query).await;
        }
    }
    test.error("DROP TABLE shops", ErrorKind::Needed, "star").await;
    test.error("DROP TABLE sales", ErrorKind::Needed, "star").await;
    test.run("DROP CUBE star").await;
    test.run("DROP TABLE shops").await;
}

/// The planner also groups by columns that a primary key determines; a cube has only its listed dimensions, and
/// queries need only the columns that they name.
#[tokio::test(flavor = "multi_thread")]
async fn keys_of_live_tables_are_dimensions_like_others() {
    let test = sales().await;
    test.run("CREATE LIVE TABLE shops (shop_id BIGINT PRIMARY KEY, city TEXT, owner TEXT)").await;
    test.run("INSERT INTO shops VALUES (0, 'Rome', 'a'), (1, 'Rome', 'b'), (2, 'Oslo', 'b'), (3, 'Bern', 'c'), (4, 'Bern', 'c')")
        .await;
    put(&test, 0..100, 0).await;
    test.run("DROP CUBE c").await;
    test.run(
        "CREATE CUBE star WITH (auto_refresh = off) AS SELECT sum(amount), count(*) FROM sales \
         JOIN shops ON shop = shop_id GROUP BY CUBE (shop_id, city)",
    )
    .await;
    test.run("BUILD CUBE star").await;
    let joined = "FROM sales JOIN shops ON shop = shop_id";
    for query in [
        format!("SELECT shop_id, sum(amount) {joined} GROUP BY shop_id"),
        format!("SELECT sum(amount) AS s {joined} GROUP BY shop_id HAVING count(*) > 3 ORDER BY s"),
        format!("SELECT shop_id, city, sum(amount) {joined} GROUP BY shop_id"),
        format!("SELECT city, sum(amount) {joined} GROUP BY shop_id, city, owner HAVING shop_id > 1"),
        "SELECT s.city, sum(amount) FROM sales JOIN shops AS s ON shop = s.shop_id GROUP BY s.shop_id, s.city".to_owned(),
        format!("SELECT max(n) FROM (SELECT count(*) AS n {joined} GROUP BY shop_id)"),
    ] {
        test.check_hit(&query).await;
    }
    // Columns that the key determines are looked up.
    let other = format!("SELECT owner, sum(amount) {joined} GROUP BY shop_id");
    test.check_hit(&other).await;
    assert!(test.explain(&other).await.contains("joined with `public.shops`"));
    // A key that an outer join makes NULL is left as it is.
    let outer = "SELECT sum(amount) FROM sales LEFT JOIN shops ON shop = shop_id AND city = 'Oslo' GROUP BY shop_id, owner";
    test.check_same(outer).await;
    test.run("CREATE CUBE d AS SELECT count(*), sum(amount) FROM sales GROUP BY id").await;
    test.run("BUILD CUBE d").await;
    test.check_hit("SELECT id, sum(amount) FROM sales GROUP BY id").await;
    test.check_miss("SELECT id, kind, sum(amount) FROM sales GROUP BY id", "kind").await;
}

/// ORDER BY used to lose the column of one table behind the key of another, if a cube answered.
#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_one_dimension_does_not_order_the_cells_of_another() {
    let test = TestEngine::new().await;
    test.run("CREATE LIVE TABLE one (id BIGINT PRIMARY KEY, name TEXT)").await;
    test.run("CREATE LIVE TABLE two (id BIGINT PRIMARY KEY, x BIGINT)").await;
    test.run("CREATE LIVE TABLE facts (id BIGINT PRIMARY KEY, a BIGINT, b BIGINT, v BIGINT)").await;
    test.run("INSERT INTO one VALUES (1, 'a'), (2, 'b')").await;
    test.run("INSERT INTO two VALUES (1, 10), (2, 20), (3, 30)").await;
    let rows: Vec<String> = (0..60).map(|i| format!("({i}, {}, {}, {i})", 1 + i % 2, 1 + i % 3)).collect();
    test.run(&format!("INSERT INTO facts VALUES {}", rows.join(", "))).await;
    let joined = "FROM facts f JOIN one ON f.a = one.id JOIN two ON f.b = two.id";
    test.run(&format!(
        "CREATE CUBE c AS SELECT sum(f.v), count(*) {joined} GROUP BY one.id, one.name, two.x"
    ))
    .await;
    test.run("BUILD CUBE c").await;
    let ordered = format!("SELECT one.id, two.x {joined} GROUP BY one.id, two.x ORDER BY one.id, two.x DESC");
    test.check_hit(&ordered).await;
    let expected = [["1", "30"], ["1", "20"], ["1", "10"], ["2", "30"], ["2", "20"], ["2", "10"]];
    assert_eq!(test.run(&ordered).await, expected);
    let grouped = format!("SELECT one.id, two.x, sum(f.v) AS s {joined} GROUP BY one.id, two.x");
    let repeated =
        format!("SELECT k.id FROM (VALUES (1), (2)) AS k (id) LEFT JOIN ({grouped}) AS g ON g.id = k.id");
    test.check_hit(&repeated).await;
    assert_eq!(test.run(&repeated).await.len(), 6);
}

/// A total has a row for no rows: a condition that names no column stays above it.
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

/// Segments by ranges of an external table, with a live dimension.
#[tokio::test(flavor = "multi_thread")]
async fn a_live_table_may_be_the_dimension_of_files() {
    use arrow::array::Int64Array;
    let test = TestEngine::new().await;
    let rows = batch!(
        "day" => Int64Array::from_iter_values(0..100),
        "shop" => Int64Array::from_iter_values((0..100).map(|i| i % 5)),
        "amount" => Int64Array::from_iter_values(0..100),
    );
    test.table("orders", &[rows]).await;
    test.run("CREATE LIVE TABLE shops (shop_id BIGINT PRIMARY KEY, city TEXT)").await;
    test.run("INSERT INTO shops VALUES (0, 'Rome'), (1, 'Rome'), (2, 'Oslo'), (3, 'Bern'), (4, 'Bern')")
        .await;
    test.run(
        "CREATE CUBE c PARTITION BY RANGE (day) EVERY 10 AS SELECT sum(amount), count(*) FROM orders \
         JOIN shops ON shop = shop_id GROUP BY CUBE (city, day)",
    )
    .await;
    test.run("BUILD CUBE c FROM 0 TO 50").await;
    let query = "SELECT city, sum(amount) FROM orders JOIN shops ON shop = shop_id GROUP BY city";
    let report = test.explain(query).await;
    assert!(report.contains("segments: 5") && report.contains("day 50 to 99"), "{report}");
    test.check_hit(query).await;
    test.run("UPDATE shops SET city = 'Pisa' WHERE shop_id = 3").await;
    test.check_miss(query, "rows of table `public.shops` changed").await;
    test.run("BUILD CUBE c").await;
    test.check_hit(query).await;
}

/// Waits until a cube holds all rows as they are.
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

/// Writes, builds and restarts in any order.
#[tokio::test(flavor = "multi_thread")]
async fn cubes_over_live_tables_change_no_answer() {
    let mut random = Random(seed());
    let cases: usize = std::env::var("NYALA_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(2);
    for _ in 0..cases {
        let mut test = sales().await;
        test.run("CREATE LIVE TABLE shops (shop_id BIGINT PRIMARY KEY, city TEXT)").await;
        test.run("INSERT INTO shops VALUES (0, 'Rome'), (1, 'Rome'), (2, 'Oslo'), (3, NULL)").await;
        test.run(
            "CREATE CUBE star WITH (auto_refresh = off) AS SELECT sum(amount), count(*) FROM sales \
             JOIN shops ON shop = shop_id GROUP BY CUBE (city, kind)",
        )
        .await;
        let mut hits = 0;
        for step in 0..60 {
            let done = step_of(&mut random, step);
            match done.as_str() {
                "restart" => test = test.reopen().await,
                "put" => {
                    let from = random.below(300) as i64;
                    put(&test, from..from + 1 + random.below(40) as i64, random.below(50) as i64).await;
                }
                "append" => {
                    let from = 1000 + 100 * step;
                    put(&test, from..from + 1 + random.below(90) as i64, 0).await;
                }
                sql => {
                    if let Err(error) = test.try_run(sql).await {
                        assert!(sql.starts_with("MERGE"), "{sql}: {error}");
                    }
                }
            }
            let queries = if random.chance(70) { QUERIES } else { STAR_QUERIES };
            let query = *random.pick(queries);
            let with = sorted(test.run(query).await);
            hits += usize::from(test.explain(query).await.contains("answered from cube"));
            test.run("SET nyala.use_cubes = off").await;
            let without = sorted(test.run(query).await);
            test.run("SET nyala.use_cubes = on").await;
            assert_same(&format!("step {step}, after {done}: {query}"), &with, &without);
        }
        assert!(hits > 0, "no query was answered from a cube");
        let found = test.run("CHECK CUBE c").await;
        assert!(found.iter().all(|row| row[3] != "differs" && row[3] != "unreadable"), "{found:?}");
    }
}

fn step_of(random: &mut Random, step: i64) -> String {
    let id = random.below(300);
    match random.below(20) {
        0..4 => "put".to_owned(),
        4..8 => "append".to_owned(),
        8 => format!("DELETE FROM sales WHERE id BETWEEN {id} AND {}", id + 5),
        9 => format!("UPDATE sales SET amount = amount + 1, kind = 'b' WHERE id = {id}"),
        10 if step % 3 == 0 => "TRUNCATE TABLE sales".to_owned(),
        11 => format!("INSERT INTO shops VALUES ({}, 'city {step}')", random.below(6)),
        12 if step % 2 == 0 => format!("DELETE FROM shops WHERE shop_id = {}", random.below(6)),
        13 if step % 2 == 0 => "restart".to_owned(),
        14 => "MERGE CUBE c".to_owned(),
        15 => "REFRESH CUBE c".to_owned(),
        16 => "BUILD CUBE star".to_owned(),
        _ => "BUILD CUBE c".to_owned(),
    }
}

/// Every statement writes an amount and its opposite. During builds and merges, too, cells and rows of one answer are
/// of one moment, so that their sum is 0.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_of_one_moment_while_rows_and_segments_change() {
    const STATEMENTS: usize = 150;
    let test = sales().await;
    put(&test, 0..10, 0).await;
    test.run("DELETE FROM sales").await;
    let session = || test.engine.session(SessionOptions::default());
    let mut random = Random(seed());
    let writing = session();
    let writer = tokio::spawn(async move {
        for _ in 0..STATEMENTS {
            let (id, amount) = (random.below(2000), random.below(1000));
            let sql = format!(
                "INSERT INTO sales VALUES ({id}, 1, 'a', 1, {amount}), (-{id} - 1, 2, 'b', 2, -{amount})"
            );
            done(&writing, &sql).await;
        }
    });
    let building = session();
    let mut builds = 0;
    let mut answers = 0;
    while !writer.is_finished() || answers == 0 {
        let (build, answer) = tokio::join!(
            done(&building, "BUILD CUBE c"),
            test.run("SELECT coalesce(sum(amount), 0), count(*) % 2 FROM sales")
        );
        (builds, answers) = (builds + usize::from(build), answers + 1);
        assert_eq!(answer, [["0", "0"]], "after {builds} builds and {answers} answers");
    }
    writer.await.unwrap();
    check_all(&test).await;
}

/// Runs a statement that gives no rows.
async fn done(session: &Session, sql: &str) -> bool {
    match session.query(sql).await {
        Ok(Answer::Done(_)) => true,
        Ok(Answer::Rows(_)) => panic!("{sql} gives rows"),
        Err(error) => panic!("{sql}: {error}"),
    }
}
