//! The interface of a database that holds the catalog.

use std::fmt::Debug;
use std::path::Path;

use async_trait::async_trait;
use nyala_model::{
    CatalogSnapshot, JobEntry, JobId, JobKind, NodeId, QualifiedName, QueryHistoryEntry, SegmentId,
    SnapshotVersion,
};

use crate::change::Change;
use crate::error::CatalogError;

/// A durable home of the catalog. Several processes may share one.
///
/// An implementation loads snapshots and writes edits; rules that all implementations share check
/// the changes.
#[async_trait]
pub trait CatalogStore: Send + Sync + Debug {
    /// Reads everything, as of one transaction.
    async fn load(&self) -> Result<CatalogSnapshot, CatalogError>;

    /// The version [`load`](Self::load) would return now, without reading anything else.
    async fn version(&self) -> Result<SnapshotVersion, CatalogError>;

    /// Makes one change in one transaction that is durable when this returns. An error means that
    /// nothing was changed, with one exception: if the database fails during the commit, the outcome
    /// is unknown until the next call reads it.
    ///
    /// `base` is the caller's snapshot. It saves a full read if no other process has written since;
    /// the rules always see the stored catalog.
    async fn apply(&self, base: &CatalogSnapshot, change: &Change) -> Result<Applied, CatalogError>;

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

    /// Stores entries in place of those with the same id, and forgets all but the `keep` asked last, in one
    /// transaction. It touches no snapshot.
    async fn record_queries(&self, entries: &[QueryHistoryEntry], keep: u32) -> Result<(), CatalogError>;

    /// The whole history, the query asked last first.
    async fn query_history(&self) -> Result<Vec<QueryHistoryEntry>, CatalogError>;

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
