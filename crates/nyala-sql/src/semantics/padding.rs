//! Texts that are padded to a negative length are empty.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, lit, when};

use super::{Meaning, Scope};

/// `lpad` and `rpad` to a negative length give the empty text: DataFusion takes the length for a large
/// unsigned number and asks for that much memory.
#[derive(Debug)]
pub struct Padding;

impl Meaning for Padding {
    fn name(&self) -> &'static str {
        "padding"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::ScalarFunction(call) if matches!(call.func.name(), "lpad" | "rpad"))
    }

    fn rewrite(&self, expr: Expr, _: &Scope<'_>) -> Result<Transformed<Expr>> {
        let Expr::ScalarFunction(ScalarFunction { func, mut args }) = expr else {
            return Ok(Transformed::no(expr));
        };
        let mut changed = false;
        if let Some(length) = args.get_mut(1)
            && !matches!(length, Expr::Case(_))
        {
            let given = std::mem::take(length);
            *length = when(given.clone().lt(lit(0_i64)), lit(0_i64)).otherwise(given)?;
            changed = true;
        }
        let call = Expr::ScalarFunction(ScalarFunction { func, args });
        Ok(if changed { Transformed::yes(call) } else { Transformed::no(call) })
    }
}
