//! `SHOW CREATE CUBE`: the statement that it gives makes the cube again, in whatever session it is run.

use arrow::array::{Date32Array, Int64Array, StringArray};
use nyala_engine::ErrorKind;
use nyala_model::{CubeDefinition, QualifiedName};

use crate::batch;
use crate::harness::TestEngine;

/// A table of files, and a table and a cube's names that need quotes.
async fn shop() -> TestEngine {
    let test = TestEngine::new().await;
    let sales = batch!(
        "day" => Date32Array::from_iter_values((0..60).map(|n| 19_700 + n)),
        "city" => StringArray::from_iter_values((0..60).map(|n| format!("C{}", n % 4))),
        "price" => Int64Array::from_iter_values(0..60),
    );
    test.table("sales", &[sales]).await;
    test.run("CREATE SCHEMA \"Shop\"").await;
    test.run("CREATE TABLE \"Shop\".regions (name TEXT PRIMARY KEY, \"Region\" TEXT)").await;
    test.run("INSERT INTO \"Shop\".regions VALUES ('C0', 'north'), ('C1', 'south'), ('C2', 'south')").await;
    test
}

fn definition(test: &TestEngine, schema: &str, cube: &str) -> CubeDefinition {
    let snapshot = test.engine.catalog().snapshot();
    snapshot.cubes[&QualifiedName::new(schema, cube)].definition.clone()
}

/// The contents of a definition; the numbers of measures and the spelling of its SELECT may differ.
fn meaning(definition: &CubeDefinition) -> String {
    let CubeDefinition { sources, dimensions, measures, grouping_sets, partition, options, .. } = definition;
    let measures: Vec<&str> = measures.iter().map(|measure| measure.expression.as_str()).collect();
    format!("{sources:?} {dimensions:?} {measures:?} {grouping_sets:?} {partition:?} {options:?}")
}

/// Drops a cube of the session's schema, and makes it again in a session with another schema. Gives the statement.
async fn made_again(test: &TestEngine, schema: &str, cube: &str) -> String {
    let shown = test.run(&format!("SHOW CREATE CUBE \"{cube}\"")).await.remove(0);
    assert_eq!(shown[..2], [schema, cube]);
    let before = definition(test, schema, cube);
    test.run(&format!("DROP CUBE \"{cube}\"")).await;
    test.run("SET search_path = system").await;
    test.run(&shown[2]).await;
    assert_eq!(meaning(&definition(test, schema, cube)), meaning(&before), "{}", shown[2]);
    let again = test.run(&format!("SHOW CREATE CUBE \"{schema}\".\"{cube}\"")).await.remove(0);
    assert_eq!(again, shown);
    test.run(&format!("BUILD CUBE \"{schema}\".\"{cube}\"")).await;
    test.run(&format!("SET search_path = \"{schema}\"")).await;
    shown[2].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cube_is_made_again_as_it_was() {
    let test = shop().await;
    test.run("CREATE CUBE IF NOT EXISTS by_city AS SELECT city, sum(price) AS total FROM sales GROUP BY 1")
        .await;
    let plain = made_again(&test, "public", "by_city").await;
    assert!(plain.starts_with("CREATE CUBE public.by_city AS SELECT"), "{plain}");
    assert!(plain.contains("FROM public.sales"), "{plain}");
    test.check_hit("SELECT city, sum(price) FROM sales GROUP BY city").await;

    test.run(
        "CREATE CUBE ranged PARTITION BY RANGE (day) EVERY INTERVAL '1 month' \
         WITH (retention = '9 years', auto_merge = '1 year', auto_refresh = on) AS \
         SELECT day, city, count(*), avg(price * 2) FROM sales AS s WHERE price > 3 AND city <> 'it''s' \
         GROUP BY GROUPING SETS ((day, city), (city), ())",
    )
    .await;
    let ranged = made_again(&test, "public", "ranged").await;
    assert!(
        ranged.contains("auto_merge = '1 year'") && ranged.contains("EVERY INTERVAL '1 month'"),
        "{ranged}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn names_mean_the_same_in_every_session() {
    let test = shop().await;
    test.run("SET search_path = \"Shop\"").await;
    test.run(
        "CREATE CUBE \"By Region\" AS SELECT s.city, \"Region\", count(*) FROM public.sales s \
         JOIN regions r ON s.city = r.name GROUP BY CUBE (s.city, \"Region\")",
    )
    .await;
    let shown = made_again(&test, "Shop", "By Region").await;
    assert!(shown.contains("\"Shop\".regions") && shown.contains("public.sales"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_altered_cube_is_made_as_it_is_now() {
    let test = shop().await;
    test.run("CREATE CUBE c AS SELECT city, sum(price) FROM sales GROUP BY ROLLUP (city)").await;
    test.run("ALTER CUBE c ADD MEASURE max(price), DIMENSION day, SET (auto_refresh = on)").await;
    test.run("ALTER CUBE c DROP MEASURE sum(price)").await;
    let shown = made_again(&test, "public", "c").await;
    assert!(shown.contains("max(price)") && !shown.contains("sum(price)"), "{shown}");
    test.error("SHOW CREATE CUBE missing", ErrorKind::UndefinedTable, "cube `public.missing` does not exist")
        .await;
}
