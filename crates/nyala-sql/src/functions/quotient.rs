//! The quotient of two decimals, rounded to at least 16 digits after the point.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Decimal256Array};
use arrow::compute::{cast, cast_with_options};
use arrow::datatypes::{
    ArrowNativeTypeOp, DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Decimal256Type, i256,
};
use arrow::error::ArrowError;
use datafusion::common::format::DEFAULT_CAST_OPTIONS;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::call_rows::CallRows;

/// PostgreSQL computes at least this many significant digits.
const DIGITS: i8 = 16;

/// `a / b` of decimals and whole numbers of which one is a decimal.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Quotient {
    signature: Signature,
}

impl Quotient {
    /// The function, to be called.
    pub fn udf() -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::from(Self { signature: Signature::any(2, Volatility::Immutable) }))
    }
}

impl ScalarUDFImpl for Quotient {
    fn name(&self) -> &str {
        "numeric_div"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [left, right] => quotient_type(left, right),
            _ => plan_err!("a quotient has two operands, not {}", arguments.len()),
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = arguments.args.as_slice() else {
            return plan_err!("a quotient has two operands, not {}", arguments.args.len());
        };
        let rows = CallRows::of(&arguments);
        let (left, right) = (left.to_array(rows.count())?, right.to_array(rows.count())?);
        rows.value(divide(&left, &right, arguments.return_field.data_type())?)
    }

    /// The name that the operator's column has, by which other nodes find it.
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        match arguments {
            [left, right] => Ok(format!("{} / {}", left.schema_name(), right.schema_name())),
            _ => plan_err!("a quotient has two operands, not {}", arguments.len()),
        }
    }
}

/// The type of a quotient: at least 16 digits after the point, and before it as many as there may be.
fn quotient_type(left: &DataType, right: &DataType) -> Result<DataType> {
    let (Some((precision, scale)), Some((_, divisor_scale))) = (digits(left), digits(right)) else {
        return plan_err!("cannot divide {left} by {right} exactly");
    };
    let behind = DIGITS.max(scale).max(divisor_scale);
    let before = i16::from(precision) - i16::from(scale) + i16::from(divisor_scale);
    Ok(decimal_of(before, behind))
}

/// A decimal type with so many digits before and behind the point, as far as there is one.
pub fn decimal_of(before: i16, behind: i8) -> DataType {
    match before + i16::from(behind) <= i16::from(DECIMAL128_MAX_PRECISION) {
        true => DataType::Decimal128(DECIMAL128_MAX_PRECISION, behind),
        false => DataType::Decimal256(DECIMAL256_MAX_PRECISION, behind),
    }
}

/// The type with room for the most digits before the point, and as many after it.
pub fn wide(data_type: &DataType) -> DataType {
    match digits(data_type) {
        Some((precision, scale)) => DataType::Decimal256(precision, scale),
        None => data_type.clone(),
    }
}

/// Digits of a decimal that holds every number of an integer type.
pub fn digits_of_integer(data_type: &DataType) -> Option<u8> {
    Some(match data_type {
        DataType::Int8 | DataType::UInt8 => 3,
        DataType::Int16 | DataType::UInt16 => 5,
        DataType::Int32 | DataType::UInt32 => 10,
        DataType::Int64 => 19,
        DataType::UInt64 => 20,
        _ => return None,
    })
}

/// Digits of a number, and how many of them are after the point.
pub fn digits(data_type: &DataType) -> Option<(u8, i8)> {
    match data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => Some((*precision, *scale)),
        other => Some((digits_of_integer(other)?, 0)),
    }
}

/// Quotients of the type `to`, halves rounded away from zero.
fn divide(left: &ArrayRef, right: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let (Some((_, scale)), Some((_, divisor_scale)), Some((precision, behind))) =
        (digits(left.data_type()), digits(right.data_type()), digits(to))
    else {
        return plan_err!("cannot divide {} by {} exactly", left.data_type(), right.data_type());
    };
    let shift = u32::try_from(i32::from(behind) + i32::from(divisor_scale) - i32::from(scale)).unwrap_or(0);
    let out_of_range = || ArrowError::ArithmeticOverflow(format!("a quotient is out of the range of {to}"));
    let narrow = |array: &ArrayRef| -> Result<Option<Decimal128Array>> {
        let exact = match array.data_type() {
            DataType::Decimal256(..) => return Ok(None),
            DataType::Decimal128(..) => Arc::clone(array),
            other => {
                let (precision, scale) = digits(other).unwrap_or_default();
                cast(array, &DataType::Decimal128(precision.max(20), scale))?
            }
        };
        Ok(exact.as_primitive_opt().cloned())
    };
    if let (DataType::Decimal128(..), Some(left), Some(right)) = (to, narrow(left)?, narrow(right)?) {
        let power = 10_i128.checked_pow(shift);
        let quotients: Decimal128Array =
            arrow::compute::kernels::arity::try_binary(&left, &right, |a, b| {
                if b == 0 {
                    return Err(ArrowError::DivideByZero);
                }
                // Most numbers are short enough to be computed with 128 bits.
                match power.and_then(|power| a.checked_mul(power)) {
                    Some(scaled) => Ok(rounded(scaled, b)),
                    None => {
                        let quotient = quotient_of_wide(i256::from_i128(a), i256::from_i128(b), shift);
                        quotient.and_then(i256::to_i128).ok_or_else(out_of_range)
                    }
                }
            })?;
        let quotients = quotients.with_precision_and_scale(precision, behind)?;
        quotients.validate_decimal_precision(precision).map_err(|_| out_of_range())?;
        return Ok(Arc::new(quotients));
    }
    let widen = |array: &ArrayRef, scale: i8| {
        cast_with_options(
            array,
            &DataType::Decimal256(DECIMAL256_MAX_PRECISION, scale),
            &DEFAULT_CAST_OPTIONS,
        )
    };
    let (left, right) = (widen(left, scale)?, widen(right, divisor_scale)?);
    let (left, right) = (left.as_primitive::<Decimal256Type>(), right.as_primitive::<Decimal256Type>());
    let quotients: Decimal256Array = arrow::compute::kernels::arity::try_binary(left, right, |a, b| {
        if b == i256::ZERO {
            return Err(ArrowError::DivideByZero);
        }
        quotient_of_wide(a, b, shift).ok_or_else(out_of_range)
    })?;
    let quotients = quotients.with_precision_and_scale(DECIMAL256_MAX_PRECISION, behind)?;
    Ok(cast_with_options(&quotients, to, &DEFAULT_CAST_OPTIONS)?)
}

fn rounded(dividend: i128, divisor: i128) -> i128 {
    // Only the smallest number divided by -1 wraps around, and no decimal of 38 digits is that long.
    let (quotient, rest) = (dividend.wrapping_div(divisor), dividend.wrapping_rem(divisor));
    let away = match (dividend < 0) == (divisor < 0) {
        true => 1,
        false => -1,
    };
    let is_half = rest.unsigned_abs() >= divisor.unsigned_abs().div_ceil(2);
    if rest != 0 && is_half { quotient + away } else { quotient }
}

/// The quotient of a number that is first multiplied by ten as often as `shift` says; none if that does not fit.
fn quotient_of_wide(dividend: i256, divisor: i256, shift: u32) -> Option<i256> {
    let ten = i256::from_i128(10);
    let scaled = dividend.mul_checked(ten.pow_checked(shift).ok()?).ok()?;
    let (quotient, rest) = (scaled.wrapping_div(divisor), scaled.wrapping_rem(divisor));
    let doubled = rest.wrapping_abs().checked_mul(i256::from_i128(2));
    let is_half = doubled.is_none_or(|doubled| doubled >= divisor.wrapping_abs());
    if rest == i256::ZERO || !is_half {
        return Some(quotient);
    }
    match (scaled < i256::ZERO) == (divisor < i256::ZERO) {
        true => quotient.checked_add(i256::ONE),
        false => quotient.checked_sub(i256::ONE),
    }
}
