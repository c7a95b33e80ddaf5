//! Ready plans: a query that comes again, with other values, is not planned again and not answered wrongly.

use arrow::array::{Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, StringArray};
use datafusion::common::ScalarValue;
use nyala_engine::Answer;

use crate::batch;
use crate::harness::{TestEngine, assert_same, parsed, ready, rows_of, sorted};

const ROWS: i64 = 20_000;

/// A cube over dimensions of many types; hits and misses of plans begin at 0.
pub(crate) async fn cube(test: &TestEngine) {
    let value = |i: i64, d: i64, most: i64| (i.wrapping_mul(2_654_435_761 + 977 * d) >> 11).rem_euclid(most);
    let rows = batch!(
        "year" => Int32Array::from_iter((0..ROWS).map(|i| (i % 31 != 7).then_some(1992 + value(i, 1, 7) as i32))),
        "city" => StringArray::from_iter(
            (0..ROWS).map(|i| (i % 29 != 3).then(|| format!("city'{}", value(i, 2, 12)))),
        ),
        "day" => Date32Array::from_iter_values((0..ROWS).map(|i| 8000 + value(i, 3, 9) as i32)),
        "price" => Decimal128Array::from_iter_values((0..ROWS).map(|i| i128::from(value(i, 4, 6)) * 25))
            .with_precision_and_scale(9, 2).unwrap(),
        "rate" => Float64Array::from_iter_values((0..ROWS).map(|i| value(i, 5, 5) as f64 / 4.0)),
        "a" => Int64Array::from_iter_values((0..ROWS).map(|i| i % 1000)),
    );
    test.table("f", &[rows]).await;
    test.run("CREATE CUBE c AS SELECT sum(a), count(*), avg(a) FROM f GROUP BY year, city, day, price, rate")
        .await;
    test.run("BUILD CUBE c").await;
}

pub(crate) fn hits(test: &TestEngine) -> u64 {
    test.engine.stats().plans.hits
}

/// Runs `sql` until a cached plan answers it; gives whether one did.
pub(crate) async fn becomes_ready(test: &TestEngine, sql: &str) -> bool {
    for _ in 0..50 {
        let before = hits(test);
        test.run(sql).await;
        if hits(test) > before {
            return true;
        }
        test.settle().await;
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    false
}

/// The answer must come from a ready plan, and be that of the tables.
async fn check_ready(test: &TestEngine, sql: &str) {
    let before = hits(test);
    let answer = sorted(test.run(sql).await);
    assert_eq!(hits(test), before + 1, "planned again: {sql}");
    assert_same(sql, &answer, &raw(test, sql).await);
}

pub(crate) async fn raw(test: &TestEngine, sql: &str) -> Vec<Vec<String>> {
    test.run("SET nyala.use_cubes = off").await;
    let answer = sorted(test.run(sql).await);
    test.run("SET nyala.use_cubes = on").await;
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn other_values_need_no_other_plan() {
    let test = TestEngine::new().await;
    cube(&test).await;
    for (first, others) in [
        (
            "SELECT city, sum(a) FROM f WHERE year = 1993 GROUP BY city",
            &[
                "SELECT city, sum(a) FROM f WHERE year = 1997 GROUP BY city",
                "SELECT city, sum(a) FROM f WHERE year = 2020 GROUP BY city",
                "SELECT city, sum(a) FROM f WHERE year = -1 GROUP BY city",
            ][..],
        ),
        (
            "SELECT sum(a), avg(a) FROM f WHERE year BETWEEN 1993 AND 1995 AND city = 'city''4'",
            &[
                "SELECT sum(a), avg(a) FROM f WHERE year BETWEEN 1996 AND 1992 AND city = 'city''4'",
                "SELECT sum(a), avg(a) FROM f WHERE year BETWEEN 1900 AND 2100 AND city = ''",
            ],
        ),
        (
            "SELECT year, count(*) FROM f WHERE city IN ('city''1', 'city''2', 'none', 'x', 'y') GROUP BY year",
            &[
                "SELECT year, count(*) FROM f WHERE city IN ('city''3', 'city''3', 'z', 'city''9', 'y') GROUP BY year",
            ],
        ),
        (
            "SELECT day, sum(a) FROM f WHERE day >= DATE '1991-11-30' AND rate < 0.5 GROUP BY day",
            &["SELECT day, sum(a) FROM f WHERE day >= DATE '1991-12-03' AND rate < 0.75 GROUP BY day"],
        ),
        (
            "SELECT price, sum(a) FROM f WHERE price > 1 GROUP BY price HAVING count(*) > 10",
            &["SELECT price, sum(a) FROM f WHERE price > 0 GROUP BY price HAVING count(*) > 3300"],
        ),
        (
            "SELECT city, sum(a) FROM f WHERE city LIKE '%1%' GROUP BY city ORDER BY 2 DESC, 1 LIMIT 3",
            &[
                "SELECT city, sum(a) FROM f WHERE city LIKE 'city''_' GROUP BY city ORDER BY 2 DESC, 1 LIMIT 3",
            ],
        ),
        (
            "SELECT year, sum(a) FROM f WHERE NOT (year <> 1994 OR city <= 'city''3') GROUP BY year",
            &["SELECT year, sum(a) FROM f WHERE NOT (year <> 1998 OR city <= 'city''8') GROUP BY year"],
        ),
    ] {
        assert!(becomes_ready(&test, first).await, "{first}");
        check_ready(&test, first).await;
        for other in others {
            check_ready(&test, other).await;
        }
    }
}

/// Some values select more rows than a cached plan may read.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_much_for_a_ready_plan_is_planned() {
    const CELLS: i64 = 150_000;
    let test = TestEngine::new().await;
    let rows = batch!(
        "id" => Int64Array::from_iter_values(0..CELLS),
        "a" => Int64Array::from_iter_values((0..CELLS).map(|i| i * 7 % 1000)),
    );
    test.table("f", &[rows]).await;
    test.run("CREATE CUBE c AS SELECT sum(a), count(*) FROM f GROUP BY id").await;
    test.run("BUILD CUBE c").await;
    let from = |id: i64| format!("SELECT count(*), sum(a) FROM f WHERE id >= {id}");
    assert!(becomes_ready(&test, &from(CELLS - 5)).await);
    check_ready(&test, &from(CELLS - 9)).await;
    let before = hits(&test);
    let answer = test.run(&from(3)).await;
    assert_same(&from(3), &answer, &raw(&test, &from(3)).await);
    assert_eq!(hits(&test), before, "it was too much");
    check_ready(&test, &from(CELLS - 1)).await;
}

/// A text that was prepared before its columns changed their types is planned for their new types.
#[tokio::test(flavor = "multi_thread")]
async fn values_of_columns_that_became_others_are_read_again() {
    let test = TestEngine::new().await;
    let make = async |ids: arrow::array::ArrayRef| {
        let rows = arrow::array::RecordBatch::try_from_iter([
            ("id", ids),
            ("a", std::sync::Arc::new(Int64Array::from_iter_values(0..100)) as _),
        ]);
        test.table("f", &[rows.unwrap()]).await;
        test.run("CREATE CUBE c AS SELECT sum(a) FROM f GROUP BY id").await;
        test.run("BUILD CUBE c").await;
    };
    let sql = "SELECT sum(a) FROM f WHERE id = 7";
    make(std::sync::Arc::new(Int64Array::from_iter_values(0..100))).await;
    assert!(becomes_ready(&test, sql).await);
    let prepared = ready(&test.session, sql);
    test.run("DROP CUBE c").await;
    test.run("DROP TABLE f").await;
    make(std::sync::Arc::new(Int32Array::from_iter_values((0..100).map(|id| id / 2)))).await;
    assert!(becomes_ready(&test, sql).await);
    let Answer::Rows(rows) = test.session.execute(&prepared, Vec::new()).await.unwrap() else {
        panic!("a query gives rows")
    };
    let answer = rows_of(&rows.collect().await.unwrap());
    assert_same(sql, &answer, &[vec!["29".to_owned()]]);
}

/// A statement takes the settings of the moment in which it runs, not of the one in which its plan was found.
#[tokio::test(flavor = "multi_thread")]
async fn a_setting_that_changes_in_between_is_followed() {
    let test = TestEngine::new().await;
    cube(&test).await;
    let sql = "SELECT sum(a) FROM f WHERE year = 1994";
    assert!(becomes_ready(&test, sql).await);
    let prepared = ready(&test.session, sql);
    let run = async || {
        let Answer::Rows(rows) = test.session.execute(&prepared, Vec::new()).await.unwrap() else {
            panic!("a query gives rows")
        };
        rows_of(&rows.collect().await.unwrap())
    };
    let ready = hits(&test);
    let answer = run().await;
    assert_eq!(hits(&test), ready + 1);
    test.run("SET nyala.use_cubes = off").await;
    assert_same(sql, &run().await, &answer);
    assert_eq!(hits(&test), ready + 1, "the plan reads a cube");
    test.run("SET nyala.use_cubes = on").await;
    assert_same(sql, &run().await, &answer);
    assert_eq!(hits(&test), ready + 2);
}

/// The intersection of two lists depends on their values, which a plan without values does not know.
#[tokio::test(flavor = "multi_thread")]
async fn lists_that_overlap_do_not_become_one_list() {
    let test = TestEngine::new().await;
    cube(&test).await;
    for sql in [
        "SELECT year, sum(a) FROM f WHERE year NOT IN (1992, 1993, 1994, 1995) OR year NOT IN (1992, 1996, 1997, 1998) GROUP BY year",
        "SELECT year, sum(a) FROM f WHERE year IN (1992, 1993, 1994, 1995) AND year IN (1992, 1996, 1997, 1998) GROUP BY year",
        "SELECT year, sum(a) FROM f WHERE NOT (year IN (1992, 1993, 1994, 1995) AND year IN (1992, 1996, 1997, 1998)) GROUP BY year",
        "SELECT year, sum(a) FROM f WHERE year IN (1992, 1993, 1994, 1995) AND year NOT IN (1992, 1996, 1997, 1998) GROUP BY year",
        "SELECT year, sum(a) FROM f WHERE year IN (1992, 1993, 1994, 1995) AND NOT (year = 1992 OR year = 1996) GROUP BY year",
        "SELECT city, sum(a) FROM f WHERE ('city''1' = city OR 'city''2' = city) AND city NOT IN ('city''1', 'x') GROUP BY city",
    ] {
        let wanted = raw(&test, sql).await;
        for _ in 0..6 {
            assert_same(sql, &sorted(test.run(sql).await), &wanted);
            test.settle().await;
        }
    }
}

/// Lists that overlap stay apart also where the client sends one of the values as a parameter.
#[tokio::test(flavor = "multi_thread")]
async fn lists_that_overlap_with_a_parameter_do_not_become_one_list() {
    let test = TestEngine::new().await;
    cube(&test).await;
    for condition in [
        "year IN ($1, 1993) AND (year = 1992 OR year = 1993)",
        "NOT (year NOT IN ($1, 1993)) AND (1992 = year OR 1993 = year)",
        "year NOT IN ($1, 1993) OR NOT (year = 1992 OR year = 1993)",
    ] {
        let sql = format!("SELECT year, sum(a) FROM f WHERE {condition} GROUP BY year");
        let wanted = raw(&test, &sql.replace("$1", "1992")).await;
        let statement = parsed(&test.session, &sql);
        let prepared = test.session.prepare(statement).await.unwrap();
        for _ in 0..8 {
            let answer = test.session.execute(&prepared, vec![ScalarValue::Int32(Some(1992))]).await.unwrap();
            let Answer::Rows(rows) = answer else { panic!("no rows") };
            assert_same(&sql, &sorted(rows_of(&rows.collect().await.unwrap())), &wanted);
            test.settle().await;
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
}

/// A plan is made without values over a scan that has no rows yet: the planner must not conclude that there are none.
#[tokio::test(flavor = "multi_thread")]
async fn limits_and_counts_hold_in_ready_plans() {
    let test = TestEngine::new().await;
    cube(&test).await;
    test.run("CREATE LIVE TABLE beside (id BIGINT PRIMARY KEY, year INT)").await;
    test.run("INSERT INTO beside VALUES (1, 1992), (2, 1993)").await;
    for (sql, rows) in [
        ("SELECT year, sum(a) FROM f GROUP BY year LIMIT 3", 3),
        ("SELECT year, sum(a) FROM f WHERE year > 1992 GROUP BY year LIMIT 2", 2),
        ("SELECT year, city, sum(a) FROM f GROUP BY year, city LIMIT 10", 10),
        ("SELECT DISTINCT year, city FROM f LIMIT 5", 5),
        ("SELECT year FROM (SELECT * FROM (SELECT year, city FROM f GROUP BY year, city) LIMIT 7) a", 7),
    ] {
        for _ in 0..8 {
            assert_eq!(test.run(sql).await.len(), rows, "{sql}");
            test.settle().await;
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
    let groups = "SELECT year, city FROM f GROUP BY year, city";
    for sql in [
        format!("SELECT count(*) FROM (SELECT * FROM ({groups}) LIMIT 7) a"),
        "SELECT count(*), sum(s) > 0 FROM (SELECT year, sum(a) AS s FROM f GROUP BY year LIMIT 3) q"
            .to_owned(),
        format!("SELECT count(*) FROM ({groups} UNION ALL {groups}) q"),
        format!("SELECT count(*) > 0 FROM ({groups} UNION ALL {groups}) q"),
        format!("SELECT count(*) FROM ({groups}) a CROSS JOIN (SELECT day FROM f GROUP BY day) b"),
        format!("SELECT count(*) FROM ({groups} UNION ALL SELECT id, 'x' FROM beside) q"),
    ] {
        let wanted = raw(&test, &sql).await;
        for _ in 0..8 {
            assert_same(&sql, &sorted(test.run(&sql).await), &wanted);
            test.settle().await;
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
    // A cached result would be out of date now.
    test.run("INSERT INTO beside VALUES (3, 1994)").await;
    let sql = format!("SELECT count(*) FROM ({groups} UNION ALL SELECT id, 'x' FROM beside) q");
    assert_same(&sql, &test.run(&sql).await, &raw(&test, &sql).await);
}

/// A value that is unknown while planning is no reason to compute rows that the other conditions rule out.
#[tokio::test(flavor = "multi_thread")]
async fn conditions_guard_in_ready_plans_too() {
    let test = TestEngine::new().await;
    let rows = batch!(
        "i" => Int32Array::from_iter((0..1000_usize).map(|i| (i % 7 != 0).then_some([0, 2, i32::MAX, i32::MIN][i % 4]))),
        "r" => Float64Array::from_iter_values((0..1000_usize).map(|i| [0.0, f64::INFINITY, 2.0][i % 3])),
        "v" => Int64Array::from_iter_values(0..1000),
    );
    test.table("odd", &[rows]).await;
    test.run("CREATE CUBE o AS SELECT sum(v), count(*), count(i) FROM odd GROUP BY GROUPING SETS ((i), (r))")
        .await;
    test.run("BUILD CUBE o").await;
    for sql in [
        "SELECT i, sum(v) / count(i) FROM odd GROUP BY i HAVING count(i) > 100 AND sum(v) / count(i) > 0",
        "SELECT i, sum(v), count(*) FROM odd GROUP BY i HAVING count(i) > 0 AND sum(v) / count(i) > -1",
        "SELECT i, sum(v), count(*) FROM odd WHERE 6 / i = 3 AND i <> 0 GROUP BY i",
        "SELECT i, sum(v), count(*) FROM odd WHERE i <> 0 AND i > -5 AND i < 5 AND 6 / i = 3 GROUP BY i",
        "SELECT i, sum(v) FROM odd WHERE i + i = 4 AND i <> 2147483647 AND i <> -2147483648 GROUP BY i",
        "SELECT r, sum(v), count(*) FROM odd WHERE cast(r AS INT) = 0 AND r > -10 AND r < 1000 GROUP BY r",
    ] {
        let wanted = raw(&test, sql).await;
        for _ in 0..8 {
            assert_same(sql, &sorted(test.run(sql).await), &wanted);
            test.settle().await;
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
}

/// DataFusion simplifies conditions on disjoint lists to `true`, which is wrong for NULL.
#[tokio::test(flavor = "multi_thread")]
async fn lists_that_exclude_each_other_say_nothing_of_null() {
    let test = TestEngine::new().await;
    let rows = batch!("x" => Int32Array::from(vec![Some(1), Some(9), None]));
    test.table("t", &[rows]).await;
    for (condition, rows, unknown) in [
        ("x NOT IN (1, 2) OR x NOT IN (3, 4)", 2, 1),
        ("x NOT IN (1, 2, 5, 6) OR x NOT IN (3, 4, 7, 8)", 2, 1),
        ("NOT x IN (1, 2, 5, 6) OR NOT x IN (3, 4, 7, 8)", 2, 1),
        ("NOT (x IN (1, 2, 5, 6) AND x IN (3, 4, 7, 8))", 2, 1),
        ("NOT (x IN (1, 2, 5, 6) AND x NOT IN (1, 2, 5, 6, 7))", 2, 1),
        ("NOT (x NOT IN (1, 2, 5, 6) AND (x = 1 OR x = 2 OR x = 5 OR x = 6))", 2, 1),
        ("NOT (x IN (1, 2, 5, 6) AND x IN (3, 4, 7, 8) AND x IN (1, 9, 11, 12))", 2, 1),
        ("x IN (1, 2, 5, 6) AND x IN (3, 4, 7, 8)", 0, 1),
        ("x IN (1, 9) AND x NOT IN (1, NULL)", 0, 2),
        ("x IN (1, 2, 5, 6) AND x NOT IN (2, 5, 6, 7, NULL)", 0, 2),
        ("x IN (1, 2, 5, NULL) AND x IN (1, 5, 6, 7)", 1, 1),
        ("x IN (1, 2, 5, NULL) OR x NOT IN (9, 5, 6, 7)", 1, 2),
        ("x NOT IN (NULL) AND x IN (1, 2)", 0, 2),
        ("x IN (1, 2, 5, 6) AND x IN (1, 4, 7, 8)", 1, 1),
        ("x NOT IN (1, 2, 5, 6) OR x NOT IN (1, 4, 7, 8)", 1, 1),
    ] {
        let sql = format!("SELECT count(*) FROM t WHERE {condition}");
        assert_eq!(test.run(&sql).await, [[rows.to_string()]], "{sql}");
        let sql = format!("SELECT count(*) FROM t WHERE ({condition}) IS NULL");
        assert_eq!(test.run(&sql).await, [[unknown.to_string()]], "{sql}");
        let sql = format!("SELECT {condition} FROM t GROUP BY {condition}");
        test.run(&sql).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_are_compared_as_another_type_are_planned() {
    let test = TestEngine::new().await;
    cube(&test).await;
    let shape = |value: &str| format!("SELECT city, sum(a) FROM f WHERE year < {value} GROUP BY city");
    assert!(becomes_ready(&test, &shape("1995")).await);
    for value in ["1994.5", "99999999999", "1994.99999999"] {
        let before = hits(&test);
        let answer = sorted(test.run(&shape(value)).await);
        assert_eq!(hits(&test), before, "{value}");
        assert_same(value, &answer, &raw(&test, &shape(value)).await);
    }
    let price = |value: &str| format!("SELECT city, sum(a) FROM f WHERE price = {value} GROUP BY city");
    assert!(becomes_ready(&test, &price("1")).await);
    for value in ["0.25", "0.255"] {
        let answer = sorted(test.run(&price(value)).await);
        assert_same(value, &answer, &raw(&test, &price(value)).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_of_clients_take_the_same_way() {
    let test = TestEngine::new().await;
    cube(&test).await;
    let sql = "SELECT count(*) FROM f WHERE year = $1 AND city = $2";
    let statement = parsed(&test.session, sql);
    let prepared = test.session.prepare(statement).await.unwrap();
    let run = async |year: Option<i32>, city: &str| {
        let values = vec![ScalarValue::Int32(year), ScalarValue::Utf8(Some(city.to_owned()))];
        match test.session.execute(&prepared, values).await.unwrap() {
            Answer::Rows(rows) => sorted(rows_of(&rows.collect().await.unwrap())),
            Answer::Done(_) => panic!("no rows"),
        }
    };
    let mut before = hits(&test);
    for _ in 0..50 {
        run(Some(1993), "city'1").await;
        test.settle().await;
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(hits(&test) > before);
    for year in 1992..1999 {
        before = hits(&test);
        let expected = format!("SELECT count(*) FROM f WHERE year = {year} AND city = 'city''3'");
        assert_eq!(run(Some(year), "city'3").await, raw(&test, &expected).await);
        assert_eq!(hits(&test), before + 1);
    }
    assert_eq!(run(None, "city'3").await, raw(&test, "SELECT count(*) FROM f WHERE false").await);
    let again = ready(&test.session, sql);
    assert_eq!(again.parameter_types().len(), 2);
    let error = test.session.execute(&again, Vec::new()).await.unwrap_err();
    assert!(error.to_string().contains("2 parameters"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_with_time_is_planned_every_time() {
    let test = TestEngine::new().await;
    cube(&test).await;
    for sql in [
        "SELECT city, sum(a) FROM f WHERE day < current_date GROUP BY city",
        "SELECT now(), sum(a) FROM f WHERE year = 1993",
    ] {
        assert!(!becomes_ready(&test, sql).await, "{sql}");
    }
}

/// `SELECT 1` of a connection pool has a cached plan; results that depend on the session or the time have none.
#[tokio::test(flavor = "multi_thread")]
async fn what_reads_nothing_is_not_planned_again() {
    let test = TestEngine::new().await;
    test.table("f", &[batch!("a" => Int64Array::from_iter_values(0..10))]).await;
    for (sql, expected) in [("SELECT 1", "1"), ("SELECT 'a' || 'b' AS t", "ab"), ("SELECT upper('x')", "X")] {
        assert!(becomes_ready(&test, sql).await, "{sql}");
        assert_eq!(test.run(sql).await, [[expected]]);
    }
    for sql in ["SELECT random()", "SELECT now()", "SELECT count(*) FROM f", "SELECT 1 FROM f"] {
        assert!(!becomes_ready(&test, sql).await, "{sql}");
    }
}

/// Conditions on one sorted column are decided on its values, not on rows.
#[tokio::test(flavor = "multi_thread")]
async fn conditions_of_all_kinds_leave_the_rows_of_the_tables() {
    let test = TestEngine::new().await;
    cube(&test).await;
    for condition in [
        "year = 1994 OR city = 'city''3'",
        "year IS NULL",
        "city IS NOT NULL AND year IS NULL",
        "year IN (1993, 1996) AND city NOT IN ('city''1', 'city''2')",
        "year <> 1995 AND (city IS NULL OR city > 'city''5')",
        "year % 2 = 0 AND price > rate",
        "coalesce(year, 0) < 1993 AND rate = 0.25 AND day < DATE '1991-12-02'",
        "year > 2000",
        "NOT (year = 1994)",
    ] {
        let sql = format!("SELECT day, count(*), sum(a) FROM f WHERE {condition} GROUP BY day");
        let expected = raw(&test, &sql).await;
        for _ in 0..6 {
            assert_same(&sql, &sorted(test.run(&sql).await), &expected);
            test.settle().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_catalog_or_setting_means_another_plan() {
    let test = TestEngine::new().await;
    cube(&test).await;
    let sql = "SELECT city, sum(a) FROM f WHERE year = 1993 GROUP BY city";
    assert!(becomes_ready(&test, sql).await);
    let expected = raw(&test, sql).await;
    let before = hits(&test);
    test.run("SET datafusion.execution.batch_size = 100").await;
    assert_eq!(sorted(test.run(sql).await), expected);
    assert_eq!(hits(&test), before, "the setting was not looked at");
    test.run("RESET datafusion.execution.batch_size").await;
    let held = ready(&test.session, sql);
    test.run("DROP CUBE c").await;
    let before = hits(&test);
    assert_eq!(sorted(test.run(sql).await), expected);
    match test.session.execute(&held, Vec::new()).await.unwrap() {
        Answer::Rows(rows) => assert_eq!(sorted(rows_of(&rows.collect().await.unwrap())), expected),
        Answer::Done(_) => panic!("no rows"),
    }
    assert_eq!(hits(&test), before, "a plan outlived its cube");
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_are_kept_within_their_budget() {
    let test = TestEngine::with_config(|config| config.cache.plans_bytes = 64 << 10).await;
    cube(&test).await;
    for n in 0..200 {
        let sql = format!("SELECT city AS c{n}, sum(a) FROM f WHERE year = 1993 GROUP BY city");
        test.run(&sql).await;
        test.run(&sql).await;
    }
    let stats = test.engine.stats().plans;
    assert!(stats.bytes <= 64 << 10, "{stats:?}");
    let none = TestEngine::with_config(|config| config.cache.plans_bytes = 0).await;
    cube(&none).await;
    assert!(!becomes_ready(&none, "SELECT city, sum(a) FROM f WHERE year = 1993 GROUP BY city").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_of_what_was_there_before_are_given_up() {
    let test = TestEngine::new().await;
    cube(&test).await;
    let sql = "SELECT city, sum(a) FROM f WHERE year = 1995 GROUP BY city";
    assert!(becomes_ready(&test, sql).await);
    assert!(test.engine.stats().plans.bytes > 0);
    test.run("CREATE SCHEMA s").await;
    let plans = test.engine.stats().plans;
    assert_eq!((plans.entries, plans.bytes), (0, 0));
    assert!(becomes_ready(&test, sql).await);
    check_ready(&test, sql).await;
}
