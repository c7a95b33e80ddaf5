//! Sizes of tables and stores, for listings and metrics.

use super::inner::Checkpointed;
use super::{DiskStore, LiveTable};
use crate::oplog::store::queue::lock;

/// Sizes of a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Live rows.
    pub rows: u64,
    /// Rows that were replaced or deleted and are still stored.
    pub dead_rows: u64,
    /// Units, sealed or not.
    pub units: u64,
    /// Bytes of sealed units on disk.
    pub sealed_bytes: u64,
    /// Bytes in memory: values, keys, index and hashes, about.
    pub memory_bytes: u64,
}

/// Sizes of a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// LSN of the last change.
    pub lsn: u64,
    /// LSN up to which a start need not read the log.
    pub checkpoint_lsn: u64,
    /// Logs on disk.
    pub logs: u64,
    /// Bytes of log that a start would have to read now.
    pub log_bytes: u64,
}

impl LiveTable {
    /// The sizes of the table.
    pub fn stats(&self) -> TableStats {
        let version = self.version();
        let mut stats =
            TableStats { rows: version.rows(), units: version.units().len() as u64, ..TableStats::default() };
        stats.memory_bytes = self.shared.memory_bytes();
        for unit in version.units() {
            stats.dead_rows += u64::from(unit.dead.count());
            let columns = unit.data.base.iter().filter(|base| base.is_sealed());
            stats.sealed_bytes += columns
                .map(|base| (0..base.schema.columns.len()).map(|at| base.column_bytes(at)).sum::<u64>())
                .sum::<u64>();
        }
        stats
    }
}

impl DiskStore {
    /// The sizes of the store. The call waits while a group of statements is being committed.
    pub fn stats(&self) -> StoreStats {
        let Checkpointed { lsn: checkpoint_lsn, log: from, .. } = *lock(&self.inner.checkpointed);
        let committer = lock(&self.inner.committer);
        let unread = committer.logs.iter().filter(|log| log.number >= from.0);
        let closed: u64 = unread.filter(|log| log.number < committer.log.number).map(|log| log.bytes).sum();
        StoreStats {
            lsn: committer.next_lsn - 1,
            checkpoint_lsn,
            logs: committer.logs.len() as u64,
            log_bytes: (closed + committer.log.end).saturating_sub(from.1),
        }
    }
}
