//! Intervals of equal length are equal, for GROUP BY, DISTINCT and joins.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result};
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::{Aggregate, Distinct, DistinctOn, Expr, Join, LogicalPlan, Projection};

use super::intervals::{is_interval, ordered};

/// Prefixes of the columns that hold the length of a group's intervals, and the first of these intervals.
const LENGTH: &str = "__interval_length";
const FIRST: &str = "__interval_first";

/// Compares intervals by their length in DISTINCT and in joins.
pub fn intervals_by_length(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Distinct(Distinct::All(input)) if has_interval(&input) => {
            let columns = input.schema().columns().into_iter().map(Expr::Column).collect();
            group_by_length(Aggregate::try_new(input, columns, Vec::new())?)
        }
        LogicalPlan::Distinct(Distinct::On(on)) => Ok(distinct_by_length(on)),
        LogicalPlan::Join(join) => Ok(join_by_length(join)),
        other => Ok(Transformed::no(other)),
    }
}

/// Groups intervals by their length. It runs after the expressions of the node were rewritten, because the
/// walk does not come to the new node below.
pub fn groups_by_length(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Aggregate(aggregate) => group_by_length(aggregate),
        other => Ok(Transformed::no(other)),
    }
}

fn has_interval(plan: &LogicalPlan) -> bool {
    plan.schema().fields().iter().any(|field| matches!(field.data_type(), DataType::Interval(_)))
}

/// Groups by the length of intervals; each group shows the first of its intervals.
fn group_by_length(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let schema = aggregate.input.schema();
    let is_span = |expr: &Expr| is_interval(expr, schema);
    if !aggregate.group_expr.iter().any(is_span) {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let mut firsts = Vec::new();
    let mut columns = Vec::new();
    let groups = aggregate.group_expr.iter().enumerate().map(|(at, group)| {
        if !is_span(group) {
            columns.push(None);
            return group.clone();
        }
        let first = format!("{FIRST}_{at}");
        firsts.push(first_value_udaf().call(vec![group.clone()]).alias(&first));
        columns.push(Some(first));
        ordered(group.clone()).alias(format!("{LENGTH}_{at}"))
    });
    let groups: Vec<Expr> = groups.collect();
    let aggregates = aggregate.aggr_expr.iter().cloned().chain(firsts).collect();
    let grouped = Aggregate::try_new(Arc::clone(&aggregate.input), groups, aggregates)?;
    let shown = aggregate.schema.iter().enumerate().map(|(at, (relation, field))| {
        match columns.get(at).and_then(Option::as_ref) {
            Some(first) => {
                let first = Expr::Column(Column::new_unqualified(first));
                first.alias_qualified(relation.cloned(), field.name())
            }
            None => Expr::Column(Column::from((relation, field))),
        }
    });
    let shown = Projection::try_new(shown.collect(), Arc::new(LogicalPlan::Aggregate(grouped)))?;
    Ok(Transformed::yes(LogicalPlan::Projection(shown)))
}

fn distinct_by_length(mut on: DistinctOn) -> Transformed<LogicalPlan> {
    let schema = on.input.schema();
    let mut changed = false;
    let sorted = on.sort_expr.iter_mut().flatten().map(|sort| &mut sort.expr);
    for expr in on.on_expr.iter_mut().chain(sorted).filter(|expr| is_interval(expr, schema)) {
        *expr = ordered(std::mem::take(expr));
        changed = true;
    }
    let node = LogicalPlan::Distinct(Distinct::On(on));
    if changed { Transformed::yes(node) } else { Transformed::no(node) }
}

/// Joins intervals by their length. INTERSECT and EXCEPT are joins, too.
fn join_by_length(mut join: Join) -> Transformed<LogicalPlan> {
    let mut changed = false;
    for (left, right) in &mut join.on {
        if is_interval(left, join.left.schema()) && is_interval(right, join.right.schema()) {
            *left = ordered(std::mem::take(left));
            *right = ordered(std::mem::take(right));
            changed = true;
        }
    }
    let node = LogicalPlan::Join(join);
    if changed { Transformed::yes(node) } else { Transformed::no(node) }
}
