//! Which executor keeps a cuboid in memory, where no node has room for all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use nyala_cube::scan::CuboidHomes;
use nyala_model::{Homes, NodeEntry, NodeId, PlacedFile};

use super::membership::Nodes;

/// A node that was not reached gets no queries for this long: cuboids are read from their files meanwhile.
const AVOID_FOR: Duration = Duration::from_secs(10);

/// The homes of cuboids among the executors that live now.
#[derive(Debug)]
pub struct CuboidNodes {
    nodes: Weak<Nodes>,
    not_reached: Mutex<HashMap<NodeId, Instant>>,
}

impl CuboidNodes {
    /// The homes among these nodes.
    pub fn new(nodes: &Arc<Nodes>) -> Self {
        Self { nodes: Arc::downgrade(nodes), not_reached: Mutex::default() }
    }

    /// Records that a node was not reached.
    pub fn avoid(&self, node: &NodeId) {
        let mut not_reached = self.not_reached.lock().unwrap_or_else(PoisonError::into_inner);
        not_reached.retain(|_, since| since.elapsed() < AVOID_FOR);
        not_reached.insert(node.clone(), Instant::now());
    }

    fn is_avoided(&self, node: &NodeId) -> bool {
        let not_reached = self.not_reached.lock().unwrap_or_else(PoisonError::into_inner);
        not_reached.get(node).is_some_and(|since| since.elapsed() < AVOID_FOR)
    }

    fn executors(&self) -> Vec<NodeEntry> {
        // Whole statements are sent to the home, and these may go to a node of another version.
        let executors = self.nodes.upgrade().map(|nodes| nodes.executors_of_any_version());
        let executors = executors.unwrap_or_default();
        executors.into_iter().filter(|node| !self.is_avoided(&node.id)).collect()
    }

    /// Whether a node may still be asked for the cuboids that it kept a while ago.
    pub fn may_ask(&self, node: &NodeId) -> bool {
        self.executors().iter().any(|executor| executor.id == *node)
    }
}

impl CuboidHomes for CuboidNodes {
    fn elsewhere(&self, cuboid: &str) -> Option<NodeId> {
        let executors = self.executors();
        let homes = Homes::among(executors.iter().map(|node| &node.id));
        let home = &executors.get(homes.of(PlacedFile::new(cuboid), 0)?)?.id;
        let is_own = self.nodes.upgrade().is_none_or(|nodes| nodes.is_own(home));
        (!is_own).then(|| home.clone())
    }
}
