//! The nodes that share the catalog: this one tells the others that it lives, and keeps what they tell.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_catalog::{Catalog, CatalogError};
use nyala_cube::cube::build::{Readers, now_ms};
use nyala_model::{JobState, NodeEntry, NodeId, SnapshotVersion};
use nyala_sql::error::Result;
use tokio::sync::Notify;

use super::elsewhere::not_reached;
use super::version::{VERSION, is_of_this_version};
use super::view::{self, BEAT, View, is_there};
use crate::query::activity::Registry;
use crate::query::resources::admission::Admission;
use crate::query::snapshots::Snapshots;

/// A node that has told nothing for this long is forgotten.
const FORGET: Duration = Duration::from_secs(24 * 3600);
/// How often to check whether a statement still reads old files.
const LOOK: Duration = Duration::from_secs(2);
/// How long the last report of the process before this one may keep this one from telling. The catalog counts that report for ten
/// seconds.
const HANDOVER: Duration = Duration::from_secs(15);

/// This node, and what it knows of the others. Their last report stays while the catalog's database is away.
#[derive(Debug)]
pub struct Nodes {
    catalog: Arc<Catalog>,
    snapshots: Arc<Snapshots>,
    registry: Arc<Registry>,
    admission: Arc<Admission>,
    own: NodeId,
    /// Where this node is reached.
    address: String,
    executor: bool,
    started_at_ms: u64,
    draining: AtomicBool,
    /// Whether other nodes can connect to the address.
    is_reached: AtomicBool,
    /// Notified when this node has something to tell at once.
    news: Notify,
    seen: ArcSwap<View>,
    /// Why nodes did not answer this one when it last asked for their statements.
    unanswered: Mutex<BTreeMap<NodeId, String>>,
    /// The nodes that were there when this node last ended the jobs of lost nodes; none before it has done that once.
    without_lost_jobs: Mutex<Option<BTreeSet<NodeId>>>,
}

impl Nodes {
    pub fn new(
        catalog: Arc<Catalog>,
        snapshots: Arc<Snapshots>,
        (registry, admission): (Arc<Registry>, Arc<Admission>),
        (own, address, executor): (NodeId, String, bool),
    ) -> Self {
        let seen = ArcSwap::from_pointee(View::default());
        let (started_at_ms, draining) = (now_ms(), AtomicBool::new(false));
        // Without an address there is nothing to wait for.
        let is_reached = AtomicBool::new(address.is_empty());
        let (unanswered, without_lost_jobs) = (Mutex::default(), Mutex::default());
        Self {
            catalog,
            snapshots,
            registry,
            admission,
            own,
            address,
            executor,
            started_at_ms,
            draining,
            is_reached,
            news: Notify::new(),
            seen,
            unanswered,
            without_lost_jobs,
        }
    }

    /// All nodes, this one included, as they were when they last told of themselves.
    pub fn all(&self) -> Vec<NodeEntry> {
        let mut all = self.seen.load().nodes_at(Instant::now());
        all.retain(|node| node.id != self.own);
        all.push(self.here());
        all.sort_by(|one, other| one.id.cmp(&other.id));
        all
    }

    /// Whether a node told lately that it lives.
    pub fn is_alive(node: &NodeEntry) -> bool {
        view::is_alive(node)
    }

    /// Whether a node is this one.
    pub fn is_own(&self, id: &NodeId) -> bool {
        self.own == *id
    }

    /// A node that tells that it lives.
    pub fn living(&self, id: &NodeId) -> Result<NodeEntry> {
        let node = self.all().into_iter().find(|node| node.id == *id);
        let node = node.filter(Self::is_alive);
        node.ok_or_else(|| not_reached(id, "it does not tell that it lives"))
    }

    /// The other nodes that tell that they live.
    pub fn others(&self) -> Vec<NodeEntry> {
        let nodes = self.all().into_iter();
        nodes.filter(|node| node.id != self.own && Self::is_alive(node)).collect()
    }

    /// The nodes that do parts of this node's queries and builds now, by their names; this one only if it reads shared files. All run
    /// the same version.
    pub fn executors(&self) -> Vec<NodeEntry> {
        let mut executors = self.executors_of_any_version();
        executors.retain(is_of_this_version);
        executors
    }

    /// The nodes that read shared files now, by their names; this one only if it does.
    pub fn executors_of_any_version(&self) -> Vec<NodeEntry> {
        executors_among(self.all(), &self.own)
    }

    /// The versions of executors that do no parts for this node.
    pub fn other_versions(&self) -> BTreeSet<String> {
        let others = self.executors_of_any_version().into_iter();
        others.filter(|node| !is_of_this_version(node)).map(|node| node.version).collect()
    }

    /// Records whether a node has answered this one, and if not, why.
    pub fn note_answer(&self, node: &NodeId, failure: Option<String>) {
        let mut unanswered = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner);
        match failure {
            Some(reason) => drop(unanswered.insert(node.clone(), reason)),
            None => drop(unanswered.remove(node)),
        }
    }

    /// Why nodes did not answer this one when it last asked for their statements.
    pub fn unanswered(&self) -> BTreeMap<NodeId, String> {
        self.unanswered.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn here(&self) -> NodeEntry {
        let running = self.registry.running();
        let oldest = running.iter().map(|entry| entry.begun).min();
        let is_reached = self.is_reached.load(Ordering::Relaxed);
        NodeEntry {
            id: self.own.clone(),
            address: if is_reached { self.address.clone() } else { String::new() },
            starting: !is_reached,
            version: VERSION.to_owned(),
            started_at_ms: self.started_at_ms,
            draining: self.draining.load(Ordering::Relaxed),
            executor: self.executor,
            running: u32::try_from(running.len()).unwrap_or(u32::MAX),
            slots: u32::try_from(self.admission.own_slots()).unwrap_or(u32::MAX),
            spread: u32::try_from(self.admission.spread()).unwrap_or(u32::MAX),
            oldest_version: self.snapshots.version_at(oldest.unwrap_or_else(Instant::now)),
            age_ms: 0,
        }
    }

    /// Tells the others that this node lives, for as long as it does, and ends the jobs of those that died. Returns only if another
    /// process runs as this node.
    pub async fn keep_telling(self: Arc<Self>) -> CatalogError {
        let begun = Instant::now();
        let (mut has_told, mut was_told, mut was_ended) = (false, true, true);
        loop {
            // Measured before the request, because the answer may come late.
            let waited = begun.elapsed();
            let told = self.tell().await;
            has_told |= told.is_ok();
            let told = match told {
                // Until one of the two holds, the name may only be taken by the last report of the previous process, by a clock that is ahead.
                Err(taken @ CatalogError::NodeTaken { .. }) if has_told || waited > HANDOVER => {
                    return taken;
                }
                told => told,
            };
            // Logged once, and not every two seconds.
            if let Err(error) = &told
                && was_told
            {
                tracing::warn!(%error, "this node cannot tell the others that it lives");
            }
            was_told = told.is_ok();
            if was_told {
                let ended = self.end_lost_jobs().await;
                if let Err(error) = &ended
                    && was_ended
                {
                    tracing::warn!(%error, "jobs of nodes that died stay listed as running");
                }
                was_ended = ended.is_ok();
            }
            tokio::select! {
                () = tokio::time::sleep(BEAT) => {}
                () = self.news.notified() => {}
            }
        }
    }

    /// Tells the others from now on where they reach this node. Before its port is served they would wait for connections that nothing
    /// accepts.
    pub fn announce_port(&self) {
        self.is_reached.store(true, Ordering::Relaxed);
        self.news.notify_one();
    }

    async fn tell(&self) -> Result<(), CatalogError> {
        let nodes = self.catalog.beat(&self.here(), FORGET).await?;
        self.forget_answers(&nodes);
        let seen = self.seen.load().after(nodes, Instant::now());
        self.seen.store(Arc::new(seen));
        if self.catalog.is_shared() {
            self.admission.resize_spread(self.spread_slots());
        }
        Ok(())
    }

    /// This node's part of the slots of all executors.
    fn spread_slots(&self) -> usize {
        let mut others = self.others();
        others.retain(is_of_this_version);
        part_of_slots(&self.executors(), &others)
    }

    /// Drops the recorded failures of nodes that are not in the catalog any more.
    fn forget_answers(&self, nodes: &[NodeEntry]) {
        let mut unanswered = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner);
        unanswered.retain(|id, _| nodes.iter().any(|node| node.id == *id));
    }

    /// Ends the jobs of nodes that died as failed. Every node does this whenever the set of living nodes differs from that of its last
    /// complete pass; a job that another node has ended needs nothing more. A node ends its own earlier jobs when it starts.
    async fn end_lost_jobs(&self) -> Result<()> {
        if !self.catalog.is_shared() {
            return Ok(());
        }
        let there: BTreeSet<NodeId> = self.all().into_iter().filter(is_there).map(|node| node.id).collect();
        if self.without_lost_jobs().as_ref() == Some(&there) {
            return Ok(());
        }
        let jobs = self.catalog.jobs().await?;
        for mut job in jobs.into_iter().filter(|job| job.state == JobState::Running) {
            if there.contains(&job.node) || self.own.owns(&job.node) {
                continue;
            }
            tracing::warn!(job = job.id.0, node = %job.node, "a job ended with its node");
            job.state = JobState::Failed;
            job.ended_at_ms = Some(now_ms());
            job.error = Some(format!("node `{}` stopped while it ran; run it again", job.node));
            self.catalog.update_job(&job).await?;
        }
        *self.without_lost_jobs() = Some(there);
        Ok(())
    }

    fn without_lost_jobs(&self) -> MutexGuard<'_, Option<BTreeSet<NodeId>>> {
        self.without_lost_jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells that this node stops, so that nothing new comes to it.
    pub async fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        if let Err(error) = self.tell().await {
            tracing::debug!(%error, "the other nodes are not told that this one stops");
        }
    }

    /// Whether this node stops.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Takes this node off the list.
    pub async fn leave(&self) {
        if let Err(error) = self.catalog.leave(&self.own, self.started_at_ms).await {
            tracing::debug!(%error, "this node stays on the list until it is taken for dead");
        }
    }

    /// The oldest snapshot that a statement on any node may read; none while this node does not hear the others. A node that is silent is
    /// only taken for gone with its leases: until then its statements may go on.
    fn oldest_version(&self) -> Option<SnapshotVersion> {
        if self.catalog.is_shared() && self.seen.load().is_stale(Instant::now()) {
            return None;
        }
        oldest_of(&self.all())
    }
}

/// The nodes that serve others and read shared files; the node itself is always reached.
fn executors_among(mut nodes: Vec<NodeEntry>, own: &NodeId) -> Vec<NodeEntry> {
    let is_reached = |node: &NodeEntry| node.id == *own || !node.address.is_empty();
    nodes.retain(|node| {
        node.executor && !node.starting && !node.draining && view::is_alive(node) && is_reached(node)
    });
    nodes
}

/// The part of the executors' slots that a node has beside the others: the nodes whose queries use such slots now divide them evenly.
fn part_of_slots(executors: &[NodeEntry], others: &[NodeEntry]) -> usize {
    let slots: usize = executors.iter().map(|node| node.slots as usize).sum();
    let asking = others.iter().filter(|node| node.spread > 0).count() + 1;
    (slots / asking).max(1)
}

fn oldest_of(nodes: &[NodeEntry]) -> Option<SnapshotVersion> {
    nodes.iter().filter(|node| is_there(node)).map(|node| node.oldest_version).min()
}

/// The statements of all nodes, as a value that work in the background may keep.
#[derive(Debug, Clone)]
pub struct StatementsOf(pub Arc<Nodes>);

impl Readers for StatementsOf {
    fn gone(&self, version: SnapshotVersion) -> BoxFuture<'static, ()> {
        let nodes = Arc::clone(&self.0);
        async move {
            while nodes.oldest_version().is_none_or(|oldest| oldest < version) {
                tokio::time::sleep(LOOK).await;
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_with_queries_divide_the_slots() {
        let node = |slots, spread| NodeEntry { slots, spread, ..NodeEntry::default() };
        let executors = [node(8, 0), node(8, 0), node(4, 0)];
        assert_eq!(part_of_slots(&executors, &executors), 20, "no other node has queries");
        let others = [node(4, 3), node(4, 0), node(4, 1)];
        assert_eq!(part_of_slots(&executors, &others), 6);
        // A node of an older version tells of no slots.
        assert_eq!(part_of_slots(&[node(0, 0)], &others), 1);
    }

    #[test]
    fn executors_are_reached_and_take_work() {
        let node = |name: &str, change: fn(&mut NodeEntry)| {
            let (id, address) = (NodeId(name.to_owned()), "10.0.0.7:7433".to_owned());
            let mut node = NodeEntry { id, address, executor: true, ..NodeEntry::default() };
            change(&mut node);
            node
        };
        let nodes = vec![
            node("here", |node| node.address.clear()),
            node("there", |_| {}),
            node("takes statements only", |node| node.executor = false),
            node("starts", |node| node.starting = true),
            node("stops", |node| node.draining = true),
            node("is dead", |node| node.age_ms = 9_000),
            node("has no port", |node| node.address.clear()),
        ];
        let executors = executors_among(nodes, &NodeId("here".to_owned()));
        let names: Vec<&str> = executors.iter().map(|node| node.id.0.as_str()).collect();
        assert_eq!(names, ["here", "there"]);
    }

    #[test]
    fn a_silent_node_may_read_old_files_for_as_long_as_it_may_be_at_work() {
        let node = |version, age_ms| NodeEntry {
            oldest_version: SnapshotVersion(version),
            age_ms,
            ..NodeEntry::default()
        };
        assert_eq!(oldest_of(&[node(7, 0), node(5, 59_999), node(3, 60_000)]), Some(SnapshotVersion(5)));
    }
}
