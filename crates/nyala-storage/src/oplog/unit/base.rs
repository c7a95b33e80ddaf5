//! Rows that lie in files: columns are read whole, each at its first use.

use std::sync::{Arc, Mutex, OnceLock};

use arrow_array::{Array, ArrayRef};
use arrow_select::concat::concat;

use super::forget::is_worth_it;
use super::logged::LogRange;
use super::slot::{Slot, lock};
use super::stored::StoredColumn;
use super::{DeadRows, Facts, Keys, LsnSpan, Lsns, ZoneMap, Zones};
use crate::oplog::error::{Damage, OplogError, Result};
use crate::oplog::files::BlockFile;
use crate::oplog::meta::SchemaVersion;

#[derive(Debug)]
enum Origin {
    Files { key: BlockFile, seg: BlockFile },
    Log(LogRange),
}

/// A column in memory that can be dropped, since it can be read again.
#[derive(Debug)]
pub struct Resident {
    pub base: Arc<Base>,
    pub position: usize,
    pub read: u64,
    pub bytes: u64,
}

/// An array, and the requested rows' positions in it.
#[derive(Debug)]
pub struct Gathered {
    pub array: ArrayRef,
    pub at: Vec<usize>,
}

/// Approximate bytes that are read for one row of a column: a block of nulls, of offsets and of bytes.
const ROW_BYTES: u64 = 3 * (64 << 10);

/// The rows in a unit's files.
#[derive(Debug)]
pub struct Rows {
    pub table: u32,
    pub rows: u32,
    pub schema: Arc<SchemaVersion>,
    pub lsns: Lsns,
    pub facts: Facts,
    /// The zones in the unit's file; none for rows in a log.
    pub zones: ZoneMap,
}

/// Rows in files, with the columns that are in memory.
#[derive(Debug)]
pub struct Base {
    table: u32,
    rows: u32,
    pub schema: Arc<SchemaVersion>,
    pub lsns: Lsns,
    pub lsn_span: LsnSpan,
    pub facts: Facts,
    columns: Vec<Slot>,
    zones: Vec<OnceLock<Zones>>,
    keys: OnceLock<Arc<Keys>>,
    /// Rows that were dead before the table was first visible: no statement reads their values.
    dead: OnceLock<DeadRows>,
    /// The first damage found.
    damage: OnceLock<Damage>,
    origin: Origin,
    /// Held while a log is read for a waiting statement, which gives all columns at once.
    reading: Mutex<()>,
}

impl Base {
    /// Rows in `.key` and `.seg`.
    pub fn sealed(rows: Rows, key: BlockFile, seg: BlockFile) -> Self {
        Self::new(rows, Origin::Files { key, seg })
    }

    /// Rows in a log.
    pub fn logged(rows: Rows, range: LogRange) -> Self {
        Self::new(rows, Origin::Log(range))
    }

    fn new(rows: Rows, origin: Origin) -> Self {
        let Rows { table, rows, schema, lsns, facts, zones: mut known } = rows;
        let columns = schema.columns.iter().map(|_| Slot::default()).collect();
        let zones = schema
            .columns
            .iter()
            .map(|column| known.remove(&column.id).map_or_else(OnceLock::new, Into::into));
        let (keys, dead, damage) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let (reading, zones) = (Mutex::new(()), zones.collect());
        let lsn_span = LsnSpan::default();
        Self {
            table,
            rows,
            schema,
            lsns,
            lsn_span,
            facts,
            columns,
            zones,
            keys,
            dead,
            damage,
            origin,
            reading,
        }
    }

    /// Adds the next rows in the log, up to `to`. None if a column of the present rows has been read.
    pub(super) fn extend(&mut self, rows: u32, lsns: &Lsns, to: u64) -> Option<()> {
        let Origin::Log(range) = &mut self.origin else { return None };
        if self.columns.iter().any(Slot::is_resident) {
            return None;
        }
        range.to = to;
        self.lsns.append(self.rows, lsns);
        self.rows += rows;
        let (first, last) = (lsns.lsns.first(), lsns.lsns.last());
        self.facts.lsns.1 = last.copied().unwrap_or_default().max(self.facts.lsns.1);
        self.facts.lsns.0 = first.copied().unwrap_or(u64::MAX).min(self.facts.lsns.0);
        Some(())
    }

    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Notes rows that are dead before the table is visible: columns that are read later leave their texts out, if
    /// that saves enough.
    pub fn forget(&self, dead: &DeadRows) {
        if self.is_sealed() && is_worth_it(dead, self.rows) {
            self.dead.get_or_init(|| dead.clone());
        }
    }

    /// A column by position, read if it is not in memory. Only readers of the same column wait.
    pub fn column(&self, position: usize) -> Result<ArrayRef> {
        let slot = self.slot(position)?;
        slot.get_or_read(|| match &self.origin {
            Origin::Files { .. } => self.read_column(position),
            Origin::Log(range) => {
                let _reading = lock(&self.reading);
                if !slot.is_resident() {
                    self.read_log(range)?;
                }
                slot.get().ok_or_else(|| range.file.damaged(range.from, "a column is missing"))
            }
        })
        .inspect_err(|error| self.note(error))
    }

    /// Positions of columns that together bring all of them into memory, each with its bytes to read.
    pub fn reads(&self) -> Vec<(usize, u64)> {
        let columns = (0..self.columns.len()).map(|position| (position, self.column_bytes(position)));
        match &self.origin {
            Origin::Files { .. } => columns.collect(),
            Origin::Log(_) => vec![(0, columns.map(|(_, bytes)| bytes).sum())],
        }
    }

    /// Brings a column into memory before a statement needs it; of rows in a log all columns. No statement waits for
    /// this thread, which may be slow: a statement that needs the column meanwhile reads it too.
    pub fn preload(&self, position: usize) -> Result<()> {
        let slot = self.slot(position)?;
        if slot.is_resident() || slot.is_being_read() {
            return Ok(());
        }
        let read = match &self.origin {
            Origin::Files { .. } => self.read_column(position).map(|array| drop(slot.put(array))),
            Origin::Log(range) => self.read_log(range),
        };
        read.inspect_err(|error| self.note(error))
    }

    fn slot(&self, position: usize) -> Result<&Slot> {
        self.columns.get(position).ok_or_else(|| OplogError::invalid("no such column"))
    }

    fn read_log(&self, range: &LogRange) -> Result<()> {
        let read = range.read(self.table, &self.schema, self.rows as usize, &self.lsns)?;
        self.columns.iter().zip(read).for_each(|(slot, array)| drop(slot.put(array)));
        Ok(())
    }

    /// The values of some rows of a column. If the column is not in memory and the rows are few, only they are read,
    /// without waiting for a reader of the whole column.
    pub fn gather(&self, position: usize, rows: &[u32]) -> Result<Gathered> {
        let few = (rows.len() as u64).saturating_mul(ROW_BYTES) < self.column_bytes(position);
        if !few || !self.is_sealed() || self.is_resident(position) {
            let at = rows.iter().map(|row| *row as usize).collect();
            return Ok(Gathered { array: self.column(position)?, at });
        }
        let mut sorted = rows.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let (stored, nullable) = self.stored(position)?;
        let read = stored.read_rows(&sorted).inspect_err(|error| self.note(error))?;
        let read = read.filter(|array| nullable || array.null_count() == 0);
        let array = read.ok_or_else(|| self.senseless(position))?;
        let at = rows.iter().map(|row| sorted.partition_point(|known| known < row)).collect();
        Ok(Gathered { array, at })
    }

    fn note(&self, error: &OplogError) {
        if let Some(damage) = error.damage() {
            self.damage.get_or_init(|| damage.clone());
        }
    }

    /// The damage a reader found.
    pub fn damage(&self) -> Option<&Damage> {
        self.damage.get()
    }

    /// Bounds of a column, if they are stored or it is in memory.
    pub fn zones(&self, position: usize) -> Option<&Zones> {
        let zones = self.zones.get(position)?;
        if zones.get().is_none() && !self.is_sealed() && self.is_resident(position) {
            let found = Zones::of(&self.column(position).ok()?)?;
            return Some(zones.get_or_init(|| found));
        }
        zones.get()
    }

    /// Whether a column is in memory; false while it is being read.
    fn is_resident(&self, position: usize) -> bool {
        self.columns.get(position).is_some_and(Slot::is_resident)
    }

    /// Puts a column that was just written to the files into memory.
    pub fn fill(&self, position: usize, array: ArrayRef) {
        if let Some(slot) = self.columns.get(position) {
            slot.put(array);
        }
    }

    /// Columns in memory that are neither part of the key nor read from a log, which gives all columns at once.
    pub fn resident(self: &Arc<Self>) -> Vec<Resident> {
        let sealed = self.is_sealed();
        let values = self.columns.iter().enumerate();
        let values = values.filter(|(position, _)| sealed && !self.schema.key.contains(position));
        let resident = values.filter_map(|(position, slot)| {
            let bytes = slot.get()?.get_array_memory_size() as u64;
            Some(Resident { base: self.clone(), position, read: slot.last_read(), bytes })
        });
        resident.collect()
    }

    /// Bytes of all columns in memory; columns being read do not count yet.
    pub fn memory_bytes(&self) -> u64 {
        let arrays = self.columns.iter().filter_map(Slot::get);
        arrays.map(|array| array.get_array_memory_size() as u64).sum()
    }

    /// Bytes of the columns that can be dropped from memory, as they are in files.
    pub fn value_bytes(&self) -> u64 {
        let values = (0..self.columns.len()).filter(|at| self.is_sealed() && !self.schema.key.contains(at));
        values.map(|at| self.column_bytes(at)).sum()
    }

    /// Drops a column from memory.
    pub fn evict(&self, position: usize) {
        if let Some(slot) = self.columns.get(position) {
            slot.clear();
        }
    }

    pub fn is_sealed(&self) -> bool {
        matches!(self.origin, Origin::Files { .. })
    }

    /// Whether all columns are in memory.
    pub fn is_loaded(&self) -> bool {
        self.columns.iter().all(Slot::is_resident)
    }

    /// The keys, if they are in memory.
    pub fn keys(&self) -> Option<&Arc<Keys>> {
        self.keys.get()
    }

    /// The keys, read if they are not in memory.
    pub fn load_keys(&self) -> Result<&Arc<Keys>> {
        if let Some(keys) = self.keys.get() {
            return Ok(keys);
        }
        let columns: Vec<ArrayRef> =
            self.schema.key.iter().map(|position| self.column(*position)).collect::<Result<_>>()?;
        let keys = Keys::of(&columns).ok_or_else(|| OplogError::invalid("the key columns do not fit"))?;
        Ok(self.keys.get_or_init(|| Arc::new(keys)))
    }

    /// Bytes of a column in files; of a log, an equal share for each column.
    pub fn column_bytes(&self, position: usize) -> u64 {
        let id = self.schema.columns.get(position).map_or(0, |column| column.id);
        match &self.origin {
            Origin::Files { key, seg } => key.column_bytes(id) + seg.column_bytes(id),
            Origin::Log(range) => (range.to - range.from) / self.columns.len().max(1) as u64,
        }
    }

    fn read_column(&self, position: usize) -> Result<ArrayRef> {
        let (stored, nullable) = self.stored(position)?;
        let read = stored
            .read_all(self.rows as usize, self.dead.get())?
            .filter(|array| nullable || array.null_count() == 0);
        read.ok_or_else(|| self.senseless(position))
    }

    /// Where a column is stored, and whether it may have nulls.
    pub(super) fn stored(&self, position: usize) -> Result<(StoredColumn<'_>, bool)> {
        let Origin::Files { key, seg } = &self.origin else { return Err(OplogError::invalid("no files")) };
        let column =
            self.schema.columns.get(position).ok_or_else(|| OplogError::invalid("no such column"))?;
        let file = if self.schema.key.contains(&position) { key } else { seg };
        let stored = StoredColumn { file, tag: column.id + 1, data_type: column.field.data_type() };
        Ok((stored, column.field.is_nullable()))
    }

    fn senseless(&self, position: usize) -> OplogError {
        let name = self.schema.columns.get(position).map_or("", |column| column.field.name());
        let reason = format!("column `{name}` makes no sense");
        self.stored(position).map_or_else(|error| error, |(stored, _)| stored.file.file().damaged(0, reason))
    }
}

/// Joins arrays to one; none if they do not fit.
pub fn join(pieces: &[ArrayRef]) -> Option<ArrayRef> {
    let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
    concat(&pieces).ok()
}
