//! Some rows of a version, by their locations.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow_schema::{ArrowError, DataType};
use arrow_select::interleave::interleave;

use super::{Projection, Version};
use crate::oplog::error::{OplogError, Result};
use crate::oplog::meta::TableMeta;
use crate::oplog::unit::UnitView;

/// Where a row is in a version. It is not valid in another version: rewriting moves rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowId {
    pub(super) unit: u64,
    pub(super) row: u32,
}

/// Rows in one array, each with its position in the request.
#[derive(Debug)]
struct Group {
    unit: Arc<UnitView>,
    chunk: Option<usize>,
    rows: Vec<u32>,
    asked: Vec<usize>,
}

impl Version {
    /// The values of some rows, in the order in which they are given; a row may be given twice. Columns in memory
    /// are used as they are. Of other columns only the blocks that hold these rows are read and verified, unless that is
    /// much of the column. Rows in a log that is not read yet come into memory with the whole log.
    pub fn take(&self, rows: &[RowId], projection: &Projection) -> Result<RecordBatch> {
        let failed = |error: ArrowError| OplogError::invalid(error.to_string());
        let groups = self.groups(rows)?;
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(projection.schema().fields().len());
        for (id, data_type) in projection.ids() {
            columns.push(gather(self.meta(), &groups, *id, data_type, rows.len())?);
        }
        if projection.row_version() {
            let mut lsns = vec![0; rows.len()];
            for group in &groups {
                for (row, at) in group.rows.iter().zip(&group.asked) {
                    if let Some(lsn) = lsns.get_mut(*at) {
                        *lsn = group.unit.data.lsn(*row);
                    }
                }
            }
            columns.push(Arc::new(UInt64Array::from(lsns)));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        RecordBatch::try_new_with_options(projection.schema().clone(), columns, &options).map_err(failed)
    }

    /// The rows by the arrays that hold them.
    fn groups(&self, rows: &[RowId]) -> Result<Vec<Group>> {
        let mut groups: BTreeMap<(u64, Option<usize>), Group> = BTreeMap::new();
        for (asked, id) in rows.iter().enumerate() {
            let unit = self.live(*id).ok_or_else(|| {
                OplogError::invalid("a row was found in another version of its table; look it up again")
            })?;
            let chunk = unit.chunk_of(id.row);
            let group = groups.entry((id.unit, chunk));
            let group = group.or_insert_with(|| Group {
                unit: unit.clone(),
                chunk,
                rows: Vec::new(),
                asked: Vec::new(),
            });
            group.rows.push(id.row);
            group.asked.push(asked);
        }
        Ok(groups.into_values().collect())
    }

    /// The unit of a row that lives in this version.
    pub(super) fn live(&self, id: RowId) -> Option<&Arc<UnitView>> {
        let unit = self.unit(id.unit)?;
        (id.row < unit.rows && !unit.dead.contains(id.row)).then_some(unit)
    }
}

/// One column of all rows, in the order of the request.
fn gather(
    table: &TableMeta,
    groups: &[Group],
    id: u32,
    data_type: &DataType,
    rows: usize,
) -> Result<ArrayRef> {
    let (mut arrays, mut places) = (Vec::with_capacity(groups.len()), vec![(0, 0); rows]);
    for (number, group) in groups.iter().enumerate() {
        let gathered = group.unit.gather(group.chunk, id, data_type, &group.rows);
        let gathered = gathered.map_err(|error| group.unit.explain(table, error))?;
        for (at, asked) in gathered.at.iter().zip(&group.asked) {
            if let Some(place) = places.get_mut(*asked) {
                *place = (number, *at);
            }
        }
        arrays.push(gathered.array);
    }
    if arrays.is_empty() {
        return Ok(arrow_array::new_empty_array(data_type));
    }
    let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
    interleave(&arrays, &places).map_err(|error| OplogError::invalid(error.to_string()))
}
