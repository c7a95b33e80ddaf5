//! The steps of a build.

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::SessionState;
use datafusion::physical_plan::ExecutionPlan;
use nyala_catalog::Catalog;
use nyala_model::config::BuildConfig;
use nyala_model::{CuboidEntry, DimensionSet, QualifiedName};
use object_store::ObjectStore;

use super::background::Background;
use super::joins::droppable_joins;
use super::order::sort_order;
use super::pipeline::{Source, cuboid_plan};
use super::progress::Progress;
use super::segment::NewSegment;
use super::tee::tee;
use super::writer::Writer;
use crate::cube::compile::CompiledCube;
use crate::cube::rewrite::ReadyCube;
use crate::error::{ErrorKind, QueryError, Result};
use crate::scan::CuboidTable;

/// A cuboid rolled up from fewer cells than this is written as one file.
const SINGLE_FILE_CELLS: u64 = 262_144;

/// What a build works with.
pub(crate) struct BuildContext {
    pub(crate) state: SessionState,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) data_dir: PathBuf,
    pub(crate) config: BuildConfig,
    pub(crate) background: Background,
    pub(crate) progress: Arc<Progress>,
}

/// Builds all cuboids of `cube` as one new segment and makes it visible. If it fails or is dropped,
/// nothing becomes visible and the space is given back.
pub(crate) async fn build(cube: &ReadyCube, context: &BuildContext) -> Result<()> {
    let name = &cube.entry.name;
    let compiled = cube.compiled.as_ref().map_err(|reason| {
        QueryError::new(ErrorKind::InvalidDefinition, format!("cube `{name}` cannot be built: {reason}"))
    })?;
    let order = sort_order(compiled, &context.state).await?;
    let droppable = droppable_joins(compiled, &context.state).await?;
    let segment = NewSegment::begin(name, &context.catalog, &context.data_dir, &context.background).await?;
    let writer = Writer::new(Arc::clone(&context.store), segment.folder().to_owned(), &context.config);
    let work = Work { name, compiled, context, order, segment, writer };
    let cuboids = work.build_roots(cube).await?;
    work.roll_up(cube, cuboids).await?;
    work.segment.publish(name, context.progress.rows_read(), droppable).await
}

struct Work<'a> {
    name: &'a QualifiedName,
    compiled: &'a CompiledCube,
    context: &'a BuildContext,
    order: Vec<usize>,
    segment: NewSegment,
    writer: Writer,
}

impl Work<'_> {
    /// All roots in one pass over the flat rows.
    async fn build_roots(&self, cube: &ReadyCube) -> Result<Vec<CuboidEntry>> {
        let roots: Vec<DimensionSet> = cube.entry.definition.lattice().roots().collect();
        let flat = self.context.state.create_physical_plan(&self.compiled.flat).await?;
        let task = self.context.state.task_ctx();
        let (copies, feeders) = tee(&flat, roots.len(), &task, &self.context.progress)?;
        let mut writing = Vec::new();
        for (root, rows) in roots.iter().zip(copies) {
            let source = Source::Rows(rows);
            let plan = cuboid_plan(self.compiled, *root, source, self.partitions(), &self.order)?;
            writing.push(self.writer.start(*root, &plan, &self.compiled.cuboid_schema(*root), &task)?);
        }
        let mut cuboids = Vec::new();
        for cuboid in writing {
            cuboids.push(self.finish(cuboid.finish().await?).await?);
        }
        for feeder in feeders {
            SpawnedTask::join_unwind(feeder).await.map_err(QueryError::internal)?;
        }
        Ok(cuboids)
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
        let partitions = if parent.rows < SINGLE_FILE_CELLS { 1 } else { self.partitions() };
        let states = self.read(parent)?;
        let source = Source::States(states, parent.dimensions);
        let plan = cuboid_plan(self.compiled, set, source, partitions, &self.order)?;
        let task = self.context.state.task_ctx();
        let writing = self.writer.start(set, &plan, &self.compiled.cuboid_schema(set), &task)?;
        self.finish(writing.finish().await?).await
    }

    /// A finished cuboid as a plan, divided among the cores when it is large.
    fn read(&self, cuboid: &CuboidEntry) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = self.compiled.cuboid_schema(cuboid.dimensions);
        let table = CuboidTable::new(cuboid.clone(), self.segment.folder().to_owned(), schema);
        let scan = table.scan_files(&self.context.state, None, None)?;
        if cuboid.rows < SINGLE_FILE_CELLS {
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
