//! A unit as a reader sees it: it never changes.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, UInt64Array, new_null_array};
use arrow_buffer::BooleanBuffer;
use arrow_schema::DataType;

use super::written::written_mask;
use super::{Data, DeadRows, Gathered, LsnSet, LsnSpan, Lsns, ZONE_ROWS};
use crate::oplog::error::{Damage, LostRows, OplogError, Result};
use crate::oplog::meta::{SchemaVersion, TableMeta};

/// Some rows of a table, a number of them dead.
#[derive(Debug)]
pub struct UnitView {
    pub(crate) id: u64,
    pub(crate) schema: Arc<SchemaVersion>,
    pub(crate) rows: u32,
    pub(crate) dead: DeadRows,
    pub(crate) data: Data,
}

impl UnitView {
    pub(crate) fn live(&self) -> u32 {
        self.rows - self.dead.count()
    }

    /// Bytes in memory: columns, hashes and which rows are dead. Columns that are just being read do not count yet.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let chunks = self.data.chunks.iter().flat_map(|(_, chunk)| &chunk.columns);
        let chunks: usize = chunks.map(|column| column.get_array_memory_size()).sum();
        let base = self.data.base.as_ref().map_or(0, |base| base.memory_bytes());
        let rows = u64::from(self.rows);
        chunks as u64 + base + rows * size_of::<u64>() as u64 + rows / 8
    }

    /// Adds the lost rows to the damage in an error from reading the unit.
    pub(crate) fn explain(&self, table: &TableMeta, error: OplogError) -> OplogError {
        match (error, &self.data.base) {
            (OplogError::Damaged(damage), Some(base)) if damage.rows.is_none() => {
                let lost = LostRows::new(table, self.live(), &base.facts);
                OplogError::Damaged(Damage { rows: Some(Box::new(lost)), ..damage })
            }
            (error, _) => error,
        }
    }

    /// The unit's rows in parts, in order.
    pub(crate) fn parts(self: &Arc<Self>) -> Vec<Part> {
        let mut parts = Vec::new();
        let base_rows = self.data.base.as_ref().map_or(0, |base| base.rows());
        let chunks = self.data.chunks.iter().zip(0..);
        let chunks = chunks.map(|((start, chunk), at)| (Some(at), *start, chunk.rows));
        for (chunk, start, all) in [(None, 0, base_rows)].into_iter().chain(chunks) {
            for from in (0..all).step_by(ZONE_ROWS as usize) {
                let rows = ZONE_ROWS.min(all - from);
                parts.push(Part { unit: self.clone(), chunk, from: start + from, rows });
            }
        }
        parts
    }

    /// The chunk that holds a row, or none if it is the base.
    pub(crate) fn chunk_of(&self, row: u32) -> Option<usize> {
        match &self.data.base {
            Some(base) if row < base.rows() => None,
            _ => self.data.chunks.partition_point(|(start, _)| *start <= row).checked_sub(1),
        }
    }

    /// The values of rows of one chunk, or of the base, in a column given by its id.
    pub(crate) fn gather(
        &self,
        chunk: Option<usize>,
        id: u32,
        data_type: &DataType,
        rows: &[u32],
    ) -> Result<Gathered> {
        let Some(position) = self.schema.position(id) else {
            // The rows are older than the column.
            return Ok(Gathered { array: new_null_array(data_type, 1), at: vec![0; rows.len()] });
        };
        let missing = || OplogError::invalid("no such column");
        match chunk {
            None => self.data.base.as_ref().ok_or_else(missing)?.gather(position, rows),
            Some(chunk) => {
                let (start, chunk) = self.data.chunks.get(chunk).ok_or_else(missing)?;
                let array = chunk.columns.get(position).cloned().ok_or_else(missing)?;
                Ok(Gathered { array, at: rows.iter().map(|row| (row - start) as usize).collect() })
            }
        }
    }

    /// All values of a column, dead rows included.
    pub(crate) fn whole_column(&self, position: usize) -> Result<ArrayRef> {
        let mut pieces = Vec::new();
        if let Some(base) = &self.data.base {
            pieces.push(base.column(position)?);
        }
        pieces.extend(self.data.chunks.iter().filter_map(|(_, chunk)| chunk.columns.get(position).cloned()));
        match pieces.as_slice() {
            [one] => Ok(one.clone()),
            _ => super::base::join(&pieces).ok_or_else(|| OplogError::invalid("chunks do not fit")),
        }
    }
}

/// The known bounds of a column in a part.
#[derive(Debug)]
pub enum PartBounds {
    Unknown,
    /// All values are null.
    Nulls,
    /// The lowest and the highest value, each as an array of one, and the number of nulls.
    Known(ArrayRef, ArrayRef, u64),
}

/// Neighbouring rows of a unit, at most 65,536, to be read at once; parts can be read in parallel.
#[derive(Debug, Clone)]
pub struct Part {
    unit: Arc<UnitView>,
    chunk: Option<usize>,
    from: u32,
    rows: u32,
}

impl Part {
    /// Number of rows, dead ones included.
    pub fn rows(&self) -> usize {
        self.rows as usize
    }

    /// Whether some of the part's rows can have been written at `written`.
    pub fn may_hold(&self, written: &LsnSet) -> bool {
        let (_, _, lsns) = self.stretch();
        lsns.is_none_or(|(lsns, span)| !span.is_outside(lsns, written))
    }

    /// Values of some columns, given by their ids, and the LSNs of the rows if asked for; of all rows, dead ones
    /// included. Columns that are not in memory are read, which blocks.
    pub(crate) fn values(
        &self,
        columns: &[(u32, DataType)],
        lsns: bool,
        table: &TableMeta,
    ) -> Result<Vec<ArrayRef>> {
        let mut arrays = Vec::with_capacity(columns.len() + 1);
        for (id, data_type) in columns {
            arrays.push(match self.unit.schema.position(*id) {
                Some(position) => self.column(position).map_err(|error| self.unit.explain(table, error))?,
                None => new_null_array(data_type, self.rows()),
            });
        }
        if lsns {
            arrays.push(self.lsns());
        }
        Ok(arrays)
    }

    /// Bounds of the column with this id.
    pub(crate) fn bounds(&self, id: u32) -> PartBounds {
        let Some(position) = self.unit.schema.position(id) else { return PartBounds::Nulls };
        let (start, zones) = match self.chunk.map(|at| self.unit.data.chunks.get(at)) {
            Some(Some((start, chunk))) => (*start, chunk.zones(position)),
            Some(None) => return PartBounds::Unknown,
            None => (0, self.unit.data.base.as_ref().and_then(|base| base.zones(position))),
        };
        let zone = ((self.from - start) / ZONE_ROWS) as usize;
        match zones.filter(|zones| zone < zones.nulls.len()) {
            None => PartBounds::Unknown,
            Some(zones) => PartBounds::Known(
                zones.lows.slice(zone, 1),
                zones.highs.slice(zone, 1),
                zones.nulls.value(zone),
            ),
        }
    }

    /// Bit 1 for every live row of the part last written at `written`; none if these are all rows.
    pub(crate) fn wanted(&self, written: Option<&LsnSet>) -> Option<BooleanBuffer> {
        let live = self.unit.dead.live_mask(self.from, self.rows());
        let (start, all, lsns) = self.stretch();
        let written = match (written, lsns) {
            (Some(wanted), Some(lsns)) => written_mask(lsns, (self.from - start, self.rows, all), wanted),
            _ => None,
        };
        match (live, written) {
            (Some(live), Some(written)) => Some(&live & &written),
            (live, written) => live.or(written),
        }
    }

    fn column(&self, position: usize) -> Result<ArrayRef> {
        let missing = || OplogError::invalid("no such column");
        let (start, column) = match self.chunk {
            Some(at) => {
                let (start, chunk) = self.unit.data.chunks.get(at).ok_or_else(missing)?;
                (*start, chunk.columns.get(position).cloned().ok_or_else(missing)?)
            }
            None => (0, self.unit.data.base.as_ref().ok_or_else(missing)?.column(position)?),
        };
        Ok(column.slice((self.from - start) as usize, self.rows()))
    }

    fn lsns(&self) -> ArrayRef {
        let (start, _, lsns) = self.stretch();
        let rows = self.from - start..self.from - start + self.rows;
        let all: UInt64Array = rows.map(|row| lsns.map_or(0, |(lsns, _)| lsns.at(row))).collect();
        Arc::new(all)
    }

    /// First row, number of rows and LSNs of the chunk or base that the part belongs to.
    fn stretch(&self) -> (u32, u32, Option<(&Lsns, &LsnSpan)>) {
        match self.chunk.and_then(|at| self.unit.data.chunks.get(at)) {
            Some((start, chunk)) => (*start, chunk.rows, Some((&chunk.lsns, &chunk.lsn_span))),
            None => match &self.unit.data.base {
                Some(base) => (0, base.rows(), Some((&base.lsns, &base.lsn_span))),
                None => (0, 0, None),
            },
        }
    }
}
