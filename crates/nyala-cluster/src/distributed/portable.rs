//! Whether the operators of a query mean the same on every node.

use std::sync::Arc;

use datafusion::common::not_impl_err;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::NullTreatment;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_expr::Distribution;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_proto::physical_plan::AsExecutionPlan;
use datafusion_proto::protobuf::PhysicalPlanNode;
use nyala_cube::scan::SharedScan;

use super::codec::Checks;
use super::leaves::in_groups;

/// Partitions that a scan gets which DataFusion planned with one.
const PARTITIONS: usize = 2;

/// Whether all rows come from files that every node reaches. An aggregation over nothing gives a row, and would give one on each
/// node.
pub fn reads_shared_files(plan: &dyn ExecutionPlan) -> bool {
    let (mut any, mut all) = (false, true);
    look(plan, &mut |leaf| {
        any |= SharedScan::of(leaf).is_some();
        all &= SharedScan::of(leaf).is_some() || leaf.is::<EmptyExec>();
    });
    any && all && !makes_rows_of_nothing(plan)
}

fn makes_rows_of_nothing(plan: &dyn ExecutionPlan) -> bool {
    if plan.is::<AggregateExec>() {
        let mut only_empty = true;
        look(plan, &mut |leaf| only_empty &= leaf.is::<EmptyExec>());
        if only_empty {
            return true;
        }
    }
    plan.children().into_iter().any(|child| makes_rows_of_nothing(child.as_ref()))
}

/// Refuses what DataFusion leaves out of operators when it encodes them.
fn check_operators(plan: &dyn ExecutionPlan) -> Result<()> {
    let skip = plan.downcast_ref::<GlobalLimitExec>().map_or(0, GlobalLimitExec::skip);
    if u32::try_from(plan.fetch().unwrap_or_default().max(skip)).is_err() {
        return not_impl_err!("a limit of more than {} rows is not sent to other nodes", u32::MAX);
    }
    plan.children().into_iter().try_for_each(|child| check_operators(child.as_ref()))
}

/// Refuses calls over windows with parts that operators do not show, and that are left out when they are encoded.
fn check_windows(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Window(window) = node {
            window.window_expr.iter().try_for_each(check_window)?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

fn check_window(expr: &Expr) -> Result<()> {
    let is_cut = expr.exists(|expr| {
        let Expr::WindowFunction(call) = expr else { return Ok(false) };
        let parameters = &call.params;
        let ignores_nulls = parameters.null_treatment == Some(NullTreatment::IgnoreNulls);
        Ok(parameters.filter.is_some() || parameters.distinct || ignores_nulls)
    })?;
    match is_cut {
        true => not_impl_err!("FILTER, DISTINCT and IGNORE NULLS over windows are not sent to other nodes"),
        false => Ok(()),
    }
}

fn look(plan: &dyn ExecutionPlan, leaf: &mut impl FnMut(&dyn ExecutionPlan)) {
    let children = plan.children();
    if children.is_empty() {
        leaf(plan);
    }
    children.into_iter().for_each(|child| look(child.as_ref(), leaf));
}

/// The plan with scans in several partitions where no operator above relies on there being only one. A scan in one partition
/// cannot be divided: DataFusion puts no exchange between it and an operator that wants all rows in one partition.
pub fn widened(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    widened_below(plan, true)
}

/// `free` tells whether what is above the operator takes any number of partitions.
fn widened_below(plan: Arc<dyn ExecutionPlan>, free: bool) -> Result<Arc<dyn ExecutionPlan>> {
    if plan.children().is_empty() {
        // Each part of a scan with a limit may give as many rows.
        let in_one = plan.output_partitioning().partition_count() == 1 && plan.fetch().is_none();
        let scan = SharedScan::of(plan.as_ref()).filter(|_| free && in_one);
        let widened = scan.and_then(|scan| Some(scan.with_files(in_groups(scan.files()?, PARTITIONS))));
        return Ok(widened.unwrap_or(plan));
    }
    let exchanges =
        plan.is::<RepartitionExec>() || plan.is::<CoalescePartitionsExec>() || plan.is::<UnionExec>();
    // Over several partitions, an operator with a limit would take as many rows of each.
    let free = free && plan.fetch().is_none();
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
pub fn check(plan: &Arc<dyn ExecutionPlan>, logical: &LogicalPlan, state: &SessionState) -> Result<()> {
    check_windows(logical)?;
    check_operators(plan.as_ref())?;
    PhysicalPlanNode::try_from_physical_plan(Arc::clone(plan), &Checks::new(state.task_ctx())).map(drop)
}
