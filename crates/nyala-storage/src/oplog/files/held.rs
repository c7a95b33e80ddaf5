//! Tables with files that could not be read at a start, and the log range they need once they are repaired.

use super::Manifest;
use crate::oplog::codec::{In, Out};

/// A table with entries copied from an older manifest, and the log range of its changes since. Other tables of the
/// store go on meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldTable {
    pub table: u32,
    /// The table's units hold everything up to this LSN.
    pub lsn: u64,
    /// Log and offset where reading goes on.
    pub from: (u64, u64),
    /// Log and offset behind which the table has no changes.
    pub to: (u64, u64),
}

impl HeldTable {
    pub(super) fn write(&self, out: &mut Out) {
        let numbers = [self.table.into(), self.lsn, self.from.0, self.from.1, self.to.0, self.to.1];
        numbers.into_iter().for_each(|number| out.var(number));
    }

    pub(super) fn read(input: &mut In<'_>) -> Option<Self> {
        let (table, lsn) = (input.small()?, input.var()?);
        Some(Self { table, lsn, from: (input.var()?, input.var()?), to: (input.var()?, input.var()?) })
    }

    /// Whether the table needs this log.
    pub fn needs(&self, log: u64) -> bool {
        (self.from.0..=self.to.0).contains(&log)
    }
}

impl Manifest {
    /// The entry of a table, if it is held.
    pub fn held(&self, table: u32) -> Option<&HeldTable> {
        self.held.iter().find(|held| held.table == table)
    }

    /// Takes over an older manifest's entries of a table that cannot be read; `read_to` is the end of the logs when
    /// the damage was found, and `changed` says whether the table has changes behind the older manifest. False if the
    /// older manifest does not have the table.
    pub fn hold(&mut self, older: &Self, table: u32, read_to: (u64, u64), changed: bool) -> bool {
        let Some(meta) = older.tables.iter().find(|meta| meta.id == table) else { return false };
        let now = HeldTable { table, lsn: older.lsn, from: older.log, to: read_to };
        let held = older.held(table).copied().unwrap_or(now);
        // A table that was repaired, written to, and damaged again has changes behind its held range.
        let to = if changed { held.to.max(read_to) } else { held.to };
        self.held.push(HeldTable { to, ..held });
        self.tables.push(meta.clone());
        self.units.extend(older.units.iter().filter(|unit| unit.table == table).cloned());
        self.labels.extend(older.labels.iter().filter(|(of, _)| *of == table).cloned());
        true
    }
}
