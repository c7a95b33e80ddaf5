//! Functions of our own: bitmaps, exact counts of distinct values, sketches; on tables and from cubes.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int8Array, Int32Array,
    Int64Array, RecordBatch, StringArray, Time64MicrosecondArray, TimestampMicrosecondArray, UInt64Array,
};
use nyala_engine::ErrorKind;

use crate::batch;
use crate::cubes::shop_star;
use crate::harness::TestEngine;

#[tokio::test(flavor = "multi_thread")]
async fn bitmap_functions_give_what_their_names_say() {
    let test = TestEngine::new().await;
    let (a, b) = ("bitmap_from_string('1,2,3')", "bitmap_from_string('3,4,-7')");
    let checks = [
        ("bitmap_to_string(to_bitmap(-5))".to_owned(), "-5"),
        ("bitmap_to_string(bitmap_empty())".to_owned(), ""),
        ("bitmap_count(bitmap_empty())".to_owned(), "0"),
        (format!("bitmap_count({a})"), "3"),
        (format!("bitmap_to_string(bitmap_and({a}, {b}))"), "3"),
        (format!("bitmap_to_string(bitmap_or({a}, {b}))"), "-7,1,2,3,4"),
        (format!("bitmap_to_string(bitmap_or({a}, {b}, to_bitmap(9)))"), "-7,1,2,3,4,9"),
        (format!("bitmap_to_string(bitmap_xor({a}, {b}))"), "-7,1,2,4"),
        (format!("bitmap_to_string(bitmap_andnot({a}, {b}))"), "1,2"),
        (format!("bitmap_to_string(bitmap_and_not({b}, {a}))"), "-7,4"),
        (format!("bitmap_contains({a}, 2)"), "true"),
        (format!("bitmap_contains({a}, 4)"), "false"),
        (format!("bitmap_contains({a}, NULL)"), "NULL"),
        (format!("bitmap_has_any({a}, {b})"), "true"),
        (format!("bitmap_has_any({a}, to_bitmap(8))"), "false"),
        (format!("bitmap_min({b})"), "-7"),
        (format!("bitmap_max({b})"), "4"),
        ("bitmap_min(bitmap_empty())".to_owned(), "NULL"),
        ("bitmap_count(NULL)".to_owned(), "NULL"),
        ("to_bitmap(NULL)".to_owned(), "NULL"),
        (format!("bitmap_or({a}, NULL)"), "NULL"),
        ("bitmap_from_string('1,two')".to_owned(), "NULL"),
        (format!("bitmap_or({a}, {b}) = bitmap_or({b}, {a})"), "true"),
        ("bitmap_to_string(to_bitmap(9223372036854775807))".to_owned(), "9223372036854775807"),
    ];
    for (expression, expected) in checks {
        assert_eq!(test.run(&format!("SELECT {expression}")).await[0][0], expected, "{expression}");
    }
}

/// A short statement would allocate gigabytes, in memory that is not accounted for.
#[tokio::test(flavor = "multi_thread")]
async fn functions_that_make_much_of_little_are_bounded() {
    let test = TestEngine::new().await;
    for much in [
        "array_length(generate_series(1, 2000000000))",
        "array_length(range(0, -9000000000, -1))",
        "array_length(generate_series(DATE '0001-01-01', DATE '9999-01-01', INTERVAL '1 second'))",
        "array_length(generate_series(TIMESTAMP '2000-01-01', TIMESTAMP '2030-01-01', INTERVAL '5 microseconds'))",
        "array_length(array_repeat(1, 2000000000))",
        "array_length(generate_series(arrow_cast(0, 'Timestamp(Second, None)'), \
         arrow_cast(9000000000, 'Timestamp(Second, None)'), INTERVAL '1 second'))",
        "length(repeat('abc', 500000000))",
        "length(lpad('x', 2000000000, 'y'))",
    ] {
        let sql = format!("SELECT {much}");
        test.error(&sql, ErrorKind::LimitExceeded, "at most").await;
        test.error(&format!("{sql} FROM range(3) AS t(n)"), ErrorKind::LimitExceeded, "at most").await;
    }
    let little = "SELECT array_length(generate_series(1, 1000000)), length(repeat('abc', 1000)), rpad('x', 3, 'y'), \
                  array_length(range(5, 1)), array_length(generate_series(DATE '2024-01-01', DATE '2024-12-31', INTERVAL '1 month')), \
                  array_length(generate_series(CAST(NULL AS BIGINT), 20000000))";
    assert_eq!(test.run(little).await, [["1000000", "3000", "xyy", "NULL", "12", "NULL"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_arguments_are_explained() {
    let test = TestEngine::new().await;
    let checks = [
        ("bitmap_count(7)", ErrorKind::InvalidText, "takes bitmaps, not `Int64`"),
        ("bitmap_and(to_bitmap(1))", ErrorKind::InvalidText, "2 or more arguments"),
        ("to_bitmap('x')", ErrorKind::InvalidText, "takes integers, not `Utf8`"),
        ("to_bitmap(1.5)", ErrorKind::InvalidText, "bitmap_distinct"),
        ("bitmap_union(1)", ErrorKind::InvalidText, "to_bitmap"),
        ("bitmap_distinct([1, 2])", ErrorKind::Unsupported, "count(DISTINCT x)"),
        ("bitmap_distinct(1, 2)", ErrorKind::InvalidText, "takes one argument"),
        ("intersect_count(1, 2)", ErrorKind::InvalidText, "a column and its values"),
        ("intersect_count(1, 2, 1.5)", ErrorKind::InvalidText, "would round a `Decimal128(2, 1)`"),
        ("approx_top_k(1, 0)", ErrorKind::InvalidText, "from 1 to 1024"),
        ("approx_top_k(1)", ErrorKind::InvalidText, "from 1 to 1024"),
        ("bitmap_count(arrow_cast('hello', 'Binary'))", ErrorKind::Data, "version `104`"),
        ("bitmap_union_count(arrow_cast('', 'Binary'))", ErrorKind::Data, "ends too early"),
    ];
    for (expression, kind, words) in checks {
        test.error(&format!("SELECT {expression}"), kind, words).await;
    }
    test.error(
        "SELECT to_bitmap(arrow_cast(18446744073709551615, 'UInt64'))",
        ErrorKind::OutOfRange,
        "18446744073709551615",
    )
    .await;
}

/// One column for each type, with nulls, repeated values and a group without any.
fn columns() -> Vec<(&'static str, ArrayRef)> {
    let at = |i: i64| (i % 5 != 0 && i % 4 != 3).then_some(i * 31 % 17 - 8);
    let rows = || (0..200).map(at);
    let text = |v: i64| format!("text number {v}");
    vec![
        ("i8", Arc::new(Int8Array::from_iter(rows().map(|v| v.map(|v| v as i8))))),
        ("i64", Arc::new(Int64Array::from_iter(rows().map(|v| v.map(|v| v * 1_000_000_007))))),
        ("u64", Arc::new(UInt64Array::from_iter(rows().map(|v| v.map(|v| v as u64))))),
        ("d", Arc::new(Date32Array::from_iter(rows().map(|v| v.map(|v| v as i32))))),
        ("ts", Arc::new(TimestampMicrosecondArray::from_iter(rows()))),
        ("tm", Arc::new(Time64MicrosecondArray::from_iter(rows().map(|v| v.map(|v| v + 100))))),
        ("f", Arc::new(Float64Array::from_iter(rows().map(|v| v.map(|v| v as f64 / 3.0))))),
        (
            "dec",
            Arc::new(
                Decimal128Array::from_iter(rows().map(|v| v.map(i128::from)))
                    .with_precision_and_scale(20, 3)
                    .unwrap(),
            ),
        ),
        ("b", Arc::new(BooleanArray::from_iter(rows().map(|v| v.map(|v| v > 0))))),
        ("s", Arc::new(StringArray::from_iter(rows().map(|v| v.map(text))))),
        ("bin", Arc::new(BinaryArray::from_iter(rows().map(|v| v.map(text))))),
    ]
}

async fn typed() -> TestEngine {
    let test = TestEngine::new().await;
    let group: ArrayRef = Arc::new(Int32Array::from_iter_values((0..200).map(|i| i % 4)));
    let part: ArrayRef = Arc::new(Int32Array::from_iter_values((0..200).map(|i| i % 7)));
    let all = [("g", group), ("p", part)].into_iter().chain(columns());
    let batch = RecordBatch::try_from_iter_with_nullable(all.map(|(name, column)| (name, column, true)));
    test.table("t", &[batch.unwrap()]).await;
    test
}

#[tokio::test(flavor = "multi_thread")]
async fn every_type_is_counted_exactly_on_tables_and_from_cubes() {
    let test = typed().await;
    let measures: Vec<String> =
        columns().iter().map(|(name, _)| format!("bitmap_distinct({name})")).collect();
    test.run(&format!("CREATE CUBE c AS SELECT g, p, {} FROM t GROUP BY CUBE (g, p)", measures.join(", ")))
        .await;
    test.run("BUILD CUBE c").await;
    for (name, _) in columns() {
        for (select, rest) in [
            ("", ""),
            ("g, ", " GROUP BY g"),
            ("", " WHERE p < 3"),
            ("g, ", " WHERE p <> 2 GROUP BY g"),
            ("", " WHERE p > 100"),
            ("g, p, ", " GROUP BY g, p"),
        ] {
            let ours = format!("SELECT {select}bitmap_distinct({name}) FROM t{rest}");
            test.check_hit(&ours).await;
            let theirs = test.run(&format!("SELECT {select}count(DISTINCT {name}) FROM t{rest}")).await;
            assert_eq!(
                crate::harness::sorted(test.run(&ours).await),
                crate::harness::sorted(theirs),
                "{ours}"
            );
        }
        // The call is not a measure, so that it is computed from rows.
        let filtered = format!("bitmap_distinct({name}) FILTER (WHERE i8 > 0)");
        let plain = format!("count(DISTINCT {name}) FILTER (WHERE i8 > 0)");
        for group in ["", " GROUP BY g ORDER BY g"] {
            let ours = test.run(&format!("SELECT {filtered} FROM t{group}")).await;
            assert_eq!(ours, test.run(&format!("SELECT {plain} FROM t{group}")).await, "{filtered}{group}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dictionaries_count_like_their_values() {
    let test = typed().await;
    let dictionary = "arrow_cast(s, 'Dictionary(Int32, Utf8)')";
    for measure in ["bitmap_distinct", "approx_distinct"] {
        let ours = test.run(&format!("SELECT g, {measure}({dictionary}) FROM t GROUP BY g ORDER BY g")).await;
        let plain = test.run("SELECT g, count(DISTINCT s) FROM t GROUP BY g ORDER BY g").await;
        assert_eq!(ours, plain, "{measure}");
    }
    let top = test.run(&format!("SELECT approx_top_k({dictionary}, 1) FROM t")).await;
    assert_eq!(top, test.run("SELECT approx_top_k(s, 1) FROM t").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn aggregates_of_bitmaps_agree_with_counts() {
    let test = shop_star().await;
    test.run(
        "CREATE CUBE c AS SELECT product, shop, bitmap_agg(buyer), bitmap_union(to_bitmap(buyer)),
           bitmap_union_count(to_bitmap(buyer)), intersect_count(buyer, shop, 1, 2),
           intersect_count(to_bitmap(buyer), shop, 1, 3), approx_distinct(buyer), approx_top_k(shop, 2)
         FROM sales GROUP BY CUBE (product, shop)",
    )
    .await;
    test.run("BUILD CUBE c").await;
    let exact = "count(DISTINCT buyer)";
    let both = "SELECT count(*) FROM (SELECT buyer FROM sales WHERE shop = 1 INTERSECT SELECT buyer FROM sales WHERE shop = 2)";
    check(&test, "bitmap_count(bitmap_agg(buyer))", &format!("SELECT {exact} FROM sales")).await;
    check(&test, "bitmap_union_count(to_bitmap(buyer))", &format!("SELECT {exact} FROM sales")).await;
    check(&test, "bitmap_max(bitmap_union(to_bitmap(buyer)))", "SELECT max(buyer) FROM sales").await;
    check(&test, "intersect_count(buyer, shop, 1, 2)", both).await;
    check(&test, "approx_distinct(buyer)", &format!("SELECT {exact} FROM sales")).await;
    for measure in [
        "bitmap_to_string(bitmap_agg(buyer))",
        "intersect_count(to_bitmap(buyer), shop, 1, 3)",
        "approx_top_k(shop, 2)",
    ] {
        test.check_hit(&format!("SELECT product, {measure} FROM sales GROUP BY product")).await;
        test.check_hit(&format!("SELECT {measure} FROM sales WHERE shop < 3")).await;
    }
    let top = test.run("SELECT approx_top_k(shop, 2) FROM sales").await;
    assert_eq!(top[0][0], "[{item: 1, count: 667}, {item: 2, count: 667}]");

    async fn check(test: &TestEngine, measure: &str, expected: &str) {
        let sql = format!("SELECT {measure} FROM sales");
        test.check_hit(&sql).await;
        assert_eq!(test.run(&sql).await, test.run(expected).await, "{measure}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_rows_give_empty_answers() {
    let test = shop_star().await;
    let row = test
        .run(
            "SELECT bitmap_distinct(buyer), bitmap_count(bitmap_agg(buyer)), bitmap_union_count(to_bitmap(buyer)),
               intersect_count(buyer, shop, 1, 2), approx_distinct(buyer), approx_top_k(buyer, 3),
               bitmap_distinct(price) FROM sales WHERE shop > 9",
        )
        .await;
    assert_eq!(row[0], ["0", "0", "0", "0", "0", "[]", "0"]);
    let none = test.run("SELECT bitmap_distinct(NULL), approx_distinct(NULL) FROM sales").await;
    assert_eq!(none[0], ["0", "0"]);
}

/// A window asks for the value after every row, which must not start the count anew.
#[tokio::test(flavor = "multi_thread")]
async fn windows_count_what_they_have_seen() {
    let test = TestEngine::new().await;
    let rows = test
        .run(
            "SELECT x, bitmap_distinct(x) OVER (ORDER BY i), bitmap_distinct(s) OVER (ORDER BY i),
               approx_distinct(x) OVER (ORDER BY i), approx_distinct(x) OVER ()
             FROM (VALUES (1, 5, 'a'), (2, 5, 'b'), (3, 6, 'a')) AS t(i, x, s) ORDER BY i",
        )
        .await;
    assert_eq!(rows, [["5", "1", "1", "1", "2"], ["5", "1", "2", "1", "2"], ["6", "2", "2", "2", "2"]]);
}

/// There are enough values for states of every form, and for a sketch that really estimates.
#[tokio::test(flavor = "multi_thread")]
async fn large_sets_stay_exact_and_estimates_near() {
    let test = TestEngine::new().await;
    let n = 60_000;
    let ids = (0..n).map(|i| i64::from(i) * 7919 % 40_009);
    let batch = RecordBatch::try_from_iter([
        ("g", Arc::new(Int32Array::from_iter_values((0..n).map(|i| i % 50))) as ArrayRef),
        ("id", Arc::new(Int64Array::from_iter_values(ids.clone()))),
        ("name", Arc::new(StringArray::from_iter_values(ids.map(|id| format!("customer {id}"))))),
    ])
    .unwrap();
    test.table("t", &[batch]).await;
    test.run(
        "CREATE CUBE c AS SELECT g, bitmap_distinct(id), bitmap_distinct(name), approx_distinct(name)
         FROM t GROUP BY ROLLUP (g)",
    )
    .await;
    test.run("BUILD CUBE c").await;
    for from in ["FROM t", "FROM t WHERE g < 20", "FROM t WHERE g = 3", "FROM t GROUP BY g ORDER BY g"] {
        let sql = format!("SELECT bitmap_distinct(id), bitmap_distinct(name), approx_distinct(name) {from}");
        test.check_hit(&sql).await;
        let exact = test.run(&format!("SELECT count(DISTINCT id) {from}")).await;
        for (row, exact) in test.run(&sql).await.iter().zip(&exact) {
            assert_eq!((&row[0], &row[1]), (&exact[0], &exact[0]), "{sql}");
            let (near, exact): (f64, f64) = (row[2].parse().unwrap(), exact[0].parse().unwrap());
            assert!((near - exact).abs() <= 0.0325 * exact, "{sql}: {near} for {exact}");
        }
    }
}

/// Groups that do not fit into memory go to disk as states and are merged from there.
#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_into_memory_is_spilled_and_stays_exact() {
    let test = TestEngine::with_config(|config| config.query.memory_limit_bytes = 16 << 20).await;
    let rows = 300_000i64;
    let batch = RecordBatch::try_from_iter([
        ("g", Arc::new(Int64Array::from_iter_values((0..rows).map(|i| i * 31 % 30_011))) as ArrayRef),
        ("id", Arc::new(Int64Array::from_iter_values((0..rows).map(|i| i * 7919 % 1_000_003)))),
        ("name", Arc::new(StringArray::from_iter_values((0..rows).map(|i| format!("name {}", i % 977))))),
    ]);
    test.table("t", &[batch.unwrap()]).await;
    let sums = |id: &str, name: &str| {
        format!(
            "SELECT sum(a), sum(b), count(*), min(b) FROM (SELECT g, {id} AS a, {name} AS b FROM t GROUP BY g)"
        )
    };
    let ours = sums("bitmap_distinct(id)", "bitmap_distinct(name)");
    let plan = test.run(&format!("EXPLAIN ANALYZE {ours}")).await.concat().concat();
    assert!(
        plan.contains("spill_count=") && !plan.split("spill_count=").skip(1).all(|n| n.starts_with('0')),
        "{plan}"
    );
    let roomy = TestEngine::new().await;
    let location = test.path("t");
    roomy.run(&format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{}/'", location.display())).await;
    let expected = roomy.run(&sums("count(DISTINCT id)", "count(DISTINCT name)")).await;
    assert_eq!(test.run(&ours).await, expected);
}

/// NaN is greater than all other floats, and an infinity is an extreme like any other; with groups and without, on
/// the table, from a cube, and over a window.
#[tokio::test(flavor = "multi_thread")]
async fn extremes_of_floats_know_nan_and_infinity() {
    let test = TestEngine::new().await;
    let (nan, infinity) = (f64::NAN, f64::INFINITY);
    let rows = batch!(
        "i" => Int64Array::from_iter_values(0..9),
        "g" => Int32Array::from(vec![1, 1, 1, 2, 2, 3, 4, 4, 5]),
        "x" => Float64Array::from(vec![
            Some(2.0), Some(nan), Some(1.0), Some(-infinity), None, Some(infinity), Some(-nan), Some(5.0), None,
        ]),
    );
    test.table("t", &[rows]).await;
    let by_group = "SELECT g, min(x), max(x) FROM t GROUP BY g ORDER BY g";
    let groups = [
        ["1", "1.0", "NaN"],
        ["2", "-inf", "-inf"],
        ["3", "inf", "inf"],
        ["4", "5.0", "NaN"],
        ["5", "NULL", "NULL"],
    ];
    let total = "SELECT min(x), max(x) FROM t";
    assert_eq!(test.run(by_group).await, groups);
    assert_eq!(test.run(total).await, [["-inf", "NaN"]]);
    let window = "SELECT min(x) OVER w, max(x) OVER w FROM t \
                  WINDOW w AS (ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) ORDER BY i LIMIT 4";
    let expected = [["2.0", "2.0"], ["2.0", "NaN"], ["1.0", "NaN"], ["-inf", "1.0"]];
    assert_eq!(test.run(window).await, expected);
    test.run("CREATE CUBE c AS SELECT g, min(x), max(x) FROM t GROUP BY ROLLUP (g)").await;
    test.run("BUILD CUBE c").await;
    for sql in [by_group, total, "SELECT min(x), max(x) FROM t WHERE g <> 3"] {
        test.check_hit(sql).await;
    }
    assert_eq!(test.run(by_group).await, groups);
    assert_eq!(test.run(total).await, [["-inf", "NaN"]]);
}

/// Values far from zero do not lose the digits in which they differ, and constant values have no correlation.
#[tokio::test(flavor = "multi_thread")]
async fn correlations_by_group_are_those_of_the_values() {
    let test = TestEngine::new().await;
    let n = 300;
    let times = (0..n).map(|i| 1.7e9 + f64::from(i % 100));
    let rows = batch!(
        "g" => Int32Array::from_iter_values((0..n).map(|i| i % 3)),
        "x" => Float64Array::from_iter_values(times),
        "y" => Float64Array::from_iter_values((0..n).map(|i| f64::from(i % 100) * 3.0)),
        "same" => Float64Array::from_iter_values((0..n).map(|_| 0.1)),
    );
    test.table("t", &[rows]).await;
    let checked = "abs(corr(x, y) - 1) < 0.000001, corr(same, y)";
    test.run("CREATE CUBE c AS SELECT g, corr(x, y), corr(same, y) FROM t GROUP BY ROLLUP (g)").await;
    test.run("BUILD CUBE c").await;
    for cubes in ["off", "on"] {
        test.run(&format!("SET nyala.use_cubes = {cubes}")).await;
        let sql = format!("SELECT {checked} FROM t");
        assert_eq!(test.run(&sql).await, [["true", "NULL"]], "cubes are {cubes}");
        let sql = format!("SELECT g, {checked} FROM t GROUP BY g ORDER BY g");
        let expected = [["0", "true", "NULL"], ["1", "true", "NULL"], ["2", "true", "NULL"]];
        assert_eq!(test.run(&sql).await, expected, "cubes are {cubes}");
    }
    test.check_hit("SELECT g, corr(x, y) FROM t GROUP BY g").await;
}

/// A constant bitmap is read once, not copied for every row.
#[tokio::test(flavor = "multi_thread")]
async fn rows_are_chosen_by_a_constant_bitmap() {
    let test = TestEngine::new().await;
    let ids = Int64Array::from_iter((0..20_000).map(|id| (id % 10 != 0).then_some(id)));
    test.table("t", &[batch!("id" => ids)]).await;
    let few = "bitmap_from_string('5,10,15,17,40000')";
    let chosen = test.run(&format!("SELECT id FROM t WHERE bitmap_contains({few}, id) ORDER BY id")).await;
    assert_eq!(chosen, [["5"], ["15"], ["17"]]);
    let common = "bitmap_count(bitmap_and(to_bitmap(id), few))";
    let counts = test.run(&format!("SELECT count(*), sum({common}) FROM t, (SELECT {few} AS few)")).await;
    assert_eq!(counts, [["20000", "3"]]);
}

/// DataFusion keeps the groups with the first extremes by comparing with `>`, which is false for NaN, and skips
/// files by an extreme that it has seen.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_extremes_know_nan() {
    let test = TestEngine::new().await;
    let sql = "SELECT g, min(x) AS m FROM (VALUES ('a', 1.0::DOUBLE), ('b', 'NaN'::DOUBLE)) v (g, x) \
               GROUP BY g ORDER BY m LIMIT 1";
    assert_eq!(test.run(sql).await, [["a", "1.0"]]);
}
