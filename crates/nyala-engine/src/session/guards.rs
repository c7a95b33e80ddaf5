//! Conditions are checked before what is only computed where they hold.
//!
//! Who writes `a / b … WHERE b <> 0`, or casts texts that look like numbers, does so because the other rows cannot be computed with. DataFusion
//! computes both sides of an AND for all rows of a batch, and moves projections below filters.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Filter, LogicalPlan, Operator, lit, when};
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_optimizer::optimizer::{
    ConfigOnlyContext, PhysicalOptimizerContext, PhysicalOptimizerRule,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::{ProjectionExec, try_embed_projection};

use super::give_way::GiveWayExec;

/// The function that stands where a value is not known yet.
pub(crate) const PARAMETER: &str = "nyala_parameter";

/// The same plan, whose filters compute what may fail for rows only that pass all else.
pub(super) fn conditions_first(plan: LogicalPlan) -> Result<LogicalPlan> {
    let guarded = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Filter(filter) => guarded(filter),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(guarded.data)
}

fn guarded(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let schema = filter.input.schema();
    let parts = split_conjunction(&filter.predicate).into_iter();
    let mut parts: Vec<(Option<Risk>, Expr)> = parts.map(|part| (risk(part, schema), part.clone())).collect();
    if parts.iter().all(|(risk, _)| risk.is_none()) {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    }
    for (risk, part) in &mut parts {
        // What is another value each time is computed once.
        if is_volatile(part) {
            *risk = Some(Risk::OfZero);
        }
    }
    let of = |level: Option<Risk>| {
        conjunction(parts.iter().filter(|(risk, _)| *risk == level).map(|(_, part)| part.clone()))
    };
    let risky = [of(Some(Risk::OfType)), of(Some(Risk::OfZero))].into_iter().flatten();
    let risky = risky.rev().map(Ok).reduce(|then, condition| only_where(condition?, then?)).transpose()?;
    let (safe, Some(risky)) = (of(None), risky) else {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    };
    let predicate = match safe {
        // It stays beside it, for who looks at conditions.
        Some(safe) => safe.clone().and(only_where(safe, risky)?),
        None => risky,
    };
    Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)))
}

/// Whether it has another value each time it is computed. A parameter is said to, so that nobody works it out, and has one value for a
/// whole run.
fn is_volatile(expr: &Expr) -> bool {
    let another_each_time = |expr: &Expr| {
        Ok(expr.is_volatile_node() && !matches!(expr, Expr::ScalarFunction(call) if call.name() == PARAMETER))
    };
    expr.exists(another_each_time).unwrap_or(true)
}

/// Nothing but CASE is certain to compute for some rows of a batch only.
fn only_where(condition: Expr, then: Expr) -> Result<Expr> {
    when(condition, then).otherwise(lit(false))
}

/// What the values of an expression may not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Risk {
    /// Beyond the range of its type, or no value of it.
    OfType,
    /// A divisor of zero: conditions that compute may be there to rule it out.
    OfZero,
}

/// Whether an expression is an error for some rows and not for others: arithmetic of whole numbers and decimals, and casts.
/// Functions are not looked into, and what is in a CASE is guarded by that.
fn risk(expr: &Expr, schema: &DFSchema) -> Option<Risk> {
    if matches!(expr, Expr::Case(_)) || !expr.any_column_refs() {
        return None;
    }
    let own = match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            Operator::Plus | Operator::Minus | Operator::Multiply => {
                (is_exact(left, schema) && is_exact(right, schema)).then_some(Risk::OfType)
            }
            Operator::Divide | Operator::Modulo => {
                (is_exact(right, schema) && right.any_column_refs()).then_some(Risk::OfZero)
            }
            _ => None,
        },
        Expr::Cast(cast) => {
            let from = cast.expr.get_type(schema);
            from.is_ok_and(|from| !always_fits(&from, cast.field.data_type())).then_some(Risk::OfType)
        }
        _ => None,
    };
    let mut highest = own;
    let walked = expr.apply_children(|child| {
        highest = highest.max(risk(child, schema));
        Ok(TreeNodeRecursion::Continue)
    });
    walked.map_or(own, |_| highest)
}

fn is_exact(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| data_type.is_integer() || data_type.is_decimal())
}

/// Whether each value of one type has one of the other.
fn always_fits(from: &DataType, to: &DataType) -> bool {
    let is_time = |data_type: &DataType| data_type.is_temporal();
    from == to
        || from.is_null()
        || to.is_string()
        || (is_time(from) && is_time(to))
        || (from == &DataType::Boolean && to.is_numeric())
        || (from.is_numeric() && to.is_floating())
        || match (digits(from, Whole::Largest), digits(to, Whole::Every)) {
            (Some((whole, behind)), Some((room, room_behind))) => {
                let loses_sign = from.is_signed_integer() && to.is_unsigned_integer();
                whole <= room && behind <= room_behind && !loses_sign
            }
            _ => false,
        }
}

/// Which numbers of a type are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whole {
    /// The largest.
    Largest,
    /// Those with so many digits, whatever the digits are.
    Every,
}

/// How many digits a number of this type has before and behind the point.
fn digits(data_type: &DataType, which: Whole) -> Option<(i16, i16)> {
    let whole = match data_type {
        DataType::Int8 | DataType::UInt8 => 3,
        DataType::Int16 | DataType::UInt16 => 5,
        DataType::Int32 | DataType::UInt32 => 10,
        DataType::Int64 => 19,
        DataType::UInt64 => 20,
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            return Some((i16::from(*precision) - i16::from(*scale), i16::from(*scale)));
        }
        _ => return None,
    };
    Some((if which == Whole::Every { whole - 1 } else { whole }, 0))
}

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// A rule that moves projections, kept from moving those below filters that compute something.
#[derive(Debug)]
pub(super) struct BehindFilters(pub(super) Rule);

impl PhysicalOptimizerRule for BehindFilters {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.optimize_with_context(plan, &ConfigOnlyContext::new(options))
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let fenced = fence(plan, false)?;
        let done = self.0.optimize_with_context(fenced.data, context)?;
        if !fenced.transformed {
            return Ok(done);
        }
        Ok(done.transform_up(unfence)?.data)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Puts an operator that nothing is moved through above each filter to which a projection would come that computes something.
fn fence(plan: Arc<dyn ExecutionPlan>, computed_above: bool) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let is_fenced = computed_above && plan.is::<FilterExec>();
    let computes = plan.downcast_ref::<ProjectionExec>().map(computes);
    let comes_through = |child: &Arc<dyn ExecutionPlan>| match computes {
        Some(computes) => computes || computed_above,
        // What passes rows on as they are lets projections through, also if it names them otherwise.
        None => {
            let columns = |plan: &Arc<dyn ExecutionPlan>| plan.schema().fields().len();
            computed_above && !is_fenced && columns(child) == columns(&plan)
        }
    };
    let mut changed = false;
    let mut children = Vec::new();
    for child in plan.children() {
        let fenced = fence(Arc::clone(child), comes_through(child))?;
        changed |= fenced.transformed;
        children.push(fenced.data);
    }
    let plan = replace_children_if_necessary(plan, children)?;
    if is_fenced {
        return Ok(Transformed::yes(Arc::new(GiveWayExec::new(plan))));
    }
    Ok(Transformed::new_transformed(plan, changed))
}

/// Takes a fence away; no other such operator is in the plan yet. A filter gives the columns that are needed above it.
fn unfence(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if let (true, [child]) = (node.is::<GiveWayExec>(), &node.children()[..]) {
        return Ok(Transformed::yes(Arc::clone(child)));
    }
    let embedded = match node.downcast_ref::<ProjectionExec>() {
        Some(projection) => match projection.input().downcast_ref::<FilterExec>() {
            Some(filter) => try_embed_projection(projection, filter)?,
            None => None,
        },
        None => None,
    };
    Ok(embedded.map_or(Transformed::no(node), Transformed::yes))
}

fn computes(projection: &ProjectionExec) -> bool {
    projection.expr().iter().any(|column| !(column.expr.is::<Column>() || column.expr.is::<Literal>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casts_that_always_fit_are_known() {
        use DataType::{Boolean, Date32, Decimal128, Float32, Float64, Int32, Int64, UInt32, UInt64, Utf8};
        for (from, to) in [
            (Int32, Int64),
            (UInt32, Int64),
            (Int64, Float64),
            (Float64, Float32),
            (Int32, Utf8),
            (Boolean, Int32),
            (Int64, Decimal128(19, 0)),
            (UInt64, Decimal128(22, 2)),
            (Decimal128(10, 2), Decimal128(12, 3)),
            (Date32, DataType::Date64),
            (Decimal128(18, 0), Int64),
        ] {
            assert!(always_fits(&from, &to), "{from} as {to}");
        }
        for (from, to) in [
            (Int64, Int32),
            (UInt64, Int64),
            (Int32, UInt32),
            (Int32, UInt64),
            (UInt32, Int32),
            (Utf8, Int32),
            (Utf8, Date32),
            (Float64, Int64),
            (Int64, Decimal128(18, 0)),
            (Decimal128(19, 0), Int64),
            (Decimal128(10, 2), Decimal128(12, 5)),
        ] {
            assert!(!always_fits(&from, &to), "{from} as {to}");
        }
    }
}
