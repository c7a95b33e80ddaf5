//! Counters of the cache.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since the start of the process.
#[derive(Debug, Default)]
pub struct CacheStats {
    /// Requests for missing blocks.
    pub fetches: AtomicU64,
    /// Data of missing blocks that other nodes had.
    pub borrowed_bytes: AtomicU64,
    /// Data of blocks that other nodes were given.
    pub lent_bytes: AtomicU64,
    /// Blocks that were deleted to make room, or by a command.
    pub evicted_blocks: AtomicU64,
    /// Blocks that were fetched and not kept, because other blocks are used more.
    pub rejected_blocks: AtomicU64,
    /// Blocks that were fetched and not kept, because the disk was too slow.
    pub skipped_writes: AtomicU64,
    /// Data written to disk.
    pub written_bytes: AtomicU64,
    /// Blocks whose file has other bytes than were written.
    pub damaged_blocks: AtomicU64,
    /// Failures of the disk.
    pub io_errors: AtomicU64,
}

/// Bytes that readers asked for, by the place they came from.
#[derive(Debug, Default)]
pub struct Tally {
    /// From the cache's memory.
    pub memory_bytes: AtomicU64,
    /// From the cache's disk.
    pub disk_bytes: AtomicU64,
    /// From the store, or from a request that was on its way.
    pub store_bytes: AtomicU64,
    /// Parts of reads that the cache had.
    pub hits: AtomicU64,
    /// Parts of reads that came from the store.
    pub misses: AtomicU64,
}

/// Adds to a counter.
pub(super) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

impl Tally {
    pub(super) fn count_memory(&self, bytes: u64) {
        add(&self.memory_bytes, bytes);
        add(&self.hits, 1);
    }

    pub(super) fn count_disk(&self, bytes: u64) {
        add(&self.disk_bytes, bytes);
        add(&self.hits, 1);
    }

    /// Counts bytes that the cache did not have.
    pub fn count_store(&self, bytes: u64) {
        add(&self.store_bytes, bytes);
        add(&self.misses, 1);
    }

    /// Adds the counts of another tally.
    pub fn add(&self, other: &Self) {
        let pairs = [
            (&self.memory_bytes, &other.memory_bytes),
            (&self.disk_bytes, &other.disk_bytes),
            (&self.store_bytes, &other.store_bytes),
            (&self.hits, &other.hits),
            (&self.misses, &other.misses),
        ];
        for (to, from) in pairs {
            add(to, from.load(Ordering::Relaxed));
        }
    }
}
