//! Conditions are checked before the expressions that they guard.
//!
//! A query with `a / b … WHERE b <> 0`, or with a cast of texts of which a condition keeps those that look like numbers, would
//! fail for the other rows. DataFusion computes both sides of an AND for all rows of a batch, and moves projections below filters.

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    BinaryExpr, Case, Expr, ExprSchemable, Filter, LogicalPlan, Operator, lit, when,
};

use super::cast_facts::always_fits;
use super::{Meaning, Scope};

/// The function that stands for a value that is not known yet.
pub const PARAMETER: &str = "nyala_parameter";

/// The same filter, but risky conditions are computed only for rows that pass all others.
pub fn conditions_first(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let schema = filter.input.schema();
    let parts = split_conjunction(&filter.predicate).into_iter();
    let mut parts: Vec<(Option<Risk>, Expr)> = parts.map(|part| (risk(part, schema), part.clone())).collect();
    if parts.iter().all(|(risk, _)| risk.is_none()) {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    }
    for (risk, part) in &mut parts {
        // A volatile condition must be computed only once, but safe ones are computed twice.
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
        // The safe condition also stays outside the CASE, for rules that look at conditions.
        Some(safe) => safe.clone().and(only_where(safe, risky)?),
        None => risky,
    };
    Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)))
}

/// Whether an expression may have another value each time it is computed. A parameter is declared volatile,
/// to keep rules from computing it, but has one value for a whole run.
pub fn is_volatile(expr: &Expr) -> bool {
    let another_each_time = |expr: &Expr| {
        Ok(expr.is_volatile_node() && !matches!(expr, Expr::ScalarFunction(call) if call.name() == PARAMETER))
    };
    expr.exists(another_each_time).unwrap_or(true)
}

/// Only CASE is certain to compute an expression for no other rows of a batch than those that need it.
fn only_where(condition: Expr, then: Expr) -> Result<Expr> {
    when(condition, then).otherwise(lit(false))
}

/// Why an expression may fail for a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Risk {
    /// The result is out of the range of its type, or a text has no value of the type.
    OfType,
    /// A divisor of zero: conditions with arithmetic or casts may be there to rule it out.
    OfZero,
}

/// The risk that an expression fails for some rows and not for others: arithmetic of whole numbers and decimals, and
/// casts. Functions are not looked into, and expressions in a CASE are guarded by it.
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
                let may_fail = is_exact(right, schema) || is_float(right, schema);
                (may_fail && right.any_column_refs()).then_some(Risk::OfZero)
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

fn is_float(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| data_type.is_floating())
}

fn is_exact(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| data_type.is_integer() || data_type.is_decimal())
}

/// Keeps CASE as it is: DataFusion turns a boolean CASE into ANDs and ORs, and computes all sides of these.
#[derive(Debug)]
pub struct KeepCase;

impl Meaning for KeepCase {
    fn name(&self) -> &'static str {
        "keep_case"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Case(case) if case.expr.is_none())
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        Ok(kept(expr, scope.schema))
    }
}

/// `CASE WHEN x …` as `CASE true WHEN x …`, which is the same and is left alone, if a side may fail.
fn kept(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::Case(case) if case.expr.is_none() && case_may_fail(&case, schema) => {
            Transformed::yes(Expr::Case(Case { expr: Some(Box::new(lit(true))), ..case }))
        }
        other => Transformed::no(other),
    }
}

fn case_may_fail(case: &Case, schema: &DFSchema) -> bool {
    let sides = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
    sides.clone().any(|side| side.get_type(schema).is_ok_and(|data_type| data_type == DataType::Boolean))
        && sides
            .chain(case.when_then_expr.iter().map(|(when, _)| when))
            .any(|side| risk(side, schema).is_some())
}
