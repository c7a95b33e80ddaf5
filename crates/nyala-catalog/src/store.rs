//! The interface of a database that holds the catalog.

use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use nyala_model::{
    CatalogSnapshot, JobEntry, JobId, JobKind, LeaseEntry, NodeEntry, NodeId, QualifiedName,
    QueryHistoryEntry, SegmentId,
};

use crate::change::Change;
use crate::error::CatalogError;
use crate::lease::{Fence, LeaseToken};

/// A durable home of the catalog. Several processes may share one.
///
/// An implementation loads snapshots and writes edits; rules that all implementations share check
/// the changes.
#[async_trait]
pub trait CatalogStore: Send + Sync + Debug {
    /// Reads everything, as of one transaction.
    async fn load(&self) -> Result<CatalogSnapshot, CatalogError>;

    /// Whether [`load`](Self::load) would return `known` now. Reads the newest change, and no entries.
    async fn is_newest(&self, known: &CatalogSnapshot) -> Result<bool, CatalogError>;

    /// The catalog as it is now, made from `known` if this costs less than reading everything. Its version may be lower: a
    /// shared database may go back to an older state.
    async fn load_after(&self, known: &CatalogSnapshot) -> Result<CatalogSnapshot, CatalogError>;

    /// Returns when another process may have made a change, or never if that cannot be known.
    async fn changed(&self);

    /// Whether nodes on other machines may have the catalog open, too.
    fn is_shared(&self) -> bool;

    /// Name of the cluster, which all nodes with this catalog share; none if no other node can have the catalog open.
    async fn cluster(&self) -> Result<Option<NodeId>, CatalogError>;

    /// Records where all nodes store cuboids, unless a place is recorded already, and returns the recorded
    /// one. An empty text means the data folder. A store of one node returns `place`.
    async fn agree_on_place(&self, place: &str) -> Result<String, CatalogError>;

    /// Makes one change in one transaction that is durable when this returns. An error means that
    /// nothing was changed, with one exception: if the database fails during the commit, the outcome
    /// is unknown until the next call reads it.
    ///
    /// `base` is the caller's snapshot. It saves a full read if no other process has written since;
    /// the rules always see the stored catalog.
    ///
    /// The change is refused if the lease of one of `fences` has ended, or was taken again.
    async fn apply(
        &self,
        base: &CatalogSnapshot,
        change: &Change,
        fences: &[Fence],
    ) -> Result<Applied, CatalogError>;

    /// Adds a running job. It touches no snapshot.
    async fn create_job(
        &self,
        kind: JobKind,
        cube: &QualifiedName,
        cuboids_total: u32,
        node: &NodeId,
        now_ms: u64,
    ) -> Result<JobId, CatalogError>;

    /// Stores the state, progress, end and error of a job; its kind, cube and start stay.
    async fn update_job(&self, job: &JobEntry) -> Result<(), CatalogError>;

    /// Forgets all jobs that have ended but the `keep` newest. Ids are not given again.
    async fn forget_jobs(&self, keep: u32) -> Result<(), CatalogError>;

    /// All jobs, newest first.
    async fn jobs(&self) -> Result<Vec<JobEntry>, CatalogError>;

    /// Stores entries of a node in place of its entries with the same id, and forgets all but the `keep` that the node
    /// was asked last, in one transaction. It touches no snapshot.
    async fn record_queries(
        &self,
        node: &NodeId,
        entries: &[QueryHistoryEntry],
        keep: u32,
    ) -> Result<(), CatalogError>;

    /// The history of a node, the query that it was asked last first.
    async fn query_history(&self, node: &NodeId) -> Result<Vec<QueryHistoryEntry>, CatalogError>;

    /// The histories of all other nodes, an entry for each node and query.
    async fn history_of_others(&self, node: &NodeId) -> Result<Vec<QueryHistoryEntry>, CatalogError>;

    /// Takes a lease for this long, unless another node holds it. If the node itself holds it, it gets another token, and
    /// changes under the former one are refused.
    async fn take_lease(
        &self,
        name: &str,
        owner: &NodeId,
        hold: Duration,
    ) -> Result<Option<LeaseToken>, CatalogError>;

    /// Extends a lease to this long from now. False if it is no longer held under this token, or has ended.
    async fn renew_lease(&self, name: &str, token: LeaseToken, hold: Duration) -> Result<bool, CatalogError>;

    /// Gives a lease back, if it is still held under this token.
    async fn release_lease(&self, name: &str, token: LeaseToken) -> Result<(), CatalogError>;

    /// The leases that are held, by name.
    async fn leases(&self) -> Result<Vec<LeaseEntry>, CatalogError>;

    /// Records that this node is alive, and returns all nodes that were alive within the last `forget`, this
    /// one included. A store of one node returns the node itself.
    ///
    /// # Errors
    /// [`CatalogError::NodeTaken`] if the record of this node is of a process that started later. The record
    /// of a process that started earlier is replaced at once: the node was started again.
    async fn beat(&self, node: &NodeEntry, forget: Duration) -> Result<Vec<NodeEntry>, CatalogError>;

    /// Removes the record of a node that stops, if the process that started at `started_at_ms` has written it.
    async fn leave(&self, node: &NodeId, started_at_ms: u64) -> Result<(), CatalogError>;

    /// Writes everything, as of one transaction, to a file that does not exist. Writers go on meanwhile.
    /// Returns the content of the copy.
    async fn copy_to(&self, path: &Path) -> Result<CatalogSnapshot, CatalogError>;

    /// Whether this catalog replaced a newer one, and the leftovers of that one are not cleared yet.
    async fn restored(&self) -> Result<bool, CatalogError>;

    /// Records that the leftovers of a newer catalog are cleared.
    async fn forget_restored(&self) -> Result<(), CatalogError>;
}

/// The outcome of a change in a store.
#[derive(Debug, Clone)]
pub struct Applied {
    /// Everything as of the end of the transaction.
    pub snapshot: CatalogSnapshot,
    /// The segment that [`Change::BeginSegment`] added.
    pub segment: Option<SegmentId>,
    /// Whether there was anything to do.
    pub changed: bool,
}
