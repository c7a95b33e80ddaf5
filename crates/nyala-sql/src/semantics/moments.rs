//! Keeps moments apart from times without a zone, which DataFusion takes for the same constant if both count the same microseconds.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::FieldMetadata;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// The mark of a constant that has a zone, in a plan that has an equal constant without one.
const ZONED: &str = "nyala.zoned";

/// Marks constants with a zone where the plan has the same time without a zone, too. The optimizer computes
/// common parts of two expressions once, and would take the two constants for equal.
pub fn tell_apart(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut seen = Constants::default();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                seen.add(part);
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    if seen.with_zone.is_disjoint(&seen.without) {
        return Ok(Transformed::no(plan));
    }
    let marked = plan.transform_up_with_subqueries(|node| {
        node.map_expressions(|expr| expr.transform_up(mark))?.map_data(LogicalPlan::recompute_schema)
    })?;
    Ok(marked)
}

/// The times of a plan's constants.
#[derive(Default)]
struct Constants {
    with_zone: BTreeSet<i64>,
    without: BTreeSet<i64>,
}

impl Constants {
    fn add(&mut self, expr: &Expr) {
        if let Expr::Literal(ScalarValue::TimestampMicrosecond(Some(time), zone), None) = expr {
            let times = if zone.is_some() { &mut self.with_zone } else { &mut self.without };
            times.insert(*time);
        }
    }
}

fn mark(expr: Expr) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::Literal(value @ ScalarValue::TimestampMicrosecond(Some(_), Some(_)), None) => {
            let metadata = FieldMetadata::new(BTreeMap::from([(ZONED.to_owned(), String::new())]));
            Transformed::yes(Expr::Literal(value, Some(metadata)))
        }
        expr => Transformed::no(expr),
    })
}
