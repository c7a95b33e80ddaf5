//! Making cuboids: from rows, from other cuboids, or from both.

use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{Column, HashSet};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::ExecutionPlan;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use nyala_model::{CubeEntry, CuboidEntry, DimensionSet, SegmentEntry};
use nyala_sql::error::{ErrorKind, QueryError, Result};

use super::coded::Coding;
use super::home::Home;
use super::order::Order;
use super::pipeline::{Source, cuboid_plan};
use super::run::BuildContext;
use super::tee::tee;
use super::writer::{Writer, WritingCuboid};
use crate::cube::compile::CompiledCube;
use crate::cube::measure::Argument;
use crate::cube::rewrite::ReadyCube;
use crate::scan::{CuboidPart, CuboidTable};

/// A cuboid rolled up from fewer cells than this is written as one file.
const SINGLE_FILE_CELLS: u64 = 262_144;

/// A cuboid that is made from rows.
#[derive(Debug, Clone)]
pub struct Root {
    pub set: DimensionSet,
    /// A cuboid that has the states of older measures, which then need no rows.
    pub states: Option<CuboidEntry>,
}

impl Root {
    pub fn of_rows(set: DimensionSet) -> Self {
        Self { set, states: None }
    }

    /// The first measure that is computed from rows.
    fn first_measure(&self) -> u32 {
        self.states.as_ref().map_or(0, |cuboid| cuboid.measures)
    }
}

/// How much memory a pass over the rows takes.
#[derive(Debug, Clone, Copy)]
enum Manner {
    /// Takes all available memory, and more for dictionaries of dimensions.
    Fast,
    /// Has few operators at a time, with fair shares of memory and without dictionaries: for retries after memory ran out.
    Frugal,
}

pub struct Work<'a> {
    cube: &'a CubeEntry,
    compiled: &'a CompiledCube,
    context: &'a BuildContext,
    order: Order,
    home: Home<'a>,
    writer: Writer,
}

impl<'a> Work<'a> {
    pub(super) fn new(
        (cube, compiled): (&'a ReadyCube, &'a CompiledCube),
        context: &'a BuildContext,
        order: Order,
        home: Home<'a>,
    ) -> Self {
        let (store, place) = (Arc::clone(&context.store), (home.folder(), home.mark()));
        let writer = Writer::new(store, place, cube.entry.definition.next_measure, &context.config);
        Self { cube: &cube.entry, compiled, context, order, home, writer }
    }

    /// Builds all `roots` that are not `finished` in one pass over the flat rows. When memory is too short for
    /// all at once, makes several passes over a part of them each. Returns the number of passes too.
    pub(super) async fn build_roots(
        &self,
        roots: Vec<Root>,
        finished: Vec<CuboidEntry>,
    ) -> Result<(Vec<CuboidEntry>, usize)> {
        let (mut cuboids, mut passes) = (finished, 0);
        let mut waiting = vec![roots];
        while let Some(mut roots) = waiting.pop() {
            roots.retain(|root| !cuboids.iter().any(|cuboid| cuboid.dimensions == root.set));
            if roots.is_empty() {
                continue;
            }
            passes += 1;
            match self.one_pass(&roots, passes, Manner::Fast, &mut cuboids).await {
                Err(error) if error.kind == ErrorKind::ResourcesExhausted && roots.len() > 1 => {
                    tracing::info!(cube = %self.cube.name, cuboids = roots.len(), "memory is short; building fewer at once");
                    tracing::debug!(%error, "what memory was short for");
                    let later = roots.split_off(roots.len() / 2);
                    waiting.extend([later, roots]);
                }
                Err(error) if error.kind == ErrorKind::ResourcesExhausted => {
                    passes += 1;
                    self.one_pass(&roots, passes, Manner::Frugal, &mut cuboids).await?;
                }
                outcome => outcome?,
            }
        }
        Ok((cuboids, passes))
    }

    /// Adds each of `roots` to `cuboids` when it is whole.
    async fn one_pass(
        &self,
        roots: &[Root],
        pass: usize,
        manner: Manner,
        cuboids: &mut Vec<CuboidEntry>,
    ) -> Result<()> {
        let (state, coding) = match manner {
            Manner::Fast => (&self.context.state, self.coding(roots)?),
            Manner::Frugal => (&self.context.frugal, None),
        };
        let rows = match &coding {
            Some(coding) => coding.flat(self.compiled)?,
            None => self.rows_for(roots)?,
        };
        let flat = state.create_physical_plan(&rows).await?;
        let task = state.task_ctx();
        let (copies, feeders) = tee(&flat, roots.len(), &task, &self.context.progress)?;
        let mut writing = Vec::new();
        for (root, rows) in roots.iter().zip(copies) {
            let plan = self.root_plan(root, rows, coding.as_ref(), state)?;
            let schema = self.compiled.cuboid_schema(root.set);
            writing.push(self.writer.start(root.set, pass, &plan, &schema, &task)?);
        }
        // Each cuboid is recorded when it is whole, so that a crash loses only unfinished ones.
        let mut finishing: FuturesUnordered<_> = writing.into_iter().map(WritingCuboid::finish).collect();
        while let Some(cuboid) = finishing.next().await {
            cuboids.push(self.finish(cuboid?).await?);
        }
        for feeder in feeders {
            SpawnedTask::join_unwind(feeder).await.map_err(QueryError::internal)?;
        }
        Ok(())
    }

    /// The plan of one root from its copy of the rows.
    fn root_plan(
        &self,
        root: &Root,
        rows: Arc<dyn ExecutionPlan>,
        coding: Option<&Coding>,
        state: &SessionState,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(coding) = coding.filter(|_| !root.set.is_empty()) {
            return coding.cuboid_plan(self.compiled, root.set, rows, partitions_of(state));
        }
        let source = match &root.states {
            None => Source::Rows(rows),
            Some(old) => {
                let states = self.read(vec![self.part(old)], old.dimensions, old.measures, state)?;
                Source::Added { rows, states, measures: old.measures }
            }
        };
        cuboid_plan(self.compiled, root.set, source, partitions_of(state), &self.order.dimensions)
    }

    /// Codes for the dimensions, unless rows are to be added to cells that have values.
    fn coding(&self, roots: &[Root]) -> Result<Option<Coding>> {
        if roots.iter().any(|root| root.states.is_some()) {
            return Ok(None);
        }
        let pool = &self.context.state.runtime_env().memory_pool;
        Coding::new(self.compiled, &self.order, pool).map(Some)
    }

    /// The flat rows with the columns that `roots` need.
    fn rows_for(&self, roots: &[Root]) -> Result<LogicalPlan> {
        let flat = self.compiled.flat.clone();
        let first = roots.iter().map(Root::first_measure).min().unwrap_or(0);
        if first == 0 {
            return Ok(flat);
        }
        let sets = roots.iter().fold(DimensionSet::EMPTY, |all, root| all.union(root.set));
        let dimensions = sets.iter().filter_map(|i| self.compiled.dimensions.get(i)).map(|d| &d.field);
        let calls = self.compiled.measures.iter().filter(|measure| measure.number >= first);
        let arguments = calls.flat_map(|measure| {
            let columns = measure.call.arguments.iter().filter_map(|argument| match argument {
                Argument::Column(field) => Some(field),
                Argument::Constant(_) => None,
            });
            columns.chain(&measure.call.filter)
        });
        let needed: HashSet<&str> = dimensions.chain(arguments).map(|field| field.name().as_str()).collect();
        let fields = self.compiled.flat_schema.fields();
        let kept = fields.iter().map(|field| field.name().as_str()).filter(|name| needed.contains(name));
        let mut columns: Vec<Expr> = kept.map(|name| Expr::Column(Column::new_unqualified(name))).collect();
        if columns.is_empty() {
            // Rows without any column could not be counted.
            let first = fields.iter().take(1);
            columns.extend(first.map(|field| Expr::Column(Column::new_unqualified(field.name()))));
        }
        Ok(LogicalPlanBuilder::from(flat).project(columns)?.build()?)
    }

    /// Builds the cuboids over `sets`, given largest first, each from the smallest one that contains it.
    pub(super) async fn roll_up(&self, sets: &[DimensionSet], mut built: Vec<CuboidEntry>) -> Result<()> {
        for set in sets {
            let parents = built.iter().filter(|cuboid| cuboid.dimensions.is_superset(*set));
            let parent = parents.min_by_key(|cuboid| (cuboid.rows, cuboid.repeats)).ok_or_else(|| {
                QueryError::internal(format!("cube `{}` has no parent for a cuboid", self.cube.name))
            })?;
            let cuboid = self.write_from_states(*set, vec![self.part(parent)]).await?;
            built.push(cuboid);
        }
        Ok(())
    }

    /// A cuboid of the segment.
    fn part(&self, cuboid: &CuboidEntry) -> CuboidPart {
        CuboidPart { folder: self.home.folder().to_owned(), cuboid: cuboid.clone() }
    }

    /// Merges one cuboid of several segments into one.
    pub(super) async fn merge_one(
        &self,
        set: DimensionSet,
        segments: &[SegmentEntry],
    ) -> Result<CuboidEntry> {
        let cuboids = segments.iter().filter_map(|segment| {
            let cuboid = segment.cuboids.iter().find(|cuboid| cuboid.dimensions == set)?;
            Some(CuboidPart { folder: segment.location.clone(), cuboid: cuboid.clone() })
        });
        let parts: Vec<CuboidPart> = cuboids.collect();
        let whole = parts.iter().all(|part| self.cube.definition.is_current(&part.cuboid));
        if parts.len() != segments.len() || !whole {
            let message = format!("a segment of cube `{}` lacks a cuboid", self.cube.name);
            return Err(QueryError::internal(message));
        }
        self.context.progress.add_rows(rows_of(&parts));
        self.write_from_states(set, parts).await
    }

    /// `parts` are of one set of dimensions and have all measures.
    async fn write_from_states(&self, set: DimensionSet, parts: Vec<CuboidPart>) -> Result<CuboidEntry> {
        let first = self.try_from_states(set, parts.clone(), 1, &self.context.state).await;
        match first {
            Err(error) if error.kind == ErrorKind::ResourcesExhausted => {
                self.try_from_states(set, parts, 2, &self.context.frugal).await
            }
            outcome => outcome,
        }
    }

    async fn try_from_states(
        &self,
        set: DimensionSet,
        parts: Vec<CuboidPart>,
        pass: usize,
        state: &SessionState,
    ) -> Result<CuboidEntry> {
        let partitions = if rows_of(&parts) < SINGLE_FILE_CELLS { 1 } else { partitions_of(state) };
        let parent = parts.first().map_or(set, |part| part.cuboid.dimensions);
        let source = Source::States(self.read(parts, parent, u32::MAX, state)?, parent);
        let plan = cuboid_plan(self.compiled, set, source, partitions, &self.order.dimensions)?;
        let schema = self.compiled.cuboid_schema(set);
        let writing = self.writer.start(set, pass, &plan, &schema, &state.task_ctx())?;
        self.finish(writing.finish().await?).await
    }

    /// Finished cuboids as a plan, divided among the cores when it is large.
    fn read(
        &self,
        parts: Vec<CuboidPart>,
        set: DimensionSet,
        measures: u32,
        state: &SessionState,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let small = rows_of(&parts) < SINGLE_FILE_CELLS;
        let table = CuboidTable::new(parts, self.compiled.cuboid_schema_before(set, measures));
        let scan = table.scan_files(state, None, None)?;
        if small {
            return Ok(scan);
        }
        let options = state.config_options();
        Ok(scan.repartitioned(partitions_of(state), options)?.unwrap_or(scan))
    }

    async fn finish(&self, cuboid: CuboidEntry) -> Result<CuboidEntry> {
        self.home.add(&cuboid).await?;
        self.context.progress.add_cuboid(cuboid.bytes);
        tracing::debug!(cube = %self.cube.name, cuboid = %cuboid.dimensions, rows = cuboid.rows, "cuboid built");
        Ok(cuboid)
    }
}

fn partitions_of(state: &SessionState) -> usize {
    state.config().target_partitions()
}

fn rows_of(parts: &[CuboidPart]) -> u64 {
    parts.iter().map(|part| part.cuboid.rows).sum()
}
