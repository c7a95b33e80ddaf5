//! Intervals are compared by their length, and multiplied by numbers.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, InList};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    Between, BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, Sort, SortExpr, cast,
};

use super::{Meaning, Scope};
use crate::functions::{INTERVAL, Intervals, Of};

/// Compares intervals by their length: DataFusion compares first the months, then the days, then the time.
#[derive(Debug)]
pub struct IntervalsInOrder;

/// Plans `interval * 2`, `2 * interval` and `interval / 2`, which the planner would refuse before there is a plan.
impl ExprPlanner for IntervalsInOrder {
    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let of = |side: &Expr| side.get_type(schema).ok();
        let is_number = |side: &Expr| of(side).is_some_and(|data_type| data_type.is_numeric());
        let operator = raw.op.to_string();
        let (of, interval, number) = match operator.as_str() {
            "*" if is_interval(&raw.left, schema) && is_number(&raw.right) => {
                (Of::Product, raw.left, raw.right)
            }
            "*" if is_interval(&raw.right, schema) && is_number(&raw.left) => {
                (Of::Product, raw.right, raw.left)
            }
            "/" if is_interval(&raw.left, schema) && is_number(&raw.right) => {
                (Of::Quotient, raw.left, raw.right)
            }
            _ => return Ok(PlannerResult::Original(raw)),
        };
        let arguments = vec![cast(interval, INTERVAL), cast(number, DataType::Float64)];
        Ok(PlannerResult::Planned(Intervals::udf(of).call(arguments)))
    }
}

impl Meaning for IntervalsInOrder {
    fn name(&self) -> &'static str {
        "intervals_in_order"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        match expr {
            Expr::BinaryExpr(binary) => is_comparison(binary.op),
            Expr::AggregateFunction(call) => {
                matches!(call.func.name(), "min" | "max") || is_distinct_count(call)
            }
            Expr::WindowFunction(call) => {
                !call.params.order_by.is_empty() || !call.params.partition_by.is_empty()
            }
            other => matches!(other, Expr::Between(_) | Expr::InList(_)),
        }
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        let schema = scope.schema;
        Ok(match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right })
                if is_interval(&left, schema) || is_interval(&right, schema) =>
            {
                let [left, right] = [left, right].map(|side| Box::new(ordered(*side)));
                Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
            }
            Expr::Between(Between { expr, negated, low, high }) if is_interval(&expr, schema) => {
                let [expr, low, high] = [expr, low, high].map(|side| Box::new(ordered(*side)));
                Transformed::yes(Expr::Between(Between { expr, negated, low, high }))
            }
            Expr::InList(InList { expr, list, negated }) if is_interval(&expr, schema) => {
                let list = list.into_iter().map(ordered).collect();
                Transformed::yes(Expr::InList(InList { expr: Box::new(ordered(*expr)), list, negated }))
            }
            Expr::AggregateFunction(mut call) if is_distinct_count(&call) => {
                let changed = in_order(&mut call.params.args, schema);
                let expr = Expr::AggregateFunction(call);
                if changed { Transformed::yes(expr) } else { Transformed::no(expr) }
            }
            Expr::AggregateFunction(call) => extreme(call, schema),
            Expr::WindowFunction(mut call) => {
                let mut changed = in_order(&mut call.params.partition_by, schema);
                for by in call.params.order_by.iter_mut().filter(|by| is_interval(&by.expr, schema)) {
                    by.expr = ordered(std::mem::take(&mut by.expr));
                    changed = true;
                }
                let expr = Expr::WindowFunction(call);
                if changed { Transformed::yes(expr) } else { Transformed::no(expr) }
            }
            other => Transformed::no(other),
        })
    }
}

/// The least and the greatest interval, as the first value by length in ascending or descending order.
fn extreme(mut call: AggregateFunction, schema: &DFSchema) -> Transformed<Expr> {
    let [interval] = call.params.args.as_slice() else {
        return Transformed::no(Expr::AggregateFunction(call));
    };
    if !is_interval(interval, schema) {
        return Transformed::no(Expr::AggregateFunction(call));
    }
    let is_known = interval.clone().is_not_null();
    let ascending = call.func.name() == "min";
    call.params.order_by = vec![SortExpr::new(ordered(interval.clone()), ascending, false)];
    call.params.distinct = false;
    call.params.filter = Some(Box::new(match call.params.filter.take() {
        Some(filter) => filter.and(is_known),
        None => is_known,
    }));
    call.func = first_value_udaf();
    Transformed::yes(Expr::AggregateFunction(call))
}

/// Sorts intervals by their length.
pub fn sort_in_order(mut sort: Sort) -> Transformed<LogicalPlan> {
    let schema = sort.input.schema();
    let mut changed = false;
    for by in &mut sort.expr {
        if is_interval(&by.expr, schema) {
            by.expr = ordered(std::mem::take(&mut by.expr));
            changed = true;
        }
    }
    let plan = LogicalPlan::Sort(sort);
    if changed { Transformed::yes(plan) } else { Transformed::no(plan) }
}

fn is_distinct_count(call: &AggregateFunction) -> bool {
    call.params.distinct && call.func.name() == "count"
}

/// Replaces each interval by its length; whether there is one.
fn in_order(values: &mut [Expr], schema: &DFSchema) -> bool {
    let mut changed = false;
    for value in values.iter_mut().filter(|value| is_interval(value, schema)) {
        *value = ordered(std::mem::take(value));
        changed = true;
    }
    changed
}

fn is_comparison(op: Operator) -> bool {
    op.supports_propagation() || matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom)
}

/// Whether an expression is an interval.
pub fn is_interval(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr.get_type(schema), Ok(DataType::Interval(_) | DataType::Duration(_)))
}

/// The length of an interval.
pub fn ordered(expr: Expr) -> Expr {
    Intervals::udf(Of::Order).call(vec![cast(expr, INTERVAL)])
}
