//! What every statement does, and that it is still so after a start, a seal, and a rewrite.

use super::fixture::*;
use crate::oplog::vfs::sim::SimDisk;
use crate::oplog::*;

/// Runs `work` on an empty table and compares its rows with `expected`: at once, after a start, after a seal and
/// after a start from sealed units.
fn check(work: impl Fn(&LiveTable), expected: &[(&str, i64)]) {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let table = store.create_table(spec("t")).unwrap();
    work(&table);
    assert_eq!(content(&table).unwrap(), map(expected), "at once");
    drop((table, store));
    let store = open(&disk);
    assert_eq!(content(&store.table("t").unwrap()).unwrap(), map(expected), "after a start");
    store.seal().unwrap();
    assert_eq!(content(&store.table("t").unwrap()).unwrap(), map(expected), "after a seal");
    store.close().unwrap();
    let store = open(&disk);
    assert_eq!(store.report(), &StoreReport::default());
    assert_eq!(content(&store.table("t").unwrap()).unwrap(), map(expected), "after another start");
}

fn upsert(table: &LiveTable, batch: &[(&str, i64)]) -> Committed {
    table.write(Write::upsert(rows(batch))).unwrap()
}

#[test]
fn rows_are_inserted_and_replaced() {
    let work = |table: &LiveTable| {
        let done = upsert(table, &[("a", 1), ("b", 2)]);
        assert_eq!((done.inserted, done.replaced), (2, 0));
        let done = upsert(table, &[("b", 3), ("c", 4), ("c", 5)]);
        assert_eq!((done.inserted, done.replaced), (1, 2));
    };
    check(work, &[("a", 1), ("b", 3), ("c", 5)]);
}

#[test]
fn rows_are_deleted_and_come_back() {
    let work = |table: &LiveTable| {
        upsert(table, &[("a", 1), ("b", 2), ("c", 3)]);
        let done = table.write(Write::delete(keys(&["a", "b", "x"]))).unwrap();
        assert_eq!(done.deleted, 2);
        upsert(table, &[("b", 7)]);
    };
    check(work, &[("b", 7), ("c", 3)]);
}

#[test]
fn a_statement_deletes_before_it_inserts() {
    let work = |table: &LiveTable| {
        upsert(table, &[("a", 1), ("b", 2)]);
        let both = Write { deletes: Some(keys(&["a", "b"])), ..Write::upsert(rows(&[("b", 9)])) };
        table.write(both).unwrap();
    };
    check(work, &[("b", 9)]);
}

#[test]
fn conditions_hold_or_nothing_is_done() {
    let work = |table: &LiveTable| {
        let first = upsert(table, &[("a", 1)]).lsn;
        table.write(Write::upsert(rows(&[("b", 2), ("a", 2)])).when(Condition::Absent)).unwrap_err();
        table.write(Write::upsert(rows(&[("b", 2)])).when(Condition::Absent)).unwrap();
        assert_eq!(table.row_versions(&keys(&["a", "x"])).unwrap(), [first, 0]);
        table.write(Write::upsert(rows(&[("a", 3)])).when(Condition::Versions(vec![first]))).unwrap();
        let late = table.write(Write::upsert(rows(&[("a", 4)])).when(Condition::Versions(vec![first])));
        assert!(matches!(late, Err(OplogError::Conflict { row: 0, .. })), "{late:?}");
        let gone = table.write(Write::delete(keys(&["x"])).when(Condition::Versions(vec![5])));
        assert!(matches!(gone, Err(OplogError::Conflict { found: 0, .. })), "{gone:?}");
    };
    check(work, &[("a", 3), ("b", 2)]);
}

#[test]
fn a_table_is_emptied() {
    let work = |table: &LiveTable| {
        upsert(table, &[("a", 1), ("b", 2)]);
        assert_eq!(table.truncate().unwrap().deleted, 2);
        upsert(table, &[("b", 3)]);
    };
    check(work, &[("b", 3)]);
}
