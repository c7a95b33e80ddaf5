//! Rows as the bytes of a file.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::json::LineDelimitedWriter;
use datafusion::error::DataFusionError;
use nyala_sql::error::{ErrorKind, QueryError, Result};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::csv_lines::CsvLines;
use super::options::{compression_in_name, format_in_name, is_tab_separated, is_true};

/// How a file is written.
#[derive(Debug, Clone)]
pub struct FileStyle {
    /// The format.
    pub format: Format,
    header: bool,
    lines: CsvLines,
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
        if let Some((ending, _)) = compression_in_name(target) {
            return Err(compressed(target, ending));
        }
        let delimiter = if is_tab_separated(target) { b'\t' } else { b',' };
        let lines = CsvLines { delimiter, quote: b'"', null: String::new() };
        let compression = Compression::ZSTD(ZstdLevel::default());
        let mut style = Self { format, header: true, lines, compression, group_rows: 1 << 20 };
        options.iter().try_for_each(|(name, value)| style.set(name, value))?;
        style.lines.check()?;
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
            ("delimiter" | "delim" | "sep", Format::Csv) => self.lines.delimiter = sign()?,
            ("quote", Format::Csv) => self.lines.quote = sign()?,
            ("null" | "nullstr", Format::Csv) => value.clone_into(&mut self.lines.null),
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
                Encoder::Csv { lines: self.lines.clone(), first: self.header, schema: Arc::clone(schema) }
            }
            Format::Json => Encoder::Json,
        })
    }
}

fn compressed(target: &str, ending: &str) -> QueryError {
    let message = format!("`{target}` ends with `{ending}`, but what is written is not compressed like that");
    QueryError::new(ErrorKind::Unsupported, message)
        .hint("leave the ending out, or write Parquet, which is compressed within")
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
    Csv { lines: CsvLines, first: bool, schema: SchemaRef },
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
            Self::Csv { lines, first, schema } => {
                let mut out = Vec::new();
                if std::mem::take(first) {
                    lines.names(schema, &mut out);
                }
                lines.rows(batch, &mut out)?;
                Ok(out)
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
            Self::Csv { lines, first: true, schema } => {
                let mut out = Vec::new();
                lines.names(&schema, &mut out);
                Ok(out)
            }
            Self::Csv { .. } | Self::Json => Ok(Vec::new()),
        }
    }
}
