//! The progress of a start, for display.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The step of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Not begun.
    Waiting,
    /// Reading hashes of keys and building indexes.
    Keys,
    /// Reading the log behind the last checkpoint.
    Log,
    /// Everything is served; requested values are read first, the others in the background.
    Values,
    /// All values are in memory, as far as configured.
    Ready,
}

const PHASES: &[Phase] = &[Phase::Waiting, Phase::Keys, Phase::Log, Phase::Values, Phase::Ready];

/// Counters that a start moves and any thread can read.
#[derive(Debug, Default)]
pub struct Progress {
    phase: AtomicU64,
    pub(crate) bytes_total: AtomicU64,
    pub(crate) bytes_done: AtomicU64,
    pub(crate) rows: AtomicU64,
    pub(crate) rows_total: AtomicU64,
    pub(crate) rows_done: AtomicU64,
    pub(crate) log_bytes_total: AtomicU64,
    pub(crate) log_bytes_done: AtomicU64,
}

/// How far a start has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgressReport {
    /// Its present step.
    pub phase: Phase,
    /// Bytes of values to be read.
    pub bytes_total: u64,
    /// Bytes of values that were read.
    pub bytes_done: u64,
    /// Live rows with known keys.
    pub rows: u64,
    /// Rows with keys to be read, dead ones too.
    pub rows_total: u64,
    /// Rows with keys that were read.
    pub rows_done: u64,
    /// Bytes of log to be read.
    pub log_bytes_total: u64,
    /// Bytes of log that were read.
    pub log_bytes_done: u64,
}

impl Progress {
    pub(crate) fn enter(&self, phase: Phase) {
        let number = PHASES.iter().position(|known| *known == phase).unwrap_or_default();
        self.phase.store(number as u64, Relaxed);
    }

    /// The counters now.
    pub fn report(&self) -> ProgressReport {
        let phase = self.phase.load(Relaxed) as usize;
        ProgressReport {
            phase: PHASES.get(phase).copied().unwrap_or(Phase::Waiting),
            bytes_total: self.bytes_total.load(Relaxed),
            bytes_done: self.bytes_done.load(Relaxed),
            rows: self.rows.load(Relaxed),
            rows_total: self.rows_total.load(Relaxed),
            rows_done: self.rows_done.load(Relaxed),
            log_bytes_total: self.log_bytes_total.load(Relaxed),
            log_bytes_done: self.log_bytes_done.load(Relaxed),
        }
    }
}
