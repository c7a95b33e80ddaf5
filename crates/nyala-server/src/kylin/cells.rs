//! Columns and cells as Kylin's clients read them: each cell is a text, and its column tells the type of `java.sql.Types`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, RecordBatch, StringArray, StringViewArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, Schema};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use nyala_engine::{time_texts, uuid_texts};
use serde::Serialize;

use super::names::WrittenNames;

/// Timestamps have exactly three digits of a fraction: drivers misread shorter and longer ones.
const TIMESTAMP: &str = "%Y-%m-%d %H:%M:%S%.3f";
/// Display size of types that have no precision.
const TEXT_SIZE: i32 = 256;

/// A type of JDBC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JdbcType {
    /// The number of the type in `java.sql.Types`.
    pub code: i32,
    pub name: &'static str,
    pub precision: i32,
    pub scale: i32,
}

const fn jdbc(code: i32, name: &'static str, precision: i32, scale: i32) -> JdbcType {
    JdbcType { code, name, precision, scale }
}

/// The type of a column. Unsigned numbers become the next larger type, and `real` a double: the drivers know no others.
pub fn type_of(data_type: &DataType) -> JdbcType {
    match data_type {
        DataType::Boolean => jdbc(16, "BOOLEAN", 1, 0),
        DataType::Int8 => jdbc(-6, "TINYINT", 3, 0),
        DataType::UInt8 | DataType::Int16 => jdbc(5, "SMALLINT", 5, 0),
        DataType::UInt16 | DataType::Int32 => jdbc(4, "INTEGER", 10, 0),
        DataType::UInt32 | DataType::Int64 => jdbc(-5, "BIGINT", 19, 0),
        DataType::UInt64 => jdbc(3, "DECIMAL", 20, 0),
        DataType::Float16 | DataType::Float32 | DataType::Float64 => jdbc(8, "DOUBLE", 15, 0),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            jdbc(3, "DECIMAL", i32::from(*precision), i32::from(*scale))
        }
        DataType::Date32 | DataType::Date64 => jdbc(91, "DATE", 10, 0),
        DataType::Timestamp(..) => jdbc(93, "TIMESTAMP", 23, 3),
        DataType::Dictionary(_, values) => type_of(values),
        _ => jdbc(12, "VARCHAR", TEXT_SIZE, 0),
    }
}

/// The type of a column of `information_schema`.
pub fn type_named(name: &str, precision: Option<i32>, scale: Option<i32>) -> JdbcType {
    match name {
        "boolean" => jdbc(16, "BOOLEAN", 1, 0),
        "smallint" => jdbc(5, "SMALLINT", 5, 0),
        "integer" => jdbc(4, "INTEGER", 10, 0),
        "bigint" => jdbc(-5, "BIGINT", 19, 0),
        "real" | "double precision" => jdbc(8, "DOUBLE", 15, 0),
        "numeric" => jdbc(3, "DECIMAL", precision.unwrap_or(38), scale.unwrap_or(0)),
        "date" => jdbc(91, "DATE", 10, 0),
        _ if name.starts_with("timestamp") => jdbc(93, "TIMESTAMP", 23, 3),
        _ => jdbc(12, "VARCHAR", TEXT_SIZE, 0),
    }
}

/// A column of an answer, in `columnMetas`. The names are those of Kylin, misspelt ones included.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Column<'a> {
    label: &'a str,
    name: &'a str,
    display_size: i32,
    precision: i32,
    scale: i32,
    column_type: i32,
    column_type_name: &'static str,
    is_nullable: i32,
    auto_increment: bool,
    case_sensitive: bool,
    searchable: bool,
    currency: bool,
    signed: bool,
    read_only: bool,
    writable: bool,
    definitely_writable: bool,
    schema_name: (),
    catelog_name: (),
    table_name: (),
}

impl<'a> Column<'a> {
    fn of(field: &'a Field, names: &'a WrittenNames) -> Self {
        let JdbcType { code, name, precision, scale } = type_of(field.data_type());
        let label = names.shown(field.name());
        Self {
            label,
            name: label,
            display_size: precision,
            precision,
            scale,
            column_type: code,
            column_type_name: name,
            is_nullable: i32::from(field.is_nullable()),
            auto_increment: false,
            case_sensitive: true,
            searchable: true,
            currency: false,
            signed: matches!(code, -6..=8),
            read_only: true,
            writable: false,
            definitely_writable: false,
            schema_name: (),
            catelog_name: (),
            table_name: (),
        }
    }
}

/// `columnMetas` of an answer, by the names that the client wrote.
pub fn columns_of<'a>(schema: &'a Schema, names: &'a WrittenNames) -> Vec<Column<'a>> {
    schema.fields().iter().map(|field| Column::of(field, names)).collect()
}

/// Appends the rows of a batch, as arrays of texts and nulls between commas.
///
/// # Errors
/// A value has no text, such as a date out of the calendar.
pub fn write_rows(batch: &RecordBatch, is_first: bool, out: &mut Vec<u8>) -> Result<(), ArrowError> {
    let options = FormatOptions::default()
        .with_timestamp_format(Some(TIMESTAMP))
        .with_timestamp_tz_format(Some(TIMESTAMP))
        .with_display_error(false);
    let columns = batch.columns().iter().map(as_written).collect::<Result<Vec<_>, _>>()?;
    let columns = columns.iter().map(|column| Cells::new(column, &options)).collect::<Result<Vec<_>, _>>()?;
    let mut text = String::new();
    for row in 0..batch.num_rows() {
        out.extend_from_slice(if is_first && row == 0 { b"[" } else { b",[" });
        for (at, column) in columns.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            column.write(row, &mut text, out)?;
        }
        out.push(b']');
    }
    Ok(())
}

/// The column, or PostgreSQL's texts of it where those of Arrow differ: Arrow writes UUIDs without hyphens, and intervals in words of its own.
fn as_written(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    Ok(match column.data_type() {
        DataType::FixedSizeBinary(16) => uuid_texts(column)?,
        DataType::Interval(_) | DataType::Duration(_) => time_texts(column)?,
        _ => Arc::clone(column),
    })
}

/// How the texts of a column are written as strings of JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Texts without characters that need an escape.
    Plain,
    /// Texts without characters that need an escape, but with infinity as Java reads it.
    Float,
    /// Texts of any characters.
    Any,
}

impl Form {
    fn of(data_type: &DataType) -> Self {
        match data_type {
            floating if floating.is_floating() => Self::Float,
            DataType::Boolean | DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => Self::Plain,
            number if number.is_numeric() => Self::Plain,
            _ => Self::Any,
        }
    }
}

/// The values of a column. Names and whole numbers, of which most answers consist, are written without a formatter.
enum Texts<'a> {
    Int32(&'a PrimitiveArray<Int32Type>),
    Int64(&'a PrimitiveArray<Int64Type>),
    Short(&'a StringArray),
    Views(&'a StringViewArray),
    Formatted(ArrayFormatter<'a>, Form),
}

impl<'a> Texts<'a> {
    fn of(array: &'a ArrayRef, options: &'a FormatOptions<'a>) -> Result<Self, ArrowError> {
        let plain = match array.data_type() {
            DataType::Int32 => array.as_primitive_opt().map(Self::Int32),
            DataType::Int64 => array.as_primitive_opt().map(Self::Int64),
            DataType::Utf8 => array.as_string_opt().map(Self::Short),
            DataType::Utf8View => array.as_string_view_opt().map(Self::Views),
            _ => None,
        };
        match plain {
            Some(plain) => Ok(plain),
            None => {
                let formatter = ArrayFormatter::try_new(array, options)?;
                Ok(Self::Formatted(formatter, Form::of(array.data_type())))
            }
        }
    }
}

struct Cells<'a> {
    /// Nulls of the column, and nulls among the values of a dictionary.
    nulls: Option<NullBuffer>,
    texts: Texts<'a>,
}

impl<'a> Cells<'a> {
    fn new(array: &'a ArrayRef, options: &'a FormatOptions<'a>) -> Result<Self, ArrowError> {
        Ok(Self { nulls: array.logical_nulls(), texts: Texts::of(array, options)? })
    }

    /// Writes the value of a row as JSON. `text` is a buffer for it.
    fn write(&self, row: usize, text: &mut String, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            out.extend_from_slice(b"null");
            return Ok(());
        }
        match &self.texts {
            Texts::Int32(numbers) => put(itoa::Buffer::new().format(numbers.value(row)), out),
            Texts::Int64(numbers) => put(itoa::Buffer::new().format(numbers.value(row)), out),
            Texts::Short(texts) => return put_any(texts.value(row), out),
            Texts::Views(texts) => return put_any(texts.value(row), out),
            Texts::Formatted(formatter, form) => {
                text.clear();
                formatter.value(row).write(text)?;
                match (form, text.as_str()) {
                    (Form::Any, text) => return put_any(text, out),
                    (Form::Float, "inf") => put("Infinity", out),
                    (Form::Float, "-inf") => put("-Infinity", out),
                    (Form::Float | Form::Plain, text) => put(text, out),
                }
            }
        }
        Ok(())
    }
}

/// Adds a text in which nothing has to be escaped.
fn put(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

/// Adds a text of any characters.
fn put_any(text: &str, out: &mut Vec<u8>) -> Result<(), ArrowError> {
    serde_json::to_writer(out, text).map_err(|error| ArrowError::JsonError(error.to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::{
        BooleanArray, Date32Array, Decimal128Array, DictionaryArray, FixedSizeBinaryArray, Float64Array,
        Int32Array, Int64Array, IntervalMonthDayNanoArray, TimestampMicrosecondArray,
    };
    use arrow::datatypes::IntervalMonthDayNano;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn cells_are_texts_that_drivers_read() {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("b", Arc::new(BooleanArray::from(vec![Some(true), None]))),
            ("i", Arc::new(Int64Array::from(vec![i64::MIN, 7]))),
            ("n", Arc::new(Int32Array::from(vec![Some(-1992), None]))),
            ("f", Arc::new(Float64Array::from(vec![f64::INFINITY, f64::NAN]))),
            ("d", Arc::new(Decimal128Array::from(vec![12345, -5]).with_precision_and_scale(10, 2).unwrap())),
            ("t", Arc::new(StringArray::from(vec!["inf", "a \"b\"\n"]))),
            ("v", Arc::new(StringViewArray::from(vec![None, Some("not inline \\ but long")]))),
            ("k", Arc::new(DictionaryArray::<Int32Type>::from_iter([Some("\t"), None]))),
            ("day", Arc::new(Date32Array::from(vec![0, 20_000]))),
            ("at", Arc::new(TimestampMicrosecondArray::from(vec![1_500_000, 123_456]))),
            (
                "id",
                Arc::new(FixedSizeBinaryArray::try_from_iter([[0x1f_u8; 16], [0; 16]].into_iter()).unwrap()),
            ),
            (
                "for",
                Arc::new(IntervalMonthDayNanoArray::from(vec![
                    Some(IntervalMonthDayNano::new(14, 3, 1_500_000_000)),
                    None,
                ])),
            ),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut out = Vec::new();
        write_rows(&batch, true, &mut out).unwrap();
        let rows: Value = serde_json::from_slice(&[b"[", out.as_slice(), b"]"].concat()).unwrap();
        assert_eq!(
            rows[0],
            json!([
                "true",
                i64::MIN.to_string(),
                "-1992",
                "Infinity",
                "123.45",
                "inf",
                null,
                "\t",
                "1970-01-01",
                "1970-01-01 00:00:01.500",
                "1f1f1f1f-1f1f-1f1f-1f1f-1f1f1f1f1f1f",
                "1 year 2 mons 3 days 00:00:01.5"
            ])
        );
        assert_eq!(
            rows[1],
            json!([
                null,
                "7",
                null,
                "NaN",
                "-0.05",
                "a \"b\"\n",
                "not inline \\ but long",
                null,
                "2024-10-04",
                "1970-01-01 00:00:00.123",
                "00000000-0000-0000-0000-000000000000",
                null
            ])
        );
    }

    #[test]
    fn types_are_those_that_drivers_know() {
        assert_eq!(type_of(&DataType::UInt64), jdbc(3, "DECIMAL", 20, 0));
        assert_eq!(type_of(&DataType::Float32).name, "DOUBLE");
        assert_eq!(type_named("numeric", Some(12), Some(3)), jdbc(3, "DECIMAL", 12, 3));
        assert_eq!(type_named("timestamp with time zone", None, None).code, 93);
        assert_eq!(type_named("interval", None, None).code, 12);
    }
}
