//! Arrays of values as arrays of their texts, or of their bytes in the binary format.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray, BinaryBuilder, StringArray, StringBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, IntervalUnit, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
    UInt64Type,
};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use nyala_engine::{time_texts, uuid_texts};
use nyala_model::float_text as floats;
use pgwire::api::results::FieldFormat;

use super::form::{Form, unpacked};
use super::interval_styles::{self, Style};
use super::{lists, numeric};

/// The type that intervals are written from.
const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// Microseconds from 1970, where Arrow counts from, to 2000, where PostgreSQL does.
pub const EPOCH_OFFSET_US: i64 = 946_684_800_000_000;

/// Days from 1970 to 2000.
pub const EPOCH_OFFSET_DAYS: i32 = 10_957;

/// Settings of a session that change how values are written.
#[derive(Debug, Clone, Copy)]
pub struct Looks {
    /// `extra_float_digits`
    pub digits: i32,
    /// `intervalstyle`
    pub intervals: Style,
    /// `bytea_output` is `escape`.
    pub escaped_bytes: bool,
}

type Rendered = Result<ArrayRef, ArrowError>;

impl Form {
    /// The values in the form that cells are written from: whole numbers as they are, all else as texts or bytes.
    ///
    /// # Errors
    /// A value that the PostgreSQL type cannot hold.
    pub fn render(&self, array: &ArrayRef, format: FieldFormat, looks: Looks) -> Rendered {
        match (self, format) {
            (Self::Int2, _) => as_type(array, &DataType::Int16),
            (Self::Int4, _) => as_type(array, &DataType::Int32),
            (Self::Int8, _) => as_type(array, &DataType::Int64),
            (Self::Text(_), _) => texts_as_they_are(array),
            (_, FieldFormat::Text) => self.texts(array, looks),
            (_, FieldFormat::Binary) => self.bytes(array, looks),
        }
    }

    /// The texts of values, as an array of strings.
    ///
    /// # Errors
    /// Those of [`Form::render`].
    pub fn texts(&self, array: &ArrayRef, looks: Looks) -> Rendered {
        match self {
            Self::Bool => {
                let array = as_type(array, &DataType::Boolean)?;
                let letter = |value: bool| if value { "t" } else { "f" };
                let values = array.as_boolean().iter();
                Ok(Arc::new(values.map(|value| value.map(letter)).collect::<StringArray>()))
            }
            Self::Oid(_) => {
                let array = as_type(array, &DataType::Int32)?;
                let values = array.as_primitive::<Int32Type>().iter();
                let texts = values.map(|value| value.map(|value| value.cast_unsigned().to_string()));
                Ok(Arc::new(texts.collect::<StringArray>()))
            }
            Self::Int2 | Self::Int4 | Self::Int8 | Self::Text(_) | Self::Letter | Self::Jsonb => {
                as_type(array, &DataType::Utf8)
            }
            Self::Numeric => numeric_texts(array),
            Self::Float4 => {
                let array = as_type(array, &DataType::Float32)?;
                Ok(mapped(array.as_primitive::<Float32Type>(), |value| floats::single(value, looks.digits)))
            }
            Self::Float8 => {
                let array = as_type(array, &DataType::Float64)?;
                Ok(mapped(array.as_primitive::<Float64Type>(), |value| floats::double(value, looks.digits)))
            }
            Self::Date => date_texts(array),
            Self::Time => clock_texts(array),
            Self::Timestamp(zoned) => cast(&time_texts(&microseconds(array, *zoned)?)?, &DataType::Utf8),
            Self::Interval => interval_texts(array, looks.intervals),
            Self::Uuid => cast(&uuid_texts(&plain(array)?)?, &DataType::Utf8),
            Self::Bytes => bytea_texts(array, looks.escaped_bytes),
            Self::Display => display_texts(&plain(array)?),
            Self::List(item) => lists::array_texts(array, item, looks),
            Self::Vector(_, item) => lists::vector_texts(array, item, looks),
            Self::Record(fields) => lists::record_texts(array, fields, looks),
        }
    }

    /// The bytes of values in the binary format, as an array of bytes.
    ///
    /// # Errors
    /// Those of [`Form::render`].
    pub fn bytes(&self, array: &ArrayRef, looks: Looks) -> Rendered {
        match self {
            Self::Bool => {
                let array = as_type(array, &DataType::Boolean)?;
                let values = array.as_boolean().iter();
                Ok(Arc::new(
                    values.map(|value| value.map(|value| [u8::from(value)])).collect::<BinaryArray>(),
                ))
            }
            Self::Int2 => numbers::<Int16Type, 2>(array, &DataType::Int16, |value| value.to_be_bytes()),
            Self::Int4 | Self::Oid(_) => {
                numbers::<Int32Type, 4>(array, &DataType::Int32, |value| value.to_be_bytes())
            }
            Self::Int8 => numbers::<Int64Type, 8>(array, &DataType::Int64, |value| value.to_be_bytes()),
            Self::Float4 => numbers::<Float32Type, 4>(array, &DataType::Float32, |value| value.to_be_bytes()),
            Self::Float8 => numbers::<Float64Type, 8>(array, &DataType::Float64, |value| value.to_be_bytes()),
            Self::Date => numbers::<Date32Type, 4>(array, &DataType::Date32, |days| {
                days.saturating_sub(EPOCH_OFFSET_DAYS).to_be_bytes()
            }),
            Self::Time => {
                let wanted = DataType::Time64(TimeUnit::Microsecond);
                numbers::<Time64MicrosecondType, 8>(array, &wanted, |value| value.to_be_bytes())
            }
            Self::Timestamp(zoned) => {
                let array = microseconds(array, *zoned)?;
                let wanted = array.data_type().clone();
                numbers::<TimestampMicrosecondType, 8>(&array, &wanted, |micros| {
                    micros.saturating_sub(EPOCH_OFFSET_US).to_be_bytes()
                })
            }
            Self::Interval => numbers::<IntervalMonthDayNanoType, 16>(array, &INTERVAL, |value| {
                let [micros, days, months] =
                    [i128::from(value.nanoseconds / 1000), value.days.into(), value.months.into()];
                (micros << 64 | (days & 0xffff_ffff) << 32 | months & 0xffff_ffff).to_be_bytes()
            }),
            Self::Numeric => numeric_bytes(array),
            Self::Uuid | Self::Bytes => as_type(&plain(array)?, &DataType::Binary),
            Self::Text(_) | Self::Display => as_type(&self.texts(array, looks)?, &DataType::Binary),
            Self::Letter => letter_bytes(array),
            Self::Jsonb => jsonb_bytes(array),
            Self::List(item) => lists::array_bytes(array, item, looks),
            Self::Vector(_, item) => lists::vector_bytes(array, item, looks),
            Self::Record(fields) => lists::record_bytes(array, fields, looks),
        }
    }
}

/// The array as it is, or cast to a type.
pub fn as_type(array: &ArrayRef, data_type: &DataType) -> Rendered {
    if array.data_type() == data_type { Ok(Arc::clone(array)) } else { cast(array, data_type) }
}

/// The array without encodings that only save space.
pub fn plain(array: &ArrayRef) -> Rendered {
    as_type(array, unpacked(array.data_type()))
}

/// Texts in the layout that they have: cells are written from each layout.
fn texts_as_they_are(array: &ArrayRef) -> Rendered {
    let array = plain(array)?;
    if array.data_type().is_string() { Ok(array) } else { cast(&array, &DataType::Utf8) }
}

fn mapped<T: ArrowPrimitiveType>(
    array: &arrow::array::PrimitiveArray<T>,
    text: impl Fn(T::Native) -> String,
) -> ArrayRef {
    Arc::new(array.iter().map(|value| value.map(&text)).collect::<StringArray>())
}

fn numbers<T: ArrowPrimitiveType, const N: usize>(
    array: &ArrayRef,
    wanted: &DataType,
    bytes: impl Fn(T::Native) -> [u8; N],
) -> Rendered {
    let array = as_type(array, wanted)?;
    let Some(array) = array.as_primitive_opt::<T>() else {
        return Err(ArrowError::CastError(format!("{} is not {wanted}", array.data_type())));
    };
    let mut values = BinaryBuilder::with_capacity(array.len(), array.len() * N);
    array.iter().for_each(|value| values.append_option(value.map(&bytes)));
    Ok(Arc::new(values.finish()))
}

fn numeric_texts(array: &ArrayRef) -> Rendered {
    let array = plain(array)?;
    match array.as_primitive_opt::<UInt64Type>() {
        Some(numbers) => Ok(mapped(numbers, |value| value.to_string())),
        None => display_texts(&array),
    }
}

fn numeric_bytes(array: &ArrayRef) -> Rendered {
    let texts = numeric_texts(array)?;
    let mut values = BinaryBuilder::new();
    let mut bytes = Vec::new();
    for text in texts.as_string::<i32>() {
        let Some(text) = text else {
            values.append_null();
            continue;
        };
        bytes.clear();
        numeric::write_binary(text, &mut bytes)
            .ok_or_else(|| ArrowError::CastError(format!("`{text}` does not fit a numeric")))?;
        values.append_value(&bytes);
    }
    Ok(Arc::new(values.finish()))
}

/// PostgreSQL keeps microseconds; finer digits are dropped.
fn microseconds(array: &ArrayRef, zoned: bool) -> Rendered {
    let zone = match unpacked(array.data_type()) {
        DataType::Timestamp(_, zone) if zoned => zone.clone(),
        _ => None,
    };
    as_type(array, &DataType::Timestamp(TimeUnit::Microsecond, zone))
}

/// The day of a timestamp at midnight.
fn date_texts(array: &ArrayRef) -> Rendered {
    let days = as_type(array, &DataType::Date32)?;
    let moments = cast(&days, &DataType::Timestamp(TimeUnit::Microsecond, None))?;
    let texts = cast(&time_texts(&moments)?, &DataType::Utf8)?;
    let date = |text: &str| text.replacen(" 00:00:00", "", 1);
    Ok(Arc::new(texts.as_string::<i32>().iter().map(|text| text.map(date)).collect::<StringArray>()))
}

fn clock_texts(array: &ArrayRef) -> Rendered {
    let times = as_type(array, &DataType::Time64(TimeUnit::Microsecond))?;
    let clock = |micros: i64| {
        let (seconds, fraction) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
        let mut text = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
        if fraction != 0 {
            text.push('.');
            text.push_str(format!("{fraction:06}").trim_end_matches('0'));
        }
        text
    };
    Ok(mapped(times.as_primitive::<Time64MicrosecondType>(), clock))
}

fn interval_texts(array: &ArrayRef, style: Style) -> Rendered {
    let intervals = as_type(&plain(array)?, &INTERVAL)?;
    if style == Style::Postgres {
        return cast(&time_texts(&intervals)?, &DataType::Utf8);
    }
    Ok(mapped(intervals.as_primitive::<IntervalMonthDayNanoType>(), |value| {
        let mut text = String::new();
        interval_styles::write(&mut text, value, style);
        text
    }))
}

/// Hexadecimal digits, or text in which bytes that are not printable ASCII are octal numbers.
fn bytea_texts(array: &ArrayRef, escaped: bool) -> Rendered {
    use std::fmt::Write;
    let values = as_type(&plain(array)?, &DataType::Binary)?;
    let mut texts = StringBuilder::new();
    let mut text = String::new();
    for value in values.as_binary::<i32>() {
        let Some(value) = value else {
            texts.append_null();
            continue;
        };
        text.clear();
        if !escaped {
            text.push_str("\\x");
        }
        for byte in value {
            let _ = match (escaped, *byte) {
                (false, byte) => write!(text, "{byte:02x}"),
                (true, b'\\') => write!(text, "\\\\"),
                (true, byte @ 0x20..=0x7e) => write!(text, "{}", char::from(byte)),
                (true, byte) => write!(text, "\\{byte:03o}"),
            };
        }
        texts.append_value(&text);
    }
    Ok(Arc::new(texts.finish()))
}

/// The first byte of each text; zero for the empty text.
fn letter_bytes(array: &ArrayRef) -> Rendered {
    let texts = as_type(array, &DataType::Utf8)?;
    let letters = texts.as_string::<i32>().iter();
    let first = |text: &str| [text.as_bytes().first().copied().unwrap_or(0)];
    Ok(Arc::new(letters.map(|text| text.map(first)).collect::<BinaryArray>()))
}

fn jsonb_bytes(array: &ArrayRef) -> Rendered {
    const VERSION: u8 = 1;
    let texts = as_type(array, &DataType::Utf8)?;
    let mut values = BinaryBuilder::new();
    for text in texts.as_string::<i32>() {
        values.append_option(text.map(|text| [&[VERSION], text.as_bytes()].concat()));
    }
    Ok(Arc::new(values.finish()))
}

/// Arrow's display texts.
fn display_texts(array: &ArrayRef) -> Rendered {
    let formatter = ArrayFormatter::try_new(array.as_ref(), &FormatOptions::default())?;
    let texts = (0..array.len()).map(|row| match array.is_null(row) {
        true => Ok(None),
        false => formatter.value(row).try_to_string().map(Some),
    });
    Ok(Arc::new(texts.collect::<Result<StringArray, ArrowError>>()?))
}
