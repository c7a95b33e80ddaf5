//! `round`, `trunc`, `ceil` and `floor` of decimals have the requested number of digits after the point.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, cast};

use super::{Meaning, Scope};
use crate::functions::{decimal_of, digits_of_integer};

/// Most digits after the point that are given.
const MOST: i64 = 38;

/// Settles how many digits after the point the result has. DataFusion's type follows the literal only after
/// constants are folded, and before that the argument.
#[derive(Debug)]
pub struct DecimalPlaces;

impl Meaning for DecimalPlaces {
    fn name(&self) -> &'static str {
        "decimal_places"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::ScalarFunction(call) if ["round", "trunc", "ceil", "floor"].contains(&call.func.name()))
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        let Expr::ScalarFunction(ScalarFunction { func, mut args }) = expr else {
            return Ok(Transformed::no(expr));
        };
        let mut data_type = args.first().and_then(|number| number.get_type(scope.schema).ok());
        let places = match args.get(1) {
            None => Some(0),
            Some(places) => whole(places).filter(|places| *places <= MOST),
        };
        // A whole number that is rounded before the point becomes a decimal with room for one digit more. Other
        // roundings leave whole numbers as they are; such a column of a UNION may still become another type.
        if let (Some(digits), [number, _]) =
            (data_type.as_ref().and_then(digits_of_integer), args.as_mut_slice())
            && places.is_some_and(|places| places < 0)
        {
            let decimal = DataType::Decimal128(digits, 0);
            *number = cast(std::mem::take(number), decimal.clone());
            data_type = Some(decimal);
        }
        let (
            Some(DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale)),
            Some(places),
        ) = (data_type, places)
        else {
            return Ok(Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })));
        };
        let behind = i8::try_from(places.max(0)).unwrap_or_default();
        // Rounding up may take one digit more before the point.
        let before = i16::from(precision) - i16::from(scale) + 1;
        let to = decimal_of(before, behind);
        let is_rounded = func.name() == "round" && places >= 0;
        if is_rounded {
            let number = args.into_iter().next().unwrap_or_default();
            return Ok(Transformed::yes(cast(number, to)));
        }
        if func.name() != "trunc"
            && let Some(number) = args.first_mut()
        {
            *number = cast(std::mem::take(number), decimal_of(before, scale));
        }
        // With this type no other rule has to cast the argument, and the type of the result stays as it is.
        if let (Some(argument), Ok(places)) = (args.get_mut(1), i32::try_from(places)) {
            *argument = Expr::Literal(ScalarValue::Int32(Some(places)), None);
        }
        Ok(Transformed::yes(cast(Expr::ScalarFunction(ScalarFunction { func, args }), to)))
    }
}

/// The value of a constant whole number.
fn whole(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(value, _) if value.data_type().is_integer() => match value.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(value)) => value,
            _ => None,
        },
        Expr::Negative(inner) => whole(inner)?.checked_neg(),
        Expr::Cast(Cast { expr, field }) if field.data_type().is_integer() => whole(expr),
        _ => None,
    }
}
