//! The roots of several segments from one pass over the rows of all.
//!
//! A pass for each segment would read its rows only where files are divided like the segments, and otherwise
//! all of them each time; and it would join and plan anew for each. Here the segment is the first dimension of
//! every root, and cells come segment by segment into files of their own. Each root is recorded in all segments
//! when it is whole; each segment is then completed like the segment of an interrupted build.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::runtime::SpawnedTask;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlanProperties;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use nyala_model::{CuboidEntry, CuboidFile, DimensionSet, SegmentRange};
use nyala_sql::error::{ErrorKind, QueryError, Result};

use super::batches::map_batches;
use super::coded::{Coding, SegmentCodes};
use super::keys::fact_rows_by;
use super::run::{BuildContext, RangeFacts, Survey, begin, compiled, count_finished, has};
use super::segment::{NewSegment, WantedSegment};
use super::spread::{Files, Tally, Written};
use super::tee::tee;
use super::writer::Writer;
use crate::cube::block::output_of;
use crate::cube::compile::CompiledCube;
use crate::cube::rewrite::ReadyCube;

/// Makes the roots of all `wanted` segments, which are left to be taken up. None if it cannot be done: then, as
/// after an error, they are built one by one.
pub async fn build_roots_together(
    cube: &ReadyCube,
    wanted: &[WantedSegment],
    survey: &Survey,
    context: &BuildContext,
) -> Result<Option<Vec<RangeFacts>>> {
    let ranges: Vec<SegmentRange> = wanted.iter().map(|segment| segment.range).collect();
    let (all, codes) = (compiled(cube)?, SegmentCodes::of(&ranges).map(Arc::new));
    let roots: Vec<DimensionSet> = cube.entry.definition.lattice().roots().collect();
    // A total has a cell even of no rows, which only an aggregation without groups gives.
    let (Some(codes), Some(key), false) = (codes, key_of(all), roots.contains(&DimensionSet::EMPTY)) else {
        return Ok(None);
    };
    let compiled = all.restricted_to(&ranges)?;
    let facts = fact_rows_by(&compiled, &codes, &context.state).await?;
    let mut homes = Vec::new();
    for wanted in wanted {
        homes.push(Slot::begin(cube, wanted, context).await?);
    }
    let pass = Together { cube, compiled: &compiled, survey, context, codes, key };
    let outcome = pass.build_roots(roots, &mut homes).await;
    let again = outcome
        .as_ref()
        .map_or_else(|error| error.transient || error.kind == ErrorKind::ResourcesExhausted, |_| true);
    if again {
        homes.into_iter().for_each(|slot| slot.segment.leave());
    }
    let Some(joined) = outcome? else { return Ok(None) };
    let facts = wanted.iter().zip(joined).zip(facts).map(|((wanted, joined), fact)| RangeFacts {
        range: wanted.range,
        sources: wanted.sources.clone(),
        joined,
        fact,
    });
    Ok(Some(facts.collect()))
}

/// The column of the joined rows that the cube is partitioned by.
fn key_of(cube: &CompiledCube) -> Option<Column> {
    match (&cube.flat, &cube.partition) {
        (LogicalPlan::Projection(flat), Some(partition)) => output_of(&flat.input, &partition.column(0)),
        _ => None,
    }
}

/// A segment and its finished cuboids.
struct Slot {
    segment: NewSegment,
    finished: Vec<CuboidEntry>,
    writer: Writer,
}

impl Slot {
    async fn begin(cube: &ReadyCube, wanted: &WantedSegment, context: &BuildContext) -> Result<Self> {
        let (segment, finished) = begin(cube, wanted, context).await?;
        count_finished(&finished, context);
        let (store, place) = (Arc::clone(&context.store), (segment.folder(), segment.mark()));
        let writer = Writer::new(store, place, cube.entry.definition.next_measure, &context.config);
        Ok(Self { segment, finished, writer })
    }
}

struct Together<'a> {
    cube: &'a ReadyCube,
    compiled: &'a CompiledCube,
    survey: &'a Survey,
    context: &'a BuildContext,
    codes: Arc<SegmentCodes>,
    key: Column,
}

impl Together<'_> {
    /// All roots that some segment lacks, in one pass or, where memory is too short, in several over a part of
    /// the roots each. Gives the joined rows of each segment, if there was anything to do.
    async fn build_roots(&self, roots: Vec<DimensionSet>, slots: &mut [Slot]) -> Result<Option<Vec<u64>>> {
        let (mut waiting, mut passes, mut joined) = (vec![roots], 0, None);
        while let Some(mut roots) = waiting.pop() {
            roots.retain(|root| slots.iter().any(|slot| !has(&slot.finished, *root)));
            if roots.is_empty() {
                continue;
            }
            passes += 1;
            match self.one_pass(&roots, passes, slots).await {
                Err(error) if error.kind == ErrorKind::ResourcesExhausted && roots.len() > 1 => {
                    tracing::info!(cube = %self.cube.entry.name, cuboids = roots.len(), "memory is short; building fewer at once");
                    tracing::debug!(%error, "what memory was short for");
                    let later = roots.split_off(roots.len() / 2);
                    waiting.extend([later, roots]);
                }
                outcome => joined = Some(outcome?),
            }
        }
        Ok(joined)
    }

    async fn one_pass(&self, roots: &[DimensionSet], pass: usize, slots: &mut [Slot]) -> Result<Vec<u64>> {
        let (state, progress) = (&self.context.state, &self.context.progress);
        let pool = &state.runtime_env().memory_pool;
        let coding = Coding::new(self.compiled, &self.survey.order, pool)?;
        let coding = coding.by_segment(&self.codes, self.key.clone());
        let flat = state.create_physical_plan(&coding.flat(self.compiled)?).await?;
        let tally = Arc::new(Tally::new(self.codes.len()));
        let counted = Arc::clone(&tally);
        let flat = map_batches(&flat, flat.schema(), move |batch| {
            counted.add(batch);
            Ok(batch.clone())
        })?;
        let task = state.task_ctx();
        let (copies, feeders) = tee(&flat, roots.len(), &task, progress)?;
        let mut writing = FuturesUnordered::new();
        for (root, rows) in roots.iter().zip(copies) {
            let partitions = state.config().target_partitions();
            let plan = coding.cuboid_plan(self.compiled, *root, rows, partitions)?;
            let mut files = Vec::new();
            for partition in 0..plan.output_partitioning().partition_count() {
                let stream = plan.execute(partition, Arc::clone(&task))?;
                files.push(SpawnedTask::spawn(self.files(*root, pass, partition, slots).write(stream)));
            }
            writing.push(whole(*root, files));
        }
        while let Some(root) = writing.next().await {
            let (root, files) = root?;
            self.record(root, pass, files, slots).await?;
        }
        for feeder in feeders {
            SpawnedTask::join_unwind(feeder).await.map_err(QueryError::internal)?;
        }
        Ok(tally.counts())
    }

    /// Where the cells of one partition of a root go: nowhere for segments that have the root.
    fn files(&self, root: DimensionSet, pass: usize, partition: usize, slots: &[Slot]) -> Files {
        let writers = slots.iter().map(|slot| (!has(&slot.finished, root)).then(|| slot.writer.clone()));
        let schema = self.compiled.cuboid_schema(root);
        Files { writers: writers.collect(), root, pass, partition, schema }
    }

    /// Records a root in all segments that lacked it.
    async fn record(
        &self,
        root: DimensionSet,
        pass: usize,
        files: Vec<(usize, CuboidFile)>,
        slots: &mut [Slot],
    ) -> Result<()> {
        for (i, slot) in slots.iter_mut().enumerate().filter(|(_, slot)| !has(&slot.finished, root)) {
            let own = files.iter().filter(|(segment, _)| *segment == i).map(|(_, file)| file.clone());
            let mut own: Vec<CuboidFile> = own.collect();
            if own.is_empty() {
                let schema = self.compiled.cuboid_schema(root);
                own.push(slot.writer.open(root, pass, 0, &schema)?.close().await?);
            }
            let cuboid = slot.writer.cuboid(root, own);
            slot.segment.add(&cuboid).await?;
            self.context.progress.add_cuboid(cuboid.bytes);
            slot.finished.push(cuboid);
        }
        tracing::debug!(cube = %self.cube.entry.name, cuboid = %root, segments = slots.len(), "cuboids built");
        Ok(())
    }
}

/// All files of a root, each with the position of its segment.
async fn whole(
    root: DimensionSet,
    tasks: Vec<SpawnedTask<Written>>,
) -> Result<(DimensionSet, Vec<(usize, CuboidFile)>)> {
    let mut files = Vec::new();
    for task in tasks {
        files.extend(task.join_unwind().await.map_err(QueryError::internal)??);
    }
    Ok((root, files))
}
