//! Statements that are read from a log. Keys come into memory; values stay in the log until a statement needs them.

use std::sync::Arc;

use super::TableState;
use super::apply::Applied;
use crate::oplog::meta::SchemaVersion;
use crate::oplog::unit::{Keys, LogRange, Lsns};
use crate::oplog::write::PreparedWrite;

/// Rows of one statement, or of several consecutive ones.
#[derive(Debug)]
pub struct LoggedRows<'a> {
    pub keys: &'a Keys,
    pub hashes: &'a [u64],
    pub lsns: Lsns,
    /// Number of the log that has the rows.
    pub log: u64,
    /// The range from the first statement with rows to the end of the last one.
    pub range: LogRange,
}

impl TableState {
    /// Applies a write that stands in `range` of a log.
    pub fn replay(
        &mut self,
        write: &PreparedWrite,
        lsn: u64,
        new_unit: &mut u64,
        (log, range): (u64, LogRange),
    ) {
        if let Some(rows) = &write.deletes {
            self.delete(rows);
        }
        if let Some(rows) = &write.upserts {
            let (keys, hashes) = (&rows.keys, rows.hashes.as_slice());
            let rows = LoggedRows { keys, hashes, lsns: Lsns::one(lsn), log, range };
            self.insert_logged(&write.schema, &rows, new_unit);
        }
        self.lsn = lsn;
    }

    /// Inserts or replaces rows.
    pub fn insert_logged(&mut self, schema: &Arc<SchemaVersion>, rows: &LoggedRows<'_>, new_unit: &mut u64) {
        let log = (rows.log, rows.range.from);
        let mut slot = self.open_slot(schema, new_unit, log);
        let mut start = self.append_logged(slot, rows);
        if start.is_none() {
            self.freeze(log.1);
            slot = self.open_slot(schema, new_unit, log);
            start = self.append_logged(slot, rows);
        }
        let Some(start) = start else { return };
        self.point((slot, start), rows.keys, rows.hashes, &mut Applied::default());
    }

    fn append_logged(&mut self, slot: u32, rows: &LoggedRows<'_>) -> Option<u32> {
        let table = self.meta.id;
        let unit = self.units.get_mut(slot as usize)?.as_mut()?;
        unit.append_logged(table, (rows.keys, rows.hashes), &rows.lsns, &rows.range)
    }
}
