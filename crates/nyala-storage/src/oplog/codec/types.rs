//! Arrow types as bytes, in numbers of our own that no library can change.

use std::sync::Arc;

use arrow_schema::{DataType, Field, IntervalUnit, TimeUnit};

use super::{In, Out};
use crate::oplog::error::{OplogError, Result};

/// Types without parameters. The position is the byte written.
const PLAIN: &[DataType] = &[
    DataType::Boolean,
    DataType::Int8,
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::UInt8,
    DataType::UInt16,
    DataType::UInt32,
    DataType::UInt64,
    DataType::Float16,
    DataType::Float32,
    DataType::Float64,
    DataType::Date32,
    DataType::Date64,
    DataType::Time32(TimeUnit::Second),
    DataType::Time32(TimeUnit::Millisecond),
    DataType::Time64(TimeUnit::Microsecond),
    DataType::Time64(TimeUnit::Nanosecond),
    DataType::Duration(TimeUnit::Second),
    DataType::Duration(TimeUnit::Millisecond),
    DataType::Duration(TimeUnit::Microsecond),
    DataType::Duration(TimeUnit::Nanosecond),
    DataType::Interval(IntervalUnit::YearMonth),
    DataType::Interval(IntervalUnit::DayTime),
    DataType::Interval(IntervalUnit::MonthDayNano),
    DataType::Utf8,
    DataType::LargeUtf8,
    DataType::Utf8View,
    DataType::Binary,
    DataType::LargeBinary,
    DataType::BinaryView,
    DataType::Null,
];
const UNITS: &[TimeUnit] =
    &[TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];

const TIMESTAMP: u8 = 64;
const DECIMAL: u8 = 65;
const FIXED_BINARY: u8 = 66;
const LIST: u8 = 67;
const LARGE_LIST: u8 = 68;
const FIXED_LIST: u8 = 69;
const STRUCT: u8 = 70;
const MAP: u8 = 71;
const MAX_DEPTH: usize = 64;

/// Writes a type; refuses types that a live table cannot hold.
pub fn write_type(out: &mut Out, data_type: &DataType) -> Result<()> {
    write_nested(out, data_type, 0)
}

fn write_nested(out: &mut Out, data_type: &DataType, depth: usize) -> Result<()> {
    if let Some(number) = PLAIN.iter().position(|plain| plain == data_type) {
        out.u8(number as u8);
        return Ok(());
    }
    match data_type {
        DataType::Timestamp(unit, zone) if zone.as_deref() != Some("") => {
            out.u8(TIMESTAMP);
            out.u8(UNITS.iter().position(|known| known == unit).unwrap_or_default() as u8);
            out.text(zone.as_deref().unwrap_or_default());
        }
        DataType::Decimal32(precision, scale) => decimal(out, 32, *precision, *scale),
        DataType::Decimal64(precision, scale) => decimal(out, 64, *precision, *scale),
        DataType::Decimal128(precision, scale) => decimal(out, 128, *precision, *scale),
        DataType::Decimal256(precision, scale) => decimal(out, 255, *precision, *scale),
        DataType::FixedSizeBinary(width) if *width > 0 => {
            out.u8(FIXED_BINARY);
            out.u32(*width as u32);
        }
        _ if depth >= MAX_DEPTH => return Err(too_deep()),
        DataType::List(item) => nested(out, LIST, [item], depth)?,
        DataType::LargeList(item) => nested(out, LARGE_LIST, [item], depth)?,
        DataType::FixedSizeList(item, length) if *length > 0 => {
            nested(out, FIXED_LIST, [item], depth)?;
            out.u32(*length as u32);
        }
        DataType::Struct(fields) => nested(out, STRUCT, fields, depth)?,
        DataType::Map(entries, sorted) => {
            nested(out, MAP, [entries], depth)?;
            out.u8(u8::from(*sorted));
        }
        other => return Err(unsupported(other)),
    }
    Ok(())
}

fn unsupported(data_type: &DataType) -> OplogError {
    OplogError::invalid(format!(
        "a live table has no columns of type {data_type}; use numbers, dates, times, text, binary, or lists, maps \
         or structs of them"
    ))
}

fn too_deep() -> OplogError {
    OplogError::invalid(format!("a live table has no columns of types nested deeper than {MAX_DEPTH} levels"))
}

fn decimal(out: &mut Out, bits: u8, precision: u8, scale: i8) {
    out.raw(&[DECIMAL, bits, precision, scale as u8]);
}

fn nested<'a>(
    out: &mut Out,
    number: u8,
    fields: impl IntoIterator<Item = &'a Arc<Field>>,
    depth: usize,
) -> Result<()> {
    let fields: Vec<&Arc<Field>> = fields.into_iter().collect();
    out.u8(number);
    out.var(fields.len() as u64);
    for field in fields {
        out.text(field.name());
        out.u8(u8::from(field.is_nullable()));
        write_nested(out, field.data_type(), depth + 1)?;
    }
    Ok(())
}

/// Reads the output of [`write_type`].
pub fn read_type(input: &mut In<'_>) -> Option<DataType> {
    read_nested(input, 0)
}

fn read_nested(input: &mut In<'_>, depth: usize) -> Option<DataType> {
    let number = input.u8()?;
    if let Some(plain) = PLAIN.get(usize::from(number)) {
        return Some(plain.clone());
    }
    match number {
        TIMESTAMP => {
            let unit = *UNITS.get(usize::from(input.u8()?))?;
            let zone = input.text()?;
            Some(DataType::Timestamp(unit, (!zone.is_empty()).then(|| zone.into())))
        }
        DECIMAL => {
            let [bits, precision, scale] = input.array()?;
            read_decimal(bits, precision, scale as i8)
        }
        FIXED_BINARY => Some(DataType::FixedSizeBinary(i32::try_from(input.u32()?).ok()?)),
        LIST..=MAP if depth < MAX_DEPTH => read_children(input, number, depth),
        _ => None,
    }
}

fn read_decimal(bits: u8, precision: u8, scale: i8) -> Option<DataType> {
    match bits {
        32 => Some(DataType::Decimal32(precision, scale)),
        64 => Some(DataType::Decimal64(precision, scale)),
        128 => Some(DataType::Decimal128(precision, scale)),
        255 => Some(DataType::Decimal256(precision, scale)),
        _ => None,
    }
}

fn read_children(input: &mut In<'_>, number: u8, depth: usize) -> Option<DataType> {
    let count = input.count()?;
    let mut fields = Vec::new();
    for _ in 0..count {
        let name = input.text()?;
        let nullable = input.u8()? == 1;
        fields.push(Arc::new(Field::new(name, read_nested(input, depth + 1)?, nullable)));
    }
    if number == STRUCT {
        return Some(DataType::Struct(fields.into()));
    }
    let item = fields.pop().filter(|_| fields.is_empty())?;
    match number {
        LIST => Some(DataType::List(item)),
        LARGE_LIST => Some(DataType::LargeList(item)),
        FIXED_LIST => Some(DataType::FixedSizeList(item, i32::try_from(input.u32()?).ok()?)),
        _ => Some(DataType::Map(item, input.u8()? == 1)),
    }
}

/// Refuses types without bytes, and types in which equal values may have different bytes. Floats are made canonical
/// first.
pub fn check_key_type(column: &str, data_type: &DataType) -> Result<()> {
    let unfit = data_type.is_nested() || matches!(data_type, DataType::Interval(_) | DataType::Null);
    if unfit {
        return Err(OplogError::invalid(format!(
            "column `{column}` of type {data_type} cannot be part of a primary key; use numbers, \
             booleans, dates, times, text or binary"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(data_type: DataType) {
        let mut out = Out::default();
        write_type(&mut out, &data_type).unwrap();
        let mut input = In(&out.0);
        assert_eq!(read_type(&mut input), Some(data_type));
        assert!(input.is_empty());
        for cut in 0..out.0.len() {
            assert_eq!(read_type(&mut In(&out.0[..cut])), None);
        }
    }

    #[test]
    fn types_come_back() {
        PLAIN.iter().cloned().for_each(check);
        check(DataType::Timestamp(TimeUnit::Nanosecond, Some("Europe/Berlin".into())));
        check(DataType::Decimal256(70, -3));
        check(DataType::FixedSizeBinary(16));
        let text = Arc::new(Field::new("item", DataType::Utf8, true));
        check(DataType::List(text.clone()));
        check(DataType::FixedSizeList(text.clone(), 3));
        let pair =
            DataType::Struct(vec![text.clone(), Arc::new(Field::new("n", DataType::Int8, false))].into());
        check(DataType::Map(Arc::new(Field::new("entries", pair, false)), false));
    }

    #[test]
    fn other_types_are_refused() {
        let refused = |data_type: &DataType| write_type(&mut Out::default(), data_type).unwrap_err();
        refused(&DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)));
        refused(&DataType::Union(arrow_schema::UnionFields::empty(), arrow_schema::UnionMode::Sparse));
        refused(&DataType::FixedSizeBinary(-1));
        refused(&DataType::Timestamp(TimeUnit::Second, Some("".into())));
        let within = |inner| DataType::List(Arc::new(Field::new("item", inner, true)));
        refused(&(0..=MAX_DEPTH).fold(DataType::Int8, |inner, _| within(inner)));
        check((0..MAX_DEPTH).fold(DataType::Int8, |inner, _| within(inner)));
        check_key_type("f", &DataType::Float64).unwrap();
        for unfit in [within(DataType::Int8), DataType::Null, DataType::Interval(IntervalUnit::DayTime)] {
            check_key_type("f", &unfit).unwrap_err();
        }
    }
}
