//! Counters of the engine.

use std::sync::atomic::AtomicU64;

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
