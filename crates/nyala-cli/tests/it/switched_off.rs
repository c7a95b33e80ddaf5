//! Cubes that are switched off: they answer no query, and are built and kept all the same.

use std::time::Duration;

use arrow::array::{Int64Array, RecordBatch};
use nyala_engine::{Answer, ErrorKind};

use crate::batch;
use crate::harness::{TestEngine, parsed, write_parquet};
use crate::plans::becomes_ready;
use crate::program::PATIENCE;

const SUM: &str = "SELECT shop, sum(amount) FROM sales WHERE shop > 2 GROUP BY shop";
const REASON: &str = "it is switched off; run ALTER CUBE public.c SET (answers = on)";
/// The reason of a cube that could not answer if it were on.
const UNFIT: &str = "cube `public.c` not used: it is switched off, and could not answer: ";

fn rows(from: i64, to: i64) -> RecordBatch {
    batch!(
        "shop" => Int64Array::from_iter_values((from..to).map(|n| n % 7)),
        "amount" => Int64Array::from_iter_values(from..to),
    )
}

/// A cube that is built.
async fn sales() -> TestEngine {
    let test = TestEngine::new().await;
    test.table("sales", &[rows(0, 600)]).await;
    test.run("CREATE CUBE c AS SELECT shop, sum(amount), count(*) FROM sales GROUP BY shop").await;
    test.run("BUILD CUBE c").await;
    test
}

/// The state of the cube, and whether it answers.
async fn shown(test: &TestEngine) -> [String; 2] {
    let cube = test.run("SHOW CUBES").await.remove(0);
    [cube[2].clone(), cube[11].clone()]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cube_that_is_off_answers_nothing_and_is_built_all_the_same() {
    let test = sales().await;
    test.run("SET nyala.check_files = on").await;
    test.check_hit(SUM).await;
    assert_eq!(shown(&test).await, ["ready", "true"]);
    test.run("ALTER CUBE c SET (answers = off)").await;
    test.check_miss(SUM, REASON).await;
    assert_eq!(shown(&test).await, ["ready", "false"]);
    write_parquet(&test.path("sales/more.parquet"), &[rows(600, 700)]);
    test.check_miss(SUM, UNFIT).await;
    assert_eq!(shown(&test).await, ["stale", "false"]);
    test.run("BUILD CUBE c").await;
    assert_eq!(shown(&test).await, ["ready", "false"]);
    let findings = test.run("CHECK CUBE c").await;
    assert!(findings.iter().all(|row| row[3] == "ok"), "{findings:?}");

    let test = test.reopen().await;
    test.run("SET nyala.check_files = on").await;
    test.check_miss(SUM, REASON).await;
    test.run("ALTER CUBE c SET (answers = on)").await;
    test.check_hit(SUM).await;
    assert_eq!(shown(&test).await, ["ready", "true"]);
}

/// A switch waits for no build, and what the build commits afterwards leaves the switch as it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_cube_is_switched_while_it_is_built() {
    let test = TestEngine::new().await;
    test.table("sales", &[rows(0, 200_000)]).await;
    test.run(
        "CREATE CUBE c AS SELECT shop, amount, sum(amount), count(*) FROM sales GROUP BY CUBE (shop, amount)",
    )
    .await;
    test.run("BUILD CUBE c").await;
    let job = async || test.run("SHOW JOBS").await.remove(0).remove(3);
    for (answers, other) in [("off", "on"), ("on", "off")] {
        // Once in a while the build has ended before the switch is made: then another one is begun.
        loop {
            test.run("REFRESH CUBE c WITH (wait = off)").await;
            test.run(&format!("ALTER CUBE c SET (answers = {answers})")).await;
            let meanwhile = job().await == "running";
            let ended = async {
                while job().await == "running" {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(PATIENCE, ended).await.expect("the build does not end");
            assert_eq!(job().await, "done");
            assert_eq!(shown(&test).await, ["ready", if answers == "on" { "true" } else { "false" }]);
            if meanwhile {
                break;
            }
            test.run(&format!("ALTER CUBE c SET (answers = {other})")).await;
        }
        match answers {
            "on" => test.check_hit(SUM).await,
            _ => test.check_miss(SUM, REASON).await,
        }
        let statement = test.run("SHOW CREATE CUBE c").await.remove(0).remove(2);
        assert_eq!(statement.contains("answers = 'off'"), answers == "off", "{statement}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_of_before_are_not_used() {
    let test = sales().await;
    let prepared = test.session.prepare(parsed(&test.session, SUM)).await.unwrap();
    assert!(becomes_ready(&test, SUM).await);
    test.run("ALTER CUBE c SET (answers = off)").await;
    let hits = || test.engine.stats().cube_hits;
    let before = hits();
    test.run(SUM).await;
    let Answer::Rows(answer) = test.session.execute(&prepared, Vec::new()).await.unwrap() else {
        panic!("no rows")
    };
    answer.collect().await.unwrap();
    assert_eq!(hits(), before);
    test.run("ALTER CUBE c SET (answers = on)").await;
    test.run(SUM).await;
    assert!(hits() > before);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_cube_answers_in_its_place() {
    let test = sales().await;
    test.run("CREATE CUBE wide AS SELECT shop, amount, sum(amount) FROM sales GROUP BY shop, amount").await;
    test.run("BUILD CUBE wide").await;
    assert!(test.explain(SUM).await.starts_with("answered from cube `public.c`"));
    test.run("ALTER CUBE c SET (answers = off)").await;
    let report = test.explain(SUM).await;
    assert!(report.starts_with("answered from cube `public.wide`"), "{report}");
    assert!(report.contains(&format!("cube `public.c` not used: {REASON}")), "{report}");
    test.check_same(SUM).await;
    test.run("ALTER CUBE c SET (answers = on)").await;
    test.run("ALTER CUBE wide SET (answers = off)").await;
    let report = test.explain(SUM).await;
    assert!(report.starts_with("answered from cube `public.c`"), "{report}");
    let larger = "cube `public.wide` not used: it is switched off, and it would read ";
    assert!(report.contains(larger) && report.contains("more than the chosen one"), "{report}");
    assert!(!report.contains("ALTER CUBE"), "{report}");
}

/// To switch a cube on is advised only where it would answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_cube_that_could_not_answer_has_its_reason() {
    let test = sales().await;
    test.run("ALTER CUBE c SET (answers = off)").await;
    for (query, reason) in [
        ("SELECT count(*) FROM sales AS a FULL JOIN sales AS b ON a.amount = b.shop", ""),
        ("SELECT amount, count(*) FROM sales GROUP BY amount", "`sales.amount` is not computable"),
        ("SELECT shop, min(amount) FROM sales GROUP BY shop", "it has no measure"),
    ] {
        test.check_miss(query, &format!("{UNFIT}{reason}")).await;
        assert!(!test.explain(query).await.contains("ALTER CUBE"), "{query}");
    }
    test.check_miss(SUM, REASON).await;
    test.run("ALTER CUBE c DROP SEGMENTS").await;
    test.check_miss(SUM, &format!("{UNFIT}it has not been built; run BUILD CUBE")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cube_is_made_switched_off_and_its_statement_says_so() {
    let test = sales().await;
    test.run("CREATE SCHEMA \"My Shop\"").await;
    let name = "\"My Shop\".\"C\"";
    test.run(&format!(
        "CREATE CUBE {name} WITH (answers = off) AS SELECT shop, max(amount) FROM sales GROUP BY shop"
    ))
    .await;
    test.run(&format!("BUILD CUBE {name}")).await;
    let query = "SELECT shop, max(amount) FROM sales GROUP BY shop";
    let switch = format!("ALTER CUBE {name} SET (answers = on)");
    test.check_miss(query, &format!("it is switched off; run {switch}")).await;
    let statement = async || test.run(&format!("SHOW CREATE CUBE {name}")).await.remove(0).remove(2);
    assert!(statement().await.contains(" WITH (answers = 'off') AS SELECT "), "{}", statement().await);
    test.run(&switch).await;
    test.check_hit(query).await;
    assert!(!statement().await.contains("answers"), "{}", statement().await);
    test.run(&format!("ALTER CUBE {name} SET (answers = OFF)")).await;
    let made = statement().await;
    test.run(&format!("DROP CUBE {name}")).await;
    test.run(&made).await;
    assert_eq!(statement().await, made);
    let wrong = format!("ALTER CUBE {name} SET (answers = maybe)");
    test.error(&wrong, ErrorKind::InvalidParameter, "use on or off").await;
}
