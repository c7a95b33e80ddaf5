//! DDL statements on live tables that a crash or their client interrupts: the catalog decides which tables exist, and
//! only rows of the dropped table are removed.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use arrow::datatypes::{DataType, Field};
use nyala_catalog::{Change, NewTable};
use nyala_engine::{ErrorKind, SessionOptions};
use nyala_model::{QualifiedName, TableSource};
use nyala_storage::oplog::{Alteration, DiskStore, Environment, StoreOptions};

use crate::harness::TestEngine;
use crate::program::PATIENCE;

const ACCOUNTS: &str = "CREATE LIVE TABLE accounts (id BIGINT PRIMARY KEY, owner TEXT NOT NULL, \
                        note TEXT DEFAULT 'none')";

async fn accounts() -> TestEngine {
    let test = TestEngine::new().await;
    test.run(ACCOUNTS).await;
    test.run("INSERT INTO accounts (id, owner) VALUES (1, 'Ada')").await;
    test
}

/// An interrupted DROP TABLE: the store has no table of this name any more, and the catalog does not know that.
async fn leave_over(test: &TestEngine, stored_as: &str) {
    let catalog = test.engine.catalog();
    let model = catalog.snapshot().tables.values().next().unwrap().clone();
    let mut source = model.live().unwrap().clone();
    source.stored_as = stored_as.to_owned();
    let name = QualifiedName::new("public", "dropped");
    let table = NewTable {
        name: name.clone(),
        source: TableSource::Live(source),
        schema_ipc: model.schema_ipc.clone(),
        definition: model.definition.clone(),
    };
    catalog.commit(Change::CreateTable { table, if_not_exists: false }).await.unwrap();
    catalog
        .commit(Change::DropTables { names: vec![name], views: false, if_exists: false, cascade: false })
        .await
        .unwrap();
    assert_eq!(leftovers(test, "main"), [stored_as]);
}

fn leftovers(test: &TestEngine, store: &str) -> Vec<String> {
    test.engine.catalog().snapshot().disk_stores[store].leftovers.iter().cloned().collect()
}

/// Symptom: all rows of a table were gone after something else was dropped. Cause: a `DROP TABLE` that was cut off left the
/// name to a table that was made later. Promise: only rows of the dropped table are removed.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_not_taken_for_one_that_was_dropped() {
    for left_over_first in [true, false] {
        let test = TestEngine::new().await;
        test.run("CREATE LIVE TABLE other (id BIGINT PRIMARY KEY)").await;
        if left_over_first {
            leave_over(&test, "public.t").await;
        }
        test.run("CREATE LIVE TABLE t (id BIGINT PRIMARY KEY)").await;
        test.run("INSERT INTO t VALUES (1), (2)").await;
        if !left_over_first {
            leave_over(&test, "public.t").await;
        }
        test.run("DROP TABLE other").await;
        assert_eq!(test.run("SELECT count(*) FROM t").await, [["2"]], "left over first: {left_over_first}");
        assert!(leftovers(&test, "main").is_empty());
        let test = test.reopen().await;
        assert_eq!(test.run("SELECT count(*) FROM t").await, [["2"]], "left over first: {left_over_first}");
    }
}

/// Alters the table in its closed store: a change that the catalog did not record before a process ended.
fn alter_in_store(data: &Path, changes: Vec<Alteration>) {
    let folder = data.join("stores/main");
    let store = DiskStore::open(&folder, StoreOptions::default(), Environment::default()).unwrap();
    let table = store.table("public.accounts").unwrap();
    for change in changes {
        table.alter(change).unwrap();
    }
    drop(table);
    store.close().unwrap();
}

fn add(name: &str) -> Alteration {
    Alteration::AddColumn(Field::new(name, DataType::Int32, true))
}

fn rename(from: &str, to: &str) -> Alteration {
    Alteration::RenameColumn { from: from.to_owned(), to: to.to_owned() }
}

/// Tries until it succeeds: the catalog is updated in the background.
async fn run_soon(test: &TestEngine, sql: &str) -> Vec<Vec<String>> {
    let mut last = None;
    for _ in 0..250 {
        match test.try_run(sql).await {
            Ok(rows) => return rows,
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{sql}: {last:?}");
}

const ADA: [&str; 2] = ["1", "Ada"];

#[tokio::test(flavor = "multi_thread")]
async fn an_alteration_that_a_crash_cut_in_two_is_completed_at_the_next_start() {
    let dropped = Alteration::DropColumn("note".to_owned());
    for (changes, insert, expected) in [
        (vec![add("born")], "(id, owner) VALUES (2, 'Bo')", vec!["2", "Bo", "none", "NULL"]),
        (vec![dropped], "(id, owner) VALUES (2, 'Bo')", vec!["2", "Bo"]),
        (
            vec![rename("note", "remark"), add("born")],
            "(id, owner, born) VALUES (2, 'Bo', 3)",
            vec!["2", "Bo", "none", "3"],
        ),
    ] {
        let what = format!("{changes:?}");
        let test = accounts().await.reopen_after(|data| alter_in_store(data, changes)).await;
        run_soon(&test, &format!("INSERT INTO accounts {insert}")).await;
        let rows = run_soon(&test, "SELECT * FROM accounts ORDER BY id").await;
        assert_eq!(rows[0][..2], ADA, "{what}");
        assert_eq!(rows[1], expected, "{what}");
    }
}

/// A repeated statement must complete the alteration, not find it done.
#[tokio::test(flavor = "multi_thread")]
async fn an_alteration_that_was_cut_in_two_is_completed_by_the_next_one() {
    for (changes, again) in [
        (vec![add("born")], "ADD COLUMN IF NOT EXISTS born INT"),
        (vec![Alteration::DropColumn("note".to_owned())], "DROP COLUMN IF EXISTS note"),
        (vec![rename("note", "remark")], "ADD COLUMN IF NOT EXISTS remark TEXT"),
    ] {
        let test = accounts().await.reopen_after(|data| alter_in_store(data, changes)).await;
        test.run(&format!("ALTER TABLE accounts {again}")).await;
        test.run("INSERT INTO accounts (id, owner) VALUES (2, 'Bo')").await;
        assert_eq!(test.run("SELECT * FROM accounts").await.len(), 2, "{again}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alteration_that_is_given_up_is_made_or_not() {
    let test = accounts().await;
    for round in 0..20 {
        let alter = format!("ALTER TABLE accounts ADD COLUMN c{round} INT");
        let patience = Duration::from_micros(200 + 200 * round);
        // Whether it ended in time does not matter.
        let _ = tokio::time::timeout(patience, test.try_run(&alter)).await;
        // The begun alteration ends soon.
        tokio::time::sleep(Duration::from_millis(20)).await;
        run_soon(&test, &format!("INSERT INTO accounts (id, owner) VALUES ({round}, 'Bo')")).await;
        run_soon(&test, "SELECT * FROM accounts").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_a_query_that_is_given_up_is_not_there() {
    let test = TestEngine::new().await;
    test.run("CREATE LIVE TABLE other (id BIGINT PRIMARY KEY)").await;
    let endless = "SELECT count(*) AS id FROM generate_series(1, 10000000000000) AS s (n) WHERE n % 3 = 4";
    let made = format!("CREATE LIVE TABLE t (PRIMARY KEY (id)) AS {endless}");
    assert!(tokio::time::timeout(Duration::from_secs(1), test.try_run(&made)).await.is_err());
    test.error("SELECT * FROM t", ErrorKind::UndefinedTable, "t").await;
    test.run("SET statement_timeout = 500").await;
    test.error(&made, ErrorKind::Timeout, "statement_timeout").await;
    test.error("SELECT * FROM t", ErrorKind::UndefinedTable, "t").await;
    test.run("SET statement_timeout = 0").await;
    test.run("CREATE LIVE TABLE t (PRIMARY KEY (id)) AS SELECT 7 AS id").await;
    assert_eq!(test.run("SELECT * FROM t").await, [["7"]]);
    // The statement fails before it runs its query, which would take hours.
    test.error(&made, ErrorKind::DuplicateTable, "table `public.t` already exists").await;
    // The query gives rows that cannot be written.
    let bad = "CREATE LIVE TABLE bad (PRIMARY KEY (id)) AS SELECT nullif(value, 2) AS id FROM generate_series(1, 3) AS s (value)";
    assert!(test.try_run(bad).await.is_err());
    test.error("SELECT * FROM bad", ErrorKind::UndefinedTable, "bad").await;
    assert!(leftovers(&test, "main").is_empty());
}

/// Makes the logs of a store that is not open unreadable: it opens, and takes no writes.
fn damage_logs(store: &Path) {
    for entry in std::fs::read_dir(store).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "log") {
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[0] ^= 1;
            std::fs::write(&path, bytes).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_takes_no_writes_keeps_no_table_from_being_dropped() {
    let test = TestEngine::new().await;
    for store in ["a", "b"] {
        test.run(&format!("CREATE DISK STORE {store}")).await;
        test.run(&format!(
            "CREATE LIVE TABLE in_{store} (id BIGINT PRIMARY KEY) WITH (disk_store = {store})"
        ))
        .await;
        test.run(&format!("INSERT INTO in_{store} VALUES (1)")).await;
    }
    let test = test.reopen_after(|data| damage_logs(&data.join("stores/a"))).await;
    assert_eq!(test.run("SELECT count(*) FROM in_b").await, [["1"]]);
    let state = "SELECT state FROM system.disk_stores WHERE disk_store = 'a'";
    while test.run(state).await == [["opening"]] {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(test.run(state).await, [["read-only"]]);
    test.run("DROP TABLE in_a").await;
    test.error("SELECT * FROM in_a", ErrorKind::UndefinedTable, "in_a").await;
    test.run("DROP TABLE in_b").await;
    test.run("DROP TABLE IF EXISTS nothing").await;
    assert_eq!(leftovers(&test, "a"), ["public.in_a"]);
    assert!(leftovers(&test, "b").is_empty());
    let null = "CREATE LIVE TABLE c (PRIMARY KEY (id)) WITH (disk_store = b) AS \
                SELECT nullif(value, 2) AS id FROM generate_series(1, 3) AS s (value)";
    let error = test.try_run(null).await.unwrap_err();
    assert_ne!(error.kind, ErrorKind::ReadOnly, "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn defaults_go_with_their_columns() {
    let test = accounts().await;
    test.run("ALTER TABLE accounts RENAME COLUMN note TO remark").await;
    test.run("INSERT INTO accounts (id, owner) VALUES (2, 'Bo')").await;
    assert_eq!(test.run("SELECT remark FROM accounts WHERE id = 2").await, [["none"]]);
    let test = test.reopen().await;
    test.run("INSERT INTO accounts (id, owner) VALUES (3, 'Cy')").await;
    assert_eq!(test.run("SELECT remark FROM accounts WHERE id = 3").await, [["none"]]);
    test.run("ALTER TABLE accounts DROP COLUMN remark").await;
    test.run("ALTER TABLE accounts ADD COLUMN remark TEXT, ADD COLUMN note TEXT").await;
    test.run("INSERT INTO accounts (id, owner) VALUES (4, 'Di')").await;
    assert_eq!(test.run("SELECT remark, note FROM accounts WHERE id = 4").await, [["NULL", "NULL"]]);
}

/// Symptom: DROP TABLE and CREATE TABLE waited while a store was made of a folder that takes minutes to read. Promise:
/// only statements on the same folder wait.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_a_store_that_is_being_opened() {
    let test = accounts().await;
    test.run("CREATE DISK STORE other").await;
    let folder = test.path("slow");
    std::fs::create_dir(&folder).unwrap();
    // Opening the pipe waits for a writer.
    let manifest = folder.join("manifest-1");
    assert!(Command::new("mkfifo").arg(&manifest).status().unwrap().success());
    let session = test.engine.session(SessionOptions::default());
    let create = format!("CREATE DISK STORE slow DIR '{}'", folder.display());
    let others = async {
        let is_being_opened = async {
            while !folder.join("lock").exists() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(PATIENCE, is_being_opened).await.unwrap();
        for sql in [
            "DROP TABLE accounts",
            "DROP DISK STORE other",
            "CREATE DISK STORE other",
            "CREATE LIVE TABLE u (id BIGINT PRIMARY KEY) WITH (disk_store = other)",
            "ALTER TABLE u ADD COLUMN n BIGINT",
            "DROP TABLE u",
        ] {
            let done = tokio::time::timeout(PATIENCE, test.run(sql)).await;
            assert!(done.is_ok(), "{sql} waits");
        }
        assert!(leftovers(&test, "main").is_empty() && leftovers(&test, "other").is_empty());
        drop(std::fs::OpenOptions::new().write(true).open(&manifest).unwrap());
    };
    let (created, ()) = tokio::join!(session.query(&create), others);
    let error = created.map(|_| ()).unwrap_err();
    assert!(error.kind == ErrorKind::Unreadable && error.message.contains("manifest"), "{error:?}");
    test.error("DROP DISK STORE slow", ErrorKind::UndefinedObject, "slow").await;
    // The folder is free again.
    std::fs::remove_file(&manifest).unwrap();
    test.run(&create).await;
    test.run("DROP DISK STORE slow").await;
    test.run(&create).await;
}

/// Each operation of a statement sees the columns that the operations before it leave.
#[tokio::test(flavor = "multi_thread")]
async fn operations_of_one_statement_come_one_after_the_other() {
    let test = TestEngine::new().await;
    test.run("CREATE LIVE TABLE t (id BIGINT PRIMARY KEY, a INT)").await;
    test.run("INSERT INTO t VALUES (1, 2)").await;
    let columns = "SELECT column_name FROM information_schema.columns WHERE table_name = 't' \
                   AND column_name <> '_version' ORDER BY ordinal_position";
    test.run("ALTER TABLE t ADD COLUMN b INT, RENAME COLUMN b TO c").await;
    assert_eq!(test.run(columns).await, [["id"], ["a"], ["c"]]);
    test.run("ALTER TABLE t DROP COLUMN a, ADD COLUMN a TEXT").await;
    assert_eq!(test.run("SELECT id, c, a FROM t").await, [["1", "NULL", "NULL"]]);
    // The statement is refused before its first operation is done.
    for (refused, reason) in [
        ("ADD COLUMN d INT, ADD COLUMN d INT", "column `d` already exists"),
        ("DROP COLUMN c, RENAME COLUMN c TO d", "column `c` does not exist"),
    ] {
        let error = test.try_run(&format!("ALTER TABLE t {refused}")).await.unwrap_err();
        assert!(error.to_string().contains(reason), "{refused}: {error}");
    }
    assert_eq!(test.run(columns).await, [["id"], ["c"], ["a"]]);
}

/// Each refused column would change the table, or statements that read it, beyond what the statement says.
#[tokio::test(flavor = "multi_thread")]
async fn columns_come_under_names_that_change_nothing_else() {
    let test = accounts().await;
    for (refused, reason) in [
        ("ADD COLUMN _version BIGINT", "`_version` is a column of its own"),
        ("ADD COLUMN \"_row\" INT", "`_row` is a column of its own"),
        ("RENAME COLUMN note TO _version", "`_version` is a column of its own"),
    ] {
        let sql = format!("ALTER TABLE accounts {refused}");
        test.error(&sql, ErrorKind::InvalidDefinition, reason).await;
    }
    test.run("UPDATE accounts SET note = 'x' WHERE id = 1").await;
    test.run("CREATE LIVE TABLE towns (id BIGINT PRIMARY KEY, town TEXT)").await;
    test.run("INSERT INTO towns VALUES (1, 'Oslo')").await;
    test.run("CREATE VIEW places AS SELECT id, town FROM accounts NATURAL JOIN towns").await;
    test.error("ALTER TABLE accounts ADD COLUMN town TEXT", ErrorKind::Needed, "read by view").await;
    assert_eq!(test.run("SELECT town FROM places").await, [["Oslo"]]);
    test.run("CREATE OR REPLACE VIEW places AS SELECT id, t.town FROM accounts JOIN towns t USING (id)")
        .await;
    test.run("ALTER TABLE accounts ADD COLUMN town TEXT").await;
    assert_eq!(test.run("SELECT town FROM places").await, [["Oslo"]]);
}
