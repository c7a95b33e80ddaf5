//! Rows that lie in files: columns are read whole, each when it is first asked for.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use arrow_select::concat::concat;

use super::{Facts, Keys, Lsns};
use crate::oplog::codec::{Flat, Part, child_types, inflate};
use crate::oplog::error::{OplogError, Result};
use crate::oplog::files::BlockFile;
use crate::oplog::log::{Kind, scan};
use crate::oplog::meta::SchemaVersion;
use crate::oplog::vfs::FileHandle;
use crate::oplog::write::decode_write;

/// A part of a log that holds a unit's rows.
#[derive(Debug, Clone)]
pub(crate) struct LogRange {
    pub(crate) file: FileHandle,
    pub(crate) seed: u32,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

#[derive(Debug)]
enum Origin {
    Files { key: BlockFile, seg: BlockFile },
    Log(LogRange),
}

/// Counts reads of columns, so that it can be told which were read last.
static READS: AtomicU64 = AtomicU64::new(0);

/// A column that may be in memory.
#[derive(Debug, Default)]
struct Slot {
    array: Mutex<Option<ArrayRef>>,
    /// The number of its last read.
    read: AtomicU64,
}

/// A column in memory that can be dropped, since it can be read again.
#[derive(Debug)]
pub(crate) struct Resident {
    pub(crate) base: Arc<Base>,
    pub(crate) position: usize,
    pub(crate) read: u64,
    pub(crate) bytes: u64,
}

/// Which rows lie in files.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) table: u32,
    pub(crate) rows: u32,
    pub(crate) schema: Arc<SchemaVersion>,
    pub(crate) lsns: Lsns,
    pub(crate) facts: Facts,
}

/// Rows in files, with the columns that are in memory.
#[derive(Debug)]
pub(crate) struct Base {
    table: u32,
    rows: u32,
    pub(crate) schema: Arc<SchemaVersion>,
    pub(crate) lsns: Lsns,
    pub(crate) facts: Facts,
    columns: Vec<Slot>,
    keys: OnceLock<Arc<Keys>>,
    origin: Origin,
    /// Held while a log is read, which gives all columns at once.
    reading: Mutex<()>,
}

impl Base {
    /// Rows in `.key` and `.seg`.
    pub(crate) fn sealed(rows: Rows, key: BlockFile, seg: BlockFile) -> Self {
        Self::new(rows, Origin::Files { key, seg })
    }

    /// Rows in a log.
    pub(crate) fn logged(rows: Rows, range: LogRange) -> Self {
        Self::new(rows, Origin::Log(range))
    }

    fn new(rows: Rows, origin: Origin) -> Self {
        let Rows { table, rows, schema, lsns, facts } = rows;
        let columns = schema.columns.iter().map(|_| Slot::default()).collect();
        let (keys, reading) = (OnceLock::new(), Mutex::new(()));
        Self { table, rows, schema, lsns, facts, columns, keys, origin, reading }
    }

    pub(crate) fn rows(&self) -> u32 {
        self.rows
    }

    /// A column by position, read if it is not in memory. Only those who want the same column wait.
    pub(crate) fn column(&self, position: usize) -> Result<ArrayRef> {
        let slot = self.columns.get(position).ok_or_else(|| OplogError::invalid("no such column"))?;
        slot.read.store(READS.fetch_add(1, Relaxed), Relaxed);
        let slot = &slot.array;
        if let Origin::Log(range) = &self.origin {
            return self.column_of_log(range, slot);
        }
        let mut slot = lock(slot);
        if let Some(array) = slot.as_ref() {
            return Ok(array.clone());
        }
        let array = self.read_column(position)?;
        *slot = Some(array.clone());
        Ok(array)
    }

    fn column_of_log(&self, range: &LogRange, slot: &Mutex<Option<ArrayRef>>) -> Result<ArrayRef> {
        let _reading = lock(&self.reading);
        if lock(slot).is_none() {
            let read = self.read_log(range)?;
            for (column, array) in self.columns.iter().zip(read) {
                *lock(&column.array) = Some(array);
            }
        }
        let found = lock(slot).clone();
        found.ok_or_else(|| range.file.damaged(range.from, "a column is missing"))
    }

    /// Puts a column into memory that was just written to the files.
    pub(crate) fn fill(&self, position: usize, array: ArrayRef) {
        if let Some(slot) = self.columns.get(position) {
            *lock(&slot.array) = Some(array);
        }
    }

    /// Columns in memory that are neither part of the key nor read from a log, which gives all columns at once.
    pub(crate) fn resident(self: &Arc<Self>) -> Vec<Resident> {
        let sealed = self.is_sealed();
        let values = self.columns.iter().enumerate();
        let values = values.filter(|(position, _)| sealed && !self.schema.key.contains(position));
        let resident = values.filter_map(|(position, slot)| {
            let bytes = lock(&slot.array).as_ref()?.get_array_memory_size() as u64;
            Some(Resident { base: self.clone(), position, read: slot.read.load(Relaxed), bytes })
        });
        resident.collect()
    }

    /// Drops a column from memory.
    pub(crate) fn evict(&self, position: usize) {
        if let Some(slot) = self.columns.get(position) {
            *lock(&slot.array) = None;
        }
    }

    pub(crate) fn is_sealed(&self) -> bool {
        matches!(self.origin, Origin::Files { .. })
    }

    /// Whether all columns are in memory.
    pub(crate) fn is_loaded(&self) -> bool {
        self.columns.iter().all(|slot| lock(&slot.array).is_some())
    }

    /// The keys, if they are in memory.
    pub(crate) fn keys(&self) -> Option<&Arc<Keys>> {
        self.keys.get()
    }

    /// The keys, read if they are not in memory.
    pub(crate) fn load_keys(&self) -> Result<&Arc<Keys>> {
        if let Some(keys) = self.keys.get() {
            return Ok(keys);
        }
        let columns: Vec<ArrayRef> =
            self.schema.key.iter().map(|position| self.column(*position)).collect::<Result<_>>()?;
        let keys = Keys::of(&columns).ok_or_else(|| OplogError::invalid("the key columns do not fit"))?;
        Ok(self.keys.get_or_init(|| Arc::new(keys)))
    }

    /// Bytes in files of a column; for a log, a fair share of it.
    pub(crate) fn column_bytes(&self, position: usize) -> u64 {
        let id = self.schema.columns.get(position).map_or(0, |column| column.id);
        match &self.origin {
            Origin::Files { key, seg } => key.column_bytes(id) + seg.column_bytes(id),
            Origin::Log(range) => (range.to - range.from) / self.columns.len().max(1) as u64,
        }
    }

    fn read_column(&self, position: usize) -> Result<ArrayRef> {
        let Origin::Files { key, seg } = &self.origin else { return Err(OplogError::invalid("no files")) };
        let column =
            self.schema.columns.get(position).ok_or_else(|| OplogError::invalid("no such column"))?;
        let file = if self.schema.key.contains(&position) { key } else { seg };
        let data_type = column.field.data_type();
        let flat = read_flat(file, column.id + 1, &mut 0, data_type, self.rows as usize)?;
        let nulls = flat.nulls.is_some();
        let array = inflate(data_type, flat).filter(|_| column.field.is_nullable() || !nulls);
        array
            .ok_or_else(|| file.file().damaged(0, format!("column `{}` makes no sense", column.field.name())))
    }

    fn read_log(&self, range: &LogRange) -> Result<Vec<ArrayRef>> {
        let mut pieces: Vec<Vec<ArrayRef>> = self.columns.iter().map(|_| Vec::new()).collect();
        let mut rows = 0;
        let end = scan(&range.file, range.seed, (range.from, range.to), None, &mut |offset, frame| {
            if frame.kind != Kind::Write || frame.table != self.table {
                return Ok(());
            }
            let write =
                decode_write(frame.payload, |number| (number == self.schema.number).then_some(&*self.schema));
            let write = write.ok_or_else(|| range.file.damaged(offset, "the rows make no sense"))?;
            rows += write.rows;
            pieces.iter_mut().zip(write.columns).for_each(|(pieces, column)| pieces.push(column));
            Ok(())
        })?;
        if !end.whole || rows != self.rows as usize {
            return Err(range.file.damaged(end.offset, format!("{} rows are not there", self.rows)));
        }
        // Each column's pieces go when it is joined.
        let joined = pieces.into_iter().map(|pieces| join(&pieces));
        joined.collect::<Option<_>>().ok_or_else(|| range.file.damaged(range.from, "the rows do not fit"))
    }
}

/// One array of many; none if they do not fit.
pub(super) fn join(pieces: &[ArrayRef]) -> Option<ArrayRef> {
    let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
    concat(&pieces).ok()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read_flat(
    file: &BlockFile,
    column: u32,
    node: &mut u32,
    data_type: &DataType,
    rows: usize,
) -> Result<Flat> {
    let own = *node;
    *node += 1;
    let nulls = file.read((column, own, 0))?;
    let mut flat = Flat { rows, nulls, ..Flat::default() };
    let part = Part::of(data_type).ok_or_else(|| OplogError::invalid("unknown type"))?;
    if !matches!(part, Part::FixedList(_) | Part::Struct | Part::Null) {
        flat.buffers.push(file.require((column, own, 1))?);
    }
    if matches!(part, Part::Bytes | Part::LargeBytes) {
        flat.buffers.push(file.require((column, own, 2))?);
    }
    let child_rows = match (part, flat.buffers.first()) {
        (Part::List, Some(offsets)) => offsets.typed_data::<i32>().last().map_or(0, |last| *last as usize),
        (Part::LargeList, Some(offsets)) => {
            offsets.typed_data::<i64>().last().map_or(0, |last| *last as usize)
        }
        (Part::FixedList(length), _) => rows * length,
        _ => rows,
    };
    for child in child_types(data_type) {
        flat.children.push(read_flat(file, column, node, child, child_rows)?);
    }
    Ok(flat)
}
