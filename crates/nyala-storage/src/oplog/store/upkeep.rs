//! Upkeep of the files: sealing, rewriting, checkpoints, and removing obsolete files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::inner::{Checkpointed, Inner, Status};
use super::queue::{Request, lock};
use crate::oplog::error::{OplogError, Result};
use crate::oplog::files::{Manifest, UnitFiles};
use crate::oplog::table::SharedTable;

/// Expired rows are searched so many times per lifetime of a row, but at least once in so many milliseconds.
const EXPIRY_CHECKS: u64 = 8;
const EXPIRY_MS: u64 = 1000;

/// The state of the files.
#[derive(Debug)]
pub struct Upkeep {
    /// The newest manifest.
    pub manifest: Manifest,
    /// Files of units, including units that no manifest names yet.
    pub files: BTreeMap<(u32, u64), UnitFiles>,
    /// Number of the next manifest and version of files made for it. No number is tried twice: a manifest may be on
    /// disk even if writing it failed.
    pub next: u64,
    /// When the last checkpoint was written, in milliseconds since 1970.
    pub written_ms: u64,
    /// Where the logs ended at the start.
    pub read_to: (u64, u64),
    /// Tables that changed in the logs behind the manifest of the start.
    pub changed: BTreeSet<u32>,
    /// While this is above 0 no file is removed.
    pub pins: usize,
    /// When each table was last searched for expired rows, in milliseconds since 1970.
    expired_ms: BTreeMap<u32, u64>,
}

impl Upkeep {
    pub fn new(manifest: Manifest, read_to: (u64, u64), changed: BTreeSet<u32>) -> Self {
        let files = manifest.units.iter().map(|unit| ((unit.table, unit.unit), unit.files)).collect();
        let (next, expired_ms) = (manifest.number + 1, BTreeMap::new());
        Self { next, manifest, files, written_ms: 0, read_to, changed, pins: 0, expired_ms }
    }

    /// A number that no file has yet.
    pub fn take_number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }
}

/// The extent of an upkeep run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Due work only.
    Due,
    /// A checkpoint in any case.
    Checkpoint,
    /// Seal the log in any case.
    Seal,
}

impl Inner {
    /// Runs upkeep. Tables that could not be read completely at the start are left as they are on disk: once the files
    /// are repaired, the tables are whole again.
    pub fn maintain(&self, effort: Effort) -> Result<()> {
        let mut upkeep = lock(&self.upkeep);
        self.keep_reserve();
        self.keep_budget();
        self.note_found_damage();
        self.sync_once()?;
        if let Status::ReadOnly(_) = self.status() {
            return if effort == Effort::Due { Ok(()) } else { self.check_writable(true) };
        }
        self.expire_old_rows(&mut upkeep, effort);
        let done = self.work(&mut upkeep, effort);
        if let Err(error) = &done {
            if error.is_full() {
                self.enter_full();
            }
            self.remove_unfinished(&upkeep);
        }
        done
    }

    /// Runs `work` on each undamaged table. Damage that it meets affects only that table.
    pub fn each_whole_table(&self, mut work: impl FnMut(&Arc<SharedTable>) -> Result<bool>) -> Result<bool> {
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
        let emptied = self.drop_dead_units();
        let position = self.log_position();
        if position.1 >= self.options.seal_bytes || effort == Effort::Seal {
            self.rotate_log()?;
        }
        // Sealing takes long. If the process ends meanwhile, the next start has little log to read.
        let due = self.checkpoint_is_due(upkeep, position);
        if due {
            self.checkpoint(upkeep)?;
        }
        let mut full = None;
        let sealed = self.seal_frozen(upkeep);
        let sealed = self.past_full(upkeep, sealed, &mut full)?;
        let rewritten = self.compact(upkeep);
        let rewritten = self.past_full(upkeep, rewritten, &mut full)?;
        if emptied || sealed || rewritten || (effort != Effort::Due && !due) {
            self.checkpoint(upkeep)?;
        }
        full.map_or(Ok(()), Err)
    }

    /// Goes on after a step that found no space: the next steps may free some. A checkpoint is due then, since the
    /// step may have made changes.
    fn past_full(&self, upkeep: &Upkeep, done: Result<bool>, full: &mut Option<OplogError>) -> Result<bool> {
        match done {
            Err(error) if error.is_full() => {
                // Unfinished files take the space that a checkpoint needs.
                self.remove_unfinished(upkeep);
                full.get_or_insert(error);
                Ok(true)
            }
            done => done,
        }
    }

    fn checkpoint_is_due(&self, upkeep: &Upkeep, (log, bytes): (u64, u64)) -> bool {
        let (known_log, known_bytes) = upkeep.manifest.log;
        let waited = self.environment.clock.now_ms().saturating_sub(upkeep.written_ms);
        let idle = waited >= self.options.checkpoint_interval_ms && bytes > known_bytes;
        idle || log != known_log || self.log_is_long()
    }

    /// Whether the log behind the last checkpoint is longer than it should be.
    pub fn log_is_long(&self) -> bool {
        let Checkpointed { log: (known_log, known_bytes), step, .. } = *lock(&self.checkpointed);
        let (log, bytes) = self.log_position();
        let known = if log == known_log { known_bytes } else { 0 };
        bytes >= known.saturating_add(step)
    }

    /// Called now and then during long work, so that a start after a crash meanwhile has little log to read.
    pub fn keep_log_short(&self, upkeep: &mut Upkeep) -> Result<()> {
        if !self.log_is_long() {
            return Ok(());
        }
        // The pin keeps files that are just being written, because no manifest names them.
        upkeep.pins += 1;
        let done = self.checkpoint(upkeep);
        upkeep.pins = upkeep.pins.saturating_sub(1);
        done
    }

    fn log_position(&self) -> (u64, u64) {
        let committer = lock(&self.committer);
        (committer.log.number, committer.log.end)
    }

    fn rotate_log(&self) -> Result<()> {
        let mut committer = lock(&self.committer);
        // The store may have become read-only since this began.
        self.check_writable(true)?;
        committer.sync_if_needed(self)?;
        let end = committer.log.end;
        committer.rotate(self, end)
    }

    /// Removes expired rows. Searching takes time in each unit, therefore it runs a few times per lifetime of a row,
    /// not at each upkeep.
    fn expire_old_rows(&self, upkeep: &mut Upkeep, effort: Effort) {
        let now = self.environment.clock.now_ms();
        for table in self.all_tables() {
            let meta = table.meta();
            let Some(ttl) = meta.ttl_ms else { continue };
            let pause = (ttl / EXPIRY_CHECKS).min(EXPIRY_MS);
            let looked = upkeep.expired_ms.get(&meta.id);
            if effort == Effort::Due && looked.is_some_and(|looked| now.abs_diff(*looked) < pause) {
                continue;
            }
            upkeep.expired_ms.insert(meta.id, now);
            let before_ms = now.saturating_sub(ttl);
            let bound = lock(&self.committer).lsn_at(before_ms);
            if table.read().has_expired(bound) {
                self.submit(Request::Expire { table, before_ms });
            }
        }
    }
}
