//! The steps of a build.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::SessionState;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, lit};
use datafusion::physical_plan::{ExecutionPlan, collect};
use nyala_catalog::Catalog;
use nyala_model::config::BuildConfig;
use nyala_model::{CuboidEntry, DimensionSet, QualifiedName, SegmentEntry};
use object_store::ObjectStore;

use super::background::Background;
use super::joins::droppable_joins;
use super::keys::key_bounds;
use super::order::sort_order;
use super::pipeline::{Source, cuboid_plan};
use super::progress::Progress;
use super::segment::{NewSegment, SegmentFacts, WantedSegment};
use super::tee::tee;
use super::writer::Writer;
use crate::cube::compile::CompiledCube;
use crate::cube::rewrite::ReadyCube;
use crate::error::{ErrorKind, QueryError, Result};
use crate::scan::{CuboidPart, CuboidTable};

/// A cuboid rolled up from fewer cells than this is written as one file.
const SINGLE_FILE_CELLS: u64 = 262_144;

/// What a build works with.
pub(crate) struct BuildContext {
    pub(crate) state: SessionState,
    /// The same with memory in fair shares, for what fails without: operators that hold much then spill
    /// before others starve. Slower, since every one has little.
    pub(crate) frugal: SessionState,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) data_dir: PathBuf,
    pub(crate) config: BuildConfig,
    pub(crate) background: Background,
    pub(crate) progress: Arc<Progress>,
}

/// A segment whose files are whole. It is not visible yet; dropping it gives its space back.
pub(crate) struct BuiltSegment {
    cube: QualifiedName,
    segment: NewSegment,
    facts: SegmentFacts,
}

impl BuiltSegment {
    /// Makes it visible.
    pub(crate) async fn publish(self) -> Result<()> {
        self.segment.publish(&self.cube, self.facts).await
    }
}

/// Builds all cuboids of `cube` for the rows of one segment. If it fails or is dropped, nothing becomes
/// visible and the space is given back.
pub(crate) async fn build(
    cube: &ReadyCube,
    wanted: &WantedSegment,
    context: &BuildContext,
) -> Result<BuiltSegment> {
    let compiled = compiled(cube)?.restricted(wanted.range)?;
    let order = sort_order(&compiled, &context.state).await?;
    let droppable_joins = droppable_joins(&compiled, &context.state).await?;
    let key_bounds = key_bounds(&compiled, &context.state).await?;
    let (work, finished) = Work::begin(cube, &compiled, wanted, context, order).await?;
    let read_before = context.progress.rows_read();
    let resumed = !finished.is_empty();
    let (cuboids, passes) = work.build_roots(cube, finished).await?;
    work.roll_up(cube, cuboids).await?;
    let source_rows = match (resumed, passes) {
        (false, 1) => context.progress.rows_read() - read_before,
        _ => count_rows(&compiled, &context.state).await?,
    };
    Ok(work.built(SegmentFacts { source_rows, droppable_joins, key_bounds }))
}

/// Makes one segment of several whose ranges are neighbours: equal cells are merged, no row is read.
pub(crate) async fn merge(
    cube: &ReadyCube,
    wanted: &WantedSegment,
    segments: &[SegmentEntry],
    context: &BuildContext,
) -> Result<BuiltSegment> {
    let compiled = compiled(cube)?;
    let order = sort_order(compiled, &context.state).await?;
    let (work, finished) = Work::begin(cube, compiled, wanted, context, order).await?;
    for set in cube.entry.definition.lattice().sets() {
        if !finished.iter().any(|cuboid| cuboid.dimensions == *set) {
            work.merge_one(*set, segments).await?;
        }
    }
    let mut droppable = segments.iter().map(|s| s.droppable_joins.clone());
    let first = droppable.next().unwrap_or_default();
    let droppable_joins =
        droppable.fold(first, |all, other| all.into_iter().filter(|i| other.contains(i)).collect());
    let bounds = segments.iter().filter_map(|segment| segment.key_bounds);
    let key_bounds = bounds.reduce(|(a, b), (c, d)| (a.min(c), b.max(d)));
    let source_rows = segments.iter().map(|segment| segment.source_rows).sum();
    Ok(work.built(SegmentFacts { source_rows, droppable_joins, key_bounds }))
}

fn compiled(cube: &ReadyCube) -> Result<&CompiledCube> {
    let name = &cube.entry.name;
    Ok(cube.compiled.as_ref().map_err(|reason| {
        QueryError::new(ErrorKind::InvalidDefinition, format!("cube `{name}` cannot be built: {reason}"))
    })?)
}

struct Work<'a> {
    name: &'a QualifiedName,
    compiled: &'a CompiledCube,
    context: &'a BuildContext,
    order: Vec<usize>,
    segment: NewSegment,
    writer: Writer,
}

impl<'a> Work<'a> {
    async fn begin(
        cube: &'a ReadyCube,
        compiled: &'a CompiledCube,
        wanted: &WantedSegment,
        context: &'a BuildContext,
        order: Vec<usize>,
    ) -> Result<(Self, Vec<CuboidEntry>)> {
        let (name, catalog) = (&cube.entry.name, &context.catalog);
        let (segment, mut finished) =
            NewSegment::begin_or_resume(name, wanted, catalog, &context.data_dir, &context.background)
                .await?;
        finished.retain(|cuboid| cube.entry.definition.grouping_sets.contains(&cuboid.dimensions));
        for cuboid in &finished {
            context.progress.add_cuboid(cuboid.bytes);
        }
        let writer = Writer::new(Arc::clone(&context.store), segment.folder().to_owned(), &context.config);
        Ok((Self { name, compiled, context, order, segment, writer }, finished))
    }

    fn built(self, facts: SegmentFacts) -> BuiltSegment {
        BuiltSegment { cube: self.name.clone(), segment: self.segment, facts }
    }

    /// All roots that are not finished, in one pass over the flat rows. When memory is too short for all at
    /// once, in several passes over a part of them each. Gives the number of passes too.
    async fn build_roots(
        &self,
        cube: &ReadyCube,
        finished: Vec<CuboidEntry>,
    ) -> Result<(Vec<CuboidEntry>, usize)> {
        let lattice = cube.entry.definition.lattice();
        let missing = |root: &DimensionSet| !finished.iter().any(|cuboid| cuboid.dimensions == *root);
        let roots: Vec<DimensionSet> = lattice.roots().filter(missing).collect();
        let (mut cuboids, mut passes) = (finished, 0);
        let mut waiting = vec![roots];
        while let Some(mut roots) = waiting.pop() {
            roots.retain(|root| !cuboids.iter().any(|cuboid| cuboid.dimensions == *root));
            if roots.is_empty() {
                continue;
            }
            passes += 1;
            match self.one_pass(&roots, passes, &self.context.state, &mut cuboids).await {
                Err(error) if error.kind == ErrorKind::ResourcesExhausted && roots.len() > 1 => {
                    tracing::info!(cube = %self.name, cuboids = roots.len(), "memory is short; building fewer at once");
                    let later = roots.split_off(roots.len() / 2);
                    waiting.extend([later, roots]);
                }
                Err(error) if error.kind == ErrorKind::ResourcesExhausted => {
                    passes += 1;
                    self.one_pass(&roots, passes, &self.context.frugal, &mut cuboids).await?;
                }
                outcome => outcome?,
            }
        }
        Ok((cuboids, passes))
    }

    /// Adds those of `roots` to `cuboids` that become whole.
    async fn one_pass(
        &self,
        roots: &[DimensionSet],
        pass: usize,
        state: &SessionState,
        cuboids: &mut Vec<CuboidEntry>,
    ) -> Result<()> {
        let flat = state.create_physical_plan(&self.compiled.flat).await?;
        let task = state.task_ctx();
        let (copies, feeders) = tee(&flat, roots.len(), &task, &self.context.progress)?;
        let mut writing = Vec::new();
        for (root, rows) in roots.iter().zip(copies) {
            let source = Source::Rows(rows);
            let plan = cuboid_plan(self.compiled, *root, source, self.partitions(), &self.order)?;
            let schema = self.compiled.cuboid_schema(*root);
            writing.push(self.writer.start(*root, pass, &plan, &schema, &task)?);
        }
        for cuboid in writing {
            cuboids.push(self.finish(cuboid.finish().await?).await?);
        }
        for feeder in feeders {
            SpawnedTask::join_unwind(feeder).await.map_err(QueryError::internal)?;
        }
        Ok(())
    }

    /// Every other cuboid from the smallest one that contains it.
    async fn roll_up(&self, cube: &ReadyCube, mut built: Vec<CuboidEntry>) -> Result<()> {
        for set in cube.entry.definition.lattice().sets() {
            if built.iter().any(|cuboid| cuboid.dimensions == *set) {
                continue;
            }
            let parents = built.iter().filter(|cuboid| cuboid.dimensions.is_superset(*set));
            let parent = parents.min_by_key(|cuboid| cuboid.rows).ok_or_else(|| {
                QueryError::internal(format!("cube `{}` has no parent for a cuboid", self.name))
            })?;
            let cuboid = self.roll_up_one(*set, parent).await?;
            built.push(cuboid);
        }
        Ok(())
    }

    async fn roll_up_one(&self, set: DimensionSet, parent: &CuboidEntry) -> Result<CuboidEntry> {
        let parts = vec![CuboidPart { folder: self.segment.folder().to_owned(), cuboid: parent.clone() }];
        self.write_from_states(set, parent.dimensions, parts).await
    }

    /// The same cuboid of several segments as one.
    async fn merge_one(&self, set: DimensionSet, segments: &[SegmentEntry]) -> Result<CuboidEntry> {
        let cuboids = segments.iter().filter_map(|segment| {
            let cuboid = segment.cuboids.iter().find(|cuboid| cuboid.dimensions == set)?;
            Some(CuboidPart { folder: segment.location.clone(), cuboid: cuboid.clone() })
        });
        let parts: Vec<CuboidPart> = cuboids.collect();
        if parts.len() != segments.len() {
            return Err(QueryError::internal(format!("a segment of cube `{}` lacks a cuboid", self.name)));
        }
        self.context.progress.add_rows(rows_of(&parts));
        self.write_from_states(set, set, parts).await
    }

    async fn write_from_states(
        &self,
        set: DimensionSet,
        parent: DimensionSet,
        parts: Vec<CuboidPart>,
    ) -> Result<CuboidEntry> {
        let first = self.try_from_states(set, parent, parts.clone(), 1, &self.context.state).await;
        match first {
            Err(error) if error.kind == ErrorKind::ResourcesExhausted => {
                self.try_from_states(set, parent, parts, 2, &self.context.frugal).await
            }
            outcome => outcome,
        }
    }

    async fn try_from_states(
        &self,
        set: DimensionSet,
        parent: DimensionSet,
        parts: Vec<CuboidPart>,
        pass: usize,
        state: &SessionState,
    ) -> Result<CuboidEntry> {
        let partitions = if rows_of(&parts) < SINGLE_FILE_CELLS { 1 } else { self.partitions() };
        let states = self.read(parent, parts)?;
        let source = Source::States(states, parent);
        let plan = cuboid_plan(self.compiled, set, source, partitions, &self.order)?;
        let schema = self.compiled.cuboid_schema(set);
        let writing = self.writer.start(set, pass, &plan, &schema, &state.task_ctx())?;
        self.finish(writing.finish().await?).await
    }

    /// Finished cuboids as a plan, divided among the cores when it is large.
    fn read(&self, set: DimensionSet, parts: Vec<CuboidPart>) -> Result<Arc<dyn ExecutionPlan>> {
        let small = rows_of(&parts) < SINGLE_FILE_CELLS;
        let table = CuboidTable::new(parts, self.compiled.cuboid_schema(set));
        let scan = table.scan_files(&self.context.state, None, None)?;
        if small {
            return Ok(scan);
        }
        let options = self.context.state.config_options();
        Ok(scan.repartitioned(self.partitions(), options)?.unwrap_or(scan))
    }

    async fn finish(&self, cuboid: CuboidEntry) -> Result<CuboidEntry> {
        self.segment.add(&cuboid).await?;
        self.context.progress.add_cuboid(cuboid.bytes);
        tracing::debug!(cube = %self.name, cuboid = %cuboid.dimensions, rows = cuboid.rows, "cuboid built");
        Ok(cuboid)
    }

    fn partitions(&self) -> usize {
        self.context.state.config().target_partitions()
    }
}

fn rows_of(parts: &[CuboidPart]) -> u64 {
    parts.iter().map(|part| part.cuboid.rows).sum()
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
