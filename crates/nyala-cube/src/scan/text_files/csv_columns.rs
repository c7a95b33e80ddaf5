//! Matches the columns of a CSV file with the columns of the table.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::csv::reader::{Decoder, ReaderBuilder};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::config::CsvOptions;
use datafusion::error::Result;
use nyala_sql::error::{ErrorKind, QueryError};

use crate::scan::merge::twice;

/// Positions of the wanted columns in one file.
#[derive(Debug)]
pub struct Places {
    wanted: SchemaRef,
    /// All columns of the file. Columns that are not wanted are read as texts.
    file: SchemaRef,
    /// Positions in the file, in the order of the wanted columns that it has.
    read: Vec<usize>,
    /// For each wanted column its place among those that are read; none if the file lacks it.
    found: Vec<Option<usize>>,
}

impl Places {
    /// Matches columns by the names in the file. `table` has all columns of the table's files.
    pub fn by_name(names: &[String], table: &Schema, wanted: SchemaRef) -> Result<Self> {
        let is_known = |name: &String| table.fields().iter().any(|field| same(field.name(), name));
        if !names.is_empty() && !names.iter().any(is_known) {
            let (first, known) = (names.join(", "), names_of(table));
            let message = format!("its first line names none of the table's columns ({known}): {first}");
            return Err(QueryError::new(ErrorKind::InvalidDefinition, message)
                .hint("files without names of columns need OPTIONS ('format.has_header' 'false')")
                .into());
        }
        let positions = wanted.fields().iter().map(|field| position_of(field.name(), names));
        Ok(Self::new(positions.collect::<Result<_>>()?, names.len(), wanted))
    }

    /// Matches columns by their positions in the table.
    pub fn by_position(count: usize, table: &Schema, wanted: SchemaRef) -> Self {
        let position = |field: &FieldRef| table.index_of(field.name()).ok().filter(|place| *place < count);
        let positions = wanted.fields().iter().map(position).collect();
        Self::new(positions, count, wanted)
    }

    fn new(positions: Vec<Option<usize>>, count: usize, wanted: SchemaRef) -> Self {
        let unwanted = Arc::new(Field::new("", DataType::Utf8, true));
        let mut fields: Vec<FieldRef> = (0..count).map(|_| Arc::clone(&unwanted)).collect();
        let (mut read, mut found) = (Vec::new(), Vec::new());
        for (position, field) in positions.into_iter().zip(wanted.fields()) {
            found.push(position.map(|_| read.len()));
            if let Some(position) = position
                && let Some(place) = fields.get_mut(position)
            {
                *place = Arc::new(Field::new(field.name(), read_as(field.data_type()), true));
                read.push(position);
            }
        }
        Self { file: Arc::new(Schema::new(fields)), wanted, read, found }
    }

    /// A decoder of the columns that are read.
    pub fn decoder(&self, options: &CsvOptions, header: bool, batch_rows: usize) -> Decoder {
        let mut builder = ReaderBuilder::new(Arc::clone(&self.file))
            .with_delimiter(options.delimiter)
            .with_quote(options.quote)
            .with_header(header)
            .with_batch_size(batch_rows)
            .with_truncated_rows(options.truncated_rows.unwrap_or(false))
            .with_projection(self.read.clone());
        if let Some(escape) = options.escape {
            builder = builder.with_escape(escape);
        }
        if let Some(comment) = options.comment {
            builder = builder.with_comment(comment);
        }
        if let Some(terminator) = options.terminator {
            builder = builder.with_terminator(terminator);
        }
        builder.build_decoder()
    }

    /// The wanted columns of a batch that was read. Columns that the file lacks are null.
    pub fn complete(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let column = |(place, field): (&Option<usize>, &FieldRef)| -> Result<ArrayRef> {
            match place.and_then(|place| batch.columns().get(place)) {
                Some(read) if read.data_type() == field.data_type() => Ok(Arc::clone(read)),
                Some(read) => {
                    let options = CastOptions { safe: false, ..CastOptions::default() };
                    Ok(cast_with_options(read, field.data_type(), &options)?)
                }
                None => Ok(new_null_array(field.data_type(), rows)),
            }
        };
        let columns = self.found.iter().zip(self.wanted.fields()).map(column).collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.wanted), columns, &options)?)
    }
}

/// The type in which the decoder reads a column; other types are cast from text.
fn read_as(data_type: &DataType) -> DataType {
    use DataType::*;
    match data_type {
        Interval(_) | Duration(_) | LargeUtf8 | Float16 => Utf8,
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => Utf8,
        List(_) | LargeList(_) | FixedSizeList(_, _) | Struct(_) | Map(_, _) => Utf8,
        other => other.clone(),
    }
}

/// The position of a name: an exact match, or else one that ignores case, because SQL does.
fn position_of(name: &str, names: &[String]) -> Result<Option<usize>> {
    let find = |is: &dyn Fn(&str) -> bool| -> Result<Option<usize>> {
        let mut found = names.iter().enumerate().filter(|(_, known)| is(known)).map(|(place, _)| place);
        match (found.next(), found.next()) {
            (Some(_), Some(_)) => Err(twice(name).into()),
            (first, _) => Ok(first),
        }
    };
    match find(&|known| known == name)? {
        Some(place) => Ok(Some(place)),
        None => find(&|known| same(known, name)),
    }
}

fn same(one: &str, other: &str) -> bool {
    one.trim().eq_ignore_ascii_case(other)
}

fn names_of(schema: &Schema) -> String {
    schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(", ")
}
