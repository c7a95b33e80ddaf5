//! Comparisons with a constant, written with the constant on the right.
//!
//! DataFusion 55 keeps the stricter of two conditions on a column, and of `5 <= x AND 5 < x` it takes
//! `5 <= x`: a tie is decided by operators that are meant for a constant on the right. Written that way
//! they are decided well.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

/// Swaps the sides of comparisons with a constant on the left side only.
#[derive(Debug)]
pub struct ConstantsRight;

impl AnalyzerRule for ConstantsRight {
    fn name(&self) -> &str {
        "constants_right"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let turned = plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Filter(_) | LogicalPlan::Join(_) => {
                node.map_expressions(|expr| expr.transform_up(|expr| Ok(constant_right(expr))))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(turned.data)
    }
}

fn constant_right(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if op.supports_propagation() && !left.any_column_refs() && right.any_column_refs() =>
        {
            match op.swap() {
                Some(swapped) => Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(right, swapped, left))),
                None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
            }
        }
        other => Transformed::no(other),
    }
}
