//! The values of a column in memory: plain, as short distances, or as short keys into a dictionary.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, UInt8Array, UInt16Array,
    UInt32Array,
};
use arrow::buffer::BooleanBuffer;
use arrow::compute::take;
use arrow::datatypes::{DataType, UInt8Type, UInt16Type, UInt32Type};
use datafusion::error::Result;

use super::frame_of_reference::FrameOfReference;
use super::search::Keys;
use super::selection::Selection;

/// All values of a column.
#[derive(Debug)]
pub enum Stored {
    Plain(ArrayRef),
    FrameOfReference(FrameOfReference),
    /// Dictionary: keys of one, two or four bytes into values in ascending order, of which the last may be NULL, so that keys
    /// compare as their values do. They are not one dictionary array, because slicing that takes much of the time to read a
    /// block.
    Folded {
        keys: ArrayRef,
        values: ArrayRef,
    },
}

impl Stored {
    /// A dictionary with these keys, which become as short as the number of values allows.
    pub fn folded(keys: Vec<u32>, values: ArrayRef) -> Self {
        let keys: ArrayRef = if values.len() <= usize::from(u8::MAX) + 1 {
            Arc::new(UInt8Array::from_iter_values(keys.into_iter().map(|key| key as u8)))
        } else if values.len() <= usize::from(u16::MAX) + 1 {
            Arc::new(UInt16Array::from_iter_values(keys.into_iter().map(|key| key as u16)))
        } else {
            Arc::new(UInt32Array::from(keys))
        };
        Self::Folded { keys: compact(&keys), values }
    }

    /// Values of which few are equal.
    pub fn various(values: &ArrayRef) -> Self {
        FrameOfReference::of(values).map_or_else(|| Self::Plain(compact(values)), Self::FrameOfReference)
    }

    pub fn bytes(&self) -> usize {
        match self {
            Self::Plain(values) => values.get_array_memory_size(),
            Self::FrameOfReference(values) => values.bytes(),
            Self::Folded { keys, values } => keys.get_array_memory_size() + values.get_array_memory_size(),
        }
    }

    /// Keys and values of the dictionary; none if the column has none.
    pub fn folds(&self) -> Option<(&ArrayRef, &ArrayRef)> {
        match self {
            Self::Folded { keys, values } => Some((keys, values)),
            _ => None,
        }
    }

    /// Calls `tell` with each of some rows and its key, if the column has a dictionary.
    pub fn each_key(&self, rows: &Selection, tell: impl FnMut(usize, u32)) {
        let Some((keys, _)) = self.folds() else { return };
        match keys.data_type() {
            DataType::UInt8 => tell_keys(keys.as_primitive::<UInt8Type>(), rows, tell),
            DataType::UInt16 => tell_keys(keys.as_primitive::<UInt16Type>(), rows, tell),
            _ => tell_keys(keys.as_primitive::<UInt32Type>(), rows, tell),
        }
    }

    /// The values of some rows.
    pub fn values(&self, rows: &Selection) -> Result<ArrayRef> {
        Ok(match self {
            Self::Plain(values) => picked(values, rows)?,
            Self::FrameOfReference(values) => values.values(rows)?,
            Self::Folded { keys, values } => take(values, &picked(keys, rows)?, None)?,
        })
    }

    /// For which of some rows a condition on this column holds. `search` finds the different values that it keeps without
    /// evaluating each; `decide` evaluates it on values, and returns no nulls. None if neither can.
    pub fn holds(
        &self,
        rows: &Selection,
        search: impl Fn(&ArrayRef) -> Option<Keys>,
        decide: impl Fn(&ArrayRef) -> Option<BooleanArray>,
    ) -> Option<BooleanArray> {
        let Self::Folded { keys, values } = self else { return decide(&self.values(rows).ok()?) };
        let kept = match search(values) {
            Some(kept) => kept,
            // Evaluating few rows is faster than evaluating many values.
            None if values.len() >= rows.rows() => return decide(&self.values(rows).ok()?),
            None => Keys::of(decide(values)?.values()),
        };
        match keys.data_type() {
            DataType::UInt8 => Some(look_up(keys.as_primitive::<UInt8Type>(), values.len(), &kept, rows)),
            DataType::UInt16 => Some(look_up(keys.as_primitive::<UInt16Type>(), values.len(), &kept, rows)),
            _ => Some(look_up(keys.as_primitive_opt::<UInt32Type>()?, values.len(), &kept, rows)),
        }
    }
}

/// The values in the selected rows.
pub fn picked(values: &ArrayRef, rows: &Selection) -> Result<ArrayRef> {
    match rows {
        Selection::Range(range) => Ok(values.slice(range.start, range.len())),
        Selection::Places(places) => Ok(take(values, places, None)?),
    }
}

fn tell_keys<T>(keys: &PrimitiveArray<T>, rows: &Selection, mut tell: impl FnMut(usize, u32))
where
    T: ArrowPrimitiveType,
    T::Native: Into<u32>,
{
    match rows {
        Selection::Range(range) => {
            let keys = keys.values().get(range.clone()).unwrap_or_default();
            keys.iter().enumerate().for_each(|(row, key)| tell(row, (*key).into()));
        }
        Selection::Places(places) => {
            for (row, place) in places.values().iter().enumerate() {
                if let Some(key) = keys.values().get(*place as usize) {
                    tell(row, (*key).into());
                }
            }
        }
    }
}

/// A table of all keys pays with up to this many entries for each row: filling it is a copy of zeros, while searching a key
/// among several ranges takes branches.
const ENTRIES_PER_ROW: usize = 8;

/// Which rows have a kept key. Keys are below `values`.
fn look_up<T>(keys: &PrimitiveArray<T>, values: usize, kept: &Keys, rows: &Selection) -> BooleanArray
where
    T: ArrowPrimitiveType,
    T::Native: Into<u32>,
{
    match kept.ranges() {
        [only] => collect(keys, rows, |key| only.contains(&key)),
        ranges if values <= rows.rows().saturating_mul(ENTRIES_PER_ROW) => {
            let mut table = vec![false; values];
            for range in ranges {
                table.get_mut(range.clone()).unwrap_or_default().fill(true);
            }
            collect(keys, rows, |key| table.get(key).copied().unwrap_or_default())
        }
        _ => collect(keys, rows, |key| kept.contains(key)),
    }
}

fn collect<T>(keys: &PrimitiveArray<T>, rows: &Selection, kept: impl Fn(usize) -> bool) -> BooleanArray
where
    T: ArrowPrimitiveType,
    T::Native: Into<u32>,
{
    let of = |row: usize| keys.values().get(row).is_some_and(|key| kept((*key).into() as usize));
    let held = match rows {
        Selection::Range(range) => BooleanBuffer::collect_bool(range.len(), |at| of(range.start + at)),
        Selection::Places(places) => {
            let places = places.values();
            BooleanBuffer::collect_bool(places.len(), |at| {
                places.get(at).is_some_and(|row| of(*row as usize))
            })
        }
    };
    BooleanArray::new(held, None)
}

/// The values without spare capacity.
pub fn compact(values: &ArrayRef) -> ArrayRef {
    let mut values: ArrayRef = match values.data_type() {
        DataType::Utf8View => Arc::new(values.as_string_view().gc()),
        DataType::BinaryView => Arc::new(values.as_binary_view().gc()),
        _ => Arc::clone(values),
    };
    values.shrink_to_fit();
    values
}
