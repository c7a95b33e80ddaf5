//! The operator that groups and orders cells of a hot cuboid.

use std::fmt;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;

use super::answer::{answer, of_nothing};
use super::keys::Packing;
use super::shape::{Column, Shape};
use crate::scan::hot::exec::HotCuboidExec;
use crate::scan::hot::metrics::OperatorMetrics;

/// Memory of each row, in bytes: its position, its keys and its group.
const ROW_BYTES: usize = 20;
/// Memory of each value, in bytes, for every row and column.
const VALUE_BYTES: usize = 16;

/// Merges and orders cells of one hot cuboid.
#[derive(Debug)]
pub struct HotGroupsExec {
    /// A [`HotCuboidExec`] of few rows.
    scan: Arc<dyn ExecutionPlan>,
    shape: Arc<Shape>,
    /// The general plan that this replaces.
    general: Arc<dyn ExecutionPlan>,
    metrics: ExecutionPlanMetricsSet,
}

impl HotGroupsExec {
    /// The operator in the place of `plan`; none if the plan does other work, or is not slower.
    pub fn instead_of(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let (shape, scan) = Shape::of(plan)?;
        if shape.merging.is_none() && shape.order.is_empty() {
            return None;
        }
        Self::over(scan, Arc::new(shape), Arc::clone(plan))
    }

    /// The operator over other rows of the scan; none if the cuboid in memory has no keys that fit, or too many rows are left.
    pub fn with_scan(&self, scan: Arc<dyn ExecutionPlan>) -> Option<Self> {
        Self::over(scan, Arc::clone(&self.shape), Arc::clone(&self.general))
    }

    fn over(
        scan: Arc<dyn ExecutionPlan>,
        shape: Arc<Shape>,
        general: Arc<dyn ExecutionPlan>,
    ) -> Option<Self> {
        let cells = scan.downcast_ref::<HotCuboidExec>()?;
        let groups = shape.merging.as_ref().map_or(&[][..], |merging| &merging.groups);
        let fits =
            cells.is_little() && cells.cuboid().is_none_or(|cuboid| Packing::of(groups, cuboid).is_some());
        fits.then(|| Self { scan, shape, general, metrics: ExecutionPlanMetricsSet::new() })
    }

    /// The general plan that this replaces.
    pub fn general(&self) -> &Arc<dyn ExecutionPlan> {
        &self.general
    }

    fn over_new(&self, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let over = children.into_iter().next().and_then(|scan| self.with_scan(scan));
        let over = over.ok_or_else(|| internal_datafusion_err!("groups cannot be made of this input"))?;
        Ok(Arc::new(over))
    }

    fn cells(&self) -> Result<&HotCuboidExec> {
        let cells = self.scan.downcast_ref::<HotCuboidExec>();
        cells.ok_or_else(|| internal_datafusion_err!("groups of what is no hot cuboid"))
    }

    fn reserve(&self, cells: &HotCuboidExec, context: &TaskContext) -> Result<MemoryReservation> {
        let values = self.shape.columns.len();
        let reservation = MemoryConsumer::new("HotGroupsExec").register(context.memory_pool());
        reservation.try_grow(cells.most_rows().saturating_mul(ROW_BYTES + VALUE_BYTES * values))?;
        Ok(reservation)
    }
}

fn compute(shape: &Shape, scan: &Arc<dyn ExecutionPlan>) -> Result<RecordBatch> {
    let cells = scan.downcast_ref::<HotCuboidExec>();
    let Some((cells, cuboid)) = cells.and_then(|cells| Some((cells, cells.cuboid()?))) else {
        return of_nothing(shape);
    };
    let rows = cells.kept()?;
    if rows.rows() == 0 { of_nothing(shape) } else { answer(shape, cuboid, &rows) }
}

impl DisplayAs for HotGroupsExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let input = self.scan.schema();
        let cells = self.cells().map_err(|_| fmt::Error)?;
        let merging = self.shape.merging.as_ref();
        let name = |column: Column| match column {
            Column::Stored(position) => {
                let at = cells.output().iter().position(|output| *output == position);
                at.and_then(|at| input.fields().get(at)).map(|field| field.name().clone())
            }
            Column::Merged(number) => merging?.calls.get(number).map(|call| call.function.name().to_owned()),
            Column::Computed(number) => self.shape.computed.get(number).map(|of| of.expr.to_string()),
        };
        let name = |column: Column| name(column).unwrap_or_default();
        write!(f, "HotGroupsExec:")?;
        if let Some(merging) = merging {
            let groups = merging.groups.iter().map(|position| name(Column::Stored(*position)));
            let calls = (0..merging.calls.len()).map(|number| name(Column::Merged(number)));
            let (groups, calls): (Vec<_>, Vec<_>) = (groups.collect(), calls.collect());
            write!(f, " gby=[{}], aggr=[{}]", groups.join(", "), calls.join(", "))?;
        }
        if !self.shape.order.is_empty() {
            let order =
                self.shape.order.iter().map(|(column, options)| format!("{} {options}", name(*column)));
            write!(f, " order=[{}]", order.collect::<Vec<_>>().join(", "))?;
        }
        self.shape.fetch.map_or(Ok(()), |fetch| write!(f, ", fetch={fetch}"))
    }
}

impl ExecutionPlan for HotGroupsExec {
    fn name(&self) -> &'static str {
        "HotGroupsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.general.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.scan]
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.over_new(children)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.over_new(children)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition > 0 {
            return Err(internal_datafusion_err!("there is no partition {partition}"));
        }
        let reservation = self.reserve(self.cells()?, &context)?;
        let (shape, scan) = (Arc::clone(&self.shape), Arc::clone(&self.scan));
        let measured = OperatorMetrics::new(&self.metrics, partition);
        let batches = futures::stream::iter([scan]).map(move |scan| {
            let _reserved = &reservation;
            let _timer = measured.elapsed.timer();
            let batch = compute(&shape, &scan)?;
            measured.output_rows.add(batch.num_rows());
            Ok(batch)
        });
        let schema = Arc::clone(&self.shape.schema);
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(schema, batches))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.shape.schema)))
    }
}
