//! Bytes that the values of an array would take, each written out.
//!
//! Values of a dictionary, runs of equal values, and views may all refer to the same bytes: a megabyte of keys and one text of a
//! megabyte are a terabyte of texts.

use arrow::array::{Array, AsArray, GenericByteViewArray, GenericListViewArray, OffsetSizeTrait};
use arrow::datatypes::{ByteViewType, DataType};

/// Bytes of a length, an offset, or a view.
const REFERENCE_BYTES: u64 = 16;

/// Bytes of all values of an array.
pub fn plain_bytes(array: &dyn Array) -> u64 {
    Sizes::of(array).between(0, array.len())
}

/// Sizes of the values of an array.
enum Sizes {
    /// All values have this size.
    Each(u64),
    /// The sum of the sizes before each value, and the sum of all at the end.
    Before(Vec<u64>),
}

impl Sizes {
    fn of(array: &dyn Array) -> Self {
        match array.data_type() {
            DataType::Utf8 => Self::of_offsets(array.as_string::<i32>().value_offsets()),
            DataType::LargeUtf8 => Self::of_offsets(array.as_string::<i64>().value_offsets()),
            DataType::Binary => Self::of_offsets(array.as_binary::<i32>().value_offsets()),
            DataType::LargeBinary => Self::of_offsets(array.as_binary::<i64>().value_offsets()),
            DataType::Utf8View => Self::of_views(array.as_string_view()),
            DataType::BinaryView => Self::of_views(array.as_binary_view()),
            DataType::FixedSizeBinary(width) => Self::Each(u64::try_from(*width).unwrap_or_default()),
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                Self::of_lists(list.value_offsets(), list.values())
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                Self::of_lists(list.value_offsets(), list.values())
            }
            DataType::Map(..) => {
                let map = array.as_map();
                Self::of_lists(map.value_offsets(), map.entries())
            }
            DataType::ListView(_) => Self::of_list_views(array.as_list_view::<i32>()),
            DataType::LargeListView(_) => Self::of_list_views(array.as_list_view::<i64>()),
            DataType::FixedSizeList(_, size) => {
                let (size, items) =
                    (usize::try_from(*size).unwrap_or(0), array.as_fixed_size_list().values());
                let items = Self::of(items);
                Self::sum((0..array.len()).map(|row| items.between(row * size, (row + 1) * size)))
            }
            DataType::Struct(_) => {
                let fields: Vec<Self> =
                    array.as_struct().columns().iter().map(|column| Self::of(column)).collect();
                let row =
                    |row| fields.iter().map(|field| field.between(row, row + 1)).fold(0, u64::saturating_add);
                Self::sum((0..array.len()).map(row))
            }
            DataType::Dictionary(..) => Self::of_dictionary(array),
            DataType::RunEndEncoded(..) => Self::of_runs(array),
            other => Self::Each(other.primitive_width().map_or(REFERENCE_BYTES, |width| width as u64)),
        }
    }

    fn of_offsets<O: OffsetSizeTrait>(offsets: &[O]) -> Self {
        let lengths = offsets.windows(2).map(|pair| match pair {
            [from, to] => (*to - *from).as_usize() as u64,
            _ => 0,
        });
        Self::sum(lengths)
    }

    fn of_views<T: ByteViewType + ?Sized>(views: &GenericByteViewArray<T>) -> Self {
        // The length is in the lowest bits of a view.
        Self::sum(views.views().iter().map(|view| u64::from(*view as u32)))
    }

    fn of_lists<O: OffsetSizeTrait>(offsets: &[O], items: &dyn Array) -> Self {
        let items = Self::of(items);
        let lists = offsets.windows(2).map(|pair| match pair {
            [from, to] => items.between(from.as_usize(), to.as_usize()),
            _ => 0,
        });
        Self::sum(lists)
    }

    fn of_list_views<O: OffsetSizeTrait>(lists: &GenericListViewArray<O>) -> Self {
        let items = Self::of(lists.values());
        let offsets = lists.value_offsets().iter().map(|offset| offset.as_usize());
        let sizes = lists.value_sizes().iter().map(|size| size.as_usize());
        Self::sum(offsets.zip(sizes).map(|(offset, size)| items.between(offset, offset.saturating_add(size))))
    }

    fn of_dictionary(array: &dyn Array) -> Self {
        match array.as_any_dictionary_opt().filter(|dictionary| !dictionary.values().is_empty()) {
            Some(dictionary) => {
                let values = Self::of(dictionary.values());
                let keys = dictionary.normalized_keys();
                Self::sum(keys.into_iter().map(|key| values.between(key, key + 1)))
            }
            // Without values in the dictionary, every row is null.
            None => Self::Each(REFERENCE_BYTES),
        }
    }

    /// Counts each value of a run-end encoded array with the size of the largest.
    fn of_runs(array: &dyn Array) -> Self {
        let values = array.as_any_ree_opt().map(|runs| runs.values());
        let most = values.map(|values| {
            let sizes = Self::of(values);
            (0..values.len()).map(|value| sizes.between(value, value + 1)).max().unwrap_or_default()
        });
        Self::Each(most.unwrap_or(REFERENCE_BYTES))
    }

    fn sum(sizes: impl Iterator<Item = u64>) -> Self {
        let mut sum = 0_u64;
        let ends = sizes.map(|size| {
            sum = sum.saturating_add(size.saturating_add(REFERENCE_BYTES));
            sum
        });
        Self::Before(std::iter::once(0).chain(ends).collect())
    }

    /// Bytes of the values `from..to`.
    fn between(&self, from: usize, to: usize) -> u64 {
        match self {
            Self::Each(size) => size.saturating_mul(to.saturating_sub(from) as u64),
            Self::Before(sums) => {
                let at = |index: usize| sums.get(index).or(sums.last()).copied().unwrap_or_default();
                at(to).saturating_sub(at(from))
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        Array, DictionaryArray, Int8Array, Int32Array, ListArray, RunArray, StringArray, StringViewArray,
    };
    use arrow::datatypes::Int32Type;

    use super::*;

    /// `rows` values of which each has `bytes` bytes.
    fn check(array: &dyn Array, rows: u64, bytes: u64) {
        let plain = plain_bytes(array);
        assert!((rows * bytes..=rows * (bytes + 40)).contains(&plain), "{plain} of {}", array.data_type());
    }

    #[test]
    fn values_that_share_bytes_count_each_for_itself() {
        let text = Arc::new(StringArray::from(vec!["x".repeat(1000)]));
        check(text.as_ref(), 1, 1000);
        check(&DictionaryArray::new(Int8Array::from(vec![0; 500]), text.clone()), 500, 1000);
        check(
            &RunArray::<Int32Type>::try_new(&Int32Array::from(vec![1_000_000]), text.as_ref()).unwrap(),
            1_000_000,
            1000,
        );
        let views: StringViewArray = std::iter::repeat_n(Some("y".repeat(100)), 50).collect();
        check(&views, 50, 100);
    }

    #[test]
    fn nested_values_count_with_what_is_in_them() {
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some(vec![Some(1); 100]); 10]);
        check(&lists, 10, 400);
        check(&lists.slice(2, 3), 3, 400);
        check(&Int8Array::from(vec![1; 7]), 7, 1);
    }
}
