//! Values that live tables are given: parameters, texts, versions, times.

use arrow::array::{Int64Array, Time64MicrosecondArray};
use datafusion::common::ScalarValue;
use nyala_engine::{ErrorKind, Prepared};

use crate::batch;
use crate::harness::{TestEngine, parsed, sorted};
use crate::live::{accounts, check};

/// Every kind of statement that writes refuses the NULL.
#[tokio::test(flavor = "multi_thread")]
async fn null_where_none_is_allowed_is_told_as_such() {
    let test = accounts().await;
    test.run("INSERT INTO accounts (id, owner) VALUES (1, 'Ada')").await;
    for sql in [
        "INSERT INTO accounts (id, owner) VALUES (2, NULL)",
        "INSERT INTO accounts (id) VALUES (2)",
        "INSERT INTO accounts (id, owner) SELECT 2, nullif(owner, 'Ada') FROM accounts",
        "UPDATE accounts SET owner = nullif(owner, 'Ada')",
    ] {
        test.error(sql, ErrorKind::NullValue, "null in column `owner`").await;
    }
    check(&test, "SELECT id, owner FROM accounts", &[&["1", "Ada"]]).await;
}

/// Parameters write the same rows as literals in their places, for every type that clients send them as.
#[tokio::test(flavor = "multi_thread")]
async fn parameters_of_an_insert_are_what_literals_would_be() {
    let test = TestEngine::new().await;
    let columns = "id BIGINT PRIMARY KEY, small SMALLINT, price DECIMAL(10,2), day DATE, at TIMESTAMP, name TEXT DEFAULT 'none', \
                   ratio DOUBLE";
    test.run(&format!("CREATE LIVE TABLE given ({columns})")).await;
    test.run(&format!("CREATE LIVE TABLE typed ({columns})")).await;
    let text = |value: &str| ScalarValue::Utf8(Some(value.to_owned()));
    let int = |value: i32| ScalarValue::Int32(Some(value));
    let cases: Vec<(&str, Vec<ScalarValue>, &str)> = vec![
        (
            "VALUES ($1, $2, $3, $4, $5, $6, $7)",
            vec![
                int(1),
                int(7),
                text("12.30"),
                text("2024-02-29"),
                text("2024-02-29 10:00:00"),
                text("it's"),
                int(2),
            ],
            "VALUES (1, 7, 12.30, '2024-02-29', '2024-02-29 10:00:00', 'it''s', 2)",
        ),
        (
            "(ratio, id) VALUES ($2, $1), (0.5, $3), ($2, 4)",
            vec![text("2"), ScalarValue::Float32(Some(0.25)), int(3)],
            "(ratio, id) VALUES (0.25, 2), (0.5, 3), (0.25, 4)",
        ),
        (
            "(id, small, day, name) VALUES ($1, $2, $4, $3)",
            vec![int(5), ScalarValue::Null, ScalarValue::Utf8(None), ScalarValue::Null],
            "(id, small, day, name) VALUES (5, NULL, NULL, NULL)",
        ),
        (
            "(id, small, ratio) VALUES ($1 + 1, -$2, CAST($3 AS DOUBLE))",
            vec![ScalarValue::Int64(Some(5)), ScalarValue::Int64(Some(9)), text("1e3")],
            "(id, small, ratio) VALUES (6, -9, 1000)",
        ),
        (
            "(id, name) SELECT $1, upper($2)",
            vec![ScalarValue::Int64(Some(7)), text("loud")],
            "(id, name) VALUES (7, 'LOUD')",
        ),
        ("(id) VALUES ($1), ($2), ($1)", vec![int(8), int(9)], "(id) VALUES (8), (9)"),
        (
            "(id, name, price) VALUES ($1::bigint, $2::text, $3::decimal(10,2)), (11, $2, NULL)",
            vec![text("10"), text("both"), text("0.5")],
            "(id, name, price) VALUES (10, 'both', 0.5), (11, 'both', NULL)",
        ),
        (
            "(id, ratio) VALUES ($1, $2) RETURNING id + $2",
            vec![int(12), int(3)],
            "(id, ratio) VALUES (12, 3)",
        ),
    ];
    for (with_parameters, values, with_literals) in cases {
        let sql = format!("INSERT INTO given {with_parameters}");
        let prepared = prepare(&test, &sql).await;
        for _ in 0..2 {
            if let Err(error) = test.session.execute(&prepared, values.clone()).await {
                panic!("{sql}: {error:?}");
            }
        }
        test.run(&format!("INSERT INTO typed {with_literals}")).await;
        assert_eq!(
            sorted(test.run("SELECT * FROM given").await),
            sorted(test.run("SELECT * FROM typed").await),
            "{sql}"
        );
    }
    assert_eq!(test.run("SELECT count(*) FROM given").await, [["12"]]);
    // The result type of a function may depend on the type of its parameter.
    let prepared = prepare(&test, "UPDATE given SET name = upper($1) WHERE id = $2").await;
    test.session.execute(&prepared, vec![text("again"), int(7)]).await.map(|_| ()).unwrap();
    check(&test, "SELECT name FROM given WHERE id = 7", &[&["AGAIN"]]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_that_do_not_fit_are_named_and_nothing_is_written() {
    let test = accounts().await;
    let prepared = prepare(&test, "INSERT INTO accounts (id, owner, amount) VALUES ($1, $2, $3)").await;
    let int = |value: i64| ScalarValue::Int64(Some(value));
    let text = |value: &str| ScalarValue::Utf8(Some(value.to_owned()));
    for (values, expected) in [
        (vec![int(1), text("Ada")], "3 parameters, but 2 values"),
        (vec![int(1), text("Ada"), text("many")], "`$3` cannot be read as Int64: `many`"),
        (vec![int(1), ScalarValue::Utf8(None), int(1)], "null in column `owner`"),
        (vec![ScalarValue::Int64(None), text("Ada"), int(1)], "null in column `id`"),
    ] {
        let error = test.session.execute(&prepared, values.clone()).await.map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(expected), "{values:?}: {error}");
    }
    check(&test, "SELECT count(*) FROM accounts", &[&["0"]]).await;
    // A statement that was prepared before the table changed is planned anew.
    test.run("ALTER TABLE accounts ADD COLUMN born DATE").await;
    test.session.execute(&prepared, vec![text("1"), text("Ada"), int(5)]).await.map(|_| ()).unwrap();
    check(&test, "SELECT * FROM accounts", &[&["1", "Ada", "5", "none", "NULL"]]).await;
}

async fn prepare(test: &TestEngine, sql: &str) -> Prepared {
    let statement = parsed(&test.session, sql);
    test.session.prepare(statement).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_of_hexadecimal_digits_are_bytes_where_bytes_are_wanted() {
    let test = TestEngine::new().await;
    test.run("CREATE LIVE TABLE b (k BYTEA PRIMARY KEY, v BYTEA, t TEXT)").await;
    test.run(
        r"INSERT INTO b VALUES ('\xdeadbeef', '\x', '\x00'), ('\x01FF', 'plain', ''), (x'02', NULL, '')",
    )
    .await;
    let rows: &[&[&str]] = &[&["01ff", "706c61696e", ""], &["02", "NULL", ""], &["deadbeef", "", r"\x00"]];
    check(&test, "SELECT encode(k, 'hex'), encode(v, 'hex'), t FROM b ORDER BY k", rows).await;
    for found in [
        r"k = '\xdeadbeef'",
        r"k IN ('\xDEADBEEF', '\xff')",
        r"k > '\x02' AND t = '\x00'",
        r"k = '\xdeadbeef'::bytea",
    ] {
        // The query runs several times, so that a plan without values would be made.
        for _ in 0..3 {
            check(&test, &format!("SELECT t FROM b WHERE {found}"), &[&[r"\x00"]]).await;
        }
    }
    test.run(r"UPDATE b SET v = '\x0a' WHERE k = '\x02'").await;
    check(&test, "SELECT encode(v, 'hex') FROM b WHERE k = x'02'", &[&["0a"]]).await;
    check(
        &test,
        r"SELECT encode('\x01ff'::bytea, 'hex'), '\x01', try_cast('\xg' AS bytea)",
        &[&["01ff", r"\x01", "NULL"]],
    )
    .await;
    for wrong in
        [r"SELECT '\x0'::bytea", r"SELECT t FROM b WHERE k = '\x0g'", r"INSERT INTO b (k) VALUES ('\xabc')"]
    {
        test.error(wrong, ErrorKind::Data, "does not stand for bytes").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_that_are_named_beside_all_columns_are_given_once() {
    let test = TestEngine::new().await;
    test.run("CREATE LIVE TABLE t (id BIGINT PRIMARY KEY, n BIGINT)").await;
    test.run("INSERT INTO t VALUES (1, 10)").await;
    let version = test.run("SELECT _version FROM t").await.remove(0).remove(0);
    for sql in [
        "SELECT *, _version FROM t",
        "SELECT _version, * FROM t",
        "SELECT * FROM (SELECT *, _version FROM t)",
    ] {
        check(&test, sql, &[&["1", "10", &version]]).await;
    }
    check(&test, "SELECT *, _version AS v FROM t", &[&["1", "10", &version, &version]]).await;
}

/// DataFusion calls some expressions never null in one plan and perhaps null in the other.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_never_null_is_grouped_by() {
    let test = TestEngine::new().await;
    test.run("CREATE LIVE TABLE t (k INT PRIMARY KEY, b BOOLEAN, at TIME)").await;
    test.run("INSERT INTO t VALUES (1, true, '08:00'), (2, NULL, '09:30'), (3, false, NULL)").await;
    check(&test, "SELECT max(x) FROM (SELECT DISTINCT b IS TRUE AS x FROM t)", &[&["true"]]).await;
    let grouped = "SELECT count(*) FROM (SELECT coalesce(b, false) AS x FROM t GROUP BY coalesce(b, false))";
    check(&test, grouped, &[&["2"]]).await;
    check(&test, "SELECT k FROM t WHERE b IS DISTINCT FROM false AND k > 1", &[&["2"]]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn times_of_any_unit_are_compared() {
    let test = TestEngine::new().await;
    let times = vec![Some(8 * 3600 * 1_000_000), Some(34_200_000_001), None];
    let rows = batch!("id" => Int64Array::from(vec![1, 2, 3]), "at" => Time64MicrosecondArray::from(times));
    test.table("f", &[rows]).await;
    test.run("CREATE LIVE TABLE t (id BIGINT PRIMARY KEY, at TIME)").await;
    test.run("INSERT INTO t SELECT * FROM f").await;
    for (condition, found) in [
        ("at = TIME '08:00:00'", "1"),
        ("at > TIME '08:00:00'", "2"),
        ("at BETWEEN TIME '08:00:00' AND TIME '09:30:00'", "1"),
        ("at NOT BETWEEN TIME '08:00:00' AND TIME '09:30:00'", "2"),
        ("at IN (TIME '09:30:00.000001', TIME '10:00')", "2"),
        ("at > '09:00'", "2"),
        ("at BETWEEN '09:00' AND '10:00'", "2"),
    ] {
        for table in ["f", "t"] {
            check(&test, &format!("SELECT id FROM {table} WHERE {condition}"), &[&[found]]).await;
        }
    }
    check(&test, "SELECT f.id FROM f JOIN t ON f.at = t.at ORDER BY 1", &[&["1"], &["2"]]).await;
}
