//! The operator that scans a live table.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Statistics};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::utils::reassign_expr_columns;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, ReplaceChildrenOptions, SchedulingType,
};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::projection::{ProjectionExec, all_alias_free_columns};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};

use super::conditions::Conditions;
use super::reader::{Reader, ReaderMetrics, joined};
use super::source::{LiveScan, conform};

/// One row in this many is taken to fulfil conditions, which is DataFusion's default for conditions it knows nothing about.
const CHOSEN_ONE_IN: usize = 5;

/// Scans a live table.
#[derive(Debug, Clone)]
pub struct LiveScanExec {
    scan: LiveScan,
    /// The conditions on rows, in terms of the columns of `scan`.
    conditions: Conditions,
    /// Rows of the version that is read, if its store was open when this was planned.
    rows: Option<u64>,
    batch_rows: usize,
    /// Properties of the output. Its schema has only the columns that are asked for.
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl LiveScanExec {
    pub(in crate::live) fn new(scan: LiveScan, partitions: usize, batch_rows: usize) -> Result<Self> {
        // A store that cannot be read is an error before the first row: then another node may have it.
        let open = scan.table.ready()?;
        let rows = match scan.keys {
            Some(_) => None,
            None => open.map(|table| scan.rows_of(&scan.pin(&table))),
        };
        let partitions = if scan.is_little(rows) { 1 } else { partitions.max(1) };
        Ok(Self {
            rows,
            batch_rows: batch_rows.max(1),
            properties: properties(Arc::clone(&scan.schema), partitions),
            metrics: ExecutionPlanMetricsSet::new(),
            conditions: Conditions::default(),
            scan,
        })
    }

    /// Whether the scan reads so few rows that other statements do not notice it.
    pub fn is_little(&self) -> bool {
        self.scan.is_little(self.rows)
    }

    /// Batches of one partition; `share` is its number, and the number of partitions.
    async fn read(
        self,
        share: (usize, usize),
        metrics: ReaderMetrics,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let (given, scan) = (self.schema(), self.scan);
        let table = scan.table.opened().await?;
        if let Some(keys) = scan.keys.clone() {
            let (scan, table) = (scan.clone(), table.clone());
            let found = if table.is_loaded() {
                scan.look_up(&table, &keys)?
            } else {
                tokio::task::spawn_blocking(move || scan.look_up(&table, &keys)).await.map_err(joined)??
            };
            if let Some(rows) = found {
                return Ok(futures::stream::iter([conform(&rows, &given)]).boxed());
            }
        }
        let reader = Reader::new(&scan, table, share, &self.conditions, (&given, self.batch_rows), metrics)?;
        Ok(reader.batches())
    }

    fn partitions(&self) -> usize {
        self.properties.partitioning.partition_count()
    }

    /// The scan with other conditions, before its first run.
    fn with_conditions(&self, conditions: Conditions) -> Self {
        Self { conditions, metrics: ExecutionPlanMetricsSet::new(), ..self.clone() }
    }
}

fn properties(given: SchemaRef, partitions: usize) -> Arc<PlanProperties> {
    let properties = PlanProperties::new(
        EquivalenceProperties::new(given),
        Partitioning::UnknownPartitioning(partitions),
        EmissionType::Incremental,
        Boundedness::Bounded,
    );
    Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative))
}

impl DisplayAs for LiveScanExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.scan.table.entry().name;
        if matches!(format, DisplayFormatType::TreeRender) {
            return write!(f, "table={name}");
        }
        let given = self.schema();
        let columns: Vec<&str> = given.fields().iter().map(|field| field.name().as_str()).collect();
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
        if let Some(bounds) = &self.scan.bounds {
            write!(f, ", parts={}", bounds.predicate_expr())?;
        }
        match self.conditions.is_empty() {
            true => Ok(()),
            false => write!(f, ", filter={}", self.conditions),
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
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for condition in self.conditions.all() {
            if visit(condition)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
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
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let reading = ReaderMetrics {
            skipped: MetricBuilder::new(&self.metrics).counter("parts_skipped", partition),
            time: metrics.elapsed_compute().clone(),
        };
        let begin = self.clone().read((partition, self.partitions()), reading);
        let batches = futures::stream::once(begin)
            .try_flatten()
            .inspect_ok(move |batch: &RecordBatch| metrics.record_output(batch.num_rows()));
        let batches = RecordBatchStreamAdapter::new(self.schema(), batches.boxed());
        Ok(Box::pin(cooperative(batches)))
    }

    /// Takes conditions over: filters for good, and dynamic filters that other operators narrow while they run.
    fn handle_child_pushdown_result(
        &self,
        _phase: FilterPushdownPhase,
        offered: ChildPushdownResult,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        // A look-up by key gives few rows, so that conditions need not be checked earlier.
        if self.scan.keys.is_some() {
            return Ok(FilterPushdownPropagation::if_all(offered));
        }
        let mut conditions = self.conditions.clone();
        let taken = offered.parent_filters.into_iter().map(|offer| {
            let condition = reassign_expr_columns(offer.filter, &self.scan.schema)?;
            Ok(conditions.take(condition))
        });
        let taken = taken.collect::<Result<Vec<PushedDown>>>()?;
        let some = taken.iter().any(|taken| matches!(taken, PushedDown::Yes));
        let answer = FilterPushdownPropagation::with_parent_pushdown_result(taken);
        Ok(match some {
            true => answer.with_updated_node(Arc::new(self.with_conditions(conditions))),
            false => answer,
        })
    }

    /// Leaves columns out that only conditions read.
    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let narrower = projection.expr().len() < self.schema().fields().len();
        if !narrower || !all_alias_free_columns(projection.expr()) {
            return Ok(None);
        }
        let properties = properties(projection.schema(), self.partitions());
        Ok(Some(Arc::new(Self { properties, ..self.clone() })))
    }

    /// Forgets the dynamic filters: they are only valid for the rows that operators above read in this run.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.with_conditions(self.conditions.only_fixed())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let chosen = |rows: usize| match self.conditions.has_fixed() {
            true => rows.div_ceil(CHOSEN_ONE_IN),
            false => rows,
        };
        let exact = self.scan.bounds.is_none() && self.conditions.is_empty();
        let rows = match (self.rows, args.partition()) {
            (Some(rows), None) if exact => Precision::Exact(rows as usize),
            (Some(rows), None) => Precision::Inexact(chosen(rows as usize)),
            (Some(rows), Some(_)) => Precision::Inexact(chosen(rows as usize) / self.partitions().max(1)),
            (None, _) => match &self.scan.keys {
                Some(keys) => Precision::Inexact(keys.num_rows()),
                None => Precision::Absent,
            },
        };
        Ok(Arc::new(Statistics {
            num_rows: rows,
            total_byte_size: Precision::Absent,
            column_statistics: vec![ColumnStatistics::new_unknown(); self.schema().fields().len()],
        }))
    }
}
