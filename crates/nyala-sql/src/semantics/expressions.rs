//! Constant regular expressions behind operators, in the language of the crate that compiles them.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

use super::{Meaning, Scope};
use crate::functions::translated;

/// Writes the constant patterns of `~` and of DataFusion's own functions in the syntax of the crate `regex`.
#[derive(Debug)]
pub struct RegularExpressions;

impl Meaning for RegularExpressions {
    fn name(&self) -> &'static str {
        "regular_expressions"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        match expr {
            Expr::BinaryExpr(binary) => is_match(binary.op) && binary.right.as_literal().is_some(),
            Expr::ScalarFunction(call) => {
                matches!(call.func.name(), "regexp_like" | "regexp_match")
                    && call.args.get(1).is_some_and(|pattern| pattern.as_literal().is_some())
            }
            _ => false,
        }
    }

    fn rewrite(&self, expr: Expr, _: &Scope<'_>) -> Result<Transformed<Expr>> {
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, mut right }) => {
                let changed = translate(&mut right)?;
                let expr = Expr::BinaryExpr(BinaryExpr { left, op, right });
                Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) })
            }
            Expr::ScalarFunction(mut call) => {
                let changed = call.args.get_mut(1).map(translate).transpose()?.unwrap_or(false);
                let expr = Expr::ScalarFunction(call);
                Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) })
            }
            other => Ok(Transformed::no(other)),
        }
    }
}

fn is_match(op: Operator) -> bool {
    use Operator::{RegexIMatch, RegexMatch, RegexNotIMatch, RegexNotMatch};
    matches!(op, RegexMatch | RegexIMatch | RegexNotMatch | RegexNotIMatch)
}

/// Translates a constant pattern; returns whether it changed.
fn translate(pattern: &mut Expr) -> Result<bool> {
    let Expr::Literal(value, _) = pattern else { return Ok(false) };
    let Some(Some(text)) = value.try_as_str() else { return Ok(false) };
    let written = translated(text)?;
    if written == text {
        return Ok(false);
    }
    *value = match value {
        ScalarValue::Utf8View(_) => ScalarValue::Utf8View(Some(written)),
        ScalarValue::LargeUtf8(_) => ScalarValue::LargeUtf8(Some(written)),
        _ => ScalarValue::Utf8(Some(written)),
    };
    Ok(true)
}
