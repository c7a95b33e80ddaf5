//! Arithmetic that has a name: `mod`, `div` and `width_bucket`.

use std::sync::Arc;

use arrow::array::{Array, AsArray, Int32Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int32Type};
use datafusion::common::{Result, plan_err};
use datafusion::functions::math::trunc;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility, binary_expr,
    cast as logical_cast,
};

use super::lists::bucket_of_bounds;
use crate::error::{ErrorKind, QueryError};
use crate::functions::call_rows::CallRows;

/// `mod(a, b)`, which is `a % b`, and `div(a, b)`, which is the quotient without its fraction.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Arithmetic {
    op: Operator,
    signature: Signature,
}

impl Arithmetic {
    pub fn modulo() -> Self {
        Self { op: Operator::Modulo, signature: Signature::user_defined(Volatility::Immutable) }
    }

    pub fn whole_quotient() -> Self {
        Self { op: Operator::Divide, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Arithmetic {
    fn name(&self) -> &str {
        if self.op == Operator::Modulo { "mod" } else { "div" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [left, right] = types else {
            return plan_err!("`{}` takes two numbers, not {}", self.name(), types.len());
        };
        let (left, right) = BinaryTypeCoercer::new(left, &self.op, right).get_input_types()?;
        Ok(vec![left, right])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [left, right] = types else {
            return plan_err!("`{}` takes two numbers, not {}", self.name(), types.len());
        };
        let of_operator = BinaryTypeCoercer::new(left, &self.op, right).get_result_type()?;
        Ok(match self.op == Operator::Divide && of_operator.is_decimal() {
            true => DataType::Decimal128(38, 0),
            false => of_operator,
        })
    }

    fn simplify(&self, arguments: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let Ok([left, right]) = <[Expr; 2]>::try_from(arguments) else {
            return plan_err!("`{}` takes two numbers", self.name());
        };
        let is_exact = context.get_data_type(&left)?.is_decimal();
        let value = binary_expr(left, self.op, right);
        Ok(ExprSimplifyResult::Simplified(match self.op {
            Operator::Divide if is_exact => {
                logical_cast(trunc().call(vec![value]), DataType::Decimal128(38, 0))
            }
            _ => value,
        }))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(QueryError::internal(format!("`{}` was not planned", self.name())).into())
    }
}

/// `width_bucket(x, low, high, count)`: the bucket of equal width that a number is in, from 1 to `count`.
/// Numbers outside are in the buckets 0 and `count` + 1.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct WidthBucket {
    signature: Signature,
}

impl WidthBucket {
    pub fn new() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for WidthBucket {
    fn name(&self) -> &str {
        "width_bucket"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let number = DataType::Float64;
        match types.len() {
            2 => {
                let [value, DataType::List(item)] = types else {
                    return plan_err!("`width_bucket` takes a value and a list of bounds");
                };
                // Both sides are compared in the type that holds both.
                let (value, _) =
                    BinaryTypeCoercer::new(value, &Operator::Lt, item.data_type()).get_input_types()?;
                Ok(vec![value, DataType::List(Arc::clone(item))])
            }
            4 => Ok(vec![number.clone(), number.clone(), number, DataType::Int32]),
            other => plan_err!("`width_bucket` takes four numbers, not {other}"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int32)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = CallRows::of(&arguments);
        let arrays = rows.columns(&arguments.args)?;
        if let [value, bounds] = arrays.as_slice() {
            return rows.value(bucket_of_bounds(value, bounds)?);
        }
        let [number, low, high, count] = arrays.as_slice() else {
            return plan_err!("`width_bucket` takes four numbers, not {}", arrays.len());
        };
        let [number, low, high] = [number, low, high].map(|array| cast(array, &DataType::Float64));
        let (number, low, high) = (number?, low?, high?);
        let numbers = [&number, &low, &high].map(|array| array.as_primitive::<Float64Type>());
        let count = count.as_primitive::<Int32Type>();
        let buckets = (0..count.len()).map(|row| {
            let [number, low, high] = numbers.map(|array| array.is_valid(row).then(|| array.value(row)));
            let count = count.is_valid(row).then(|| count.value(row));
            match (number, low, high, count) {
                (Some(number), Some(low), Some(high), Some(count)) => {
                    bucket(number, low, high, count).map(Some)
                }
                _ => Ok(None),
            }
        });
        rows.value(Arc::new(buckets.collect::<Result<Int32Array>>()?))
    }
}

fn bucket(number: f64, low: f64, high: f64, count: i32) -> Result<i32> {
    let refused = |message: &str| Err(QueryError::new(ErrorKind::Data, message).into());
    if count <= 0 {
        return refused("count must be greater than zero");
    }
    if number.is_nan() || !low.is_finite() || !high.is_finite() {
        return refused("operand, lower bound, and upper bound cannot be NaN, and bounds must be finite");
    }
    if low == high {
        return refused("lower bound cannot equal upper bound");
    }
    let (before, after) = match low < high {
        true => (number < low, number >= high),
        false => (number > low, number <= high),
    };
    if before {
        return Ok(0);
    }
    if after {
        return count
            .checked_add(1)
            .ok_or_else(|| QueryError::new(ErrorKind::OutOfRange, "too many buckets").into());
    }
    let part = (number - low) / (high - low) * f64::from(count);
    Ok((part.floor() as i32).min(count - 1) + 1)
}
