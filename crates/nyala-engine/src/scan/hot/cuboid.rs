//! The columns of one cuboid that are in memory.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::compute::concat;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::internal_datafusion_err;
use datafusion::error::Result;

use super::column::{BLOCK_ROWS, CHUNK_ROWS, HotColumn};

/// Some columns of a cuboid. Immutable: further columns make another value, which shares these.
#[derive(Debug)]
pub(crate) struct HotCuboid {
    rows: usize,
    /// By position in the schema of the cuboid.
    columns: BTreeMap<usize, Arc<HotColumn>>,
}

impl HotCuboid {
    /// A cuboid of `rows` cells with the columns of `before` and those that are `new`.
    pub(super) fn extend(before: Option<&Self>, rows: usize, new: Vec<(usize, HotColumn)>) -> Self {
        let mut columns = before.map(|cuboid| cuboid.columns.clone()).unwrap_or_default();
        columns.extend(new.into_iter().map(|(position, column)| (position, Arc::new(column))));
        Self { rows, columns }
    }

    /// Cells.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Memory of its columns.
    pub(super) fn bytes(&self) -> usize {
        self.columns.values().map(|column| column.bytes).sum()
    }

    pub(super) fn column(&self, position: usize) -> Option<&Arc<HotColumn>> {
        self.columns.get(&position)
    }

    /// Those of `wanted` that are not here.
    pub(super) fn missing(&self, wanted: &[usize]) -> Vec<usize> {
        wanted.iter().filter(|position| !self.columns.contains_key(position)).copied().collect()
    }

    /// Whether all of `wanted` are here.
    pub(super) fn has(&self, wanted: &[usize]) -> bool {
        wanted.iter().all(|position| self.columns.contains_key(position))
    }

    /// How many blocks the cells fill.
    pub(super) fn blocks(&self) -> usize {
        self.rows.div_ceil(BLOCK_ROWS)
    }

    /// Rows of the blocks that are kept, as ranges of at most `most` rows, neighbours in one. No range
    /// crosses a chunk.
    pub(super) fn ranges(&self, keep: impl IntoIterator<Item = bool>, most: usize) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for (block, _) in keep.into_iter().enumerate().filter(|(_, keep)| *keep) {
            let start = block * BLOCK_ROWS;
            let end = (start + BLOCK_ROWS).min(self.rows);
            match ranges.last_mut() {
                Some(last)
                    if last.end == start
                        && !start.is_multiple_of(CHUNK_ROWS)
                        && last.len() + BLOCK_ROWS <= most.max(BLOCK_ROWS) =>
                {
                    last.end = end;
                }
                _ => ranges.push(start..end),
            }
        }
        ranges
    }

    /// The columns at `positions` of some ranges of rows, with the fields of `schema`.
    pub(super) fn batch(
        &self,
        schema: &SchemaRef,
        positions: &[usize],
        ranges: &[Range<usize>],
    ) -> Result<RecordBatch> {
        let columns = positions.iter().map(|at| self.values(*at, ranges)).collect::<Result<Vec<_>>>()?;
        let rows = ranges.iter().map(Range::len).sum();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
    }

    fn values(&self, position: usize, ranges: &[Range<usize>]) -> Result<ArrayRef> {
        let column = self.column(position);
        let column =
            column.ok_or_else(|| internal_datafusion_err!("a hot cuboid lacks column {position}"))?;
        if let [range] = ranges {
            return column.values(range);
        }
        let parts = ranges.iter().map(|range| column.values(range)).collect::<Result<Vec<_>>>()?;
        join(&parts)
    }

    /// The values of one column in those rows of `ranges` that are `kept`.
    pub(super) fn kept(
        &self,
        position: usize,
        ranges: &[Range<usize>],
        kept: &BooleanArray,
    ) -> Result<ArrayRef> {
        let column = self.column(position);
        let column =
            column.ok_or_else(|| internal_datafusion_err!("a hot cuboid lacks column {position}"))?;
        if let [range] = ranges {
            return column.kept(range, kept);
        }
        let mut start = 0;
        let mut parts = Vec::with_capacity(ranges.len());
        for range in ranges {
            let here = kept.slice(start, range.len());
            start += range.len();
            if here.has_true() {
                parts.push(column.kept(range, &here)?);
            }
        }
        join(&parts)
    }
}

fn join(parts: &[ArrayRef]) -> Result<ArrayRef> {
    let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
    Ok(concat(&parts)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_blocks_are_read_together_within_chunks() {
        let check = |blocks: &[usize], most: usize, expected: &[(usize, usize)]| {
            let cuboid = HotCuboid::extend(None, CHUNK_ROWS + 2500, Vec::new());
            let keep = (0..cuboid.blocks()).map(|block| blocks.contains(&block));
            let ranges: Vec<_> = cuboid.ranges(keep, most).iter().map(|r| (r.start, r.end)).collect();
            assert_eq!(ranges, expected, "{blocks:?}");
        };
        check(&[], 8192, &[]);
        check(&[0, 1, 4], 8192, &[(0, 1024), (2048, 2560)]);
        check(&[0, 1, 2], 1024, &[(0, 1024), (1024, 1536)]);
        check(&[0, 1], 16, &[(0, 512), (512, 1024)]);
        check(&[63, 64], 8192, &[(CHUNK_ROWS - 512, CHUNK_ROWS), (CHUNK_ROWS, CHUNK_ROWS + 512)]);
        check(&[68], 8192, &[(CHUNK_ROWS + 2048, CHUNK_ROWS + 2500)]);
    }
}
