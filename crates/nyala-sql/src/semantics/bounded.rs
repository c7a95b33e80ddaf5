//! Bounds for calls whose result could exceed the memory.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::Expr;

use super::{Meaning, Scope};
use crate::functions::{bound_call, needs_bound};

/// Gives calls the bound that they need.
#[derive(Debug)]
pub struct BoundCalls;

impl Meaning for BoundCalls {
    fn name(&self) -> &'static str {
        "bound_calls"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        needs_bound(expr)
    }

    fn rewrite(&self, expr: Expr, _: &Scope<'_>) -> Result<Transformed<Expr>> {
        bound_call(expr)
    }
}
