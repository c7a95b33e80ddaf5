//! Times of a day in different units. A literal counts nanoseconds and files mostly hold microseconds, which DataFusion 55 does
//! not compare.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Between, BinaryExpr, Expr, ExprSchemable, cast};

use super::quotients::is_comparison;
use super::{Meaning, Scope};

/// The finest unit, which holds all others.
const FINEST: DataType = DataType::Time64(TimeUnit::Nanosecond);

/// Casts times that are compared with each other to one unit.
#[derive(Debug)]
pub struct TimesOfOneUnit;

/// Casts the sides of `=`, `<` and the like, which the planner would refuse before there is a plan.
impl ExprPlanner for TimesOfOneUnit {
    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let differ = differ([&raw.left, &raw.right].into_iter(), schema);
        Ok(PlannerResult::Original(match differ {
            true => RawBinaryExpr { op: raw.op, left: finest(raw.left), right: finest(raw.right) },
            false => raw,
        }))
    }
}

/// Casts the sides of `BETWEEN` and `IN`, also of IN with a subquery, before DataFusion looks for a common type.
impl Meaning for TimesOfOneUnit {
    fn name(&self) -> &'static str {
        "times_of_one_unit"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        match expr {
            Expr::BinaryExpr(binary) => is_comparison(binary.op),
            other => matches!(other, Expr::Between(_) | Expr::InList(_)),
        }
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        Ok(of_one_unit(expr, scope.schema))
    }
}

fn of_one_unit(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if is_comparison(op) && differ([&*left, &*right].into_iter(), schema) =>
        {
            let [left, right] = [left, right].map(|side| Box::new(finest(*side)));
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::Between(Between { expr, negated, low, high })
            if differ([&*expr, &*low, &*high].into_iter(), schema) =>
        {
            let [expr, low, high] = [expr, low, high].map(|side| Box::new(finest(*side)));
            Transformed::yes(Expr::Between(Between { expr, negated, low, high }))
        }
        Expr::InList(InList { expr, list, negated })
            if differ(std::iter::once(&*expr).chain(&list), schema) =>
        {
            let list = list.into_iter().map(finest).collect();
            Transformed::yes(Expr::InList(InList { expr: Box::new(finest(*expr)), list, negated }))
        }
        other => Transformed::no(other),
    }
}

/// Whether all sides are times, and their units differ.
fn differ<'a>(sides: impl Iterator<Item = &'a Expr>, schema: &DFSchema) -> bool {
    let mut first = None;
    let mut differ = false;
    for side in sides {
        let Ok(unit @ (DataType::Time32(_) | DataType::Time64(_))) = side.get_type(schema) else {
            return false;
        };
        differ |= *first.get_or_insert_with(|| unit.clone()) != unit;
    }
    differ
}

fn finest(expr: Expr) -> Expr {
    cast(expr, FINEST)
}
