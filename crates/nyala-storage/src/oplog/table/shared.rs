//! A table as readers and the writer share it.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use arc_swap::ArcSwap;

use super::cold::ColdKeys;
use super::{TableState, Version};
use crate::oplog::error::Result;
use crate::oplog::meta::TableMeta;
use crate::oplog::write::HashedRows;

/// Most keys that are read one by one.
const FEW_KEYS: usize = 16;

/// A table. Scans load a pointer; lookups and the writer pass the gate, which no thread holds across a disk access.
#[derive(Debug)]
pub struct SharedTable {
    gate: RwLock<TableState>,
    published: ArcSwap<Version>,
}

impl SharedTable {
    pub fn new(mut state: TableState) -> Self {
        let published = ArcSwap::from_pointee(state.version());
        Self { gate: RwLock::new(state), published }
    }

    /// The newest version.
    pub fn version(&self) -> Arc<Version> {
        self.published.load_full()
    }

    pub fn meta(&self) -> Arc<TableMeta> {
        self.published.load().meta().clone()
    }

    pub fn read(&self) -> RwLockReadGuard<'_, TableState> {
        self.gate.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, TableState> {
        self.gate.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Approximate size in memory.
    pub fn memory_bytes(&self) -> u64 {
        let units: u64 = self.version().units().iter().map(|unit| unit.memory_bytes()).sum();
        units + self.read().index.bytes()
    }

    /// Changes the table and shows the change to readers, in one step.
    pub fn change<T>(&self, change: impl FnOnce(&mut TableState) -> T) -> T {
        let mut state = self.write();
        let result = change(&mut state);
        self.published.store(Arc::new(state.version()));
        result
    }

    /// Reads the keys needed to tell whether keys with these hashes are the same, outside of the gate: keys of single
    /// rows, or, if these are many or one is a different key, the keys of their units. Afterwards, keys with one hash
    /// are in memory or the same.
    pub fn settle_keys(&self, rows: &HashedRows) -> Result<()> {
        let mut cold = ColdKeys::default();
        loop {
            let unknown = cold.unknown(&self.read(), &rows.hashes);
            if unknown.is_empty() {
                return Ok(());
            }
            if unknown.len() > FEW_KEYS || !cold.compare(unknown, &rows.keys)? {
                let needed = self.read().keys_needed(rows.hashes.iter());
                return needed.iter().try_for_each(|base| base.load_keys().map(drop));
            }
        }
    }
}
