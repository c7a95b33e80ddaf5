//! Writes values as bytes, with one spelling for all equal values.
//!
//! The bytes are part of stored states. They depend on the value and the family of its type only, and
//! sort like the values do (but for text, which sorts by its UTF-8).
//!
//! | family | bytes |
//! |---|---|
//! | bytes and text | themselves |
//! | integers, dates, times | 64 bits, highest byte first, the sign bit flipped |
//! | unsigned 64-bit integers | 64 bits, highest byte first |
//! | decimals | 256 bits, highest byte first, the sign bit flipped |
//! | floats | as 64 bits: negative ones inverted, else the sign bit flipped. `-0` is `0`, and all NaN are one |
//! | booleans | one byte, 0 or 1 |

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BinaryViewBuilder, BooleanArray, Decimal256Array,
    Float64Array, Int64Array, UInt64Array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal256Type, Float64Type, UInt64Type, i256};
use datafusion::common::{DataFusionError, Result};

use super::aggregate::damaged;
use super::bitmap::{as_integers, is_integral};
use crate::error::{ErrorKind, QueryError};

const SIGN: u64 = 1 << 63;

/// A kind of values with one spelling. The numbers are part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Family {
    Bytes = 1,
    Integer = 2,
    Unsigned = 3,
    Decimal = 4,
    Float = 5,
    Boolean = 6,
}

impl Family {
    /// The family of a type, or an error that says which types there are.
    pub fn of(function: &str, data_type: &DataType) -> Result<Self> {
        Ok(match data_type {
            DataType::Dictionary(_, values) => return Self::of(function, values),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Bytes,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Self::Bytes,
            DataType::FixedSizeBinary(_) => Self::Bytes,
            DataType::UInt64 => Self::Unsigned,
            integral if is_integral(integral) => Self::Integer,
            decimal if decimal.is_decimal() => Self::Decimal,
            float if float.is_floating() => Self::Float,
            DataType::Boolean => Self::Boolean,
            other => return Err(refuse(function, other)),
        })
    }
}

/// The type of the one argument of a function that takes values of any family; NULL is taken for a whole number.
pub fn one_of_a_family(function: &str, types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [DataType::Null] => Ok(vec![DataType::Int64]),
        [data_type] => Family::of(function, data_type).map(|_| vec![data_type.clone()]),
        other => {
            let message = format!("`{function}` takes one argument, not {}", other.len());
            Err(QueryError::new(ErrorKind::InvalidText, message).into())
        }
    }
}

fn refuse(function: &str, data_type: &DataType) -> DataFusionError {
    let message = format!("`{function}` does not take `{data_type}`");
    QueryError::new(ErrorKind::Unsupported, message)
        .hint(
            "it takes numbers, text, bytes, booleans, dates and times; count others with `count(DISTINCT x)`",
        )
        .into()
}

/// The bytes of every value of a column.
pub fn spell(family: Family, column: &ArrayRef) -> Result<BinaryViewArray> {
    if let DataType::Dictionary(_, values) = column.data_type() {
        return spell(family, &cast(column, values)?);
    }
    Ok(match family {
        Family::Bytes => bytes(column)?,
        Family::Integer => {
            let integers = as_integers(column)?;
            fixed(column, |row| (integers.value(row).cast_unsigned() ^ SIGN).to_be_bytes())
        }
        Family::Unsigned => {
            let numbers = column.as_primitive::<UInt64Type>();
            fixed(column, |row| numbers.value(row).to_be_bytes())
        }
        Family::Decimal => {
            let wide = cast(column, &widest(column.data_type()))?;
            let decimals = wide.as_primitive::<Decimal256Type>();
            fixed(column, |row| flip(decimals.value(row).to_be_bytes()))
        }
        Family::Float => {
            let doubles = cast(column, &DataType::Float64)?;
            let doubles = doubles.as_primitive::<Float64Type>();
            fixed(column, |row| float_bits(doubles.value(row)).to_be_bytes())
        }
        Family::Boolean => {
            let booleans = column.as_boolean();
            fixed(column, |row| [u8::from(booleans.value(row))])
        }
    })
}

/// The values that bytes stand for, as a column of the given type of that family.
pub fn read<'a>(
    family: Family,
    data_type: &DataType,
    values: impl Iterator<Item = &'a [u8]>,
) -> Result<ArrayRef> {
    let wrong = || damaged("value", "it has another length than its type");
    let column: ArrayRef = match family {
        Family::Bytes => Arc::new(BinaryViewArray::from_iter_values(values)),
        Family::Integer => {
            let numbers = values.map(|value| Some((eight(value)? ^ SIGN).cast_signed()));
            Arc::new(Int64Array::from(numbers.collect::<Option<Vec<_>>>().ok_or_else(wrong)?))
        }
        Family::Unsigned => {
            Arc::new(UInt64Array::from(values.map(eight).collect::<Option<Vec<_>>>().ok_or_else(wrong)?))
        }
        Family::Decimal => {
            let numbers = values.map(|value| Some(i256::from_be_bytes(flip(value.try_into().ok()?))));
            let numbers = numbers.collect::<Option<Vec<_>>>().ok_or_else(wrong)?;
            Arc::new(Decimal256Array::from(numbers).with_data_type(widest(data_type)))
        }
        Family::Float => {
            let numbers = values.map(|value| Some(float_of(eight(value)?)));
            Arc::new(Float64Array::from(numbers.collect::<Option<Vec<_>>>().ok_or_else(wrong)?))
        }
        Family::Boolean => Arc::new(BooleanArray::from_iter(values.map(|value| Some(value == [1])))),
    };
    to_type(column, data_type)
}

/// From the one type of a family to another of it.
fn to_type(column: ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    Ok(match data_type {
        DataType::Dictionary(_, values) => cast(&to_type(column, values)?, data_type)?,
        DataType::Time32(_) | DataType::Date32 => cast(&cast(&column, &DataType::Int32)?, data_type)?,
        DataType::FixedSizeBinary(_) => cast(&cast(&column, &DataType::Binary)?, data_type)?,
        _ => cast(&column, data_type)?,
    })
}

fn bytes(column: &ArrayRef) -> Result<BinaryViewArray> {
    let plain = match column.data_type() {
        DataType::LargeUtf8 => cast(column, &DataType::LargeBinary)?,
        DataType::Utf8 => cast(column, &DataType::Binary)?,
        DataType::FixedSizeBinary(_) => cast(column, &DataType::Binary)?,
        _ => Arc::clone(column),
    };
    Ok(cast(&plain, &DataType::BinaryView)?.as_binary_view().clone())
}

fn fixed<const N: usize>(column: &ArrayRef, of: impl Fn(usize) -> [u8; N]) -> BinaryViewArray {
    let mut values = BinaryViewBuilder::with_capacity(column.len());
    for row in 0..column.len() {
        if column.is_valid(row) {
            values.append_value(of(row));
        } else {
            values.append_null();
        }
    }
    values.finish()
}

fn eight(value: &[u8]) -> Option<u64> {
    value.try_into().ok().map(u64::from_be_bytes)
}

fn flip(mut bytes: [u8; 32]) -> [u8; 32] {
    if let Some(first) = bytes.first_mut() {
        *first ^= 0x80;
    }
    bytes
}

fn float_bits(value: f64) -> u64 {
    let value = if value.is_nan() { f64::NAN } else { value + 0.0 };
    let bits = value.to_bits();
    if bits & SIGN == 0 { bits ^ SIGN } else { !bits }
}

fn float_of(bits: u64) -> f64 {
    f64::from_bits(if bits & SIGN == 0 { !bits } else { bits ^ SIGN })
}

/// The decimal type that holds every value of a decimal type.
fn widest(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => widest(values),
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => DataType::Decimal256(76, *scale),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;
