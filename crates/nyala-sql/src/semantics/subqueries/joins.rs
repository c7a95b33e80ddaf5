//! Subqueries in the conditions of joins, and LATERAL.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, Result, not_impl_err};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, Join, LogicalPlan, LogicalPlanBuilder, Subquery, lit};

use super::super::varying::{computed_once, is_volatile_plan};
use super::conditions::lower_filter;
use super::dependent::{Outer, with_row_numbers};
use super::lowering::Lowering;
use super::outer_columns::{outer_columns, subquery_of};
use super::{Shared, has_subquery, settled};

/// Lowers LATERAL, and subqueries in the condition of a join: for an inner join they go into a filter above it.
pub fn lower_join(join: Join, shared: &mut Shared<'_>) -> Result<Transformed<LogicalPlan>> {
    if let LogicalPlan::Subquery(lateral) = join.right.as_ref()
        && !lateral.outer_ref_columns.is_empty()
        && matches!(join.join_type, JoinType::Inner | JoinType::Left)
    {
        return lower_lateral(&join, lateral, shared);
    }
    if let LogicalPlan::SubqueryAlias(alias) = join.right.as_ref()
        && let LogicalPlan::Subquery(lateral) = alias.input.as_ref()
        && !lateral.outer_ref_columns.is_empty()
        && matches!(join.join_type, JoinType::Inner | JoinType::Left)
    {
        return lower_lateral(&join, lateral, shared);
    }
    let has_one = join.filter.as_ref().is_some_and(has_subquery);
    if !has_one {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    if join.join_type != JoinType::Inner {
        return lower_outer_join(join, shared);
    }
    let filter = join.filter.clone().unwrap_or_else(|| lit(true));
    let (above, within): (Vec<_>, Vec<_>) =
        split_conjunction_owned(filter).into_iter().partition(has_subquery);
    let predicate = conjunction(above).unwrap_or_else(|| lit(true));
    let joined = Arc::new(LogicalPlan::Join(Join { filter: conjunction(within), ..join }));
    let filter = Filter::try_new(predicate, joined)?;
    Ok(Transformed::yes(lower_filter(filter, shared)?.data))
}

/// Subqueries in the condition of an outer join: their values are joined to the side whose columns they use.
fn lower_outer_join(join: Join, shared: &mut Shared<'_>) -> Result<Transformed<LogicalPlan>> {
    let columns: Vec<Expr> = join.schema.columns().into_iter().map(Expr::Column).collect();
    let Join { left, right, on, filter, join_type, .. } = join;
    let (mut left, mut right, mut conditions) = (left, right, Vec::new());
    for part in split_conjunction_owned(filter.unwrap_or_else(|| lit(true))) {
        if !has_subquery(&part) {
            conditions.push(part);
            continue;
        }
        let needed = needed_by(&part)?;
        let is_of = |plan: &LogicalPlan| needed.iter().all(|column| plan.schema().has_column(column));
        let input = match (is_of(&right), is_of(&left)) {
            (true, _) => &mut right,
            (_, true) => &mut left,
            _ => {
                return not_impl_err!(
                    "a subquery in the condition of an outer join asks for columns of both sides"
                );
            }
        };
        let mut lowering = Lowering::new(input.as_ref().clone(), shared, false);
        conditions.push(lowering.value(part)?);
        *input = Arc::new(lowering.input);
    }
    conditions.extend(on.into_iter().map(|(one, other)| one.eq(other)));
    let joined = LogicalPlanBuilder::from(Arc::unwrap_or_clone(left)).join_on(
        Arc::unwrap_or_clone(right),
        join_type,
        conditions,
    )?;
    Ok(Transformed::yes(joined.project(columns)?.build()?))
}

/// The columns of a join that an expression and its subqueries use.
fn needed_by(expr: &Expr) -> Result<Vec<Column>> {
    let mut needed: Vec<Column> = expr.column_refs().into_iter().cloned().collect();
    expr.apply(|part| {
        let mut part = part.clone();
        if let Some(subquery) = subquery_of(&mut part) {
            needed.extend(outer_columns(&subquery.subquery)?);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(needed)
}

/// A LATERAL query is computed for all combinations of the outer values that it uses, and joined on these.
fn lower_lateral(
    join: &Join,
    lateral: &Subquery,
    shared: &mut Shared<'_>,
) -> Result<Transformed<LogicalPlan>> {
    let asked = outer_columns(&lateral.subquery)?;
    if !asked.iter().any(|column| join.left.schema().has_column(column)) {
        return Ok(Transformed::no(LogicalPlan::Join(join.clone())));
    }
    let prefix = shared.prefix();
    let left = join.left.as_ref().clone();
    let (left, outer) = match is_volatile_plan(&lateral.subquery)? {
        true => {
            let row = Column::new_unqualified(format!("{prefix}row"));
            let left = computed_once(with_row_numbers(left, &row.name)?)?;
            let outer = Outer::of_rows(row, &lateral.subquery, &left, &prefix)?;
            (left, outer)
        }
        false => {
            let left = computed_once(left)?;
            let outer = Outer::new(&lateral.subquery, &left, &prefix)?;
            (left, outer)
        }
    };
    let right = settled(outer.depend(&join.right)?, shared)?;
    let mut conditions = outer.belong(right.schema())?;
    conditions.extend(join.on.iter().map(|(left, right)| left.clone().eq(right.clone())));
    conditions.extend(join.filter.clone());
    let columns: Vec<Expr> = join.schema.columns().into_iter().map(Expr::Column).collect();
    let joined = LogicalPlanBuilder::from(left).join_on(right, join.join_type, conditions)?;
    Ok(Transformed::yes(joined.project(columns)?.build()?))
}
