//! One column of a hot cuboid: its values, the extremes of every block, and how it is sorted.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt64Array, new_empty_array};
use arrow::compute::concat;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_aggregate::min_max::{MaxAccumulator, MinAccumulator};
use datafusion::logical_expr::Accumulator;

use super::dictionary::{DictionaryBuilder, is_repeating};
use super::sorted::Sorted;
use super::stored::{Stored, compact};

/// Rows of a block, which share a minimum and a maximum: a query reads at least one block. Smaller blocks are skipped more
/// precisely, and cost more statistics.
pub const BLOCK_ROWS: usize = 512;

/// A column in memory.
#[derive(Debug)]
pub struct HotColumn {
    pub stored: Stored,
    /// Statistics of each block. Only dimensions have them: no query filters by states.
    pub blocks: Option<BlockStatistics>,
    /// How a dimension is sorted, if its order helps to find rows.
    sorted: Option<Sorted>,
    pub bytes: usize,
}

/// Statistics of the blocks: each array has a value for every block.
#[derive(Debug)]
pub struct BlockStatistics {
    pub min: ArrayRef,
    pub max: ArrayRef,
    pub nulls: ArrayRef,
}

impl HotColumn {
    /// Keys of all rows, the different values, and how the rows are sorted by them.
    pub fn sorted(&self) -> Option<(&ArrayRef, &ArrayRef, &Sorted)> {
        let (keys, values) = self.stored.folds()?;
        Some((keys, values, self.sorted.as_ref()?))
    }
}

/// Collects the values of a column.
pub struct ColumnBuilder {
    data_type: DataType,
    values: Values,
    extremes: Option<Extremes>,
}

/// The values so far: keys into a dictionary as long as the dictionary pays, and otherwise the values themselves.
enum Values {
    Folded(DictionaryBuilder),
    Plain(Vec<ArrayRef>),
}

#[derive(Default)]
struct Extremes {
    min: Vec<ScalarValue>,
    max: Vec<ScalarValue>,
    nulls: Vec<u64>,
}

impl ColumnBuilder {
    /// A builder for a column that will have `rows` values.
    pub fn new(data_type: &DataType, dimension: bool, rows: usize) -> Self {
        let extremes = (dimension && is_repeating(data_type)).then(Extremes::default);
        let folder = DictionaryBuilder::new(data_type, dimension, rows);
        let values = folder.map_or_else(|| Values::Plain(Vec::new()), Values::Folded);
        Self { data_type: data_type.clone(), values, extremes }
    }

    /// Adds the next values, a whole number of blocks unless they are the last.
    pub fn push(&mut self, values: ArrayRef) -> Result<()> {
        if self.extremes.as_mut().is_some_and(|extremes| extremes.add(&values).is_err()) {
            // Without statistics no block is skipped, which is slower but correct.
            self.extremes = None;
        }
        match &mut self.values {
            Values::Plain(parts) => parts.push(values),
            Values::Folded(folder) => {
                if !folder.add(&values)? {
                    let before = std::mem::replace(&mut self.values, Values::Plain(Vec::new()));
                    self.values = Values::Plain(before.parts()?.into_iter().chain([values]).collect());
                }
            }
        }
        Ok(())
    }

    /// About how much memory the column takes so far.
    pub fn bytes(&self) -> usize {
        match &self.values {
            Values::Folded(folder) => folder.bytes(),
            Values::Plain(parts) => parts.iter().map(|part| part.get_array_memory_size()).sum(),
        }
    }

    pub fn finish(self) -> Result<HotColumn> {
        let (stored, sorted) = self.values.finish(&self.data_type)?;
        let blocks = self.extremes.map(Extremes::finish).transpose()?.flatten();
        let statistics =
            blocks.as_ref().map_or(0, BlockStatistics::bytes) + sorted.as_ref().map_or(0, Sorted::bytes);
        Ok(HotColumn { bytes: stored.bytes() + statistics, stored, blocks, sorted })
    }
}

impl Values {
    fn parts(self) -> Result<Vec<ArrayRef>> {
        match self {
            Self::Folded(folder) => Ok(folder.unfold()?.into_iter().collect()),
            Self::Plain(parts) => Ok(parts),
        }
    }

    fn finish(self, data_type: &DataType) -> Result<(Stored, Option<Sorted>)> {
        match self {
            Self::Folded(folder) => folder.finish(data_type),
            Self::Plain(parts) => {
                let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
                let values = if parts.is_empty() { new_empty_array(data_type) } else { concat(&parts)? };
                Ok((Stored::various(&values), None))
            }
        }
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
            min: compact(&ScalarValue::iter_to_array(self.min)?),
            max: compact(&ScalarValue::iter_to_array(self.max)?),
            nulls: Arc::new(UInt64Array::from(self.nulls)),
        }))
    }
}

impl BlockStatistics {
    fn bytes(&self) -> usize {
        [&self.min, &self.max, &self.nulls].iter().map(|array| array.get_array_memory_size()).sum()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::single_range_in_vec_init)]
    use arrow::array::{
        AsArray, BooleanArray, Float64Array, Int64Array, StringArray, StringViewArray, UInt32Array,
    };
    use arrow::compute::take;
    use arrow::datatypes::Int64Type;

    use super::super::search::Keys;
    use super::super::selection::Selection;
    use super::*;

    const PART_ROWS: usize = 8 * BLOCK_ROWS;

    fn column(values: &ArrayRef) -> HotColumn {
        let mut builder = ColumnBuilder::new(values.data_type(), true, values.len());
        for start in (0..values.len()).step_by(PART_ROWS) {
            // Copied, because a load gives parts that own their values, too.
            let rows = u32::try_from(PART_ROWS.min(values.len() - start)).unwrap();
            let part = values.slice(start, rows as usize);
            builder.push(take(&part, &UInt32Array::from_iter_values(0..rows), None).unwrap()).unwrap();
        }
        builder.finish().unwrap()
    }

    #[test]
    fn values_come_back_as_they_were_whatever_their_encoding() {
        let rows = 8 * PART_ROWS + 500;
        let check = |values: ArrayRef, most_bytes_per_row: usize| {
            let column = column(&values);
            for range in [0..1, 1000..3000, PART_ROWS - 7..PART_ROWS, PART_ROWS..rows, rows - 1..rows] {
                let expected = values.slice(range.start, range.len());
                let found = column.stored.values(&Selection::ranges(std::slice::from_ref(&range))).unwrap();
                assert_eq!(&found, &expected, "{} {range:?}", values.data_type());
            }
            let apart = [3..5, 1000..1001, PART_ROWS - 1..PART_ROWS, PART_ROWS + 1..PART_ROWS + 3];
            let expected: Vec<_> = apart.iter().map(|range| values.slice(range.start, range.len())).collect();
            let expected = concat(&expected.iter().map(AsRef::as_ref).collect::<Vec<_>>()).unwrap();
            let found = column.stored.values(&Selection::ranges(&apart)).unwrap();
            assert_eq!(&found, &expected, "{}", values.data_type());
            assert!(column.bytes <= most_bytes_per_row * rows, "{} {}", values.data_type(), column.bytes);
        };
        let text =
            |i: usize, distinct: usize| (i % 17 != 3).then(|| format!("a text with number {}", i % distinct));
        check(Arc::new((0..rows).map(|i| text(i, 100)).collect::<StringViewArray>()), 2);
        check(Arc::new((0..rows).map(|i| text(i, 3000)).collect::<StringViewArray>()), 7);
        check(Arc::new((0..rows).map(|i| text(i, rows)).collect::<StringViewArray>()), 64);
        check(Arc::new((0..rows).map(|i| text(i, 100)).collect::<StringArray>()), 2);
        check(Arc::new((0..rows).map(|i| (i % 5 != 0).then_some(i % 2 == 0)).collect::<BooleanArray>()), 2);
        check(Arc::new((0..rows).map(|i| Some(i as i64 / 500)).collect::<Int64Array>()), 2);
        check(Arc::new((0..rows).map(|i| Some(i as i64 / 10)).collect::<Int64Array>()), 7);
        check(Arc::new((0..rows).map(|i| Some(i as i64)).collect::<Int64Array>()), 3);
        check(Arc::new((0..rows).map(|i| Some(i as i64 * 1_000_000)).collect::<Int64Array>()), 9);
        check(Arc::new((0..rows).map(|i| Some(i as f64 / 3.0)).collect::<Float64Array>()), 9);
        // The first half has one value, so that a dictionary pays at first.
        check(Arc::new((0..rows).map(|i| Some(i.max(rows / 2) as i64)).collect::<Int64Array>()), 3);
        check(Arc::new((0..rows).map(|_| None).collect::<Int64Array>()), 2);
    }

    #[test]
    fn equal_values_that_stand_together_are_remembered() {
        let values: ArrayRef = Arc::new((0..20_000).map(|row| Some(row / 100 % 7)).collect::<Int64Array>());
        let column = column(&values);
        let (keys, values, sorted) = column.sorted().unwrap();
        assert_eq!((keys.len(), values.len(), sorted.turn()), (20_000, 7, (false, 200)));
    }

    #[test]
    fn where_values_ascend_is_remembered() {
        let values: ArrayRef = Arc::new((0..20_000).map(|row| Some(row % 1_000)).collect::<Int64Array>());
        let column = column(&values);
        let (_, _, sorted) = column.sorted().unwrap();
        assert_eq!(sorted.turn(), (true, 20));
    }

    #[test]
    fn a_column_may_be_empty() {
        let column = column(&new_empty_array(&DataType::Utf8View));
        assert_eq!(column.stored.values(&Selection::ranges(&[])).unwrap().len(), 0);
    }

    #[test]
    fn keys_are_looked_up_as_values_are_compared() {
        let value = |i: usize| (i % 17 != 3).then_some(i as i64 % 300);
        let column = column(&(Arc::new((0..9_000).map(value).collect::<Int64Array>()) as ArrayRef));
        let decide = |values: &ArrayRef| {
            let values = values.as_primitive::<Int64Type>();
            Some(values.iter().map(|value| Some(value.is_some_and(|value| value < 30))).collect())
        };
        for ranges in [vec![0..9_000], vec![5..700, 800..1900], vec![1..2, 3..4, 8_000..8_100]] {
            let expected =
                ranges.iter().cloned().flatten().map(|row| value(row).is_some_and(|value| value < 30));
            let held = column.stored.holds(&Selection::ranges(&ranges), |_| None, decide).unwrap();
            assert_eq!(held, expected.map(Some).collect::<BooleanArray>());
        }
    }

    #[test]
    fn keys_are_looked_up_among_several_ranges() {
        let value = |i: usize| (i % 17 != 3).then_some(i as i64 % 300);
        let column = column(&(Arc::new((0..9_000).map(value).collect::<Int64Array>()) as ArrayRef));
        // NULL is wanted, too. It is the last of the values.
        let wanted = |value: Option<i64>| value.is_none_or(|value| value % 50 < 7);
        let found = |values: &ArrayRef| {
            Some(Keys::of(&values.as_primitive::<Int64Type>().iter().map(wanted).collect()))
        };
        // For many rows, the 301 keys are looked up in a table; for few rows, one by one.
        for ranges in [vec![0..9_000], vec![5..700, 800..1900], vec![3..40], vec![37..38, 54..55]] {
            let expected = ranges.iter().cloned().flatten().map(|row| wanted(value(row)));
            let held = column.stored.holds(&Selection::ranges(&ranges), found, |_| None).unwrap();
            assert_eq!(held, expected.map(Some).collect::<BooleanArray>(), "{ranges:?}");
        }
    }

    #[test]
    fn texts_count_with_their_length_while_they_are_brought() {
        let text = |i: usize| Some(format!("{:>1000}", i % 100));
        let values: ArrayRef = Arc::new((0..800).map(text).collect::<StringArray>());
        let mut builder = ColumnBuilder::new(values.data_type(), true, values.len());
        builder.push(values).unwrap();
        assert!(builder.bytes() > 100 * 1000, "{}", builder.bytes());
    }

    #[test]
    fn every_block_has_its_extremes() {
        let values = (0..BLOCK_ROWS as i64 * 2 + 10).map(|i| (i != 5).then_some(i));
        let blocks = column(&(Arc::new(values.collect::<Int64Array>()) as ArrayRef)).blocks.unwrap();
        let block = BLOCK_ROWS as i64;
        assert_eq!(blocks.min.as_ref(), &Int64Array::from(vec![0, block, 2 * block]));
        assert_eq!(blocks.max.as_ref(), &Int64Array::from(vec![block - 1, 2 * block - 1, 2 * block + 9]));
        assert_eq!(blocks.nulls.as_ref(), &UInt64Array::from(vec![1, 0, 0]));
    }

    #[test]
    fn numbers_with_nan_have_no_extremes() {
        let values: ArrayRef = Arc::new(Float64Array::from(vec![1.0, f64::NAN]));
        assert!(column(&values).blocks.is_none());
    }
}
