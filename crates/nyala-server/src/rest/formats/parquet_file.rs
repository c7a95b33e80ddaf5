//! A Parquet file, row group by row group: its footer goes last, so that a body that broke off is no file.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::{Encode, Summary};

/// A row group ends when its columns take about this much memory, which a request may hold for as long as it runs.
const GROUP_BYTES: usize = 16 << 20;

pub struct ParquetFile {
    /// None once the file is complete.
    writer: Option<ArrowWriter<Written>>,
    written: Written,
}

/// Bytes of the file that have not been sent yet.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    fn take(&self, out: &mut Vec<u8>) {
        out.append(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl ParquetFile {
    pub fn try_new(schema: SchemaRef) -> Result<Self, ArrowError> {
        let written = Written::default();
        let properties =
            WriterProperties::builder().set_compression(Compression::ZSTD(Default::default())).build();
        let writer = ArrowWriter::try_new(written.clone(), schema, Some(properties)).map_err(to_arrow)?;
        Ok(Self { writer: Some(writer), written })
    }
}

impl Encode for ParquetFile {
    fn head(&mut self, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        self.written.take(out);
        Ok(())
    }

    fn rows(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        if let Some(writer) = &mut self.writer {
            writer.write(batch).map_err(to_arrow)?;
            if writer.in_progress_size() >= GROUP_BYTES {
                writer.flush().map_err(to_arrow)?;
            }
        }
        self.written.take(out);
        Ok(())
    }

    fn tail(&mut self, _summary: &Summary, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        if let Some(writer) = self.writer.take() {
            writer.close().map_err(to_arrow)?;
        }
        self.written.take(out);
        Ok(())
    }
}

fn to_arrow(error: ParquetError) -> ArrowError {
    ArrowError::ParquetError(error.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use bytes::Bytes;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let column = |rows: std::ops::Range<i64>| -> RecordBatch {
            let texts = StringArray::from_iter_values(rows.clone().map(|n| format!("row {n}")));
            let numbers = Int64Array::from_iter_values(rows);
            RecordBatch::try_from_iter([
                ("n", Arc::new(numbers) as ArrayRef),
                ("t", Arc::new(texts) as ArrayRef),
            ])
            .unwrap()
        };
        let batches = [column(0..5), column(5..2000)];
        let mut file = ParquetFile::try_new(batches[0].schema()).unwrap();
        let mut out = Vec::new();
        file.head(&mut out).unwrap();
        for batch in &batches {
            file.rows(batch, &mut out).unwrap();
        }
        file.tail(&Summary::default(), &mut out).unwrap();
        let read = ParquetRecordBatchReader::try_new(Bytes::from(out), 4096).unwrap();
        let read: Vec<RecordBatch> = read.map(Result::unwrap).collect();
        assert_eq!(read, [column(0..2000)]);
    }
}
