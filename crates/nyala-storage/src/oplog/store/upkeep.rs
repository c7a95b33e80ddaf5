//! Keeping the files in order: sealing, rewriting, checkpoints, and removing what is no longer needed.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::inner::{Inner, Status};
use super::queue::lock;
use crate::oplog::error::{OplogError, Result};
use crate::oplog::files::{Manifest, UnitFiles};
use crate::oplog::table::SharedTable;

/// What is known of the files.
#[derive(Debug)]
pub(crate) struct Upkeep {
    /// The newest manifest.
    pub(crate) manifest: Manifest,
    /// Files of units, also of those that no manifest names yet.
    pub(crate) files: BTreeMap<(u32, u64), UnitFiles>,
    /// Number of the next manifest and version of files made for it. No number is tried twice: a manifest whose
    /// writing failed may be on disk all the same.
    pub(crate) next: u64,
    /// When the last checkpoint was written, in milliseconds since 1970.
    pub(crate) written_ms: u64,
    /// Where the logs ended at the start.
    pub(crate) read_to: (u64, u64),
    /// While this is above 0 no file is removed.
    pub(crate) pins: usize,
}

impl Upkeep {
    pub(super) fn new(manifest: Manifest, read_to: (u64, u64)) -> Self {
        let files = manifest.units.iter().map(|unit| ((unit.table, unit.unit), unit.files)).collect();
        Self { next: manifest.number + 1, manifest, files, written_ms: 0, read_to, pins: 0 }
    }
}

/// How much of the upkeep is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// What is due.
    Due,
    /// A checkpoint in any case.
    Checkpoint,
    /// Seal the log in any case.
    Seal,
}

impl Inner {
    /// Does what is due. Tables of which something could not be read at the start are left as they are on disk: once
    /// that is repaired, they are whole again.
    pub(crate) fn maintain(&self, effort: Effort) -> Result<()> {
        let mut upkeep = lock(&self.upkeep);
        self.keep_reserve();
        self.keep_budget();
        self.note_found_damage();
        lock(&self.committer).sync_if_needed(self)?;
        if let Status::ReadOnly(_) = self.status() {
            return if effort == Effort::Due { Ok(()) } else { self.check_writable(true) };
        }
        self.expire_old_rows()?;
        let done = self.work(&mut upkeep, effort);
        if let Err(error) = &done {
            if error.is_full() {
                self.enter_full();
            }
            self.remove_unfinished(&upkeep);
        }
        done
    }

    /// Runs `work` on each table that is whole. Damage that it meets is the table's alone.
    pub(super) fn each_whole_table(
        &self,
        mut work: impl FnMut(&Arc<SharedTable>) -> Result<bool>,
    ) -> Result<bool> {
        let mut any = false;
        for table in self.all_tables() {
            if table.read().check_whole().is_err() {
                continue;
            }
            match work(&table) {
                Ok(done) => any |= done,
                Err(OplogError::Damaged(damage)) => {
                    tracing::error!(table = %table.meta().name, %damage, "a table's file is damaged");
                    table.change(|state| state.note(damage));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(any)
    }

    fn work(&self, upkeep: &mut Upkeep, effort: Effort) -> Result<()> {
        let position = self.log_position();
        if position.1 >= self.options.seal_bytes || effort == Effort::Seal {
            self.rotate_log()?;
        }
        // Sealing takes long. If the process ends meanwhile, the next start has little log to read.
        let due = self.checkpoint_is_due(upkeep, position);
        if due {
            self.checkpoint(upkeep)?;
        }
        let sealed = self.seal_frozen(upkeep)?;
        let changed = self.compact(upkeep)? || sealed;
        if changed || (effort != Effort::Due && !due) {
            self.checkpoint(upkeep)?;
        }
        Ok(())
    }

    fn checkpoint_is_due(&self, upkeep: &Upkeep, (log, bytes): (u64, u64)) -> bool {
        let (known_log, known_bytes) = upkeep.manifest.log;
        let waited = self.environment.clock.now_ms().saturating_sub(upkeep.written_ms);
        let idle = waited >= self.options.checkpoint_interval_ms && bytes > known_bytes;
        idle || log != known_log || bytes >= known_bytes.saturating_add(self.checkpoint_step())
    }

    /// After so much log a checkpoint is due: sooner while the keys that it writes are few. It writes half as much as the
    /// log has since, at most.
    fn checkpoint_step(&self) -> u64 {
        let rows: u64 = self.all_tables().iter().map(|table| table.read().growing_rows()).sum();
        (rows * 2 * size_of::<u64>() as u64)
            .clamp(self.options.checkpoint_bytes / 4, self.options.checkpoint_bytes)
    }

    /// Whether more was written since the last checkpoint than should be.
    pub(super) fn log_is_long(&self) -> bool {
        let (_, (known_log, known_bytes)) = *lock(&self.checkpointed);
        let (log, bytes) = self.log_position();
        let known = if log == known_log { known_bytes } else { 0 };
        bytes >= known.saturating_add(self.options.checkpoint_bytes)
    }

    fn log_position(&self) -> (u64, u64) {
        let committer = lock(&self.committer);
        (committer.log.number, committer.log.end)
    }

    fn rotate_log(&self) -> Result<()> {
        let mut committer = lock(&self.committer);
        committer.sync_if_needed(self)?;
        let end = committer.log.end;
        committer.rotate(self, end)
    }

    fn expire_old_rows(&self) -> Result<()> {
        let now = self.environment.clock.now_ms();
        for table in self.all_tables() {
            if let Some(ttl) = table.meta().ttl_ms {
                let before_ms = now.saturating_sub(ttl);
                let bound = lock(&self.committer).lsn_at(before_ms);
                if table.read().has_expired(bound) {
                    self.submit(super::queue::Request::Expire { table, before_ms });
                }
            }
        }
        Ok(())
    }
}
