//! Arguments that are numbers, moments or intervals.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit, UInt64Type,
};
use datafusion::error::Result;

const NANOS_OF_DAY: i128 = 86_400_000_000_000;

/// The values as numbers, moments and intervals as nanoseconds; none for NULL and for other types.
pub fn numbers(array: &ArrayRef) -> Result<Vec<Option<i128>>> {
    let nanos = match array.data_type() {
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let steps = array.as_primitive::<IntervalMonthDayNanoType>().iter();
            // A month counts as 28 days, which is the shortest.
            let nanos = |step: IntervalMonthDayNano| {
                let days = i128::from(step.months) * 28 + i128::from(step.days);
                days * NANOS_OF_DAY + i128::from(step.nanoseconds)
            };
            return Ok(steps.map(|step| step.map(nanos)).collect());
        }
        DataType::UInt64 => {
            let numbers = array.as_primitive::<UInt64Type>().iter();
            return Ok(numbers.map(|number| number.map(i128::from)).collect());
        }
        DataType::Date32 => NANOS_OF_DAY,
        DataType::Date64 | DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
        DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1000,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => 1,
        data_type if data_type.is_integer() => 1,
        _ => return Ok(vec![None; array.len()]),
    };
    // Days and moments are read in their own unit and multiplied with 128 bits: in a finer unit they might not fit.
    let array = match array.data_type() {
        DataType::Date32 => cast(array, &DataType::Int32)?,
        _ => Arc::clone(array),
    };
    let array = cast(&array, &DataType::Int64)?;
    let numbers = array.as_primitive::<Int64Type>().iter();
    Ok(numbers.map(|number| Some(i128::from(number?) * nanos)).collect())
}
