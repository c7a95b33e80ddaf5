//! Limits, and operators that want all rows in one partition, run once, and not in every task of a stage.

use std::sync::Arc;

use datafusion::common::not_impl_err;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::Distribution;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion_distributed::{NetworkBoundaryExt, NetworkBroadcastExec, Stage};

/// The plan with an operator for each limit that an exchange below a join has.
///
/// datafusion-distributed makes such an exchange anew above the broadcast of the rows that a join collects, where each task of the join
/// takes as many rows as the limit says, and not the same ones:
/// <https://github.com/datafusion-contrib/datafusion-distributed/issues/708>.
pub fn limits_below_joins(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = plan.transform_up(|join| {
        if !is_join(join.as_ref()) {
            return Ok(Transformed::no(join));
        }
        // Both sides, because datafusion-distributed swaps the sides of some joins first.
        let sides = join.children().into_iter().map(limit_above).collect();
        let limited = replace_children_if_necessary(Arc::clone(&join), sides)?;
        let is_new = !Arc::ptr_eq(&limited, &join);
        Ok(Transformed::new_transformed(limited, is_new))
    })?;
    Ok(plan.data)
}

fn is_join(plan: &dyn ExecutionPlan) -> bool {
    plan.is::<HashJoinExec>() || plan.is::<NestedLoopJoinExec>() || plan.is::<CrossJoinExec>()
}

fn limit_above(side: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match side.fetch() {
        Some(rows) if side.is::<CoalescePartitionsExec>() => {
            Arc::new(GlobalLimitExec::new(Arc::clone(side), 0, Some(rows)))
        }
        _ => Arc::clone(side),
    }
}

/// Fails if a stage of several tasks has a limit, or an operator that wants all rows of its input in one partition. datafusion-distributed
/// gives one task to the stages in which it finds such an operator; it does not find limits within other operators, nor aggregations
/// without an exchange below them.
pub fn check(divided: &dyn ExecutionPlan) -> Result<()> {
    check_tasks(divided, 1)
}

fn check_tasks(plan: &dyn ExecutionPlan, tasks: usize) -> Result<()> {
    if let Some(boundary) = plan.as_network_boundary() {
        return match boundary.input_stage() {
            Stage::Local(stage) => check_tasks(stage.plan.as_ref(), stage.tasks),
            Stage::Remote(_) => Ok(()),
        };
    }
    if tasks > 1 && !is_for_each_task(plan) {
        return not_impl_err!("`{}` would run once on each node", plan.name());
    }
    plan.children().into_iter().try_for_each(|child| check_tasks(child.as_ref(), tasks))
}

/// Whether an operator may run in several tasks, each over its own share of the rows.
fn is_for_each_task(plan: &dyn ExecutionPlan) -> bool {
    // A limit within each of several partitions is followed by an operator that limits all of their rows.
    let in_one = plan.properties().output_partitioning().partition_count() == 1;
    if in_one && plan.fetch().is_some() {
        return false;
    }
    let wanted = plan.input_distribution_requirements();
    let mut children = plan.children().into_iter().zip(wanted.per_child_distributions());
    children.all(|(child, wanted)| !matches!(wanted, Distribution::SinglePartition) || is_broadcast(child))
}

/// Whether an operator collects broadcast rows, as a join does: each task has all of them.
fn is_broadcast(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let collected = plan.downcast_ref::<CoalescePartitionsExec>();
    collected.is_some_and(|collected| collected.input().is::<NetworkBroadcastExec>())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::datatypes::Schema;
    use datafusion::physical_plan::displayable;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion_distributed::NetworkCoalesceExec;

    use super::*;

    fn rows(partitions: usize) -> Arc<dyn ExecutionPlan> {
        Arc::new(EmptyExec::new(Arc::new(Schema::empty())).with_partitions(partitions))
    }

    fn in_one(partitions: usize, limit: Option<usize>) -> Arc<dyn ExecutionPlan> {
        Arc::new(CoalescePartitionsExec::new(rows(partitions)).with_fetch(limit))
    }

    #[test]
    fn a_limit_below_a_join_has_an_operator() {
        for (limit, expected) in [(None, 0), (Some(5), 1)] {
            let join = CrossJoinExec::new(in_one(3, limit), rows(3));
            let plan = limits_below_joins(Arc::new(join)).unwrap();
            let shown = displayable(plan.as_ref()).indent(false).to_string();
            assert_eq!(shown.matches("GlobalLimitExec: skip=0, fetch=5").count(), expected, "{shown}");
            assert_eq!(shown.matches("CoalescePartitionsExec").count(), 1, "{shown}");
        }
    }

    #[test]
    fn what_wants_all_rows_has_one_task() {
        let limit = |input| -> Arc<dyn ExecutionPlan> { Arc::new(GlobalLimitExec::new(input, 0, Some(5))) };
        let join = |left| -> Arc<dyn ExecutionPlan> { Arc::new(CrossJoinExec::new(left, rows(3))) };
        for (plan, is_for_several) in [
            (rows(3), true),
            (rows(1), true),
            (limit(rows(1)), false),
            (in_one(3, Some(5)), false),
            (join(rows(1)), false),
            (join(in_one(3, None)), false),
        ] {
            for (tasks, expected) in [(1, true), (3, is_for_several)] {
                let boundary = NetworkCoalesceExec::try_new(Arc::clone(&plan), tasks, 1).unwrap();
                assert_eq!(check(&boundary).is_ok(), expected, "{tasks}: {plan:?}");
            }
        }
    }
}
