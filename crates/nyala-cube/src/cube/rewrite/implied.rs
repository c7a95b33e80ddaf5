//! Removes redundant group columns: the planner adds to a primary key in GROUP BY all columns that depend on
//! it, so that they may be selected. A cube need not have the columns that are not selected.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, DFSchema, FunctionalDependence, Result, TableReference};
use datafusion::logical_expr::{Aggregate, Expr, Filter, LogicalPlan, Projection};

use crate::cube::grouping::distinct_groups;

/// The projection over an aggregation without the unused columns that a key in GROUP BY determines; none if
/// there are no such columns.
pub fn without_implied(projection: &Projection) -> Result<Option<LogicalPlan>> {
    let mut conditions = Vec::new();
    let mut input = projection.input.as_ref();
    while let LogicalPlan::Filter(filter) = input {
        conditions.push(&filter.predicate);
        input = filter.input.as_ref();
    }
    let LogicalPlan::Aggregate(aggregate) = input else { return Ok(None) };
    if aggregate.input.schema().functional_dependencies().is_empty() {
        return Ok(None);
    }
    let Some(used) = used(aggregate, projection.expr.iter().chain(conditions.iter().copied())) else {
        return Ok(None);
    };
    let needed = needed(aggregate, &used);
    if needed.len() == aggregate.group_expr.len() {
        return Ok(None);
    }
    let aggregate = Aggregate::try_new(Arc::clone(&aggregate.input), needed, aggregate.aggr_expr.clone())?;
    let mut plan = LogicalPlan::Aggregate(aggregate);
    for condition in conditions.into_iter().rev() {
        plan = LogicalPlan::Filter(Filter::try_new(condition.clone(), Arc::new(plan))?);
    }
    Ok(Some(LogicalPlan::Projection(Projection::try_new(projection.expr.clone(), Arc::new(plan))?)))
}

/// The columns of the aggregation that `expressions` use; none if unknown, because a subquery may use them too.
fn used<'a>(aggregate: &Aggregate, expressions: impl Iterator<Item = &'a Expr>) -> Option<HashSet<usize>> {
    let mut used = HashSet::new();
    for expression in expressions {
        if has_subquery(expression) {
            return None;
        }
        for column in expression.column_refs() {
            used.insert(aggregate.schema.maybe_index_of_column(column)?);
        }
    }
    Some(used)
}

fn has_subquery(expression: &Expr) -> bool {
    let subquery = |part: &Expr| {
        Ok(matches!(
            part,
            Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_)
        ))
    };
    // The closure never fails.
    expression.exists(subquery).unwrap_or(true)
}

/// The remaining group expressions.
fn needed(aggregate: &Aggregate, used: &HashSet<usize>) -> Vec<Expr> {
    let mut groups: Vec<Option<&Expr>> = distinct_groups(aggregate).into_iter().map(Some).collect();
    for at in (0..groups.len()).filter(|at| !used.contains(at)) {
        let Some(Some(Expr::Column(column))) = groups.get(at) else { continue };
        let others: HashSet<usize> = groups
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != at)
            .filter_map(|(_, group)| position(aggregate, (*group)?))
            .collect();
        if decided(aggregate, column, &others)
            && let Some(group) = groups.get_mut(at)
        {
            *group = None;
        }
    }
    groups.into_iter().flatten().cloned().collect()
}

fn position(aggregate: &Aggregate, group: &Expr) -> Option<usize> {
    match group {
        Expr::Column(column) => aggregate.input.schema().maybe_index_of_column(column),
        _ => None,
    }
}

/// Whether the columns at `others` determine `column`, because they include the key of its table.
///
/// Dependencies of the joined rows are not used, because there a key determines columns of other tables, too.
fn decided(aggregate: &Aggregate, column: &Column, others: &HashSet<usize>) -> bool {
    let input = aggregate.input.schema();
    let Some(table) = column.relation.as_ref().and_then(|name| table(&aggregate.input, name)) else {
        return false;
    };
    let Some(at) = table.maybe_index_of_column(column) else { return false };
    let is_grouped = |source: &usize| {
        let key = Column::from(table.qualified_field(*source));
        input.maybe_index_of_column(&key).is_some_and(|position| others.contains(&position))
    };
    // Several rows may have NULL for a key that is unique otherwise.
    let decides = |key: &FunctionalDependence| {
        !key.nullable
            && key.target_indices.contains(&at)
            && !key.source_indices.contains(&at)
            && key.source_indices.iter().all(is_grouped)
    };
    table.functional_dependencies().iter().any(decides)
}

/// The columns of the table with this name or alias, if it is one of those that the plan joins.
fn table<'a>(plan: &'a LogicalPlan, name: &TableReference) -> Option<&'a DFSchema> {
    match plan {
        LogicalPlan::TableScan(scan) if scan.table_name == *name => Some(&scan.projected_schema),
        LogicalPlan::SubqueryAlias(alias) if alias.alias == *name => {
            matches!(alias.input.as_ref(), LogicalPlan::TableScan(_)).then_some(&alias.schema)
        }
        LogicalPlan::Filter(filter) => table(&filter.input, name),
        LogicalPlan::Join(join) => table(&join.left, name).or_else(|| table(&join.right, name)),
        _ => None,
    }
}
