//! Views, tables without a key, temporary tables, and names that change.

use nyala_engine::{ErrorKind, SessionOptions};

use crate::harness::TestEngine;

/// Runs statements, each with the rows that it must give; rows are joined by `;`, values by `,`.
async fn check(test: &TestEngine, statements: &[(&str, &str)]) {
    for (sql, expected) in statements {
        let rows: Vec<String> = test.run(sql).await.iter().map(|row| row.join(",")).collect();
        assert_eq!(rows.join(";"), *expected, "{sql}");
    }
}

async fn sales() -> TestEngine {
    let test = TestEngine::new().await;
    test.run("CREATE TABLE sales (id INT PRIMARY KEY, shop TEXT, amount INT)").await;
    test.run("INSERT INTO sales VALUES (1, 'a', 10), (2, 'b', 20), (3, 'a', 30)").await;
    test
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_is_there_after_a_restart_and_follows_its_tables() {
    let mut test = sales().await;
    test.run("CREATE VIEW totals AS SELECT shop, sum(amount) AS total, count(*) FROM sales GROUP BY shop")
        .await;
    test.run("CREATE VIEW best (shop, most) AS SELECT shop, total FROM totals WHERE total > 25").await;
    test.run("CREATE VIEW everything AS SELECT * FROM sales").await;
    test = test.reopen().await;
    check(&test, &[("SELECT * FROM totals ORDER BY shop", "a,40,2;b,20,1"), ("SELECT * FROM best", "a,40")])
        .await;
    test.run("ALTER TABLE sales ADD COLUMN note TEXT").await;
    test.run("ALTER TABLE sales RENAME TO sold").await;
    test.run("CREATE TABLE sales (id INT, shop TEXT, amount INT)").await;
    check(&test, &[("SELECT * FROM best", "a,40"), ("SELECT * FROM everything WHERE id = 2", "2,b,20")])
        .await;
    test = test.reopen().await;
    check(&test, &[("SELECT * FROM best", "a,40"), ("SELECT count(*) FROM sales", "0")]).await;
    test.error("ALTER TABLE sold DROP COLUMN shop", ErrorKind::Needed, "read by view").await;
    test.error("DROP TABLE sold", ErrorKind::Needed, "needed by view `public.everything`").await;
    test.error("DROP TABLE best", ErrorKind::WrongObject, "is a view").await;
    test.error("INSERT INTO everything VALUES (9, 'x', 1)", ErrorKind::WrongObject, "is a view").await;
    test.run("DROP TABLE sold CASCADE").await;
    test.error("SELECT * FROM best", ErrorKind::UndefinedTable, "best").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_tool_does_to_make_a_table_anew_leaves_one_of_its_name() {
    let test = sales().await;
    for round in 1..=2 {
        test.run("CREATE TABLE model__tmp AS (SELECT shop, sum(amount) AS total FROM sales GROUP BY shop)")
            .await;
        test.run("DROP TABLE IF EXISTS model__backup CASCADE").await;
        test.run("ALTER TABLE IF EXISTS model RENAME TO model__backup").await;
        test.run("ALTER TABLE model__tmp RENAME TO model").await;
        test.run("DROP TABLE IF EXISTS model__backup CASCADE").await;
        let total = if round == 1 { "a,40;b,20" } else { "a,41;b,20" };
        check(&test, &[("SELECT * FROM model ORDER BY shop", total)]).await;
        test.run("INSERT INTO sales VALUES (4, 'a', 1)").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cube_answers_queries_of_a_view() {
    let test = sales().await;
    test.run("CREATE VIEW v AS SELECT shop AS place, amount FROM sales WHERE shop <> 'z'").await;
    test.run("CREATE CUBE c AS SELECT shop, sum(amount), count(*) FROM sales GROUP BY shop").await;
    test.run("BUILD CUBE c").await;
    test.check_hit("SELECT place, sum(amount) FROM v GROUP BY place").await;
    let refused = "CREATE CUBE d AS SELECT place, sum(amount) FROM v GROUP BY place";
    test.error(refused, ErrorKind::InvalidDefinition, "cannot be over a view").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_without_a_key_keeps_every_row() {
    let mut test = TestEngine::new().await;
    test.run("CREATE TABLE log (at INT, note TEXT DEFAULT 'none')").await;
    test.run("INSERT INTO log VALUES (1, 'x'), (1, 'x'), (NULL, NULL)").await;
    test.run("INSERT INTO log (at) VALUES (1)").await;
    let all = "SELECT at, note, count(*) FROM log GROUP BY at, note ORDER BY at, note";
    check(
        &test,
        &[(all, "1,none,1;1,x,2;NULL,NULL,1"), ("SELECT count(*) FROM (SELECT * FROM log) AS t", "4")],
    )
    .await;
    test.run("ALTER TABLE log ADD COLUMN more INT").await;
    test = test.reopen().await;
    test.run("UPDATE log SET note = 'y', more = 7 WHERE note = 'x'").await;
    test.run("DELETE FROM log WHERE at IS NULL").await;
    test.run("INSERT INTO log SELECT at, note, more FROM log WHERE note = 'y'").await;
    let all = "SELECT at, note, more, count(*) FROM log GROUP BY at, note, more ORDER BY note";
    check(&test, &[(all, "1,none,NULL,1;1,y,7,4"), ("SELECT * FROM log WHERE note = 'none'", "1,none,NULL")])
        .await;
    check(&test, &[("INSERT INTO log VALUES (5, 'r', 0) RETURNING *", "5,r,0")]).await;
    let conflict = "INSERT INTO log VALUES (1, 'x', 1) ON CONFLICT (at) DO NOTHING";
    test.error(conflict, ErrorKind::InvalidDefinition, "needs a primary key").await;
    test.run("TRUNCATE log").await;
    check(&test, &[("SELECT count(*) FROM log", "0")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_temporary_table_is_of_its_session() {
    let test = sales().await;
    test.run("CREATE TEMP TABLE sales AS SELECT id + 100 AS id FROM sales").await;
    test.run("INSERT INTO sales VALUES (7)").await;
    check(
        &test,
        &[("SELECT count(*), max(id) FROM sales", "4,103"), ("SELECT max(id) FROM public.sales", "3")],
    )
    .await;
    check(&test, &[("SELECT id FROM pg_temp.sales WHERE id < 10", "7")]).await;
    // The name means the temporary table also where its rows become another table, or a file.
    test.run("CREATE TABLE copied AS SELECT id FROM sales").await;
    test.run("CREATE TEMP TABLE few AS SELECT id FROM sales WHERE id < 10").await;
    let file = test.path("sales.csv").display().to_string();
    test.run(&format!("COPY (SELECT id FROM sales) TO '{file}'")).await;
    let copied = format!("SELECT min(id), max(id) FROM '{file}'");
    let all = "SELECT min(id), max(id) FROM copied";
    check(&test, &[(all, "7,103"), ("SELECT id FROM few", "7"), (copied.as_str(), "7,103")]).await;
    let other = test.engine.session(SessionOptions::default());
    let error = other.query("SELECT * FROM pg_temp.sales").await.err().unwrap();
    assert_eq!(error.kind, ErrorKind::UndefinedTable, "{error}");
    test.run("DROP TABLE sales").await;
    check(&test, &[("SELECT max(id) FROM sales", "3")]).await;
    test.run("CREATE TEMP TABLE kept (a INT)").await;
    let test = test.reopen().await;
    test.error("SELECT * FROM kept", ErrorKind::UndefinedTable, "kept").await;
    let left = "SELECT count(*) FROM information_schema.tables WHERE table_schema LIKE 'pg_temp%'";
    check(&test, &[(left, "0")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_temporary_tables_follow_what_becomes_of_them() {
    let test = sales().await;
    test.run("CREATE TEMP TABLE t (a INT)").await;
    test.run("INSERT INTO t VALUES (1), (2)").await;
    test.run("CREATE TEMP VIEW v AS SELECT a FROM t").await;
    // A DROP that is refused drops no name.
    test.error("DROP TABLE t", ErrorKind::Needed, "needed by view").await;
    check(&test, &[("SELECT count(*) FROM t", "2")]).await;
    test.run("ALTER TABLE t RENAME TO sales").await;
    check(&test, &[("SELECT count(*) FROM sales", "2"), ("SELECT count(*) FROM v", "2")]).await;
    test.error("SELECT * FROM t", ErrorKind::UndefinedTable, "t").await;
    // A temporary table cannot leave the session, and no table can come into it.
    let catalog = test.engine.catalog().snapshot();
    let own = catalog.schemas.iter().find(|name| name.starts_with("pg_temp_")).unwrap();
    let into = format!("ALTER TABLE public.sales SET SCHEMA {own}");
    for sql in ["ALTER TABLE sales SET SCHEMA public", into.as_str()] {
        test.error(sql, ErrorKind::Unsupported, "temporary schemas").await;
    }
    // CASCADE drops the temporary view too; its name then means the view in `public`.
    test.run("CREATE VIEW public.v AS SELECT id FROM public.sales").await;
    test.run("DROP TABLE sales CASCADE").await;
    check(&test, &[("SELECT count(*) FROM v", "3"), ("SELECT count(*) FROM sales", "3")]).await;
}
