//! The steps of a build.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use datafusion::execution::SessionState;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, lit};
use datafusion::physical_plan::collect;
use nyala_model::config::BuildConfig;
use nyala_model::{CuboidEntry, DimensionSet, QualifiedName, SegmentEntry, SegmentRange, SourceFiles};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use object_store::ObjectStore;
use tokio::sync::OnceCell;

use super::home::Home;
use super::joins::{if_none_is_lost, keeping_joins, none_doubles, unique_joins};
use super::keys::{FactRows, fact_rows};
use super::order::{Order, cell_order, sort_order};
use super::progress::Progress;
use super::segment::{NewSegment, SegmentFacts, WantedSegment};
use super::segment_home::SegmentHome;
use super::work::{Root, Work};
use crate::cube::compile::CompiledCube;
use crate::cube::rewrite::ReadyCube;

/// The resources of a build.
pub struct BuildContext {
    /// Plans the queries of a build.
    pub state: SessionState,
    /// A state that shares memory fairly, for retries after memory ran out: large operators then spill before
    /// others starve. It is slower, because each operator has little memory.
    pub frugal: SessionState,
    /// Where segments are recorded and cuboids are kept.
    pub home: SegmentHome,
    /// Where cuboids are written.
    pub store: Arc<dyn ObjectStore>,
    /// Limits of a build.
    pub config: BuildConfig,
    /// Counters for `system.jobs`.
    pub progress: Arc<Progress>,
}

/// A segment with complete files. It is not visible yet; dropping it gives its space back.
pub struct BuiltSegment {
    cube: QualifiedName,
    segment: NewSegment,
    facts: SegmentFacts,
}

impl BuiltSegment {
    /// Makes the segment visible.
    pub async fn publish(self) -> Result<()> {
        self.segment.publish(&self.cube, self.facts).await
    }
}

/// Facts for all segments of a job, found once because finding them reads all of their rows.
#[derive(Debug)]
pub struct Survey {
    pub(super) order: Order,
    range: SegmentRange,
    /// Tables of the join with unique keys.
    unique_joins: Vec<usize>,
    /// Tables that keep every row exactly once: if they keep all rows, they keep the rows of each segment.
    /// Found only when the row counts leave it open.
    keeping_joins: OnceCell<Vec<usize>>,
}

impl Survey {
    /// Tables that may be left out of queries over a segment with so many joined rows.
    async fn droppable_joins(
        &self,
        cube: &ReadyCube,
        (joined, fact): (u64, FactRows),
        state: &SessionState,
    ) -> Result<Vec<usize>> {
        let all = compiled(cube)?;
        if joined == fact.count && none_doubles(all, &self.unique_joins) {
            return Ok(if_none_is_lost(all, &self.unique_joins));
        }
        let look = || async {
            let rows = all.restricted(self.range)?;
            keeping_joins(&rows, &self.unique_joins, state).await
        };
        self.keeping_joins.get_or_try_init(look).await.cloned()
    }
}

/// Surveys the rows of `range`, which contains every segment that is to be built.
pub async fn survey(cube: &ReadyCube, range: SegmentRange, context: &BuildContext) -> Result<Survey> {
    let compiled = compiled(cube)?.restricted(range)?;
    let order = sort_order(&compiled, &context.state).await?;
    let unique_joins = unique_joins(&compiled, &context.state).await?;
    Ok(Survey { order, range, unique_joins, keeping_joins: OnceCell::new() })
}

/// Facts that [`build_roots_together`](super::together::build_roots_together) found for one segment.
#[derive(Debug, Clone)]
pub struct RangeFacts {
    pub(super) range: SegmentRange,
    /// The files in which the rows lay then.
    pub(super) sources: Vec<SourceFiles>,
    /// Joined rows.
    pub(super) joined: u64,
    pub(super) fact: FactRows,
}

impl RangeFacts {
    /// The segment's range.
    pub fn range(&self) -> SegmentRange {
        self.range
    }
}

/// Records that the range of a segment has no rows. Of no rows, every join keeps each exactly once.
pub async fn record_gap(
    cube: &ReadyCube,
    wanted: &WantedSegment,
    context: &BuildContext,
) -> Result<BuiltSegment> {
    let droppable_joins = (1..compiled(cube)?.block.instances.len()).collect();
    let (segment, _) = begin(cube, wanted, context).await?;
    let facts = SegmentFacts { source_rows: 0, droppable_joins, key_bounds: None };
    Ok(BuiltSegment { cube: cube.entry.name.clone(), segment, facts })
}

/// Builds all cuboids of `cube` for the rows of one segment. If it fails or is dropped, nothing becomes
/// visible and the space is given back. The files must be those of the `survey`.
pub async fn build(
    cube: &ReadyCube,
    wanted: &WantedSegment,
    (survey, known): (&Survey, Option<&RangeFacts>),
    context: &BuildContext,
) -> Result<BuiltSegment> {
    let compiled = compiled(cube)?.restricted(wanted.range)?;
    let known = known.filter(|known| known.sources == wanted.sources);
    let fact = match known {
        Some(known) => known.fact,
        None => fact_rows(&compiled, &context.state).await?,
    };
    let (segment, finished) = begin(cube, wanted, context).await?;
    if known.is_none() {
        count_finished(&finished, context);
    }
    let work = Work::new((cube, &compiled), context, survey.order.clone(), Home::New(&segment));
    let filled = fill(cube, &work, finished, context).await;
    drop(work);
    let (segment, read) = settle(segment, wanted, filled)?;
    let source_rows = match known.map(|known| known.joined).or(read) {
        Some(rows) => rows,
        None => count_rows(&compiled, &context.state).await?,
    };
    let droppable_joins = survey.droppable_joins(cube, (source_rows, fact), &context.state).await?;
    let facts = SegmentFacts { source_rows, droppable_joins, key_bounds: fact.bounds };
    Ok(BuiltSegment { cube: cube.entry.name.clone(), segment, facts })
}

/// Makes every cuboid that is not `finished`. Returns the number of rows read, if one pass read all.
async fn fill(
    cube: &ReadyCube,
    work: &Work<'_>,
    finished: Vec<CuboidEntry>,
    context: &BuildContext,
) -> Result<Option<u64>> {
    let read_before = context.progress.rows_read();
    let resumed = !finished.is_empty();
    let sets = cube.entry.definition.lattice();
    let roots = sets.roots().filter(|root| !has(&finished, *root)).map(Root::of_rows);
    let (cuboids, passes) = work.build_roots(roots.collect(), finished).await?;
    let read = context.progress.rows_read() - read_before;
    let rest: Vec<DimensionSet> = sets.sets().iter().filter(|set| !has(&cuboids, **set)).copied().collect();
    work.roll_up(&rest, cuboids).await?;
    Ok((!resumed && passes == 1).then_some(read))
}

/// The segment, or the error. After a transient error the segment is left for the next attempt, if there is one.
fn settle<T>(segment: NewSegment, wanted: &WantedSegment, outcome: Result<T>) -> Result<(NewSegment, T)> {
    match outcome {
        Ok(value) => Ok((segment, value)),
        Err(error) => {
            if error.transient && wanted.again {
                segment.leave();
            }
            Err(error)
        }
    }
}

/// Merges segments with neighbouring ranges into one: equal cells are merged, no row is read. Refuses if they
/// no longer cover the range: files may have changed, and segments been replaced, since the decision to merge
/// or during the wait after a failure, and the merged segment would not show it.
pub async fn merge(
    cube: &ReadyCube,
    wanted: &WantedSegment,
    segments: &[SegmentEntry],
    context: &BuildContext,
) -> Result<BuiltSegment> {
    let compiled = compiled(cube)?;
    let gaps = cube.coverage.usable(&cube.entry).filter(|segment| segment.is_gap());
    let held: Vec<SegmentEntry> = segments.iter().chain(gaps).cloned().collect();
    if let Some(reason) = cube.coverage.why_not_all(wanted.range, &held) {
        let message = format!("segments of cube `{}` cannot be merged any more: {reason}", cube.entry.name);
        return Err(QueryError::new(ErrorKind::Unreadable, message).hint("run the statement again"));
    }
    let largest = segments.iter().max_by_key(|segment| segment.source_rows);
    let order = match (wanted.range, largest) {
        // These segments are merged after nearly every build, so that reading all rows would cost more than the merge.
        (SegmentRange::Written(_), Some(largest)) => cell_order(compiled, largest, &context.state).await?,
        _ => sort_order(compiled, &context.state).await?,
    };
    let (segment, finished) = begin(cube, wanted, context).await?;
    count_finished(&finished, context);
    let work = Work::new((cube, compiled), context, order, Home::New(&segment));
    let merged = merge_all(cube, &work, &finished, segments).await;
    drop(work);
    let (segment, ()) = settle(segment, wanted, merged)?;
    let mut droppable = segments.iter().map(|s| s.droppable_joins.clone());
    let first = droppable.next().unwrap_or_default();
    let droppable_joins =
        droppable.fold(first, |all, other| all.into_iter().filter(|i| other.contains(i)).collect());
    let bounds = segments.iter().filter_map(|segment| segment.key_bounds);
    let key_bounds = bounds.reduce(|(a, b), (c, d)| (a.min(c), b.max(d)));
    let source_rows = segments.iter().map(|segment| segment.source_rows).sum();
    let facts = SegmentFacts { source_rows, droppable_joins, key_bounds };
    Ok(BuiltSegment { cube: cube.entry.name.clone(), segment, facts })
}

async fn merge_all(
    cube: &ReadyCube,
    work: &Work<'_>,
    finished: &[CuboidEntry],
    segments: &[SegmentEntry],
) -> Result<()> {
    for set in cube.entry.definition.lattice().sets() {
        if !has(finished, *set) {
            work.merge_one(*set, segments).await?;
        }
    }
    Ok(())
}

/// A new segment, or a half-built one of an earlier attempt, and its finished cuboids.
pub async fn begin(
    cube: &ReadyCube,
    wanted: &WantedSegment,
    context: &BuildContext,
) -> Result<(NewSegment, Vec<CuboidEntry>)> {
    let (segment, mut finished) =
        NewSegment::begin_or_resume(&cube.entry.name, wanted, &context.home).await?;
    finished.retain(|cuboid| cube.entry.definition.grouping_sets.contains(&cuboid.dimensions));
    Ok((segment, finished))
}

/// Cuboids of earlier attempts count as progress too.
pub fn count_finished(finished: &[CuboidEntry], context: &BuildContext) {
    for cuboid in finished {
        context.progress.add_cuboid(cuboid.bytes);
    }
}

pub fn has(cuboids: &[CuboidEntry], set: DimensionSet) -> bool {
    cuboids.iter().any(|cuboid| cuboid.dimensions == set)
}

pub fn compiled(cube: &ReadyCube) -> Result<&CompiledCube> {
    let name = &cube.entry.name;
    Ok(cube.compiled.as_ref().map_err(|reason| {
        QueryError::new(ErrorKind::InvalidDefinition, format!("cube `{name}` cannot be built: {reason}"))
    })?)
}

/// Rows of the flat join, for a segment that was not built in one pass.
async fn count_rows(cube: &CompiledCube, state: &SessionState) -> Result<u64> {
    let rows = LogicalPlanBuilder::from(cube.flat.clone());
    let plan = rows.aggregate(Vec::<Expr>::new(), [count(lit(1_i64))])?.build()?;
    let plan = state.create_physical_plan(&plan).await?;
    let batches = collect(plan, state.task_ctx()).await?;
    let counted = batches.first().and_then(|batch| batch.columns().first()?.as_primitive_opt::<Int64Type>());
    Ok(counted.map_or(0, |count| count.value(0).unsigned_abs()))
}
