//! The catalog handle of a process: a store, and the snapshot that all readers share.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use nyala_model::{
    CatalogSnapshot, JobEntry, JobId, JobKind, LeaseEntry, NodeEntry, NodeId, QualifiedName,
    QueryHistoryEntry, SnapshotVersion,
};
use tokio::sync::{Mutex, watch};
use tracing::Instrument;

use crate::change::{Change, Committed};
use crate::error::CatalogError;
use crate::lease::{Fence, Lease};
use crate::postgres::PostgresStore;
use crate::sqlite::SqliteStore;
use crate::store::CatalogStore;

/// The catalog of one process; clones share everything.
///
/// Readers call [`snapshot`](Self::snapshot) and never wait. Writers wait for each other, so that the
/// published versions only grow, unless a shared database goes back to an older state.
#[derive(Debug, Clone)]
pub struct Catalog {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    store: Arc<dyn CatalogStore>,
    /// Written only by [`Shared::publish`].
    current: ArcSwap<CatalogSnapshot>,
    /// Set after `current`: a reader that sees a version here finds that snapshot or one that was published later.
    versions: watch::Sender<SnapshotVersion>,
    /// The lock of writers, held from before a snapshot is made until it is published.
    turn: Mutex<()>,
    /// The leases that this process holds.
    leases: Mutex<BTreeMap<(String, NodeId), Weak<Lease>>>,
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
            leases: Mutex::default(),
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

    /// Opens the catalog in the PostgreSQL database of `url`, whose tables are made if they are missing.
    ///
    /// # Errors
    /// [`CatalogError::Url`], [`CatalogError::Unreachable`], [`CatalogError::Corrupt`] or [`CatalogError::Newer`], each
    /// with the next step.
    pub async fn open_postgres(url: &str) -> Result<Self, CatalogError> {
        Self::open(Arc::new(PostgresStore::open(url).await?)).await
    }

    /// Whether nodes on other machines may have the catalog open, too.
    pub fn is_shared(&self) -> bool {
        self.shared.store.is_shared()
    }

    /// Name of the cluster, which all nodes with this catalog share; none if the catalog serves one node.
    pub async fn cluster(&self) -> Result<Option<NodeId>, CatalogError> {
        self.shared.store.cluster().await
    }

    /// Records where all nodes store cuboids, unless a place is recorded already, and returns the recorded
    /// one. An empty text means the data folder.
    pub async fn agree_on_place(&self, place: &str) -> Result<String, CatalogError> {
        self.shared.store.agree_on_place(place).await
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
        self.commit_under(&[], change).await
    }

    /// As [`commit`](Self::commit), if the leases of all `fences` are still held under their tokens.
    ///
    /// # Errors
    /// [`CatalogError::LeaseLost`] if a lease has ended, or was taken again.
    pub async fn commit_under(&self, fences: &[Fence], change: Change) -> Result<Committed, CatalogError> {
        let (shared, fences) = (Arc::clone(&self.shared), fences.to_vec());
        let commit = async move { shared.commit(&change, &fences).await };
        tokio::spawn(commit.in_current_span()).await.map_err(|_| CatalogError::Interrupted)?
    }

    /// Takes a lease for `node`; none if another node holds it. Calls in this process share the lease, and it is renewed until
    /// the last of them has dropped it.
    pub async fn take_lease(&self, name: &str, node: &NodeId) -> Result<Option<Arc<Lease>>, CatalogError> {
        let mut leases = self.shared.leases.lock().await;
        let key = (name.to_owned(), node.clone());
        let held = leases.get(&key).and_then(Weak::upgrade).filter(|lease| lease.is_held());
        if held.is_some() {
            return Ok(held);
        }
        leases.retain(|_, lease| lease.strong_count() > 0);
        let taken = Lease::take(&self.shared.store, name, node).await?.map(Arc::new);
        if let Some(taken) = &taken {
            leases.insert(key, Arc::downgrade(taken));
        }
        Ok(taken)
    }

    /// The leases that are held, by name.
    pub async fn leases(&self) -> Result<Vec<LeaseEntry>, CatalogError> {
        self.shared.store.leases().await
    }

    /// Records that this node is alive, and returns all nodes that were alive within the last `forget`, this one included.
    ///
    /// # Errors
    /// [`CatalogError::NodeTaken`] if another process runs as this node.
    pub async fn beat(&self, node: &NodeEntry, forget: Duration) -> Result<Vec<NodeEntry>, CatalogError> {
        self.shared.store.beat(node, forget).await
    }

    /// Removes the record of a node that stops, if the process that started at `started_at_ms` has written it.
    pub async fn leave(&self, node: &NodeId, started_at_ms: u64) -> Result<(), CatalogError> {
        self.shared.store.leave(node, started_at_ms).await
    }

    /// Returns when another process may have made a change; never if that cannot be known.
    pub async fn changed(&self) {
        self.shared.store.changed().await;
    }

    /// Publishes the commits that other processes made since the current snapshot, and returns the newest one. Reads one row when
    /// nothing has changed, so that it can be polled. If a shared database went back to an older state, that state is published.
    pub async fn refresh(&self) -> Result<Arc<CatalogSnapshot>, CatalogError> {
        let _turn = self.shared.turn.lock().await;
        let known = self.snapshot();
        if !self.shared.store.is_newest(&known).await? {
            self.shared.publish(self.shared.store.load_after(&known).await?);
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

    /// Stores entries of the query history of a node, in place of those with the same id, and forgets all but
    /// the `keep` queries that the node was asked last.
    pub async fn record_queries(
        &self,
        node: &NodeId,
        entries: &[QueryHistoryEntry],
        keep: u32,
    ) -> Result<(), CatalogError> {
        self.shared.store.record_queries(node, entries, keep).await
    }

    /// The query history of a node, last asked first. Reads the store: it is not part of a snapshot.
    pub async fn query_history(&self, node: &NodeId) -> Result<Vec<QueryHistoryEntry>, CatalogError> {
        self.shared.store.query_history(node).await
    }

    /// The query histories of all other nodes, an entry for each node and query.
    pub async fn history_of_others(&self, node: &NodeId) -> Result<Vec<QueryHistoryEntry>, CatalogError> {
        self.shared.store.history_of_others(node).await
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
    async fn commit(&self, change: &Change, fences: &[Fence]) -> Result<Committed, CatalogError> {
        let _turn = self.turn.lock().await;
        let base = self.current.load_full();
        let applied = self.store.apply(&base, change, fences).await?;
        self.publish(applied.snapshot);
        Ok(Committed {
            snapshot: self.current.load_full(),
            segment: applied.segment,
            changed: applied.changed,
        })
    }

    /// The caller holds `turn`, so no other task replaces the snapshot in between. `next` replaces it even if
    /// its version is lower: see [`CatalogStore::load_after`].
    fn publish(&self, mut next: CatalogSnapshot) {
        let previous = self.current.load_full();
        if next.is_same_version(&previous) {
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
