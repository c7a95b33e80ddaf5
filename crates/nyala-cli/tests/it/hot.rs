//! Cuboids in memory: they give the same answers as files, sooner, and within their budget.

use arrow::array::{Int64Array, StringArray};
use nyala_engine::HotStats;

use crate::batch;
use crate::harness::{TestEngine, assert_same, sorted};
use crate::plans::{becomes_ready, hits};

const DIMENSIONS: i64 = 6;
/// Values of each dimension.
const VALUES: i64 = 80;

/// A table with six dimensions `d0` to `d5` and one with few values `few`, a text `t` for each value of
/// `d0`, and two numbers.
async fn table(test: &TestEngine, rows: i64) {
    let value = |i: i64, d: i64| (i.wrapping_mul(2_654_435_761 + 1000 * d) >> 13).rem_euclid(VALUES);
    let dimension = |d: i64| Int64Array::from_iter_values((0..rows).map(|i| value(i, d)));
    let rows_of = batch!(
        "d0" => dimension(0), "d1" => dimension(1), "d2" => dimension(2),
        "d3" => dimension(3), "d4" => dimension(4), "d5" => dimension(5),
        "few" => Int64Array::from_iter_values((0..rows).map(|i| value(i, 9) % 12)),
        "t" => StringArray::from_iter((0..rows).map(|i| {
            let value = value(i, 0);
            (value % 9 != 4).then(|| format!("the text of value number {value}"))
        })),
        "a" => Int64Array::from_iter_values((0..rows).map(|i| i % 1000)),
        "b" => Int64Array::from_iter((0..rows).map(|i| (i % 5 != 0).then_some(i))),
    );
    test.table("f", &[rows_of]).await;
}

/// Runs a query until memory answers it.
async fn warm(test: &TestEngine, sql: &str) {
    for _ in 0..3 {
        test.run(sql).await;
        test.settle().await;
    }
    let operators = test.operators(sql).await;
    assert!(operators.contains("HotCuboidExec"), "{sql}\n{operators}");
}

fn hot(test: &TestEngine) -> HotStats {
    test.engine.stats().hot_cuboids
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_gives_the_answers_of_the_files() {
    let test = TestEngine::new().await;
    table(&test, 60_000).await;
    test.run("CREATE CUBE c AS SELECT sum(a), count(b), min(b), avg(a) FROM f GROUP BY d0, d1, d2, t").await;
    test.run("BUILD CUBE c").await;
    for sql in [
        "SELECT d0, sum(a), count(b) FROM f GROUP BY d0",
        "SELECT t, sum(a) FROM f WHERE t LIKE '%1%' GROUP BY t",
        "SELECT t, d1, avg(a) FROM f WHERE t IS NULL GROUP BY t, d1",
        "SELECT d1, min(b) FROM f WHERE d0 = 3 AND d2 IN (1, 5, 9) GROUP BY d1",
        "SELECT sum(a) FROM f WHERE d0 > 90",
        "SELECT d2, sum(a) FROM f WHERE t = 'the text of value number 11' OR d0 = 4 GROUP BY d2",
        "SELECT d0, sum(a) FROM f WHERE d0 + 1 < 5 GROUP BY d0 ORDER BY d0 DESC LIMIT 2",
    ] {
        let cold = sorted(test.run(sql).await);
        warm(&test, sql).await;
        test.check_hit(sql).await;
        assert_eq!(sorted(test.run(sql).await), cold, "{sql}");
    }
    let stats = hot(&test);
    assert!(stats.hits > 7 && stats.misses >= 1 && stats.cuboids == 1 && stats.bytes > 0, "{stats:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_on_leading_dimensions_skip_blocks_and_few_rows_stay_in_one_partition() {
    let test = TestEngine::new().await;
    table(&test, 60_000).await;
    test.run("CREATE CUBE c AS SELECT sum(a) FROM f GROUP BY few, d1, d2, a").await;
    test.run("BUILD CUBE c").await;
    let sql = "SELECT d1, sum(a) FROM f WHERE few = 3 GROUP BY d1";
    warm(&test, sql).await;
    let operators = test.operators(sql).await;
    let scan = operators.lines().find_map(|line| line.split("HotCuboidExec: rows=").nth(1)).unwrap();
    let numbers: Vec<usize> =
        scan.split(", ").next().unwrap().split(" of ").map(|number| number.parse().unwrap()).collect();
    assert!(numbers[0] > 0 && numbers[0] * 4 < numbers[1], "{operators}");
    assert!(!operators.contains("RepartitionExec"), "{operators}");
    assert!(!operators.contains("CoalescePartitionsExec"), "{operators}");
    assert!(operators.contains("HotGroupsExec: gby=[d1], aggr=[sum(f.a)]"), "{operators}");
}

/// The last dimension ascends among the cells that are equal in the others, and is NULL at times.
#[tokio::test(flavor = "multi_thread")]
async fn rows_found_by_halving_are_those_of_the_files() {
    let test = TestEngine::new().await;
    let rows = 0..36_000_i64;
    let facts = batch!(
        "few" => Int64Array::from_iter_values(rows.clone().map(|i| i % 12)),
        "x" => Int64Array::from_iter(rows.clone().map(|i| {
            let value = i / 12 % 1_500 * 3;
            (value % 7 != 0).then_some(value)
        })),
        "day" => Int64Array::from_iter_values(rows.clone().map(|i| i / 18_000)),
        "a" => Int64Array::from_iter_values(rows),
    );
    test.table("f", &[facts]).await;
    test.run("CREATE CUBE c AS SELECT sum(a), count(*) FROM f GROUP BY few, x, day").await;
    test.run("BUILD CUBE c").await;
    for condition in [
        "few = 3 AND x = 300",
        "few = 3 AND x = 301",
        "x = 300",
        "few = 3 AND x <> 300",
        "few = 3 AND x >= 4480",
        "few IN (1, 2, 7) AND x BETWEEN 30 AND 60",
        "few = 3 AND (x < 10 OR x > 4490)",
        "few = 3 AND x IN (3, 6, 900, 4497, 5000)",
        "few = 3 AND x IS NULL",
        "few = 3 AND (x = 6 OR x IS NULL)",
        "x < 0",
        "few < 6 AND x % 1000 = 1",
        "day = 1 AND few = 5 AND x > 4400",
    ] {
        let sql = format!("SELECT few, x, sum(a), count(*) FROM f WHERE {condition} GROUP BY few, x");
        let cold = sorted(test.run(&sql).await);
        warm(&test, &sql).await;
        test.check_hit(&sql).await;
        for _ in 0..2 {
            assert_eq!(sorted(test.run(&sql).await), cold, "{sql}");
        }
        // The next query is cold again.
        test.run("BUILD CUBE c").await;
    }
    let sql = "SELECT few, x, sum(a) FROM f WHERE few = 3 AND x = 300 GROUP BY few, x";
    warm(&test, sql).await;
    let operators = test.operators(sql).await;
    assert!(operators.contains("HotCuboidExec: rows=2 of "), "one of each day alone\n{operators}");
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_made_of_keys_are_those_of_values() {
    let test = TestEngine::new().await;
    table(&test, 60_000).await;
    test.run(
        "CREATE CUBE c AS SELECT sum(a), count(*), count(b), min(b), max(b), avg(a), bool_or(few > 7) FROM f GROUP BY few, d1, t",
    )
    .await;
    test.run("BUILD CUBE c").await;
    let all = "sum(a) AS s, count(*) AS n, count(b), min(b), max(b) AS x, avg(a), bool_or(few > 7)";
    // Every ORDER BY has enough columns to make the order of rows unique.
    for sql in [
        format!("SELECT t, {all} FROM f GROUP BY t ORDER BY t"),
        format!("SELECT t, {all} FROM f GROUP BY t ORDER BY t DESC NULLS LAST"),
        format!("SELECT t, few, {all} FROM f WHERE d1 < 9 GROUP BY t, few ORDER BY few DESC, t NULLS FIRST"),
        format!("SELECT t, d1, {all} FROM f GROUP BY d1, t ORDER BY n DESC, t DESC, d1"),
        format!("SELECT {all}, few, t FROM f GROUP BY few, t ORDER BY x DESC NULLS LAST, few, t LIMIT 7"),
        format!("SELECT few, {all} FROM f WHERE d1 IN (3, 5, 7) GROUP BY few ORDER BY avg(a), few LIMIT 3"),
        format!("SELECT few, t, {all} FROM f GROUP BY few, t HAVING sum(a) > 90000 ORDER BY s, few, t"),
        format!(
            "SELECT d1, t, {all} FROM f WHERE few = 3 GROUP BY d1, t ORDER BY t, s DESC, d1 LIMIT 40 OFFSET 5"
        ),
        "SELECT d1, t, sum(a) FROM f WHERE few = 3 GROUP BY d1, t ORDER BY t DESC, d1".to_owned(),
        "SELECT sum(a), max(b), t FROM f WHERE few = 3 AND d1 = 5 GROUP BY t ORDER BY 1 DESC, t LIMIT 4"
            .to_owned(),
        "SELECT d1, sum(a) * 2 + d1 AS v, max(b) - min(b) FROM f WHERE few < 3 GROUP BY d1 ORDER BY v DESC, d1"
            .to_owned(),
        "SELECT upper(t), 1 AS one, avg(a) FROM f WHERE few = 3 AND d1 = 5 GROUP BY t ORDER BY t".to_owned(),
        format!("SELECT {all} FROM f WHERE few = 3 AND d1 > 40"),
        format!("SELECT {all} FROM f WHERE few = 77"),
        format!("SELECT few, {all} FROM f WHERE few = 77 GROUP BY few ORDER BY few"),
        format!("SELECT count(*) AS groups, sum(s) FROM (SELECT t, few, {all} FROM f GROUP BY t, few)"),
    ] {
        let cold = test.run(&sql).await;
        warm_groups(&test, &sql).await;
        test.check_hit(&sql).await;
        // Later runs bind their values to a cached plan, and give the same rows.
        for answer in [test.run(&sql).await, test.run(&sql).await] {
            if sql.contains("ORDER BY") {
                assert_eq!(answer, cold, "{sql}");
            } else {
                assert_eq!(sorted(answer), sorted(cold.clone()), "{sql}");
            }
        }
        // The next query is cold again.
        test.run("BUILD CUBE c").await;
    }
}

async fn warm_groups(test: &TestEngine, sql: &str) {
    warm(test, sql).await;
    let operators = test.operators(sql).await;
    assert!(operators.contains("HotGroupsExec"), "{sql}\n{operators}");
}

#[tokio::test(flavor = "multi_thread")]
async fn dimensions_that_are_not_kept_as_keys_are_grouped_by_their_values() {
    let test = TestEngine::new().await;
    let rows = 0..20_000_i64;
    let facts = batch!(
        "many" => StringArray::from_iter_values(rows.clone().map(|i| format!("value {}", i % 15_000))),
        "f" => arrow::array::Float64Array::from_iter_values(rows.clone().map(|i| (i % 7) as f64 / 4.0)),
        "a" => Int64Array::from_iter_values(rows),
    );
    test.table("g", &[facts]).await;
    test.run("CREATE CUBE c AS SELECT sum(a) FROM g GROUP BY many, f").await;
    test.run("BUILD CUBE c").await;
    for sql in [
        "SELECT many, sum(a) FROM g WHERE f < 1 GROUP BY many ORDER BY many LIMIT 20",
        "SELECT f, sum(a) FROM g WHERE many LIKE '%77%' GROUP BY f ORDER BY f",
    ] {
        let cold = test.run(sql).await;
        warm(&test, sql).await;
        test.check_hit(sql).await;
        assert!(!test.operators(sql).await.contains("HotGroupsExec: gby"), "{sql}");
        for _ in 0..4 {
            assert_eq!(test.run(sql).await, cold, "{sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_columns_that_queries_read_are_in_memory() {
    let test = TestEngine::new().await;
    table(&test, 20_000).await;
    test.run("CREATE CUBE c AS SELECT sum(a), avg(b), min(b), max(b) FROM f GROUP BY d0, d1, t").await;
    test.run("BUILD CUBE c").await;
    warm(&test, "SELECT d0, sum(a) FROM f GROUP BY d0").await;
    let narrow = hot(&test);
    warm(&test, "SELECT t, sum(a), avg(b), min(b), max(b) FROM f GROUP BY t").await;
    let wide = hot(&test);
    assert!(narrow.bytes * 2 < wide.bytes, "{narrow:?} {wide:?}");
    assert_eq!((narrow.cuboids, wide.cuboids), (1, 1));
    // Columns that were in memory before stay there.
    warm(&test, "SELECT d0, t, sum(a) FROM f GROUP BY d0, t").await;
    assert_eq!(hot(&test).loads, wide.loads);
}

/// Memory for cuboids of [`little_memory`].
const LITTLE: u64 = (32 << 20) / 100;

/// An engine with memory for a few of its cuboids: there is one for each pair of dimensions.
async fn little_memory() -> (TestEngine, Vec<String>) {
    let test = TestEngine::with_config(|config| {
        config.query.memory_limit_bytes = 32 << 20;
        config.cache.hot_cuboids_percent = 1;
    })
    .await;
    table(&test, 20_000).await;
    let pairs: Vec<_> =
        (0..DIMENSIONS).flat_map(|d| (d + 1..DIMENSIONS).map(move |e| format!("d{d}, d{e}"))).collect();
    // The cuboid of the last set is too large for memory, which is no reason to fail.
    let sets = format!("({}), (d0, d1, d2, d3, a)", pairs.join("), ("));
    test.run(&format!("CREATE CUBE c AS SELECT sum(a), count(*) FROM f GROUP BY GROUPING SETS ({sets})"))
        .await;
    test.run("BUILD CUBE c").await;
    (test, pairs)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_budget_is_kept() {
    let (test, pairs) = little_memory().await;
    for _ in 0..4 {
        for pair in &pairs {
            test.check_hit(&format!("SELECT {pair}, sum(a), count(*) FROM f GROUP BY {pair}")).await;
            test.settle().await;
            assert!(hot(&test).bytes <= LITTLE, "{:?}", hot(&test));
        }
        test.check_hit("SELECT d3, a, sum(a) FROM f GROUP BY d3, a").await;
        test.settle().await;
    }
    let stats = hot(&test);
    assert!(stats.hits > 0 && stats.evictions > 0 && stats.failures == 0, "{stats:?}");
    let operators = test.operators("SELECT d3, a, sum(a) FROM f GROUP BY d3, a").await;
    assert!(operators.contains("DataSourceExec"), "{operators}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_cuboid_gets_memory_that_no_other_uses() {
    let (test, _) = little_memory().await;
    warm(&test, "SELECT d3, a, sum(a) FROM f GROUP BY d3, a").await;
    let stats = hot(&test);
    assert!(stats.bytes > LITTLE / 4 && stats.bytes <= LITTLE && stats.cuboids == 1, "{stats:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_whose_cuboid_was_evicted_is_made_again() {
    let (test, pairs) = little_memory().await;
    let sql = "SELECT d0, sum(a), count(*) FROM f WHERE d1 = 7 GROUP BY d0";
    assert!(becomes_ready(&test, sql).await);
    let answer = sorted(test.run(sql).await);
    let mut evicted = false;
    for _ in 0..100 {
        for pair in pairs.iter().filter(|pair| *pair != "d0, d1") {
            test.run(&format!("SELECT {pair}, sum(a) FROM f GROUP BY {pair}")).await;
            test.settle().await;
        }
        let ready = hits(&test);
        assert_same(sql, &sorted(test.run(sql).await), &answer);
        evicted = hits(&test) == ready;
        if evicted {
            break;
        }
    }
    assert!(evicted, "{:?}", hot(&test));
    assert!(becomes_ready(&test, sql).await, "it is brought back");
    assert_same(sql, &sorted(test.run(sql).await), &answer);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_budget_nothing_is_kept() {
    let test = TestEngine::with_config(|config| config.cache.hot_cuboids_percent = 0).await;
    table(&test, 2000).await;
    test.run("CREATE CUBE c AS SELECT sum(a) FROM f GROUP BY d0").await;
    test.run("BUILD CUBE c").await;
    for _ in 0..3 {
        test.check_hit("SELECT d0, sum(a) FROM f GROUP BY d0").await;
    }
    let operators = test.operators("SELECT d0, sum(a) FROM f GROUP BY d0").await;
    assert!(operators.contains("DataSourceExec"), "{operators}");
    assert_eq!(hot(&test), HotStats::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_fails_is_counted_and_fails_no_query() {
    let test = TestEngine::new().await;
    table(&test, 2000).await;
    test.run("CREATE CUBE c AS SELECT sum(a), count(b) FROM f GROUP BY d0").await;
    test.run("BUILD CUBE c").await;
    warm(&test, "SELECT d0, sum(a) FROM f GROUP BY d0").await;
    std::fs::remove_dir_all(test.path("data/cubes")).unwrap();
    // The footer that was read before says that no row matches, so the query itself needs no file.
    let rows = test.run("SELECT d0, count(b) FROM f WHERE d0 = 999 GROUP BY d0").await;
    assert!(rows.is_empty());
    test.settle().await;
    assert_eq!((hot(&test).failures, hot(&test).loading), (1, 0));
    // The load is not retried at once, and columns in memory go on answering.
    test.run("SELECT d0, count(b) FROM f WHERE d0 = 999 GROUP BY d0").await;
    test.settle().await;
    assert_eq!(hot(&test).failures, 1);
    assert_eq!(test.run("SELECT d0, sum(a) FROM f GROUP BY d0").await.len(), VALUES as usize);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_rebuilt_or_dropped_never_answers_again() {
    let test = TestEngine::new().await;
    table(&test, 2000).await;
    let create = "CREATE CUBE c AS SELECT sum(a) FROM f GROUP BY d0, d1";
    let query = "SELECT d0, sum(a) FROM f GROUP BY d0";
    test.run(create).await;
    test.run("BUILD CUBE c").await;
    warm(&test, query).await;
    for factor in [2, 3] {
        crate::harness::write_parquet(&test.path("f/part-0.parquet"), &[changed(factor)]);
        if factor == 2 {
            test.run("BUILD CUBE c").await;
        } else {
            test.run("DROP CUBE c").await;
            test.run(create).await;
            test.run("BUILD CUBE c").await;
        }
        // The query is answered from the files, and then from memory.
        test.check_hit(query).await;
        warm(&test, query).await;
        test.check_hit(query).await;
        assert_eq!(test.run("SELECT sum(a) FROM f").await[0][0], (6 * factor).to_string());
    }
}

fn changed(factor: i64) -> arrow::array::RecordBatch {
    let numbers = |values: [i64; 3]| Int64Array::from(values.to_vec());
    batch!(
        "d0" => numbers([1, 2, 3]), "d1" => numbers([1, 2, 3]), "d2" => numbers([1, 2, 3]),
        "d3" => numbers([1, 2, 3]), "d4" => numbers([1, 2, 3]), "d5" => numbers([1, 2, 3]),
        "few" => numbers([1, 2, 3]),
        "t" => StringArray::from(vec!["x", "y", "z"]),
        "a" => numbers([factor, 2 * factor, 3 * factor]),
        "b" => numbers([1, 2, 3]),
    )
}

/// A statement with one partition has all cells of a cuboid in it, and they are sorted as they come.
#[tokio::test(flavor = "multi_thread")]
async fn many_rows_are_not_taken_at_once_where_work_is_not_divided() {
    let test = TestEngine::new().await;
    table(&test, 160_000).await;
    test.run("CREATE CUBE c AS SELECT sum(a) FROM f GROUP BY few, d1, d2, a").await;
    test.run("BUILD CUBE c").await;
    test.run("SET datafusion.execution.target_partitions = 1").await;
    let each = |condition: &str| {
        format!(
            "SELECT few, d1, d2, a, sum(a) FROM f {condition} GROUP BY few, d1, d2, a ORDER BY few, d1, d2, a LIMIT 5"
        )
    };
    let all = each("");
    let cold = test.run(&all).await;
    warm(&test, &all).await;
    let operators = test.operators(&all).await;
    assert!(operators.contains("partitions=1") && !operators.contains("HotGroupsExec"), "{operators}");
    assert_eq!(test.run(&all).await, cold);
    warm_groups(&test, &each("WHERE few = 3")).await;
}

/// A block that begins in the evening and ends in the morning has times of day that do not lie between these two.
#[tokio::test(flavor = "multi_thread")]
async fn blocks_are_not_skipped_by_what_their_extremes_are_cast_to() {
    let test = TestEngine::new().await;
    let minutes = 0..40_000_i64;
    let moments = minutes.clone().map(|minute| minute * 60_000_000);
    let facts = batch!(
        "moment" => arrow::array::TimestampMicrosecondArray::from_iter_values(moments),
        "a" => Int64Array::from_iter_values(minutes.clone().map(|_| 1)),
    );
    test.table("g", &[facts]).await;
    test.run("CREATE CUBE c AS SELECT sum(a) FROM g GROUP BY moment").await;
    test.run("BUILD CUBE c").await;
    let sql = "SELECT sum(a) FROM g WHERE CAST(moment AS TIME) >= CAST('09:00:00' AS TIME)";
    warm(&test, sql).await;
    let expected = minutes.filter(|minute| minute % 1440 >= 540).count();
    assert_eq!(test.run(sql).await, [[expected.to_string()]]);
}
