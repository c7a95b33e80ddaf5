//! Decimals as floating-point numbers: the nearest one. Arrow divides two floating-point numbers, and so rounds twice.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, i256};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::call_rows::CallRows;

/// Powers of ten that floating-point numbers have exactly.
const EXACT_POWERS: i8 = 22;

/// Below it a floating-point number has every whole number.
const EXACT_WHOLE: u128 = 1 << f64::MANTISSA_DIGITS;

/// A cast of a decimal to a floating-point number.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct NearestFloat {
    signature: Signature,
}

impl NearestFloat {
    /// The function, for the planner.
    pub fn udf() -> ScalarUDF {
        ScalarUDF::from(Self { signature: Signature::any(1, Volatility::Immutable) })
    }
}

impl ScalarUDFImpl for NearestFloat {
    fn name(&self) -> &'static str {
        "nearest_float"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [decimals] = arguments.args.as_slice() else {
            return plan_err!("`nearest_float` takes one decimal");
        };
        let rows = CallRows::of(&arguments);
        rows.value(nearest_floats(&decimals.to_array(rows.count())?)?)
    }
}

/// The decimals of a column as floating-point numbers.
pub fn nearest_floats(column: &ArrayRef) -> Result<ArrayRef> {
    let floats: Float64Array = match column.data_type() {
        DataType::Decimal128(_, scale) => {
            let power = 10_f64.powi(i32::from(*scale));
            column.as_primitive::<Decimal128Type>().unary(|value| nearest_float(value, *scale, power))
        }
        DataType::Decimal256(_, scale) => {
            let power = 10_f64.powi(i32::from(*scale));
            let of = |value: i256| match value.to_i128() {
                Some(value) => nearest_float(value, *scale, power),
                None => read(&value.to_string(), *scale),
            };
            column.as_primitive::<Decimal256Type>().unary(of)
        }
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            return nearest_floats(&cast(column, &DataType::Decimal128(*precision, *scale))?);
        }
        _ => return Ok(cast(column, &DataType::Float64)?),
    };
    Ok(Arc::new(floats))
}

/// `power` is ten to the power of `scale`.
#[expect(clippy::cast_precision_loss, reason = "numbers that would lose digits are read from their text")]
fn nearest_float(value: i128, scale: i8, power: f64) -> f64 {
    if value.unsigned_abs() < EXACT_WHOLE && (0..=EXACT_POWERS).contains(&scale) {
        return value as f64 / power;
    }
    read(&value.to_string(), scale)
}

fn read(digits: &str, scale: i8) -> f64 {
    // A number is never without a nearest float: those that are too large are infinite.
    format!("{digits}e{}", -i32::from(scale)).parse().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_float_is_that_of_the_text() {
        for (value, scale, text) in [
            (133_333_333_333_333_333, 16, "13.3333333333333333"),
            (13_333_333_333_333_333, 15, "13.333333333333333"),
            (1, 1, "0.1"),
            (-25, 1, "-2.5"),
            (123_456_789_012_345_678_901_234_567, 26, "1.23456789012345678901234567"),
            (1, 38, "1e-38"),
            (7, -3, "7000"),
        ] {
            let float = nearest_float(value, scale, 10_f64.powi(i32::from(scale)));
            assert_eq!(float.to_string(), text.parse::<f64>().unwrap_or(0.0).to_string());
        }
    }
}
