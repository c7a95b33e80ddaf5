//! Constant texts whose value differs from that of a cast.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Cast, Expr, TryCast};

use super::assign::of_text;
use super::{Meaning, Scope};

/// Reads constant texts as PostgreSQL does where bytes or arrays are wanted. DataFusion's cast takes the
/// bytes of the text itself, or makes an array with the text as its only element.
#[derive(Debug)]
pub struct ConstantTexts;

impl Meaning for ConstantTexts {
    fn name(&self) -> &'static str {
        "constant_texts"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) => {
                expr.as_literal().is_some()
            }
            _ => false,
        }
    }

    fn rewrite(&self, expr: Expr, _: &Scope<'_>) -> Result<Transformed<Expr>> {
        let (Expr::Cast(Cast { expr: text, field }) | Expr::TryCast(TryCast { expr: text, field })) = &expr
        else {
            return Ok(Transformed::no(expr));
        };
        let value = match (text.as_literal().and_then(|text| of_text(text, field.data_type())), &expr) {
            (None, _) => return Ok(Transformed::no(expr)),
            (Some(Ok(value)), _) => value,
            (Some(Err(_)), Expr::TryCast(_)) => ScalarValue::try_new_null(field.data_type())?,
            (Some(Err(error)), _) => return Err(error.into()),
        };
        Ok(Transformed::yes(Expr::Literal(value, None)))
    }
}
