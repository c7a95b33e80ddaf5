//! Arrow IPC stream: the batches as they are, column types included.

use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use arrow::record_batch::RecordBatch;

use super::{Encode, Summary};

pub struct ArrowStream {
    /// Writes to a buffer that is emptied after every message, the schema message at first.
    writer: StreamWriter<Vec<u8>>,
}

impl ArrowStream {
    pub(super) fn try_new(schema: SchemaRef) -> Result<Self, ArrowError> {
        Ok(Self { writer: StreamWriter::try_new(Vec::new(), &schema)? })
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        out.append(self.writer.get_mut());
    }
}

impl Encode for ArrowStream {
    fn head(&mut self, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        self.flush(out);
        Ok(())
    }

    fn rows(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        self.writer.write(batch)?;
        self.flush(out);
        Ok(())
    }

    fn tail(&mut self, _summary: &Summary, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        self.writer.finish()?;
        self.flush(out);
        Ok(())
    }
}
