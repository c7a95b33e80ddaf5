//! Lines of `|`-separated values become record batches.

use anyhow::{Context as _, bail};
use arrow::array::{
    ArrayRef, Date32Builder, Decimal128Builder, Int32Builder, Int64Builder, RecordBatch, StringBuilder,
};
use arrow::datatypes::{DataType, SchemaRef};
use std::sync::Arc;

use super::parse::{cents, days};
use super::rows::Rows;

/// Rows of a batch.
const BATCH_ROWS: usize = 8_192;

/// Takes the rows of a generator, batch by batch.
pub struct Lines {
    rows: Box<dyn Rows>,
    schema: SchemaRef,
    /// Whether the word `NULL` stands for null, besides the empty value.
    null_word: bool,
    line: String,
}

impl Lines {
    /// Reads `rows` as `schema`. With `null_word` the value `NULL` is null, too.
    pub fn new(rows: Box<dyn Rows>, schema: SchemaRef, null_word: bool) -> Self {
        Self { rows, schema, null_word, line: String::new() }
    }

    /// The next batch; none when the rows are used up.
    fn batch(&mut self) -> anyhow::Result<Option<RecordBatch>> {
        let types = self.schema.fields().iter().map(|field| field.data_type());
        let mut columns = types.map(Column::new).collect::<anyhow::Result<Vec<_>>>()?;
        let mut count = 0;
        while count < BATCH_ROWS && self.next_line()? {
            self.append(&mut columns)?;
            count += 1;
        }
        if count == 0 {
            return Ok(None);
        }
        let arrays = columns.iter_mut().map(Column::finish).collect();
        Ok(Some(RecordBatch::try_new(self.schema.clone(), arrays)?))
    }

    fn next_line(&mut self) -> anyhow::Result<bool> {
        self.line.clear();
        self.rows.write_next(&mut self.line).context("cannot format a row")
    }

    /// Adds the values of the line, each of which ends with a `|`, to the columns.
    fn append(&self, columns: &mut [Column]) -> anyhow::Result<()> {
        let mut values = self.line.strip_suffix('|').unwrap_or(&self.line).split('|');
        for (column, field) in columns.iter_mut().zip(self.schema.fields()) {
            let value = values.next();
            let value =
                value.with_context(|| format!("row `{}` ends before `{}`", self.line, field.name()))?;
            let null = field.is_nullable() && (value.is_empty() || (self.null_word && value == "NULL"));
            column
                .append((!null).then_some(value))
                .with_context(|| format!("`{value}` is no value of `{}`", field.name()))?;
        }
        match values.next() {
            None => Ok(()),
            Some(_) => bail!("row `{}` has more than {} values", self.line, columns.len()),
        }
    }
}

impl Iterator for Lines {
    type Item = anyhow::Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batch().transpose()
    }
}

/// A column of a batch while it grows.
enum Column {
    Int(Int32Builder),
    Long(Int64Builder),
    Decimal(Decimal128Builder),
    Date(Date32Builder),
    Text(StringBuilder),
}

impl Column {
    fn new(data_type: &DataType) -> anyhow::Result<Self> {
        Ok(match data_type {
            DataType::Int32 => Self::Int(Int32Builder::with_capacity(BATCH_ROWS)),
            DataType::Int64 => Self::Long(Int64Builder::with_capacity(BATCH_ROWS)),
            DataType::Date32 => Self::Date(Date32Builder::with_capacity(BATCH_ROWS)),
            DataType::Utf8 => Self::Text(StringBuilder::new()),
            DataType::Decimal128(_, _) => {
                let builder = Decimal128Builder::with_capacity(BATCH_ROWS);
                Self::Decimal(builder.with_data_type(data_type.clone()))
            }
            other => bail!("columns of type `{other}` are not generated"),
        })
    }

    fn append(&mut self, value: Option<&str>) -> anyhow::Result<()> {
        match self {
            Self::Int(builder) => builder.append_option(value.map(str::parse).transpose()?),
            Self::Long(builder) => builder.append_option(value.map(str::parse).transpose()?),
            Self::Decimal(builder) => builder.append_option(value.map(cents).transpose()?),
            Self::Date(builder) => builder.append_option(value.map(days).transpose()?),
            Self::Text(builder) => builder.append_option(value),
        }
        Ok(())
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Int(builder) => Arc::new(builder.finish()),
            Self::Long(builder) => Arc::new(builder.finish()),
            Self::Decimal(builder) => Arc::new(builder.finish()),
            Self::Date(builder) => Arc::new(builder.finish()),
            Self::Text(builder) => Arc::new(builder.finish()),
        }
    }
}
