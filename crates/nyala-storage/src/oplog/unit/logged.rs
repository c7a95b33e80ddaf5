//! Columns of rows that lie in a log: they are read together.

use std::sync::Arc;

use arrow_array::ArrayRef;

use crate::oplog::error::Result;
use crate::oplog::log::{Kind, scan};
use crate::oplog::meta::SchemaVersion;
use crate::oplog::vfs::FileHandle;
use crate::oplog::write::GrowingRows;

/// Once so many rows are read, room is made for all.
const SAMPLE_ROWS: usize = 4096;

/// A part of a log that holds a unit's rows.
#[derive(Debug, Clone)]
pub(crate) struct LogRange {
    pub(crate) file: FileHandle,
    pub(crate) seed: u32,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl LogRange {
    /// All columns of a table's rows in the range, which must be so many.
    pub(super) fn read(&self, table: u32, schema: &Arc<SchemaVersion>, rows: usize) -> Result<Vec<ArrayRef>> {
        let misfit = || self.file.damaged(self.from, "the rows do not fit");
        let mut found = GrowingRows::new(schema).ok_or_else(misfit)?;
        let mut sampled = false;
        let end = scan(&self.file, self.seed, (self.from, self.to), None, &mut |offset, frame| {
            if frame.kind != Kind::Write || frame.table != table {
                return Ok(());
            }
            found.append(frame.payload).ok_or_else(|| self.file.damaged(offset, "the rows make no sense"))?;
            if !sampled && found.len() >= SAMPLE_ROWS {
                found.reserve(rows, (self.to - self.from) as usize);
                sampled = true;
            }
            Ok(())
        })?;
        if !end.whole || found.len() != rows {
            return Err(self.file.damaged(end.offset, format!("{rows} rows are not there")));
        }
        found.finish().ok_or_else(misfit)
    }
}
