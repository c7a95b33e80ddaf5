//! Whether the operators of a query mean the same on every node.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::physical_expr::Distribution;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_proto::physical_plan::AsExecutionPlan;
use datafusion_proto::protobuf::PhysicalPlanNode;
use nyala_cube::scan::SharedScan;

use super::codec::Checks;
use super::leaves::in_groups;

/// Partitions of a scan that DataFusion planned with one.
const PARTITIONS: usize = 2;

/// Whether all rows come from files that every node reaches.
pub fn reads_shared_files(plan: &dyn ExecutionPlan) -> bool {
    let (mut any, mut all) = (false, true);
    look(plan, &mut |leaf| {
        any |= SharedScan::of(leaf).is_some();
        all &= SharedScan::of(leaf).is_some() || leaf.is::<EmptyExec>();
    });
    any && all
}

fn look(plan: &dyn ExecutionPlan, leaf: &mut impl FnMut(&dyn ExecutionPlan)) {
    let children = plan.children();
    if children.is_empty() {
        leaf(plan);
    }
    children.into_iter().for_each(|child| look(child.as_ref(), leaf));
}

/// The same operators over scans in several partitions where nothing above relies on there being one only. A scan in one partition
/// cannot be divided: DataFusion lets operators that want all rows in one place do without an exchange over it.
pub fn widened(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    widened_below(plan, true)
}

/// `free` tells whether what is above the operator takes any number of partitions.
fn widened_below(plan: Arc<dyn ExecutionPlan>, free: bool) -> Result<Arc<dyn ExecutionPlan>> {
    if plan.children().is_empty() {
        let in_one = plan.output_partitioning().partition_count() == 1;
        let scan = SharedScan::of(plan.as_ref()).filter(|_| free && in_one);
        let widened = scan.and_then(|scan| Some(scan.with_files(in_groups(scan.files()?, PARTITIONS))));
        return Ok(widened.unwrap_or(plan));
    }
    let exchanges =
        plan.is::<RepartitionExec>() || plan.is::<CoalescePartitionsExec>() || plan.is::<UnionExec>();
    let wanted = plan.input_distribution_requirements();
    let children = plan.children().into_iter().zip(wanted.per_child_distributions());
    let children = children.map(|(child, wanted)| {
        let any = matches!(wanted, Distribution::UnspecifiedDistribution);
        widened_below(Arc::clone(child), exchanges || (any && free))
    });
    let children = children.collect::<Result<Vec<_>>>()?;
    replace_children_if_necessary(plan, children)
}

/// Fails if some operator or function cannot be sent, or would be taken for another one by the node that gets it.
pub fn check(plan: &Arc<dyn ExecutionPlan>, state: &SessionState) -> Result<()> {
    PhysicalPlanNode::try_from_physical_plan(Arc::clone(plan), &Checks::new(state.task_ctx())).map(drop)
}
