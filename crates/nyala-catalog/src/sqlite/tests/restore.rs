//! Copies of a catalog, and restoring one.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;

use crate::conformance::fixtures::create_table;
use crate::{Catalog, CatalogError, SqliteStore, backups, restore};

/// A catalog with a copy that has its first table; the second came later.
async fn with_copy() -> (TempDir, PathBuf, backups::Backup) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.sqlite");
    let store = Arc::new(SqliteStore::open(&path).await.unwrap());
    let catalog = Catalog::open(store.clone()).await.unwrap();
    catalog.commit(create_table("first")).await.unwrap();
    let copy = backups::make(&catalog, &folder.path().join("copies"), 3).await.unwrap();
    catalog.commit(create_table("second")).await.unwrap();
    store.close().await;
    (folder, path, copy)
}

#[tokio::test]
async fn a_copy_takes_the_place_of_a_damaged_catalog() {
    let (folder, path, copy) = with_copy().await;
    fs::write(&path, "rubbish").unwrap();
    Catalog::open_sqlite(&path).await.unwrap_err();
    let before = fs::read(&copy.path).unwrap();
    let restored = restore(&path, &copy.path, &folder.path().join("aside"), &BTreeMap::new()).await.unwrap();
    assert_eq!(restored.missing, Some(1), "the second table");
    assert_eq!(fs::read(restored.set_aside.unwrap().join("catalog.sqlite")).unwrap(), b"rubbish");
    assert!(fs::read(&copy.path).unwrap() == before, "a copy stays as it is");
    let catalog = Catalog::open_sqlite(&path).await.unwrap();
    let tables: Vec<String> = catalog.snapshot().tables.keys().map(ToString::to_string).collect();
    assert_eq!(tables, ["public.first"]);
    assert!(catalog.restored().await.unwrap());
    catalog.forget_restored().await.unwrap();
    // New ids skip all ids that the lost catalog may have given.
    let third = catalog.commit(create_table("third")).await.unwrap().snapshot;
    assert!(third.tables.values().last().unwrap().id.0 > 1 << 20);
    let again = Catalog::open_sqlite(&path).await.unwrap();
    assert!(!again.restored().await.unwrap());
    assert_eq!(*again.snapshot(), *third);
}

#[tokio::test]
async fn a_copy_that_is_not_whole_changes_nothing() {
    let (folder, path, copy) = with_copy().await;
    let (catalog, mut bytes) = (fs::read(&path).unwrap(), fs::read(&copy.path).unwrap());
    assert!(copy.is_whole().unwrap());
    let at = bytes.len() - 10;
    bytes[at] ^= 1;
    fs::write(&copy.path, &bytes).unwrap();
    assert!(!copy.is_whole().unwrap());
    bytes.truncate(bytes.len() / 2);
    fs::write(&copy.path, &bytes).unwrap();
    let error = restore(&path, &copy.path, &folder.path().join("aside"), &BTreeMap::new()).await.unwrap_err();
    assert!(matches!(error, CatalogError::Corrupt { .. }), "{error}");
    assert!(error.to_string().contains(&copy.path.display().to_string()), "{error}");
    assert!(fs::read(&path).unwrap() == catalog, "the catalog was touched");
    assert!(!folder.path().join("aside").exists());
}

#[tokio::test]
async fn the_catalog_itself_can_be_taken_as_it_is() {
    let (folder, path, _copy) = with_copy().await;
    fs::remove_file(crate::sqlite::mark::path_of(&path)).unwrap();
    let restored = restore(&path, &path, &folder.path().join("aside"), &BTreeMap::new()).await.unwrap();
    assert_eq!((restored.missing, restored.snapshot.tables.len()), (None, 2));
    Catalog::open_sqlite(&path).await.unwrap();
}

#[tokio::test]
async fn only_the_newest_copies_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = Catalog::open_sqlite(&folder.path().join("catalog.sqlite")).await.unwrap();
    let copies = folder.path().join("copies");
    for number in 0..5 {
        catalog.commit(create_table(&format!("t{number}"))).await.unwrap();
        backups::make(&catalog, &copies, 3).await.unwrap();
    }
    let versions: Vec<u64> = backups::list(&copies).unwrap().iter().map(|copy| copy.version.0).collect();
    assert_eq!(versions, [6, 5, 4]);
    for file in fs::read_dir(&copies).unwrap() {
        let mode = std::os::unix::fs::PermissionsExt::mode(&file.unwrap().metadata().unwrap().permissions());
        assert_eq!(mode & 0o077, 0, "it has what passwords are checked with");
    }
}
