//! Counters of the engine and of its caches.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of the engine.
#[derive(Debug, Default)]
pub struct Counters {
    pub running: AtomicU64,
    pub total: AtomicU64,
    pub failed: AtomicU64,
    pub rows: AtomicU64,
    pub cube_hits: AtomicU64,
    pub cube_misses: AtomicU64,
}

/// Hits and misses of a cache.
#[derive(Debug, Default)]
pub struct CacheCounts {
    hits: AtomicU64,
    misses: AtomicU64,
}

impl CacheCounts {
    /// Counts a hit or a miss.
    pub fn count(&self, hit: bool) {
        let counter = if hit { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Hits since the start.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Misses since the start.
    pub fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }
}
