//! INTERSECT ALL, EXCEPT ALL and DISTINCT.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprFunctionExt, Join, LogicalPlan, Projection, Window,
    WindowFunctionDefinition,
};

/// The name of the column that numbers equal rows.
const COPY: &str = "__copy";

/// INTERSECT ALL and EXCEPT ALL count equal rows: DataFusion asks only whether the other side has an equal row.
/// The equal rows of each side are numbered here, so that each is compared with one row of the other side.
pub fn count_copies(join: Join) -> Result<Transformed<LogicalPlan>> {
    let is_set_operation = matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && !join.on.is_empty();
    if !is_set_operation || is_distinct(&join.left) {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let (lefts, rights): (Vec<Expr>, Vec<Expr>) = join.on.iter().cloned().unzip();
    let left = numbered(&join.left, lefts, COPY)?;
    let right = numbered(&join.right, rights, &format!("{COPY}_right"))?;
    let copy = |plan: &LogicalPlan| plan.schema().columns().into_iter().next_back().map(Expr::Column);
    let (Some(one), Some(other)) = (copy(&left), copy(&right)) else {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    };
    let columns: Vec<Expr> = join.schema.columns().into_iter().map(Expr::Column).collect();
    let mut on = join.on;
    on.push((one, other));
    let joined = Join::try_new(
        Arc::new(left),
        Arc::new(right),
        on,
        None,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        false,
    )?;
    let projection = Projection::try_new(columns, Arc::new(LogicalPlan::Join(joined)))?;
    Ok(Transformed::yes(LogicalPlan::Projection(projection)))
}

/// Whether no two rows of a plan are equal, because it is a DISTINCT or its rows are numbered: then ALL makes no difference.
fn is_distinct(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Distinct(Distinct::All(_)) => true,
        LogicalPlan::SubqueryAlias(alias) => is_distinct(&alias.input),
        _ => plan.schema().fields().iter().any(|field| field.name().starts_with(COPY)),
    }
}

fn numbered(plan: &Arc<LogicalPlan>, columns: Vec<Expr>, name: &str) -> Result<LogicalPlan> {
    let row_number = WindowFunction::new(WindowFunctionDefinition::WindowUDF(row_number_udwf()), vec![]);
    let number = Expr::from(row_number).partition_by(columns).build()?.alias(name);
    Ok(LogicalPlan::Window(Window::try_new(vec![number], Arc::clone(plan))?))
}

/// DISTINCT as an aggregation: DataFusion leaves out DISTINCT if a column was a key before a join repeated its rows.
pub fn distinct_by_groups(distinct: Distinct) -> Result<Transformed<LogicalPlan>> {
    let Distinct::All(input) = distinct else { return Ok(Transformed::no(LogicalPlan::Distinct(distinct))) };
    if input.schema().fields().is_empty() {
        return Ok(Transformed::no(LogicalPlan::Distinct(Distinct::All(input))));
    }
    let columns = input.schema().columns().into_iter().map(Expr::Column).collect();
    Ok(Transformed::yes(LogicalPlan::Aggregate(Aggregate::try_new(input, columns, Vec::new())?)))
}
