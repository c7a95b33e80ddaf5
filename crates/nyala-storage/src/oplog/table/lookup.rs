//! Rows by key.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, UInt64Array};

use super::cold::ColdKeys;
use super::{Location, RowId, SharedTable, TableState, Version};
use crate::oplog::codec::{canonical_key, fit};
use crate::oplog::error::{OplogError, Result};
use crate::oplog::unit::Keys;

/// Rows that were found by key.
#[derive(Debug, Clone)]
pub struct Found {
    /// The rows that exist, with all columns of the table.
    pub rows: RecordBatch,
    /// For each requested key, the position of its row in `rows`; none if there is no such row.
    pub positions: Vec<Option<usize>>,
    /// The LSN at which each row of `rows` was last written.
    pub versions: UInt64Array,
}

/// Locations of rows that were found by key.
#[derive(Debug, Clone)]
pub struct Located {
    /// The version that the rows are in.
    pub version: Arc<Version>,
    /// For each requested key, where its row is, to be read with [`Version::take`]; none if there is no such row.
    pub rows: Vec<Option<RowId>>,
}

impl SharedTable {
    /// Where the rows with these keys are, and the version they are in.
    pub fn locate(&self, keys: &RecordBatch, seed: u64) -> Result<Located> {
        let (keys, hashes) = self.hash(keys, seed)?;
        let (version, rows) = self.with_keys(&keys, &hashes, |state, cold| {
            let version = self.version();
            let rows = hashes.iter().enumerate().map(|(row, hash)| {
                let found = find(state, cold, *hash, &keys, row).and_then(|at| row_id(state, at));
                match found {
                    Some(id) if version.live(id).is_some() => Ok(Some(id)),
                    Some(_) => Err(OplogError::invalid("a row is not in its table's version")),
                    // A row that is not found might be in a part that cannot be read.
                    None => state.check_whole().map(|()| None),
                }
            });
            rows.collect::<Result<Vec<_>>>().map(|rows| (version, rows))
        })?;
        Ok(Located { version, rows })
    }

    /// Locations of the rows with these keys in a version that may be older than the current one; none if they are no
    /// longer known, because one of the rows was changed or moved since.
    pub fn locate_in(
        &self,
        version: &Version,
        keys: &RecordBatch,
        seed: u64,
    ) -> Result<Option<Vec<Option<RowId>>>> {
        let (keys, hashes) = self.hash(keys, seed)?;
        self.with_keys(&keys, &hashes, |state, cold| {
            let unchanged = state.lsn == version.lsn();
            let rows = hashes.iter().enumerate().map(|(row, hash)| {
                match find(state, cold, *hash, &keys, row).and_then(|at| row_id(state, at)) {
                    // Rows are written once and die once: a row that lives now and is in the given version lived then.
                    Some(id) if version.live(id).is_some() => Ok(Some(Some(id))),
                    None if unchanged => state.check_whole().map(|()| Some(None)),
                    _ => Ok(None),
                }
            });
            rows.collect()
        })
    }

    /// The versions of the rows with these keys; 0 for missing rows.
    pub fn row_versions(&self, keys: &RecordBatch, seed: u64) -> Result<Vec<u64>> {
        let Located { version, rows } = self.locate(keys, seed)?;
        let lsn = |id: &RowId| version.live(*id).map_or(0, |unit| unit.data.lsn(id.row));
        Ok(rows.iter().map(|id| id.as_ref().map_or(0, lsn)).collect())
    }

    /// The rows with these keys.
    pub fn lookup(&self, keys: &RecordBatch, seed: u64) -> Result<Found> {
        let Located { version, rows } = self.locate(keys, seed)?;
        let columns: Vec<usize> = (0..version.schema().fields().len()).collect();
        let projection = version.projection(&columns, false)?;
        let mut found: Vec<RowId> = Vec::new();
        let positions = rows.into_iter().map(|row| {
            found.push(row?);
            Some(found.len() - 1)
        });
        let positions = positions.collect();
        let lsn = |id: &RowId| version.live(*id).map_or(0, |unit| unit.data.lsn(id.row));
        let versions: UInt64Array = found.iter().map(lsn).collect::<Vec<u64>>().into();
        Ok(Found { rows: version.take(&found, &projection)?, positions, versions })
    }

    /// Runs `look` under the gate, with the comparison results for keys that are not in memory.
    fn with_keys<T>(
        &self,
        keys: &Keys,
        hashes: &[u64],
        look: impl FnOnce(&TableState, &ColdKeys) -> Result<T>,
    ) -> Result<T> {
        let mut cold = ColdKeys::default();
        loop {
            let state = self.read();
            let unknown = cold.unknown(&state, hashes);
            if unknown.is_empty() {
                return look(&state, &cold);
            }
            drop(state);
            cold.compare(unknown, keys)?;
        }
    }

    /// The requested keys, with their hashes.
    pub fn hash(&self, keys: &RecordBatch, seed: u64) -> Result<(Keys, Vec<u64>)> {
        let meta = self.meta();
        let expected = &meta.current()?.key_schema;
        let columns = expected.fields().iter().zip(keys.columns());
        let columns =
            columns.map(|(field, column)| fit(column, field.data_type()).map(|key| canonical_key(&key)));
        let columns = columns.collect::<Option<Vec<ArrayRef>>>().filter(|columns| {
            expected.fields().len() == keys.num_columns() && columns.iter().all(|key| key.null_count() == 0)
        });
        let keys = columns.and_then(|columns| Keys::of(&columns)).ok_or_else(|| {
            OplogError::invalid(format!(
                "keys of table `{}` have columns {expected:?} without nulls",
                meta.name
            ))
        })?;
        let hashes = keys.hashes(seed);
        Ok((keys, hashes))
    }
}

/// The live row with this key.
fn find(state: &TableState, cold: &ColdKeys, hash: u64, keys: &Keys, row: usize) -> Option<Location> {
    state.index.find(hash, |at| state.same(*at, hash, keys, row) && cold.is_same(*at, row))
}

fn row_id(state: &TableState, at: Location) -> Option<RowId> {
    state.unit(at).map(|unit| RowId { unit: unit.id, row: at.row })
}
