//! The scan of hot cuboids.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
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
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::StreamExt;

use super::cache::{CuboidKey, HotCuboids};
use super::conditions::Conditions;
use super::cuboid::HotCuboid;
use super::metrics::OperatorMetrics;
use super::selection::Selection;
use super::values::Values;

/// Up to this many rows one partition is faster than any division of work.
const SINGLE_PARTITION_ROWS: usize = 131_072;

/// The fixed part of a scan, for any contents of memory and any choice of rows.
#[derive(Debug)]
pub struct HotScan {
    pub hot: Arc<HotCuboids>,
    pub keys: Vec<CuboidKey>,
    /// Positions in the schema of the cuboids of the columns that are read.
    pub columns: Vec<usize>,
    /// Schema of those columns.
    pub schema: SchemaRef,
    pub batch_rows: usize,
    /// Number of partitions of a large scan.
    pub partitions: usize,
}

/// Some ranges of the rows of each cuboid.
pub type Held = Vec<(Arc<HotCuboid>, Vec<Range<usize>>)>;

/// Rows of a cuboid that become one batch.
#[derive(Debug, Clone)]
struct Piece {
    cuboid: Arc<HotCuboid>,
    ranges: Vec<Range<usize>>,
    rows: usize,
}

/// Scans cuboids in memory.
#[derive(Debug)]
pub struct HotCuboidExec {
    scan: Arc<HotScan>,
    filter: Option<Conditions>,
    /// Positions of the output columns in the schema of the cuboids.
    output: Arc<[usize]>,
    schema: SchemaRef,
    partitions: Vec<Vec<Piece>>,
    /// Rows that are read, and rows that would be read without skipping.
    rows: usize,
    total: usize,
    /// Whether these counts are known. A plan without values chooses its rows when it gets the values.
    is_counted: bool,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl HotCuboidExec {
    /// A scan that chooses its rows once its parameters have values. Until then it has no rows, and gives that count as an estimate:
    /// an optimizer that relied on an exact count would drop limits, and answer counts with 0.
    pub fn without_values(scan: Arc<HotScan>) -> Self {
        Self { is_counted: false, ..Self::new(scan, Vec::new()) }
    }

    /// A scan of cuboids in memory. Few rows are in one partition, many in several.
    pub fn new(scan: Arc<HotScan>, held: Held) -> Self {
        let total = held.iter().map(|(cuboid, _)| cuboid.rows()).sum();
        let pieces: Vec<Piece> =
            held.into_iter().flat_map(|(cuboid, ranges)| gather(&cuboid, ranges, scan.batch_rows)).collect();
        let rows = pieces.iter().map(|piece| piece.rows).sum();
        let partitions = if rows <= SINGLE_PARTITION_ROWS { 1 } else { scan.partitions };
        let partitions = divide(pieces, rows, partitions);
        Self {
            filter: None,
            output: scan.columns.as_slice().into(),
            schema: Arc::clone(&scan.schema),
            properties: properties(EquivalenceProperties::new(Arc::clone(&scan.schema)), partitions.len()),
            metrics: ExecutionPlanMetricsSet::new(),
            scan,
            partitions,
            rows,
            total,
            is_counted: true,
        }
    }

    /// The scan with the work of a filter above it; none if the filter does more than choose rows and columns.
    pub fn with_filter(&self, filter: &FilterExec) -> Result<Option<Self>> {
        if self.filter.is_some() || filter.fetch().is_some() {
            return Ok(None);
        }
        let rows = Conditions::of(filter.predicate(), &self.scan.columns, &self.scan.schema)?;
        let output: Arc<[usize]> = match filter.projection() {
            Some(kept) => kept.iter().filter_map(|at| self.output.get(*at)).copied().collect(),
            None => Arc::clone(&self.output),
        };
        let schema = filter.schema();
        // Equivalences of the filter, such as constant columns, are kept.
        let properties = properties(filter.properties().eq_properties.clone(), self.partitions.len());
        Ok(Some(Self {
            filter: Some(rows),
            output,
            schema,
            properties,
            ..self.fresh(self.partitions.clone())
        }))
    }

    /// The scan with the values `given` in the place of its filter's parameters, over the present contents of memory. None if a
    /// cuboid is not in memory, or if so many rows are left that the work should be divided: then the query is planned anew.
    pub fn refiltered(&self, given: &dyn Values) -> Result<Option<Self>> {
        let scan = &self.scan;
        let conditions = self.filter.as_ref();
        let mut decided = conditions.map(Conditions::undecided);
        let (mut pieces, mut total, mut rows) = (Vec::new(), 0, 0);
        for key in &scan.keys {
            let Some(cuboid) = scan.hot.peek(key, &scan.columns) else { return Ok(None) };
            total += cuboid.rows();
            let ranges = match (&conditions, &mut decided) {
                (Some(conditions), Some(decided)) => {
                    conditions.ranges(&cuboid, given, decided, scan.batch_rows)?
                }
                _ => cuboid.all(scan.batch_rows),
            };
            for piece in gather(&cuboid, ranges, scan.batch_rows) {
                rows += piece.rows;
                pieces.push(piece);
            }
        }
        if rows > SINGLE_PARTITION_ROWS {
            return Ok(None);
        }
        let filter = match conditions.zip(decided) {
            Some((conditions, decided)) => conditions.left(&decided, given)?,
            None => None,
        };
        Ok(Some(Self { filter, rows, total, is_counted: true, ..self.fresh(vec![pieces]) }))
    }

    /// Positions of the output columns in the schema of the cuboids.
    pub(super) fn output(&self) -> &[usize] {
        &self.output
    }

    /// How many cuboids it reads, in memory or not.
    pub(super) fn cuboids(&self) -> usize {
        self.scan.keys.len()
    }

    /// Whether there are so few rows that all may be read at once: where work is never divided, one partition has whole
    /// cuboids.
    pub(super) fn is_little(&self) -> bool {
        self.partitions.len() <= 1 && self.rows <= SINGLE_PARTITION_ROWS
    }

    /// Largest number of rows of the output.
    pub(super) fn most_rows(&self) -> usize {
        self.rows
    }

    /// The first cuboid of which rows are read; none if no rows are read.
    pub(super) fn cuboid(&self) -> Option<&Arc<HotCuboid>> {
        self.partitions.iter().flatten().map(|piece| &piece.cuboid).next()
    }

    /// The rows of that cuboid in the output, all at once.
    pub(super) fn kept(&self) -> Result<Selection> {
        let measured = OperatorMetrics::new(&self.metrics, 0);
        let _timer = measured.elapsed.timer();
        let pieces = self.partitions.iter().flatten();
        let kept = match &self.filter {
            None => {
                Selection::ranges(&pieces.flat_map(|piece| piece.ranges.iter().cloned()).collect::<Vec<_>>())
            }
            filter => Selection::all(pieces.map(|piece| piece.kept(filter.as_ref())).collect::<Result<_>>()?),
        };
        measured.output_rows.add(kept.rows());
        Ok(kept)
    }

    /// The scan of other rows, without a filter.
    fn fresh(&self, partitions: Vec<Vec<Piece>>) -> Self {
        Self {
            scan: Arc::clone(&self.scan),
            filter: None,
            output: Arc::clone(&self.output),
            schema: Arc::clone(&self.schema),
            partitions,
            rows: self.rows,
            total: self.total,
            is_counted: self.is_counted,
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

fn properties(equivalences: EquivalenceProperties, partitions: usize) -> Arc<PlanProperties> {
    let properties = PlanProperties::new(
        equivalences,
        Partitioning::UnknownPartitioning(partitions),
        EmissionType::Incremental,
        Boundedness::Bounded,
    );
    Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative))
}

impl Piece {
    /// The rows of the piece that `filter` keeps.
    fn kept(&self, filter: Option<&Conditions>) -> Result<Selection> {
        let rows = Selection::ranges(&self.ranges);
        match filter {
            Some(filter) => filter.keep(&self.cuboid, rows),
            None => Ok(rows),
        }
    }

    /// The columns `output` of the rows that `filter` keeps; none if it keeps no row.
    fn read(
        &self,
        filter: Option<&Conditions>,
        output: &[usize],
        schema: &SchemaRef,
    ) -> Result<Option<RecordBatch>> {
        let rows = self.kept(filter)?;
        if rows.rows() == 0 {
            return Ok(None);
        }
        self.cuboid.batch(schema, output, &rows).map(Some)
    }
}

/// Joins ranges that fit into one batch: the fixed cost of a batch in each operator is higher than the cost of copying a
/// few rows.
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

/// Divides pieces into parts of about as many rows each. Neighbours stay together.
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
                )?;
                match self.filter.as_ref().map(Conditions::whole) {
                    Some(filter) => write!(f, ", filter={}", filter.map_err(|_| fmt::Error)?),
                    None => Ok(()),
                }
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
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut exprs = self.filter.iter().flat_map(Conditions::exprs);
        exprs.try_fold(TreeNodeRecursion::Continue, |recursion, expr| match recursion {
            TreeNodeRecursion::Stop => Ok(recursion),
            _ => visit(expr),
        })
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
        let (schema, output, filter) =
            (Arc::clone(&self.schema), Arc::clone(&self.output), self.filter.clone());
        let measured = OperatorMetrics::new(&self.metrics, partition);
        let read = move |piece: Piece| {
            let _timer = measured.elapsed.timer();
            let batch = piece.read(filter.as_ref(), &output, &schema).transpose();
            if let Some(Ok(batch)) = &batch {
                measured.output_rows.add(batch.num_rows());
            }
            // A piece without rows gives an empty batch, so that the stream can yield after each piece.
            batch.unwrap_or_else(|| Ok(RecordBatch::new_empty(Arc::clone(&schema))))
        };
        let batches = futures::stream::iter(pieces.clone()).map(read);
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
        // While the count is unknown, a small one is estimated: with many rows, the statement is planned anew.
        let is_exact = self.is_counted && self.filter.is_none();
        let num_rows = if is_exact { Precision::Exact(rows) } else { Precision::Inexact(rows) };
        Ok(Arc::new(Statistics {
            num_rows,
            total_byte_size: Precision::Absent,
            column_statistics: vec![ColumnStatistics::new_unknown(); self.schema.fields().len()],
        }))
    }
}
