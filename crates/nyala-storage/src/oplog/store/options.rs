//! Knobs of a disk store.

use crate::oplog::error::{OplogError, Result};

/// Knobs of a disk store. Each says its trade-off; sizes are bytes on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct StoreOptions {
    /// A log of this size is sealed. Larger: fewer, larger units. Default 128 MiB, at most 512 MiB.
    pub seal_bytes: u64,
    /// A store that was written to has a checkpoint after so many milliseconds at the latest. Default 30,000.
    pub checkpoint_interval_ms: u64,
    /// After so much log at the latest, and after a quarter of it while they are few, the keys of the growing units
    /// are written to disk. Smaller: less to read after a crash, more to write. Default 8 MiB.
    pub checkpoint_bytes: u64,
    /// Logs are kept for the change feed up to this size, beyond those needed to start. Default 256 MiB.
    pub retain_log_bytes: u64,
    /// Number of labels kept for each table; a load with a forgotten label would be done again. Each takes some 100
    /// bytes of memory and of every checkpoint. Default 10,000.
    pub retain_labels: usize,
    /// A unit with a smaller share of live rows is rewritten. Default 0.5; 0 never.
    pub compact_below: f64,
    /// One rewrite takes units of this size at most. Default 256 MiB, at most 512 MiB.
    pub compact_bytes: u64,
    /// So many small units of a table are rewritten as one. Default 8; 0 never.
    pub compact_small: usize,
    /// A log is filled ahead by so much, so that a sync of at most a sixteenth of it is durable without the file's new
    /// length. Larger: more space for a store that is hardly written to, and longer waits when it is filled. Default 1
    /// MiB, at most 64 MiB; 0 never.
    pub preallocate_bytes: u64,
    /// Space kept for the day the disk is full. Default 8 MiB; 0 keeps none.
    pub reserve_bytes: u64,
    /// Writers wait when statements of this size await their commit. Default 256 MiB.
    pub queue_bytes: usize,
    /// Largest size of a statement. Default 256 MiB, at most 512 MiB.
    pub statement_bytes: usize,
    /// Threads that read keys at a start, which writes wait for. Values, for which no statement waits, are read by one
    /// fewer, so that a processor is left for statements. Default: as many as the machine has processors.
    pub recovery_threads: usize,
    /// Whether all values are read into memory after a start; otherwise each column at its first use. Default true.
    pub load_values: bool,
    /// Values in memory beyond this are dropped, the least recently read first, and read again on demand. Keys and
    /// unsealed rows stay. Default 0: no limit.
    pub value_bytes: u64,
    /// Whether the store has threads of its own. Without, the submitting thread commits statements, and upkeep runs
    /// only when called. Default true.
    pub background: bool,
    /// How often tables with interval durability are written out, in milliseconds. Default 50.
    pub sync_interval_ms: u64,
    /// Name of this process, shown to a second process that opens the folder.
    pub holder: String,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            seal_bytes: 128 << 20,
            checkpoint_bytes: 8 << 20,
            checkpoint_interval_ms: 30_000,
            retain_log_bytes: 256 << 20,
            retain_labels: 10_000,
            compact_below: 0.5,
            compact_bytes: 256 << 20,
            compact_small: 8,
            preallocate_bytes: 1 << 20,
            reserve_bytes: 8 << 20,
            queue_bytes: 256 << 20,
            statement_bytes: 256 << 20,
            recovery_threads: std::thread::available_parallelism().map_or(1, Into::into),
            load_values: true,
            value_bytes: 0,
            background: true,
            sync_interval_ms: 50,
            holder: format!("process {}", std::process::id()),
        }
    }
}

impl StoreOptions {
    /// Largest value of [`Self::statement_bytes`].
    pub(crate) const MAX_STATEMENT_BYTES: usize = 512 << 20;

    /// Threads that read values while statements run: one fewer than for keys, so that a statement finds a free
    /// processor.
    pub(super) fn value_threads(&self) -> usize {
        self.recovery_threads.saturating_sub(1).max(1)
    }

    /// A checkpoint is due after so much more log if the growing units have so many rows: it writes a hash for each,
    /// about as much as the log then has, up to the limit.
    pub(super) fn checkpoint_step(&self, rows: u64) -> u64 {
        (rows * size_of::<u64>() as u64).clamp(self.checkpoint_bytes / 4, self.checkpoint_bytes)
    }

    /// Names the first invalid option.
    pub fn validate(&self) -> Result<()> {
        let rules = [
            ((4096..=512 << 20).contains(&self.seal_bytes), "seal_bytes", "4 KiB to 512 MiB"),
            (self.compact_bytes <= 512 << 20, "compact_bytes", "at most 512 MiB"),
            ((1..=1_000_000).contains(&self.retain_labels), "retain_labels", "1 to 1,000,000"),
            (self.checkpoint_bytes >= 1024, "checkpoint_bytes", "at least 1 KiB"),
            ((0.0..=0.95).contains(&self.compact_below), "compact_below", "0 to 0.95"),
            (self.preallocate_bytes <= 64 << 20, "preallocate_bytes", "at most 64 MiB"),
            (self.compact_small != 1, "compact_small", "0 or at least 2"),
            (self.queue_bytes > 0, "queue_bytes", "above 0"),
            (
                (1..=Self::MAX_STATEMENT_BYTES).contains(&self.statement_bytes),
                "statement_bytes",
                "1 byte to 512 MiB",
            ),
            (self.recovery_threads > 0, "recovery_threads", "at least 1"),
            (self.sync_interval_ms > 0, "sync_interval_ms", "above 0"),
        ];
        match rules.iter().find(|(holds, ..)| !holds) {
            Some((_, name, range)) => Err(OplogError::invalid(format!("option `{name}` must be {range}"))),
            None => Ok(()),
        }
    }
}
