//! Tables whose writes are acknowledged before they are on disk.
//!
//! The promise: a power cut loses the newest writes at most, and never leaves a gap.

use super::fixture::*;
use crate::oplog::vfs::sim::{Rng, SimDisk};
use crate::oplog::*;

fn check(durability: Durability, seed: u64) {
    let mut rng = Rng(seed);
    let disk = SimDisk::new(seed);
    let store = open(&disk);
    let table = store.create_table(TableSpec { durability, ..spec("t") }).unwrap();
    let mut history = vec![content(&table).unwrap()];
    let mut synced = 0;
    for number in 0..40 {
        let key = format!("key {}", rng.below(10));
        table.write(Write::upsert(rows(&[(&key, number)]))).unwrap();
        history.push(content(&table).unwrap());
        match rng.below(10) {
            0 => store.seal().unwrap(),
            1 => store.checkpoint().unwrap(),
            2 => store.maintain().unwrap(),
            _ => continue,
        }
        synced = history.len() - 1;
    }
    let left = SimDisk::from_image(disk.image().after_crash(rng.next()), seed);
    let store = open(&left);
    assert!(store.report().damage.is_empty(), "seed {seed}: {:?}", store.report());
    let found = content(&store.table("t").unwrap()).unwrap();
    let at = history.iter().rposition(|rows| *rows == found);
    assert!(at.is_some_and(|at| at >= synced), "seed {seed}: {found:?} is at {at:?}, {synced} were synced");
}

#[test]
fn a_power_cut_loses_the_newest_writes_at_most() {
    for seed in 0..300 {
        check(Durability::Os, seed);
        check(Durability::Interval, seed);
    }
}

/// A process that is killed leaves what it wrote in the memory of the system. The next start serves it, so that it must be
/// on disk by then: a power cut later took it, and the new log said that it had been confirmed.
#[test]
fn what_a_start_serves_survives_a_power_cut() {
    for seed in 0..60 {
        let disk = SimDisk::new(seed);
        let store = open(&disk);
        let table = store.create_table(TableSpec { durability: Durability::Os, ..spec("t") }).unwrap();
        table.write(Write::upsert(rows(&[("a", 1)]))).unwrap();
        drop((table, store));
        let store = open(&disk);
        let table = store.table("t").unwrap();
        assert_eq!(content(&table).unwrap(), map(&[("a", 1)]));
        table.persist().unwrap();
        let left = SimDisk::from_image(disk.image().after_crash(seed), seed);
        let store = open(&left);
        assert_eq!(store.report(), &StoreReport::default(), "seed {seed}");
        assert_eq!(content(&store.table("t").unwrap()).unwrap(), map(&[("a", 1)]), "seed {seed}");
    }
}

#[test]
fn a_start_that_cannot_make_durable_what_it_read_is_refused() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let table = store.create_table(TableSpec { durability: Durability::Os, ..spec("t") }).unwrap();
    table.write(Write::upsert(rows(&[("a", 1)]))).unwrap();
    drop((table, store));
    disk.fail_next_sync();
    let refused = try_open(&disk);
    assert!(matches!(refused, Err(OplogError::Io { action: "sync", .. })), "{refused:?}");
}
