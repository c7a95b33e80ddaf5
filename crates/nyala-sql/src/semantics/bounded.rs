//! Calls that could make more than memory holds get a bound.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::Expr;

use super::{Meaning, Scope};
use crate::functions::{bound_call, needs_bound};

/// Calls that need a bound get it.
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
