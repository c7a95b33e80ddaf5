//! The change feed.

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field};

use super::fixture::*;
use crate::oplog::vfs::sim::{Faults, SimDisk};
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

fn names(rows: &RecordBatch) -> Vec<String> {
    rows.schema().fields().iter().map(|field| field.name().clone()).collect()
}

#[test]
fn columns_are_followed_by_what_they_are_and_not_by_their_names() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let table = store.create_table(spec("t")).unwrap();
    let (start, before) = (store.lsn(), table.schema());
    table.write(Write::upsert(rows(&[("a", 1)]))).unwrap();
    table.alter(Alteration::RenameColumn { from: "value".into(), to: "amount".into() }).unwrap();
    table.alter(Alteration::AddColumn(Field::new("value", DataType::Int64, true))).unwrap();
    let all_of = |mut feed: ChangeFeed| -> Vec<RecordBatch> {
        let rows = all(&mut feed).into_iter().filter_map(|change| match change {
            Change::Upserted { rows, .. } => Some(rows),
            _ => None,
        });
        rows.collect()
    };
    let now = all_of(table.changes(start).with_columns(&table.schema()).unwrap());
    assert_eq!(names(&now[0]), ["key", "amount"]);
    assert_eq!(now[0].columns(), rows(&[("a", 1)]).columns());
    let then = all_of(table.changes(start).with_columns(&before).unwrap());
    assert_eq!(then, [rows(&[("a", 1)])]);
    let columns = vec![rows(&[("b", 2)]).column(0).clone(), rows(&[("b", 2)]).column(1).clone()];
    let third = rows(&[("b", 3)]).column(1).clone();
    let whole = RecordBatch::try_new(table.schema(), [columns, vec![third]].concat()).unwrap();
    table.write(Write::upsert(whole)).unwrap();
    let then = all_of(table.changes(start).with_columns(&before).unwrap());
    assert_eq!(then[1], rows(&[("b", 2)]), "the new column has the old name");
    let other = before.project(&[0]).unwrap();
    assert!(matches!(table.changes(start).with_columns(&other), Err(OplogError::Invalid { .. })));
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

/// A feed up to the present LSN ends even if writers are faster than it reads.
#[test]
fn a_feed_with_an_end_gives_nothing_behind_it() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let table = store.create_table(spec("t")).unwrap();
    let start = store.lsn();
    let mut write = |value| table.write(Write::upsert(rows(&[("a", value)]))).unwrap().lsn;
    let lsns: Vec<u64> = (0..3).map(&mut write).collect();
    store.seal().unwrap();
    let last = write(3);
    for (up_to, count) in [(start, 0), (lsns[0], 1), (lsns[2], 3), (last, 4), (last + 9, 4)] {
        let mut feed = table.changes(start).up_to(up_to);
        assert_eq!(all(&mut feed).len(), count);
        assert_eq!(feed.lsn(), up_to.min(last));
        assert_eq!(feed.next(1).unwrap(), []);
    }
    assert_eq!(all(&mut table.changes(last).up_to(start)), []);
    let lost = table.changes(last + 1).up_to(start).next(100);
    assert!(matches!(lost, Err(OplogError::ChangesGone { .. })), "{lost:?}");
}

/// A follower that was given changes lost in a power cut would have rows that exist nowhere else, and miss the changes
/// that got their LSNs.
#[test]
fn changes_are_given_when_they_are_on_disk() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let table = store.create_table(TableSpec { durability: Durability::Os, ..spec("t") }).unwrap();
    let start = store.lsn();
    let mut feed = table.changes(start);
    let lsn = table.write(Write::upsert(rows(&[("a", 1)]))).unwrap().lsn;
    assert_eq!((all(&mut feed), table.durable_lsn()), (vec![], start));
    assert_eq!(all(&mut table.changes(lsn)), [], "who copied the table may wait for what follows");
    table.persist().unwrap();
    assert_eq!(table.durable_lsn(), lsn);
    assert_eq!(all(&mut feed), [Change::Upserted { lsn, rows: rows(&[("a", 1)]) }]);
    let lost = table.changes(lsn + 1).next(100);
    assert!(matches!(lost, Err(OplogError::ChangesGone { .. })), "{lost:?}");
}

#[test]
fn changes_that_were_not_confirmed_are_not_given() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let table = store.create_table(spec("t")).unwrap();
    let start = store.lsn();
    let lsn = table.write(Write::upsert(rows(&[("a", 1)]))).unwrap().lsn;
    disk.set_faults(Faults { sync_error: 1, ..Faults::default() });
    let unconfirmed = table.write(Write::upsert(rows(&[("b", 2)])));
    assert!(matches!(unconfirmed, Err(OplogError::Unconfirmed { .. })), "{unconfirmed:?}");
    disk.set_faults(Faults::default());
    assert_eq!(all(&mut table.changes(start)), [Change::Upserted { lsn, rows: rows(&[("a", 1)]) }]);
}
