//! Reads of single rows by key, with values on disk and in memory.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{RecordBatch, StringArray};
use nyala_storage::oplog::{DiskStore, Environment, LiveTable, RowId, StoreOptions, TableSpec, Write};

use crate::process::{open, usage};
use crate::rows::{wide_key, wide_rows, wide_schema};

pub fn run(folder: &Path, rows: u64) {
    std::fs::remove_dir_all(folder).ok();
    let store = open(folder);
    let table = store.create_table(TableSpec::new("t", wide_schema(), &["key"])).unwrap();
    for from in (0..rows).step_by(100_000) {
        table.write(Write::upsert(wide_rows(from, rows.min(from + 100_000)))).unwrap();
    }
    store.close().unwrap();
    drop(table);
    let options = StoreOptions { load_values: false, background: false, ..StoreOptions::default() };
    let store = DiskStore::open(folder, options, Environment::default()).unwrap();
    let table = store.table("t").unwrap();
    measure(&table, rows, 1, 200, "values and keys on disk");
    measure(&table, rows, 100, 20, "values and keys on disk");
    store.load_values();
    measure(&table, rows, 1, 100_000, "in memory");
    measure(&table, rows, 100, 2_000, "in memory");
}

/// Looks up keys, `at_once` of them each time, and reads their values.
fn measure(table: &LiveTable, rows: u64, at_once: u64, times: u64, what: &str) {
    let (before, began) = (usage(), Instant::now());
    let mut next: u64 = 7;
    for _ in 0..times {
        let keys: StringArray = (0..at_once)
            .map(|_| {
                next = u64::wrapping_mul(next, 6_364_136_223_846_793_005).wrapping_add(1);
                Some(wide_key((next >> 33) % rows))
            })
            .collect();
        let keys = RecordBatch::try_new(table.key_schema().unwrap(), vec![Arc::new(keys)]).unwrap();
        let located = table.locate(&keys).unwrap();
        let found: Vec<RowId> = located.rows.into_iter().map(Option::unwrap).collect();
        let projection = located.version.projection(&[1], false).unwrap();
        assert_eq!(located.version.take(&found, &projection).unwrap().num_rows() as u64, at_once);
    }
    let (after, seconds) = (usage(), began.elapsed().as_secs_f64());
    println!(
        "{what}, {at_once} at once: {:.1} us each time, {:.1} us of processor time, {:.1} KiB read, {:.1} MiB more in memory",
        seconds / times as f64 * 1e6,
        (after.seconds - before.seconds) / times as f64 * 1e6,
        (after.read - before.read) as f64 / times as f64 / 1024.0,
        after.resident.saturating_sub(before.resident) as f64 / f64::from(1 << 20),
    );
}
