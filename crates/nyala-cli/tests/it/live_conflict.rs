//! ON CONFLICT for rows that exist, and the versions of rows, which detect changes since a read.

use nyala_engine::ErrorKind;

use crate::harness::TestEngine;
use crate::live::{accounts, check, written};

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_exist_are_kept_if_asked() {
    let test = accounts().await;
    test.run("INSERT INTO accounts VALUES (1, 'Ada', 10, '')").await;
    let keep = "INSERT INTO accounts VALUES (1, 'X', 0, ''), (2, 'Bo', 1, ''), (2, 'Y', 2, '') ON CONFLICT DO NOTHING";
    assert_eq!(written(&test, keep).await, 1);
    assert_eq!(written(&test, keep).await, 0);
    check(&test, "SELECT id, owner FROM accounts", &[&["1", "Ada"], &["2", "Bo"]]).await;
    let replace = "INSERT INTO accounts (ID, owner, amount, note) VALUES (2, 'Bob', 3, 'y') ON CONFLICT (id) \
                   DO UPDATE SET Owner = EXCLUDED.owner, amount = EXCLUDED.Amount, note = excluded.note";
    assert_eq!(written(&test, replace).await, 1);
    check(&test, "SELECT * FROM accounts", &[&["1", "Ada", "10", ""], &["2", "Bob", "3", "y"]]).await;
    let all = "INSERT INTO accounts VALUES (2, 'Bo', 4, NULL) ON CONFLICT (id) \
               DO UPDATE SET note = EXCLUDED.note, amount = EXCLUDED.amount, owner = EXCLUDED.owner";
    assert_eq!(written(&test, all).await, 1);
    check(&test, "SELECT * FROM accounts", &[&["1", "Ada", "10", ""], &["2", "Bo", "4", "NULL"]]).await;
}

/// Replacing a whole row would lose the values of unnamed columns, and a column that is no key does not identify rows.
#[tokio::test(flavor = "multi_thread")]
async fn conflicts_that_no_key_resolves_are_refused() {
    let test = accounts().await;
    test.run("INSERT INTO accounts VALUES (1, 'Ada', 10, 'x')").await;
    let some = "INSERT INTO accounts (id, owner) VALUES (1, 'Eva') ON CONFLICT";
    let all = "INSERT INTO accounts VALUES (1, 'Eva', 0, '') ON CONFLICT";
    for (sql, kind, words) in [
        (
            format!("{some} (owner) DO UPDATE SET id = EXCLUDED.id"),
            ErrorKind::Unsupported,
            "(owner) does not name the primary key, which is (id)",
        ),
        (
            format!("{some} (owner) DO NOTHING"),
            ErrorKind::Unsupported,
            "(owner) does not name the primary key, which is (id)",
        ),
        (format!("{all} (id, owner) DO NOTHING"), ErrorKind::Unsupported, "which is (id)"),
        (
            format!("{all} (id) DO UPDATE SET owner = EXCLUDED.owner, OWNER = EXCLUDED.owner"),
            ErrorKind::Syntax,
            "`owner`",
        ),
        (
            format!(
                "{all} (id) DO UPDATE SET owner = EXCLUDED.owner, amount = EXCLUDED.amount, \
                 note = EXCLUDED.note, age = EXCLUDED.age"
            ),
            ErrorKind::UndefinedColumn,
            "`age`",
        ),
    ] {
        test.error(&sql, kind, words).await;
        check(&test, "SELECT * FROM accounts", &[&["1", "Ada", "10", "x"]]).await;
    }
}

/// Equal rows have other versions in another table.
#[tokio::test(flavor = "multi_thread")]
async fn tables_whose_versions_are_not_named_are_without_them() {
    let test = TestEngine::new().await;
    for table in ["a", "b"] {
        test.run(&format!("CREATE LIVE TABLE {table} (id BIGINT PRIMARY KEY, n BIGINT)")).await;
        test.run(&format!("INSERT INTO {table} VALUES (1, 10), (2, 20), (3, 30)")).await;
    }
    test.run("CREATE LIVE TABLE dead (id BIGINT PRIMARY KEY)").await;
    test.run("INSERT INTO dead VALUES (3)").await;
    test.run("UPDATE b SET n = 21 WHERE id = 2").await;
    let other = "DELETE FROM a WHERE id IN (SELECT id FROM (SELECT * FROM a EXCEPT SELECT * FROM b) d)";
    assert_eq!(written(&test, other).await, 1);
    check(&test, "SELECT id FROM a", &[&["1"], &["3"]]).await;
    let same = "UPDATE a SET n = n + 1 WHERE _version > 0 AND id IN (SELECT b.id FROM a AS x NATURAL JOIN b)";
    assert_eq!(written(&test, same).await, 2);
    assert_eq!(written(&test, "DELETE FROM a WHERE id IN (SELECT * FROM public.dead)").await, 1);
    let listed = "UPDATE a SET n = (SELECT count(*) FROM information_schema.tables WHERE table_name = 'b')";
    assert_eq!(written(&test, listed).await, 1);
    check(&test, "SELECT * FROM a", &[&["1", "1"]]).await;
    // A table has versions in the parts of a query that name them.
    let newer = "SELECT b.id FROM b WHERE b._version > (SELECT max(_version) FROM b AS x WHERE x.id IN (SELECT * FROM dead))";
    check(&test, newer, &[&["2"]]).await;
    let one = "SELECT a._version > 0, b.*, a.id FROM a JOIN b ON a.id = b.id";
    check(&test, one, &[&["true", "1", "10", "1"]]).await;
    check(&test, "SELECT n FROM b WHERE id IN (SELECT * FROM dead) ORDER BY _version", &[&["30"]]).await;
    let within =
        "WITH b AS (SELECT * FROM b WHERE id = 3) SELECT q._version > 0 FROM (SELECT * FROM b) AS q, a";
    check(&test, within, &[&["true"]]).await;
    // `table.*` gives the columns of the named table, also where another table has versions.
    let whole = "SELECT public.b.*, a._version > 0 FROM public.a JOIN public.b ON public.a.id = public.b.id";
    check(&test, whole, &[&["1", "10", "true"]]).await;
    let inner = "SELECT a.n FROM a WHERE a._version > 0 AND a.id IN (SELECT d.id FROM (SELECT public.a.* FROM public.a) d)";
    check(&test, inner, &[&["1"]]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_are_named_by_their_whole_name_only() {
    let test = TestEngine::new().await;
    for table in ["model_versions", "staging_versions", "models"] {
        test.run(&format!("CREATE LIVE TABLE {table} (id BIGINT PRIMARY KEY, app_version BIGINT)")).await;
    }
    test.run("INSERT INTO staging_versions VALUES (1, 3), (2, 4)").await;
    test.run("INSERT INTO model_versions VALUES (1, 2)").await;
    let copy = "INSERT INTO model_versions SELECT * FROM staging_versions WHERE app_version > 2";
    assert_eq!(written(&test, copy).await, 2);
    let all = "SELECT * FROM model_versions";
    check(&test, all, &[&["1", "3"], &["2", "4"]]).await;
    check(&test, "SELECT * FROM model_versions WHERE app_version = 4", &[&["2", "4"]]).await;
    // The table that is read may name versions although the table that is written does not.
    let newer = "INSERT INTO models SELECT id, app_version FROM model_versions WHERE _VERSION > 0";
    assert_eq!(written(&test, newer).await, 2);
    let absent = "INSERT INTO models (id, _version) SELECT * FROM (SELECT id + 10, 0 FROM models) d";
    assert_eq!(written(&test, absent).await, 2);
    test.error(absent, ErrorKind::Conflict, "").await;
    test.error("SELECT \"_VERSION\" FROM models", ErrorKind::UndefinedColumn, "_VERSION").await;
    check(&test, "SELECT app_version AS _version FROM models WHERE id = 1", &[&["3"]]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_guard_what_was_read() {
    let test = accounts().await;
    test.run("INSERT INTO accounts VALUES (1, 'Ada', 10, ''), (2, 'Bo', 20, '')").await;
    let version = |id: u32| format!("SELECT _version FROM accounts WHERE id = {id}");
    let read = test.run(&version(1)).await[0][0].clone();
    assert_eq!(test.run(&version(2)).await[0][0], read, "rows of one statement have one version");
    let update = format!("UPDATE accounts SET amount = amount + 1 WHERE id = 1 AND _version = {read}");
    assert_eq!(written(&test, &update).await, 1);
    assert_eq!(written(&test, &update).await, 0);
    let insert = |expected: &str| {
        format!("INSERT INTO accounts (id, owner, amount, _version) VALUES (1, 'Eve', 0, {expected})")
    };
    test.error(&insert(&read), ErrorKind::Conflict, "read it again and retry").await;
    test.error(&insert("0"), ErrorKind::Conflict, "not 0").await;
    let now = test.run(&version(1)).await[0][0].clone();
    assert_eq!(written(&test, &insert(&now)).await, 1);
    assert_eq!(written(&test, "INSERT INTO accounts (id, owner, _version) VALUES (9, 'New', 0)").await, 1);
    check(&test, "SELECT owner FROM accounts", &[&["Eve"], &["Bo"], &["New"]]).await;
    let columns = test.run("SELECT * FROM accounts LIMIT 1").await;
    assert_eq!(columns[0].len(), 4, "versions are only shown to those who name them");
}
