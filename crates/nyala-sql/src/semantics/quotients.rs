//! Arithmetic and comparisons of decimals keep their digits.

use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, binary_expr, cast};

use super::{Meaning, Scope};
use crate::functions::{Quotient, digits, digits_of_integer, wide};

/// Digits of the longest decimal of 128 bits.
const MOST: i16 = DECIMAL128_MAX_PRECISION as i16;

/// Digits before the point that a product must have room for; with less room it is computed with more than 38 digits.
const ROOM: i16 = 22;

/// Quotients get 16 digits after the point, and other results more than 38 digits where they need them.
#[derive(Debug)]
pub struct ExactArithmetic;

impl Meaning for ExactArithmetic {
    fn name(&self) -> &'static str {
        "exact_arithmetic"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        matches!(
            expr,
            Expr::BinaryExpr(binary)
                if binary.op.is_numerical_operators() || is_comparison(binary.op)
        )
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return Ok(Transformed::no(expr)) };
        let types = (left.get_type(scope.schema), right.get_type(scope.schema));
        let (Ok(left_type), Ok(right_type)) = types else {
            return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
        };
        let is_exact = |data_type: &DataType| data_type.is_integer() || data_type.is_decimal();
        let decimals = left_type.is_decimal() || right_type.is_decimal();
        if !decimals || !is_exact(&left_type) || !is_exact(&right_type) {
            return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
        }
        if is_comparison(op) {
            return Ok(compared((*left, left_type), op, (*right, right_type)));
        }
        let (left, right) = (decimal(*left, &left_type), decimal(*right, &right_type));
        if op == Operator::Divide {
            return Ok(Transformed::yes(Quotient::udf().call(vec![left, right])));
        }
        let types = (left.get_type(scope.schema)?, right.get_type(scope.schema)?);
        let has_literal = matches!(left, Expr::Literal(..)) || matches!(right, Expr::Literal(..));
        let needs_more = match op {
            Operator::Multiply => is_cramped(&types.0, &types.1),
            // A sum of two columns may exceed its digits by one, which is an error then; beside a literal it gets the digit.
            Operator::Plus | Operator::Minus => {
                digits_of_both(&types.0, &types.1) + i16::from(has_literal) > MOST
            }
            _ => digits_of_both(&types.0, &types.1) > MOST,
        };
        let (left, right) = match needs_more && [&types.0, &types.1].iter().any(|side| !is_wide(side)) {
            true => (cast(left, wide(&types.0)), cast(right, wide(&types.1))),
            false => (left, right),
        };
        Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr {
            left: Box::new(left),
            op,
            right: Box::new(right),
        })))
    }
}

pub fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// A comparison of numbers of two types: the type that holds both may need more digits than either.
fn compared(
    (left, left_type): (Expr, DataType),
    op: Operator,
    (right, right_type): (Expr, DataType),
) -> Transformed<Expr> {
    match digits_of_both(&left_type, &right_type) > MOST && !(is_wide(&left_type) && is_wide(&right_type)) {
        true => {
            let (left, right) = (cast(left, wide(&left_type)), cast(right, wide(&right_type)));
            Transformed::yes(binary_expr(left, op, right))
        }
        false => Transformed::no(binary_expr(left, op, right)),
    }
}

/// A whole number as a decimal of no more digits than it needs.
fn decimal(expr: Expr, data_type: &DataType) -> Expr {
    if let Expr::Literal(value, _) = &expr
        && data_type.is_integer()
        && !value.is_null()
        && let Ok(ScalarValue::Decimal128(Some(whole), ..)) = value.cast_to(&DataType::Decimal128(20, 0))
    {
        let digits = whole.unsigned_abs().checked_ilog10().map_or(1, |log| log as u8 + 1);
        return Expr::Literal(ScalarValue::Decimal128(Some(whole), digits, 0), None);
    }
    match digits_of_integer(data_type) {
        Some(digits) => cast(expr, DataType::Decimal128(digits, 0)),
        None => expr,
    }
}

/// Digits before and after the point of the type that holds numbers of both types.
fn digits_of_both(left: &DataType, right: &DataType) -> i16 {
    let (Some((precision, scale)), Some((other, other_scale))) = (digits(left), digits(right)) else {
        return 0;
    };
    let whole = |precision: u8, scale: i8| i16::from(precision) - i16::from(scale);
    whole(precision, scale).max(whole(other, other_scale)) + i16::from(scale.max(other_scale))
}

pub fn is_wide(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal256(..))
}

/// Whether the product of two decimals has few digits left before its point.
fn is_cramped(left: &DataType, right: &DataType) -> bool {
    let (DataType::Decimal128(precision, scale), DataType::Decimal128(other, other_scale)) = (left, right)
    else {
        return false;
    };
    let behind = i16::from(*scale) + i16::from(*other_scale);
    i16::from(*precision) + i16::from(*other) >= i16::from(DECIMAL128_MAX_PRECISION)
        && behind > i16::from(DECIMAL128_MAX_PRECISION) - ROOM
}
