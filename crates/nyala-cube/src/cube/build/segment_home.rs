//! Where segments are recorded, kept and deleted.

use std::sync::Arc;
use std::time::Duration;

use nyala_catalog::{Catalog, CatalogError, Change, Committed, Permit};
use nyala_model::NodeId;
use nyala_storage::SegmentStore;

use super::background::Background;
use super::leftovers::Readers;

/// Where segments are recorded, kept and deleted.
#[derive(Debug, Clone)]
pub struct SegmentHome {
    /// Where they are recorded.
    pub catalog: Arc<Catalog>,
    /// Where their files lie.
    pub store: SegmentStore,
    /// Runs work that outlives its statement, such as the deletion of files.
    pub background: Background,
    /// This node.
    pub node: NodeId,
    /// The right to build the cube, for those who make its segments: what this node commits after the right has ended
    /// is refused.
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
