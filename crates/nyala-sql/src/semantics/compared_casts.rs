//! Casts in conditions that give one result for several values, such as a cast of a timestamp to a date.
//!
//! DataFusion 55 derives the bounds of columns from a condition, and casts the bounds of a cast back to those of
//! its argument. So it takes all timestamps of a day for midnight, claims that the column is constant, and leaves
//! out ORDER BY. It also estimates that a filter keeps more rows than there were, which it takes for an error.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, Operator, binary_expr};

use super::cast_facts::tells_apart;
use super::casts::{as_it_is, is_constant};
use super::{Meaning, Scope};

/// Hides such casts in a function, because no bounds are derived from conditions with functions. Scans look through this one when they prune.
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

/// Whether DataFusion derives bounds from comparisons by an operator.
fn has_bounds(op: Operator) -> bool {
    matches!(op, Operator::Eq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)
}

/// One side of a comparison, with such casts hidden. DataFusion derives bounds only through casts, binary operators and signs.
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
