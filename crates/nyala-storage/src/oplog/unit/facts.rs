//! What is known of a unit without reading it, so that it can be told what is lost with it.

use arrow_array::{Array, ArrayRef, cast::AsArray};
use arrow_schema::DataType;

use super::Lsns;

/// Characters of a key that are kept.
const KEY_CHARS: usize = 64;

/// LSNs and keys of a unit's rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The lowest and the highest.
    pub(crate) lsns: (u64, u64),
    /// The lowest and the highest value of the first key column, if they are text or integers.
    pub(crate) keys: Option<(String, String)>,
}

impl Facts {
    pub(crate) fn new(lsns: &Lsns, first_key: Option<&ArrayRef>) -> Self {
        let lowest = lsns.lsns.iter().min().copied().unwrap_or_default();
        let highest = lsns.lsns.iter().max().copied().unwrap_or_default();
        Self { lsns: (lowest, highest), keys: first_key.and_then(key_range) }
    }
}

fn key_range(keys: &ArrayRef) -> Option<(String, String)> {
    match keys.data_type() {
        DataType::Utf8 => texts(keys.as_string::<i32>().iter().flatten()),
        DataType::LargeUtf8 => texts(keys.as_string::<i64>().iter().flatten()),
        DataType::Utf8View => texts(keys.as_string_view().iter().flatten()),
        DataType::Int32 => numbers::<i32>(keys),
        DataType::Int64 => numbers::<i64>(keys),
        DataType::UInt32 => numbers::<u32>(keys),
        DataType::UInt64 => numbers::<u64>(keys),
        _ => None,
    }
}

fn texts<'a>(texts: impl Iterator<Item = &'a str>) -> Option<(String, String)> {
    let range = texts.fold(None, |range: Option<(&str, &str)>, text| match range {
        None => Some((text, text)),
        Some((lowest, highest)) => Some((lowest.min(text), highest.max(text))),
    });
    let cut = |text: &str| text.chars().take(KEY_CHARS).collect();
    range.map(|(lowest, highest)| (cut(lowest), cut(highest)))
}

fn numbers<N: arrow_buffer::ArrowNativeType + Ord + ToString>(keys: &ArrayRef) -> Option<(String, String)> {
    let data = keys.to_data();
    let values = data.buffers().first()?.typed_data::<N>();
    let own = values.get(data.offset()..data.offset() + data.len())?;
    Some((own.iter().min()?.to_string(), own.iter().max()?.to_string()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int64Array, StringArray};

    use super::*;

    #[test]
    fn the_range_of_keys_is_known() {
        let text: ArrayRef = Arc::new(StringArray::from(vec!["m", "b", "z", "a"]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![9, -3, 12, -100]));
        let range = |low: &str, high: &str| Some((low.to_owned(), high.to_owned()));
        assert_eq!(Facts::new(&Lsns::one(4), Some(&text.slice(0, 3))).keys, range("b", "z"));
        assert_eq!(Facts::new(&Lsns::one(4), Some(&numbers.slice(0, 3))).keys, range("-3", "12"));
        assert_eq!(Facts::new(&Lsns::one(4), None).lsns, (4, 4));
    }
}
