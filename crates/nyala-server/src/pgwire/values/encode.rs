//! Record batches as DataRow messages.

use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{FieldRef, SchemaRef};
use arrow::error::ArrowError;
use bytes::{Bytes, BytesMut};
use nyala_engine::Prepared;
use nyala_pg::described::{Described, described};
use pgwire::api::results::{FieldFormat, FieldInfo};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::data::{FieldDescription, RowDescription};
use pgwire::types::format::FormatOptions;

use super::cells::Cells;
use super::columns::Column;
use super::interval_styles::Style;
use super::render::Looks;
use crate::pgwire::commands::settings::Settings;
use crate::pgwire::errors::{Failure, sqlstate};

/// Codes of formats.
const TEXT: i16 = 0;
const BINARY: i16 = 1;

const TOO_MANY_COLUMNS: &str = "a result has more columns than a row of the protocol can hold";
const TOO_LONG: &str = "a row is longer than the 2 GiB that a message of the protocol can hold";

/// Writes rows as messages.
pub trait WriteRows {
    /// Appends all rows of a batch.
    ///
    /// # Errors
    /// A value that has no PostgreSQL form; `out` then ends with the last whole row.
    fn write(&mut self, batch: &RecordBatch, out: &mut BytesMut) -> Result<(), Failure>;
}

/// Writes the rows of one result in the formats that its client asked for.
pub struct RowWriter {
    layout: Arc<Layout>,
}

/// Columns of a result with their formats.
#[derive(Debug)]
struct Layout {
    schema: SchemaRef,
    columns: Vec<Column>,
    formats: Vec<FieldFormat>,
    looks: Looks,
    /// The RowDescription message.
    description: Bytes,
}

/// Layouts of a statement's rows in the usual format. All sessions share them with its plan: for a small answer, working a layout out
/// takes as long as writing the rows.
#[derive(Debug, Default)]
pub struct Layouts {
    text: OnceLock<Arc<Layout>>,
    binary: OnceLock<Arc<Layout>>,
}

impl RowWriter {
    /// A writer for rows of `schema`. `formats` are the codes of a Bind message: none means text, one
    /// counts for all columns.
    ///
    /// # Errors
    /// Another number of formats than of columns, or an unknown format.
    pub fn new(schema: &SchemaRef, formats: &[i16], options: &Arc<FormatOptions>) -> Result<Self, Failure> {
        Ok(Self::with(Arc::new(Layout::new(schema, formats, options, &[])?)))
    }

    /// A writer for the rows of a statement. The layout of an engine's statement is kept with it.
    ///
    /// # Errors
    /// Those of [`RowWriter::new`].
    pub fn of(
        prepared: Option<&Prepared>,
        schema: &SchemaRef,
        formats: &[i16],
        options: &Arc<FormatOptions>,
    ) -> Result<Self, Failure> {
        let usual = prepared.filter(|_| Arc::ptr_eq(options, Settings::usual_format()));
        let kept = usual.map(Prepared::kept::<Layouts>);
        let place = kept.as_ref().and_then(|layouts| layouts.place(formats, schema.fields().len()));
        if let Some(layout) = place.and_then(OnceLock::get)
            && layout.describes(schema)
        {
            return Ok(Self::with(Arc::clone(layout)));
        }
        let known = prepared.map(|one| described(one.statement(), &one.origins())).unwrap_or_default();
        let layout = Arc::new(Layout::new(schema, formats, options, &known)?);
        // It fails if another connection was first, whose layout is as good.
        let _ = place.map(|place| place.set(Arc::clone(&layout)));
        Ok(Self::with(layout))
    }

    fn with(layout: Arc<Layout>) -> Self {
        Self { layout }
    }

    /// The RowDescription message.
    pub fn description(&self) -> &[u8] {
        &self.layout.description
    }
}

impl Layouts {
    /// The place of the layout for these formats; none if columns have different formats.
    fn place(&self, formats: &[i16], columns: usize) -> Option<&OnceLock<Arc<Layout>>> {
        let all = |code: i16| [1, columns].contains(&formats.len()) && formats.iter().all(|one| *one == code);
        if formats.is_empty() || all(TEXT) { Some(&self.text) } else { all(BINARY).then_some(&self.binary) }
    }
}

impl Layout {
    fn new(
        schema: &SchemaRef,
        formats: &[i16],
        options: &Arc<FormatOptions>,
        known: &[Described],
    ) -> Result<Self, Failure> {
        let nothing = Described::default();
        let columns = schema.fields().iter().enumerate();
        let columns: Vec<Column> = columns
            .map(|(at, field)| Column::of(field).described_as(known.get(at).unwrap_or(&nothing)))
            .collect();
        let formats = spread(formats, columns.len())?;
        let fields: Vec<FieldInfo> =
            columns.iter().zip(&formats).map(|(column, format)| info(column, *format)).collect();
        Ok(Self {
            schema: Arc::clone(schema),
            columns,
            formats,
            looks: looks(options),
            description: description(&fields)?,
        })
    }

    /// Whether the layout fits rows of `schema`.
    fn describes(&self, schema: &SchemaRef) -> bool {
        let same = |(a, b): (&FieldRef, &FieldRef)| {
            a.name() == b.name() && a.data_type() == b.data_type() && a.metadata() == b.metadata()
        };
        let (own, others) = (self.schema.fields(), schema.fields());
        Arc::ptr_eq(&self.schema, schema) || own.len() == others.len() && own.iter().zip(others).all(same)
    }

    fn render(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>, Failure> {
        let columns = self.columns.iter().zip(&self.formats).zip(batch.columns());
        let arrays: Result<Vec<ArrayRef>, ArrowError> =
            columns.map(|((column, format), array)| column.render(array, *format, self.looks)).collect();
        let arrays = arrays.map_err(|error| unwritable(&error.to_string()))?;
        // A row with fewer values than the description promised would confuse every client.
        if arrays.len() == self.columns.len() {
            Ok(arrays)
        } else {
            Err(Failure::error(sqlstate::INTERNAL, "result has other columns than its description"))
        }
    }
}

/// The settings of a session that values are written by.
fn looks(options: &FormatOptions) -> Looks {
    Looks {
        digits: i32::from(options.extra_float_digits),
        intervals: Style::named(&options.interval_style),
        escaped_bytes: options.bytea_output.eq_ignore_ascii_case("escape"),
    }
}

fn description(fields: &[FieldInfo]) -> Result<Bytes, Failure> {
    let fields: Vec<FieldDescription> = fields.iter().map(FieldDescription::from).collect();
    let mut message = BytesMut::new();
    let description = PgWireBackendMessage::RowDescription(RowDescription::new(fields));
    description.encode(&mut message).map_err(|error| Failure::protocol(error.to_string()))?;
    Ok(message.freeze())
}

impl WriteRows for RowWriter {
    fn write(&mut self, batch: &RecordBatch, out: &mut BytesMut) -> Result<(), Failure> {
        let layout = &self.layout;
        let arrays = layout.render(batch)?;
        let cells = arrays.iter().zip(&layout.formats).map(|(array, format)| Cells::of(array, *format));
        let cells = cells.collect::<Option<Vec<Cells>>>();
        let cells = cells.ok_or_else(|| unwritable("a column has a type that is not known"))?;
        let columns = i16::try_from(cells.len()).map_err(|_| Failure::error("54011", TOO_MANY_COLUMNS))?;
        for row in 0..batch.num_rows() {
            let start = out.len();
            let [high, low] = columns.to_be_bytes();
            // The length is filled in when it is known.
            out.extend_from_slice(&[b'D', 0, 0, 0, 0, high, low]);
            cells.iter().for_each(|cell| cell.write(row, out));
            // The length counts all but the first byte, the message type.
            let Ok(length) = i32::try_from(out.len() - start - 1) else {
                out.truncate(start);
                return Err(Failure::error("54000", TOO_LONG).hint("ask for fewer or shorter columns"));
            };
            if let Some(place) = out.get_mut(start + 1..start + 5) {
                place.copy_from_slice(&length.to_be_bytes());
            }
        }
        Ok(())
    }
}

fn info(column: &Column, format: FieldFormat) -> FieldInfo {
    let (table, number) = column.place.unzip();
    FieldInfo::new(column.name.clone(), table, number, column.pg_type.clone(), format)
        .with_type_size(column.type_size())
        .with_type_modifier(column.modifier)
}

fn spread(codes: &[i16], columns: usize) -> Result<Vec<FieldFormat>, Failure> {
    let format = |code: &i16| match code {
        &TEXT => Ok(FieldFormat::Text),
        &BINARY => Ok(FieldFormat::Binary),
        other => Err(Failure::error(
            sqlstate::INVALID_PARAMETER_VALUE,
            format!("unsupported format code `{other}`"),
        )),
    };
    match codes {
        [] => Ok(vec![FieldFormat::Text; columns]),
        [code] => Ok(vec![format(code)?; columns]),
        codes if codes.len() == columns => codes.iter().map(format).collect(),
        codes => {
            let message =
                format!("bind message has {} result formats but query has {columns} columns", codes.len());
            Err(Failure::error(sqlstate::PROTOCOL_VIOLATION, message))
        }
    }
}

fn unwritable(error: &str) -> Failure {
    Failure::error("22000", format!("value has no PostgreSQL form: {error}")).hint("cast the column to text")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
    use arrow::array::{
        Decimal128Array, Int16Array, Int32Array, Int64Array, IntervalYearMonthArray, LargeStringArray,
        StringArray, StringViewArray,
    };
    use arrow::datatypes::DataType;
    use bytes::Buf;

    use super::*;

    fn rows(arrays: Vec<ArrayRef>, formats: &[i16]) -> Vec<Vec<Option<Vec<u8>>>> {
        let names: Vec<String> = (0..arrays.len()).map(|i| format!("c{i}")).collect();
        let batch = RecordBatch::try_from_iter_with_nullable(
            names.into_iter().zip(arrays).map(|(n, a)| (n, a, true)),
        )
        .unwrap();
        let mut writer = RowWriter::new(&batch.schema(), formats, &Arc::default()).unwrap();
        let mut out = BytesMut::new();
        writer.write(&batch, &mut out).unwrap();
        let mut rows = Vec::new();
        while out.has_remaining() {
            assert_eq!(out.get_u8(), b'D');
            out.advance(4);
            let values = (0..out.get_u16()).map(|_| {
                let length = out.get_i32();
                (length >= 0).then(|| out.split_to(length as usize).to_vec())
            });
            rows.push(values.collect());
        }
        rows
    }

    #[test]
    fn text_and_binary_side_by_side() {
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from(vec![Some(7), None])),
            Arc::new(StringViewArray::from(vec![Some("a"), None])),
            Arc::new(Decimal128Array::from(vec![Some(150), None]).with_precision_and_scale(38, 2).unwrap()),
        ];
        let text = rows(arrays.clone(), &[]);
        assert_eq!(text[0], [Some(b"7".to_vec()), Some(b"a".to_vec()), Some(b"1.50".to_vec())]);
        assert_eq!(text[1], [None, None, None]);
        let binary = rows(arrays, &[1]);
        let numeric = vec![0, 2, 0, 0, 0, 0, 0, 2, 0, 1, 0x13, 0x88];
        assert_eq!(binary[0], [Some(vec![0, 0, 0, 7]), Some(b"a".to_vec()), Some(numeric)]);
    }

    #[test]
    fn whole_numbers_and_texts_of_every_width() {
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(Int16Array::from(vec![Some(i16::MIN), None])),
            Arc::new(Int32Array::from(vec![Some(i32::MIN), None])),
            Arc::new(Int64Array::from(vec![Some(i64::MIN), None])),
            Arc::new(StringArray::from(vec![Some(""), None])),
            Arc::new(LargeStringArray::from(vec![Some("größer"), None])),
            Arc::new(StringViewArray::from(vec![Some(""), None])),
            Arc::new(StringViewArray::from(vec![Some("zwölf Bytes"), None])),
            Arc::new(StringViewArray::from(vec![Some("dreizehn Byte"), None])),
        ];
        let text = rows(arrays.clone(), &[]);
        let values = [
            "-32768",
            "-2147483648",
            "-9223372036854775808",
            "",
            "größer",
            "",
            "zwölf Bytes",
            "dreizehn Byte",
        ];
        assert_eq!(text[0], values.map(|value| Some(value.as_bytes().to_vec())));
        assert_eq!(text[1], values.map(|_| None));
        let binary = rows(arrays, &[1]);
        let expected = [2, 4, 8].map(|width| {
            let mut bytes = vec![0; width];
            bytes[0] = 0x80;
            Some(bytes)
        });
        assert_eq!(binary[0][..3], expected);
        assert_eq!(binary[0][3..], text[0][3..]);
        assert_eq!(binary[1], text[1]);
    }

    #[test]
    fn null_intervals_and_untyped_nulls_stay_null() {
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(IntervalYearMonthArray::from(vec![None, Some(14)])),
            arrow::array::new_null_array(&DataType::Null, 2),
        ];
        let text = rows(arrays, &[0]);
        assert_eq!(text[0], [None, None]);
        assert_eq!(text[1], [Some(b"1 year 2 mons".to_vec()), None]);
    }

    #[test]
    fn formats_must_fit_the_columns() {
        assert!(spread(&[0, 1], 3).is_err());
        assert!(spread(&[2], 3).is_err());
        assert_eq!(spread(&[1], 2).unwrap(), [FieldFormat::Binary; 2]);
    }
}
