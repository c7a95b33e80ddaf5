//! Writes, builds, merges and restarts in any order, and at the same time as queries.

use nyala_engine::{Answer, Session, SessionOptions};

use super::{QUERIES, STAR_QUERIES, check_all, put, sales};
use crate::harness::{assert_same, sorted};
use crate::random::{Random, seed};

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
