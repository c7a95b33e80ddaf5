//! The caches of other nodes, asked for blocks that this one lacks.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_model::{Homes, NodeEntry, PART_BYTES, PlacedFile};
use nyala_storage::object::cache::{Neighbours, WantedBlocks};

use super::elsewhere::OtherNodes;
use super::membership::Nodes;

/// How long another node may take: a store takes about as long.
const PATIENCE: Duration = Duration::from_millis(100);

/// Asks one node: that which would be the home of the blocks if this one were not there. Of a node that has just come it is the
/// home of before, and of one that reads nothing but footers, the home.
#[derive(Debug)]
pub struct NodeCaches {
    /// They know the cache, which knows this.
    nodes: Weak<Nodes>,
    elsewhere: Arc<dyn OtherNodes>,
}

impl NodeCaches {
    pub fn new(nodes: &Arc<Nodes>, elsewhere: Arc<dyn OtherNodes>) -> Self {
        Self { nodes: Arc::downgrade(nodes), elsewhere }
    }

    fn home(&self, wanted: &WantedBlocks) -> Option<NodeEntry> {
        let nodes = self.nodes.upgrade()?;
        let mut others = nodes.executors();
        others.retain(|node| !nodes.is_own(&node.id));
        let part = wanted.numbers.start.saturating_mul(wanted.block_bytes) / PART_BYTES;
        let home = Homes::among(others.iter().map(|node| &node.id)).of(PlacedFile::new(&wanted.url), part)?;
        (home < others.len()).then(|| others.swap_remove(home))
    }
}

impl Neighbours for NodeCaches {
    fn blocks(&self, wanted: WantedBlocks) -> BoxFuture<'_, Vec<(u64, Bytes)>> {
        async move {
            let Some(home) = self.home(&wanted) else { return Vec::new() };
            let asked = tokio::time::timeout(PATIENCE, self.elsewhere.blocks(&home, &wanted)).await;
            // A node that does not answer is no reason to fail: the store has the blocks.
            asked.ok().and_then(Result::ok).unwrap_or_default()
        }
        .boxed()
    }
}
