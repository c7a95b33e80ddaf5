//! The formats by name and media type, and the trait of their writers.

use std::fmt;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

use super::{arrow_stream, csv, json, ndjson, parquet_file};

/// How a result is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One document with `columns`, `rows`, `row_count` and `elapsed_ms`.
    Json,
    /// One object per row and line.
    NdJson,
    /// A header line and one line per row.
    Csv,
    /// Arrow IPC stream.
    Arrow,
    /// A Parquet file.
    Parquet,
}

/// Facts that are known once the last row is written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Rows written.
    pub rows: u64,
    /// Time since the request was read.
    pub elapsed: Duration,
    /// For statements that give no rows: the completed command, `CREATE CUBE` for instance.
    pub tag: Option<String>,
    /// Whether there are more rows than were asked for, if a bound was asked for.
    pub more: Option<bool>,
    /// How the answer was made, if that was asked for.
    pub route: Option<serde_json::Value>,
}

/// Writes one result: [`head`](Encode::head) once, [`rows`](Encode::rows) for each batch, then
/// [`tail`](Encode::tail) once. After an error the output so far must not be passed off as whole.
pub trait Encode: Send {
    /// Appends the beginning of the body, before the first row.
    fn head(&mut self, out: &mut Vec<u8>) -> Result<(), ArrowError>;
    /// Appends the rows of a batch.
    fn rows(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError>;
    /// Appends the end of the body, after the last row.
    fn tail(&mut self, summary: &Summary, out: &mut Vec<u8>) -> Result<(), ArrowError>;
}

impl fmt::Debug for dyn Encode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Encode")
    }
}

impl Format {
    /// Every format, the preferred one first.
    pub const ALL: [Format; 5] = [Format::Json, Format::NdJson, Format::Csv, Format::Arrow, Format::Parquet];

    /// The format of this name.
    pub fn named(name: &str) -> Option<Format> {
        Some(match name {
            "json" => Format::Json,
            "ndjson" => Format::NdJson,
            "csv" => Format::Csv,
            "arrow" => Format::Arrow,
            "parquet" => Format::Parquet,
            _ => return None,
        })
    }

    /// Value of the `Content-Type` header.
    pub fn media_type(self) -> &'static str {
        match self {
            Format::Json => "application/json",
            Format::NdJson => "application/x-ndjson",
            Format::Csv => "text/csv; charset=utf-8; header=present",
            Format::Arrow => "application/vnd.apache.arrow.stream",
            Format::Parquet => "application/vnd.apache.parquet",
        }
    }

    /// A writer for results of `schema`. A type the format cannot hold is an error here, before the
    /// first byte, and not in the middle of a body.
    pub fn encoder(self, schema: SchemaRef) -> Result<Box<dyn Encode>, ArrowError> {
        Ok(match self {
            Format::Json => Box::new(json::Json::try_new(schema)?),
            Format::NdJson => Box::new(ndjson::NdJson::try_new(schema)?),
            Format::Csv => Box::new(csv::Csv::try_new(schema)?),
            Format::Arrow => Box::new(arrow_stream::ArrowStream::try_new(schema)?),
            Format::Parquet => Box::new(parquet_file::ParquetFile::try_new(schema)?),
        })
    }

    /// Rows to encode at one go, so that other requests get their turn on the thread in between.
    pub fn rows_per_chunk(self) -> usize {
        match self {
            Format::Json | Format::NdJson | Format::Csv => 1024,
            // Nothing is converted, and every message carries a header of its own.
            Format::Arrow => usize::MAX,
            Format::Parquet => 8192,
        }
    }

    /// The format an `Accept` header asks for: the acceptable one of highest quality, earlier ones
    /// winning ties. None if nothing acceptable can be written; no header means JSON.
    pub fn negotiate(accept: Option<&str>) -> Option<Format> {
        let Some(accept) = accept.filter(|accept| !accept.trim().is_empty()) else {
            return Some(Format::Json);
        };
        let mut best: Option<(u16, Format)> = None;
        for range in accept.split(',') {
            let (range, quality) = quality(range);
            let Some(format) = Format::ALL.into_iter().find(|format| format.matches(&range)) else {
                continue;
            };
            if quality > best.map_or(0, |(best, _)| best) {
                best = Some((quality, format));
            }
        }
        best.map(|(_, format)| format)
    }

    fn matches(self, range: &str) -> bool {
        let media_type = self.media_type();
        let essence = media_type.split(';').next().unwrap_or(media_type);
        let kind = essence.split('/').next().unwrap_or(essence);
        range == "*/*" || range == essence || range.strip_suffix("/*") == Some(kind)
    }
}

/// Splits `text/csv;q=0.5` into the lower-case range and its quality in thousandths.
fn quality(range: &str) -> (String, u16) {
    let mut parts = range.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default().to_ascii_lowercase();
    let weight = parts
        .filter_map(|parameter| parameter.split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("q"))
        .map_or(1.0, |(_, value)| value.trim().parse::<f32>().unwrap_or(0.0));
    // The clamp bounds the product to 0..=1000; NaN becomes 0.
    (essence, (weight.clamp(0.0, 1.0) * 1000.0).round() as u16)
}
