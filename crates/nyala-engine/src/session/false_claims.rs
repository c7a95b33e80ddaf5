//! Keeps the planner from relying on claims of operators that are not true.
//!
//! Each operator claims what its rows are: their order, columns that are constant or equal to others, unique columns, and which
//! values lie in which partition. `EnsureRequirements` leaves out sorts and exchanges that the claims make needless, and
//! aggregations and windows give a group as soon as a claimed order says that it is complete.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizerContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::unnest::UnnestExec;

use super::context_rule::PhysicalRule;
use super::forget::{ForgetExec, Forgotten, forget};
use super::wrapped_physical_rule::PhysicalWrapper;

/// Gives a rule that relies on claims plans in which none is false: wrong ones are forgotten before it, and what had nothing to
/// forget is removed after it.
///
/// - An aggregation by grouping sets passes on what its input claims of the columns that it groups by, though it makes them
///   NULL (<https://github.com/apache/datafusion/issues/24421>, <https://github.com/apache/datafusion/issues/16965>), and
///   claims that they tell rows apart. Groups were split, and ORDER BY was left out. No release has the fix yet.
/// - A hash join claims the order of its left input within that of its right one, also where rows of the right one are equal
///   (<https://github.com/apache/datafusion/issues/25052>). No release has the fix yet.
/// - An outer join passes on which columns of an optional side are constant or equal, though it makes them NULL.
/// - Unnesting looks for the columns that it keeps by their names (`UnnestExec::compute_properties`), and of several with one
///   name claims of the first what holds of the others.
#[derive(Debug)]
pub struct WithoutFalseClaims;

impl PhysicalWrapper for WithoutFalseClaims {
    fn run(
        &self,
        rule: &PhysicalRule,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_up(forget_false_claims)?.data;
        let plan = rule.optimize_with_context(plan, context)?;
        Ok(plan.transform_up(without_idle)?.data)
    }
}

fn forget_false_claims(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if groups_by_sets(node.as_ref()) || unnests_namesakes(node.as_ref()) {
        return Ok(Transformed::yes(forget(node, Forgotten::Everything)));
    }
    let of_sides = of_sides(node.as_ref());
    if of_sides == [None, None] {
        return Ok(Transformed::no(node));
    }
    let sides = node.children().into_iter().zip(of_sides);
    let sides = sides.map(|(side, forgotten)| match forgotten {
        Some(forgotten) => forget(Arc::clone(side), forgotten),
        None => Arc::clone(side),
    });
    let sides = sides.collect();
    Ok(Transformed::yes(replace_children_if_necessary(node, sides)?))
}

fn without_idle(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    Ok(match node.downcast_ref::<ForgetExec>() {
        Some(forget) if forget.is_idle() => Transformed::yes(Arc::clone(forget.input())),
        _ => Transformed::no(node),
    })
}

fn groups_by_sets(node: &dyn ExecutionPlan) -> bool {
    node.downcast_ref::<AggregateExec>().is_some_and(|aggregate| aggregate.group_expr().has_grouping_set())
}

fn unnests_namesakes(node: &dyn ExecutionPlan) -> bool {
    let schema = node.schema();
    let mut names = BTreeSet::new();
    node.is::<UnnestExec>() && !schema.fields().iter().all(|field| names.insert(field.name()))
}

/// What a join must not claim of the rows of its left side, and of its right side.
fn of_sides(node: &dyn ExecutionPlan) -> [Option<Forgotten>; 2] {
    let values = Some(Forgotten::Values);
    let (join_type, is_hash_join) = if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        (join.join_type(), true)
    } else if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        (join.join_type(), false)
    } else {
        return [None, None];
    };
    match join_type {
        JoinType::Inner if is_hash_join => [Some(Forgotten::Order), None],
        JoinType::Left => [None, values],
        JoinType::Right => [values, None],
        JoinType::Full => [values, values],
        _ => [None, None],
    }
}
