//! Columns of integers, dates and times as 64-bit integers.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::Result;

/// Whether every value of the type stands for one 64-bit integer.
pub fn is_integral(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_integral(values),
        other => other.is_integer() || other.is_temporal() && !matches!(other, DataType::Interval(_)),
    }
}

/// The values of an integral column; each stands for one of its own.
///
/// Unsigned numbers of 2^63 and more have no signed counterpart. They get the negative number with the
/// same bits, which no other value of such a column gets.
pub fn as_integers(column: &ArrayRef) -> Result<Int64Array> {
    let integers: ArrayRef = match column.data_type() {
        DataType::Dictionary(_, values) => return as_integers(&exact(column, values)?),
        DataType::UInt64 => {
            let numbers = column.as_primitive::<UInt64Type>();
            Arc::new(numbers.unary::<_, arrow::datatypes::Int64Type>(u64::cast_signed))
        }
        DataType::Time32(_) | DataType::Date32 => exact(&exact(column, &DataType::Int32)?, &DataType::Int64)?,
        _ => exact(column, &DataType::Int64)?,
    };
    Ok(integers.as_primitive().clone())
}

fn exact(column: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    Ok(cast_with_options(column, to, &CastOptions { safe: false, ..CastOptions::default() })?)
}
