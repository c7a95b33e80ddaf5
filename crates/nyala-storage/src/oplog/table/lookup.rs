//! Rows by key.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use arrow_select::concat::concat_batches;

use super::{Location, SharedTable, TableState, Version};
use crate::oplog::codec::{canonical_key, fit};
use crate::oplog::error::{OplogError, Result};
use crate::oplog::unit::{Keys, UnitView};

/// Rows that were found by key.
#[derive(Debug, Clone)]
pub struct Found {
    /// The rows that exist, with all columns of the table.
    pub rows: RecordBatch,
    /// For each key that was asked for, which of them is its row; none if there is no such row.
    pub positions: Vec<Option<usize>>,
    /// The LSN at which each of them was last written.
    pub versions: UInt64Array,
}

/// A row in a version.
type Place = Option<(Arc<UnitView>, u32)>;

impl SharedTable {
    /// Where the rows with these keys are, and the version they are in.
    fn locate(&self, keys: &Keys, hashes: &[u64]) -> Result<(Arc<Version>, Vec<Place>)> {
        self.load_keys(&[hashes])?;
        let state = self.read();
        let version = self.version();
        let found = hashes.iter().enumerate().map(|(row, hash)| {
            let at = state.find(*hash, keys, row);
            match at.map(|at| (view_of(&state, &version, at), at.row)) {
                Some((Some(unit), row)) => Ok(Some((unit, row))),
                Some((None, _)) => Err(OplogError::invalid("a row is not in its table's version")),
                // A row that is not found might be in a part that cannot be read.
                None => state.check_whole().map(|()| None),
            }
        });
        let found = found.collect::<Result<_>>()?;
        drop(state);
        Ok((version, found))
    }

    /// The versions of the rows with these keys; 0 for those that do not exist.
    pub(crate) fn row_versions(&self, keys: &RecordBatch, seed: u64) -> Result<Vec<u64>> {
        let (keys, hashes) = self.hash(keys, seed)?;
        let (_, found) = self.locate(&keys, &hashes)?;
        Ok(found.iter().map(|found| found.as_ref().map_or(0, |(unit, row)| unit.data.lsn(*row))).collect())
    }

    /// The rows with these keys.
    pub(crate) fn lookup(&self, keys: &RecordBatch, seed: u64) -> Result<Found> {
        let (keys, hashes) = self.hash(keys, seed)?;
        let (version, found) = self.locate(&keys, &hashes)?;
        let columns: Vec<usize> = (0..version.schema().fields().len()).collect();
        let projection = version.projection(&columns, false)?;
        let failed = |error: arrow_schema::ArrowError| OplogError::invalid(error.to_string());
        let (mut batches, mut positions, mut versions) = (Vec::new(), Vec::new(), Vec::new());
        for found in found {
            let Some((unit, row)) = found else {
                positions.push(None);
                continue;
            };
            positions.push(Some(versions.len()));
            versions.push(unit.data.lsn(row));
            let part = unit.part_of(row).ok_or_else(|| OplogError::invalid("no such row"))?;
            batches.push(projection.read(&part)?);
        }
        let rows = concat_batches(projection.schema(), &batches).map_err(failed)?;
        Ok(Found { rows, positions, versions: versions.into() })
    }

    /// Keys that were asked for, with their hashes.
    pub(crate) fn hash(&self, keys: &RecordBatch, seed: u64) -> Result<(Keys, Vec<u64>)> {
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

fn view_of(state: &TableState, version: &Version, at: Location) -> Option<Arc<UnitView>> {
    let id = state.unit(at)?.id;
    version.units().iter().find(|unit| unit.id == id && at.row < unit.rows).cloned()
}
