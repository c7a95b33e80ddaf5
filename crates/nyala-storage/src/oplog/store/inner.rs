//! The state shared by all parts of a store.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::commit::Committer;
use super::queue::{Pending, Queue, Request, Ticket, Unqueued, lock};
use super::upkeep::Upkeep;
use super::{Environment, Progress, StoreOptions};
use crate::oplog::error::{OplogError, Result};
use crate::oplog::meta::Durability;
use crate::oplog::table::SharedTable;
use crate::oplog::vfs::{Folder, VfsLock};

/// Whether a store takes writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    Writable,
    /// The disk is full: only statements that free space are accepted.
    Full,
    /// The store takes no writes until the next start, for this reason.
    ReadOnly(String),
}

#[derive(Debug)]
pub struct Inner {
    pub folder: Folder,
    pub store: [u8; 16],
    /// The seed of the hashes of keys.
    pub seed: u64,
    pub options: StoreOptions,
    pub environment: Environment,
    pub progress: Arc<Progress>,
    pub tables: RwLock<BTreeMap<u32, Arc<SharedTable>>>,
    pub queue: Queue,
    /// Held while statements are committed. Taken after `upkeep`, never before it.
    pub committer: Mutex<Committer>,
    /// Held during upkeep of the files.
    pub upkeep: Mutex<Upkeep>,
    pub status: Mutex<Status>,
    pub checkpointed: Mutex<Checkpointed>,
    /// LSN of the last change that readers see.
    pub lsn: AtomicU64,
    /// LSN of the last change that is on disk.
    pub durable_lsn: AtomicU64,
    /// The lock of the folder. Closing the store gives it back, even if a caller still holds one of the store's tables.
    pub lock: Mutex<Option<Box<dyn VfsLock>>>,
}

/// The position of the newest manifest.
#[derive(Debug, Clone, Copy)]
pub struct Checkpointed {
    /// The last LSN that the manifest includes.
    pub lsn: u64,
    /// The log and the offset of that LSN.
    pub log: (u64, u64),
    /// Bytes of log after which the next checkpoint is due.
    pub step: u64,
}

impl Inner {
    pub fn all_tables(&self) -> Vec<Arc<SharedTable>> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    pub fn table_named(&self, name: &str) -> Option<Arc<SharedTable>> {
        self.all_tables().into_iter().find(|table| table.meta().name == name)
    }

    pub fn add_table(&self, id: u32, table: SharedTable) {
        self.tables.write().unwrap_or_else(PoisonError::into_inner).insert(id, Arc::new(table));
    }

    pub fn remove_table(&self, id: u32) {
        self.tables.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }

    /// Whether this table still belongs to the store.
    pub fn check_there(&self, table: &Arc<SharedTable>) -> Result<()> {
        let meta = table.meta();
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        match tables.get(&meta.id) {
            Some(known) if Arc::ptr_eq(known, table) => Ok(()),
            _ => Err(OplogError::NoTable { table: meta.name.clone() }),
        }
    }

    pub fn last_lsn(&self) -> u64 {
        self.lsn.load(Relaxed)
    }

    pub fn status(&self) -> Status {
        lock(&self.status).clone()
    }

    /// Goes over to another status; gives whether it changed. A read-only status holds until the next start, even if
    /// another thread sets a status meanwhile: LSNs that may be on disk must not be given again.
    pub fn set_status(&self, status: Status) -> bool {
        let mut current = lock(&self.status);
        if matches!(*current, Status::ReadOnly(_)) || *current == status {
            return false;
        }
        *current = status;
        true
    }

    /// The reason why a write is refused now, if it is.
    pub fn check_writable(&self, frees_space: bool) -> Result<()> {
        let folder = self.folder.path().to_owned();
        match self.status() {
            Status::Full if !frees_space => Err(OplogError::DiskFull { folder }),
            Status::ReadOnly(reason) => Err(OplogError::ReadOnly { folder, reason }),
            _ => Ok(()),
        }
    }

    /// Hands a statement to the committer; waits while too many bytes are waiting already.
    pub fn submit(&self, request: Request) -> Ticket {
        let (ticket, promise) = Ticket::new();
        let refused = self.queue.push(Pending { request, promise }, self.options.queue_bytes);
        self.submitted(refused);
        ticket
    }

    /// Hands a statement to the committer; none if that would have to wait.
    pub fn try_submit(&self, request: Request) -> Option<Ticket> {
        let (ticket, promise) = Ticket::new();
        match self.queue.try_push(Pending { request, promise }, self.options.queue_bytes) {
            Ok(()) => self.submitted(None),
            Err(Unqueued::Closed(pending)) => self.submitted(Some(*pending)),
            Err(Unqueued::Full) => return None,
        }
        Some(ticket)
    }

    /// Refuses a statement that the closed queue does not take; a store without threads commits the queued statements
    /// now.
    fn submitted(&self, refused: Option<Pending>) {
        if let Some(Pending { promise, .. }) = refused {
            promise.complete(Err(OplogError::Closed { folder: self.folder.path().to_owned() }));
        } else if !self.options.background {
            self.commit_waiting();
        }
    }

    /// Syncs the log if there are tables with interval durability.
    pub fn sync_if_due(&self) -> Result<()> {
        let interval = |table: &Arc<SharedTable>| table.meta().durability == Durability::Interval;
        if self.all_tables().iter().any(interval) { self.sync_once() } else { Ok(()) }
    }

    /// Syncs the log, unless a sync failed before: the store's own threads cannot do more about it. A caller that
    /// needs the error calls [`Committer::sync_if_needed`].
    pub fn sync_once(&self) -> Result<()> {
        let mut committer = lock(&self.committer);
        if committer.log.has_failed() { Ok(()) } else { committer.sync_if_needed(self) }
    }

    /// Commits all waiting statements.
    pub fn commit_waiting(&self) {
        let mut committer = lock(&self.committer);
        let pending = self.queue.take();
        committer.commit(self, pending);
    }
}
