//! Where segments are recorded, kept and deleted.

use std::sync::Arc;
use std::time::Duration;

use nyala_catalog::{Catalog, CatalogError, Change, Committed, Permit};
use nyala_model::NodeId;
use nyala_storage::SegmentStore;

use super::background::Background;
use super::leftovers::Readers;

/// The catalog, store and node that the segments of a cube belong to.
#[derive(Debug, Clone)]
pub struct SegmentHome {
    /// The catalog that records the segments.
    pub catalog: Arc<Catalog>,
    /// The store that has their files.
    pub store: SegmentStore,
    /// Runs work that outlives its statement, such as the deletion of files.
    pub background: Background,
    /// This node.
    pub node: NodeId,
    /// The right to build the cube. A job that makes segments needs it, and the catalog refuses commits after it has
    /// ended.
    pub permit: Option<Permit>,
    /// Statements that may still read replaced files.
    pub readers: Arc<dyn Readers>,
    /// How long replaced files stay at least: [`RETIREMENT`](super::RETIREMENT).
    pub retirement: Duration,
}

impl SegmentHome {
    /// Makes a change under the lease, if there is one.
    pub async fn commit(&self, change: Change) -> std::result::Result<Committed, CatalogError> {
        self.catalog.commit_under(self.permit.as_ref().map_or(&[], Permit::fences), change).await
    }
}
