//! One column of a hot cuboid: chunks of values, and the extremes of every block.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt64Array};
use arrow::compute::concat;
use arrow::datatypes::DataType;
use datafusion::common::{ScalarValue, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::functions_aggregate::min_max::{MaxAccumulator, MinAccumulator};
use datafusion::logical_expr::Accumulator;

use super::chunk::{Chunk, is_repeating};
use super::picked::{Part, Picked};
use super::runs::{Runs, RunsBuilder};

/// Rows that share a minimum and a maximum: the least that a query reads. Smaller blocks are skipped more
/// precisely, and cost more statistics.
pub(super) const BLOCK_ROWS: usize = 512;
/// Rows that lie in one array and share a dictionary; every chunk but the last has as many. Few enough for
/// keys of two bytes, and for building one not to hold up a query thread.
pub(super) const CHUNK_ROWS: usize = 64 * BLOCK_ROWS;

/// A column in memory.
#[derive(Debug)]
pub(super) struct HotColumn {
    chunks: Vec<Chunk>,
    /// Of dimensions only: nobody filters by states.
    pub(super) blocks: Option<BlockStatistics>,
    /// Where dimensions are sorted well enough.
    pub(super) runs: Option<Runs>,
    pub(super) bytes: usize,
}

/// A value for each block.
#[derive(Debug)]
pub(super) struct BlockStatistics {
    pub(super) min: ArrayRef,
    pub(super) max: ArrayRef,
    pub(super) nulls: ArrayRef,
}

impl HotColumn {
    /// The values of some rows.
    pub(super) fn values(&self, rows: &Picked) -> Result<ArrayRef> {
        let mut parts = Vec::with_capacity(rows.parts.len());
        for (number, part) in &rows.parts {
            let chunk = self.chunks.get(*number);
            let chunk =
                chunk.ok_or_else(|| internal_datafusion_err!("a hot column has no chunk {number}"))?;
            parts.push(chunk.values(part)?);
        }
        match (parts.pop(), parts.is_empty(), self.chunks.first()) {
            (Some(only), true, _) => Ok(only),
            (Some(last), false, _) => {
                parts.push(last);
                let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
                Ok(concat(&parts)?)
            }
            (None, _, Some(chunk)) => chunk.values(&Part::Range(0..0)),
            (None, _, None) => Err(internal_datafusion_err!("a hot column has no chunks")),
        }
    }
}

impl HotColumn {
    /// For which of some rows a condition on this column holds. `decide` tells for which of some values; if it cannot,
    /// there is no answer.
    pub(super) fn holds(
        &self,
        rows: &Picked,
        decide: impl Fn(&ArrayRef) -> Option<BooleanArray>,
    ) -> Option<BooleanArray> {
        let mut parts = Vec::with_capacity(rows.parts.len());
        for (number, part) in &rows.parts {
            parts.push(self.chunks.get(*number)?.holds(part, &decide)?);
        }
        match &parts[..] {
            [] => Some(BooleanArray::new_null(0)),
            [only] => Some(only.clone()),
            parts => {
                let parts: Vec<&dyn Array> = parts.iter().map(|part| part as &dyn Array).collect();
                concat(&parts).ok()?.as_boolean_opt().cloned()
            }
        }
    }
}

/// Collects the chunks of a column.
pub(super) struct ColumnBuilder {
    chunks: Vec<Chunk>,
    extremes: Option<Extremes>,
    runs: Option<RunsBuilder>,
    bytes: usize,
}

#[derive(Default)]
struct Extremes {
    min: Vec<ScalarValue>,
    max: Vec<ScalarValue>,
    nulls: Vec<u64>,
}

impl ColumnBuilder {
    pub(super) fn new(data_type: &DataType, dimension: bool) -> Self {
        let extremes = (dimension && is_ordered(data_type)).then(Extremes::default);
        let runs = (dimension && is_ordered(data_type)).then(RunsBuilder::new);
        Self { chunks: Vec::new(), extremes, runs, bytes: 0 }
    }

    /// Adds the next chunk, and says how many bytes the column has now.
    pub(super) fn push(&mut self, values: &ArrayRef) -> usize {
        if self.extremes.as_mut().is_some_and(|extremes| extremes.add(values).is_err()) {
            // Without them nothing is skipped, which is slower and as right.
            self.extremes = None;
        }
        self.runs = self.runs.take().and_then(|runs| runs.add(values));
        let chunk = Chunk::of(values);
        self.bytes += chunk.bytes();
        self.chunks.push(chunk);
        self.bytes
    }

    pub(super) fn finish(self) -> Result<HotColumn> {
        let blocks = self.extremes.map(Extremes::finish).transpose()?.flatten();
        let runs = self.runs.map(RunsBuilder::finish).transpose()?.flatten();
        let statistics =
            blocks.as_ref().map_or(0, BlockStatistics::bytes) + runs.as_ref().map_or(0, Runs::bytes);
        Ok(HotColumn { chunks: self.chunks, blocks, runs, bytes: self.bytes + statistics })
    }
}

impl Extremes {
    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        let mut start = 0;
        while start < values.len() {
            let block = values.slice(start, BLOCK_ROWS.min(values.len() - start));
            start += BLOCK_ROWS;
            self.nulls.push(block.null_count() as u64);
            let mut min = MinAccumulator::try_new(block.data_type())?;
            let mut max = MaxAccumulator::try_new(block.data_type())?;
            let block = [block];
            min.update_batch(&block)?;
            max.update_batch(&block)?;
            self.min.push(min.evaluate()?);
            self.max.push(max.evaluate()?);
        }
        Ok(())
    }

    fn finish(self) -> Result<Option<BlockStatistics>> {
        if self.min.is_empty() {
            return Ok(None);
        }
        Ok(Some(BlockStatistics {
            min: ScalarValue::iter_to_array(self.min)?,
            max: ScalarValue::iter_to_array(self.max)?,
            nulls: Arc::new(UInt64Array::from(self.nulls)),
        }))
    }
}

impl BlockStatistics {
    fn bytes(&self) -> usize {
        [&self.min, &self.max, &self.nulls].iter().map(|array| array.get_array_memory_size()).sum()
    }
}

/// Types whose extremes bound every value in the sense of every comparison. Floating-point numbers are not
/// among them, because of NaN.
fn is_ordered(data_type: &DataType) -> bool {
    is_repeating(data_type) || matches!(data_type, DataType::Boolean)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::{Float64Array, Int64Array, StringViewArray, UInt32Array};
    use arrow::compute::take;

    use super::*;

    fn column(values: ArrayRef) -> HotColumn {
        let mut builder = ColumnBuilder::new(values.data_type(), true);
        for start in (0..values.len()).step_by(CHUNK_ROWS) {
            // A load gives chunks that own their values.
            let rows = u32::try_from(CHUNK_ROWS.min(values.len() - start)).unwrap();
            let chunk = values.slice(start, rows as usize);
            builder.push(&take(&chunk, &UInt32Array::from_iter_values(0..rows), None).unwrap());
        }
        builder.finish().unwrap()
    }

    #[test]
    fn values_come_back_as_they_were_whatever_their_encoding() {
        let rows = CHUNK_ROWS + 5000;
        let check = |values: ArrayRef, most_bytes_per_row: usize| {
            let column = column(Arc::clone(&values));
            for range in [0..1, 1000..3000, CHUNK_ROWS - 7..CHUNK_ROWS, CHUNK_ROWS..rows, rows - 1..rows] {
                let expected = values.slice(range.start, range.len());
                let found = column.values(&Picked::ranges(std::slice::from_ref(&range))).unwrap();
                assert_eq!(&found, &expected, "{} {range:?}", values.data_type());
            }
            let apart = [3..5, 1000..1001, CHUNK_ROWS - 1..CHUNK_ROWS, CHUNK_ROWS + 1..CHUNK_ROWS + 3];
            let expected: Vec<_> = apart.iter().map(|range| values.slice(range.start, range.len())).collect();
            let expected = concat(&expected.iter().map(AsRef::as_ref).collect::<Vec<_>>()).unwrap();
            assert_eq!(&column.values(&Picked::ranges(&apart)).unwrap(), &expected, "{}", values.data_type());
            assert!(column.bytes <= most_bytes_per_row * rows, "{} {}", values.data_type(), column.bytes);
        };
        let text =
            |i: usize, distinct: usize| (i % 17 != 3).then(|| format!("a text with number {}", i % distinct));
        check(Arc::new((0..rows).map(|i| text(i, 100)).collect::<StringViewArray>()), 3);
        check(Arc::new((0..rows).map(|i| text(i, 3000)).collect::<StringViewArray>()), 16);
        check(Arc::new((0..rows).map(|i| text(i, rows)).collect::<StringViewArray>()), 64);
        check(Arc::new((0..rows).map(|i| Some(i as i64 / 500)).collect::<Int64Array>()), 2);
        check(Arc::new((0..rows).map(|i| Some(i as i64)).collect::<Int64Array>()), 9);
        check(Arc::new((0..rows).map(|i| Some(i as f64 / 3.0)).collect::<Float64Array>()), 9);
    }

    #[test]
    fn every_block_has_its_extremes() {
        let values = (0..BLOCK_ROWS as i64 * 2 + 10).map(|i| (i != 5).then_some(i));
        let blocks = column(Arc::new(values.collect::<Int64Array>())).blocks.unwrap();
        let block = BLOCK_ROWS as i64;
        assert_eq!(blocks.min.as_ref(), &Int64Array::from(vec![0, block, 2 * block]));
        assert_eq!(blocks.max.as_ref(), &Int64Array::from(vec![block - 1, 2 * block - 1, 2 * block + 9]));
        assert_eq!(blocks.nulls.as_ref(), &UInt64Array::from(vec![1, 0, 0]));
    }

    #[test]
    fn numbers_with_nan_have_no_extremes() {
        assert!(column(Arc::new(Float64Array::from(vec![1.0, f64::NAN]))).blocks.is_none());
    }
}
