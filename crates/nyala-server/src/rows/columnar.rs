//! Formats that have columns already: Arrow streams and Parquet files.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::Schema;
use arrow::ipc::reader::StreamDecoder;
use axum::body::Bytes;
use nyala_engine::{ErrorKind, QueryError};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::load::{Decode, Target};
use super::rejects::Rejects;

/// An Arrow IPC stream.
#[derive(Default)]
pub(super) struct ArrowStream {
    decoder: StreamDecoder,
}

impl Decode for ArrowStream {
    fn decode(
        &mut self,
        bytes: &[u8],
        target: &mut Target,
        _rejects: &mut Rejects,
    ) -> Result<Vec<RecordBatch>, QueryError> {
        let (mut buffer, mut batches) = (Buffer::from(bytes.to_vec()), Vec::new());
        while !buffer.is_empty() {
            if let Some(batch) = self.decoder.decode(&mut buffer).map_err(malformed)? {
                batches.push(conform(&batch, target)?);
            }
        }
        Ok(batches)
    }

    fn finish(
        &mut self,
        _target: &mut Target,
        _rejects: &mut Rejects,
    ) -> Result<Vec<RecordBatch>, QueryError> {
        self.decoder.finish().map_err(malformed)?;
        Ok(Vec::new())
    }
}

/// A Parquet file. Its directory is at its end, so that all of it must be there first.
pub(super) struct ParquetFile {
    bytes: Vec<u8>,
    limit_bytes: usize,
}

impl ParquetFile {
    pub(super) fn new(limit_bytes: usize) -> Self {
        Self { bytes: Vec::new(), limit_bytes }
    }
}

impl Decode for ParquetFile {
    fn decode(
        &mut self,
        bytes: &[u8],
        _target: &mut Target,
        _rejects: &mut Rejects,
    ) -> Result<Vec<RecordBatch>, QueryError> {
        if self.bytes.len() + bytes.len() > self.limit_bytes {
            let message = format!("a Parquet file of more than {} bytes", self.limit_bytes);
            return Err(QueryError::new(ErrorKind::LimitExceeded, message)
                .hint("send an Arrow stream, or load the file with COPY … FROM; the limit is `server.max_body_bytes`"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(Vec::new())
    }

    fn finish(
        &mut self,
        target: &mut Target,
        _rejects: &mut Rejects,
    ) -> Result<Vec<RecordBatch>, QueryError> {
        let bytes = Bytes::from(std::mem::take(&mut self.bytes));
        let unreadable = |error: &dyn std::fmt::Display| {
            QueryError::new(ErrorKind::Data, format!("the body is not a readable Parquet file: {error}"))
        };
        let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).map_err(|error| unreadable(&error))?;
        let reader = reader.build().map_err(|error| unreadable(&error))?;
        reader.map(|batch| conform(&batch.map_err(|error| unreadable(&error))?, target)).collect()
    }
}

fn malformed(error: arrow::error::ArrowError) -> QueryError {
    QueryError::new(ErrorKind::Data, format!("the body is not a readable Arrow stream: {error}"))
}

/// The columns by their names, as the table has them.
fn conform(batch: &RecordBatch, target: &mut Target) -> Result<RecordBatch, QueryError> {
    let names: Vec<String> = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
    let schema = target.columns(&names)?;
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let columns = schema.fields().iter().zip(batch.columns()).map(|(field, column)| {
        cast_with_options(column, field.data_type(), &options)
            .map_err(|error| QueryError::new(ErrorKind::Data, format!("column `{}`: {error}", field.name())))
    });
    let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    Ok(RecordBatch::try_new(schema, columns.collect::<Result<_, _>>()?)?)
}
