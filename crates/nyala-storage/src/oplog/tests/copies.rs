//! Backup, restore and salvage.

use std::path::Path;

use super::fixture::*;
use crate::oplog::vfs::sim::SimDisk;
use crate::oplog::*;

const COPY: &str = "/copy";

fn filled(disk: &SimDisk) -> (DiskStore, LiveTable) {
    let store = open(disk);
    let table = store.create_table(spec("t")).unwrap();
    table.write(Write::upsert(rows(&[("a", 1), ("b", 2), ("c", 3)]))).unwrap();
    store.seal().unwrap();
    table.write(Write::upsert(rows(&[("d", 4), ("e", 5)]))).unwrap();
    store.seal().unwrap();
    table.write(Write { deletes: Some(keys(&["a"])), ..Write::upsert(rows(&[("f", 6)])) }).unwrap();
    (store, table)
}

fn open_at(disk: &SimDisk, folder: &str) -> DiskStore {
    DiskStore::open(Path::new(folder), small_options(), environment(disk, &ManualClock::default())).unwrap()
}

#[test]
fn a_backup_is_the_store_as_it_was() {
    let disk = SimDisk::new(1);
    let (store, table) = filled(&disk);
    let expected = content(&table).unwrap();
    let online = store.verify().unwrap();
    assert_eq!((online.rows, online.damage().count()), (5, 0));
    // Two files for each of two units; logs of the new store, of its start, and after each seal.
    assert_eq!(online.files.len(), 4 + 4);
    let report = store.backup(Path::new(COPY)).unwrap();
    assert_eq!((report.rows, report.damage().count(), report.torn), (5, 0, None));
    store.backup(Path::new(COPY)).unwrap_err();
    table.write(Write::upsert(rows(&[("later", 7)]))).unwrap();
    let copy = open_at(&disk, COPY);
    assert_eq!(content(&copy.table("t").unwrap()).unwrap(), expected);
    let mut feed = copy.table("t").unwrap().changes(1);
    let changes: Vec<usize> = (0..3).map(|_| feed.next(1 << 20).unwrap().len()).collect();
    assert_eq!(changes, [1, 1, 2], "kept logs come along");
    copy.close().unwrap();
    assert_eq!(feed.next(100).unwrap(), []);
    restore(Path::new(COPY), Path::new("/restored"), &environment(&disk, &ManualClock::default())).unwrap();
    assert_eq!(content(&open_at(&disk, "/restored").table("t").unwrap()).unwrap(), expected);
}

#[test]
fn a_damaged_backup_is_not_restored() {
    let disk = SimDisk::new(1);
    let (store, _table) = filled(&disk);
    store.backup(Path::new(COPY)).unwrap();
    flip(&disk, COPY, ".seg", 70);
    let restored =
        restore(Path::new(COPY), Path::new("/restored"), &environment(&disk, &ManualClock::default()));
    assert!(matches!(restored, Err(OplogError::Damaged(_))), "{restored:?}");
}

#[test]
fn what_is_whole_is_salvaged_and_what_is_not_is_named() {
    let disk = SimDisk::new(1);
    let (store, table) = filled(&disk);
    drop((store, table));
    let damaged = flip(&disk, FOLDER, ".key", 70);
    let store = open(&disk);
    let table = store.table("t").unwrap();
    assert_eq!(store.report().damage.len(), 1);
    let lost = store.report().damage[0].rows.clone().unwrap();
    let range = Some(("a".to_owned(), "c".to_owned()));
    assert_eq!((lost.table.as_str(), lost.rows, lost.keys), ("t", 3, range));
    assert!(matches!(content(&table), Err(OplogError::Damaged(damage)) if damage.file == damaged));
    table.write(Write::upsert(rows(&[("g", 7)]))).unwrap_err();
    assert_eq!(table.lookup(&keys(&["d", "f"])).unwrap().rows, rows(&[("d", 4), ("f", 6)]));
    table.lookup(&keys(&["c"])).unwrap_err();
    let other = store.create_table(spec("other")).unwrap();
    other.write(Write::upsert(rows(&[("x", 1)]))).unwrap();
    store.seal().unwrap();
    drop((other, table, store));
    let environment = environment(&disk, &ManualClock::default());
    let report = salvage(Path::new(FOLDER), Path::new(COPY), small_options(), &environment).unwrap();
    assert_eq!(report.tables, [("t".to_owned(), 3), ("other".to_owned(), 1)]);
    assert_eq!(report.damage.len(), 1);
    let copy = open_at(&disk, COPY);
    assert_eq!(content(&copy.table("t").unwrap()).unwrap(), map(&[("d", 4), ("e", 5), ("f", 6)]));
    // The damaged table can be emptied, and takes writes again.
    let store = open(&disk);
    let table = store.table("t").unwrap();
    table.truncate().unwrap();
    table.write(Write::upsert(rows(&[("new", 1)]))).unwrap();
    store.close().unwrap();
    drop(table);
    let store = open(&disk);
    assert_eq!(store.report(), &StoreReport::default());
    assert_eq!(content(&store.table("t").unwrap()).unwrap(), map(&[("new", 1)]));
    assert_eq!(verify_at(&disk, COPY).damage().count(), 0);
}

#[test]
fn damage_that_is_met_later_stops_its_table_only() {
    let disk = SimDisk::new(1);
    let (store, table) = filled(&disk);
    let other = store.create_table(spec("other")).unwrap();
    other.write(Write::upsert(rows(&[("x", 1)]))).unwrap();
    store.checkpoint().unwrap();
    drop((table, other, store));
    let damaged = flip(&disk, FOLDER, "u1.seg", 70);
    let store = open(&disk);
    assert!(store.report().damage.is_empty(), "no value was read yet");
    let (table, other) = (store.table("t").unwrap(), store.table("other").unwrap());
    assert!(matches!(content(&table), Err(OplogError::Damaged(damage)) if damage.file == damaged));
    table.write(Write::delete(keys(&["b", "c"]))).unwrap();
    // Rewriting meets the damage. The table takes no more writes, and the store goes on.
    store.maintain().unwrap();
    let told = table.version().damage().iter().any(|damage| damage.file == damaged);
    assert!(told);
    table.write(Write::upsert(rows(&[("g", 7)]))).unwrap_err();
    for number in 0..20 {
        other.write(Write::upsert(rows(&[(&format!("key {number}"), number)]))).unwrap();
        store.seal().unwrap();
    }
    assert!(store.stats().log_bytes < 200, "{:?}", store.stats());
    drop((table, other, store));
    let store = open(&disk);
    assert_eq!(store.table("other").unwrap().version().rows(), 21);
    assert_eq!(store.table("t").unwrap().version().rows(), 3, "what was deleted stays so");
}

fn verify_at(disk: &SimDisk, folder: &str) -> VerifyReport {
    let copy = SimDisk::from_image(disk.image(), 1);
    verify(Path::new(folder), &environment(&copy, &ManualClock::default())).unwrap()
}

/// Flips a bit in the first file with this end.
fn flip(disk: &SimDisk, folder: &str, end: &str, byte: usize) -> std::path::PathBuf {
    let files = disk.files();
    let wanted = |path: &Path| path.starts_with(folder) && path.to_string_lossy().ends_with(end);
    let (path, content) = files.iter().find(|(path, _)| wanted(path)).unwrap();
    let mut content = content.clone();
    content[byte] ^= 4;
    disk.put(path, content);
    path.clone()
}

/// The copied store was not closed: statements confirmed since its last checkpoint lie behind the log ends in its manifest.
#[test]
fn a_store_whose_process_was_killed_is_restored_whole() {
    let disk = SimDisk::new(1);
    let (store, table) = filled(&disk);
    drop((table, store));
    let store = open(&disk);
    let table = store.table("t").unwrap();
    table.write(Write::upsert(rows(&[("g", 7)]))).unwrap();
    let expected = content(&table).unwrap();
    drop((table, store));
    let environment = environment(&disk, &ManualClock::default());
    let report = restore(Path::new(FOLDER), Path::new("/restored"), &environment).unwrap();
    assert_eq!((report.rows, report.damage().count(), report.torn), (6, 0, None));
    assert_eq!(content(&open_at(&disk, "/restored").table("t").unwrap()).unwrap(), expected);
}

#[test]
fn rows_that_are_too_many_for_one_statement_are_salvaged() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let (table, other) = (store.create_table(spec("t")).unwrap(), store.create_table(spec("other")).unwrap());
    let names: Vec<String> = (0..300).map(|number| format!("key {number}")).collect();
    let batch: Vec<(&str, i64)> = names.iter().map(String::as_str).zip(0..).collect();
    table.write(Write::upsert(rows(&batch))).unwrap();
    other.write(Write::upsert(rows(&[("x", 1)]))).unwrap();
    drop((table, other, store));
    let options = StoreOptions { statement_bytes: 1000, ..small_options() };
    let environment = environment(&disk, &ManualClock::default());
    let report = salvage(Path::new(FOLDER), Path::new(COPY), options, &environment).unwrap();
    assert_eq!(report.tables, [("t".to_owned(), 300), ("other".to_owned(), 1)]);
    assert_eq!(content(&open_at(&disk, COPY).table("t").unwrap()).unwrap(), map(&batch));
}

/// The copied store may have taken larger statements than the options of the copy allow.
#[test]
fn a_row_that_is_larger_than_a_statement_is_salvaged() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let table = store.create_table(spec("t")).unwrap();
    let long = "long ".repeat(500);
    let batch = [("a", 1), (long.as_str(), 2), ("z", 3)];
    table.write(Write::upsert(rows(&batch))).unwrap();
    drop((table, store));
    let options = StoreOptions { statement_bytes: 100, ..small_options() };
    let environment = environment(&disk, &ManualClock::default());
    let report = salvage(Path::new(FOLDER), Path::new(COPY), options, &environment).unwrap();
    assert_eq!((report.tables, report.refused), (vec![("t".to_owned(), 3)], Vec::new()));
    assert_eq!(content(&open_at(&disk, COPY).table("t").unwrap()).unwrap(), map(&batch));
}
