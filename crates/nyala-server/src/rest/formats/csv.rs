//! Comma-separated values as in RFC 4180, with `\n` line ends and a header line.
//!
//! A null is an empty cell and an empty text is `""`, so that the two stay apart (PostgreSQL's COPY
//! does the same). Lists, structs and maps are written as JSON.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

use super::value::{Column, Values};
use super::{Encode, Summary};

pub struct Csv {
    schema: SchemaRef,
    values: Values,
}

impl Csv {
    pub fn try_new(schema: SchemaRef) -> Result<Self, ArrowError> {
        let values = Values::new();
        values.check(&schema)?;
        Ok(Self { schema, values })
    }
}

impl Encode for Csv {
    fn head(&mut self, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        for (position, field) in self.schema.fields().iter().enumerate() {
            separate(position, out);
            text(field.name(), out);
        }
        out.push(b'\n');
        Ok(())
    }

    fn rows(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        let arrays: Vec<ArrayRef> = batch.columns().iter().map(plain_text).collect::<Result<_, _>>()?;
        let fields = batch.schema_ref().fields().iter();
        let mut cells: Vec<Cells<'_>> = fields
            .zip(&arrays)
            .map(|(field, array)| Cells::try_new(&self.values, field, array.as_ref()))
            .collect::<Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            for (position, cells) in cells.iter_mut().enumerate() {
                separate(position, out);
                cells.write(row, out);
            }
            out.push(b'\n');
        }
        self.values.finish()
    }

    fn tail(&mut self, _summary: &Summary, _out: &mut Vec<u8>) -> Result<(), ArrowError> {
        Ok(())
    }
}

/// Text of any layout as plain strings; other types as they are.
fn plain_text(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let is_text =
        |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    match array.data_type() {
        DataType::Utf8 => Ok(ArrayRef::clone(array)),
        DataType::Dictionary(_, values) if is_text(values) => cast(array, &DataType::Utf8),
        DataType::RunEndEncoded(_, values) if is_text(values.data_type()) => cast(array, &DataType::Utf8),
        other if is_text(other) => cast(array, &DataType::Utf8),
        _ => Ok(ArrayRef::clone(array)),
    }
}

enum Cells<'a> {
    Text(&'a arrow::array::StringArray),
    Json { column: Column<'a>, nested: bool, scratch: Vec<u8> },
}

impl<'a> Cells<'a> {
    fn try_new(values: &'a Values, field: &'a FieldRef, array: &'a dyn Array) -> Result<Self, ArrowError> {
        if let Some(text) = array.as_string_opt::<i32>() {
            return Ok(Cells::Text(text));
        }
        let column = values.column(field, array)?;
        Ok(Cells::Json { column, nested: array.data_type().is_nested(), scratch: Vec::new() })
    }

    fn write(&mut self, row: usize, out: &mut Vec<u8>) {
        match self {
            Cells::Text(array) if array.is_null(row) => {}
            Cells::Text(array) => text(array.value(row), out),
            Cells::Json { column, .. } if column.is_null(row) => {}
            Cells::Json { column, nested, scratch } => {
                scratch.clear();
                column.write(row, scratch);
                if *nested {
                    text(&String::from_utf8_lossy(scratch), out);
                } else {
                    // Numbers are bare; the other types are quoted texts without anything to escape.
                    out.extend_from_slice(
                        scratch
                            .trim_ascii()
                            .strip_prefix(b"\"")
                            .map_or(scratch.as_slice(), |rest| rest.strip_suffix(b"\"").unwrap_or(rest)),
                    );
                }
            }
        }
    }
}

fn separate(position: usize, out: &mut Vec<u8>) {
    if position > 0 {
        out.push(b',');
    }
}

/// Appends a text, in quotes if it needs them.
fn text(value: &str, out: &mut Vec<u8>) {
    let special = |byte: u8| matches!(byte, b',' | b'"' | b'\n' | b'\r');
    // Blanks at the ends are quoted too, because some readers would trim them.
    if !value.is_empty() && !value.bytes().any(special) && value.trim().len() == value.len() {
        out.extend_from_slice(value.as_bytes());
        return;
    }
    out.push(b'"');
    out.extend_from_slice(value.replace('"', "\"\"").as_bytes());
    out.push(b'"');
}
