//! The caches of other nodes, asked for blocks that this one lacks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_model::{Homes, NodeEntry, NodeId, PlacedFile, part_bytes};
use nyala_storage::object::cache::{Neighbours, WantedBlocks};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::elsewhere::OtherNodes;
use super::membership::Nodes;

/// How long another node may take: longer than a store mostly takes, because asking the store costs a request and the bytes that it sends.
const PATIENCE: Duration = Duration::from_millis(300);

/// KiB of blocks on their way to their homes. Further ones are not given: their homes will ask the store.
const MAX_GIVEN_KIB: usize = 32 << 10;
/// How long giving a block may take.
const GIVING: Duration = Duration::from_secs(5);

/// A node that did not answer is not asked for this long.
const AVOID_FOR: Duration = Duration::from_secs(5);

/// Asks the node that is the home of the blocks among all other executors. If this node has just joined, that is their former
/// home. If this node only reads footers, that is their home.
#[derive(Debug)]
pub struct NodeCaches {
    /// The nodes. A weak reference, because they hold the cache, which holds this.
    nodes: Weak<Nodes>,
    elsewhere: Arc<dyn OtherNodes>,
    silent: Mutex<HashMap<NodeId, Instant>>,
    giving: Arc<Semaphore>,
    /// The runtime that gives blocks.
    runtime: Handle,
}

impl NodeCaches {
    /// Blocks are given on this runtime.
    pub fn new(nodes: &Arc<Nodes>, elsewhere: Arc<dyn OtherNodes>, runtime: Handle) -> Self {
        let giving = Arc::new(Semaphore::new(MAX_GIVEN_KIB));
        Self { nodes: Arc::downgrade(nodes), elsewhere, silent: Mutex::default(), giving, runtime }
    }

    fn silent(&self) -> MutexGuard<'_, HashMap<NodeId, Instant>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The home among all other executors.
    fn former_home(&self, wanted: &WantedBlocks) -> Option<NodeEntry> {
        let nodes = self.nodes.upgrade()?;
        let mut others = nodes.executors_of_any_version();
        others.retain(|node| !nodes.is_own(&node.id));
        home_among(others, wanted)
    }

    /// The home, if that is another node.
    fn other_home(&self, wanted: &WantedBlocks) -> Option<NodeEntry> {
        let nodes = self.nodes.upgrade()?;
        home_among(nodes.executors(), wanted).filter(|home| !nodes.is_own(&home.id))
    }
}

fn home_among(mut nodes: Vec<NodeEntry>, wanted: &WantedBlocks) -> Option<NodeEntry> {
    let part = wanted.numbers.start.saturating_mul(wanted.block_bytes) / part_bytes(wanted.file_bytes);
    let home = Homes::among(nodes.iter().map(|node| &node.id)).of(PlacedFile::new(&wanted.url), part)?;
    (home < nodes.len()).then(|| nodes.swap_remove(home))
}

impl Neighbours for NodeCaches {
    fn blocks(&self, wanted: WantedBlocks) -> BoxFuture<'_, Vec<(u64, Bytes)>> {
        async move {
            let Some(home) = self.former_home(&wanted) else { return Vec::new() };
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

    fn give(&self, block: WantedBlocks, data: Bytes) {
        let Some(home) = self.other_home(&block) else { return };
        let kib = u32::try_from(data.len() >> 10).unwrap_or(u32::MAX).max(1);
        let Ok(place) = Arc::clone(&self.giving).try_acquire_many_owned(kib) else { return };
        let elsewhere = Arc::clone(&self.elsewhere);
        self.runtime.spawn(async move {
            let given = tokio::time::timeout(GIVING, elsewhere.give_block(&home, &block, data)).await;
            if !matches!(given, Ok(Ok(()))) {
                tracing::debug!(node = %home.id, "a block did not reach its home");
            }
            drop(place);
        });
    }
}
