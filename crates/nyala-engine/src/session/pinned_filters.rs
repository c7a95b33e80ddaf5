//! Filters that must not be moved below what they are written above.
//!
//! DataFusion 55 pushes a condition below an aggregation if all columns that it names are grouped. One that names none comes below a
//! total, which has a row also for no rows. A grouped `random() < 0.5` is computed anew for the condition, and a condition with
//! `random()` is asked for other rows than those that it is about, below joins and windows, too
//! (<https://github.com/apache/datafusion/issues/25415>; no release has the fix yet). Such a condition of a join is asked for pairs of
//! rows, and the rule asks it of the rows of one side, or of each side anew.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::utils::{conjunction, split_conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Aggregate, Expr, Filter, LogicalPlan};
use datafusion::optimizer::OptimizerConfig;
use nyala_sql::semantics::is_volatile;

use super::wrapped_logical_rule::{LogicalRule, LogicalWrapper};

/// The rule of DataFusion that pushes filters down.
const PUSHING: &str = "push_down_filter";

/// Keeps the rule that pushes filters down from moving such conditions. Other rules are returned as they are.
pub fn pin_filters(rule: LogicalRule) -> LogicalRule {
    match rule.name() == PUSHING {
        true => PinFilters.around(rule),
        false => rule,
    }
}

#[derive(Debug)]
struct PinFilters;

impl LogicalWrapper for PinFilters {
    fn run(
        &self,
        rule: &LogicalRule,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        if !joins_by_volatile(&plan) {
            return push(rule, plan, config);
        }
        let mut pinned = None;
        let free = of_first_join(plan, |filter| {
            let (own, free) = volatile_apart(filter.take());
            pinned = own;
            *filter = free;
        })?;
        let pushed = push(rule, free, config)?;
        pushed.map_data(|plan| {
            of_first_join(plan, |filter| {
                *filter = conjunction(filter.take().into_iter().chain(pinned.take()))
            })
        })
    }
}

/// Pushes the conditions of a filter, or of a join without volatile ones.
fn push(
    rule: &LogicalRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Filter(filter) = &plan else { return rule.rewrite(plan, config) };
    let (conditions, input) = stacked(filter);
    let (pinned, free): (Vec<&Expr>, Vec<&Expr>) =
        conditions.into_iter().partition(|condition| is_pinned(condition, input));
    let Some(pinned) = conjunction(pinned.into_iter().cloned()) else {
        return rule.rewrite(plan, config);
    };
    let Some(free) = conjunction(free.into_iter().cloned()) else { return Ok(Transformed::no(plan)) };
    let below = LogicalPlan::Filter(Filter::try_new(free, Arc::clone(input))?);
    let rewritten = rule.rewrite(below, config)?;
    if !rewritten.transformed {
        return Ok(Transformed::no(plan));
    }
    rewritten.map_data(|input| Ok(LogicalPlan::Filter(Filter::try_new(pinned, Arc::new(input))?)))
}

/// Whether a plan is a join with a volatile condition, or filters over such a join.
fn joins_by_volatile(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Filter(filter) => joins_by_volatile(&filter.input),
        LogicalPlan::Join(join) => join.filter.as_ref().is_some_and(is_volatile),
        _ => false,
    }
}

/// Changes the condition of the join that a plan is, or that its filters are over.
fn of_first_join(plan: LogicalPlan, mut change: impl FnMut(&mut Option<Expr>)) -> Result<LogicalPlan> {
    let changed = plan.transform_down(|node| match node {
        LogicalPlan::Join(mut join) => {
            change(&mut join.filter);
            Ok(Transformed::new(LogicalPlan::Join(join), true, TreeNodeRecursion::Stop))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(changed.data)
}

/// The volatile parts of a condition, and the others.
pub fn volatile_apart(condition: Option<Expr>) -> (Option<Expr>, Option<Expr>) {
    match condition {
        Some(condition) if is_volatile(&condition) => {
            let parts = split_conjunction_owned(condition).into_iter();
            let (volatile, others): (Vec<Expr>, Vec<Expr>) = parts.partition(is_volatile);
            (conjunction(volatile), conjunction(others))
        }
        steady => (None, steady),
    }
}

/// The conditions of filters upon each other, the lowest first, and the plan below the filters. The rule would make one filter of them,
/// and one condition of two that are written alike.
fn stacked(filter: &Filter) -> (Vec<&Expr>, &Arc<LogicalPlan>) {
    let (mut conditions, input) = match filter.input.as_ref() {
        LogicalPlan::Filter(below) => stacked(below),
        _ => (Vec::new(), &filter.input),
    };
    for condition in split_conjunction(&filter.predicate) {
        if is_volatile(condition) || !conditions.contains(&condition) {
            conditions.push(condition);
        }
    }
    (conditions, input)
}

fn is_pinned(condition: &Expr, input: &LogicalPlan) -> bool {
    if is_volatile(condition) {
        return true;
    }
    let columns = condition.column_refs();
    match input {
        LogicalPlan::Aggregate(aggregate) if columns.is_empty() => has_total(aggregate),
        LogicalPlan::Aggregate(Aggregate { group_expr, schema, .. }) => {
            let mut keys = group_expr.iter().zip(schema.columns());
            keys.any(|(key, column)| is_volatile(key) && columns.contains(&column))
        }
        // The answer of a cube may be a total.
        LogicalPlan::Extension(_) => columns.is_empty(),
        _ => false,
    }
}

/// Whether an aggregation may give a row when its input has none.
fn has_total(aggregate: &Aggregate) -> bool {
    let groups = &aggregate.group_expr;
    groups.is_empty() || groups.iter().any(|key| matches!(key, Expr::GroupingSet(_)))
}
