//! Statements that write rows, as callers give them, as frames hold them, and as tables apply them.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::codec::{
    Growing, In, Out, canonical_key, fit, read_count, read_rows, skip, text_bytes, write_rows,
};
use super::error::{OplogError, Result};
use super::labels::Label;
use super::meta::{SchemaVersion, TableMeta};
use super::unit::Keys;

/// The condition of a write. If it does not hold the write has no effect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Condition {
    /// No condition.
    #[default]
    Always,
    /// None of the rows to insert exists, and no two of them have one key.
    Absent,
    /// Each row was last written at its LSN here; 0 for a row that does not exist. LSNs of the rows to insert come first, then
    /// those of the rows to delete.
    Versions(Vec<u64>),
}

/// One statement: rows to delete and rows to insert or replace, all or nothing. Deletes come first, and
/// of several rows with one key the last one counts.
#[derive(Debug, Clone, Default)]
pub struct Write {
    /// Rows with all columns of the table, in order. Dictionaries and other forms of the columns' values fit too.
    /// Floats in a key have one zero and one NaN, which are equal to themselves.
    pub upserts: Option<RecordBatch>,
    /// The key columns, in the order of the key, of rows to delete. Keys that are not there are fine.
    pub deletes: Option<RecordBatch>,
    /// The condition of the write.
    pub condition: Condition,
    /// Makes the write idempotent: a later write with this label has no effect, even with other rows, and gives the
    /// first one's result.
    pub label: Option<Label>,
}

impl Write {
    /// Inserts rows or replaces those with the same keys.
    pub fn upsert(rows: RecordBatch) -> Self {
        Self { upserts: Some(rows), ..Self::default() }
    }

    /// Deletes rows by their keys.
    pub fn delete(keys: RecordBatch) -> Self {
        Self { deletes: Some(keys), ..Self::default() }
    }

    /// Sets the condition of the write.
    pub fn when(mut self, condition: Condition) -> Self {
        self.condition = condition;
        self
    }

    /// Sets the label of the write, under which it is done once.
    pub fn labelled(mut self, label: Label) -> Self {
        self.label = Some(label);
        self
    }

    /// Bytes of the texts and blobs of the write's rows: the least size of the encoded write.
    pub(crate) fn text_bytes(&self) -> u64 {
        let batches = self.upserts.iter().chain(&self.deletes);
        batches.flat_map(RecordBatch::columns).map(|column| text_bytes(column)).sum()
    }
}

/// Most rows of one statement.
const STATEMENT_ROWS: usize = 1 << 27;

/// Rows, checked and hashed.
#[derive(Debug)]
pub struct HashedRows {
    pub columns: Vec<ArrayRef>,
    pub keys: Keys,
    pub hashes: Vec<u64>,
}

impl HashedRows {
    pub fn new(columns: Vec<ArrayRef>, key: &[usize], seed: u64) -> Option<Self> {
        let key: Vec<ArrayRef> = key.iter().map(|at| columns.get(*at).cloned()).collect::<Option<_>>()?;
        let keys = Keys::of(&key)?;
        let hashes = keys.hashes(seed);
        Some(Self { columns, keys, hashes })
    }

    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// The positions of two rows with one key, if there are such rows.
    fn twice(&self) -> Option<(usize, usize)> {
        let mut known: HashTable<usize> = HashTable::with_capacity(self.len());
        for (row, hash) in self.hashes.iter().enumerate() {
            let same = |other: &usize| {
                self.hashes.get(*other) == Some(hash) && self.keys.same(*other, &self.keys, row)
            };
            let hash_of = |row: &usize| self.hashes.get(*row).copied().unwrap_or_default();
            match known.entry(*hash, same, hash_of) {
                Entry::Occupied(first) => return Some((*first.get(), row)),
                Entry::Vacant(free) => drop(free.insert(row)),
            }
        }
        None
    }
}

/// A statement, ready to be applied.
#[derive(Debug)]
pub struct PreparedWrite {
    pub schema: Arc<SchemaVersion>,
    pub deletes: Option<HashedRows>,
    pub upserts: Option<HashedRows>,
    pub condition: Condition,
    pub label: Option<Label>,
}

impl PreparedWrite {
    /// Checks and hashes a statement.
    pub fn new(meta: &TableMeta, write: Write, seed: u64) -> Result<Self> {
        let schema = meta.current()?.clone();
        let misfit = |what: &str| misfit(&meta.name, what);
        let has_rows = |batch: &RecordBatch| batch.num_rows() > 0;
        let whole: Vec<usize> = (0..schema.key.len()).collect();
        let prepare = |batch: RecordBatch, expected: &arrow_schema::Schema, key: &[usize]| {
            let mut columns = fit_columns(&meta.name, &batch, expected)?;
            for (_, column) in columns.iter_mut().enumerate().filter(|(at, _)| key.contains(at)) {
                *column = canonical_key(column);
            }
            HashedRows::new(columns, key, seed).ok_or_else(|| misfit("have no usable key"))
        };
        let deletes = write.deletes.filter(has_rows).map(|rows| prepare(rows, &schema.key_schema, &whole));
        let upserts = write.upserts.filter(has_rows).map(|rows| prepare(rows, &schema.schema, &schema.key));
        let (deletes, upserts) = (deletes.transpose()?, upserts.transpose()?);
        let rows = deletes.iter().chain(&upserts).map(HashedRows::len).sum::<usize>();
        if rows > STATEMENT_ROWS {
            return Err(misfit(&format!(
                "are {rows}, more than {STATEMENT_ROWS} in one statement; split it"
            )));
        }
        if matches!(&write.condition, Condition::Versions(versions) if versions.len() != rows) {
            return Err(misfit("and their expected versions differ in number"));
        }
        if write.condition == Condition::Absent
            && let Some((first, second)) = upserts.as_ref().and_then(HashedRows::twice)
        {
            return Err(misfit(&format!(
                "have one key in rows {first} and {second}, which are to be inserted"
            )));
        }
        Ok(Self { schema, deletes, upserts, condition: write.condition, label: write.label })
    }

    /// The same write, with copies of its columns if these keep much more memory than the rows need, as slices
    /// of large batches do. `payload` is the encoded write.
    pub fn compact(self, payload: &[u8], meta: &TableMeta, seed: u64) -> Result<Self> {
        let columns = self.upserts.iter().flat_map(|rows| &rows.columns);
        let kept: usize = columns.map(|column| column.get_buffer_memory_size()).sum();
        if kept <= 4 * payload.len() + 4096 {
            return Ok(self);
        }
        let decoded = Self::decode(payload, meta, seed)
            .ok_or_else(|| OplogError::invalid("rows cannot be read back"))?;
        Ok(Self { condition: self.condition, label: self.label, ..decoded })
    }

    /// Whether the write does nothing, not even remember a label.
    pub fn is_empty(&self) -> bool {
        self.deletes.is_none() && self.upserts.is_none() && self.label.is_none()
    }

    /// Rows to insert or replace.
    pub fn upserted(&self) -> usize {
        self.upserts.as_ref().map_or(0, HashedRows::len)
    }

    /// The rows as a write frame has them.
    pub fn encode(&self, out: &mut Out) -> Result<()> {
        out.var(self.schema.number.into());
        for rows in [&self.deletes, &self.upserts] {
            let written = match rows {
                Some(rows) => write_rows(out, rows.len(), &rows.columns),
                None => write_rows(out, 0, &[]),
            };
            written.ok_or_else(|| OplogError::invalid("rows have columns that cannot be stored"))?;
        }
        Ok(())
    }

    /// Reads a payload back; none if it makes no sense.
    pub fn decode(payload: &[u8], meta: &TableMeta, seed: u64) -> Option<Self> {
        let number = usize::try_from(In(payload).var()?).ok()?;
        let schema = meta.versions.get(number)?.clone();
        let write = decode_write(payload, |_| Some(&schema))?;
        let whole: Vec<usize> = (0..schema.key.len()).collect();
        let deletes = HashedRows::new(write.deleted_keys, &whole, seed)?;
        let upserts = HashedRows::new(write.columns, &schema.key, seed)?;
        let some = |rows: HashedRows| Some(rows).filter(|rows| rows.len() > 0);
        let (deletes, upserts) = (some(deletes), some(upserts));
        Some(Self { schema, deletes, upserts, condition: Condition::Always, label: None })
    }
}

/// The rows in a write frame.
pub struct DecodedWrite {
    pub deleted_keys: Vec<ArrayRef>,
    pub columns: Vec<ArrayRef>,
}

/// Reads the payload of a write frame; `schema` gives the schema version with a number.
pub fn decode_write<'a>(
    payload: &[u8],
    schema: impl FnOnce(u32) -> Option<&'a SchemaVersion>,
) -> Option<DecodedWrite> {
    let mut input = In(payload);
    let schema = schema(input.small()?)?;
    let (_, deleted_keys) = read_rows(&mut input, &schema.key_types())?;
    let (_, columns) = read_rows(&mut input, &schema.types())?;
    input.is_empty().then_some(DecodedWrite { deleted_keys, columns })
}

/// Rows of many write frames of one schema version.
#[derive(Debug)]
pub struct GrowingRows {
    schema: Arc<SchemaVersion>,
    /// The columns; none in the place of a column that is passed over.
    columns: Vec<Option<Growing>>,
    rows: usize,
}

impl GrowingRows {
    pub fn new(schema: &Arc<SchemaVersion>) -> Option<Self> {
        Self::of(schema, |_| true)
    }

    /// Rows of which only the key columns are read.
    pub fn of_keys(schema: &Arc<SchemaVersion>) -> Option<Self> {
        Self::of(schema, |position| schema.key.contains(&position))
    }

    fn of(schema: &Arc<SchemaVersion>, wanted: impl Fn(usize) -> bool) -> Option<Self> {
        let columns = schema.types().into_iter().enumerate();
        let columns = columns.map(|(position, data_type)| {
            let column = Growing::new(data_type)?;
            Some(wanted(position).then_some(column))
        });
        Some(Self { schema: schema.clone(), columns: columns.collect::<Option<_>>()?, rows: 0 })
    }

    pub fn schema(&self) -> &Arc<SchemaVersion> {
        &self.schema
    }

    pub fn len(&self) -> usize {
        self.rows
    }

    /// Adds the rows of a frame. After `None` only [`Self::undo`] makes sense.
    pub fn append(&mut self, payload: &[u8]) -> Option<()> {
        let mut input = In(payload);
        if input.small()? != self.schema.number {
            return None;
        }
        let mut behind = input;
        if read_count(&mut behind)? > 0 {
            read_rows(&mut input, &self.schema.key_types())?;
        } else {
            input = behind;
        }
        let rows = read_count(&mut input)?;
        for (column, kept) in self.schema.columns.iter().zip(&mut self.columns).filter(|_| rows > 0) {
            match kept {
                Some(kept) => kept.append(&mut input, rows)?,
                None => skip(&mut input, column.field.data_type(), rows)?,
            }
        }
        if !input.is_empty() {
            return None;
        }
        self.rows += rows;
        Some(())
    }

    /// Drops the rows of a frame that could not be read.
    pub fn undo(&mut self) {
        self.columns.iter_mut().flatten().for_each(|column| column.truncate(self.rows));
    }

    /// Makes room for so many rows of the present average size; no buffer gets more than so many bytes.
    pub fn reserve(&mut self, rows: usize, bytes: usize) {
        let times = rows as f64 / self.rows.max(1) as f64;
        self.columns.iter_mut().flatten().for_each(|column| column.reserve(times, bytes));
    }

    /// The columns, checked.
    pub fn finish(self) -> Option<Vec<ArrayRef>> {
        let types = self.schema.types();
        self.columns.into_iter().zip(types).map(|(column, data_type)| column?.finish(data_type)).collect()
    }

    /// The keys, checked.
    pub fn finish_keys(mut self) -> Option<Keys> {
        let types = self.schema.types();
        let key = self
            .schema
            .key
            .iter()
            .map(|position| self.columns.get_mut(*position)?.take()?.finish(types.get(*position)?));
        Keys::of(&key.collect::<Option<Vec<ArrayRef>>>()?)
    }
}

fn misfit(table: &str, what: &str) -> OplogError {
    OplogError::invalid(format!("rows for table `{table}` {what}"))
}

/// The columns of a batch as `expected`, or the misfit.
fn fit_columns(table: &str, batch: &RecordBatch, expected: &arrow_schema::Schema) -> Result<Vec<ArrayRef>> {
    if batch.num_columns() != expected.fields().len() {
        let what = format!("have {} columns, not {}", batch.num_columns(), expected.fields().len());
        return Err(misfit(table, &what));
    }
    let columns = expected.fields().iter().zip(batch.columns());
    columns.map(|(field, column)| fit_column(table, field, column)).collect()
}

fn fit_column(table: &str, field: &arrow_schema::Field, column: &ArrayRef) -> Result<ArrayRef> {
    let name = field.name();
    let fitted = fit(column, field.data_type()).ok_or_else(|| {
        let (given, wanted) = (column.data_type(), field.data_type());
        misfit(table, &format!("have {given} for column `{name}`, which is {wanted}"))
    })?;
    if !field.is_nullable() && fitted.null_count() > 0 {
        return Err(OplogError::NullValue { table: table.to_owned(), column: name.clone() });
    }
    Ok(fitted)
}
