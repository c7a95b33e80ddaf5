//! Some thousand rows of a column in memory: plain, or folded to short keys into a dictionary.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, UInt16Array, UInt32Array,
    downcast_integer_array, downcast_temporal_array, new_null_array,
};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{cast, concat, take};
use arrow::datatypes::{DataType, Decimal128Type, UInt8Type, UInt16Type};
use datafusion::error::Result;

use super::picked::Part;

/// Most values of a dictionary whose keys are single bytes.
const NARROW_VALUES: usize = 256;
/// A dictionary pays if each of its values stands for this many rows on average.
const REPETITION: usize = 4;

/// Some rows of a column.
#[derive(Debug)]
pub(super) enum Chunk {
    Plain(ArrayRef),
    /// Keys of one or two bytes into values. Not as one dictionary array, because slicing that costs a good
    /// part of what reading a block does.
    Folded {
        keys: ArrayRef,
        values: ArrayRef,
    },
}

impl Chunk {
    /// The values, folded if they are of a kind that repeats and that takes much less memory.
    pub(super) fn of(values: &ArrayRef) -> Self {
        let folded = if is_repeating(values.data_type()) { fold(values) } else { None };
        folded.unwrap_or_else(|| Self::Plain(compact(values)))
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Plain(values) => values.get_array_memory_size(),
            Self::Folded { keys, values } => keys.get_array_memory_size() + values.get_array_memory_size(),
        }
    }

    pub(super) fn values(&self, part: &Part) -> Result<ArrayRef> {
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
    pub(super) fn holds(
        &self,
        part: &Part,
        decide: impl Fn(&ArrayRef) -> Option<BooleanArray>,
    ) -> Option<BooleanArray> {
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

/// Types of dimensions, mostly, for which a dictionary may pay.
pub(super) fn is_repeating(data_type: &DataType) -> bool {
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
