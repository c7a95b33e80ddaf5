//! The public interface of a disk store.

use std::path::Path;
use std::sync::Arc;

use super::inner::Inner;
use super::queue::{Request, lock};
use super::replay::TornTail;
use super::threads::Threads;
use super::upkeep::Effort;
use super::{Environment, LiveTable, Progress, StoreOptions};
use crate::oplog::error::{Damage, OplogError, Result};
use crate::oplog::meta::TableSpec;

/// A folder of live tables, open. Dropping it commits queued statements and ends its threads; [`Self::close`] writes a
/// checkpoint too, so that the next start has no log to read.
#[derive(Debug)]
pub struct DiskStore {
    pub(super) threads: Option<Threads>,
    pub(in crate::oplog) inner: Arc<Inner>,
    pub(super) report: StoreReport,
}

/// The findings of a start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreReport {
    /// The end of the log that was cut, if it was not whole. No statement in it was confirmed as durable.
    pub torn: Option<TornTail>,
    /// Damaged places, and the rows that are not served because of them.
    pub damage: Vec<Damage>,
}

impl DiskStore {
    /// Opens a store, or makes one in a folder that is missing or empty. When it returns, all keys are known:
    /// rows can be counted, looked up, written and scanned; values follow.
    pub fn open(folder: &Path, options: StoreOptions, environment: Environment) -> Result<Self> {
        Self::open_watched(folder, options, environment, Arc::default())
    }

    /// Opens a store like [`Self::open`], with counters that show the progress of the start.
    pub fn open_watched(
        folder: &Path,
        options: StoreOptions,
        environment: Environment,
        progress: Arc<Progress>,
    ) -> Result<Self> {
        super::open::open(folder, options, environment, progress)
    }

    /// The findings of the start.
    pub fn report(&self) -> &StoreReport {
        &self.report
    }

    /// How far the start has come.
    pub fn progress(&self) -> &Arc<Progress> {
        &self.inner.progress
    }

    /// The store's folder.
    pub fn folder(&self) -> &Path {
        self.inner.folder.path()
    }

    /// LSN of the last change.
    pub fn lsn(&self) -> u64 {
        self.inner.last_lsn()
    }

    /// The reason why the store takes no writes, if it takes none.
    pub fn check_writable(&self) -> Result<()> {
        self.inner.check_writable(false)
    }

    /// Makes a table.
    pub fn create_table(&self, spec: TableSpec) -> Result<LiveTable> {
        let name = spec.name.clone();
        self.inner.submit(Request::Create { spec }).wait()?;
        self.table(&name)
    }

    /// The table of this name.
    pub fn table(&self, name: &str) -> Result<LiveTable> {
        let missing = || OplogError::NoTable { table: name.to_owned() };
        let shared = self.inner.table_named(name).ok_or_else(missing)?;
        Ok(LiveTable { inner: self.inner.clone(), shared })
    }

    /// All tables.
    pub fn tables(&self) -> Vec<LiveTable> {
        let handle = |shared| LiveTable { inner: self.inner.clone(), shared };
        self.inner.all_tables().into_iter().map(handle).collect()
    }

    /// Runs due upkeep: seals, rewrites, checkpoints. A store with threads does it by itself.
    pub fn maintain(&self) -> Result<()> {
        self.inner.maintain(Effort::Due)
    }

    /// Writes a checkpoint now.
    pub fn checkpoint(&self) -> Result<()> {
        self.inner.maintain(Effort::Checkpoint)
    }

    /// Seals the rows in the log now.
    pub fn seal(&self) -> Result<()> {
        self.inner.maintain(Effort::Seal)
    }

    /// Reads all values into memory now.
    pub fn load_values(&self) {
        self.inner.load_all(true);
    }

    /// Commits queued statements, seals the log, writes a checkpoint, and closes the store. Holders of its tables can
    /// read on.
    pub fn close(mut self) -> Result<()> {
        self.stop();
        match self.inner.maintain(Effort::Seal) {
            // Acknowledged statements are in the log, and on disk unless that failed.
            Err(OplogError::Damaged(_) | OplogError::ReadOnly { .. }) => {
                lock(&self.inner.committer).sync_if_needed(&self.inner)
            }
            done => done,
        }
    }

    fn stop(&mut self) {
        self.inner.queue.close();
        drop(self.threads.take());
    }
}

impl Drop for DiskStore {
    fn drop(&mut self) {
        self.stop();
        if let Some(budget) = &self.inner.environment.budget {
            budget.forget(&self.inner.store);
        }
        drop(lock(&self.inner.lock).take());
    }
}
