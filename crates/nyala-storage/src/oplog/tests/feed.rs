//! The change feed.

use super::fixture::*;
use crate::oplog::vfs::sim::SimDisk;
use crate::oplog::*;

fn all(feed: &mut ChangeFeed) -> Vec<Change> {
    let mut changes = Vec::new();
    loop {
        let next = feed.next(100).unwrap();
        if next.is_empty() {
            return changes;
        }
        changes.extend(next);
    }
}

#[test]
fn changes_are_told_in_order_over_logs_and_starts() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let table = store.create_table(spec("t")).unwrap();
    let other = store.create_table(spec("other")).unwrap();
    let start = store.lsn();
    let first = table.write(Write::upsert(rows(&[("a", 1)]))).unwrap().lsn;
    other.write(Write::upsert(rows(&[("x", 1)]))).unwrap();
    let both = Write { deletes: Some(keys(&["a"])), ..Write::upsert(rows(&[("b", 2)])) };
    let second = table.write(both).unwrap().lsn;
    store.seal().unwrap();
    let third = table.truncate().unwrap().lsn;
    let expected = [
        Change::Upserted { lsn: first, rows: rows(&[("a", 1)]) },
        Change::Deleted { lsn: second, keys: keys(&["a"]) },
        Change::Upserted { lsn: second, rows: rows(&[("b", 2)]) },
        Change::Truncated { lsn: third },
    ];
    let mut feed = table.changes(start);
    assert_eq!(all(&mut feed), expected);
    assert_eq!(all(&mut table.changes(first)), expected[1..]);
    let fourth = table.write(Write::upsert(rows(&[("c", 3)]))).unwrap().lsn;
    let last = Change::Upserted { lsn: fourth, rows: rows(&[("c", 3)]) };
    assert_eq!(all(&mut feed), std::slice::from_ref(&last));
    assert_eq!(feed.lsn(), fourth);
    drop((feed, table, other, store));
    let store = open(&disk);
    store.maintain().unwrap();
    let table = store.table("t").unwrap();
    assert_eq!(all(&mut table.changes(third)), [last]);
    assert_eq!(all(&mut table.changes(start)).len(), 5);
}

#[test]
fn changes_that_are_no_longer_kept_are_not_passed_over() {
    let disk = SimDisk::new(1);
    let options = StoreOptions { retain_log_bytes: 0, ..small_options() };
    let environment = environment(&disk, &ManualClock::default());
    let store = DiskStore::open(std::path::Path::new(FOLDER), options, environment).unwrap();
    let table = store.create_table(spec("t")).unwrap();
    let mut early = table.changes(store.lsn());
    table.write(Write::upsert(rows(&[("a", 1)]))).unwrap();
    assert_eq!(early.next(100).unwrap().len(), 1);
    table.write(Write::upsert(rows(&[("a", 2)]))).unwrap();
    store.seal().unwrap();
    store.seal().unwrap();
    assert!(matches!(early.next(100), Err(OplogError::ChangesGone { .. })));
    assert!(matches!(table.changes(0).next(100), Err(OplogError::ChangesGone { .. })));
    assert_eq!(table.changes(store.lsn()).next(100).unwrap(), []);
}
