//! Casts that DataFusion 55 must not look through: it drops a cast if it can convert the compared constant back.

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{
    Between, BinaryExpr, Case, Cast, ColumnarValue, Expr, ExprSchemable, Operator, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TryCast, Volatility,
};

use super::cast_facts::can_be_undone;
use super::decimals::CHOICES;
use super::{Meaning, Scope};

/// Hides casts that are compared with constants from the rules that would drop them. Cubes are matched before this
/// and need to see casts; joins and subqueries are built from casts that are compared with columns, which stay.
#[derive(Debug)]
pub struct KeepCasts;

impl Meaning for KeepCasts {
    fn name(&self) -> &'static str {
        "keep_casts"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        match expr {
            Expr::BinaryExpr(BinaryExpr { op, .. }) => is_comparison(*op),
            Expr::Case(Case { expr, .. }) => expr.is_some(),
            Expr::ScalarFunction(call) => call.name() == "array_has",
            other => matches!(other, Expr::Between(_) | Expr::InList(_)),
        }
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        Ok(kept(expr, scope.schema))
    }
}

/// Hides the casts that a comparison compares with constants.
fn kept(mut expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let hidden = match &mut expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
            (is_constant(right) && hide(left, schema)) || (is_constant(left) && hide(right, schema))
        }
        // DataFusion splits BETWEEN into two comparisons.
        Expr::Between(Between { expr, low, high, .. }) if is_constant(expr) => {
            let is_low_hidden = hide(low, schema);
            hide(high, schema) || is_low_hidden
        }
        Expr::Between(Between { expr, low, high, .. }) => {
            (is_constant(low) || is_constant(high)) && hide(expr, schema)
        }
        Expr::InList(InList { expr, list, .. }) if is_constant(expr) => {
            list.iter_mut().map(|item| hide(item, schema)).filter(|hidden| *hidden).count() > 0
        }
        Expr::InList(InList { expr, list, .. }) => list.iter().all(is_constant) && hide(expr, schema),
        Expr::Case(Case { expr: Some(expr), when_then_expr, .. }) if is_constant(expr) => {
            when_then_expr.iter_mut().map(|(when, _)| hide(when, schema)).filter(|hidden| *hidden).count() > 0
        }
        Expr::Case(Case { expr: Some(expr), .. }) => hide(expr, schema),
        // DataFusion makes IN of a list of constants.
        Expr::ScalarFunction(call) if call.name() == "array_has" => match call.args.as_mut_slice() {
            [list, value] => is_constant(list) && hide(value, schema),
            _ => false,
        },
        _ => false,
    };
    if hidden { Transformed::yes(expr) } else { Transformed::no(expr) }
}

fn is_comparison(op: Operator) -> bool {
    op.supports_propagation() || matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom)
}

/// Whether the value of an expression is the same for all rows.
pub fn is_constant(expr: &Expr) -> bool {
    let varies = expr.exists(|part| {
        Ok(matches!(
            part,
            Expr::Column(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
                | Expr::AggregateFunction(_)
                | Expr::WindowFunction(_)
        ))
    });
    !varies.unwrap_or(true)
}

/// Hides the outermost of nested casts that cannot be undone, also within expressions that the optimizer may remove: `coalesce` of a
/// value that is never NULL, CASE with a condition that is always true, `+ 0`. False if there is no such cast, or it is hidden already.
fn hide(expr: &mut Expr, schema: &DFSchema) -> bool {
    let (Expr::Cast(Cast { expr: value, field }) | Expr::TryCast(TryCast { expr: value, field })) = expr
    else {
        return match expr {
            Expr::Alias(alias) => hide(&mut alias.expr, schema),
            Expr::Negative(value) => hide(value, schema),
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if op.is_numerical_operators() => {
                hide_all([left.as_mut(), right.as_mut()].into_iter(), schema)
            }
            Expr::Case(Case { when_then_expr, else_expr, .. }) => {
                let results = when_then_expr.iter_mut().map(|(_, then)| then.as_mut());
                hide_all(results.chain(else_expr.as_deref_mut()), schema)
            }
            Expr::ScalarFunction(call) if CHOICES.contains(&call.name()) => {
                hide_all(call.args.iter_mut(), schema)
            }
            _ => false,
        };
    };
    if value.get_type(schema).is_ok_and(|from| can_be_undone(&from, field.data_type())) {
        return hide(value, schema);
    }
    *expr = as_it_is().call(vec![std::mem::take(expr)]);
    true
}

/// As [`hide`], for each of several parts.
fn hide_all<'e>(parts: impl Iterator<Item = &'e mut Expr>, schema: &DFSchema) -> bool {
    let mut is_hidden = false;
    for part in parts {
        is_hidden |= hide(part, schema);
    }
    is_hidden
}

/// A function that returns its argument, and that DataFusion does not look through.
pub fn as_it_is() -> ScalarUDF {
    ScalarUDF::new_from_impl(AsItIs::new())
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub struct AsItIs {
    signature: Signature,
}

impl AsItIs {
    fn new() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for AsItIs {
    fn name(&self) -> &str {
        "as_it_is"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        only(arguments).cloned()
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        only(arguments.arg_fields).cloned()
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        only(&arguments.args).cloned()
    }

    // The column keeps the name of the argument.
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(only(arguments)?.schema_name().to_string())
    }
}

fn only<T>(arguments: &[T]) -> Result<&T> {
    match arguments {
        [argument] => Ok(argument),
        _ => internal_err!("it has one argument, not {}", arguments.len()),
    }
}
