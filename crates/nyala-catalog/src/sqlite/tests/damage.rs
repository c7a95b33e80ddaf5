//! Damaged catalog files, and a full disk.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nyala_model::{QueryHistoryEntry, QueryShape};
use tempfile::TempDir;

use crate::conformance::fixtures::{create_table, new_table, node};
use crate::sqlite::seal::{Key, seal};
use crate::{Catalog, CatalogError, Change, SqliteStore};

#[tokio::test]
async fn a_file_that_is_no_database_is_reported_with_the_next_step() {
    for contents in [&b"x"[..], b"not a database", &[0xab; 5000], &[0; 4096]] {
        let (_folder, path) = place();
        fs::write(&path, contents).unwrap();
        check_corrupt(&path).await;
        assert_eq!(fs::read(&path).unwrap(), contents, "the file must stay as it was");
    }
}

#[tokio::test]
async fn a_damaged_page_is_reported() {
    let (_folder, path) = place();
    write_many_pages(&path).await;
    for page in [0, 1, 5] {
        let intact = fs::read(&path).unwrap();
        fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .write_all_at(&[0xff; 2048], page * 4096)
            .unwrap();
        check_corrupt(&path).await;
        fs::write(&path, intact).unwrap();
        Catalog::open_sqlite(&path).await.unwrap();
    }
}

#[tokio::test]
async fn a_row_that_cannot_be_understood_is_reported() {
    let (_folder, path) = place();
    let catalog = Catalog::open_sqlite(&path).await.unwrap();
    catalog.commit(create_table("sales")).await.unwrap();
    run(&path, "UPDATE tables SET source = '{'").await;
    check_corrupt(&path).await;
}

#[tokio::test]
async fn a_database_of_another_program_is_left_alone() {
    let (_folder, path) = place();
    Catalog::open_sqlite(&path).await.unwrap();
    run(&path, "ALTER TABLE nyala_meta RENAME TO other_meta").await;
    let message = check_corrupt(&path).await;
    assert!(message.contains("it holds the tables of another program"), "{message}");
}

#[tokio::test]
async fn a_newer_format_is_refused() {
    let (_folder, path) = place();
    Catalog::open_sqlite(&path).await.unwrap();
    run(&path, "UPDATE nyala_meta SET value = 99 WHERE key = 'schema_version'").await;
    let store = SqliteStore::open_copy(&path, &path).await.unwrap();
    let mut connection = store.writer.acquire().await.unwrap();
    seal(&mut connection, &Key::name("nyala_meta", "key", "schema_version")).await.unwrap();
    drop(connection);
    store.close().await;
    let error = Catalog::open_sqlite(&path).await.unwrap_err();
    assert!(matches!(error, CatalogError::Newer { found: 99, .. }), "{error}");
}

#[tokio::test]
async fn a_path_that_cannot_be_opened_is_named() {
    let (folder, path) = place();
    fs::write(&path, "").unwrap();
    for wrong in [folder.path().to_owned(), path.join("below/a/file")] {
        let error = Catalog::open_sqlite(&wrong).await.unwrap_err();
        assert!(matches!(error, CatalogError::Open { .. }), "{error}");
        assert!(error.to_string().contains(&wrong.display().to_string()), "{error}");
    }
}

#[tokio::test]
async fn a_full_disk_is_recognised_and_survived() {
    let (_folder, path) = place();
    let store = std::sync::Arc::new(SqliteStore::open(&path).await.unwrap());
    let catalog = Catalog::open(store.clone()).await.unwrap();
    catalog.commit(create_table("before")).await.unwrap();
    // SQLite reports its own size limit exactly as it reports a full disk.
    sqlx::query("PRAGMA max_page_count = 1").execute(&store.writer).await.unwrap();
    let before = catalog.snapshot();
    let error = catalog.commit(large_table("large")).await.unwrap_err();
    assert!(error.is_disk_full(), "{error}");
    assert!(error.to_string().contains("free some space"), "{error}");
    assert_eq!(catalog.snapshot(), before);
    let after = catalog.commit(large_table("large")).await.unwrap().snapshot;
    assert_eq!(after.version.0, before.version.0 + 1);
    assert_eq!(*Catalog::open_sqlite(&path).await.unwrap().snapshot(), *after);
}

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.db");
    (folder, path)
}

/// Opening must fail with `Corrupt`, and name the file and the next step.
async fn check_corrupt(path: &Path) -> String {
    let error = Catalog::open_sqlite(path).await.expect_err("a damaged file was opened");
    assert!(matches!(error, CatalogError::Corrupt { .. }), "{error}");
    let message = error.to_string();
    assert!(message.contains(&path.display().to_string()), "{message}");
    assert!(message.contains("run `nyala catalog restore`"), "{message}");
    message
}

/// Runs a statement that the catalog itself never runs.
async fn run(path: &Path, statement: &'static str) {
    let store = SqliteStore::open(path).await.unwrap();
    sqlx::query(statement).execute(&store.writer).await.unwrap();
}

async fn write_many_pages(path: &Path) {
    let store = std::sync::Arc::new(SqliteStore::open(path).await.unwrap());
    let catalog = Catalog::open(store.clone()).await.unwrap();
    for n in 0..5 {
        catalog.commit(large_table(&format!("t{n}"))).await.unwrap();
    }
    // Everything moves from the log into the file itself.
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&store.writer).await.unwrap();
    store.writer.close().await;
}

fn large_table(name: &str) -> Change {
    let mut table = new_table(name);
    table.definition = "x".repeat(100_000);
    Change::CreateTable { table, if_not_exists: false }
}

#[tokio::test]
async fn a_history_that_finds_the_disk_full_keeps_no_change_from_being_made() {
    let (_folder, path) = place();
    let store = std::sync::Arc::new(SqliteStore::open(&path).await.unwrap());
    let catalog = Catalog::open(store.clone()).await.unwrap();
    sqlx::query("PRAGMA max_page_count = 1").execute(&store.writer).await.unwrap();
    let error = catalog.record_queries(&node(), &[large_query()], 10).await.unwrap_err();
    assert!(error.is_disk_full(), "{error}");
    // Space is free again.
    sqlx::query("PRAGMA max_page_count = 1000000").execute(&store.writer).await.unwrap();
    catalog.commit(create_table("after")).await.unwrap();
    catalog.record_queries(&node(), &[large_query()], 10).await.unwrap();
    assert_eq!(catalog.query_history(&node()).await.unwrap(), [large_query()]);
}

#[tokio::test]
async fn nobody_but_its_owner_reads_the_file() {
    let (folder, path) = place();
    let catalog = Catalog::open_sqlite(&path).await.unwrap();
    catalog.commit(create_table("sales")).await.unwrap();
    let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(Result::unwrap).collect();
    assert!(files.len() > 1, "the log of changes lies beside it");
    for file in files {
        let mode = file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}", file.path().display());
    }
}

fn large_query() -> QueryHistoryEntry {
    QueryHistoryEntry {
        id: "large".to_owned(),
        shape: QueryShape::default(),
        asked: 1,
        total_us: 1,
        max_us: 1,
        rows: 1,
        misses: 1,
        missed_us: 1500,
        miss_reason: Some("x".repeat(100_000)),
        last_miss_ms: 1,
        answers: Vec::new(),
        last_asked_ms: 1,
    }
}
