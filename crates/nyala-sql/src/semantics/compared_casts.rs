//! Casts in conditions that make one value of several, such as that of a timestamp to a date.
//!
//! DataFusion 55 derives from a condition the bounds of the columns in it, and casts the bounds of a cast back to those of its argument.
//! So it takes all timestamps of a day for midnight: it claims that the column is constant, and leaves out ORDER BY. And it estimates
//! that more rows are left than there were, which it takes for an error.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, Operator, binary_expr};

use super::cast_facts::tells_apart;
use super::casts::{as_it_is, is_constant};
use super::{Meaning, Scope};

/// Hides such casts: no bounds are derived from conditions with functions. Scans look behind them when they prune.
#[derive(Debug)]
pub struct ComparedCasts;

impl Meaning for ComparedCasts {
    fn name(&self) -> &'static str {
        "compared_casts"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::BinaryExpr(binary) if has_bounds(binary.op))
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return Ok(Transformed::no(expr)) };
        if !scope.is_condition {
            return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
        }
        let (left, right) = (hidden(*left, scope.schema)?, hidden(*right, scope.schema)?);
        let changed = left.transformed || right.transformed;
        Ok(Transformed::new_transformed(binary_expr(left.data, op, right.data), changed))
    }
}

/// Whether bounds are derived from comparisons by an operator.
fn has_bounds(op: Operator) -> bool {
    matches!(op, Operator::Eq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)
}

/// One side of a comparison, with such casts hidden. Nothing is derived from other expressions than these.
fn hidden(side: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    side.transform_down(|part| {
        let merges = match &part {
            Expr::Cast(_) if is_constant(&part) => None,
            Expr::Cast(Cast { expr, field }) => {
                Some(!expr.get_type(schema).is_ok_and(|from| tells_apart(&from, field.data_type())))
            }
            Expr::BinaryExpr(_) | Expr::Negative(_) => Some(false),
            _ => None,
        };
        Ok(match merges {
            Some(true) => Transformed::new(as_it_is().call(vec![part]), true, TreeNodeRecursion::Jump),
            Some(false) => Transformed::no(part),
            None => Transformed::new(part, false, TreeNodeRecursion::Jump),
        })
    })
}
