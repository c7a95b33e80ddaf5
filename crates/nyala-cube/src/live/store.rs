//! One disk store of this process: opened by a thread of its own, closed when the engine stops.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nyala_model::{DiskStoreEntry, NodeId};
use nyala_sql::error::{ErrorKind, Owner, QueryError, Result};
use nyala_storage::oplog::{DiskStore, Environment, MemoryBudget, Progress, StoreOptions};
use tokio::sync::watch;

use super::options::store_options;

/// How often a store that is being closed is checked for its last reader.
const LAST_READER_POLL: Duration = Duration::from_millis(5);
/// How long a close waits for readers. A store that is not closed in order is recovered at the next start.
const LAST_READER_WAIT: Duration = Duration::from_secs(2);

/// A disk store of this process, open or still being opened. Statements wait for the stores of their own tables only.
#[derive(Debug)]
pub struct OpenStore {
    entry: Arc<DiskStoreEntry>,
    folder: PathBuf,
    progress: Arc<Progress>,
    state: watch::Sender<StoreState>,
    begun: Instant,
    opened: OnceLock<OpenedAt>,
}

/// State of a store at the time when this process opened it.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenedAt {
    /// LSN of its last change.
    pub lsn: u64,
    /// Time of the opening, in milliseconds since 1970.
    pub at_ms: u64,
}

/// State of a disk store.
#[derive(Debug, Clone)]
pub enum StoreState {
    /// Keys are being read.
    Opening,
    /// The store serves statements; opening it took this long.
    Open(Arc<DiskStore>, Duration),
    /// The store cannot be opened.
    Failed(QueryError),
    /// The engine is stopping, or the store was dropped.
    Closed,
}

impl OpenStore {
    /// Starts to open a store on a thread of its own, and returns at once.
    pub(super) fn start(
        entry: Arc<DiskStoreEntry>,
        data_dir: &Path,
        budget: Option<Arc<MemoryBudget>>,
    ) -> Arc<Self> {
        let store = Arc::new(Self::new(entry, data_dir));
        let opening = Arc::clone(&store);
        let thread = std::thread::Builder::new().name("nyala-recover".to_owned());
        let spawned = thread.spawn(move || opening.open(budget));
        if let Err(error) = spawned {
            let error = QueryError::new(
                ErrorKind::ResourcesExhausted,
                format!("cannot start a thread to open disk store `{}`: {error}", store.name()),
            );
            store.state.send_replace(StoreState::Failed(error));
        }
        store
    }

    /// A store that another node opens. Opened here, it would be an empty folder.
    pub fn elsewhere(entry: Arc<DiskStoreEntry>, data_dir: &Path, here: &NodeId) -> Arc<Self> {
        let message =
            format!("disk store `{}` is of node `{}`, and this is node `{here}`", entry.name, entry.node);
        let error = QueryError::new(ErrorKind::Unreadable, message)
            .hint("ask that node; if this data folder took its place, restore the file `node` there");
        let owner = Some(Box::new(Owner { node: entry.node.clone(), optional: false }));
        let state = StoreState::Failed(QueryError { owner, ..error });
        Arc::new(Self { state: watch::Sender::new(state), ..Self::new(entry, data_dir) })
    }

    fn new(entry: Arc<DiskStoreEntry>, data_dir: &Path) -> Self {
        Self {
            folder: data_dir.join(&entry.folder),
            progress: Arc::default(),
            state: watch::Sender::new(StoreState::Opening),
            begun: Instant::now(),
            opened: OnceLock::new(),
            entry,
        }
    }

    /// The node that opens the store.
    pub fn node(&self) -> &NodeId {
        &self.entry.node
    }

    /// Opens the store. Runs on a thread of its own, since it blocks until all keys are known.
    fn open(&self, budget: Option<Arc<MemoryBudget>>) {
        let opened = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let options = StoreOptions { holder: holder(), ..store_options(&self.entry.options)? };
            let environment = Environment { budget, ..Environment::default() };
            let progress = Arc::clone(&self.progress);
            Ok(DiskStore::open_watched(&self.folder, options, environment, progress)?)
        }));
        let opened = opened.unwrap_or_else(|_| Err(QueryError::internal("opening a disk store failed")));
        let took = self.begun.elapsed();
        let state = match opened {
            Ok(store) => {
                self.report(&store, took);
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let at_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
                self.opened.get_or_init(|| OpenedAt { lsn: store.lsn(), at_ms });
                StoreState::Open(Arc::new(store), took)
            }
            Err(error) => {
                tracing::error!(store = %self.name(), %error, "a disk store cannot be opened");
                StoreState::Failed(error)
            }
        };
        // A store that was closed in the meantime stays closed; the newly opened one is dropped here.
        self.state.send_if_modified(|current| {
            let awaited = matches!(current, StoreState::Opening);
            if awaited {
                *current = state;
            }
            awaited
        });
    }

    fn report(&self, store: &DiskStore, took: Duration) {
        let report = store.report();
        let rows = self.progress.report().rows;
        tracing::info!(store = %self.name(), rows, ms = took.as_millis(), "disk store is open");
        if let Some(torn) = &report.torn {
            tracing::warn!(store = %self.name(), ?torn, "the end of a log was not whole and was cut");
        }
        for damage in &report.damage {
            tracing::error!(store = %self.name(), %damage, "a file of a disk store is damaged");
        }
    }

    /// Name of the store.
    pub fn name(&self) -> &str {
        &self.entry.name
    }

    /// Folder of the store.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The state when the store was opened, if it has been opened.
    pub fn opened_at(&self) -> Option<OpenedAt> {
        self.opened.get().copied()
    }

    /// Progress of the recovery.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Time since opening began.
    pub fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    /// The present state.
    pub fn state(&self) -> StoreState {
        self.state.borrow().clone()
    }

    /// The store, if it is open now.
    pub fn ready(&self) -> Result<Option<Arc<DiskStore>>> {
        match &*self.state.borrow() {
            StoreState::Opening => Ok(None),
            StoreState::Open(store, _) => Ok(Some(Arc::clone(store))),
            StoreState::Failed(error) => Err(error.clone()),
            StoreState::Closed => Err(self.closed()),
        }
    }

    /// The store, as soon as it is open.
    pub async fn opened(&self) -> Result<Arc<DiskStore>> {
        let mut states = self.state.subscribe();
        let settled = states.wait_for(|state| !matches!(state, StoreState::Opening)).await;
        drop(settled.map_err(|_| self.closed())?);
        self.ready()?.ok_or_else(|| self.closed())
    }

    fn closed(&self) -> QueryError {
        QueryError::new(ErrorKind::ShuttingDown, format!("disk store `{}` is closed", self.name()))
    }

    /// Closes the store in order, so that the next start has no log to read. It blocks.
    pub(super) fn close(&self) {
        let StoreState::Open(mut store, _) = self.state.send_replace(StoreState::Closed) else { return };
        let end = Instant::now() + LAST_READER_WAIT;
        loop {
            store = match Arc::try_unwrap(store) {
                Ok(store) => {
                    if let Err(error) = store.close() {
                        tracing::error!(store = %self.name(), %error, "a disk store was not closed in order");
                    }
                    return;
                }
                Err(_) if Instant::now() > end => {
                    tracing::warn!(store = %self.name(), "a disk store is still read from and is left as it is");
                    return;
                }
                Err(shared) => shared,
            };
            std::thread::sleep(LAST_READER_POLL);
        }
    }
}

fn holder() -> String {
    format!("process {}", std::process::id())
}
