//! Rows as the bytes of a file.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::csv::{Writer as CsvWriter, WriterBuilder};
use arrow::datatypes::SchemaRef;
use arrow::json::LineDelimitedWriter;
use datafusion::error::DataFusionError;
use nyala_sql::error::{ErrorKind, QueryError, Result};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::options::{format_in_name, is_true};

/// How a file is written.
#[derive(Debug, Clone)]
pub struct FileStyle {
    /// The format.
    pub format: Format,
    header: bool,
    delimiter: u8,
    quote: u8,
    null: String,
    compression: Compression,
    group_rows: usize,
}

/// A format of files that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Parquet,
    Csv,
    Json,
}

impl FileStyle {
    /// From the options of a COPY, or the name of the file.
    pub fn new(target: &str, options: &[(String, String)]) -> Result<Self> {
        let given = options.iter().rev().find(|(name, _)| name == "format").map(|(_, value)| value.as_str());
        let name = given.or_else(|| format_in_name(target)).unwrap_or_default();
        let format = match name.to_ascii_uppercase().as_str() {
            "PARQUET" => Format::Parquet,
            "CSV" => Format::Csv,
            "JSON" | "NDJSON" | "JSONL" => Format::Json,
            _ => return Err(unknown_format(target, name)),
        };
        let delimiter = if target.ends_with(".tsv") { b'\t' } else { b',' };
        let compression = Compression::ZSTD(ZstdLevel::default());
        let (null, group_rows) = (String::new(), 1 << 20);
        let mut style = Self { format, header: true, delimiter, quote: b'"', null, compression, group_rows };
        options.iter().try_for_each(|(name, value)| style.set(name, value))?;
        Ok(style)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let sign = || match value.as_bytes() {
            [sign] => Ok(*sign),
            _ => Err(invalid(name, value, "it is one character")),
        };
        match (name, self.format) {
            ("format", _) => {}
            ("header", Format::Csv) => self.header = is_true(name, value)?,
            ("delimiter" | "delim" | "sep", Format::Csv) => self.delimiter = sign()?,
            ("quote", Format::Csv) => self.quote = sign()?,
            ("null" | "nullstr", Format::Csv) => value.clone_into(&mut self.null),
            ("compression", Format::Parquet) => self.compression = compression_named(name, value)?,
            ("row_group_size", Format::Parquet) => {
                let rows = value.parse().ok().filter(|rows| (1..=100 << 20).contains(rows));
                self.group_rows = rows.ok_or_else(|| invalid(name, value, "it is a number of rows"))?;
            }
            _ => {
                let message = format!("COPY option `{name}` is not supported for this format");
                let known = match self.format {
                    Format::Parquet => "FORMAT, COMPRESSION and ROW_GROUP_SIZE",
                    Format::Csv => "FORMAT, HEADER, DELIMITER, QUOTE and NULL",
                    Format::Json => "FORMAT",
                };
                return Err(
                    QueryError::new(ErrorKind::Unsupported, message).hint(format!("there are {known}"))
                );
            }
        }
        Ok(())
    }

    /// Begins a file.
    pub fn begin(&self, schema: &SchemaRef) -> Result<Encoder> {
        Ok(match self.format {
            Format::Parquet => {
                let properties = WriterProperties::builder()
                    .set_compression(self.compression)
                    .set_max_row_group_row_count(Some(self.group_rows));
                let writer = ArrowWriter::try_new(Vec::new(), Arc::clone(schema), Some(properties.build()));
                Encoder::Parquet(Box::new(writer.map_err(DataFusionError::from)?))
            }
            Format::Csv => {
                Encoder::Csv { style: self.clone(), first: self.header, schema: Arc::clone(schema) }
            }
            Format::Json => Encoder::Json,
        })
    }

    fn csv(&self, header: bool) -> CsvWriter<Vec<u8>> {
        WriterBuilder::new()
            .with_header(header)
            .with_delimiter(self.delimiter)
            .with_quote(self.quote)
            .with_null(self.null.clone())
            .build(Vec::new())
    }
}

fn unknown_format(target: &str, name: &str) -> QueryError {
    let message = match name {
        "" => format!("the name of `{target}` does not tell the format of the file"),
        name => format!("format `{name}` is not supported"),
    };
    QueryError::new(ErrorKind::InvalidDefinition, message)
        .hint("add (FORMAT parquet), (FORMAT csv) or (FORMAT json)")
}

fn invalid(name: &str, value: &str, rule: &str) -> QueryError {
    QueryError::new(ErrorKind::InvalidParameter, format!("COPY option `{name}` cannot be `{value}`: {rule}"))
}

fn compression_named(name: &str, value: &str) -> Result<Compression> {
    Ok(match value.to_ascii_lowercase().as_str() {
        "zstd" => Compression::ZSTD(ZstdLevel::default()),
        "snappy" => Compression::SNAPPY,
        "lz4" | "lz4_raw" => Compression::LZ4_RAW,
        "none" | "uncompressed" => Compression::UNCOMPRESSED,
        _ => return Err(invalid(name, value, "there are zstd, snappy, lz4 and none")),
    })
}

/// Turns rows into bytes.
pub enum Encoder {
    Parquet(Box<ArrowWriter<Vec<u8>>>),
    Csv { style: FileStyle, first: bool, schema: SchemaRef },
    Json,
}

impl Encoder {
    /// Bytes that are ready after these rows.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<Vec<u8>> {
        match self {
            Self::Parquet(writer) => {
                writer.write(batch).map_err(DataFusionError::from)?;
                Ok(std::mem::take(writer.inner_mut()))
            }
            Self::Csv { style, first, .. } => {
                let mut writer = style.csv(std::mem::take(first));
                writer.write(batch)?;
                Ok(writer.into_inner())
            }
            Self::Json => {
                let mut writer = LineDelimitedWriter::new(Vec::new());
                writer.write(batch)?;
                writer.finish()?;
                Ok(writer.into_inner())
            }
        }
    }

    /// The last bytes.
    pub fn finish(self) -> Result<Vec<u8>> {
        match self {
            Self::Parquet(writer) => Ok(writer.into_inner().map_err(DataFusionError::from)?),
            // A file without rows has its names, too.
            Self::Csv { style, first: true, schema } => {
                let mut writer = style.csv(true);
                writer.write(&RecordBatch::new_empty(schema))?;
                Ok(writer.into_inner())
            }
            Self::Csv { .. } | Self::Json => Ok(Vec::new()),
        }
    }
}
