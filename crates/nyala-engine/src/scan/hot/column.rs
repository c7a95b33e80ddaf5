//! One column of a hot cuboid: chunks of values, and the extremes of every block.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, UInt16Array, UInt32Array,
    UInt64Array, downcast_integer_array, downcast_temporal_array, new_null_array,
};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{cast, concat, take};
use arrow::datatypes::{DataType, Decimal128Type, UInt8Type, UInt16Type};
use datafusion::common::{ScalarValue, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::functions_aggregate::min_max::{MaxAccumulator, MinAccumulator};
use datafusion::logical_expr::Accumulator;

use super::picked::{Part, Picked};
use super::runs::{Runs, RunsBuilder};

/// Rows that share a minimum and a maximum: the least that a query reads. Smaller blocks are skipped more
/// precisely, and cost more statistics.
pub(super) const BLOCK_ROWS: usize = 512;
/// Rows that lie in one array and share a dictionary; every chunk but the last has as many. Few enough for
/// keys of two bytes, and for building one not to hold up a query thread.
pub(super) const CHUNK_ROWS: usize = 64 * BLOCK_ROWS;

/// Most values of a dictionary whose keys are single bytes.
const NARROW_VALUES: usize = 256;
/// A dictionary pays if each of its values stands for this many rows on average.
const REPETITION: usize = 4;

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

/// Some rows of a column.
#[derive(Debug)]
enum Chunk {
    Plain(ArrayRef),
    /// Keys of one or two bytes into values. Not as one dictionary array, because slicing that costs a good
    /// part of what reading a block does.
    Folded {
        keys: ArrayRef,
        values: ArrayRef,
    },
}

impl Chunk {
    fn bytes(&self) -> usize {
        match self {
            Self::Plain(values) => values.get_array_memory_size(),
            Self::Folded { keys, values } => keys.get_array_memory_size() + values.get_array_memory_size(),
        }
    }

    fn values(&self, part: &Part) -> Result<ArrayRef> {
        let picked = |values: &ArrayRef| match part {
            Part::Range(range) => Ok(values.slice(range.start, range.len())),
            Part::Places(places) => take(values, places, None),
        };
        Ok(match self {
            Self::Plain(values) => picked(values)?,
            Self::Folded { keys, values } => take(values, &picked(keys)?, None)?,
        })
    }

    /// Decides for each value of a dictionary, unless there are fewer rows than that.
    fn holds(&self, part: &Part, decide: impl Fn(&ArrayRef) -> Option<BooleanArray>) -> Option<BooleanArray> {
        let (keys, values) = match self {
            Self::Folded { keys, values } if values.len() < part.len() => (keys, values),
            _ => return decide(&self.values(part).ok()?),
        };
        let values = if keys.null_count() == 0 {
            Arc::clone(values)
        } else {
            let null = new_null_array(values.data_type(), 1);
            concat(&[values.as_ref(), null.as_ref()]).ok()?
        };
        let kept: Vec<bool> = decide(&values)?.iter().map(|kept| kept.unwrap_or(false)).collect();
        match keys.data_type() {
            DataType::UInt8 => Some(look_up(keys.as_primitive::<UInt8Type>(), &kept, part)),
            _ => Some(look_up(keys.as_primitive_opt::<UInt16Type>()?, &kept, part)),
        }
    }
}

/// What is said of the value that each key points to. That of NULL is the last.
fn look_up<T>(keys: &PrimitiveArray<T>, kept: &[bool], part: &Part) -> BooleanArray
where
    T: ArrowPrimitiveType,
    T::Native: Into<usize>,
{
    let of = |row: usize| {
        let key = match keys.is_null(row) {
            true => kept.len().saturating_sub(1),
            false => keys.values().get(row).map_or(usize::MAX, |key| (*key).into()),
        };
        kept.get(key).copied().unwrap_or(false)
    };
    let held = match part {
        Part::Range(range) => BooleanBuffer::collect_bool(range.len(), |at| of(range.start + at)),
        Part::Places(places) => {
            let places = places.values();
            BooleanBuffer::collect_bool(places.len(), |at| {
                places.get(at).is_some_and(|row| of(*row as usize))
            })
        }
    };
    BooleanArray::new(held, None)
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
        let chunk = if is_repeating(values.data_type()) { fold(values) } else { None };
        let chunk = chunk.unwrap_or_else(|| Chunk::Plain(compact(values)));
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

/// Types of dimensions, mostly, for which a dictionary may pay.
fn is_repeating(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(
            data_type,
            DataType::Date32
                | DataType::Date64
                | DataType::Timestamp(_, _)
                | DataType::Decimal128(_, _)
                | DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Utf8View
        )
}

/// The values as keys into a dictionary, if that takes much less memory.
fn fold(values: &ArrayRef) -> Option<Chunk> {
    let (keys, firsts) = Keys::of(values)?.finish();
    let values = compact(&take(values, &firsts, None).ok()?);
    let keys =
        if values.len() > NARROW_VALUES { Arc::new(keys) } else { cast(&keys, &DataType::UInt8).ok()? };
    Some(Chunk::Folded { keys, values })
}

/// Equal values by equal keys, and for each key a row that has its value.
struct Keys {
    keys: Vec<Option<u16>>,
    firsts: Vec<u32>,
}

impl Keys {
    /// None if there are too many values for it to pay. A chunk has fewer rows than there are keys.
    fn of(values: &ArrayRef) -> Option<Self> {
        let most = values.len() / REPETITION;
        let most_narrow = most.min(NARROW_VALUES);
        downcast_integer_array! {
            values => Self::number(values.iter(), most_narrow),
            DataType::Utf8 => Self::number(values.as_string::<i32>().iter(), most),
            DataType::LargeUtf8 => Self::number(values.as_string::<i64>().iter(), most),
            DataType::Utf8View => Self::number(values.as_string_view().iter(), most),
            DataType::Decimal128(_, _) => {
                Self::number(values.as_primitive::<Decimal128Type>().iter(), most_narrow)
            }
            _ => downcast_temporal_array! {
                values => Self::number(values.iter(), most_narrow),
                _ => None,
            },
        }
    }

    fn number<T: Copy + Eq + Hash>(values: impl Iterator<Item = Option<T>>, most: usize) -> Option<Self> {
        let mut known: HashMap<T, u16> = HashMap::new();
        let mut numbered = Self { keys: Vec::with_capacity(values.size_hint().0), firsts: Vec::new() };
        // Cuboids are sorted: mostly a value is the one before.
        let mut last: Option<(T, u16)> = None;
        for (row, value) in values.enumerate() {
            let key = match (value, last) {
                (None, _) => None,
                (Some(value), Some((same, key))) if value == same => Some(key),
                (Some(value), _) => {
                    let key = match known.get(&value) {
                        Some(key) => *key,
                        None if numbered.firsts.len() == most => return None,
                        None => {
                            let key = u16::try_from(numbered.firsts.len()).ok()?;
                            numbered.firsts.push(u32::try_from(row).ok()?);
                            known.insert(value, key);
                            key
                        }
                    };
                    last = Some((value, key));
                    Some(key)
                }
            };
            numbered.keys.push(key);
        }
        Some(numbered)
    }

    fn finish(self) -> (UInt16Array, UInt32Array) {
        (self.keys.into_iter().collect(), UInt32Array::from(self.firsts))
    }
}

/// The same values without room that was kept for more.
fn compact(values: &ArrayRef) -> ArrayRef {
    let mut values: ArrayRef = match values.data_type() {
        DataType::Utf8View => Arc::new(values.as_string_view().gc()),
        DataType::BinaryView => Arc::new(values.as_binary_view().gc()),
        _ => Arc::clone(values),
    };
    values.shrink_to_fit();
    values
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::{Float64Array, Int64Array, StringViewArray};

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
