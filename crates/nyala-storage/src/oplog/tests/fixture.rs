//! Stores on simulated disks, small tables, and rows of two columns.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arrow_array::{Int64Array, RecordBatch, StringArray, cast::AsArray, types::Int64Type};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use crate::oplog::vfs::sim::SimDisk;
use crate::oplog::*;

pub const FOLDER: &str = "/store";

/// A clock that the test moves.
#[derive(Debug, Default, Clone)]
pub struct ManualClock(pub Arc<AtomicU64>);

impl Clock for ManualClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

pub fn small_options() -> StoreOptions {
    StoreOptions {
        seal_bytes: 4096,
        checkpoint_bytes: 1024,
        retain_log_bytes: 1 << 20,
        compact_small: 3,
        retain_labels: 4,
        preallocate_bytes: 4096,
        reserve_bytes: 0,
        recovery_threads: 1,
        load_values: false,
        background: false,
        ..StoreOptions::default()
    }
}

pub fn environment(disk: &SimDisk, clock: &ManualClock) -> Environment {
    Environment {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(clock.clone()),
        new_store_id: || *b"0123456789abcdef",
        budget: None,
    }
}

pub fn open(disk: &SimDisk) -> DiskStore {
    try_open(disk).unwrap()
}

pub fn try_open(disk: &SimDisk) -> Result<DiskStore> {
    DiskStore::open(Path::new(FOLDER), small_options(), environment(disk, &ManualClock::default()))
}

/// A text key and a number.
pub fn schema() -> SchemaRef {
    let key = Field::new("key", DataType::Utf8, false);
    Arc::new(Schema::new(vec![key, Field::new("value", DataType::Int64, true)]))
}

pub fn spec(name: &str) -> TableSpec {
    TableSpec { buckets: 4, ..TableSpec::new(name, schema(), &["key"]) }
}

pub fn rows(rows: &[(&str, i64)]) -> RecordBatch {
    let keys: StringArray = rows.iter().map(|(key, _)| Some(*key)).collect();
    let values: Int64Array = rows.iter().map(|(_, value)| Some(*value)).collect();
    RecordBatch::try_new(schema(), vec![Arc::new(keys), Arc::new(values)]).unwrap()
}

pub fn keys(keys: &[&str]) -> RecordBatch {
    let schema = Arc::new(schema().project(&[0]).unwrap());
    RecordBatch::try_new(schema, vec![Arc::new(StringArray::from(keys.to_vec()))]).unwrap()
}

/// All rows of a table by key.
pub fn content(table: &LiveTable) -> Result<BTreeMap<String, i64>> {
    let version = table.version();
    let projection = version.projection(&[0, 1], false)?;
    let mut found = BTreeMap::new();
    for part in version.parts()? {
        let batch = projection.read(&part)?;
        let keys = batch.column(0).as_string::<i32>();
        let values = batch.column(1).as_primitive::<Int64Type>();
        for row in 0..batch.num_rows() {
            let old = found.insert(keys.value(row).to_owned(), values.value(row));
            assert_eq!(old, None, "key {} is there twice", keys.value(row));
        }
    }
    assert_eq!(found.len() as u64, version.rows());
    Ok(found)
}

pub fn map(rows: &[(&str, i64)]) -> BTreeMap<String, i64> {
    rows.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect()
}
