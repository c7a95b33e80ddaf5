//! Formats that have columns already: Arrow streams and Parquet files.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::Schema;
use arrow::ipc::reader::StreamDecoder;
use axum::body::Bytes;
use nyala_engine::{ErrorKind, QueryError};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

use super::load::{Decode, Target};
use super::rejects::Rejects;

/// A batch of an Arrow stream is held until it is whole; a longer one is refused.
const MAX_BATCH_BYTES: usize = 256 << 20;
/// Rows of a Parquet file are decoded so many at a time: a few bytes of it can stand for any number of rows.
const PARQUET_BATCH_ROWS: usize = 1024;

/// An Arrow IPC stream.
#[derive(Default)]
pub(super) struct ArrowStream {
    decoder: StreamDecoder,
    /// Bytes that came since the last batch was whole.
    waiting_bytes: usize,
}

impl ArrowStream {
    /// The batches that are whole by now, if none is longer than `limit_bytes`.
    fn batches(&mut self, bytes: &[u8], limit_bytes: usize) -> Result<Vec<RecordBatch>, QueryError> {
        let (mut buffer, mut batches) = (Buffer::from(bytes.to_vec()), Vec::new());
        while !buffer.is_empty() {
            let before = buffer.len();
            let batch = self.decoder.decode(&mut buffer).map_err(malformed)?;
            self.waiting_bytes += before - buffer.len();
            if self.waiting_bytes > limit_bytes {
                let message = format!("a batch of the Arrow stream has more than {} MiB", limit_bytes >> 20);
                return Err(
                    QueryError::new(ErrorKind::LimitExceeded, message).hint("send batches of fewer rows")
                );
            }
            if let Some(batch) = batch {
                self.waiting_bytes = 0;
                batches.push(batch);
            }
        }
        Ok(batches)
    }
}

impl Decode for ArrowStream {
    fn decode(
        &mut self,
        bytes: &[u8],
        target: &mut Target,
        _rejects: &mut Rejects,
    ) -> Result<Vec<RecordBatch>, QueryError> {
        self.batches(bytes, MAX_BATCH_BYTES)?.iter().map(|batch| conform(batch, target)).collect()
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
    /// Once all of it is there.
    reader: Option<ParquetRecordBatchReader>,
}

impl ParquetFile {
    pub(super) fn new(limit_bytes: usize) -> Self {
        Self { bytes: Vec::new(), limit_bytes, reader: None }
    }

    /// The rows that come next; none at the end.
    fn next_rows(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        let unreadable = |error: &dyn std::fmt::Display| {
            QueryError::new(ErrorKind::Data, format!("the body is not a readable Parquet file: {error}"))
        };
        let mut reader = match self.reader.take() {
            Some(reader) => reader,
            None => {
                let bytes = Bytes::from(std::mem::take(&mut self.bytes));
                let reader =
                    ParquetRecordBatchReaderBuilder::try_new(bytes).map_err(|error| unreadable(&error))?;
                let reader = reader.with_batch_size(PARQUET_BATCH_ROWS).build();
                reader.map_err(|error| unreadable(&error))?
            }
        };
        let rows = reader.next().transpose().map_err(|error| unreadable(&error))?;
        self.reader = Some(reader);
        Ok(rows)
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
        let rows = self.next_rows()?;
        rows.iter().map(|rows| conform(rows, target)).collect()
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array};
    use arrow::ipc::writer::StreamWriter;
    use parquet::arrow::ArrowWriter;

    use super::*;

    fn constants(rows: usize) -> RecordBatch {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![7; rows]));
        RecordBatch::try_from_iter([("id", column)]).unwrap()
    }

    #[test]
    fn a_parquet_file_is_decoded_a_few_rows_at_a_time() {
        const ROWS: usize = 100_000;
        let mut writer = ArrowWriter::try_new(Vec::new(), constants(0).schema(), None).unwrap();
        writer.write(&constants(ROWS)).unwrap();
        let bytes = writer.into_inner().unwrap();
        let mut file = ParquetFile { bytes, ..ParquetFile::new(1 << 20) };
        let mut rows = 0;
        while let Some(batch) = file.next_rows().unwrap() {
            assert!(batch.num_rows() <= PARQUET_BATCH_ROWS, "{} rows at once", batch.num_rows());
            rows += batch.num_rows();
        }
        assert_eq!(rows, ROWS);
    }

    #[test]
    fn an_arrow_stream_waits_for_so_much_of_a_batch_only() {
        let mut writer = StreamWriter::try_new(Vec::new(), &constants(0).schema()).unwrap();
        (0..100).for_each(|_| writer.write(&constants(1000)).unwrap());
        let many = writer.into_inner().unwrap();
        let mut writer = StreamWriter::try_new(Vec::new(), &constants(0).schema()).unwrap();
        writer.write(&constants(100_000)).unwrap();
        let large = writer.into_inner().unwrap();
        let decoded = |bytes: &[u8], limit_bytes: usize| -> Result<usize, QueryError> {
            let (mut stream, mut rows) = (ArrowStream::default(), 0);
            for piece in bytes.chunks(3000) {
                let batches = stream.batches(piece, limit_bytes)?;
                rows += batches.iter().map(RecordBatch::num_rows).sum::<usize>();
            }
            Ok(rows)
        };
        assert_eq!(decoded(&many, 20_000).unwrap(), 100_000, "each batch counts for itself");
        assert_eq!(decoded(&large, 1 << 20).unwrap(), 100_000);
        assert_eq!(decoded(&large, 20_000).unwrap_err().kind, ErrorKind::LimitExceeded);
    }
}
