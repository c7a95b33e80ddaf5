//! The caches of other nodes, asked for blocks that this one lacks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_model::{Homes, NodeEntry, NodeId, PlacedFile, part_bytes};
use nyala_storage::object::cache::{Neighbours, WantedBlocks};

use super::elsewhere::OtherNodes;
use super::membership::Nodes;

/// How long another node may take: a store takes about as long.
const PATIENCE: Duration = Duration::from_millis(100);

/// A node that did not answer is not asked for this long.
const AVOID_FOR: Duration = Duration::from_secs(5);

/// Asks the node that is the home of the blocks among all other executors. If this node has just joined, that is their former
/// home. If this node only reads footers, that is their home.
#[derive(Debug)]
pub struct NodeCaches {
    /// They know the cache, which knows this.
    nodes: Weak<Nodes>,
    elsewhere: Arc<dyn OtherNodes>,
    silent: Mutex<HashMap<NodeId, Instant>>,
}

impl NodeCaches {
    pub fn new(nodes: &Arc<Nodes>, elsewhere: Arc<dyn OtherNodes>) -> Self {
        Self { nodes: Arc::downgrade(nodes), elsewhere, silent: Mutex::default() }
    }

    fn silent(&self) -> MutexGuard<'_, HashMap<NodeId, Instant>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn home(&self, wanted: &WantedBlocks) -> Option<NodeEntry> {
        let nodes = self.nodes.upgrade()?;
        let mut others = nodes.executors();
        others.retain(|node| !nodes.is_own(&node.id));
        let part = wanted.numbers.start.saturating_mul(wanted.block_bytes) / part_bytes(wanted.file_bytes);
        let home = Homes::among(others.iter().map(|node| &node.id)).of(PlacedFile::new(&wanted.url), part)?;
        (home < others.len()).then(|| others.swap_remove(home))
    }
}

impl Neighbours for NodeCaches {
    fn blocks(&self, wanted: WantedBlocks) -> BoxFuture<'_, Vec<(u64, Bytes)>> {
        async move {
            let Some(home) = self.home(&wanted) else { return Vec::new() };
            if self.silent().get(&home.id).is_some_and(|since| since.elapsed() < AVOID_FOR) {
                return Vec::new();
            }
            let asked = tokio::time::timeout(PATIENCE, self.elsewhere.blocks(&home, &wanted)).await;
            let answered = asked.ok().and_then(Result::ok);
            if answered.is_none() {
                self.silent().insert(home.id, Instant::now());
            }
            // A node that does not answer is no reason to fail: the store has the blocks.
            answered.unwrap_or_default()
        }
        .boxed()
    }
}
