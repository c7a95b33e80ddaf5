//! Builds of which several nodes make the segments.
//!
//! The node that runs the job holds the lease of the cube. It divides the ranges into units of one pass each, and gives every
//! executor, itself included, one unit after the other. Executors record segments under two leases, which come with the unit:
//! that of the cube, and one that each job takes anew. Once the job has ended, the catalog refuses what they record. A unit whose
//! node is lost is made on another node, in new segments.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use futures::future::join_all;
use nyala_catalog::Permit;
use nyala_cube::cube::ReadyCube;
use nyala_cube::cube::build::{
    Counts, LeftSegments, Progress, Resume, RunningBuild, SegmentHome, Work, drop_those_of_others, groups,
    unit_rows,
};
use nyala_cube::live::Pins;
use nyala_model::{NodeEntry, NodeId, QualifiedName, SegmentId, SegmentRange, SegmentState};
use nyala_sql::error::{QueryError, Result};
use tokio_util::sync::CancellationToken;

use super::build::{build_context, find, range_of_all};
use super::lease::units_lease;
use super::maker::Maker;
use crate::query::engine::Engine;
use crate::query::nodes::{BuildUnit, VERSION, is_of_node};

/// Deletes what other nodes have made half-way, once the job has ended before its time. Until that is done no other job of this node
/// changes the cube.
pub struct OthersSegments {
    pub cube: QualifiedName,
    pub home: SegmentHome,
    pub is_divided: Arc<AtomicBool>,
    /// Keeps other jobs of this node from the cube; none once there is nothing to delete.
    pub listed: Option<RunningBuild>,
}

impl OthersSegments {
    /// Called with the outcome of the job: deletes the unfinished segments of a job that failed, and lets other jobs take the cube.
    pub async fn settle(mut self, outcome: &Result<()>) {
        if outcome.is_err() && self.is_divided.load(Ordering::Relaxed) {
            drop_all(&self.cube, &self.home).await;
        }
        self.listed = None;
    }
}

impl Drop for OthersSegments {
    fn drop(&mut self) {
        let Some(listed) = self.listed.take().filter(|_| self.is_divided.load(Ordering::Relaxed)) else {
            return;
        };
        let (cube, home) = (self.cube.clone(), self.home.clone());
        let background = home.background.clone();
        background.finish(async move {
            drop_all(&cube, &home).await;
            drop(listed);
        });
    }
}

async fn drop_all(cube: &QualifiedName, home: &SegmentHome) {
    if let Err(error) = drop_those_of_others(cube, home).await {
        tracing::warn!(%cube, %error, "unfinished segments of other nodes stay until the next build");
    }
}

/// A unit that waits for a node.
struct Waiting {
    unit: BuildUnit,
    progress: Arc<Progress>,
}

/// What the nodes share while they work on one job.
#[derive(Default)]
struct Shared {
    waiting: Mutex<VecDeque<Waiting>>,
    /// Nodes that were lost.
    lost: Mutex<BTreeSet<NodeId>>,
    /// The first error that another node would make, too.
    failed: Mutex<Option<QueryError>>,
    /// Cancelled by that error: all units end.
    over: CancellationToken,
}

impl Shared {
    fn next(&self) -> Option<Waiting> {
        if self.over.is_cancelled() {
            return None;
        }
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn fail(&self, error: QueryError) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.over.cancel();
    }

    fn give_back(&self, waiting: Waiting, node: &NodeId) {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).insert(node.clone());
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_front(waiting);
    }

    fn is_lost(&self, node: &NodeId) -> bool {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).contains(node)
    }

    fn nothing_waits(&self) -> bool {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn check(&self) -> Result<()> {
        match self.failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

/// Makes segments on all executors, and returns the works that are for this node alone: all of them, if there is no other executor,
/// if another node could not read the same rows, or if one pass makes all.
pub async fn make_on_nodes(maker: &Maker, works: Vec<Work>) -> Result<Vec<Work>> {
    let engine = &maker.engine;
    let cube = maker.cube()?;
    let nodes = engine.nodes.executors();
    let may = engine.catalog().is_shared() && cube.compiled.as_ref().is_ok_and(|c| c.reads_shared_files());
    if !may || nodes.iter().all(|node| engine.nodes.is_own(&node.id)) {
        return Ok(works);
    }
    let (builds, others): (Vec<Work>, Vec<Work>) =
        works.into_iter().partition(|work| matches!(work, Work::Build(_)));
    let max_rows = unit_rows(&cube, &builds, nodes.len());
    let units = groups(&cube, builds.clone(), max_rows);
    if units.len() < 2 && nodes.iter().any(|node| engine.nodes.is_own(&node.id)) {
        return Ok([builds, others].concat());
    }
    maker.is_divided.store(true, Ordering::Relaxed);
    make_all(maker, &cube, units).await?;
    Ok(others)
}

async fn make_all(maker: &Maker, cube: &ReadyCube, units: Vec<Vec<Work>>) -> Result<()> {
    let engine = &maker.engine;
    let Some(permit) = &maker.context.home.permit else {
        return Err(QueryError::internal("a cube is built without its lease"));
    };
    // This lease is given up with the job: nothing can be recorded for the job after that.
    let lent = units_lease(engine, cube.entry.id).await?;
    let fences = permit.fences().iter().chain([lent.fence()]);
    let leases: Vec<(String, u64)> = fences.map(|fence| (fence.lease.clone(), fence.token.0)).collect();
    let shared = Shared::default();
    for works in units {
        let unit = BuildUnit {
            job: maker.context.progress.entry().id,
            node: engine.node.clone(),
            program: VERSION.to_owned(),
            cube: maker.name.clone(),
            ranges: works.iter().map(Work::range).collect(),
            leases: leases.clone(),
            version: engine.snapshots.current().snapshot().version,
            again: false,
        };
        let waiting = Waiting { unit, progress: maker.context.progress.part() };
        shared.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(waiting);
    }
    let before: BTreeSet<SegmentId> = cube.entry.segments.iter().map(|segment| segment.id).collect();
    // Nodes that come meanwhile help to make the units of those that were lost.
    while !shared.nothing_waits() {
        let nodes: Vec<NodeEntry> =
            engine.nodes.executors().into_iter().filter(|node| !shared.is_lost(&node.id)).collect();
        if nodes.is_empty() {
            break;
        }
        join_all(nodes.iter().map(|node| make_units(engine, node, permit, &shared))).await;
        shared.check()?;
        refresh(engine).await?;
        shared.waiting.lock().unwrap_or_else(PoisonError::into_inner).iter_mut().for_each(|waiting| {
            leave_out_ready(engine, &mut waiting.unit, &before);
        });
    }
    // All executors were lost: this node makes the rest, even if it is no executor.
    while let Some(Waiting { unit, progress }) = shared.next() {
        make_here(engine, &unit, permit.clone(), progress).await?;
    }
    // All segments are recorded by now: this node follows the catalog anyway.
    if let Err(error) = refresh(engine).await {
        tracing::warn!(cube = %maker.name, %error, "what other nodes have built is not seen here yet");
    }
    Ok(())
}

async fn refresh(engine: &Engine) -> Result<()> {
    engine.catalog().refresh().await?;
    engine.snapshots.refresh().await
}

/// Brings a unit that another node has begun to the newest catalog, without the segments that became ready there.
fn leave_out_ready(engine: &Engine, unit: &mut BuildUnit, before: &BTreeSet<SegmentId>) {
    let context = engine.snapshots.current();
    let snapshot = context.snapshot();
    unit.version = snapshot.version;
    let segments = snapshot.cubes.get(&unit.cube).map(|cube| cube.segments.clone()).unwrap_or_default();
    let ready = segments.iter().filter(|s| s.state == SegmentState::Ready && !before.contains(&s.id));
    let ready: Vec<SegmentRange> = ready.map(|segment| segment.range).collect();
    unit.ranges.retain(|range| !ready.contains(range));
}

/// Has one node make one unit after the other, until there are no more or the node is lost.
async fn make_units(engine: &Arc<Engine>, node: &NodeEntry, permit: &Permit, shared: &Shared) {
    while let Some(mut waiting) = shared.next() {
        let Waiting { unit, progress } = &waiting;
        let making = async {
            match engine.nodes.is_own(&node.id) {
                true => make_here(engine, unit, permit.clone(), Arc::clone(progress)).await,
                false => make_there(engine, node, unit.clone(), progress).await,
            }
        };
        let made = tokio::select! {
            made = making => made,
            () = shared.over.cancelled() => return,
        };
        match made {
            Ok(()) => {}
            Err(error) if is_of_node(&error) && !engine.nodes.is_own(&node.id) => {
                tracing::warn!(cube = %unit.cube, node = %node.id, %error, "a part of a build goes to another node");
                progress.retry(Counts::default(), &error);
                waiting.unit.again = true;
                return shared.give_back(waiting, &node.id);
            }
            Err(error) => return shared.fail(error),
        }
    }
}

async fn make_there(
    engine: &Arc<Engine>,
    node: &NodeEntry,
    unit: BuildUnit,
    progress: &Progress,
) -> Result<()> {
    let before = progress.counts().retries;
    let mut told = engine.elsewhere.build(node, unit).await?;
    while let Some(counts) = told.next().await {
        let counts = counts?;
        progress.set(Counts { retries: before + counts.retries, ..counts });
    }
    Ok(())
}

/// Makes the segments of a unit on this node.
pub async fn make_here(
    engine: &Arc<Engine>,
    unit: &BuildUnit,
    permit: Permit,
    progress: Arc<Progress>,
) -> Result<()> {
    if unit.ranges.is_empty() {
        return Ok(());
    }
    engine.snapshots.stores().segments().check_ready()?;
    let cube = find(engine, &unit.cube)?;
    engine.check_files(Some(&cube.entry.definition.sources)).await?;
    let pins = Arc::new(Pins::default());
    let context = build_context(engine, &pins, permit, progress);
    let _left = LeftSegments { cube: unit.cube.clone(), home: context.home.clone() };
    let works: Vec<Work> = unit.ranges.iter().copied().map(Work::Build).collect();
    let maker = Maker {
        engine: Arc::clone(engine),
        name: unit.cube.clone(),
        context,
        pins,
        before: engine.snapshots.current(),
        range: range_of_all(&works),
        survey: tokio::sync::Mutex::default(),
        resume: if unit.again { Resume::Own } else { Resume::Any },
        is_divided: Arc::default(),
    };
    maker.make_each(works).await
}
