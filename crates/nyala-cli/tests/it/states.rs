//! The stored state schema of every supported aggregate is part of the on-disk format. If this test
//! fails after an upgrade, files written before it would be misread: raise the function's state version.

use std::fmt::Write;
use std::path::Path;

use crate::cubes::shop_star;

const MEASURES: &[&str] = &[
    "count(*)",
    "count(quantity)",
    "count(DISTINCT buyer)",
    "sum(quantity)",
    "sum(price)",
    "sum(money)",
    "sum(DISTINCT buyer)",
    "min(day)",
    "max(price)",
    "avg(quantity)",
    "avg(price)",
    "avg(money)",
    "stddev(price)",
    "stddev_pop(price)",
    "var(price)",
    "var_pop(price)",
    "covar_samp(price, quantity)",
    "covar_pop(price, quantity)",
    "corr(price, quantity)",
    "regr_slope(price, quantity)",
    "regr_intercept(price, quantity)",
    "regr_count(price, quantity)",
    "regr_r2(price, quantity)",
    "regr_avgx(price, quantity)",
    "regr_avgy(price, quantity)",
    "regr_sxx(price, quantity)",
    "regr_syy(price, quantity)",
    "regr_sxy(price, quantity)",
    "bool_and(price > 3)",
    "bool_or(price > 3)",
    "bit_and(buyer)",
    "bit_or(buyer)",
    "bit_xor(buyer)",
    "approx_percentile_cont(price, 0.9)",
    "approx_median(price)",
    "approx_distinct(buyer)",
    "approx_top_k(product, 3)",
    "bitmap_distinct(buyer)",
    "bitmap_distinct(day)",
    "bitmap_distinct(price)",
    "bitmap_distinct(money)",
    "bitmap_distinct(CASE WHEN price > 3 THEN 'far' ELSE 'near' END)",
    "bitmap_agg(buyer)",
    "bitmap_union(to_bitmap(buyer))",
    "bitmap_union_count(to_bitmap(buyer))",
    "intersect_count(buyer, product, 1, 2)",
    "sum(quantity) FILTER (WHERE price > 3)",
];

/// The calls with aliases, since DataFusion names `sum(CAST(x AS …))` like `sum(x)`.
fn select_list() -> String {
    let items: Vec<String> = MEASURES.iter().enumerate().map(|(i, m)| format!("{m} AS v{i}")).collect();
    items.join(", ")
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_states_are_what_they_were() {
    let test = shop_star().await;
    let measures = select_list();
    test.run(&format!("CREATE CUBE c AS SELECT product, {measures} FROM sales GROUP BY product")).await;
    let snapshot = test.engine.catalog().snapshot();
    let cube = snapshot.cubes.values().next().unwrap();
    let mut found = String::new();
    for (measure, text) in cube.definition.measures.iter().zip(MEASURES) {
        writeln!(found, "{text}  version {}", measure.state_version).unwrap();
        for state in &measure.states {
            writeln!(found, "    {} {}", state.name, state.data_type).unwrap();
        }
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/states.txt");
    if std::env::var_os("NYALA_UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &found).unwrap();
    }
    let expected = std::fs::read_to_string(&golden).unwrap();
    assert_eq!(found, expected, "the on-disk format changed; see the head of this file");
}

fn digest(measure: &str) -> bool {
    measure.starts_with("approx_percentile") || measure.starts_with("approx_median")
}

/// Each aggregate must also be answered from its states.
#[tokio::test(flavor = "multi_thread")]
async fn every_supported_aggregate_answers_from_its_states() {
    let test = shop_star().await;
    let measures = select_list();
    test.run(&format!("CREATE CUBE c AS SELECT product, {measures} FROM sales GROUP BY ROLLUP (product)"))
        .await;
    test.run("BUILD CUBE c").await;
    for measure in MEASURES.iter().filter(|m| !digest(m)) {
        test.check_hit(&format!("SELECT {measure} FROM sales")).await;
        test.check_hit(&format!("SELECT product, {measure} FROM sales GROUP BY product")).await;
        test.check_hit(&format!("SELECT {measure} FROM sales WHERE product > 99")).await;
    }
    // Digests depend on the order of merging, and are approximate.
    for measure in MEASURES.iter().filter(|m| digest(m)) {
        let sql = format!("SELECT {measure} FROM sales");
        assert!(test.explain(&sql).await.contains("answered from cube"));
        let with: f64 = test.run(&sql).await[0][0].parse().unwrap();
        test.run("SET nyala.use_cubes = off").await;
        let without: f64 = test.run(&sql).await[0][0].parse().unwrap();
        test.run("SET nyala.use_cubes = on").await;
        assert!((with - without).abs() <= 0.02 * without.abs(), "{measure}: {with} {without}");
    }
}
