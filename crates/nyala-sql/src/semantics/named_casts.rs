//! Casts with names, while names tell columns apart: `statement/cast_names.rs` writes them.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::Expr;

use super::{Meaning, Scope};
use crate::functions::NAMED_CAST;

/// Replaces the calls by their casts, when names are given.
#[derive(Debug)]
pub struct NamedCasts;

impl Meaning for NamedCasts {
    fn name(&self) -> &'static str {
        "named_casts"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::ScalarFunction(call) if call.name() == NAMED_CAST)
    }

    fn rewrite(&self, expr: Expr, _: &Scope<'_>) -> Result<Transformed<Expr>> {
        let Expr::ScalarFunction(call) = expr else { return Ok(Transformed::no(expr)) };
        match call.args.into_iter().next() {
            Some(cast) => Ok(Transformed::yes(cast)),
            None => internal_err!("a cast with a name has no value"),
        }
    }
}
