//! Newline-delimited JSON: one object a line.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::json::ReaderBuilder;
use nyala_engine::{ErrorKind, QueryError};

use super::load::{Decode, Target};
use super::rejects::{Reject, Rejects, shorten};

/// Lines are decoded together up to about this size.
const BLOCK_BYTES: usize = 1 << 20;
/// A longer line is none.
const MAX_LINE_BYTES: usize = 64 << 20;

/// Decodes lines as they come.
#[derive(Default)]
pub(super) struct NdJson {
    rest: Vec<u8>,
    /// Lines before `rest`.
    lines: u64,
}

impl Decode for NdJson {
    fn decode(
        &mut self,
        bytes: &[u8],
        target: &mut Target,
        rejects: &mut Rejects,
    ) -> Result<Vec<RecordBatch>, QueryError> {
        // What was there before has no end of a line.
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map(|end| self.rest.len() + end);
        self.rest.extend_from_slice(bytes);
        let Some(end) = end else {
            if self.rest.len() > MAX_LINE_BYTES {
                let message = format!("line {}: more than {} MiB", self.lines + 1, MAX_LINE_BYTES >> 20);
                return Err(QueryError::new(ErrorKind::LimitExceeded, message));
            }
            return Ok(Vec::new());
        };
        let behind = self.rest.split_off(end + 1);
        let whole = std::mem::replace(&mut self.rest, behind);
        self.blocks(&whole, target, rejects)
    }

    fn finish(&mut self, target: &mut Target, rejects: &mut Rejects) -> Result<Vec<RecordBatch>, QueryError> {
        let rest = std::mem::take(&mut self.rest);
        self.blocks(&rest, target, rejects)
    }
}

impl NdJson {
    fn blocks(
        &mut self,
        bytes: &[u8],
        target: &mut Target,
        rejects: &mut Rejects,
    ) -> Result<Vec<RecordBatch>, QueryError> {
        let schema = target.columns(&[])?;
        let (mut batches, mut left) = (Vec::new(), bytes);
        while !left.is_empty() {
            let near = left.get(BLOCK_BYTES.min(left.len())..).unwrap_or_default();
            let end = near.iter().position(|byte| *byte == b'\n');
            let end = end.map_or(left.len(), |end| (BLOCK_BYTES.min(left.len()) + end + 1).min(left.len()));
            let (block, behind) = left.split_at(end);
            match decode(block, &schema) {
                Ok(batch) => batches.extend(batch),
                Err(_) => batches.extend(self.line_by_line(block, &schema, rejects)?),
            }
            self.lines += block.iter().filter(|byte| **byte == b'\n').count() as u64;
            left = behind;
        }
        Ok(batches)
    }

    /// Finds the lines that are to blame.
    fn line_by_line(
        &self,
        block: &[u8],
        schema: &SchemaRef,
        rejects: &mut Rejects,
    ) -> Result<Vec<RecordBatch>, QueryError> {
        let mut batches = Vec::new();
        for (line, at) in block.split(|byte| *byte == b'\n').zip(self.lines + 1..) {
            match decode(line, schema) {
                Ok(batch) => batches.extend(batch),
                Err(error) => {
                    rejects.add(Reject { line: at, column: None, reason: shorten(&error.to_string()) })?;
                }
            }
        }
        Ok(batches)
    }
}

fn decode(block: &[u8], schema: &SchemaRef) -> Result<Option<RecordBatch>, arrow::error::ArrowError> {
    // A name that the table does not have is a mistake, not something to pass over.
    let rows = 1 + block.iter().filter(|byte| **byte == b'\n').count();
    let builder = ReaderBuilder::new(schema.clone()).with_strict_mode(true).with_batch_size(rows);
    let mut decoder = builder.build_decoder()?;
    let read = decoder.decode(block)?;
    // Several objects on one line are more rows than lines.
    if !block.get(read..).unwrap_or_default().trim_ascii().is_empty() {
        return Err(arrow::error::ArrowError::JsonError("more than one object on a line".to_owned()));
    }
    decoder.flush()
}
