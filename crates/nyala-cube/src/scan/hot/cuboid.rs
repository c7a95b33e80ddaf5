//! The columns of one cuboid that are in memory.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::internal_datafusion_err;
use datafusion::error::Result;

use super::column::{BLOCK_ROWS, HotColumn};
use super::ranges::split;
use super::selection::Selection;

/// Some columns of a cuboid. Immutable: further columns make another value, which shares these.
#[derive(Debug)]
pub struct HotCuboid {
    rows: usize,
    /// The columns by position in the schema of the cuboid.
    columns: BTreeMap<usize, Arc<HotColumn>>,
}

impl HotCuboid {
    /// A cuboid of `rows` cells with the columns of `before` and the `new` ones.
    pub fn extend(before: Option<&Self>, rows: usize, new: Vec<(usize, HotColumn)>) -> Self {
        let mut columns = before.map(|cuboid| cuboid.columns.clone()).unwrap_or_default();
        columns.extend(new.into_iter().map(|(position, column)| (position, Arc::new(column))));
        Self { rows, columns }
    }

    /// Cells.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Memory of its columns.
    pub fn bytes(&self) -> usize {
        self.columns.values().map(|column| column.bytes).sum()
    }

    pub fn column(&self, position: usize) -> Option<&Arc<HotColumn>> {
        self.columns.get(&position)
    }

    /// The `wanted` columns that are not in memory.
    pub fn missing(&self, wanted: &[usize]) -> Vec<usize> {
        wanted.iter().filter(|position| !self.columns.contains_key(position)).copied().collect()
    }

    /// Whether all `wanted` columns are in memory.
    pub fn has(&self, wanted: &[usize]) -> bool {
        wanted.iter().all(|position| self.columns.contains_key(position))
    }

    /// How many blocks the cells fill.
    pub fn blocks(&self) -> usize {
        self.rows.div_ceil(BLOCK_ROWS)
    }

    /// Rows of the blocks that are kept, neighbours in one range.
    pub fn ranges(&self, keep: impl IntoIterator<Item = bool>) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for (block, _) in keep.into_iter().enumerate().filter(|(_, keep)| *keep) {
            let start = block * BLOCK_ROWS;
            let end = (start + BLOCK_ROWS).min(self.rows);
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => ranges.push(start..end),
            }
        }
        ranges
    }

    /// All rows, in ranges of at most `most`.
    pub fn all(&self, most: usize) -> Vec<Range<usize>> {
        split(std::slice::from_ref(&(0..self.rows)), most)
    }

    /// The columns at `positions` of some rows, with the fields of `schema`.
    pub fn batch(&self, schema: &SchemaRef, positions: &[usize], rows: &Selection) -> Result<RecordBatch> {
        let columns = positions.iter().map(|at| self.stored(*at)?.stored.values(rows));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
    }

    /// A column that must be in memory.
    pub fn stored(&self, position: usize) -> Result<&Arc<HotColumn>> {
        let column = self.column(position);
        column.ok_or_else(|| internal_datafusion_err!("a hot cuboid lacks column {position}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_blocks_are_read_together() {
        let check = |blocks: &[usize], most: usize, expected: &[(usize, usize)]| {
            let cuboid = HotCuboid::extend(None, 35_268, Vec::new());
            let keep = (0..cuboid.blocks()).map(|block| blocks.contains(&block));
            let ranges = split(&cuboid.ranges(keep), most);
            let ranges: Vec<_> = ranges.iter().map(|r| (r.start, r.end)).collect();
            assert_eq!(ranges, expected, "{blocks:?}");
        };
        check(&[], 8192, &[]);
        check(&[0, 1, 4], 8192, &[(0, 1024), (2048, 2560)]);
        check(&[0, 1, 2], 1024, &[(0, 1024), (1024, 1536)]);
        check(&[0], 500, &[(0, 500), (500, 512)]);
        check(&[68], 8192, &[(34_816, 35_268)]);
    }
}
