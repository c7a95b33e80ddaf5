//! Finds the different values of a column, and numbers them.

use std::collections::HashMap;
use std::hash::Hash;

use arrow::array::{
    Array, ArrayRef, AsArray, UInt32Array, downcast_integer_array, downcast_temporal_array, new_empty_array,
};
use arrow::compute::{SortOptions, sort_to_indices, take};
use arrow::datatypes::{DataType, Decimal128Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;

use super::sorted::Sorted;
use super::stored::{Stored, compact};

/// A dictionary pays if each of its values stands for this many rows on average.
const REPETITION: usize = 4;
/// Largest number of different texts: each takes memory while the dictionary is built.
const MAX_TEXTS: usize = 1 << 18;
/// Largest number of different numbers of a dimension: their keys must be shorter than the numbers.
const MAX_NUMBERS: usize = 1 << 16;
/// Largest number of different numbers of a measure, which is read more than it is compared.
const MAX_MEASURES: usize = 1 << 8;

/// Builds a dictionary: the keys of a column's values, and the distinct values, of which NULL is one.
pub struct DictionaryBuilder {
    keys: Vec<u32>,
    values: Vec<ScalarValue>,
    /// Bytes of the values, texts included.
    value_bytes: usize,
    known: HashMap<ScalarValue, u32>,
    most: usize,
}

impl DictionaryBuilder {
    /// A builder for a column of `rows` values; none if values of its type seldom repeat.
    pub fn new(data_type: &DataType, dimension: bool, rows: usize) -> Option<Self> {
        let most = match data_type {
            _ if !is_repeating(data_type) => return None,
            _ if is_text(data_type) => MAX_TEXTS,
            _ if dimension => MAX_NUMBERS,
            _ => MAX_MEASURES,
        };
        let most = most.min(rows / REPETITION);
        let (keys, values, known) = (Vec::with_capacity(rows), Vec::new(), HashMap::new());
        Some(Self { keys, values, value_bytes: 0, known, most })
    }

    /// Adds values; false, without adding them, if the column then has too many different ones for a dictionary to pay.
    pub fn add(&mut self, values: &ArrayRef) -> Result<bool> {
        let Some(numbered) = Numbered::of(values, self.most) else { return Ok(false) };
        let mut keys = Vec::with_capacity(numbered.firsts.len());
        for first in numbered.firsts {
            let value = ScalarValue::try_from_array(values, first)?;
            let next = self.values.len() as u32;
            let key = *self.known.entry(value).or_insert_with_key(|value| {
                self.value_bytes += value.size();
                self.values.push(value.clone());
                next
            });
            keys.push(key);
        }
        if self.values.len() > self.most {
            return Ok(false);
        }
        self.keys.extend(numbered.keys.iter().filter_map(|key| keys.get(*key as usize)));
        Ok(true)
    }

    /// The values taken so far, without a dictionary; none if there are none.
    pub fn unfold(self) -> Result<Option<ArrayRef>> {
        if self.keys.is_empty() {
            return Ok(None);
        }
        let values = ScalarValue::iter_to_array(self.values)?;
        Ok(Some(take(&values, &UInt32Array::from(self.keys), None)?))
    }

    /// About how much memory the column takes so far.
    pub fn bytes(&self) -> usize {
        let width = match self.values.len() {
            0..=0x100 => 1,
            0x101..=0x1_0000 => 2,
            _ => 4,
        };
        self.keys.len() * width + self.value_bytes
    }

    /// The column, and how it is sorted.
    pub fn finish(self, data_type: &DataType) -> Result<(Stored, Option<Sorted>)> {
        if self.keys.is_empty() {
            return Ok((Stored::various(&new_empty_array(data_type)), None));
        }
        let (keys, values) = in_order(self.keys, ScalarValue::iter_to_array(self.values)?)?;
        let values = compact(&values);
        let sorted = Sorted::of(&keys, values.len());
        Ok((Stored::folded(keys, values), sorted))
    }
}

/// The keys and values after sorting the values in ascending order, NULL at the end.
fn in_order(mut keys: Vec<u32>, values: ArrayRef) -> Result<(Vec<u32>, ArrayRef)> {
    let order = sort_to_indices(&values, Some(SortOptions { descending: false, nulls_first: false }), None)?;
    let mut ranks = vec![0_u32; values.len()];
    for (rank, place) in order.values().iter().enumerate() {
        if let Some(slot) = ranks.get_mut(*place as usize) {
            *slot = rank as u32;
        }
    }
    for key in &mut keys {
        *key = ranks.get(*key as usize).copied().unwrap_or_default();
    }
    Ok((keys, take(&values, &order, None)?))
}

/// The values of an array as numbers, equal for equal values, and for each number the first row with its value.
struct Numbered {
    keys: Vec<u32>,
    firsts: Vec<usize>,
}

impl Numbered {
    /// None if there are more than `most` different values.
    fn of(values: &ArrayRef, most: usize) -> Option<Self> {
        downcast_integer_array! {
            values => Self::number(values.iter(), most),
            DataType::Boolean => Self::number(values.as_boolean().iter(), most),
            DataType::Utf8 => Self::number(values.as_string::<i32>().iter(), most),
            DataType::LargeUtf8 => Self::number(values.as_string::<i64>().iter(), most),
            DataType::Utf8View => Self::number(values.as_string_view().iter(), most),
            DataType::Decimal128(_, _) => Self::number(values.as_primitive::<Decimal128Type>().iter(), most),
            _ => downcast_temporal_array! {
                values => Self::number(values.iter(), most),
                _ => None,
            },
        }
    }

    fn number<T: Copy + Eq + Hash>(values: impl Iterator<Item = Option<T>>, most: usize) -> Option<Self> {
        let mut known: HashMap<Option<T>, u32> = HashMap::new();
        let mut numbered = Self { keys: Vec::with_capacity(values.size_hint().0), firsts: Vec::new() };
        // Cuboids are sorted: mostly a value is the one before.
        let mut last: Option<(Option<T>, u32)> = None;
        for (row, value) in values.enumerate() {
            let key = match last {
                Some((same, key)) if value == same => key,
                _ => match known.get(&value) {
                    Some(key) => *key,
                    None if numbered.firsts.len() == most => return None,
                    None => {
                        let key = u32::try_from(numbered.firsts.len()).ok()?;
                        numbered.firsts.push(row);
                        known.insert(value, key);
                        key
                    }
                },
            };
            last = Some((value, key));
            numbered.keys.push(key);
        }
        Some(numbered)
    }
}

/// Whether a dictionary may pay for values of the type, mostly a dimension's. The extremes of such values bound them in every
/// comparison; floating-point numbers are not of such a type, because of NaN.
pub fn is_repeating(data_type: &DataType) -> bool {
    data_type.is_integer()
        || is_text(data_type)
        || matches!(
            data_type,
            DataType::Boolean
                | DataType::Date32
                | DataType::Date64
                | DataType::Timestamp(_, _)
                | DataType::Decimal128(_, _)
        )
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}
