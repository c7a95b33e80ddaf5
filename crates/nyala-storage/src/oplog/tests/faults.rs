//! Disks that fail: writes, syncs and reads that give errors, and no space.
//!
//! The promise: a refused statement has no effect, now or after a crash; only after an unconfirmed error may it be
//! found. Statements acknowledged before stay.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::crash::from_environment;
use super::fixture::*;
use super::workload::*;
use crate::oplog::vfs::sim::{Faults, Image, Rng, SimDisk};
use crate::oplog::*;

/// The possible states of the stores after a crash: the last certain one, and the one that unconfirmed statements may
/// have led to.
struct Possible {
    certain: Model,
    maybe: Option<Model>,
}

#[test]
fn failing_disks_lose_nothing_and_invent_nothing() {
    let first = from_environment("NYALA_SEED", 1);
    let mut unconfirmed = 0;
    for seed in first..first + from_environment("NYALA_FAULTS", 150) {
        unconfirmed += fail_now_and_then(seed);
    }
    assert!(unconfirmed > 0, "no statement was in doubt: the faults are too mild");
}

fn fail_now_and_then(seed: u64) -> u64 {
    let mut rng = Rng(seed);
    let disk = SimDisk::new(rng.next());
    let mut world = World::open(&disk).unwrap();
    let mut possible = Possible { certain: Model::new(), maybe: None };
    let mut unconfirmed = 0;
    for number in 0..60 {
        let mut step = Step::random(&mut rng, &possible.certain, number);
        if let Action::Restart { .. } = step.action {
            step.action = Action::Maintain;
        }
        disk.set_faults(random_faults(&mut rng));
        let done = step.run(&mut world);
        disk.set_faults(Faults::default());
        let context = format!("NYALA_SEED={seed}, {step:?}: {done:?}");
        match done {
            Ok(()) => possible = Possible { certain: step.expected(&possible.certain), maybe: None },
            Err(OplogError::Unconfirmed { .. }) => {
                unconfirmed += 1;
                possible.maybe = Some(step.expected(&possible.certain));
            }
            Err(_) => {}
        }
        assert_eq!(world.contents().unwrap(), possible.certain, "{context}");
        if possible.maybe.is_some() || rng.one_in(10) {
            drop(world);
            let left = disk.image().after_crash(rng.next());
            disk.set_image(left);
            world = World::open(&disk).unwrap_or_else(|error| panic!("{context}: {error}"));
            let found = world.contents().unwrap();
            let fits = found == possible.certain || Some(&found) == possible.maybe.as_ref();
            assert!(
                fits,
                "{context}: found {found:?}, certain {:?}, maybe {:?}",
                possible.certain, possible.maybe
            );
            possible = Possible { certain: found, maybe: None };
        }
    }
    unconfirmed
}

fn random_faults(rng: &mut Rng) -> Faults {
    let mut faults = Faults { short_read: 5, short_write: 5, ..Faults::default() };
    match rng.below(8) {
        0 => faults.write_error = 4,
        1 => faults.sync_error = 2,
        2 => faults.sync_error = 1,
        3 => faults.space = Some(rng.below(20_000)),
        5 => faults.read_error = 4,
        4 => (faults.write_error, faults.sync_error) = (6, 6),
        _ => {}
    }
    faults
}

#[test]
fn a_full_disk_takes_deletes_and_recovers_by_itself() {
    let disk = SimDisk::new(1);
    // With filler, the log would have room for the statement that must be refused.
    let options = StoreOptions { reserve_bytes: 8192, preallocate_bytes: 0, ..small_options() };
    let environment = environment(&disk, &ManualClock::default());
    let store = DiskStore::open(Path::new(FOLDER), options, environment).unwrap();
    let table = store.create_table(spec("t")).unwrap();
    store.maintain().unwrap();
    table.write(Write::upsert(rows(&[("a", 1), ("b", 2)]))).unwrap();
    let used: usize = disk.files().values().map(Vec::len).sum();
    disk.set_faults(Faults { space: Some(used as u64 + 10), ..Faults::default() });
    let refused = table.write(Write::upsert(rows(&[("c", 3)])));
    assert!(matches!(refused, Err(OplogError::DiskFull { .. })), "{refused:?}");
    assert!(matches!(store.check_writable(), Err(OplogError::DiskFull { .. })));
    assert!(matches!(table.write(Write::upsert(rows(&[("c", 3)]))), Err(OplogError::DiskFull { .. })));
    table.write(Write::delete(keys(&["a"]))).unwrap();
    assert_eq!(content(&table).unwrap(), map(&[("b", 2)]));
    store.maintain().unwrap();
    assert!(store.check_writable().is_err(), "the reserve does not fit yet");
    disk.set_faults(Faults::default());
    store.maintain().unwrap();
    table.write(Write::upsert(rows(&[("c", 3)]))).unwrap();
    drop((table, store));
    assert_eq!(content(&open(&disk).table("t").unwrap()).unwrap(), map(&[("b", 2), ("c", 3)]));
}

#[test]
fn a_failed_sync_is_not_repeated_and_the_store_goes_on() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let table = store.create_table(spec("t")).unwrap();
    table.write(Write::upsert(rows(&[("a", 1)]))).unwrap();
    // The first sync fails, and the syncs for a new log work.
    disk.fail_next_sync();
    let refused = table.write(Write::upsert(rows(&[("b", 2)])));
    assert!(matches!(refused, Err(OplogError::Io { .. })), "{refused:?}");
    table.write(Write::upsert(rows(&[("c", 3)]))).unwrap();
    let logs = disk.files().keys().filter(|path| path.extension().is_some_and(|end| end == "log")).count();
    assert_eq!(logs, 3, "the file whose sync failed is left");
    drop((table, store));
    assert_eq!(content(&open(&disk).table("t").unwrap()).unwrap(), map(&[("a", 1), ("c", 3)]));
    // If no new log can be made, the content of the disk is uncertain: the store stops writing.
    let store = open(&disk);
    let table = store.table("t").unwrap();
    disk.set_faults(Faults { sync_error: 1, ..Faults::default() });
    let refused = table.write(Write::upsert(rows(&[("d", 4)])));
    assert!(matches!(refused, Err(OplogError::Unconfirmed { .. })), "{refused:?}");
    disk.set_faults(Faults::default());
    assert!(matches!(table.write(Write::delete(keys(&["a"]))), Err(OplogError::ReadOnly { .. })));
    assert_eq!(content(&table).unwrap(), map(&[("a", 1), ("c", 3)]), "reading goes on");
}

/// The kernel drops the pages that a failed fsync could not write, and confirms the next one.
#[test]
fn a_sync_that_failed_is_never_said_to_have_worked() {
    for durability in [Durability::Interval, Durability::Os] {
        let disk = SimDisk::new(1);
        let store = open(&disk);
        let table = store.create_table(TableSpec { durability, ..spec("t") }).unwrap();
        table.write(Write::upsert(rows(&[("a", 1)]))).unwrap();
        disk.fail_next_sync();
        table.persist().unwrap_err();
        table.persist().unwrap_err();
        assert!(matches!(store.check_writable(), Err(OplogError::ReadOnly { .. })));
        assert!(matches!(store.checkpoint(), Err(OplogError::ReadOnly { .. })));
        drop(table);
        assert!(matches!(store.close(), Err(OplogError::Io { .. })), "what was acknowledged may be lost");
    }
}

/// The reserve is written while another thread finds that the disk fails. Free space must not make the store writable
/// again: the next statement would get an LSN that is on disk.
#[test]
fn a_store_that_is_read_only_stays_so() {
    let disk = SimDisk::new(1);
    let options = StoreOptions { reserve_bytes: 8192, ..small_options() };
    let environment = environment(&disk, &ManualClock::default());
    let store = DiskStore::open(Path::new(FOLDER), options, environment).unwrap();
    let table = store.create_table(TableSpec { durability: Durability::Os, ..spec("t") }).unwrap();
    table.write(Write::upsert(rows(&[("a", 1)]))).unwrap();
    let (failing, other, failed) = (disk.clone(), table.clone(), AtomicBool::new(false));
    disk.set_hook(Some(Arc::new(move |_: &Image| {
        if !failed.swap(true, Relaxed) {
            failing.fail_next_sync();
            other.persist().unwrap_err();
        }
    })));
    store.maintain().unwrap();
    disk.set_hook(None);
    assert!(disk.files().keys().any(|path| path.ends_with("reserve")), "it was written");
    let refused = table.write(Write::upsert(rows(&[("b", 2)])));
    assert!(matches!(refused, Err(OplogError::ReadOnly { .. })), "{refused:?}");
}

#[test]
fn a_full_disk_does_not_keep_a_store_closed() {
    let disk = SimDisk::new(1);
    let start = || {
        let options = StoreOptions { reserve_bytes: 8192, ..small_options() };
        DiskStore::open(Path::new(FOLDER), options, environment(&disk, &ManualClock::default())).unwrap()
    };
    let store = start();
    let table = store.create_table(spec("t")).unwrap();
    store.maintain().unwrap();
    table.write(Write::upsert(rows(&[("a", 1), ("b", 2)]))).unwrap();
    drop((table, store));
    let used: usize = disk.files().values().map(Vec::len).sum();
    disk.set_faults(Faults { space: Some(used as u64 + 10), ..Faults::default() });
    let store = start();
    assert!(matches!(store.check_writable(), Err(OplogError::DiskFull { .. })));
    let table = store.table("t").unwrap();
    table.write(Write::delete(keys(&["a"]))).unwrap();
    assert_eq!(content(&table).unwrap(), map(&[("b", 2)]));
    disk.set_faults(Faults::default());
    store.maintain().unwrap();
    store.check_writable().unwrap();
}

/// Sealing needs space that is missing. Dropping dead units frees some space all the same.
#[test]
fn dead_units_are_dropped_though_the_disk_is_full() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let table = store.create_table(spec("t")).unwrap();
    let upsert = |names: &[String]| {
        let batch: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        table.write(Write::upsert(rows(&batch))).unwrap();
    };
    let sealed = || disk.files().keys().filter(|path| path.to_string_lossy().ends_with(".seg")).count();
    let gone: Vec<String> = (0..300).map(|number| format!("gone {number}")).collect();
    upsert(&gone);
    store.seal().unwrap();
    assert_eq!(sealed(), 1);
    let long: Vec<String> = (0..200).map(|number| format!("{number:0200}")).collect();
    upsert(&long);
    let gone: Vec<&str> = gone.iter().map(String::as_str).collect();
    table.write(Write::delete(keys(&gone))).unwrap();
    let used: usize = disk.files().values().map(Vec::len).sum();
    disk.set_faults(Faults { space: Some(used as u64 + 8192), ..Faults::default() });
    let refused = store.seal();
    assert!(refused.as_ref().is_err_and(OplogError::is_full), "{refused:?}");
    assert_eq!(sealed(), 0);
    disk.set_faults(Faults::default());
    store.maintain().unwrap();
    assert_eq!((sealed(), content(&table).unwrap().len()), (1, 200));
}
