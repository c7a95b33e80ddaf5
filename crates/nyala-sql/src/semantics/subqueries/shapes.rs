//! Properties of subqueries: the number of rows, the places of outer columns, and whether DataFusion makes a join of one.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, JoinType, Result, ScalarValue};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, EmptyRelation, Expr, Limit, LogicalPlan, Operator, Subquery, lit,
};

use super::super::varying::is_volatile_plan;
use super::has_subquery;
use super::single::or_null_function;

/// The first column of a subquery; NULL if it has none.
pub fn first_column(plan: &LogicalPlan) -> Expr {
    let column = plan.schema().columns().into_iter().next();
    column.map(Expr::Column).unwrap_or_else(|| lit(ScalarValue::Null))
}

/// Whether a plan has exactly one row, whatever rows it reads.
pub fn is_of_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => is_of_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_of_one_row(&alias.input),
        LogicalPlan::Subquery(subquery) => is_of_one_row(&subquery.subquery),
        LogicalPlan::Sort(sort) => is_of_one_row(&sort.input),
        LogicalPlan::Distinct(Distinct::All(input)) => is_of_one_row(input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row, .. }) => *produce_one_row,
        _ => false,
    }
}

/// Whether all columns of a plan are stored columns of tables: no rule makes constants of them, or takes them for never NULL.
pub fn has_stored_columns(plan: &LogicalPlan) -> bool {
    fn is_column(expr: &Expr) -> bool {
        match expr {
            Expr::Alias(alias) => is_column(&alias.expr),
            other => matches!(other, Expr::Column(_)),
        }
    }
    match plan {
        LogicalPlan::TableScan(scan) => scan.source.get_logical_plan().is_none(),
        LogicalPlan::Projection(projection) => {
            projection.expr.iter().all(is_column) && has_stored_columns(&projection.input)
        }
        // An outer join makes columns NULL, but becomes an inner one if a condition drops the rows where they are.
        LogicalPlan::Join(join) if join.join_type.is_outer() => false,
        LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Subquery(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::Distinct(_) => plan.inputs().into_iter().all(has_stored_columns),
        _ => false,
    }
}

/// Whether a value is a column that no projection computes, or a cast of one: no rule puts an expression in its place.
pub fn is_plain_column(value: &Expr, plan: &LogicalPlan) -> bool {
    match value {
        Expr::Cast(cast) => is_plain_column(&cast.expr, plan),
        Expr::Alias(alias) => is_plain_column(&alias.expr, plan),
        Expr::Column(column) => is_plain(column, plan),
        // No rule looks into this function.
        Expr::ScalarFunction(call) => call.name() == or_null_function().name(),
        _ => false,
    }
}

fn is_plain(column: &Column, plan: &LogicalPlan) -> bool {
    let at = plan.schema().maybe_index_of_column(column);
    match plan {
        LogicalPlan::Projection(projection) => at
            .and_then(|at| projection.expr.get(at))
            .is_some_and(|expr| is_plain_column(expr, &projection.input)),
        LogicalPlan::SubqueryAlias(alias) => at
            .and_then(|at| alias.input.schema().columns().into_iter().nth(at))
            .is_some_and(|column| is_plain(&column, &alias.input)),
        LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::Distinct(Distinct::All(_)) => {
            let mut inputs = plan.inputs().into_iter();
            inputs
                .find(|input| input.schema().has_column(column))
                .is_some_and(|input| is_plain(column, input))
        }
        _ => true,
    }
}

/// The plan without a LIMIT of at least one row, which makes no difference to EXISTS.
pub fn without_limit(plan: &LogicalPlan) -> LogicalPlan {
    if let LogicalPlan::Limit(Limit { skip: None, fetch: Some(fetch), input }) = plan
        && let Expr::Literal(ScalarValue::Int64(Some(1..)), _) = fetch.as_ref()
    {
        return input.as_ref().clone();
    }
    plan.clone()
}

/// Whether DataFusion makes a correct join of EXISTS or IN: outer columns are in conditions only, and no
/// operator above the conditions depends on which rows they keep.
pub fn joins_by_conditions(subquery: &Subquery) -> Result<bool> {
    if subquery.outer_ref_columns.is_empty() {
        return Ok(true);
    }
    // DataFusion would compute a volatile subquery once for all rows.
    Ok(!is_volatile_plan(&subquery.subquery)? && asks_in_conditions(&subquery.subquery, &|_| true)?)
}

/// Whether outer columns are only in conditions that are `is_fine`, with only joins and plain columns above these.
fn asks_in_conditions(plan: &LogicalPlan, is_fine: &impl Fn(&Expr) -> bool) -> Result<bool> {
    if !asks_outside(plan)? {
        return Ok(true);
    }
    let exprs_ask = plan.expressions().iter().any(|expr| expr.contains_outer() || has_subquery(expr));
    match plan {
        LogicalPlan::Filter(filter) => {
            let conditions = split_conjunction(&filter.predicate);
            let are_fine = conditions.iter().all(|condition| {
                !has_subquery(condition) && (!condition.contains_outer() || is_fine(condition))
            });
            Ok(are_fine && asks_in_conditions(&filter.input, is_fine)?)
        }
        LogicalPlan::Projection(projection) if !exprs_ask => asks_in_conditions(&projection.input, is_fine),
        LogicalPlan::SubqueryAlias(alias) => asks_in_conditions(&alias.input, is_fine),
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner && !exprs_ask => {
            Ok(asks_in_conditions(&join.left, is_fine)? && asks_in_conditions(&join.right, is_fine)?)
        }
        _ => Ok(false),
    }
}

/// Whether a plan, or a subquery in it, uses outer columns.
pub fn asks_outside(plan: &LogicalPlan) -> Result<bool> {
    let mut asks = false;
    plan.apply_with_subqueries(|node| {
        asks |= node.expressions().iter().any(Expr::contains_outer);
        Ok(if asks { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(asks)
}

/// Whether a subquery is an aggregate that is correlated by equality, which DataFusion joins by groups.
pub fn is_total_by_equality(plan: &LogicalPlan) -> Result<bool> {
    match plan {
        LogicalPlan::Projection(projection)
            if !projection.expr.iter().any(|expr| expr.contains_outer() || has_subquery(expr)) =>
        {
            is_total_by_equality(&projection.input)
        }
        LogicalPlan::SubqueryAlias(alias) => is_total_by_equality(&alias.input),
        LogicalPlan::Aggregate(Aggregate { input, group_expr, aggr_expr, .. }) => {
            let asks = |expr: &Expr| expr.contains_outer() || has_subquery(expr);
            if !group_expr.is_empty() || aggr_expr.iter().any(asks) {
                return Ok(false);
            }
            asks_in_conditions(input, &|condition| match condition {
                Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
                    let is_outer = |expr: &Expr| expr.contains_outer() && !expr.any_column_refs();
                    let is_inner = |expr: &Expr| !expr.contains_outer() && expr.any_column_refs();
                    (is_outer(left) && is_inner(right)) || (is_inner(left) && is_outer(right))
                }
                _ => false,
            })
        }
        _ => Ok(false),
    }
}
