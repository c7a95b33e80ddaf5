//! Figures of disk stores for metrics.

use nyala_cube::live::{OpenStore, StoreState};
use nyala_storage::oplog::{Phase, TableStats};

use crate::query::engine::Engine;

/// A disk store at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskStoreStats {
    /// Name of the store.
    pub name: String,
    /// Whether it takes writes.
    pub writable: bool,
    /// Whether it serves reads.
    pub open: bool,
    /// Milliseconds from the start until its keys were known; none before.
    pub keys_ready_ms: Option<u64>,
    /// Bytes of values that a start has to read, and bytes that it has read.
    pub value_bytes: (u64, u64),
    /// Whether all values are in memory, as far as configured.
    pub ready: bool,
    /// Rows of its tables.
    pub rows: u64,
    /// Approximate size of these tables in memory, in bytes.
    pub memory_bytes: u64,
}

/// The figures of a store, without waiting for it to open.
pub fn stats(engine: &Engine, store: &OpenStore) -> DiskStoreStats {
    let progress = store.progress().report();
    let (open, writable, took) = match store.state() {
        StoreState::Open(open, took) => (true, open.check_writable().is_ok(), Some(took)),
        _ => (false, false, None),
    };
    let context = engine.snapshots.current();
    let tables = context.snapshot().tables.values();
    let own = tables.filter(|table| table.live().is_some_and(|live| live.store == store.name()));
    let opened = own.filter_map(|table| context.live_table(&table.name)?.ok()?.ready().ok()?);
    let stats: Vec<TableStats> = opened.map(|table| table.stats()).collect();
    DiskStoreStats {
        name: store.name().to_owned(),
        writable,
        open,
        keys_ready_ms: took.and_then(|took| u64::try_from(took.as_millis()).ok()),
        value_bytes: (progress.bytes_total, progress.bytes_done),
        ready: progress.phase == Phase::Ready,
        rows: stats.iter().map(|table| table.rows).sum(),
        memory_bytes: stats.iter().map(|table| table.memory_bytes).sum(),
    }
}
