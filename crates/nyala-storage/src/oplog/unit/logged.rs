//! Columns of rows that lie in a log: they are read together.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;

use super::Lsns;
use crate::oplog::error::Result;
use crate::oplog::log::{Frame, scan_around_damage};
use crate::oplog::meta::SchemaVersion;
use crate::oplog::vfs::FileHandle;
use crate::oplog::write::GrowingRows;

/// After so many rows, room is made for the others by the size of these.
const SAMPLE_ROWS: usize = 4096;

/// A part of a log that holds a unit's rows.
#[derive(Debug, Clone)]
pub struct LogRange {
    pub file: FileHandle,
    pub seed: u32,
    pub from: u64,
    pub to: u64,
}

impl LogRange {
    /// All columns of a table's rows in the range; row count and LSNs must match. Damage in frames of other tables is
    /// passed over.
    pub(super) fn read(
        &self,
        table: u32,
        schema: &Arc<SchemaVersion>,
        rows: usize,
        lsns: &Lsns,
    ) -> Result<Vec<ArrayRef>> {
        let misfit = || self.file.damaged(self.from, "the rows do not fit");
        let mut found = GrowingRows::new(schema).ok_or_else(misfit)?;
        let mut sampled = false;
        let mut visit = |offset: u64, frame: Frame<'_>| {
            if !frame.kind.is_write() || frame.table != table {
                return Ok(());
            }
            found.append(frame.payload).ok_or_else(|| self.file.damaged(offset, "the rows make no sense"))?;
            if !sampled && found.len() >= SAMPLE_ROWS {
                found.reserve(rows, (self.to - self.from) as usize);
                sampled = true;
            }
            Ok(())
        };
        let mut lost =
            |offset: u64, frames: Range<u64>| match lsns.lsns.iter().any(|lsn| frames.contains(lsn)) {
                true => Err(self.file.damaged(offset, "a frame that was confirmed is not valid")),
                false => Ok(()),
            };
        let (range, first) = ((self.from, self.to), lsns.at(0));
        scan_around_damage(&self.file, self.seed, range, first, &mut visit, &mut lost)?;
        if found.len() != rows {
            return Err(self.file.damaged(self.from, format!("there are {} rows, not {rows}", found.len())));
        }
        found.finish().ok_or_else(misfit)
    }
}
