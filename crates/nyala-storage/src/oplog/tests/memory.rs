//! Values that are not all in memory.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, StringArray};

use super::fixture::*;
use crate::oplog::vfs::sim::SimDisk;
use crate::oplog::*;

#[test]
fn cold_columns_are_dropped_and_come_back() {
    let disk = SimDisk::new(1);
    let environment = environment(&disk, &ManualClock::default());
    let options = |value_bytes| StoreOptions { value_bytes, ..small_options() };
    let store = DiskStore::open(Path::new(FOLDER), options(10_000), environment.clone()).unwrap();
    let table = store.create_table(spec("t")).unwrap();
    let mut expected = std::collections::BTreeMap::new();
    for unit in 0..4 {
        let names: Vec<String> = (0..500).map(|number| format!("key {}", unit * 500 + number)).collect();
        let keys = StringArray::from(names.clone());
        let values = Int64Array::from_iter_values(0..500);
        expected.extend(names.into_iter().zip(0..500));
        let batch = RecordBatch::try_new(schema(), vec![Arc::new(keys), Arc::new(values)]);
        table.write(Write::upsert(batch.unwrap())).unwrap();
        store.seal().unwrap();
    }
    assert!(table.version().parts().unwrap().len() >= 2, "units are apart");
    store.maintain().unwrap();
    assert!(!table.is_loaded(), "values of 16 kB do not fit into 10 kB");
    let cold = table.stats().memory_bytes;
    assert_eq!(content(&table).unwrap(), expected);
    assert!(table.is_loaded(), "they were asked for");
    let grown = table.stats().memory_bytes - cold;
    assert!((4000..40_000).contains(&grown), "{grown} bytes came into memory");
    store.maintain().unwrap();
    assert!(!table.is_loaded());
    drop((table, store));
    let store = DiskStore::open(Path::new(FOLDER), options(0), environment).unwrap();
    let table = store.table("t").unwrap();
    assert!(!table.is_loaded());
    assert_eq!(table.lookup(&keys(&["key 700"])).unwrap().rows, rows(&[("key 700", 200)]));
    store.load_values();
    store.maintain().unwrap();
    assert!(table.is_loaded());
    assert_eq!(content(&table).unwrap(), expected);
    assert_eq!(store.progress().report().phase, Phase::Ready);
}

/// A start does not bring rows that were replaced before it into memory.
#[test]
fn texts_of_dead_rows_do_not_come_back() {
    let disk = SimDisk::new(1);
    let environment = environment(&disk, &ManualClock::default());
    // No unit is rewritten, and one log holds all rows.
    let options =
        StoreOptions { compact_below: 0.0, compact_small: 0, seal_bytes: 1 << 20, ..small_options() };
    let open = || DiskStore::open(Path::new(FOLDER), options.clone(), environment.clone()).unwrap();
    let key = |number: i64| format!("{number:0100}");
    let write = |table: &LiveTable, numbers: &[i64], add: i64| {
        let keys: StringArray = numbers.iter().map(|number| Some(key(*number))).collect();
        let values: Int64Array = numbers.iter().map(|number| Some(number + add)).collect();
        let batch = RecordBatch::try_new(schema(), vec![Arc::new(keys), Arc::new(values)]);
        table.write(Write::upsert(batch.unwrap())).unwrap();
    };
    let memory_after = |replaced: &[i64]| {
        let store = open();
        let table = store.table("t").unwrap();
        write(&table, replaced, 7);
        store.seal().unwrap();
        drop((table, store));
        let store = open();
        store.load_values();
        store.maintain().unwrap();
        let table = store.table("t").unwrap();
        assert!(table.is_loaded());
        let found = content(&table).unwrap();
        let expected = |number: i64| (key(number), number + if replaced.contains(&number) { 7 } else { 0 });
        assert_eq!(found, (0..2000).map(expected).collect());
        let stays = table.lookup(&keys(&[&key(1500)])).unwrap();
        assert_eq!(stays.rows, rows(&[(&key(1500), expected(1500).1)]));
        table.stats().memory_bytes
    };
    let store = open();
    let table = store.create_table(spec("t")).unwrap();
    write(&table, &(0..2000).collect::<Vec<_>>(), 0);
    store.seal().unwrap();
    drop((table, store));
    let few = memory_after(&(0..20).collect::<Vec<_>>());
    let many = memory_after(&(0..1000).collect::<Vec<_>>());
    // 1,000 rows have their other columns, their hashes and offsets twice, but not their keys.
    assert!(many < few + 1000 * 50, "{few} bytes with 20 replaced rows, {many} with 1,000");
}

#[test]
fn stores_share_what_memory_there_is() {
    let disk = SimDisk::new(1);
    let open = |name: &str, id: fn() -> [u8; 16], budget: &Option<Arc<MemoryBudget>>| {
        let environment = environment(&disk, &ManualClock::default());
        let environment = Environment { new_store_id: id, budget: budget.clone(), ..environment };
        DiskStore::open(Path::new(name), small_options(), environment).unwrap()
    };
    let both = |budget: Option<MemoryBudget>| {
        let budget = budget.map(Arc::new);
        [open("/a", || [1; 16], &budget), open("/b", || [2; 16], &budget)]
    };
    let names: Vec<String> = (0..4000).map(|number| format!("key {number}")).collect();
    let values: Vec<(&str, i64)> = names.iter().map(String::as_str).zip(0..).collect();
    for store in both(None) {
        store.create_table(spec("t")).unwrap().write(Write::upsert(rows(&values))).unwrap();
        store.close().unwrap();
    }
    let held = |stores: &[DiskStore; 2]| -> u64 {
        let tables = stores.iter().flat_map(DiskStore::tables);
        tables.map(|table| table.stats().memory_bytes).sum()
    };
    let stores = both(None);
    stores.iter().for_each(|store| store.load_values());
    let all = held(&stores);
    drop(stores);
    for (limit, loaded) in [(all + 10_000, true), (all - 10_000, false)] {
        let stores = both(Some(MemoryBudget::new(limit)));
        stores.iter().for_each(|store| store.load_values());
        for store in &stores {
            assert_eq!(
                content(&store.table("t").unwrap()).unwrap().len(),
                values.len(),
                "nothing is refused"
            );
        }
        // A store's share counts other stores only once they have reported, so that each store gets two turns.
        (0..2).flat_map(|_| &stores).for_each(|store| store.maintain().unwrap());
        assert!(held(&stores) <= limit, "{} of {limit}", held(&stores));
        assert_eq!(stores.iter().all(|store| store.table("t").unwrap().is_loaded()), loaded);
    }
}
