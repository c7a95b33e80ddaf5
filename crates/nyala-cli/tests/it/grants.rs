//! What grants allow, wherever a table is named.

use crate::access::{psql, start};
use crate::program::{Finished, PATIENCE, eventually};

#[test]
fn what_was_not_granted_is_refused_wherever_it_stands() {
    let (_star, server) = start();
    let ann = |sql: &str| psql(&server, "ann", "secret", sql);
    let total = "SELECT d_year, sum(lo_revenue) FROM lineorder JOIN dates ON lo_orderdate = d_datekey GROUP BY d_year";
    let granted = ann(total);
    assert_eq!((granted.code, granted.stdout.lines().count()), (Some(0), 7), "{granted:?}");
    assert!(
        ann(&format!("EXPLAIN {total}")).stdout.contains("answered from cube"),
        "a cube answers whom its tables do"
    );
    for sql in [
        "SELECT 1",
        "SELECT count(*) FROM information_schema.tables",
        "SHOW CUBES",
        "SHOW ROLES",
        "SHOW GRANTS",
    ] {
        assert_eq!(ann(sql).code, Some(0), "{sql}: {:?}", ann(sql));
    }
    for sql in [
        "SELECT count(*) FROM customer",
        "SELECT count(*) FROM public.customer AS dates",
        "WITH dates AS (SELECT * FROM customer) SELECT count(*) FROM dates",
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM customer)",
        "SELECT (SELECT count(*) FROM customer)",
        "SELECT d_year FROM dates UNION ALL SELECT c_custkey FROM customer",
        "SELECT d_year FROM dates WHERE d_datekey IN (SELECT c_custkey FROM customer)",
        "SELECT count(*) FROM dates, LATERAL (SELECT * FROM customer) AS c",
        "EXPLAIN SELECT count(*) FROM customer",
        "EXPLAIN ANALYZE SELECT count(*) FROM customer",
        "PREPARE p AS SELECT count(*) FROM customer",
        "DECLARE c CURSOR WITH HOLD FOR SELECT * FROM customer",
        "CREATE CUBE public.mine AS SELECT c_city, count(*) FROM customer GROUP BY c_city",
        "BUILD CUBE ssb",
        "CHECK CUBE ssb",
        "ANALYZE CUBE ssb",
        "DROP CUBE ssb",
        "ALTER CUBE ssb DROP SEGMENTS",
        "ALTER CUBE ssb SET (answers = off)",
        "DROP TABLE dates",
        "CREATE SCHEMA s",
        "DROP SCHEMA IF EXISTS public CASCADE",
        "CREATE EXTERNAL TABLE etc STORED AS CSV LOCATION '/etc/passwd'",
        "SHOW QUERY HISTORY",
        "RECOMMEND CUBE FOR SCHEMA public",
        "CREATE USER eve SUPERUSER PASSWORD 'e'",
        "ALTER USER ann SUPERUSER",
        "ALTER USER root PASSWORD 'mine'",
        "GRANT SELECT ON customer TO ann",
        "REVOKE readers FROM ann",
        "DROP USER bob",
    ] {
        check_denied(&ann(sql), sql);
    }
    check_denied(&psql(&server, "bob", "bob", "SELECT count(*) FROM dates"), "bob");
}

fn check_denied(finished: &Finished, sql: &str) {
    assert_eq!(finished.code, Some(1), "{sql}: {finished:?}");
    assert!(finished.stderr.contains("ERROR:  42501"), "{sql}: {finished:?}");
}

#[test]
fn live_tables_are_read_and_written_by_those_who_may() {
    let (_star, server) = start();
    let root = |sql: &str| {
        let finished = psql(&server, "root", "r'oot", sql);
        assert_eq!(finished.code, Some(0), "{sql}: {finished:?}");
    };
    let bob = |sql: &str| psql(&server, "bob", "bob", sql);
    let may = |sql: &str| assert_eq!(bob(sql).code, Some(0), "{sql}: {:?}", bob(sql));
    let copied = "CREATE LIVE TABLE shop.mine (PRIMARY KEY (c_custkey)) AS SELECT c_custkey FROM customer";
    let load = "COPY shop.t FROM '/etc/passwd' (FORMAT csv)";
    root("CREATE SCHEMA shop");
    root("CREATE LIVE TABLE shop.t (id BIGINT PRIMARY KEY, n BIGINT)");
    for sql in ["INSERT INTO shop.t VALUES (1, 2)", "SELECT * FROM changes('shop.t')", "CREATE DISK STORE d"]
    {
        check_denied(&bob(sql), sql);
    }
    root("GRANT SELECT, INSERT ON shop.t TO bob");
    may("INSERT INTO shop.t VALUES (1, 2)");
    may("SELECT * FROM changes('shop.t')");
    for sql in [
        "UPDATE shop.t SET n = 3",
        "DELETE FROM shop.t",
        "TRUNCATE TABLE shop.t",
        "INSERT INTO shop.t SELECT c_custkey, 1 FROM customer",
        "ALTER TABLE shop.t ADD COLUMN x INT",
        "DROP TABLE shop.t",
        "SELECT * FROM '/srv/none.csv'",
        "SELECT * FROM shop.t WHERE n IN (SELECT n FROM read_parquet('/srv/*.parquet'))",
        "EXPLAIN SELECT * FROM '/srv/none.csv'",
        "COPY shop.t TO '/srv/none.csv'",
        copied,
        load,
    ] {
        check_denied(&bob(sql), sql);
    }
    root("GRANT UPDATE, DELETE ON shop.t TO bob");
    root("GRANT CREATE ON SCHEMA shop TO bob");
    may("UPDATE shop.t SET n = 3");
    may("DELETE FROM shop.t WHERE n = 3");
    // A role cannot move a table that it may not read into a schema that it may read.
    root(
        "CREATE SCHEMA yard; CREATE LIVE TABLE shop.hidden (id BIGINT PRIMARY KEY); INSERT INTO shop.hidden VALUES (1)",
    );
    root("GRANT SELECT, CREATE ON SCHEMA yard TO bob");
    check_denied(&bob("ALTER TABLE shop.hidden SET SCHEMA yard"), "SET SCHEMA");
    check_denied(&bob("SELECT * FROM shop.hidden"), "shop.hidden");
    root("GRANT SELECT ON shop.hidden TO bob");
    may("ALTER TABLE shop.hidden SET SCHEMA yard");
    // If one of several tables may not be emptied, none is.
    root("CREATE LIVE TABLE shop.other (id BIGINT PRIMARY KEY)");
    may("INSERT INTO shop.t VALUES (5, 5)");
    let both = "TRUNCATE TABLE shop.t, shop.other";
    check_denied(&bob(both), both);
    assert_eq!(bob("SELECT count(*) FROM shop.t").stdout.trim(), "1");
    may("DELETE FROM shop.t");
    // CREATE on a schema does not let a role read another table.
    check_denied(&bob(copied), copied);
    root("GRANT SELECT ON customer TO bob");
    assert_eq!(bob(copied).code, Some(0));
}

#[test]
fn a_grant_on_a_view_is_enough_for_what_it_shows() {
    let (_star, server) = start();
    let root = |sql: &str| {
        let finished = psql(&server, "root", "r'oot", sql);
        assert_eq!(finished.code, Some(0), "{sql}: {finished:?}");
    };
    let bob = |sql: &str| psql(&server, "bob", "bob", sql);
    root("CREATE VIEW few AS SELECT c_custkey, c_city FROM customer WHERE c_custkey <= 3");
    root("CREATE VIEW fewer AS SELECT * FROM few WHERE c_custkey = 1");
    root("CREATE SCHEMA shop");
    root("GRANT CREATE ON SCHEMA shop TO bob");
    check_denied(&bob("SELECT count(*) FROM few"), "few");
    root("GRANT SELECT ON few TO bob");
    assert_eq!(bob("SELECT count(*), max(c_custkey) FROM few").stdout.trim(), "3|3");
    for sql in [
        "SELECT count(*) FROM customer",
        "SELECT count(*) FROM few JOIN customer USING (c_custkey)",
        "SELECT (SELECT count(*) FROM customer) FROM few",
        "SELECT * FROM fewer",
        "CREATE VIEW shop.mine AS SELECT * FROM customer",
        "CREATE TABLE shop.mine AS SELECT c_custkey FROM customer",
        "CREATE OR REPLACE VIEW few AS SELECT 1 AS c_custkey, 'x' AS c_city",
        "DROP VIEW few",
        "ALTER VIEW few RENAME TO other",
    ] {
        check_denied(&bob(sql), sql);
    }
    assert_eq!(bob("CREATE VIEW shop.mine AS SELECT c_city FROM few").code, Some(0));
    assert_eq!(
        bob("CREATE TEMP TABLE t AS SELECT c_custkey FROM few; SELECT max(c_custkey) FROM t").code,
        Some(0)
    );
    root("ALTER VIEW few RENAME TO some");
    assert_eq!(bob("SELECT count(*) FROM some").stdout.trim(), "3", "a grant goes with the name");
}

/// A view over no table needs a grant like any other view, in each clause that can name it.
#[test]
fn views_without_tables_are_read_with_a_grant_only() {
    let (_star, server) = start();
    let root = |sql: &str| {
        let finished = psql(&server, "root", "r'oot", sql);
        assert_eq!(finished.code, Some(0), "{sql}: {finished:?}");
    };
    let bob = |sql: &str| psql(&server, "bob", "bob", sql);
    root("CREATE VIEW answer AS SELECT 42 AS x");
    root("CREATE VIEW series AS SELECT * FROM generate_series(1, 3) AS s(n)");
    root("CREATE VIEW listed AS VALUES (1), (2)");
    root("CREATE VIEW emptied AS SELECT c_custkey FROM customer WHERE false");
    root("CREATE VIEW folded AS SELECT EXISTS (SELECT count(*) FROM customer) AS x");
    root("CREATE VIEW above AS SELECT x + 1 AS y FROM answer");
    root("CREATE SCHEMA shop; CREATE LIVE TABLE shop.t (id BIGINT PRIMARY KEY)");
    root("GRANT CREATE ON SCHEMA shop TO bob; GRANT SELECT, INSERT ON shop.t TO bob");
    for sql in [
        "SELECT * FROM answer",
        "SELECT 1 FROM public.answer AS dates",
        "SELECT * FROM series",
        "SELECT * FROM listed",
        "SELECT * FROM emptied",
        "SELECT * FROM folded",
        "SELECT * FROM above",
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM answer)",
        "SELECT EXISTS (SELECT count(*) FROM answer)",
        "SELECT (SELECT x FROM answer)",
        "SELECT 1 WHERE 1 IN (SELECT x FROM answer)",
        "SELECT 1 WHERE 1 >= ALL (SELECT x FROM answer)",
        "WITH a AS (SELECT * FROM answer) SELECT * FROM a AS b, a AS c",
        "SELECT 1 UNION ALL SELECT x FROM answer",
        "SELECT 1 EXCEPT SELECT x FROM answer",
        "SELECT count(*) FROM (SELECT 1) AS one, LATERAL (SELECT x FROM answer) AS a",
        "EXPLAIN SELECT * FROM answer",
        "EXPLAIN ANALYZE SELECT * FROM answer",
        "PREPARE p AS SELECT * FROM answer",
        "DECLARE c CURSOR WITH HOLD FOR SELECT * FROM answer",
        "COPY (SELECT * FROM answer) TO STDOUT",
        "INSERT INTO shop.t SELECT x FROM answer",
        "CREATE VIEW shop.mine AS SELECT * FROM answer",
        "CREATE TABLE shop.mine AS SELECT x FROM answer",
        "CREATE TEMP TABLE mine AS SELECT x FROM answer",
        "CREATE CUBE shop.mine AS SELECT x, count(*) FROM answer GROUP BY x",
        // The planner folds this away, but the statement named the table.
        "SELECT EXISTS (SELECT count(*) FROM customer)",
    ] {
        check_denied(&bob(sql), sql);
    }
    root("GRANT SELECT ON above, emptied, series TO bob");
    assert_eq!(bob("SELECT y FROM above").stdout.trim(), "43", "what it reads needs no grant");
    assert_eq!(bob("SELECT count(*) FROM emptied").stdout.trim(), "0");
    assert_eq!(bob("SELECT max(n) FROM series, generate_series(1, 2)").stdout.trim(), "3");
    check_denied(&bob("SELECT y FROM above, answer"), "beside it");
}

/// A cached plan that reads no table is kept with the view that it reads.
#[test]
fn ready_plans_of_views_without_tables_are_not_for_everybody() {
    let (_star, server) = start();
    let query = "SELECT x FROM answer";
    let root = |sql: &str| psql(&server, "root", "r'oot", sql);
    assert_eq!(root("CREATE VIEW answer AS SELECT 42 AS x").code, Some(0));
    let ready = "SELECT count(*) FROM system.query_log WHERE ready_plan";
    eventually("the plan is ready", PATIENCE, || {
        assert_eq!(root(query).stdout.trim(), "42");
        root(ready).stdout.trim() != "0"
    });
    check_denied(&psql(&server, "bob", "bob", query), query);
    assert_eq!(root("GRANT SELECT ON answer TO bob").code, Some(0));
    assert_eq!(psql(&server, "bob", "bob", query).stdout.trim(), "42");
}

#[test]
fn grants_on_schemas_and_cubes_allow_just_that() {
    let (_star, server) = start();
    let root = |sql: &str| {
        let finished = psql(&server, "root", "r'oot", sql);
        assert_eq!(finished.code, Some(0), "{sql}: {finished:?}");
    };
    let bob = |sql: &str| psql(&server, "bob", "bob", sql);
    root("GRANT BUILD ON CUBE ssb TO bob");
    assert_eq!(bob("BUILD CUBE ssb").code, Some(0), "{:?}", bob("BUILD CUBE ssb"));
    check_denied(&bob("SELECT count(*) FROM dates"), "building is not reading");
    check_denied(&bob("CHECK CUBE ssb"), "a check shows what it finds");
    check_denied(&bob("ALTER CUBE ssb DROP SEGMENTS"), "building is not dropping");
    root("GRANT SELECT ON SCHEMA public TO bob");
    assert_eq!(bob("SELECT count(*) FROM customer").code, Some(0));
    assert_eq!(bob("CHECK CUBE ssb SAMPLE 1").code, Some(0));
    check_denied(
        &bob("CREATE CUBE mine AS SELECT d_year, count(*) FROM dates GROUP BY d_year"),
        "reading is not creating",
    );
    root("GRANT CREATE ON SCHEMA public TO bob");
    let create = "CREATE CUBE mine AS SELECT d_year, count(*) FROM dates GROUP BY d_year";
    assert_eq!(bob(create).code, Some(0), "{:?}", bob(create));
    root("REVOKE ALL ON SCHEMA public FROM bob");
    check_denied(&bob("SELECT count(*) FROM customer"), "what was taken is gone");
    let shown = psql(&server, "root", "r'oot", "SHOW GRANTS");
    assert!(shown.stdout.contains("bob|BUILD|cube|public|ssb"), "{shown:?}");
    let mine = bob("ALTER USER bob PASSWORD 'new'");
    assert_eq!(mine.code, Some(0), "{mine:?}");
    assert_eq!(bob("SELECT 1").code, Some(2), "the old password");
    assert_eq!(psql(&server, "bob", "new", "SELECT 1").code, Some(0));
}

/// A statement that was prepared when it was allowed is not allowed for ever.
#[tokio::test]
async fn what_is_revoked_ends_also_for_prepared_statements() {
    let (_star, server) = start();
    let url = format!("postgres://ann:secret@{}/nyala", server.postgres);
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let prepared = client.prepare("SELECT count(*) FROM dates WHERE d_year > $1").await.unwrap();
    let count: i64 = client.query_one(&prepared, &[&1990_i32]).await.unwrap().get(0);
    assert_eq!(count, 2557);
    let revoked = psql(&server, "root", "r'oot", "REVOKE SELECT ON dates FROM readers");
    assert_eq!(revoked.code, Some(0), "{revoked:?}");
    let error = client.query_one(&prepared, &[&1990_i32]).await.unwrap_err();
    assert_eq!(error.code().map(|code| code.code()), Some("42501"), "{error}");
    drop(client);
    connection.await.unwrap().unwrap();
}

#[tokio::test]
async fn superusers_end_the_sessions_of_others() {
    let (_star, server) = start();
    let url = format!("postgres://ann:secret@{}/nyala", server.postgres);
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let target: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let end = format!("SELECT pg_terminate_backend({target})");
    let refused = psql(&server, "bob", "bob", &end);
    assert!(refused.stderr.contains("42501"), "{refused:?}");
    client.batch_execute("SELECT 1").await.unwrap();
    let ended = psql(&server, "root", "r'oot", &end);
    assert_eq!(ended.stdout.trim(), "t", "{ended:?}");
    assert!(client.batch_execute("SELECT 1").await.is_err(), "it is no longer connected");
    drop(client);
    let _ = connection.await.unwrap();
    assert_eq!(psql(&server, "root", "r'oot", "SHOW is_superuser").stdout.trim(), "on");
    assert_eq!(psql(&server, "bob", "bob", "SHOW is_superuser").stdout.trim(), "off");
}

/// A plan cached for one user must not answer another user without SELECT on its tables.
#[test]
fn ready_plans_and_what_others_run_are_not_for_everybody() {
    let (_star, server) = start();
    let query = |year: u32| {
        format!(
            "SELECT d_year, sum(lo_revenue) FROM lineorder JOIN dates ON lo_orderdate = d_datekey \
             JOIN customer ON lo_custkey = c_custkey WHERE c_region = 'ASIA' AND d_year = {year} GROUP BY d_year"
        )
    };
    let root = |sql: &str| psql(&server, "root", "r'oot", sql);
    let ready = "SELECT count(*) FROM system.query_log WHERE ready_plan";
    eventually("the plan is ready", PATIENCE, || {
        assert_eq!(root(&query(1993)).code, Some(0));
        root(ready).stdout.trim() != "0"
    });
    let ann = |sql: &str| psql(&server, "ann", "secret", sql);
    for year in [1993, 1994] {
        let refused = ann(&query(year));
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.stderr.contains("lacks SELECT on \"public.customer\""), "{refused:?}");
        assert!(refused.stdout.is_empty(), "{refused:?}");
    }
    for (sql, words) in [
        ("SELECT * FROM system.queries", "system.queries"),
        ("SELECT * FROM system.query_log", "system.query_log"),
        ("SELECT * FROM system.query_history", "system.query_history"),
        ("SELECT query FROM system.misses", "system.misses"),
        ("SELECT * FROM system.stuck", "system.stuck"),
        ("SELECT state FROM system.disk_stores", "system.disk_stores"),
        ("KILL QUERY 1", "killing what others run"),
        ("CANCEL JOB 1", "cancelling a job"),
        ("ALTER CUBE ssb SET (auto_refresh = on)", "lacks CREATE"),
    ] {
        let refused = ann(sql);
        assert_eq!(refused.code, Some(1), "{sql}: {refused:?}");
        assert!(refused.stderr.contains(words), "{sql}: {refused:?}");
    }
    assert_eq!(ann("SELECT * FROM system.caches").code, Some(0));
    assert_eq!(root("SELECT * FROM system.queries").code, Some(0));
    assert_eq!(root("SELECT folder FROM system.disk_stores").code, Some(0));
}

/// The rows that a recursive query reads of itself belong to no table.
#[test]
fn a_recursive_query_needs_grants_for_its_tables_only() {
    let (_star, server) = start();
    let steps = |begin: &str, tables: &str| {
        let sql = format!(
            "WITH RECURSIVE steps AS (SELECT {begin} UNION ALL SELECT n + 1 FROM {tables} WHERE n < 10) \
             SELECT count(*) FROM steps"
        );
        psql(&server, "ann", "secret", &sql)
    };
    let counted = steps("1 AS n", "steps");
    assert_eq!((counted.code, counted.stdout.trim()), (Some(0), "10"), "{counted:?}");
    let begin = "CAST(max(c_custkey) AS BIGINT) AS n FROM customer";
    check_denied(&steps(begin, "steps"), "where it begins");
    check_denied(&steps("1 AS n", "steps, customer"), "where it goes on");
}

/// CREATE CUBE needs SELECT on every table that it names, also if a CTE has the same name; for cells reveal rows.
#[test]
fn cubes_are_made_only_of_what_their_makers_may_read() {
    let (_star, server) = start();
    let ann = |sql: &str| psql(&server, "ann", "secret", sql);
    let granted = psql(&server, "root", "r'oot", "GRANT CREATE, BUILD ON SCHEMA public TO ann");
    assert_eq!(granted.code, Some(0), "{granted:?}");
    for sql in [
        "CREATE CUBE cities AS SELECT c_city, count(*) FROM customer GROUP BY c_city",
        "CREATE CUBE cities AS SELECT c_city, count(*) FROM \
         (WITH customer AS (SELECT d_year AS c_city FROM dates) SELECT * FROM customer) AS c GROUP BY c_city",
        "ALTER CUBE ssb ADD MEASURE max(c_custkey)",
        "ALTER CUBE ssb ADD DIMENSION c_name",
        "ALTER CUBE ssb SET (auto_merge = 2), ADD GROUPING SET (c_city)",
    ] {
        check_denied(&ann(sql), sql);
    }
    for sql in [
        "CREATE CUBE years AS SELECT d_year, count(*) FROM dates GROUP BY d_year",
        "ALTER CUBE years ADD MEASURE max(d_datekey)",
        "BUILD CUBE years",
    ] {
        assert_eq!(ann(sql).code, Some(0), "{sql}: {:?}", ann(sql));
    }
}

/// Cuboid files hold rows of tables, and reading a file would bypass the privileges on these tables.
#[test]
fn files_of_the_server_are_no_tables_for_everybody() {
    let (star, server) = start();
    let root = |sql: &str| psql(&server, "root", "r'oot", sql);
    let bob = |sql: &str| psql(&server, "bob", "bob", sql);
    assert_eq!(root("CREATE SCHEMA shop").code, Some(0));
    assert_eq!(root("GRANT ALL ON SCHEMA shop TO bob").code, Some(0));
    std::os::unix::fs::symlink(star.path("data"), star.path("alias")).unwrap();
    let table = |location: &str| {
        let location = star.path(location);
        format!("CREATE EXTERNAL TABLE shop.t STORED AS PARQUET LOCATION '{}'", location.display())
    };
    for location in ["data/cubes/", "data", "ssb/../data/cubes/", "alias/cubes/", "alias/later/", ""] {
        check_denied(&bob(&table(location)), location);
    }
    let copy = format!("COPY shop.t FROM '{}' (FORMAT parquet)", star.path("data/cubes/").display());
    check_denied(&bob(&copy), &copy);
    let other = bob(&table("ssb/dates/"));
    assert_eq!(other.code, Some(0), "{other:?}");
    assert_eq!(bob("SELECT count(*) FROM shop.t").stdout.trim(), "2557");
}

/// The planner lowercases ASCII letters only, and so must GRANT and REVOKE for the same schema.
#[test]
fn schemas_with_other_letters_are_granted_as_they_are_created() {
    let (_star, server) = start();
    let root = |sql: &str| psql(&server, "root", "r'oot", sql);
    for sql in
        ["CREATE SCHEMA ÄRGER", "GRANT SELECT ON SCHEMA ÄRGER TO bob", "REVOKE ALL ON SCHEMA Ärger FROM bob"]
    {
        let done = root(sql);
        assert_eq!(done.code, Some(0), "{sql}: {done:?}");
    }
}
