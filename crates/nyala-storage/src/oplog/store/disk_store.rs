//! A disk store, for those who use it.

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

/// A folder of live tables, open. Dropping it commits what is queued and ends its threads; [`Self::close`]
/// writes a checkpoint too, so that the next start has no log to read.
#[derive(Debug)]
pub struct DiskStore {
    pub(super) threads: Option<Threads>,
    pub(in crate::oplog) inner: Arc<Inner>,
    pub(super) report: StoreReport,
}

/// What was found at a start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreReport {
    /// The end of the log that was cut, if it was not whole. Nobody was told that what was in it is durable.
    pub torn: Option<TornTail>,
    /// What is not as it was written, and what is not served therefore.
    pub damage: Vec<Damage>,
}

impl DiskStore {
    /// Opens a store, or makes one in a folder that is missing or empty. When it returns, all keys are known:
    /// rows can be counted, looked up, written and scanned; values follow.
    pub fn open(folder: &Path, options: StoreOptions, environment: Environment) -> Result<Self> {
        Self::open_watched(folder, options, environment, Arc::default())
    }

    /// The same, with counters that tell others how far it is.
    pub fn open_watched(
        folder: &Path,
        options: StoreOptions,
        environment: Environment,
        progress: Arc<Progress>,
    ) -> Result<Self> {
        super::open::open(folder, options, environment, progress)
    }

    /// What was found at the start.
    pub fn report(&self) -> &StoreReport {
        &self.report
    }

    /// How far the start has come.
    pub fn progress(&self) -> &Arc<Progress> {
        &self.inner.progress
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.inner.folder.path()
    }

    /// LSN of the last change.
    pub fn lsn(&self) -> u64 {
        self.inner.last_lsn()
    }

    /// Why it takes no writes, if it takes none.
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

    /// Does what is due: seals, rewrites, checkpoints. A store with threads does it by itself.
    pub fn maintain(&self) -> Result<()> {
        self.inner.maintain(Effort::Due)
    }

    /// Writes a checkpoint now.
    pub fn checkpoint(&self) -> Result<()> {
        self.inner.maintain(Effort::Checkpoint)
    }

    /// Seals what is in the log now.
    pub fn seal(&self) -> Result<()> {
        self.inner.maintain(Effort::Seal)
    }

    /// Reads all values into memory now.
    pub fn load_values(&self) {
        self.inner.load_all(true);
    }

    /// Commits what is queued, seals the log, writes a checkpoint, and closes the store. Who still holds one of its tables can
    /// read on.
    pub fn close(mut self) -> Result<()> {
        self.stop();
        match self.inner.maintain(Effort::Seal) {
            // What was acknowledged is in the log, and on disk unless that failed.
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
