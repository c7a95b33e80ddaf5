//! The catalog handle of a process: a store, and the snapshot that all readers share.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use nyala_model::{
    CatalogSnapshot, JobEntry, JobId, JobKind, NodeId, QualifiedName, QueryHistoryEntry, SnapshotVersion,
};
use tokio::sync::{Mutex, watch};
use tracing::Instrument;

use crate::change::{Change, Committed};
use crate::error::CatalogError;
use crate::sqlite::SqliteStore;
use crate::store::CatalogStore;

/// The catalog of one process; clones share everything.
///
/// Readers call [`snapshot`](Self::snapshot) and never wait. Writers wait for each other, so that the
/// published versions only grow.
#[derive(Debug, Clone)]
pub struct Catalog {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    store: Arc<dyn CatalogStore>,
    /// Written only by [`Shared::publish`].
    current: ArcSwap<CatalogSnapshot>,
    /// Set after `current`: a reader that sees a version here finds that snapshot or a newer one.
    versions: watch::Sender<SnapshotVersion>,
    /// Held from before a snapshot is made until it is published.
    turn: Mutex<()>,
}

impl Catalog {
    /// Reads the first snapshot from `store`.
    pub async fn open(store: Arc<dyn CatalogStore>) -> Result<Self, CatalogError> {
        let first = store.load().await?;
        let shared = Shared {
            store,
            versions: watch::Sender::new(first.version),
            current: ArcSwap::from_pointee(first),
            turn: Mutex::new(()),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Opens the catalog in the SQLite file `path`, which is created with its folder if missing.
    ///
    /// # Errors
    /// [`CatalogError::Open`], [`CatalogError::Corrupt`] or [`CatalogError::Newer`], each with the next
    /// step.
    pub async fn open_sqlite(path: &Path) -> Result<Self, CatalogError> {
        Self::open(Arc::new(SqliteStore::open(path).await?)).await
    }

    /// The current snapshot: an atomic load, without lock and without I/O. A query calls this once.
    pub fn snapshot(&self) -> Arc<CatalogSnapshot> {
        self.shared.current.load_full()
    }

    /// Makes one change in one transaction. When this returns, the change is durable and every later
    /// [`snapshot`](Self::snapshot) has it.
    ///
    /// Once begun it runs to its end, even if the caller stops waiting: a durable but unpublished
    /// change would leave readers in the past. Must be called within a tokio runtime.
    pub async fn commit(&self, change: Change) -> Result<Committed, CatalogError> {
        let shared = Arc::clone(&self.shared);
        let commit = async move { shared.commit(&change).await };
        tokio::spawn(commit.in_current_span()).await.map_err(|_| CatalogError::Interrupted)?
    }

    /// Publishes the commits of other processes since then, and returns the current snapshot. Reads one
    /// row when nothing has changed, so that it can be polled.
    pub async fn refresh(&self) -> Result<Arc<CatalogSnapshot>, CatalogError> {
        let _turn = self.shared.turn.lock().await;
        if self.shared.store.version().await? > self.snapshot().version {
            self.shared.publish(self.shared.store.load().await?);
        }
        Ok(self.snapshot())
    }

    /// Announces the version of every published snapshot, after [`snapshot`](Self::snapshot) has it.
    pub fn watch(&self) -> watch::Receiver<SnapshotVersion> {
        self.shared.versions.subscribe()
    }

    /// Adds a running job that started at `now_ms`, in milliseconds since the Unix epoch.
    pub async fn create_job(
        &self,
        kind: JobKind,
        cube: &QualifiedName,
        cuboids_total: u32,
        node: &NodeId,
        now_ms: u64,
    ) -> Result<JobId, CatalogError> {
        self.shared.store.create_job(kind, cube, cuboids_total, node, now_ms).await
    }

    /// Stores the state, progress, end and error of a job; its kind, cube and start stay.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] when there is no job with this id.
    pub async fn update_job(&self, job: &JobEntry) -> Result<(), CatalogError> {
        self.shared.store.update_job(job).await
    }

    /// Forgets all jobs that have ended but the `keep` newest.
    pub async fn forget_jobs(&self, keep: u32) -> Result<(), CatalogError> {
        self.shared.store.forget_jobs(keep).await
    }

    /// All jobs, newest first. Reads the store: jobs are not part of a snapshot.
    pub async fn jobs(&self) -> Result<Vec<JobEntry>, CatalogError> {
        self.shared.store.jobs().await
    }

    /// Stores entries of the query history, in place of those with the same id, and forgets all but
    /// the `keep` queries asked last.
    pub async fn record_queries(&self, entries: &[QueryHistoryEntry], keep: u32) -> Result<(), CatalogError> {
        self.shared.store.record_queries(entries, keep).await
    }

    /// The query history, last asked first. Reads the store: it is not part of a snapshot.
    pub async fn query_history(&self) -> Result<Vec<QueryHistoryEntry>, CatalogError> {
        self.shared.store.query_history().await
    }

    /// Writes a copy of everything, as of one moment, to a file that does not exist. Changes go on meanwhile.
    /// Returns the content of the copy.
    pub async fn copy_to(&self, path: &Path) -> Result<CatalogSnapshot, CatalogError> {
        self.shared.store.copy_to(path).await
    }

    /// Whether this catalog replaced a newer one, and the leftovers of that one are not cleared yet: then
    /// unknown folders may belong to the newer one.
    pub async fn restored(&self) -> Result<bool, CatalogError> {
        self.shared.store.restored().await
    }

    /// Records that the leftovers of a newer catalog are cleared.
    pub async fn forget_restored(&self) -> Result<(), CatalogError> {
        self.shared.store.forget_restored().await
    }
}

impl Shared {
    async fn commit(&self, change: &Change) -> Result<Committed, CatalogError> {
        let _turn = self.turn.lock().await;
        let base = self.current.load_full();
        let applied = self.store.apply(&base, change).await?;
        self.publish(applied.snapshot);
        Ok(Committed {
            snapshot: self.current.load_full(),
            segment: applied.segment,
            changed: applied.changed,
        })
    }

    /// The caller holds `turn`, so no other task replaces the snapshot in between.
    fn publish(&self, mut next: CatalogSnapshot) {
        let previous = self.current.load_full();
        if next.version <= previous.version {
            return;
        }
        share_equal(&previous.tables, &mut next.tables);
        share_equal(&previous.cubes, &mut next.cubes);
        let version = next.version;
        self.current.store(Arc::new(next));
        self.versions.send_replace(version);
        tracing::debug!(%version, "published catalog snapshot");
    }
}

/// Takes over the previous `Arc` of every equal entry, so that caches can compare pointers and a
/// reloaded snapshot costs no second copy.
fn share_equal<T: PartialEq>(
    previous: &BTreeMap<QualifiedName, Arc<T>>,
    next: &mut BTreeMap<QualifiedName, Arc<T>>,
) {
    for (name, entry) in next {
        match previous.get(name) {
            Some(same) if !Arc::ptr_eq(same, entry) && same == entry => *entry = Arc::clone(same),
            _ => {}
        }
    }
}
