//! How large texts and blobs are once each has bytes of its own. Views, dictionaries and runs may share them, so that a
//! few megabytes in memory are gigabytes on disk.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int32Type, Int64Type, RunEndIndexType};
use arrow_array::{Array, GenericListArray, OffsetSizeTrait};
use arrow_schema::DataType;

/// Bytes of all texts and blobs of an array, each counted as often as it is there. A statement with the array is never
/// smaller.
pub fn text_bytes(array: &dyn Array) -> u64 {
    match array.data_type() {
        DataType::Struct(_) => array.as_struct().columns().iter().map(|child| text_bytes(child)).sum(),
        DataType::List(_) => of_list(array.as_list::<i32>()),
        DataType::LargeList(_) => of_list(array.as_list::<i64>()),
        DataType::FixedSizeList(..) => text_bytes(array.as_fixed_size_list().values()),
        DataType::Map(..) => {
            let map = array.as_map();
            let (from, to) = ends(map.value_offsets());
            text_bytes(&map.entries().slice(from, to - from))
        }
        _ => lengths(array).iter().sum(),
    }
}

fn of_list<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> u64 {
    let (from, to) = ends(list.value_offsets());
    text_bytes(&list.values().slice(from, to - from))
}

/// Where the values of the first row begin, and those of the last one end.
fn ends<O: OffsetSizeTrait>(offsets: &[O]) -> (usize, usize) {
    let from = offsets.first().map_or(0, |offset| offset.as_usize());
    (from, offsets.last().map_or(from, |offset| offset.as_usize()))
}

/// The length of each row's value; empty for types other than text and blob.
fn lengths(array: &dyn Array) -> Vec<u64> {
    let mut lengths = match array.data_type() {
        DataType::Utf8View => of_views(array.as_string_view().views()),
        DataType::BinaryView => of_views(array.as_binary_view().views()),
        DataType::Utf8 => of_offsets(array.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => of_offsets(array.as_string::<i64>().value_offsets()),
        DataType::Binary => of_offsets(array.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => of_offsets(array.as_binary::<i64>().value_offsets()),
        DataType::Dictionary(..) => of_dictionary(array),
        DataType::RunEndEncoded(run_ends, _) => match run_ends.data_type() {
            DataType::Int16 => of_runs::<Int16Type>(array),
            DataType::Int32 => of_runs::<Int32Type>(array),
            _ => of_runs::<Int64Type>(array),
        },
        _ => Vec::new(),
    };
    if let Some(nulls) = array.nulls() {
        let of_nulls = lengths.iter_mut().zip(nulls.iter()).filter(|(_, valid)| !valid);
        of_nulls.for_each(|(length, _)| *length = 0);
    }
    lengths
}

/// The low 32 bits of a view are its length.
fn of_views(views: &[u128]) -> Vec<u64> {
    views.iter().map(|view| u64::from(*view as u32)).collect()
}

fn of_offsets<O: OffsetSizeTrait>(offsets: &[O]) -> Vec<u64> {
    let ends = offsets.iter().skip(1);
    offsets.iter().zip(ends).map(|(from, to)| to.as_usize().saturating_sub(from.as_usize()) as u64).collect()
}

fn of_dictionary(array: &dyn Array) -> Vec<u64> {
    let Some(dictionary) = array.as_any_dictionary_opt() else { return Vec::new() };
    let values = lengths(dictionary.values());
    if values.is_empty() {
        return values;
    }
    let keys = dictionary.normalized_keys().into_iter();
    keys.map(|key| values.get(key).copied().unwrap_or_default()).collect()
}

fn of_runs<R: RunEndIndexType>(array: &dyn Array) -> Vec<u64> {
    let Some(runs) = array.as_run_opt::<R>() else { return Vec::new() };
    let values = lengths(runs.values());
    if values.is_empty() {
        return values;
    }
    let rows = (0..runs.len()).map(|row| runs.get_physical_index(row));
    rows.map(|row| values.get(row).copied().unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::builder::{ListBuilder, StringViewBuilder};
    use arrow_array::types::Int8Type;
    use arrow_array::*;

    use super::*;

    #[test]
    fn shared_values_count_as_often_as_they_are_there() {
        let long = "a text that is longer than what fits into a view";
        let bytes = long.len() as u64;
        let texts: StringViewArray = [Some(long), None, Some("b"), Some(long)].into_iter().collect();
        assert_eq!(text_bytes(&texts), 2 * bytes + 1);
        assert_eq!(text_bytes(&texts.slice(1, 2)), 1);
        let dictionary: DictionaryArray<Int8Type> = [Some(long), None, Some(long)].into_iter().collect();
        assert_eq!(text_bytes(&dictionary), 2 * bytes);
        let ends = Int32Array::from(vec![3, 4]);
        let runs = RunArray::<Int32Type>::try_new(&ends, &StringArray::from(vec![long, "b"])).unwrap();
        assert_eq!(text_bytes(&runs), 3 * bytes + 1);
        assert_eq!(text_bytes(&StringArray::from(vec![Some("abc"), None, Some("d")])), 4);
        assert_eq!(text_bytes(&Int64Array::from(vec![1, 2])), 0);
        let mut lists = ListBuilder::new(StringViewBuilder::new());
        lists.append_value([Some("ab"), Some("c")]);
        lists.append_value([Some("defg")]);
        let lists = lists.finish();
        assert_eq!(text_bytes(&lists), 7);
        assert_eq!(text_bytes(&lists.slice(1, 1)), 4);
        let field = Arc::new(arrow_schema::Field::new("a", DataType::Utf8, true));
        let child: ArrayRef = Arc::new(StringArray::from(vec!["x", "yz"]));
        assert_eq!(text_bytes(&StructArray::from(vec![(field, child)])), 3);
    }
}
