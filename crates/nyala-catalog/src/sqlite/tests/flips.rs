//! Symptom to avoid: a bit flips on the disk, and a different catalog is opened.
//!
//! Promise: for any bit of any file, opening gives the written catalog, or an error that names the file.
//! `NYALA_FLIPS=100000` makes the test long.

use std::fs;
use std::path::{Path, PathBuf};

use nyala_model::CatalogSnapshot;
use tempfile::TempDir;

use crate::conformance::fixtures::{create_cube, create_table, cuboid, name};
use crate::sqlite::mark::path_of;
use crate::{Catalog, CatalogError, Change, SqliteStore};

const FLIPS: usize = 150;

/// A closed catalog.
async fn written() -> (TempDir, PathBuf, CatalogSnapshot) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.db");
    let store = std::sync::Arc::new(SqliteStore::open(&path).await.unwrap());
    let catalog = Catalog::open(store.clone()).await.unwrap();
    fill(&catalog).await;
    let snapshot = catalog.snapshot().as_ref().clone();
    store.close().await;
    (folder, path, snapshot)
}

async fn fill(catalog: &Catalog) {
    for number in 0..5 {
        catalog.commit(create_table(&format!("t{number}"))).await.unwrap();
    }
    catalog.commit(create_table("sales")).await.unwrap();
    catalog.commit(create_cube("revenue", &["sales"])).await.unwrap();
    let begin = Change::BeginSegment {
        cube: catalog.snapshot().cubes[&name("revenue")].id,
        revision: 0,
        location: "cubes/1/2/".to_owned(),
        range: nyala_model::SegmentRange::Whole,
        sources: vec![],
        node: nyala_model::NodeId::default(),
    };
    let segment = catalog.commit(begin).await.unwrap().segment.unwrap();
    for bits in 0..20 {
        catalog.commit(Change::AddCuboid { segment, cuboid: cuboid(bits, 10) }).await.unwrap();
    }
}

/// Bits of a file of `bytes` bytes: some at its start and its end, and others all over it.
fn bits(bytes: usize) -> impl Iterator<Item = usize> {
    let flips = std::env::var("NYALA_FLIPS").ok().and_then(|flips| flips.parse().ok()).unwrap_or(FLIPS);
    let all = bytes * 8;
    let ends = (0..all.min(8 * 4)).chain(all.saturating_sub(8)..all);
    // A step without a common divisor with the powers of two meets every bit of a byte.
    let step = (all / flips).max(1) | 1;
    ends.chain((0..all).step_by(step))
}

async fn check(path: &Path, expected: &CatalogSnapshot, context: &str) {
    match Catalog::open_sqlite(path).await {
        Ok(catalog) => assert_eq!(*catalog.snapshot(), *expected, "{context}"),
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains(&path.display().to_string()), "{context}: {text}");
        }
    }
}

#[tokio::test]
async fn a_flipped_bit_gives_the_same_catalog_or_an_error() {
    let (_folder, path, expected) = written().await;
    for file in [path.clone(), path_of(&path)] {
        let whole = fs::read(&file).unwrap();
        for bit in bits(whole.len()) {
            let copy = tempfile::tempdir().unwrap();
            let own = copy.path().join("catalog.db");
            fs::copy(&path, &own).unwrap();
            fs::copy(path_of(&path), path_of(&own)).unwrap();
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let target = if file == path { own.clone() } else { path_of(&own) };
            fs::write(target, flipped).unwrap();
            check(&own, &expected, &format!("{} bit {bit}", file.display())).await;
        }
    }
}

#[tokio::test]
async fn a_flipped_bit_in_the_log_of_a_killed_process_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.db");
    let catalog = Catalog::open_sqlite(&path).await.unwrap();
    fill(&catalog).await;
    let suffixes = ["", "-wal", "-mark"];
    let of = |path: &Path, suffix: &str| PathBuf::from(format!("{}{suffix}", path.display()));
    let files: Vec<Vec<u8>> = suffixes.iter().map(|suffix| fs::read(of(&path, suffix)).unwrap()).collect();
    let mut refused = 0;
    for bit in bits(files[1].len()) {
        let copy = tempfile::tempdir().unwrap();
        let own = copy.path().join("catalog.db");
        for (suffix, bytes) in suffixes.iter().zip(&files) {
            fs::write(of(&own, suffix), bytes).unwrap();
        }
        let mut flipped = files[1].clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fs::write(of(&own, "-wal"), flipped).unwrap();
        check(&own, &catalog.snapshot(), &format!("bit {bit} of the log")).await;
        refused += usize::from(Catalog::open_sqlite(&own).await.is_err());
    }
    assert!(refused > 20, "only {refused} flips were found");
}

#[tokio::test]
async fn a_lost_file_is_never_an_empty_catalog() {
    let (_folder, path, expected) = written().await;
    let whole = fs::read(&path).unwrap();
    for lose in [|path: &Path| fs::remove_file(path).unwrap(), |path: &Path| fs::write(path, "").unwrap()] {
        lose(&path);
        let error = Catalog::open_sqlite(&path).await.unwrap_err();
        assert!(matches!(error, CatalogError::Corrupt { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(&path.display().to_string()) && text.contains("catalog restore"), "{text}");
        fs::write(&path, &whole).unwrap();
    }
    check(&path, &expected, "put back").await;
    fs::remove_file(path_of(&path)).unwrap();
    let text = Catalog::open_sqlite(&path).await.unwrap_err().to_string();
    assert!(text.contains("-mark`, which tells"), "{text}");
}
