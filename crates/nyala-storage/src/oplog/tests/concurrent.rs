//! Readers and writers at once, on threads, with upkeep running and the disk in memory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::fixture::*;
use crate::oplog::vfs::sim::SimDisk;
use crate::oplog::*;

fn threaded(disk: &SimDisk) -> DiskStore {
    threaded_with(disk, small_options())
}

fn threaded_with(disk: &SimDisk, options: StoreOptions) -> DiskStore {
    let options = StoreOptions { background: true, load_values: true, seal_bytes: 16 << 10, ..options };
    let environment =
        Environment { clock: Arc::new(SystemClock), ..environment(disk, &ManualClock::default()) };
    DiskStore::open(Path::new(FOLDER), options, environment).unwrap()
}

/// Each statement moves an amount from one account to another: every version has the same sum.
#[test]
fn every_version_has_whole_statements_only() {
    const ACCOUNTS: i64 = 20;
    let disk = SimDisk::new(1);
    let store = threaded(&disk);
    let table = store.create_table(spec("accounts")).unwrap();
    let names: Vec<String> = (0..ACCOUNTS).map(|account| format!("account {account}")).collect();
    let start: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), 100)).collect();
    table.write(Write::upsert(rows(&start))).unwrap();
    let done = AtomicBool::new(false);
    let moved: u64 = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2).map(|_| scope.spawn(|| read_until(&table, &done, ACCOUNTS))).collect();
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                scope.spawn({
                    let (table, names) = (table.clone(), &names);
                    move || {
                        (0..300).filter(|turn| move_money(&table, names, writer * 1000 + turn)).count() as u64
                    }
                })
            })
            .collect();
        let moved = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
        done.store(true, Relaxed);
        let versions: u64 = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        assert!(versions > 0);
        moved
    });
    assert!(moved > 0, "no writer ever won");
    let expected = content(&table).unwrap();
    drop(table);
    store.close().unwrap();
    assert_eq!(content(&open(&disk).table("accounts").unwrap()).unwrap(), expected);
}

fn read_until(table: &LiveTable, done: &AtomicBool, accounts: i64) -> u64 {
    let mut versions = 0;
    while !done.load(Relaxed) || versions == 0 {
        let found: BTreeMap<String, i64> = content(table).unwrap();
        assert_eq!((found.len() as i64, found.values().sum::<i64>()), (accounts, accounts * 100));
        let both = table.lookup(&keys(&["account 1", "account 2"])).unwrap();
        assert_eq!(both.positions, [Some(0), Some(1)]);
        versions += 1;
    }
    versions
}

/// Whether no other thread wrote the accounts meanwhile.
fn move_money(table: &LiveTable, names: &[String], turn: usize) -> bool {
    let (from, to) = (&names[turn * 7 % names.len()], &names[(turn * 7 + 1 + turn % 5) % names.len()]);
    let found = table.lookup(&keys(&[from, to])).unwrap();
    let values =
        arrow_array::cast::as_primitive_array::<arrow_array::types::Int64Type>(found.rows.column(1)).clone();
    let moved = rows(&[(from, values.value(0) - 1), (to, values.value(1) + 1)]);
    let versions = found.versions.values().to_vec();
    match table.write(Write::upsert(moved).when(Condition::Versions(versions))) {
        Ok(done) => done.replaced == 2,
        Err(OplogError::Conflict { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn tables_come_and_go_while_others_are_written() {
    let disk = SimDisk::new(1);
    let store = threaded(&disk);
    let table = store.create_table(spec("steady")).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..200 {
                table.write(Write::upsert(rows(&[(&format!("key {number}"), number)]))).unwrap();
            }
        });
        for round in 0..3 {
            let store = &store;
            scope.spawn(move || {
                for turn in 0..30 {
                    let name = format!("table {round}");
                    let table = store.create_table(spec(&name)).unwrap();
                    table.write(Write::upsert(rows(&[("a", turn)]))).unwrap();
                    assert_eq!(content(&table).unwrap(), map(&[("a", turn)]));
                    table.drop_table().unwrap();
                }
            });
        }
    });
    drop(table);
    store.close().unwrap();
    let store = open(&disk);
    assert_eq!(store.tables().len(), 1);
    assert_eq!(store.table("steady").unwrap().version().rows(), 200);
}

#[test]
fn what_waits_when_a_store_is_closed_is_committed() {
    let disk = SimDisk::new(1);
    let store = threaded(&disk);
    let table = store.create_table(spec("t")).unwrap();
    let tickets: Vec<Ticket> = (0..100)
        .map(|number| table.submit(Write::upsert(rows(&[(&format!("{number}"), number)]))).unwrap())
        .collect();
    store.close().unwrap();
    assert!(tickets.iter().all(|ticket| ticket.wait().is_ok()));
    let late = table.write(Write::upsert(rows(&[("late", 1)])));
    assert!(matches!(late, Err(OplogError::Closed { .. })), "{late:?}");
    drop(table);
    assert_eq!(open(&disk).table("t").unwrap().version().rows(), 100);
}

#[test]
fn who_must_not_block_is_told_that_too_much_waits() {
    let disk = SimDisk::new(1);
    let store = threaded_with(&disk, StoreOptions { queue_bytes: 1, ..small_options() });
    let table = store.create_table(spec("t")).unwrap();
    let submit = |key| table.try_submit(Write::upsert(rows(&[(key, 1)]))).unwrap();
    let committing = store.inner.committer.lock().unwrap();
    let first = submit("first").expect("nothing waits");
    assert!(submit("second").is_none());
    drop(committing);
    first.wait().unwrap();
    submit("third").expect("nothing waits any more").wait().unwrap();
    assert_eq!(content(&table).unwrap(), map(&[("first", 1), ("third", 1)]));
    store.close().unwrap();
    let refused = submit("late").expect("it does not wait").wait().unwrap_err();
    assert!(matches!(refused, OplogError::Closed { .. }), "{refused:?}");
}

/// A clock that may break, and with it the thread that looks at it.
#[derive(Debug)]
struct FragileClock(Arc<AtomicBool>);

impl Clock for FragileClock {
    fn now_ms(&self) -> u64 {
        assert!(!self.0.load(Relaxed), "the clock is broken");
        0
    }
}

#[test]
fn a_store_whose_thread_panics_says_so_and_takes_no_more_writes() {
    let (disk, broken) = (SimDisk::new(1), Arc::new(AtomicBool::new(false)));
    let clock = Arc::new(FragileClock(broken.clone()));
    let environment = Environment { clock, ..environment(&disk, &ManualClock::default()) };
    let options = StoreOptions { background: true, ..small_options() };
    let store = DiskStore::open(Path::new(FOLDER), options, environment).unwrap();
    let table = store.create_table(spec("t")).unwrap();
    table.write(Write::upsert(rows(&[("a", 1)]))).unwrap();
    broken.store(true, Relaxed);
    table.write(Write::upsert(rows(&[("b", 2)]))).unwrap_err();
    let end = Instant::now() + Duration::from_secs(30);
    while store.check_writable().is_ok() {
        assert!(Instant::now() < end, "it goes on as if nothing had happened");
        std::thread::sleep(Duration::from_millis(5));
    }
    broken.store(false, Relaxed);
    let refused = table.write(Write::upsert(rows(&[("b", 2)]))).unwrap_err();
    let told =
        matches!(&refused, OplogError::ReadOnly { reason, .. } if reason.contains("the clock is broken"));
    assert!(told, "{refused}");
    assert_eq!(content(&table).unwrap(), map(&[("a", 1)]));
}
