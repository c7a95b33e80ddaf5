//! Copying the undamaged rows out of a damaged store.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};

use super::replay::Replayed;
use super::{DiskStore, Environment, LiveTable, StoreOptions};
use crate::oplog::codec::text_bytes;
use crate::oplog::error::{Damage, OplogError, Result};
use crate::oplog::files::Manifest;
use crate::oplog::meta::{TableMeta, TableSpec};
use crate::oplog::table::{SharedTable, TableState};
use crate::oplog::vfs::Folder;
use crate::oplog::write::Write;

/// The copied rows, and the ones that could not be copied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SalvageReport {
    /// Each table with the number of its rows that were copied.
    pub tables: Vec<(String, u64)>,
    /// Damaged places. Rows there are missing from the copy, and so are changes behind it if it is in a log.
    pub damage: Vec<Damage>,
    /// Undamaged rows that no store accepts any more.
    pub refused: Vec<RefusedRows>,
}

/// Rows of one table that a copy did not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedRows {
    /// The table of the rows.
    pub table: String,
    /// The number of rows.
    pub rows: u64,
    /// The reason why the first of them was refused.
    pub reason: String,
}

/// Makes a new store from the undamaged rows of another, which no process may have open and which is not changed. Only
/// rows that are certain to be the newest of their keys are copied. Without a manifest none can be.
pub fn salvage(
    folder: &Path,
    target: &Path,
    options: StoreOptions,
    environment: &Environment,
) -> Result<SalvageReport> {
    let source = Folder::new(environment.disk.clone(), folder);
    let _lock = source.lock("salvage")?;
    let newest = Manifest::newest(&source.list()?);
    let number = newest.ok_or_else(|| OplogError::damaged(folder, 0, "there is no manifest"))?;
    let (manifest, _) = Manifest::load(&source, number)?;
    let mut replayed = Replayed::of(&source, &manifest)?;
    let mut report = SalvageReport::default();
    let limit = options.statement_bytes as u64;
    // A row may be as large as the copied store allowed, beyond the size of statements in `options`.
    let options = StoreOptions { statement_bytes: StoreOptions::MAX_STATEMENT_BYTES, ..options };
    let store = DiskStore::open(target, options, environment.clone())?;
    for (_, mut state) in std::mem::take(&mut replayed.tables) {
        report.note(std::mem::take(&mut state.damage));
        report.copy(&store, state, limit)?;
    }
    report.note(replayed.damage);
    store.close()?;
    Ok(report)
}

impl SalvageReport {
    fn note(&mut self, damage: impl IntoIterator<Item = Damage>) {
        for damage in damage {
            if !self.damage.contains(&damage) {
                self.damage.push(damage);
            }
        }
    }

    fn copy(&mut self, store: &DiskStore, state: TableState, limit: u64) -> Result<()> {
        let meta = state.meta.clone();
        let table = store.create_table(spec_of(&meta)?)?;
        let rows = self.copy_rows(&table, SharedTable::new(state), limit)?;
        self.tables.push((meta.name.clone(), rows));
        Ok(())
    }

    fn copy_rows(&mut self, table: &LiveTable, from: SharedTable, limit: u64) -> Result<u64> {
        let version: Arc<_> = from.version();
        let columns: Vec<usize> = (0..version.schema().fields().len()).collect();
        let projection = version.projection(&columns, false)?;
        let mut rows = 0;
        for part in version.parts()? {
            match projection.read(&part) {
                Ok(batch) => rows += self.write_in_turn(table, &batch, limit)?,
                Err(OplogError::Damaged(damage)) => self.note([damage]),
                Err(error) => return Err(error),
            }
        }
        Ok(rows)
    }

    /// Writes rows in statements of about this size; gives the number of rows. A part of a unit may exceed it, and a
    /// single row too.
    fn write_in_turn(&mut self, table: &LiveTable, rows: &RecordBatch, limit: u64) -> Result<u64> {
        let count = rows.num_rows();
        // All rows are measured together, because a slice of a list column counts as much as the whole column.
        let statements = bytes_of(rows).div_ceil(limit.max(1)).max(1);
        let each = count.div_ceil(usize::try_from(statements).unwrap_or(usize::MAX)).max(1);
        let mut written = 0;
        for from in (0..count).step_by(each) {
            written += self.write(table, rows.slice(from, each.min(count - from)))?;
        }
        Ok(written)
    }

    fn write(&mut self, table: &LiveTable, rows: RecordBatch) -> Result<u64> {
        let count = rows.num_rows();
        match table.write(Write::upsert(rows.clone())) {
            Err(OplogError::Invalid { .. }) if count > 1 => self.write_halves(table, &rows),
            Err(OplogError::Invalid { reason }) => {
                self.refuse(&table.name(), reason);
                Ok(0)
            }
            done => Ok(done?.inserted),
        }
    }

    fn write_halves(&mut self, table: &LiveTable, rows: &RecordBatch) -> Result<u64> {
        let (all, middle) = (rows.num_rows(), rows.num_rows() / 2);
        let first = self.write(table, rows.slice(0, middle))?;
        Ok(first + self.write(table, rows.slice(middle, all - middle))?)
    }

    fn refuse(&mut self, table: &str, reason: String) {
        match self.refused.iter_mut().find(|refused| refused.table == table) {
            Some(refused) => refused.rows += 1,
            None => self.refused.push(RefusedRows { table: table.to_owned(), rows: 1, reason }),
        }
    }
}

/// Approximate bytes of a statement with these rows.
fn bytes_of(rows: &RecordBatch) -> u64 {
    let fixed = |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or_default() as u64;
    rows.columns().iter().map(|column| fixed(column).max(text_bytes(column))).sum()
}

fn spec_of(meta: &TableMeta) -> Result<TableSpec> {
    let current = meta.current()?;
    let key = current.key_schema.fields().iter().map(|field| field.name().clone()).collect();
    Ok(TableSpec {
        name: meta.name.clone(),
        schema: current.schema.clone(),
        key,
        buckets: meta.buckets,
        durability: meta.durability,
        ttl_ms: meta.ttl_ms,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow_array::StringArray;

    use super::*;
    use crate::oplog::vfs::sim::SimDisk;

    #[test]
    fn rows_that_no_store_takes_are_counted_and_the_others_go_on() {
        let environment = Environment { disk: Arc::new(SimDisk::new(1)), ..Environment::default() };
        let options = StoreOptions {
            statement_bytes: 150,
            background: false,
            reserve_bytes: 0,
            ..StoreOptions::default()
        };
        let store = DiskStore::open(Path::new("/store"), options, environment).unwrap();
        let keys = ["a".to_owned(), "b".repeat(200), "c".to_owned(), "d".repeat(300)];
        let rows =
            RecordBatch::try_from_iter([("key", Arc::new(StringArray::from_iter_values(keys)) as ArrayRef)]);
        let rows = rows.unwrap();
        let table = store.create_table(TableSpec::new("t", rows.schema(), &["key"])).unwrap();
        let mut report = SalvageReport::default();
        assert_eq!(report.write_in_turn(&table, &rows, u64::MAX).unwrap(), 2);
        assert_eq!(table.version().rows(), 2);
        let [refused] = report.refused.as_slice() else { unreachable!("{:?}", report.refused) };
        assert_eq!((refused.table.as_str(), refused.rows), ("t", 2));
        assert!(refused.reason.contains("larger than 150"), "{}", refused.reason);
    }
}
