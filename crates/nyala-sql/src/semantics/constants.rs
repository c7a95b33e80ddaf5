//! Comparisons with a constant, written with the constant on the right.
//!
//! DataFusion 55 keeps the stricter of two conditions on a column, and of `5 <= x AND 5 < x` it takes
//! `5 <= x`: a tie is decided by operators that are meant for a constant on the right. Written that way
//! they are decided well.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{BinaryExpr, Expr};

use super::{Meaning, Scope};

/// Swaps the sides of comparisons with a constant on the left side only.
#[derive(Debug)]
pub struct ConstantsRight;

impl Meaning for ConstantsRight {
    fn name(&self) -> &'static str {
        "constants_right"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::BinaryExpr(BinaryExpr { op, .. }) if op.supports_propagation())
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        Ok(match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right })
                if scope.is_condition && !left.any_column_refs() && right.any_column_refs() =>
            {
                match op.swap() {
                    Some(swapped) => {
                        Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(right, swapped, left)))
                    }
                    None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
                }
            }
            other => Transformed::no(other),
        })
    }
}
