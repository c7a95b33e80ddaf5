//! Summary of a unit that is known without reading it, for reports of lost rows.

use arrow_array::{Array, ArrayRef};
use arrow_cast::display::array_value_to_string;

use super::base::join;
use super::zones::{Zones, bounds};
use super::{Data, Lsns};

/// Characters kept of a key.
const KEY_CHARS: usize = 64;

/// LSNs and keys of a unit's rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The lowest and the highest LSN.
    pub lsns: (u64, u64),
    /// Bounds of the values of the first key column, if they are known.
    pub keys: Option<(String, String)>,
}

impl Facts {
    /// The facts of rows with these LSNs, and with these bounds of the first key column.
    pub fn new(lsns: &Lsns, first_key: &[&Zones]) -> Self {
        let lowest = lsns.lsns.iter().min().copied().unwrap_or_default();
        let highest = lsns.lsns.iter().max().copied().unwrap_or_default();
        Self { lsns: (lowest, highest), keys: key_range(first_key) }
    }

    /// The facts of rows in a log. Bounds of their keys are known if the keys are in memory.
    pub fn of_data(lsns: &Lsns, data: &Data, key: &[usize]) -> Self {
        let base = data.base.iter().map(|base| base.zones(*key.first()?));
        let zones = base.chain(data.chunks.iter().map(|(_, chunk)| chunk.zones(*key.first()?)));
        let zones: Option<Vec<&Zones>> = zones.collect();
        Self::new(lsns, &zones.unwrap_or_default())
    }
}

fn key_range(zones: &[&Zones]) -> Option<(String, String)> {
    let all = |column: fn(&Zones) -> &ArrayRef| {
        let pieces: Vec<ArrayRef> = zones.iter().map(|zones| column(zones).clone()).collect();
        join(&pieces).filter(|joined| joined.null_count() == 0)
    };
    let (lowest, _) = bounds(&all(|zones| &zones.lows)?)?;
    let (_, highest) = bounds(&all(|zones| &zones.highs)?)?;
    Some((text(&lowest)?, text(&highest)?))
}

/// The only value of an array, as a text.
fn text(value: &ArrayRef) -> Option<String> {
    let text = array_value_to_string(value, 0).ok().filter(|_| value.null_count() == 0)?;
    Some(text.chars().take(KEY_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::*;

    use super::*;

    fn check(keys: ArrayRef, low: &str, high: &str) {
        let zones = [keys.slice(0, 2), keys.slice(2, keys.len() - 2)].map(|keys| Zones::of(&keys).unwrap());
        let facts = Facts::new(&Lsns::one(4), &zones.iter().collect::<Vec<_>>());
        assert_eq!(facts, Facts { lsns: (4, 4), keys: Some((low.to_owned(), high.to_owned())) });
    }

    #[test]
    fn the_range_of_keys_is_known() {
        check(Arc::new(StringArray::from(vec!["m", "b", "z"])), "b", "z");
        check(Arc::new(Int64Array::from(vec![9, -3, 12, -100])), "-100", "12");
        check(Arc::new(Date32Array::from(vec![20_000, 1, 3])), "1970-01-02", "2024-10-04");
        check(Arc::new(BinaryArray::from(vec![&b"\x01\x02"[..], b"\xFF", b"\x03"])), "0102", "ff");
        let uuids = [[1; 16], [7; 16], [3; 16]];
        let uuids = FixedSizeBinaryArray::try_from_iter(uuids.into_iter()).unwrap();
        check(Arc::new(uuids), &"01".repeat(16), &"07".repeat(16));
        assert_eq!(Facts::new(&Lsns::one(4), &[]).keys, None);
    }
}
