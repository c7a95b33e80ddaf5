//! Copying out of a damaged store what is whole.

use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;

use super::replay::Replayed;
use super::{DiskStore, Environment, LiveTable, StoreOptions};
use crate::oplog::error::{Damage, OplogError, Result};
use crate::oplog::files::Manifest;
use crate::oplog::meta::{TableMeta, TableSpec};
use crate::oplog::table::{SharedTable, TableState};
use crate::oplog::vfs::Folder;
use crate::oplog::write::Write;

/// What was copied, and what could not be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SalvageReport {
    /// Each table with the number of its rows that were copied.
    pub tables: Vec<(String, u64)>,
    /// What is broken. Rows in it are missing from the copy, and so are changes behind it if it is a log.
    pub damage: Vec<Damage>,
}

/// Makes a new store of what is whole in another, which nobody may have open and which is not changed. Only rows
/// that are certain to be the newest of their keys are copied. Without a manifest nothing can be.
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
    let store = DiskStore::open(target, options, environment.clone())?;
    for (_, mut state) in std::mem::take(&mut replayed.tables) {
        report.note(std::mem::take(&mut state.damage));
        report.copy(&store, state)?;
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

    fn copy(&mut self, store: &DiskStore, state: TableState) -> Result<()> {
        let meta = state.meta.clone();
        let table = store.create_table(spec_of(&meta)?)?;
        let rows = self.copy_rows(&table, SharedTable::new(state))?;
        self.tables.push((meta.name.clone(), rows));
        Ok(())
    }

    fn copy_rows(&mut self, table: &LiveTable, from: SharedTable) -> Result<u64> {
        let version: Arc<_> = from.version();
        let columns: Vec<usize> = (0..version.schema().fields().len()).collect();
        let projection = version.projection(&columns, false)?;
        let mut rows = 0;
        for part in version.parts()? {
            match projection.read(&part) {
                Ok(batch) => rows += write_all(table, batch)?,
                Err(OplogError::Damaged(damage)) => self.note([damage]),
                Err(error) => return Err(error),
            }
        }
        Ok(rows)
    }
}

/// Writes rows in as few statements as may be; gives the number of rows. A part of a unit may be larger than one.
fn write_all(table: &LiveTable, rows: RecordBatch) -> Result<u64> {
    match table.write(Write::upsert(rows.clone())) {
        Err(OplogError::Invalid { .. }) if rows.num_rows() > 1 => {
            let middle = rows.num_rows() / 2;
            let first = write_all(table, rows.slice(0, middle))?;
            Ok(first + write_all(table, rows.slice(middle, rows.num_rows() - middle))?)
        }
        done => Ok(done?.inserted),
    }
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
