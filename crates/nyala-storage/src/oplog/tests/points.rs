//! Single rows: found by key and read without the rows around them.

use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, StringArray, cast::AsArray, types::Int64Type, types::UInt64Type};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::fixture::*;
use crate::oplog::vfs::sim::{Rng, SimDisk};
use crate::oplog::*;

const ROWS: i64 = 100_000;

fn wide_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("number", DataType::Int64, true),
        Field::new("text", DataType::Utf8, true),
    ]))
}

fn key(row: i64) -> String {
    format!("key {row}")
}

fn text(row: i64) -> Option<String> {
    (row % 7 != 3).then(|| format!("{row} is written here at some length, {}", "x".repeat(row as usize % 90)))
}

/// Rows with numbers and texts computed from their keys.
fn batch(rows: std::ops::Range<i64>) -> RecordBatch {
    let keys: StringArray = rows.clone().map(|row| Some(key(row))).collect();
    let numbers: Int64Array = rows.clone().map(|row| (row % 5 != 2).then_some(row * 3)).collect();
    let texts: StringArray = rows.map(text).collect();
    RecordBatch::try_new(wide_schema(), vec![Arc::new(keys), Arc::new(numbers), Arc::new(texts)]).unwrap()
}

fn keys_of(rows: &[i64]) -> RecordBatch {
    let names: Vec<String> = rows.iter().map(|row| key(*row)).collect();
    keys(&names.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A store with one large unit that has only its hashes in memory.
fn cold_store() -> (SimDisk, DiskStore, LiveTable) {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let table = store.create_table(TableSpec::new("t", wide_schema(), &["key"])).unwrap();
    table.write(Write::upsert(batch(0..ROWS))).unwrap();
    store.close().unwrap();
    drop(table);
    let store = open(&disk);
    let table = store.table("t").unwrap();
    (disk, store, table)
}

#[test]
fn few_rows_are_read_without_their_columns() {
    let (disk, _store, table) = cold_store();
    let files: usize = disk.files().values().map(Vec::len).sum();
    let before = disk.read_bytes();
    let wanted = [77_777, 3, 77_778, 99_999, 0, 41_003];
    let located = table.locate(&keys_of(&wanted)).unwrap();
    let rows: Vec<RowId> = located.rows.iter().copied().map(Option::unwrap).collect();
    let projection = located.version.projection(&[2, 1], true).unwrap();
    let taken = located.version.take(&rows, &projection).unwrap();
    let read = disk.read_bytes() - before;
    assert!(read < files as u64 / 4, "{read} of {files} bytes were read");
    assert!(!table.is_loaded());
    let texts: Vec<Option<String>> =
        taken.column(0).as_string::<i32>().iter().map(|t| t.map(Into::into)).collect();
    assert_eq!(texts, wanted.map(text));
    let numbers: Vec<Option<i64>> = taken.column(1).as_primitive::<Int64Type>().iter().collect();
    assert_eq!(numbers, wanted.map(|row| (row % 5 != 2).then_some(row * 3)));
    assert_eq!(taken.column(2).as_primitive::<UInt64Type>().values(), &[2; 6]);
    let found = table.lookup(&keys_of(&[5, ROWS])).unwrap();
    assert_eq!((found.rows, found.positions), (batch(5..6), vec![Some(0), None]));
}

#[test]
fn rows_are_the_same_wherever_their_blocks_end() {
    let (_disk, store, table) = cold_store();
    let mut rng = Rng(1);
    for most in [1, 30, 3000] {
        for _ in 0..20 {
            let mut wanted: Vec<i64> =
                (0..1 + rng.below(most)).map(|_| rng.below(ROWS as u64) as i64).collect();
            wanted.extend([8191, 8192, 8193]);
            let found = table.lookup(&keys_of(&wanted)).unwrap();
            let expected: Vec<RecordBatch> = wanted.iter().map(|row| batch(*row..*row + 1)).collect();
            assert_eq!(found.rows, arrow_select::concat::concat_batches(&wide_schema(), &expected).unwrap());
        }
        store.load_values();
    }
    assert!(table.is_loaded(), "the last rounds read from memory");
}

#[test]
fn a_start_after_a_crash_reads_no_keys_of_units() {
    let (disk, store, table) = cold_store();
    table.write(Write::upsert(batch(500..600))).unwrap();
    table.write(Write::delete(keys_of(&[3, 77_777]))).unwrap();
    drop((table, store));
    let before = disk.read_bytes();
    let store = open(&disk);
    let (table, read) = (store.table("t").unwrap(), disk.read_bytes() - before);
    assert!(read < (ROWS * 8) as u64 * 3 / 2, "{read} bytes were read, the hashes are {}", ROWS * 8);
    assert_eq!(table.version().rows(), ROWS as u64 - 2);
    let before = disk.read_bytes();
    assert_eq!(table.write(Write::delete(keys_of(&[3, 4, 505, 99_000]))).unwrap().deleted, 3);
    let read = disk.read_bytes() - before;
    assert!(read < 1 << 20, "a write of few rows reads few keys, not {read} bytes");
    let found = table.lookup(&keys_of(&[2, 3, 4, 505, 506, 77_777])).unwrap();
    assert_eq!(found.positions, [Some(0), None, None, None, Some(1), None]);
}

#[test]
fn a_row_beside_damage_is_read_and_a_damaged_one_is_not() {
    let (disk, store, table) = cold_store();
    drop((store, table));
    let (path, content) =
        disk.files().into_iter().find(|(path, _)| path.extension().is_some_and(|end| end == "seg")).unwrap();
    let middle = content.len() / 2;
    let mut damaged = content.clone();
    damaged[middle] ^= 1;
    disk.put(&path, damaged);
    let store = open(&disk);
    let table = store.table("t").unwrap();
    assert_eq!(table.lookup(&keys_of(&[1, 99_998])).unwrap().rows.num_rows(), 2);
    let mut refused = 0;
    for row in (0..ROWS).step_by(500) {
        match table.lookup(&keys_of(&[row])) {
            Ok(found) => assert_eq!(found.rows, batch(row..row + 1)),
            Err(OplogError::Damaged(damage)) => {
                refused += 1;
                assert_eq!(damage.file, path);
                assert!((damage.offset..damage.offset + (64 << 10)).contains(&(middle as u64)), "{damage}");
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!((1..5).contains(&refused), "{refused} rows lie in the damaged block");
}

#[test]
fn rows_are_found_in_an_older_version_as_long_as_that_can_be_told() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let table = store.create_table(spec("t")).unwrap();
    table.write(Write::upsert(rows(&[("a", 1), ("b", 2), ("c", 3)]))).unwrap();
    let version = table.version();
    let value = |id: RowId| {
        let taken = version.take(&[id], &version.projection(&[1], false).unwrap()).unwrap();
        taken.column(0).as_primitive::<Int64Type>().value(0)
    };
    let found = |asked: &[&str]| table.locate_in(&version, &keys(asked)).unwrap();
    let values = |asked: &[&str]| found(asked).map(|rows| rows.into_iter().map(|id| id.map(value)).collect());
    assert_eq!(values(&["c", "x", "a"]), Some(vec![Some(3), None, Some(1)]));
    table
        .write(Write { deletes: Some(keys(&["a"])), ..Write::upsert(rows(&[("b", 20), ("x", 9)])) })
        .unwrap();
    assert_eq!(values(&["c"]), Some(vec![Some(3)]), "it did not change");
    for changed in ["a", "b", "x", "y"] {
        assert_eq!(found(&["c", changed]), None, "{changed} may have been another or missing");
    }
    let newer = table.locate(&keys(&["b"])).unwrap();
    let moved = newer.rows[0].unwrap();
    assert!(
        version.take(&[moved], &version.projection(&[1], false).unwrap()).is_err(),
        "it is of a newer version"
    );
    store.seal().unwrap();
    assert_eq!(values(&["c"]), Some(vec![Some(3)]), "sealing moves nothing");
    let old = found(&["c"]).unwrap();
    assert_eq!(old.len(), 1);
}
