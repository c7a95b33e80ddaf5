//! Values that are written to columns.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, IntervalUnit};
use datafusion::common::ScalarValue;

use super::arrays::array_of_text;
use super::bytes::bytes_of_text;
use super::cast_facts::{cast_column, cast_value};
use super::uuids::uuid;
use crate::error::Result;
use crate::functions::{
    UUID, date_of_text, interval_of, is_written_otherwise, time_of_text, timestamp_of, uuids_of, value_texts,
};

/// The value as one of the type `to`: a number that does not fit exactly is rounded, and a text is read as a constant
/// of that type.
pub fn assign(value: &ScalarValue, to: &DataType) -> Result<ScalarValue> {
    if value.is_null() {
        return Ok(ScalarValue::try_new_null(to)?);
    }
    if to.is_string() && is_written_otherwise(&value.data_type()) {
        let text = value_texts(&value.to_array()?)?;
        return cast_value(&ScalarValue::try_from_array(&text, 0)?, to);
    }
    match of_text(value, to) {
        Some(read) => read,
        None => cast_value(value, to),
    }
}

/// As [`assign`], for a column of values.
pub fn assign_column(column: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let reads_texts = matches!(
        to,
        DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::List(_)
            | DataType::LargeList(_)
    );
    if column.data_type().is_string() && *to == UUID {
        return Ok(uuids_of(column)?);
    }
    if to.is_string() && is_written_otherwise(column.data_type()) {
        return cast_column(&value_texts(column)?, to);
    }
    if !column.data_type().is_string() || !reads_texts {
        return cast_column(column, to);
    }
    let values = (0..column.len()).map(|row| assign(&ScalarValue::try_from_array(column, row)?, to));
    let values = values.collect::<Result<Vec<ScalarValue>>>()?;
    Ok(match values.is_empty() {
        true => arrow::array::new_empty_array(to),
        false => ScalarValue::iter_to_array(values)?,
    })
}

/// The value of a constant text, if a cast to this type would give a different one.
pub fn of_text(value: &ScalarValue, to: &DataType) -> Option<Result<ScalarValue>> {
    bytes_of_text(value, to)
        .or_else(|| array_of_text(value, to))
        .or_else(|| uuid_of_text(value, to))
        .or_else(|| moment_of_text(value, to))
}

/// The value of a text for a date, a time, an interval or a timestamp without a zone. Moments with a zone are
/// read by casts, which know the zone.
fn moment_of_text(value: &ScalarValue, to: &DataType) -> Option<Result<ScalarValue>> {
    let text = value.try_as_str().flatten()?.trim();
    match to {
        DataType::Timestamp(_, None) => {
            let micros = timestamp_of(text, None)?;
            Some(ScalarValue::TimestampMicrosecond(Some(micros), None).cast_to(to).map_err(Into::into))
        }
        DataType::Date32 => Some(Ok(ScalarValue::Date32(Some(date_of_text(text)?)))),
        DataType::Time32(_) | DataType::Time64(_) => {
            let nanos = ScalarValue::Time64Nanosecond(Some(time_of_text(text)?));
            Some(nanos.cast_to(to).map_err(Into::into))
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            Some(Ok(ScalarValue::IntervalMonthDayNano(Some(interval_of(text)?))))
        }
        _ => None,
    }
}

fn uuid_of_text(value: &ScalarValue, to: &DataType) -> Option<Result<ScalarValue>> {
    let text = value.try_as_str().flatten().filter(|_| *to == UUID)?;
    Some(uuid(text))
}
