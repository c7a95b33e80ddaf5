//! CSV files as a source of rows.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::csv::reader::Decoder as ArrowDecoder;
use arrow::error::ArrowError;
use datafusion::common::config::CsvOptions;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileOpenFuture, FileOpener};
use datafusion::error::Result;
use datafusion_datasource::decoder::{Decoder, DecoderDeserializer, deserialize_stream};
use futures::{FutureExt, StreamExt};

use super::bytes::{ByteStream, is_first, of_file, part, whole};
use super::csv_columns::Places;
use super::csv_head::{HeadOfCsv, has_header};
use super::text_source::{TextFormat, Wanted};
use crate::scan::file_reads::ReadMetrics;

/// CSV with these options.
#[derive(Debug, Clone)]
pub struct Csv(pub CsvOptions);

impl TextFormat for Csv {
    const NAME: &'static str = "csv";

    fn opener(&self, wanted: Wanted) -> Arc<dyn FileOpener> {
        Arc::new(Opener { options: self.0.clone(), wanted })
    }

    fn fmt_extra(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ", has_header={}", has_header(&self.0))
    }

    /// Whether every line break ends a record, so that files can be cut at line breaks.
    fn is_cut_at_lines(&self) -> bool {
        self.0.newlines_in_values == Some(false) && self.0.terminator.is_none()
    }
}

#[derive(Debug, Clone)]
struct Opener {
    options: CsvOptions,
    wanted: Wanted,
}

impl FileOpener for Opener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let opener = self.clone();
        Ok(async move {
            let path = file.object_meta.location.clone();
            let opened = opener.begin(&file).await;
            let (places, bytes, reads) = opened.map_err(|error| of_file(&path, error))?;
            let header = has_header(&opener.options) && is_first(&file);
            let decoder = Rows(places.decoder(&opener.options, header, opener.wanted.batch_rows));
            let rows = deserialize_stream(bytes.fuse(), DecoderDeserializer::new(decoder));
            let complete = move |batch: std::result::Result<RecordBatch, ArrowError>| {
                let _until_the_end = &reads;
                let batch = batch.map_err(|error| of_file(&path, error))?;
                places.complete(&batch).map_err(|error| of_file(&path, error))
            };
            Ok(rows.map(complete).boxed())
        }
        .boxed())
    }
}

impl Opener {
    /// Reads the first line, and gives the bytes of the part.
    async fn begin(&self, file: &PartitionedFile) -> Result<(Places, ByteStream, Option<ReadMetrics>)> {
        let Wanted { compression, table, columns, .. } = &self.wanted;
        let (store, reads) = self.wanted.store_of(file);
        let all = whole(&store, &file.object_meta.location, *compression).await?;
        let (head, all) = HeadOfCsv::read(all, &self.options, 0).await?;
        let names = head.names(&self.options)?;
        let places = match has_header(&self.options) {
            true => Places::by_name(&names, table, Arc::clone(columns))?,
            false => Places::by_position(names.len(), table, Arc::clone(columns)),
        };
        let bytes = if file.range.is_none() { all } else { part(&store, file, *compression).await? };
        Ok((places, bytes, reads))
    }
}

#[derive(Debug)]
struct Rows(ArrowDecoder);

impl Decoder for Rows {
    fn decode(&mut self, bytes: &[u8]) -> std::result::Result<usize, ArrowError> {
        self.0.decode(bytes)
    }

    fn flush(&mut self) -> std::result::Result<Option<RecordBatch>, ArrowError> {
        self.0.flush()
    }

    fn can_flush_early(&self) -> bool {
        self.0.capacity() == 0
    }
}
