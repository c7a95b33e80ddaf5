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
    assert_eq!(content(&table).unwrap(), expected);
    assert!(table.is_loaded(), "they were asked for");
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
