//! Casts to whole numbers and to floating-point numbers take the nearest one.
//!
//! Constants are rounded while plans are analysed and optimised, before another rule computes them. Casts of
//! columns stay until operators are chosen, because cubes, joins and subqueries are recognised by casts.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, TryCast, cast};

use super::cast_facts::{Nearest, nearest};
use super::casts::is_constant;
use super::decimals::CHOICES;
use super::{Meaning, Scope};
use crate::functions::{NearestFloat, Rint};

/// Inserts the rounding before casts.
#[derive(Debug)]
pub struct Rounding {
    pub of: Of,
}

/// The casts that are rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    Constants,
    /// Constants, and expressions that a rule may replace by a constant: it keeps 2.5 of `coalesce(2.5, x)`.
    Choices,
    Everything,
}

impl Of {
    /// Whether casts of this value are rounded.
    pub fn has(self, value: &Expr) -> bool {
        match self {
            Self::Constants => is_constant(value),
            Self::Choices => is_constant(value) || has_choice(value),
            Self::Everything => true,
        }
    }
}

/// Whether a part of an expression chooses one of several values.
pub fn has_choice(expr: &Expr) -> bool {
    let is_choice = |part: &Expr| match part {
        Expr::Case(_) => true,
        Expr::ScalarFunction(call) => CHOICES.contains(&call.name()),
        _ => false,
    };
    expr.exists(|part| Ok(is_choice(part))).unwrap_or(true)
}

impl Meaning for Rounding {
    fn name(&self) -> &'static str {
        "rounding"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Cast(_) | Expr::TryCast(_))
    }

    fn rewrite(&self, mut expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        let (Expr::Cast(Cast { expr: value, field }) | Expr::TryCast(TryCast { expr: value, field })) =
            &mut expr
        else {
            return Ok(Transformed::no(expr));
        };
        let is_rounded =
            matches!(value.as_ref(), Expr::ScalarFunction(call) if call.func.inner().is::<Rint>());
        if is_rounded || !self.of.has(value) {
            return Ok(Transformed::no(expr));
        }
        let from = value.get_type(scope.schema).ok();
        let Some(rounding) = from.and_then(|from| nearest(&from, field.data_type())) else {
            return Ok(Transformed::no(expr));
        };
        let inner = std::mem::take(value.as_mut());
        **value = match rounding {
            Nearest::Cast(whole) => cast(inner, whole),
            Nearest::Rint => Rint::udf().call(vec![inner]),
            Nearest::Float => NearestFloat::udf().call(vec![inner]),
        };
        Ok(Transformed::yes(expr))
    }
}
