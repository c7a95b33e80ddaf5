//! Many cubes over one fact table: the one that reads fewest rows is found, as if each had been tried. EXPLAIN does try
//! each, and the harness compares.

use crate::harness::TestEngine;
use crate::property::{build, random_cube, random_query, star};
use crate::random::{Random, seed};

const CUBES: usize = 20;
const QUERIES: usize = 60;

#[tokio::test(flavor = "multi_thread")]
async fn the_cube_that_is_found_is_the_best_of_all() {
    let seed = seed();
    let mut random = Random(seed);
    let test = star(&mut random).await;
    let mut cubes = Vec::new();
    for n in 0..CUBES {
        let name = format!("c{n}");
        let cube = random_cube(&mut random, &name);
        test.run(&cube.0).await;
        // Some cubes are not built, and cannot answer.
        if random.chance(90) {
            build(&mut random, &test, &name, cube.3).await;
        }
        cubes.push(cube);
    }
    // A change of the files after a build leaves a cube without segments that may be used: some are built for the last files.
    for n in 0..CUBES {
        if random.chance(50) {
            test.run(&format!("BUILD CUBE c{n}")).await;
        }
    }
    let mut hits = 0;
    for _ in 0..QUERIES {
        let (cube, dimensions, measures, _) = &cubes[random.below(CUBES)];
        let filtered = cube.contains("WHERE flag IS NOT NULL");
        let query = random_query(&mut random, dimensions, measures, filtered);
        let report = test.explain(&query).await;
        hits += usize::from(report.contains("answered from cube"));
        println!("NYALA_SEED={seed} {query}");
        test.check_same(&query).await;
    }
    assert!(hits > 0, "NYALA_SEED={seed}: only {hits} of {QUERIES} answered from cubes");
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_costs_go_to_the_first_cube_and_reasons_say_so() {
    let test = crate::cubes::shop_star().await;
    for (name, set) in [("wide", "(shop, product), (shop)"), ("a_narrow", "(shop)"), ("other", "(product)")] {
        test.run(&format!(
            "CREATE CUBE {name} AS SELECT sum(quantity), shop, product FROM sales GROUP BY GROUPING SETS ({set}, (shop, product))"
        ))
        .await;
        test.run(&format!("BUILD CUBE {name}")).await;
    }
    let report = test.explain("SELECT shop, sum(quantity) FROM sales GROUP BY shop").await;
    assert!(report.contains("answered from cube `public.a_narrow`"), "{report}");
    assert!(
        report.contains("cube `public.wide` not used: it would read 3 rows, as many as the chosen one"),
        "{report}"
    );
    assert!(
        report.contains("cube `public.other` not used: it would read 6 rows, more than the chosen one"),
        "{report}"
    );
    used(&test).await;
}

/// The history names the cube that answered, which was found without EXPLAIN.
async fn used(test: &TestEngine) {
    test.run("SELECT product, sum(quantity) FROM sales GROUP BY product").await;
    let history = test.run("SHOW QUERY HISTORY").await;
    assert!(history.iter().any(|row| row.iter().any(|value| value.contains("public.other"))), "{history:?}");
}
