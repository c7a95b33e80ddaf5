//! Result columns: which PostgreSQL type each has, and the array its values are written from.
//!
//! arrow-pg writes most types. Columns are first brought to a form it writes correctly: dictionaries
//! are unpacked once for a whole batch; decimals of any width, floats and timestamps, which it
//! would round, shorten or refuse, become their final text or bytes; and types PostgreSQL does not
//! have become text.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryBuilder, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Field, FieldRef, Float32Type, Float64Type, IntervalUnit, TimeUnit, TimestampMicrosecondType,
    UInt64Type,
};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow_pg::datatypes::{PG_CHAR_KEY, PG_OID_ALIAS_KEY, field_into_pg_type};
use pgwire::api::Type;
use pgwire::api::results::FieldFormat;

use nyala_engine::{time_texts, uuid_texts};

use super::floats;
use super::numeric;

/// The type that intervals are written from as bytes.
const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// Microseconds from 1970, where Arrow counts from, to 2000, where PostgreSQL does.
pub const EPOCH_OFFSET_US: i64 = 946_684_800_000_000;

/// How one column is written.
#[derive(Debug)]
pub struct Column {
    pub name: String,
    pub pg_type: Type,
    /// `atttypmod`: precision and scale of a numeric, otherwise -1.
    pub modifier: i32,
    shape: Shape,
    metadata: HashMap<String, String>,
}

#[derive(Debug, PartialEq, Eq)]
enum Shape {
    /// arrow-pg writes it, after a cast to this type.
    Native(DataType),
    Numeric,
    Float,
    /// With or without a time zone.
    Timestamp(bool),
    /// As time_texts writes it, which is the usual style.
    Interval,
    /// The time of a day, of this type.
    Time(DataType),
    /// Sixteen bytes.
    Uuid,
    /// Arrow's own display text.
    Text,
}

impl Column {
    /// Works out how a field is written.
    pub fn of(field: &Field) -> Self {
        let (shape, metadata) = (shape(field), own_metadata(field));
        let pg_type = match &shape {
            Shape::Numeric => Type::NUMERIC,
            Shape::Float if unpacked(field.data_type()) == &DataType::Float64 => Type::FLOAT8,
            Shape::Float => Type::FLOAT4,
            Shape::Timestamp(true) => Type::TIMESTAMPTZ,
            Shape::Timestamp(false) => Type::TIMESTAMP,
            Shape::Native(native) => {
                let field = field.clone().with_data_type(native.clone()).with_metadata(metadata.clone());
                field_into_pg_type(&Arc::new(field)).unwrap_or(Type::TEXT)
            }
            Shape::Time(_) => Type::TIME,
            Shape::Interval => Type::INTERVAL,
            Shape::Uuid => Type::UUID,
            Shape::Text => Type::TEXT,
        };
        let modifier = modifier(unpacked(field.data_type()));
        Self { name: field.name().clone(), pg_type, modifier, shape, metadata }
    }

    /// The same for a style of intervals: arrow-pg knows the others.
    #[must_use]
    pub fn in_style(mut self, interval_style: &str) -> Self {
        let is_interval = matches!(&self.shape, Shape::Native(DataType::Interval(_) | DataType::Duration(_)));
        if is_interval && interval_style.eq_ignore_ascii_case("postgres") {
            self.shape = Shape::Interval;
        }
        self
    }

    /// `typlen`: bytes of a fixed-width value, otherwise -1.
    pub fn type_size(&self) -> i16 {
        match self.pg_type {
            Type::BOOL | Type::CHAR => 1,
            Type::INT2 => 2,
            Type::INT4 | Type::FLOAT4 | Type::DATE | Type::OID => 4,
            Type::INT8 | Type::FLOAT8 | Type::TIMESTAMP | Type::TIMESTAMPTZ | Type::TIME => 8,
            Type::INTERVAL | Type::UUID => 16,
            _ => -1,
        }
    }

    /// The Arrow field of the array that [`Column::render`] gives.
    pub fn rendered_field(&self, format: FieldFormat) -> Field {
        Field::new(&self.name, self.rendered_type(format), true).with_metadata(self.metadata.clone())
    }

    fn rendered_type(&self, format: FieldFormat) -> DataType {
        match (&self.shape, format) {
            (Shape::Native(native), _) | (Shape::Time(native), FieldFormat::Binary) => native.clone(),
            (Shape::Interval, FieldFormat::Binary) => INTERVAL,
            (Shape::Float, FieldFormat::Binary) if self.pg_type == Type::FLOAT8 => DataType::Float64,
            (Shape::Float, FieldFormat::Binary) => DataType::Float32,
            (Shape::Numeric | Shape::Timestamp(_) | Shape::Uuid, FieldFormat::Binary) => DataType::Binary,
            _ => DataType::Utf8,
        }
    }

    /// The values in the form they are written from.
    ///
    /// # Errors
    /// A value that the PostgreSQL type cannot hold.
    pub fn render(&self, array: &ArrayRef, format: FieldFormat, digits: i32) -> Result<ArrayRef, ArrowError> {
        let binary = format == FieldFormat::Binary;
        match &self.shape {
            Shape::Time(_) if !binary => time_text(array),
            Shape::Interval if binary => cast(array, &INTERVAL),
            Shape::Interval => cast(&time_texts(array)?, &DataType::Utf8),
            Shape::Native(native) | Shape::Time(native) if native == array.data_type() => {
                Ok(Arc::clone(array))
            }
            Shape::Native(native) | Shape::Time(native) => cast(array, native),
            Shape::Float if binary => cast(array, &self.rendered_type(format)),
            Shape::Float => float_text(array, &self.pg_type, digits),
            Shape::Numeric => numeric_values(array, binary),
            Shape::Timestamp(zoned) if binary => timestamp_bytes(array, *zoned),
            Shape::Timestamp(zoned) => timestamp_text(array, *zoned),
            Shape::Uuid if binary => cast(&plain(array)?, &DataType::Binary),
            Shape::Uuid => uuid_text(array),
            Shape::Text => display_text(array, &FormatOptions::default()),
        }
    }
}

/// The metadata of a field that fits its type: `oid::text` still has the metadata of the number.
fn own_metadata(field: &Field) -> HashMap<String, String> {
    let mut metadata = field.metadata().clone();
    if !unpacked(field.data_type()).is_integer() {
        metadata.remove(PG_OID_ALIAS_KEY);
    }
    if !unpacked(field.data_type()).is_string() {
        metadata.remove(PG_CHAR_KEY);
    }
    metadata
}

/// The type of the values, seen through encodings that only save space.
fn unpacked(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => unpacked(values),
        DataType::RunEndEncoded(_, values) => unpacked(values.data_type()),
        other => other,
    }
}

fn shape(field: &Field) -> Shape {
    match unpacked(field.data_type()) {
        DataType::UInt64
        | DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => Shape::Numeric,
        DataType::Float16 | DataType::Float32 | DataType::Float64 => Shape::Float,
        DataType::Timestamp(_, zone) => Shape::Timestamp(zone.is_some()),
        DataType::FixedSizeBinary(16) => Shape::Uuid,
        time @ (DataType::Time32(_) | DataType::Time64(_)) => Shape::Time(time.clone()),
        data_type => native(data_type).map_or(Shape::Text, Shape::Native),
    }
}

/// The type that arrow-pg writes correctly for values of `data_type`, if there is one.
fn native(data_type: &DataType) -> Option<DataType> {
    Some(match unpacked(data_type) {
        DataType::Null => DataType::Utf8,
        DataType::Int8 | DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        DataType::Date64 => DataType::Date32,
        DataType::FixedSizeBinary(_) => DataType::Binary,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            DataType::List(native_item(item)?)
        }
        same @ (DataType::Boolean
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Date32
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Duration(_)
        | DataType::Interval(_)
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View) => same.clone(),
        _ => return None,
    })
}

/// The same for the items of a list: one level, of types that PostgreSQL has arrays of.
fn native_item(item: &FieldRef) -> Option<FieldRef> {
    let data_type = match unpacked(item.data_type()) {
        DataType::Float16 => DataType::Float32,
        same @ (DataType::Float32 | DataType::Float64 | DataType::Null) => same.clone(),
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => return None,
        // There are no unsigned numbers; places in a list have room.
        DataType::UInt64 => DataType::Int64,
        other => native(other)?,
    };
    Some(Arc::new(item.as_ref().clone().with_data_type(data_type)))
}

fn modifier(data_type: &DataType) -> i32 {
    match data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale)
            if *scale >= 0 =>
        {
            (i32::from(*precision) << 16 | i32::from(*scale)) + 4
        }
        _ => -1,
    }
}

fn plain(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let data_type = unpacked(array.data_type());
    if data_type == array.data_type() { Ok(Arc::clone(array)) } else { cast(array, data_type) }
}

fn float_text(array: &ArrayRef, pg_type: &Type, digits: i32) -> Result<ArrayRef, ArrowError> {
    let texts: StringArray = if *pg_type == Type::FLOAT8 {
        let array = cast(array, &DataType::Float64)?;
        array.as_primitive::<Float64Type>().iter().map(|v| v.map(|v| floats::double(v, digits))).collect()
    } else {
        let array = cast(array, &DataType::Float32)?;
        array.as_primitive::<Float32Type>().iter().map(|v| v.map(|v| floats::single(v, digits))).collect()
    };
    Ok(Arc::new(texts))
}

fn numeric_values(array: &ArrayRef, binary: bool) -> Result<ArrayRef, ArrowError> {
    let array = plain(array)?;
    let texts: ArrayRef = match array.as_primitive_opt::<UInt64Type>() {
        Some(numbers) => Arc::new(numbers.iter().map(|v| v.map(|v| v.to_string())).collect::<StringArray>()),
        None => display_text(&array, &FormatOptions::default())?,
    };
    if !binary {
        return Ok(texts);
    }
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

fn uuid_text(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let texts = uuid_texts(&plain(array)?)?;
    cast(&texts, &DataType::Utf8)
}

/// PostgreSQL keeps microseconds; finer digits are dropped.
fn microseconds(array: &ArrayRef, zoned: bool) -> Result<ArrayRef, ArrowError> {
    let zone = match unpacked(array.data_type()) {
        DataType::Timestamp(_, zone) if zoned => zone.clone(),
        _ => None,
    };
    cast(array, &DataType::Timestamp(TimeUnit::Microsecond, zone))
}

fn timestamp_bytes(array: &ArrayRef, zoned: bool) -> Result<ArrayRef, ArrowError> {
    let array = microseconds(array, zoned)?;
    let mut values = BinaryBuilder::new();
    for value in array.as_primitive::<TimestampMicrosecondType>() {
        values.append_option(value.map(|value| value.saturating_sub(EPOCH_OFFSET_US).to_be_bytes()));
    }
    Ok(Arc::new(values.finish()))
}

fn timestamp_text(array: &ArrayRef, zoned: bool) -> Result<ArrayRef, ArrowError> {
    cast(&time_texts(&microseconds(array, zoned)?)?, &DataType::Utf8)
}

fn time_text(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let options = FormatOptions::new().with_time_format(Some("%H:%M:%S%.6f"));
    let texts = display_text(array, &options)?;
    let texts: StringArray = texts.as_string::<i32>().iter().map(|text| text.map(short_timestamp)).collect();
    Ok(Arc::new(texts))
}

/// Leaves out zeros as PostgreSQL does: `12:00:00.500000+01:00` becomes `12:00:00.5+01`.
fn short_timestamp(text: &str) -> String {
    let point = text.find('.').unwrap_or(text.len());
    let (seconds, rest) = text.split_at(point);
    let zone = rest.find(['+', '-']).unwrap_or(rest.len());
    let (fraction, zone) = rest.split_at(zone);
    let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
    format!("{seconds}{fraction}{}", zone.strip_suffix(":00").unwrap_or(zone))
}

fn display_text(array: &ArrayRef, options: &FormatOptions<'_>) -> Result<ArrayRef, ArrowError> {
    let formatter = ArrayFormatter::try_new(array.as_ref(), options)?;
    let texts = (0..array.len()).map(|row| match array.is_null(row) {
        true => Ok(None),
        false => formatter.value(row).try_to_string().map(Some),
    });
    Ok(Arc::new(texts.collect::<Result<StringArray, ArrowError>>()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
    use arrow::array::{
        Decimal256Array, DictionaryArray, Int8Array, Int32Array, TimestampNanosecondArray, UInt64Array,
    };
    use arrow::datatypes::{Int32Type, i256};

    use super::*;

    fn column(array: &ArrayRef) -> Column {
        Column::of(&Field::new("c", array.data_type().clone(), true))
    }

    fn text(array: impl Array + 'static) -> (Type, Vec<Option<String>>) {
        let array: ArrayRef = Arc::new(array);
        let column = column(&array);
        let rendered = column.render(&array, FieldFormat::Text, 1).unwrap();
        assert_eq!(rendered.data_type(), column.rendered_field(FieldFormat::Text).data_type());
        let rendered = cast(&rendered, &DataType::Utf8).unwrap();
        let texts = rendered.as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect();
        (column.pg_type, texts)
    }

    #[test]
    fn texts_are_postgresqls() {
        let check = |(pg_type, texts): (Type, Vec<Option<String>>), expected_type, expected: &str| {
            assert_eq!((pg_type, texts), (expected_type, vec![Some(expected.to_owned()), None]));
        };
        check(text(UInt64Array::from(vec![Some(u64::MAX), None])), Type::NUMERIC, "18446744073709551615");
        check(text(Int8Array::from(vec![Some(-1), None])), Type::INT2, "-1");
        check(text(arrow::array::Float32Array::from(vec![Some(0.1), None])), Type::FLOAT4, "0.1");
        let decimals = Decimal256Array::from(vec![Some(i256::from_i128(-5)), None]);
        check(text(decimals.with_precision_and_scale(50, 2).unwrap()), Type::NUMERIC, "-0.05");
        let nanos = || TimestampNanosecondArray::from(vec![Some(1_500_000_001), None]);
        check(text(nanos()), Type::TIMESTAMP, "1970-01-01 00:00:01.5");
        check(text(nanos().with_timezone("+00:00")), Type::TIMESTAMPTZ, "1970-01-01 00:00:01.5+00");
        let words: DictionaryArray<Int32Type> = [Some("a"), None].into_iter().collect();
        check(text(words), Type::TEXT, "a");
    }

    #[test]
    fn binary_timestamps_count_from_2000() {
        let array: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![EPOCH_OFFSET_US * 1000]));
        let rendered = column(&array).render(&array, FieldFormat::Binary, 1).unwrap();
        assert_eq!(rendered.as_binary::<i32>().value(0), [0; 8]);
    }

    #[test]
    fn numerics_carry_precision_and_scale() {
        let field = Field::new("c", DataType::Decimal128(15, 2), true);
        assert_eq!(Column::of(&field).modifier, (15 << 16 | 2) + 4);
        assert_eq!(column(&(Arc::new(Int32Array::from(vec![1])) as ArrayRef)).modifier, -1);
    }

    #[test]
    fn timestamps_are_shortened() {
        let check = |text, expected| assert_eq!(short_timestamp(text), expected);
        check("2024-01-02 03:04:05.000000", "2024-01-02 03:04:05");
        check("2024-01-02 03:04:05.000000+00:00", "2024-01-02 03:04:05+00");
        check("2024-01-02 03:04:05.120000-05:30", "2024-01-02 03:04:05.12-05:30");
    }
}
