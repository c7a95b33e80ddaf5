//! Numbers of JSON in columns of integers: rounded as PostgreSQL assigns a numeric to an integer, never cut.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, ListArray, RecordBatch, RecordBatchOptions, StructArray,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, SchemaRef};
use nyala_sql::error::{ErrorKind, QueryError, Result};

/// The column with texts in place of integers, also in lists and records.
pub fn as_texts(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        kind if is_integer(kind) => DataType::Utf8,
        DataType::List(item) => DataType::List(as_texts(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(as_texts).collect()),
        _ => return Arc::clone(field),
    };
    Arc::new(Field::new(field.name(), data_type, field.is_nullable()))
}

fn is_integer(kind: &DataType) -> bool {
    kind.is_integer() && *kind != DataType::UInt64
}

/// The batch with integers in place of their texts.
pub fn settled(batch: &RecordBatch, wanted: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(wanted.fields());
    let columns = columns.map(|(array, field)| settle(array, field)).collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(wanted), columns, &options)?)
}

fn settle(array: &ArrayRef, field: &FieldRef) -> Result<ArrayRef> {
    match field.data_type() {
        kind if is_integer(kind) => integers(array, field),
        DataType::List(item) => {
            let list = array.as_list::<i32>();
            let values = settle(list.values(), item)?;
            let nulls = list.nulls().cloned();
            Ok(Arc::new(ListArray::try_new(Arc::clone(item), list.offsets().clone(), values, nulls)?))
        }
        DataType::Struct(fields) => {
            let record = array.as_struct();
            let columns = record.columns().iter().zip(fields);
            let columns = columns.map(|(array, field)| settle(array, field)).collect::<Result<Vec<_>>>()?;
            let nulls = record.nulls().cloned();
            Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, record.len())?))
        }
        _ => Ok(Arc::clone(array)),
    }
}

fn integers(texts: &ArrayRef, field: &FieldRef) -> Result<ArrayRef> {
    let number = |text: Option<&str>| match text {
        Some(text) => integer_of(text, field.name()).map(Some),
        None => Ok(None),
    };
    let numbers = texts.as_string::<i32>().iter().map(number).collect::<Result<Int64Array>>()?;
    let options = CastOptions { safe: false, ..CastOptions::default() };
    Ok(cast_with_options(&numbers, field.data_type(), &options)?)
}

fn integer_of(text: &str, column: &str) -> Result<i64> {
    let text = text.trim();
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let no_number = || {
        let message = format!("`{text}` in column `{column}` is no integer");
        QueryError::new(ErrorKind::InvalidValue, message).hint("list the columns, this one with another type")
    };
    let rounded = rounded(text).ok_or_else(no_number)?;
    i64::try_from(rounded).map_err(|_| {
        QueryError::new(ErrorKind::OutOfRange, format!("`{text}` in column `{column}` is out of range"))
    })
}

/// The nearest integer of a decimal number; of two that are as near, the one farther from 0.
fn rounded(text: &str) -> Option<i128> {
    if text.contains(['e', 'E']) {
        let number: f64 = text.parse().ok()?;
        // Far outside of integers of 64 bits, a cast may saturate.
        return number.is_finite().then(|| number.round() as i128);
    }
    let (whole, fraction) = text.split_once('.')?;
    if fraction.is_empty() || !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let is_negative = whole.starts_with('-');
    let number: i128 = whole.parse().ok()?;
    let more = i128::from(fraction.as_bytes().first() >= Some(&b'5'));
    Some(if is_negative { number - more } else { number + more })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_away_from_zero() {
        let check = |text: &str, expected: Option<i64>| {
            assert_eq!(integer_of(text, "a").ok(), expected, "{text}");
        };
        check("7", Some(7));
        check("1.9", Some(2));
        check("-1.9", Some(-2));
        check("0.5", Some(1));
        check("-0.5", Some(-1));
        check("2.4999999999999999999", Some(2));
        check("9007199254740993.5", Some(9_007_199_254_740_994));
        check("1e3", Some(1000));
        check("9223372036854775807.5", None);
        check("1e30", None);
        check("true", None);
        check("1.x", None);
        check("", None);
    }
}
