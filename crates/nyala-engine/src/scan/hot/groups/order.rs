//! The order in which groups are given.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::compute::{SortColumn, SortOptions, lexsort_to_indices};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::error::Result;

use super::keys::bits;

/// What groups are ordered by.
pub(super) enum Criterion {
    /// Keys below `count`, in the order of their values. That of NULL, if there is one, is the last.
    Keys {
        keys: Vec<u32>,
        count: usize,
        null: bool,
    },
    Values(ArrayRef),
}

/// Places of `rows` groups in the order of these criteria, the first before the others, at most `fetch` of them.
/// Groups that are equal in all of them come in the order in which they are.
pub(super) fn order(
    criteria: Vec<(Criterion, SortOptions)>,
    rows: usize,
    fetch: Option<usize>,
) -> Result<UInt32Array> {
    match packed(&criteria, rows) {
        Some(packed) => Ok(sorted(packed, fetch).into()),
        None => {
            let columns: Vec<SortColumn> =
                criteria.into_iter().map(|(c, options)| c.column(options)).collect();
            Ok(lexsort_to_indices(&columns, fetch)?)
        }
    }
}

/// All criteria of a group in one number, which compares as they do; none if they do not fit.
fn packed(criteria: &[(Criterion, SortOptions)], rows: usize) -> Option<Vec<u128>> {
    let mut packed = vec![0_u128; rows];
    let mut free = u128::BITS;
    for (criterion, options) in criteria {
        let width = criterion.width()?;
        free = free.checked_sub(width)?;
        criterion.each(*options, |row, rank| {
            if let Some(packed) = packed.get_mut(row) {
                *packed = packed.checked_shl(width).unwrap_or(0) | u128::from(rank);
            }
        });
    }
    Some(packed)
}

fn sorted(packed: Vec<u128>, fetch: Option<usize>) -> Vec<u32> {
    let mut places: Vec<(u128, u32)> = packed.into_iter().zip(0..).collect();
    if let Some(fetch) = fetch
        && fetch < places.len()
    {
        places.select_nth_unstable(fetch);
        places.truncate(fetch);
    }
    places.sort_unstable();
    places.into_iter().map(|(_, place)| place).collect()
}

impl Criterion {
    /// Bits of its ranks; none for values that are not numbers of 64 bits.
    fn width(&self) -> Option<u32> {
        match self {
            Self::Keys { count, .. } => Some(bits(*count)),
            Self::Values(values) => {
                (*values.data_type() == DataType::Int64 && values.null_count() == 0).then_some(u64::BITS)
            }
        }
    }

    /// Tells the rank of each group.
    fn each(&self, options: SortOptions, mut tell: impl FnMut(usize, u64)) {
        match self {
            Self::Keys { keys, count, null } => {
                let values = (count - usize::from(*null)) as u32;
                let first_values = u32::from(*null && options.nulls_first);
                for (row, key) in keys.iter().enumerate() {
                    let rank = match *key {
                        key if key >= values => {
                            if options.nulls_first {
                                0
                            } else {
                                values
                            }
                        }
                        key if options.descending => values - 1 - key + first_values,
                        key => key + first_values,
                    };
                    tell(row, rank.into());
                }
            }
            Self::Values(values) => {
                let Some(values) = values.as_primitive_opt::<Int64Type>() else { return };
                for (row, value) in values.values().iter().enumerate() {
                    // With the sign turned, numbers without a sign compare as those with it do.
                    let rank = (*value as u64) ^ (1 << 63);
                    tell(row, if options.descending { !rank } else { rank });
                }
            }
        }
    }

    fn column(self, options: SortOptions) -> SortColumn {
        let values: ArrayRef = match self {
            Self::Values(values) => values,
            Self::Keys { keys, count, null } => {
                let last = count.checked_sub(1).filter(|_| null);
                let known = |key: u32| (Some(key as usize) != last).then_some(key);
                Arc::new(keys.into_iter().map(known).collect::<UInt32Array>())
            }
        };
        SortColumn { values, options: Some(options) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::{Float64Array, Int64Array, StringViewArray};

    use super::*;

    const ALL_OPTIONS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

    fn keys(keys: &[u32], count: usize, null: bool) -> Criterion {
        Criterion::Keys { keys: keys.to_vec(), count, null }
    }

    fn options((descending, nulls_first): (bool, bool)) -> SortOptions {
        SortOptions { descending, nulls_first }
    }

    /// What arrow makes of the values that the keys stand for.
    fn expected(columns: &[(ArrayRef, SortOptions)], fetch: Option<usize>) -> UInt32Array {
        let columns = columns
            .iter()
            .map(|(values, options)| SortColumn { values: Arc::clone(values), options: Some(*options) });
        lexsort_to_indices(&columns.collect::<Vec<_>>(), fetch).unwrap()
    }

    #[test]
    fn keys_are_ordered_as_their_values_are() {
        let values = [Some("a"), Some("b"), Some("ü"), None];
        let texts = |of: &[u32]| {
            let texts = of.iter().map(|key| values.get(*key as usize).copied().flatten());
            Arc::new(texts.collect::<StringViewArray>()) as ArrayRef
        };
        let (of, sums) = ([2, 3, 0, 1, 3, 0], [5, -7, i64::MIN, i64::MAX, 0, 4]);
        let sums: ArrayRef = Arc::new(Int64Array::from(sums.to_vec()));
        for text in ALL_OPTIONS.map(options) {
            for sum in ALL_OPTIONS.map(options) {
                for fetch in [None, Some(0), Some(1), Some(4), Some(6), Some(9)] {
                    let criteria =
                        vec![(keys(&of, 4, true), text), (Criterion::Values(Arc::clone(&sums)), sum)];
                    let found = order(criteria, 6, fetch).unwrap();
                    assert_eq!(found, expected(&[(texts(&of), text), (Arc::clone(&sums), sum)], fetch));
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_into_a_number_is_compared_by_itself() {
        let floats: ArrayRef =
            Arc::new(Float64Array::from(vec![Some(1.5), None, Some(f64::NAN), Some(-0.5)]));
        for (first, second) in
            ALL_OPTIONS.map(options).into_iter().zip(ALL_OPTIONS.map(options).into_iter().rev())
        {
            let criteria =
                vec![(keys(&[1, 0, 1, 1], 2, true), first), (Criterion::Values(Arc::clone(&floats)), second)];
            let of: ArrayRef = Arc::new(UInt32Array::from(vec![None, Some(0), None, None]));
            let found = order(criteria, 4, None).unwrap();
            assert_eq!(found, expected(&[(of, first), (Arc::clone(&floats), second)], None));
        }
    }

    #[test]
    fn equal_groups_stay_where_they_are() {
        let found =
            order(vec![(keys(&[1, 0, 1, 0, 1], 2, false), options((true, false)))], 5, Some(4)).unwrap();
        assert_eq!(found, UInt32Array::from(vec![0, 2, 4, 1]));
    }
}
