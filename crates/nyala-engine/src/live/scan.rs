//! The scan of a live table: all rows of one version, or the rows with some keys.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Statistics};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::pruning::PruningPredicate;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, ReplaceChildrenOptions, SchedulingType,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use nyala_storage::oplog::{LiveTable, LsnSet, Part, Projection, RowId, Version};

use super::pins::Pins;
use super::provider::ROW_VERSION;
use super::prune::matching;
use super::table::LiveRef;
use crate::error::{ErrorKind, QueryError};

/// Up to this many rows one partition is faster than any division of work.
const SINGLE_PARTITION_ROWS: u64 = 131_072;

/// What is read.
#[derive(Debug, Clone)]
pub(super) struct LiveScan {
    pub(super) table: Arc<LiveRef>,
    /// The columns, by name.
    pub(super) schema: SchemaRef,
    /// Only rows with these keys can be wanted.
    pub(super) keys: Option<RecordBatch>,
    /// Parts that this rules out need not be read.
    pub(super) bounds: Option<Arc<PruningPredicate>>,
    /// Only rows that were last written then are wanted.
    pub(super) written: Option<Arc<LsnSet>>,
    pub(super) pins: Arc<Pins>,
}

/// Gives rows of a live table.
#[derive(Debug)]
pub(crate) struct LiveScanExec {
    scan: LiveScan,
    /// Rows of the version that is read, if its store was open when this was planned.
    rows: Option<u64>,
    batch_rows: usize,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl LiveScanExec {
    pub(super) fn new(scan: LiveScan, partitions: usize, batch_rows: usize) -> Result<Self> {
        let rows = match scan.keys {
            Some(_) => None,
            None => scan.table.ready()?.map(|table| scan.rows_of(&scan.pin(&table))),
        };
        let little = scan.is_little(rows);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&scan.schema)),
            Partitioning::UnknownPartitioning(if little { 1 } else { partitions.max(1) }),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Self {
            scan,
            rows,
            batch_rows: batch_rows.max(1),
            properties: Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative)),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// Whether it reads so little that others do not notice.
    pub(crate) fn is_little(&self) -> bool {
        self.scan.is_little(self.rows)
    }
}

impl LiveScan {
    /// Whether few rows are read, of a version with so many.
    fn is_little(&self, rows: Option<u64>) -> bool {
        self.keys.is_some() || rows.is_some_and(|rows| rows <= SINGLE_PARTITION_ROWS)
    }

    fn pin(&self, table: &LiveTable) -> Arc<Version> {
        self.pins.get_or(self.table.entry().id, || table.version())
    }

    /// Rows of `version` that are wanted, as far as no condition rules them out.
    fn rows_of(&self, version: &Version) -> u64 {
        self.written.as_ref().map_or_else(|| version.rows(), |written| version.rows_written(written))
    }

    /// The columns in `version`, which may have others since this was planned.
    fn projection(&self, version: &Version) -> Result<Projection> {
        let known = version.schema();
        let altered = || {
            QueryError::new(
                ErrorKind::InUse,
                format!("table `{}` was altered meanwhile", self.table.entry().name),
            )
            .hint("try again")
        };
        let (mut columns, mut row_version) = (Vec::new(), false);
        for field in self.schema.fields() {
            match known.index_of(field.name()) {
                Ok(at) if known.field(at).data_type() == field.data_type() => columns.push(at),
                Err(_) if field.name() == ROW_VERSION => row_version = true,
                _ => return Err(altered().into()),
            }
        }
        Ok(version.projection(&columns, row_version).map_err(QueryError::from)?)
    }

    /// The rows with the keys; none if that cannot be told any more of the version that this statement reads.
    fn look_up(&self, table: &LiveTable, keys: &RecordBatch) -> Result<Option<RecordBatch>> {
        let id = self.table.entry().id;
        let (version, rows) = match self.pins.get(id) {
            Some(version) => {
                let rows = table.locate_in(&version, keys).map_err(QueryError::from)?;
                (version, rows)
            }
            None => {
                let found = table.locate(keys).map_err(QueryError::from)?;
                let version = self.pins.get_or(id, || Arc::clone(&found.version));
                // Another scan of this statement may have chosen a version meanwhile.
                let same = Arc::ptr_eq(&version, &found.version);
                (version, same.then_some(found.rows))
            }
        };
        let Some(rows) = rows else { return Ok(None) };
        let rows: Vec<RowId> = rows.into_iter().flatten().collect();
        let projection = self.projection(&version)?;
        let found = version.take(&rows, &projection).map_err(QueryError::from)?;
        conform(found, &self.schema).map(Some)
    }

    /// The share of one partition of all rows.
    fn rows(
        self,
        table: LiveTable,
        partition: usize,
        partitions: usize,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let version = self.pin(&table);
        let mut projection = self.projection(&version)?;
        let mut parts = version.parts().map_err(QueryError::from)?;
        if let Some(written) = &self.written {
            projection = projection.only_written(Arc::clone(written));
            parts.retain(|part| part.may_hold(written));
        }
        let projection = Arc::new(projection);
        if let Some(bounds) = &self.bounds {
            parts = matching(&version, parts, bounds)?;
        }
        let own: Vec<Part> = parts.into_iter().skip(partition).step_by(partitions.max(1)).collect();
        let schema = Arc::clone(&self.schema);
        let read = move |part: Part| {
            let (projection, table, schema) = (Arc::clone(&projection), table.clone(), Arc::clone(&schema));
            async move {
                // Memory is read at once, the disk by threads that may wait for it.
                let batch = if table.is_loaded() {
                    projection.read(&part)
                } else {
                    tokio::task::spawn_blocking(move || projection.read(&part)).await.map_err(joined)?
                };
                let batch = batch.map_err(QueryError::from)?;
                conform(batch, &schema)
            }
        };
        Ok(futures::stream::iter(own).then(read).boxed())
    }
}

/// The same columns under the names and the order of `schema`: the version comes last from storage.
fn conform(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let given = batch.schema();
    let column = |name: &String| given.index_of(name).map(|at| Arc::clone(batch.column(at)));
    let columns = schema.fields().iter().map(|field| column(field.name()));
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
    let options = arrow::record_batch::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

fn joined(error: tokio::task::JoinError) -> QueryError {
    QueryError::internal(format!("reading a live table ended early: {error}"))
}

/// Slices of at most so many rows.
fn slices(batch: RecordBatch, rows: usize) -> impl Iterator<Item = RecordBatch> {
    let total = batch.num_rows();
    (0..total).step_by(rows).map(move |from| batch.slice(from, rows.min(total - from)))
}

impl DisplayAs for LiveScanExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.scan.table.entry().name;
        if matches!(format, DisplayFormatType::TreeRender) {
            return write!(f, "table={name}");
        }
        let columns: Vec<&str> = self.scan.schema.fields().iter().map(|f| f.name().as_str()).collect();
        write!(f, "LiveScanExec: table={name}, columns=[{}]", columns.join(", "))?;
        if let Some(keys) = &self.scan.keys {
            write!(f, ", keys={}", keys.num_rows())?;
        }
        if let Some(written) = &self.scan.written {
            let ranges = written.ranges().iter().map(|range| match range.end() {
                &end if end < i64::MAX as u64 => format!("{} to {end}", range.start()),
                _ => format!("from {}", range.start()),
            });
            write!(f, ", written={}", ranges.collect::<Vec<_>>().join(" and "))?;
        }
        match &self.scan.bounds {
            Some(bounds) => write!(f, ", parts={}", bounds.predicate_expr()),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for LiveScanExec {
    fn name(&self) -> &'static str {
        "LiveScanExec"
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

    /// The version is chosen when the statement first reads, and is the same for all its scans.
    fn execute(&self, partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (scan, partitions) = (self.scan.clone(), self.properties.partitioning.partition_count());
        let begin = async move {
            let table = scan.table.opened().await?;
            if let Some(keys) = scan.keys.clone() {
                let (scan, table) = (scan.clone(), table.clone());
                let found = if table.is_loaded() {
                    scan.look_up(&table, &keys)
                } else {
                    tokio::task::spawn_blocking(move || scan.look_up(&table, &keys)).await.map_err(joined)?
                };
                if let Some(rows) = found? {
                    return Ok(futures::stream::iter([Ok(rows)]).boxed());
                }
            }
            scan.rows(table, partition, partitions)
        };
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let batch_rows = self.batch_rows;
        let batches = futures::stream::once(begin)
            .try_flatten()
            .map_ok(move |batch| futures::stream::iter(slices(batch, batch_rows).map(Ok)))
            .try_flatten()
            .inspect_ok(move |batch: &RecordBatch| metrics.record_output(batch.num_rows()));
        let batches = RecordBatchStreamAdapter::new(Arc::clone(&self.scan.schema), batches.boxed());
        Ok(Box::pin(cooperative(batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let rows = match (self.rows, args.partition()) {
            (Some(rows), None) if self.scan.bounds.is_none() => Precision::Exact(rows as usize),
            (Some(rows), None) => Precision::Inexact(rows as usize),
            (Some(rows), Some(_)) => {
                Precision::Inexact(rows as usize / self.properties.partitioning.partition_count().max(1))
            }
            (None, _) => match &self.scan.keys {
                Some(keys) => Precision::Inexact(keys.num_rows()),
                None => Precision::Absent,
            },
        };
        Ok(Arc::new(Statistics {
            num_rows: rows,
            total_byte_size: Precision::Absent,
            column_statistics: vec![ColumnStatistics::new_unknown(); self.scan.schema.fields().len()],
        }))
    }
}
