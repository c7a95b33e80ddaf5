//! Single values as JSON, without loss: a value that JSON cannot express becomes a string.
//!
//! Arrow's own encoder writes NaN as null, shows the values of a dictionary that are null as empty,
//! and puts a value it cannot format (a date beyond the calendar) into the text as an error message.
//! The factory below replaces just these, at any depth of nesting.

use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, AsArray, make_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use arrow::error::ArrowError;
use arrow::json::writer::{NullableEncoder, make_encoder};
use arrow::json::{Encoder, EncoderFactory, EncoderOptions};
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use nyala_engine::uuid_texts;

/// Encoder options and the place where a value that cannot be written is noted: encoders themselves
/// cannot fail.
#[derive(Debug)]
pub struct Values {
    options: EncoderOptions,
    failure: Arc<OnceLock<String>>,
}

impl Values {
    pub fn new() -> Self {
        let failure = Arc::new(OnceLock::new());
        let factory = Arc::new(Exact { failure: Arc::clone(&failure) });
        let options = EncoderOptions::default().with_explicit_nulls(true).with_encoder_factory(factory);
        Self { options, failure }
    }

    /// Refuses schemas with a type that JSON cannot hold.
    pub fn check(&self, schema: &SchemaRef) -> Result<(), ArrowError> {
        let empty = RecordBatch::new_empty(Arc::clone(schema));
        self.columns(&empty).map(drop)
    }

    /// One writer for each column of the batch.
    pub fn columns<'a>(&'a self, batch: &'a RecordBatch) -> Result<Vec<Column<'a>>, ArrowError> {
        let fields = batch.schema_ref().fields().iter();
        fields.zip(batch.columns()).map(|(field, array)| self.column(field, array.as_ref())).collect()
    }

    /// A writer for one column.
    pub fn column<'a>(&'a self, field: &'a FieldRef, array: &'a dyn Array) -> Result<Column<'a>, ArrowError> {
        let encoder = make_encoder(field, array, &self.options)?;
        Ok(Column { encoder, nulls: array.logical_nulls() })
    }

    /// The error of the first value that could not be written, if there was one.
    pub fn finish(&self) -> Result<(), ArrowError> {
        match self.failure.get() {
            Some(message) => Err(ArrowError::JsonError(message.clone())),
            None => Ok(()),
        }
    }
}

/// Writes the values of one column.
pub struct Column<'a> {
    encoder: NullableEncoder<'a>,
    nulls: Option<NullBuffer>,
}

impl Column<'_> {
    pub(super) fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// Appends the value as JSON, `null` included.
    pub(super) fn write(&mut self, row: usize, out: &mut Vec<u8>) {
        if self.is_null(row) {
            out.extend_from_slice(b"null");
        } else {
            self.encoder.encode(row, out);
        }
    }
}

/// Takes over the types for which Arrow's own encoder would lose or hide something.
#[derive(Debug)]
struct Exact {
    failure: Arc<OnceLock<String>>,
}

impl EncoderFactory for Exact {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        let encoder: Box<dyn Encoder + 'a> = match array.data_type() {
            DataType::Null => Box::new(Null),
            DataType::Float16 | DataType::Float32 | DataType::Float64 => {
                Box::new(Float(self.formatted(array)?))
            }
            DataType::FixedSizeBinary(16) => Box::new(Uuid(uuid_texts(&make_array(array.to_data()))?)),
            DataType::Dictionary(_, _) => dictionary(field, array, options)?,
            other if other.is_temporal() => Box::new(Quoted(self.formatted(array)?)),
            _ => return Ok(None),
        };
        Ok(Some(NullableEncoder::new(encoder, array.logical_nulls())))
    }
}

impl Exact {
    fn formatted<'a>(&self, array: &'a dyn Array) -> Result<Formatted<'a>, ArrowError> {
        let formatter = ArrayFormatter::try_new(array, &FORMAT)?;
        Ok(Formatted { formatter, text: String::new(), failure: Arc::clone(&self.failure) })
    }
}

/// Values that cannot be formatted are errors, not text.
const FORMAT: FormatOptions<'static> = FormatOptions::new().with_display_error(false);

/// Formats a value as text; a failure is noted and the text left as it is, since the result that
/// holds it will not be delivered.
struct Formatted<'a> {
    formatter: ArrayFormatter<'a>,
    text: String,
    failure: Arc<OnceLock<String>>,
}

impl Formatted<'_> {
    fn text(&mut self, row: usize) -> &str {
        self.text.clear();
        if let Err(error) = self.formatter.value(row).write(&mut self.text) {
            // Only the first failure is reported.
            let _ = self.failure.set(error.to_string());
        }
        &self.text
    }
}

/// A number, or one of the three floats that JSON has no number for, as a string.
struct Float<'a>(Formatted<'a>);

impl Encoder for Float<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let text = match self.0.text(row) {
            "NaN" => "\"NaN\"",
            "inf" => "\"Infinity\"",
            "-inf" => "\"-Infinity\"",
            number => number,
        };
        out.extend_from_slice(text.as_bytes());
    }
}

/// A date, time or interval; its text needs no escaping.
struct Quoted<'a>(Formatted<'a>);

impl Encoder for Quoted<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        out.push(b'"');
        out.extend_from_slice(self.0.text(row).as_bytes());
        out.push(b'"');
    }
}

/// A UUID; its text needs no escaping.
struct Uuid(ArrayRef);

impl Encoder for Uuid {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        out.push(b'"');
        if let Some(texts) = self.0.as_string_view_opt().filter(|texts| row < texts.len()) {
            out.extend_from_slice(texts.value(row).as_bytes());
        }
        out.push(b'"');
    }
}

/// The only value of a column of type null.
struct Null;

impl Encoder for Null {
    fn encode(&mut self, _row: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(b"null");
    }
}

/// Looks values up by key.
struct Dictionary<'a> {
    keys: Vec<usize>,
    values: NullableEncoder<'a>,
}

impl Encoder for Dictionary<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        if let Some(key) = self.keys.get(row) {
            self.values.encode(*key, out);
        }
    }
}

fn dictionary<'a>(
    field: &'a FieldRef,
    array: &'a dyn Array,
    options: &'a EncoderOptions,
) -> Result<Box<dyn Encoder + 'a>, ArrowError> {
    let Some(dictionary) = array.as_any_dictionary_opt() else { return Ok(Box::new(Null)) };
    let values = make_encoder(field, dictionary.values().as_ref(), options)?;
    // Without values every row is null, and there is no key to normalise.
    let keys = if dictionary.values().is_empty() { Vec::new() } else { dictionary.normalized_keys() };
    Ok(Box::new(Dictionary { keys, values }))
}
