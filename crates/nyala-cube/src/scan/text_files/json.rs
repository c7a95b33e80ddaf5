//! Files with one JSON object a line as a source of rows.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use arrow::json::ReaderBuilder;
use arrow::json::reader::Decoder as ArrowDecoder;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileOpenFuture, FileOpener};
use datafusion::error::Result;
use datafusion_datasource::decoder::{Decoder, DecoderDeserializer, deserialize_stream};
use futures::{FutureExt, StreamExt};

use super::bytes::{of_file, part};
use super::text_source::{TextFormat, Wanted};
use super::whole_numbers::{as_texts, settled};

/// One JSON object a line.
#[derive(Debug, Clone)]
pub struct Json;

impl TextFormat for Json {
    const NAME: &'static str = "json";

    fn opener(&self, wanted: Wanted) -> Arc<dyn FileOpener> {
        Arc::new(Opener(wanted))
    }
}

#[derive(Debug)]
struct Opener(Wanted);

impl FileOpener for Opener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let wanted = self.0.clone();
        Ok(async move {
            let path = file.object_meta.location.clone();
            let (store, reads) = wanted.store_of(&file);
            let bytes = part(&store, &file, wanted.compression).await?;
            // Arrow cuts the fraction of a number in a column of integers, so these are read as texts.
            let fields = wanted.columns.fields().iter().map(as_texts).collect::<Vec<_>>();
            let decoder = ReaderBuilder::new(Arc::new(Schema::new(fields)))
                .with_batch_size(wanted.batch_rows)
                .with_coerce_primitive(true)
                .build_decoder()?;
            let rows = deserialize_stream(bytes.fuse(), DecoderDeserializer::new(Rows(decoder)));
            let complete = move |batch: std::result::Result<RecordBatch, ArrowError>| {
                let _until_the_end = &reads;
                let batch = batch.map_err(|error| of_file(&path, error))?;
                settled(&batch, &wanted.columns).map_err(|error| of_file(&path, error))
            };
            Ok(rows.map(complete).boxed())
        }
        .boxed())
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
        false
    }
}
