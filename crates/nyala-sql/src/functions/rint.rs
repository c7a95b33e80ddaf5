//! The nearest whole number of a floating-point number.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float16Type, Float32Type, Float64Type};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::call_rows::CallRows;

/// `rint(x)`: rounds to the nearest whole number, halves to the even one.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Rint {
    signature: Signature,
}

impl Rint {
    /// The function, to be called.
    pub fn udf() -> ScalarUDF {
        let types = vec![DataType::Float64, DataType::Float32, DataType::Float16];
        ScalarUDF::new_from_impl(Self { signature: Signature::uniform(1, types, Volatility::Immutable) })
    }
}

impl ScalarUDFImpl for Rint {
    fn name(&self) -> &str {
        "rint"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [argument] => Ok(argument.clone()),
            _ => internal_err!("rint has one argument, not {}", arguments.len()),
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [numbers] = arguments.args.as_slice() else {
            return internal_err!("rint has one argument, not {}", arguments.args.len());
        };
        let rows = CallRows::of(&arguments);
        rows.value(nearest_whole(&numbers.to_array(rows.count())?)?)
    }
}

/// The nearest whole numbers, in the type that the numbers have.
pub fn nearest_whole(numbers: &ArrayRef) -> Result<ArrayRef> {
    Ok(match numbers.data_type() {
        DataType::Float64 => {
            Arc::new(numbers.as_primitive::<Float64Type>().unary::<_, Float64Type>(f64::round_ties_even))
        }
        DataType::Float32 => {
            Arc::new(numbers.as_primitive::<Float32Type>().unary::<_, Float32Type>(f32::round_ties_even))
        }
        DataType::Float16 => {
            type Half = <Float16Type as ArrowPrimitiveType>::Native;
            let round = |number: Half| Half::from_f32(number.to_f32().round_ties_even());
            Arc::new(numbers.as_primitive::<Float16Type>().unary::<_, Float16Type>(round))
        }
        other => return internal_err!("rint does not take {other}"),
    })
}
