//! Queries that one other node does as a whole, because they read too little to be divided.

use std::sync::Arc;

use datafusion::common::{internal_datafusion_err, internal_err};
use datafusion::error::Result;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_distributed::{DistributedExec, NetworkBoundary, NetworkCoalesceExec, Stage};
use nyala_cube::scan::SharedScan;
use uuid::Uuid;

use super::executors::Executors;
use super::leaves::parts_of;
use super::scan::HomeScanExec;

/// Usual length of values that have no fixed one.
const TEXT_BYTES: usize = 16;

/// The number of the executor that does all of a query, as an extension of the session in which the query is routed.
#[derive(Debug, Clone, Copy)]
pub struct WholeOn(pub usize);

/// The operators of a query as the only task of one stage; this node's own stage only receives its rows. The planner of
/// datafusion-distributed would leave a single task on this node.
pub fn as_one_task(plan: Arc<dyn ExecutionPlan>, is_measured: bool) -> Result<Arc<dyn ExecutionPlan>> {
    let mut plan = with_tables(plan)?;
    if plan.output_partitioning().partition_count() > 1 {
        plan = Arc::new(CoalescePartitionsExec::new(plan));
    }
    let boundary = NetworkCoalesceExec::try_new(plan, 1, 1)?;
    let Stage::Local(mut stage) = boundary.input_stage().clone() else {
        return internal_err!("a new stage has been sent already");
    };
    (stage.query_id, stage.num) = (Uuid::new_v4(), 1);
    let boundary: Arc<dyn ExecutionPlan> = boundary.with_input_stage(Stage::Local(stage))?;
    Ok(Arc::new(DistributedExec::new(boundary).with_metrics_collection(is_measured)))
}

/// The plan with scans that know their tables.
fn with_tables(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(scan) = SharedScan::of(plan.as_ref()) {
        let (table, tags) = (scan.table.clone(), scan.tags());
        return Ok(Arc::new(HomeScanExec { scan: plan, table, tags }));
    }
    let children = plan.children().into_iter().map(|child| with_tables(Arc::clone(child)));
    let children = children.collect::<Result<Vec<_>>>()?;
    replace_children_if_necessary(plan, children)
}

/// Bytes that the query's scans read: the estimated rows, times the usual width of the columns that are read.
pub fn bytes_read(plan: &dyn ExecutionPlan) -> u64 {
    if SharedScan::of(plan).is_some() {
        let known = plan.statistics_from_inputs(&[], &StatisticsArgs::new()).ok();
        let rows = known.and_then(|known| u64::try_from(*known.num_rows.get_value()?).ok());
        let schema = plan.schema();
        let widths = schema.fields().iter().map(|field| field.data_type().primitive_width());
        let width: usize = widths.map(|width| width.unwrap_or(TEXT_BYTES)).sum();
        return rows.unwrap_or(0).saturating_mul(width as u64);
    }
    plan.children().into_iter().map(|child| bytes_read(child.as_ref())).fold(0, u64::saturating_add)
}

/// Bytes of the query's files at home on each node.
pub fn bytes_at_home(plan: &dyn ExecutionPlan, executors: &Executors) -> Result<Vec<u64>> {
    let mut bytes = vec![0; executors.count()];
    add_bytes(plan, executors, &mut bytes)?;
    Ok(bytes)
}

fn add_bytes(plan: &dyn ExecutionPlan, executors: &Executors, bytes: &mut [u64]) -> Result<()> {
    if let Some(scan) = SharedScan::of(plan) {
        for file in scan.files().unwrap_or_default() {
            for (home, part) in parts_of(&file, scan.store(), executors) {
                let of_home = bytes.get_mut(home);
                *of_home.ok_or_else(|| internal_datafusion_err!("executor {home} is not known"))? +=
                    part.effective_size();
            }
        }
    }
    plan.children().into_iter().try_for_each(|child| add_bytes(child.as_ref(), executors, bytes))
}
