//! Rows of many frames, applied to their table at once: a start after a crash reads thousands of small statements.

use super::replay::Replayed;
use crate::oplog::codec::{In, read_count};
use crate::oplog::error::{OplogError, Result};
use crate::oplog::log::Frame;
use crate::oplog::table::LoggedRows;
use crate::oplog::unit::Lsns;
use crate::oplog::write::GrowingRows;

/// Limits of a batch. Up to these rows or bytes of log, its keys are still in the processor's cache when it is applied.
const BATCH_ROWS: usize = 1 << 13;
const BATCH_BYTES: usize = 4 << 20;

/// Consecutive statements that only insert or replace rows of one table. Values stay in the log.
#[derive(Debug)]
pub struct Batch {
    table: u32,
    rows: GrowingRows,
    lsns: Lsns,
    /// Log and offset of the first statement with rows.
    log: (u64, u64),
    /// Offset at which the last statement ends.
    to: u64,
    last_lsn: u64,
    bytes: usize,
}

impl Replayed {
    /// Adds a write to the batch; false if it deletes rows or does not fit a batch.
    pub fn add_to_batch(&mut self, log: (u64, u64), frame: &Frame<'_>) -> Result<bool> {
        let Some(number) = schema_of_upsert(frame.payload) else { return Ok(false) };
        let fits = |batch: &Batch| batch.table == frame.table && batch.rows.schema().number == number;
        if !self.batch.as_ref().is_some_and(fits) {
            self.apply_batch()?;
            let Some(batch) = self.new_batch(frame.table, number, log) else { return Ok(false) };
            self.batch = Some(batch);
        }
        let Some(batch) = &mut self.batch else { return Ok(false) };
        let first = batch.rows.len() as u32;
        if first == 0 {
            // The frames before had a label and no rows, so that the rows begin here.
            batch.log = log;
        }
        if batch.rows.append(frame.payload).is_none() {
            batch.rows.undo();
            self.apply_batch()?;
            return Err(OplogError::damaged(&self.file, log.1, "the frame makes no sense"));
        }
        if batch.rows.len() as u32 > first {
            batch.lsns.push(first, frame.lsn);
        }
        (batch.last_lsn, batch.to) = (frame.lsn, log.1 + frame.bytes());
        batch.bytes += frame.payload.len();
        if batch.rows.len() >= BATCH_ROWS || batch.bytes >= BATCH_BYTES {
            self.apply_batch()?;
        }
        Ok(true)
    }

    fn new_batch(&self, table: u32, number: u32, log: (u64, u64)) -> Option<Batch> {
        let schema = self.tables.get(&table)?.meta.versions.get(number as usize)?;
        let rows = GrowingRows::of_keys(schema)?;
        Some(Batch { table, rows, lsns: Lsns::default(), log, to: log.1, last_lsn: 0, bytes: 0 })
    }

    /// Applies the gathered rows.
    pub fn apply_batch(&mut self) -> Result<()> {
        let Some(batch) = self.batch.take() else { return Ok(()) };
        let senseless = || OplogError::damaged(&self.file, batch.log.1, "the frames from here make no sense");
        let (schema, rows) = (batch.rows.schema().clone(), batch.rows.len());
        let range = self.range(batch.log.1, batch.to).ok_or_else(senseless)?;
        let table = self.tables.get_mut(&batch.table).ok_or_else(senseless)?;
        if rows > 0 {
            let keys = batch.rows.finish_keys().ok_or_else(senseless)?;
            let hashes = keys.hashes(self.seed);
            let rows = LoggedRows { keys: &keys, hashes: &hashes, lsns: batch.lsns, log: batch.log.0, range };
            table.insert_logged(&schema, &rows, &mut self.next_unit);
        }
        table.lsn = batch.last_lsn;
        Ok(())
    }
}

/// The number of the schema version of a write without deletes.
fn schema_of_upsert(payload: &[u8]) -> Option<u32> {
    let mut input = In(payload);
    let number = input.small()?;
    (read_count(&mut input)? == 0).then_some(number)
}
