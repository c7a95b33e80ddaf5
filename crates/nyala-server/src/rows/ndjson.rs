//! Newline-delimited JSON: one object a line.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::json::ReaderBuilder;
use nyala_engine::whole_numbers::{as_texts, settled};
use nyala_engine::{ErrorKind, QueryError};

use super::load::{Decode, Target};
use super::ndjson_fault::reject;
use super::rejects::{Reject, Rejects};
use super::uuids;

/// Lines are decoded together, up to blocks of about this size.
const BLOCK_BYTES: usize = 1 << 20;
/// Most rows of a batch, and most values, that the decoder allocates room for.
const MAX_BATCH_ROWS: usize = 8192;
const MAX_ROOM: usize = 1 << 20;
/// Longest line.
const MAX_LINE_BYTES: usize = 64 << 20;

/// Decodes lines as they come.
#[derive(Default)]
pub struct NdJson {
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
        // The bytes from before contain no line break.
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
            match decode_known(block, &schema) {
                Ok(batch) => batches.extend(batch),
                Err(_) => batches.extend(self.line_by_line(block, &schema, rejects)?),
            }
            self.lines += block.iter().filter(|byte| **byte == b'\n').count() as u64;
            left = behind;
        }
        Ok(batches)
    }

    /// Finds the lines that cannot be read.
    fn line_by_line(
        &self,
        block: &[u8],
        schema: &SchemaRef,
        rejects: &mut Rejects,
    ) -> Result<Vec<RecordBatch>, QueryError> {
        let mut batches = Vec::new();
        for (line, at) in block.split(|byte| *byte == b'\n').zip(self.lines + 1..) {
            if line.trim_ascii().is_empty() {
                continue;
            }
            match decode_known(line, schema) {
                Ok(batch) => batches.extend(batch),
                // This row's reason is not shown, so that its fault need not be found.
                Err(_) if !rejects.tells_next() => {
                    rejects.add(Reject { line: at, column: None, reason: String::new() })?;
                }
                Err(error) => rejects.add(reject(at, line, schema, &error, decode_any))?,
            }
        }
        Ok(batches)
    }
}

/// Decodes lines, and refuses names that the table does not have: such a name is a mistake.
fn decode_known(block: &[u8], schema: &SchemaRef) -> Result<Vec<RecordBatch>, ArrowError> {
    decode(block, schema, true)
}

fn decode_any(block: &[u8], schema: &SchemaRef) -> Result<Vec<RecordBatch>, ArrowError> {
    decode(block, schema, false)
}

fn decode(block: &[u8], schema: &SchemaRef, only_known: bool) -> Result<Vec<RecordBatch>, ArrowError> {
    let ends = block.iter().filter(|byte| **byte == b'\n').count();
    let lines = ends + usize::from(!block.ends_with(b"\n"));
    let builder = ReaderBuilder::new(Arc::new(read_as(schema)))
        .with_strict_mode(only_known)
        .with_coerce_primitive(true);
    let mut decoder = builder.with_batch_size(lines.min(batch_rows(schema))).build_decoder()?;
    let (mut left, mut rows, mut batches) = (block, 0, Vec::new());
    while !left.is_empty() {
        let read = decoder.decode(left)?;
        left = left.get(read..).unwrap_or_default();
        let Some(batch) = decoder.flush()? else { break };
        rows += batch.num_rows();
        batches.push(settle(&batch, schema).map_err(|error| ArrowError::ExternalError(error.into()))?);
    }
    match rows > lines || !left.trim_ascii().is_empty() {
        true => Err(ArrowError::JsonError("more than one object on a line".to_owned())),
        false => Ok(batches),
    }
}

/// Casts the columns that were read as texts to the types of the table.
fn settle(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, QueryError> {
    let between = Schema::new(schema.fields().iter().map(uuids::as_text).collect::<Vec<_>>());
    let batch = settled(batch, &Arc::new(between))?;
    let columns = schema.fields().iter().zip(batch.columns()).map(|(field, column)| {
        if uuids::are_texts(field, column) { uuids::of_texts(column) } else { Ok(Arc::clone(column)) }
    });
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = columns.collect::<Result<_, _>>()?;
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// The types that lines are decoded to: integers as texts, because Arrow cuts their fractions, and UUIDs as texts, because Arrow has none.
fn read_as(schema: &SchemaRef) -> Schema {
    let fields = schema.fields().iter().map(|field| as_texts(&uuids::as_text(field)));
    Schema::new(fields.collect::<Vec<_>>())
}

/// Most rows of a batch: the decoder allocates room for as many before it has seen any, even if all lines are empty.
fn batch_rows(schema: &SchemaRef) -> usize {
    (MAX_ROOM / schema.fields().len().max(1)).clamp(1, MAX_BATCH_ROWS)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use arrow::datatypes::{DataType, Field};

    use super::*;
    use crate::MEMORY;

    fn wide(columns: usize) -> SchemaRef {
        let column = |index| Field::new(format!("c{index}"), DataType::Int64, true);
        Arc::new(Schema::new((0..columns).map(column).collect::<Vec<_>>()))
    }

    fn rows(lines: &str, columns: usize) -> Result<Vec<usize>, QueryError> {
        let (mut target, mut rejects) = (Target::made_up(wide(columns)), Rejects::at_most(0, false));
        let batches = NdJson::default().decode(lines.as_bytes(), &mut target, &mut rejects)?;
        Ok(batches.iter().map(RecordBatch::num_rows).collect())
    }

    #[test]
    fn lines_are_no_reason_to_make_room_for_wide_rows() {
        let empty = "\n".repeat(500_000);
        let fuzz = nyala_fuzz::Target { name: "empty lines", memory: &MEMORY };
        fuzz.check(empty.as_bytes(), |_| assert!(rows(&empty, 2000).unwrap().is_empty()));
    }

    #[test]
    fn rows_come_in_batches_and_one_on_each_line() {
        let many = rows(&"{\"c0\": 1}\n".repeat(20_000), 3).unwrap();
        assert!(many.len() > 1 && many.iter().sum::<usize>() == 20_000, "{many:?}");
        assert!(rows("{\"c0\": 1} {\"c0\": 2}\n", 3).is_err());
        assert!(rows(&"{\"c0\": 1}{\"c0\": 2}\n".repeat(9000), 3).is_err());
    }

    #[test]
    fn a_row_that_cannot_be_read_is_told_with_its_line_and_column() {
        let check = |line: &str, expected: &str| {
            let told = rows(&format!("{{\"c0\": 0}}\n{line}\n"), 9).unwrap_err().message;
            assert!(told.starts_with(&format!("line 2{expected}")), "{line}: {told}");
        };
        for column in 0..9 {
            check(&format!("{{\"c{column}\": \"x\"}}"), &format!(", column `c{column}`: `x`"));
        }
        check("{\"c1\": 1, \"c4\": [], \"c7\": {}}", ", column `c4`: expected");
        check("{\"c1\": \"x\", \"d\": 1}", ", column `d`: the table has no such column");
        check("{\"c1\": 1} {\"c1\": 2}", ": more than one object");
        check("nonsense", ": ");
    }
}
