//! Changes of a table in memory, for statements that are committed and for those of a log.

use std::sync::Arc;

use super::state::{hash_of, same};
use super::{Index, Location, TableState};
use crate::oplog::error::{OplogError, Result};
use crate::oplog::meta::{SchemaVersion, TableMeta};
use crate::oplog::store::Committed;
use crate::oplog::unit::{Chunk, Keys, LsnSet, Lsns, Unit};
use crate::oplog::write::{Condition, HashedRows, PreparedWrite};

/// Most rows of a unit: a unit with as many takes no more statements, because positions have 32 bits.
const UNIT_ROWS: u32 = 1 << 30;

/// Rows whose index entries and unit data together fit into the processor's second-level cache.
const ROWS_AHEAD: usize = 512;
/// Up to so many rows are not worth a prefetch.
const FEW_ROWS: usize = 8;

/// The effect of a statement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Applied {
    pub inserted: u64,
    pub replaced: u64,
    pub deleted: u64,
}

impl Applied {
    /// The effect as the reply to the statement.
    pub fn committed(self, lsn: u64) -> Committed {
        let Self { inserted, replaced, deleted } = self;
        Committed { lsn, inserted, replaced, deleted, before: None }
    }
}

impl TableState {
    /// Whether the condition of a write holds now.
    pub fn check_condition(&self, write: &PreparedWrite) -> Result<()> {
        let rows = write.upserts.iter().chain(&write.deletes);
        let rows = rows.flat_map(|rows| (0..rows.len()).map(move |row| (rows, row)));
        let found = |rows: &HashedRows, row: usize| {
            let hash = rows.hashes.get(row).copied().unwrap_or_default();
            self.find(hash, &rows.keys, row).map_or(0, |at| self.version_at(at))
        };
        let conflict = |row, expected, found| Err(OplogError::Conflict { row, expected, found });
        match &write.condition {
            Condition::Always => {}
            Condition::Absent => {
                let inserts =
                    write.upserts.iter().flat_map(|rows| (0..rows.len()).map(move |row| (rows, row)));
                for (number, (rows, row)) in inserts.enumerate() {
                    let version = found(rows, row);
                    if version != 0 {
                        return conflict(number, 0, version);
                    }
                }
            }
            Condition::Versions(versions) => {
                for (number, ((rows, row), expected)) in rows.zip(versions).enumerate() {
                    let version = found(rows, row);
                    if version != *expected {
                        return conflict(number, *expected, version);
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether one of these keys has the hash of a different key in the table. Equal hashes are known to be equal keys where the
    /// keys are not in memory.
    pub fn collides(&self, rows: &HashedRows) -> bool {
        rows.hashes.iter().enumerate().any(|(row, hash)| {
            let mut other = false;
            // The closure looks at every entry with the hash and never accepts one.
            self.index.find(*hash, |at| {
                let unit = self.unit(*at).filter(|unit| unit.hash(at.row) == *hash);
                let key = unit.and_then(|unit| unit.key(at.row));
                other |= key.is_some_and(|(own, own_row)| !own.same(own_row, &rows.keys, row));
                false
            });
            other
        })
    }

    /// Applies a write. `new_unit` is the number of the unit that is begun if none grows, and `log` the write's
    /// position in the log.
    pub fn apply(&mut self, write: &PreparedWrite, lsn: u64, new_unit: &mut u64, log: (u64, u64)) -> Applied {
        let mut applied = Applied::default();
        if let Some(rows) = &write.deletes {
            applied.deleted = self.delete(rows);
        }
        if let Some(rows) = &write.upserts {
            let slot = self.open_slot(&write.schema, new_unit, log);
            self.upsert(slot, rows, Lsns::one(lsn), &mut applied);
        }
        if let Some(label) = &write.label {
            self.labels.add(label.name().clone(), label.done(lsn, write.upserted()));
        }
        self.lsn = lsn;
        applied
    }

    /// Deletes rows by their keys; gives the number of deleted rows.
    pub(super) fn delete(&mut self, rows: &HashedRows) -> u64 {
        let mut deleted = 0;
        for (row, hash) in rows.hashes.iter().enumerate() {
            let Self { index, units, .. } = self;
            let removed = index.remove(*hash, |at| same(units, *at, *hash, &rows.keys, row));
            deleted += u64::from(removed.is_some_and(|at| self.kill(at)));
        }
        deleted
    }

    fn kill(&mut self, at: Location) -> bool {
        let unit = self.units.get_mut(at.slot as usize).and_then(Option::as_mut);
        unit.is_some_and(|unit| unit.kill(at.row))
    }

    pub(super) fn open_slot(
        &mut self,
        schema: &Arc<SchemaVersion>,
        new_unit: &mut u64,
        log: (u64, u64),
    ) -> u32 {
        let room = |slot: &u32| {
            self.unit(Location { slot: *slot, row: 0 }).is_some_and(|unit| unit.rows() < UNIT_ROWS)
        };
        match self.open {
            Some(slot) if room(&slot) => return slot,
            _ => self.freeze(log.1),
        }
        let slot = self.add(Unit::growing(*new_unit, schema.clone(), log));
        *new_unit += 1;
        self.open = Some(slot);
        slot
    }

    fn upsert(&mut self, slot: u32, rows: &HashedRows, lsns: Lsns, applied: &mut Applied) {
        let chunk = Chunk::new(rows.columns.clone(), rows.keys.clone(), lsns);
        let Some(unit) = self.units.get_mut(slot as usize).and_then(Option::as_mut) else { return };
        let start = unit.append(chunk, &rows.hashes);
        self.point((slot, start), &rows.keys, &rows.hashes, applied);
    }

    /// Points keys to appended rows, and kills the rows they pointed to.
    pub(super) fn point(
        &mut self,
        (slot, start): (u32, u32),
        keys: &Keys,
        hashes: &[u64],
        applied: &mut Applied,
    ) {
        let mut places = Vec::with_capacity(hashes.len().min(ROWS_AHEAD));
        for (row, hash) in hashes.iter().enumerate() {
            if row % ROWS_AHEAD == 0 {
                self.fetch(hashes.get(row..).unwrap_or_default(), &mut places);
            }
            let to = Location { slot, row: start + row as u32 };
            let Self { index, units, .. } = self;
            let same_key = |at: &Location| same(units, *at, *hash, keys, row);
            let old = index.set(*hash, to, same_key, |at| hash_of(units, at));
            match old {
                Some(old) => applied.replaced += u64::from(self.kill(old)),
                None => applied.inserted += 1,
            }
        }
    }

    /// Brings the index entries and unit data of the next rows into the processor's cache. Each lookup waits for
    /// memory; none here depends on the result of another, so that the processor runs several at once.
    fn fetch(&self, hashes: &[u64], places: &mut Vec<Location>) {
        if hashes.len() < FEW_ROWS {
            return;
        }
        let hashes = hashes.iter().take(ROWS_AHEAD);
        places.clear();
        places.extend(hashes.filter_map(|hash| self.index.find(*hash, |_| true)));
        let seen = places.iter().fold(0, |seen, at| seen ^ hash_of(&self.units, at));
        // The result is not used; without this the compiler would leave the lookups out.
        std::hint::black_box(seen);
    }

    /// Empties the table.
    pub fn truncate(&mut self, lsn: u64) -> u64 {
        let rows = self.units().map(|unit| u64::from(unit.live())).sum();
        self.units.iter_mut().for_each(|unit| *unit = None);
        (self.open, self.index, self.lsn) = (None, Index::default(), lsn);
        self.damage.clear();
        self.incomplete = false;
        let meta = TableMeta { truncated: lsn, ..(*self.meta).clone() };
        self.meta = Arc::new(meta);
        rows
    }

    /// Kills the rows that were last written at or before `bound`; gives their number.
    pub fn expire(&mut self, bound: u64, lsn: u64) -> u64 {
        let mut expired = 0;
        let known = self.expired;
        self.expired = known.max(bound);
        for slot in 0..self.units.len() as u32 {
            for row in self.expired_rows(slot, known, bound) {
                let at = Location { slot, row };
                let hash = hash_of(&self.units, &at);
                self.index.remove(hash, |found| *found == at);
                expired += u64::from(self.kill(at));
            }
        }
        self.lsn = lsn;
        expired
    }

    fn expired_rows(&self, slot: u32, known: u64, bound: u64) -> Vec<u32> {
        let Some(unit) = self.unit(Location { slot, row: 0 }) else { return Vec::new() };
        let old = unit.data.ranges().filter(|(_, lsn)| (known + 1..=bound).contains(lsn));
        old.flat_map(|(rows, _)| rows).filter(|row| !unit.dead.contains(*row)).collect()
    }

    /// Whether any live row was last written at or before `bound`.
    pub fn has_expired(&self, bound: u64) -> bool {
        let old = LsnSet::new([self.expired + 1..=bound]);
        self.units().any(|unit| unit.has_live(&old))
    }

    /// Gives the table another schema version; rows that come next go to another unit.
    pub fn alter(&mut self, version: SchemaVersion, lsn: u64, log_end: u64) {
        self.freeze(log_end);
        self.meta = Arc::new(self.meta.with_version(version));
        self.lsn = lsn;
    }
}
