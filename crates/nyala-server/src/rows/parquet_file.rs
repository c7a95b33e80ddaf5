//! A Parquet file that a client sends.

use arrow::array::RecordBatch;
use axum::body::Bytes;
use nyala_engine::{ErrorKind, QueryError};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

use super::conform::conform;
use super::load::{Decode, Target};
use super::parquet_check::checked_metadata;
use super::rejects::Rejects;

/// Most rows that are decoded at a time: a few bytes can stand for any number of rows.
pub const BATCH_ROWS: usize = 1024;

/// A Parquet file. Its footer is at its end, so that all of it must be there first.
pub struct ParquetFile {
    bytes: Vec<u8>,
    limit_bytes: usize,
    /// The reader, once the whole file is there.
    reader: Option<ParquetRecordBatchReader>,
}

impl ParquetFile {
    pub fn new(limit_bytes: usize) -> Self {
        Self { bytes: Vec::new(), limit_bytes, reader: None }
    }

    /// The rows that come next; none at the end.
    fn next_rows(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        let mut reader = match self.reader.take() {
            Some(reader) => reader,
            None => open(Bytes::from(std::mem::take(&mut self.bytes)))?,
        };
        let rows = reader.next().transpose().map_err(unreadable)?;
        self.reader = Some(reader);
        Ok(rows)
    }
}

fn open(bytes: Bytes) -> Result<ParquetRecordBatchReader, QueryError> {
    let metadata = checked_metadata(&bytes)?;
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(bytes, metadata);
    reader.with_batch_size(BATCH_ROWS).build().map_err(unreadable)
}

/// The error for a file that cannot be read.
pub fn unreadable(reason: impl std::fmt::Display) -> QueryError {
    QueryError::new(ErrorKind::Data, format!("the body is not a readable Parquet file: {reason}"))
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array};
    use parquet::arrow::ArrowWriter;

    use super::*;

    #[test]
    fn a_parquet_file_is_decoded_a_few_rows_at_a_time() {
        const ROWS: usize = 100_000;
        let column: ArrayRef = Arc::new(Int64Array::from(vec![7; ROWS]));
        let constants = RecordBatch::try_from_iter([("id", column)]).unwrap();
        let mut writer = ArrowWriter::try_new(Vec::new(), constants.schema(), None).unwrap();
        writer.write(&constants).unwrap();
        let bytes = writer.into_inner().unwrap();
        let mut file = ParquetFile { bytes, ..ParquetFile::new(1 << 20) };
        let mut rows = 0;
        while let Some(batch) = file.next_rows().unwrap() {
            assert!(batch.num_rows() <= BATCH_ROWS, "{} rows at once", batch.num_rows());
            rows += batch.num_rows();
        }
        assert_eq!(rows, ROWS);
    }
}
