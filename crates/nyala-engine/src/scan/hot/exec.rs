//! The scan of hot cuboids.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Statistics, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, ReplaceChildrenOptions, SchedulingType,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use datafusion::prelude::SessionConfig;
use futures::StreamExt;

use super::cuboid::HotCuboid;

/// Up to this many rows one partition is faster than any division of work.
const SINGLE_PARTITION_ROWS: usize = 131_072;

/// Rows of a cuboid that become one batch.
#[derive(Debug, Clone)]
struct Piece {
    cuboid: Arc<HotCuboid>,
    ranges: Vec<Range<usize>>,
    rows: usize,
}

/// Gives blocks of cuboids from memory.
#[derive(Debug)]
pub(crate) struct HotCuboidExec {
    /// Positions of the columns it gives, in the schema of the cuboids.
    columns: Vec<usize>,
    schema: SchemaRef,
    partitions: Vec<Vec<Piece>>,
    /// Rows it gives, and rows there would be without skipping.
    rows: usize,
    total: usize,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl HotCuboidExec {
    /// A scan of some ranges of each cuboid. Few rows come in one partition, many in about as many as
    /// `config` aims at. `schema` is that of the `columns`.
    pub(crate) fn new(
        cuboids: Vec<(Arc<HotCuboid>, Vec<Range<usize>>)>,
        columns: Vec<usize>,
        schema: SchemaRef,
        config: &SessionConfig,
    ) -> Self {
        let total = cuboids.iter().map(|(cuboid, _)| cuboid.rows()).sum();
        let pieces: Vec<Piece> = cuboids
            .into_iter()
            .flat_map(|(cuboid, ranges)| gather(&cuboid, ranges, config.batch_size()))
            .collect();
        let rows = pieces.iter().map(|piece| piece.rows).sum();
        let partitions = if rows <= SINGLE_PARTITION_ROWS { 1 } else { config.target_partitions() };
        let partitions = divide(pieces, rows, partitions);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(partitions.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        let metrics = ExecutionPlanMetricsSet::new();
        Self { columns, schema, partitions, rows, total, properties: Arc::new(properties), metrics }
    }
}

/// Ranges that fit in one batch come in one: what each operator does for a batch, whatever its size, takes
/// longer than copying a few rows.
fn gather(cuboid: &Arc<HotCuboid>, ranges: Vec<Range<usize>>, most: usize) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for range in ranges {
        match pieces.last_mut() {
            Some(piece) if piece.rows + range.len() <= most => {
                piece.rows += range.len();
                piece.ranges.push(range);
            }
            _ => {
                let rows = range.len();
                pieces.push(Piece { cuboid: Arc::clone(cuboid), ranges: vec![range], rows });
            }
        }
    }
    pieces
}

/// Neighbours stay together; every part has about as many rows.
fn divide(pieces: Vec<Piece>, rows: usize, parts: usize) -> Vec<Vec<Piece>> {
    let share = rows.div_ceil(parts.max(1)).max(1);
    let mut divided = vec![Vec::new()];
    let mut room = share;
    for piece in pieces {
        if room == 0 {
            divided.push(Vec::new());
            room = share;
        }
        room = room.saturating_sub(piece.rows);
        if let Some(part) = divided.last_mut() {
            part.push(piece);
        }
    }
    divided
}

impl DisplayAs for HotCuboidExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                let names: Vec<&str> = self.schema.fields().iter().map(|f| f.name().as_str()).collect();
                write!(
                    f,
                    "HotCuboidExec: rows={} of {}, partitions={}, columns=[{}]",
                    self.rows,
                    self.total,
                    self.partitions.len(),
                    names.join(", ")
                )
            }
            DisplayFormatType::TreeRender => write!(f, "rows={} of {}", self.rows, self.total),
        }
    }
}

impl ExecutionPlan for HotCuboidExec {
    fn name(&self) -> &'static str {
        "HotCuboidExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let pieces = self.partitions.get(partition);
        let pieces = pieces.ok_or_else(|| internal_datafusion_err!("there is no partition {partition}"))?;
        let (schema, columns) = (Arc::clone(&self.schema), self.columns.clone());
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let batches = futures::stream::iter(pieces.clone()).map(move |piece| {
            let _timer = metrics.elapsed_compute().timer();
            let batch = piece.cuboid.batch(&schema, &columns, &piece.ranges);
            metrics.record_output(piece.rows);
            batch
        });
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let rows = match args.partition() {
            Some(partition) => {
                let pieces = self.partitions.get(partition).into_iter().flatten();
                pieces.map(|piece| piece.rows).sum()
            }
            None => self.rows,
        };
        Ok(Arc::new(Statistics {
            num_rows: Precision::Exact(rows),
            total_byte_size: Precision::Absent,
            column_statistics: vec![ColumnStatistics::new_unknown(); self.schema.fields().len()],
        }))
    }
}
