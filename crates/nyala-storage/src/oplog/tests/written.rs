//! Rows by LSN of their last write: counts and reads of them must match full scans.

use std::sync::Arc;

use arrow_array::{cast::AsArray, types::UInt64Type};

use super::fixture::*;
use crate::oplog::vfs::sim::{Rng, SimDisk};
use crate::oplog::*;

/// The LSN of every row, by a scan of all.
fn versions(version: &Version) -> Vec<u64> {
    read(version, &version.projection(&[0], true).unwrap())
}

fn read(version: &Version, projection: &Projection) -> Vec<u64> {
    let mut found = Vec::new();
    for part in version.parts().unwrap() {
        let batch = projection.read(&part).unwrap();
        found.extend(batch.column(1).as_primitive::<UInt64Type>().values());
    }
    found.sort_unstable();
    found
}

fn check(version: &Version, wanted: &LsnSet, seed: u64) {
    let inside = |lsn: &u64| wanted.ranges().iter().any(|range| range.contains(lsn));
    let expected: Vec<u64> = versions(version).into_iter().filter(inside).collect();
    assert_eq!(version.rows_written(wanted), expected.len() as u64, "seed {seed}: {wanted:?}");
    let projection = version.projection(&[0], true).unwrap().only_written(Arc::new(wanted.clone()));
    assert_eq!(read(version, &projection), expected, "seed {seed}: {wanted:?}");
}

fn check_done(committed: Result<Committed>) {
    assert!(committed.unwrap().lsn > 0);
}

#[test]
fn rows_are_counted_and_read_by_when_they_were_written() {
    for seed in 0..20 {
        let mut random = Rng(seed);
        let disk = SimDisk::new(seed);
        let mut store = open(&disk);
        store.create_table(spec("t")).unwrap();
        for _ in 0..60 {
            let table = store.table("t").unwrap();
            let names: Vec<String> =
                (0..1 + random.below(6)).map(|_| format!("k{}", random.below(60))).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            match random.below(12) {
                0 => check_done(table.truncate()),
                1..=3 => check_done(table.write(Write::delete(keys(&names)))),
                4 => store.seal().unwrap(),
                5 => store.maintain().unwrap(),
                6 => {
                    drop(table);
                    store.close().unwrap();
                    store = open(&disk);
                }
                _ => {
                    let written: Vec<(&str, i64)> = names.iter().map(|name| (*name, 1)).collect();
                    check_done(table.write(Write::upsert(rows(&written))));
                }
            }
            let version = store.table("t").unwrap().version();
            let end = version.lsn() + 2;
            let (a, b, c) = (random.below(end), random.below(end), random.below(end));
            for wanted in [
                LsnSet::up_to(a),
                LsnSet::new([a.min(b)..=a.max(b)]),
                LsnSet::new([0..=a.min(b), a.max(b) + 1..=a.max(b) + 1 + c]),
                LsnSet::default(),
                LsnSet::up_to(version.lsn()),
            ] {
                check(&version, &wanted, seed);
            }
            let seams = version.seams();
            assert!(seams.is_sorted() && seams.last() == Some(&version.lsn()), "seed {seed}: {seams:?}");
        }
    }
}

/// Counts rely on this: of the rows written up to an LSN none returns, and none is added.
#[test]
fn rows_that_were_written_only_become_fewer() {
    let disk = SimDisk::new(3);
    let store = open(&disk);
    let table = store.create_table(spec("t")).unwrap();
    let then = table.write(Write::upsert(rows(&[("a", 1), ("b", 2)]))).unwrap().lsn;
    let before = LsnSet::up_to(then);
    table.write(Write::upsert(rows(&[("c", 3)]))).unwrap();
    assert_eq!((table.version().rows_written(&before), table.version().rows()), (2, 3));
    table.write(Write::upsert(rows(&[("a", 1)]))).unwrap();
    assert_eq!((table.version().rows_written(&before), table.version().rows()), (1, 3));
    store.seal().unwrap();
    table.write(Write::delete(keys(&["b"]))).unwrap();
    table.write(Write::upsert(rows(&[("b", 2)]))).unwrap();
    assert_eq!((table.version().rows_written(&before), table.version().rows()), (0, 3));
    table.persist().unwrap();
}
