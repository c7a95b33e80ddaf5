//! The order of the groups of an answer.

use std::ops::{BitOr, Shl};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::compute::{SortColumn, SortOptions, lexsort_to_indices, max, min};
use arrow::datatypes::Int64Type;
use datafusion::error::Result;

use super::keys::bits;

/// A sort key of groups.
pub enum Criterion {
    /// Keys below `count`, which ascend with their values. The key of NULL, if there is one, is the last.
    Keys {
        keys: Vec<u32>,
        count: usize,
        null: bool,
    },
    Values(ArrayRef),
}

/// Positions of `rows` groups, sorted by these criteria, the first criterion first; at most `fetch` positions.
/// Equal groups keep their order, unless the criteria do not fit into one number.
pub fn order(
    criteria: Vec<(Criterion, SortOptions)>,
    rows: usize,
    fetch: Option<usize>,
) -> Result<UInt32Array> {
    let ranks: Option<Vec<Ranks>> = criteria.iter().map(|(one, options)| one.ranks(*options)).collect();
    let place_bits = bits(rows);
    if let Some(ranks) = ranks {
        let width = ranks.iter().map(|ranks| ranks.width).sum::<u32>() + place_bits;
        if width < u64::BITS {
            let mask = (1_u64 << place_bits) - 1;
            let places =
                sorted(packed(&ranks, rows, place_bits), fetch, |packed: u64| (packed & mask) as u32);
            return Ok(places.into());
        }
        if width < u128::BITS {
            let mask = (1_u128 << place_bits) - 1;
            let places =
                sorted(packed(&ranks, rows, place_bits), fetch, |packed: u128| (packed & mask) as u32);
            return Ok(places.into());
        }
    }
    let columns: Vec<SortColumn> = criteria.into_iter().map(|(c, options)| c.column(options)).collect();
    Ok(lexsort_to_indices(&columns, fetch)?)
}

/// The rank of each group by one criterion, below 2 to the power of `width`.
struct Ranks {
    width: u32,
    of: Vec<u64>,
}

/// The ranks of each group, followed by its position, as one number that compares as the groups do. Numbers of 64
/// bits move and compare faster than wider ones.
fn packed<N>(ranks: &[Ranks], rows: usize, place_bits: u32) -> Vec<N>
where
    N: Copy + From<u64> + Shl<u32, Output = N> + BitOr<Output = N>,
{
    let mut packed = vec![N::from(0); rows];
    for Ranks { width, of } in ranks {
        packed.iter_mut().zip(of).for_each(|(packed, rank)| *packed = *packed << *width | N::from(*rank));
    }
    packed.iter_mut().zip(0..).for_each(|(packed, place)| *packed = *packed << place_bits | N::from(place));
    packed
}

fn sorted<N: Ord + Copy>(mut packed: Vec<N>, fetch: Option<usize>, place: impl Fn(N) -> u32) -> Vec<u32> {
    if let Some(fetch) = fetch
        && fetch < packed.len()
    {
        packed.select_nth_unstable(fetch);
        packed.truncate(fetch);
    }
    packed.sort_unstable();
    packed.into_iter().map(place).collect()
}

impl Criterion {
    /// None for values that are not numbers of 64 bits, or may be NULL.
    fn ranks(&self, options: SortOptions) -> Option<Ranks> {
        match self {
            Self::Keys { keys, count, null } => {
                let values = (count - usize::from(*null)) as u32;
                let first_values = u32::from(*null && options.nulls_first);
                let rank = |key: u32| match key {
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
                let of = keys.iter().map(|key| u64::from(rank(*key))).collect();
                Some(Ranks { width: bits(*count), of })
            }
            Self::Values(values) => {
                let values = values.as_primitive_opt::<Int64Type>().filter(|v| v.null_count() == 0)?;
                let (Some(least), Some(most)) = (min(values), max(values)) else {
                    return Some(Ranks { width: 0, of: Vec::new() });
                };
                // The difference of any two values fits into 64 bits without a sign.
                let rank = |value: &i64| match options.descending {
                    true => most.wrapping_sub(*value) as u64,
                    false => value.wrapping_sub(least) as u64,
                };
                let of = values.values().iter().map(rank).collect();
                Some(Ranks { width: u64::BITS - (most.wrapping_sub(least) as u64).leading_zeros(), of })
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
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use arrow::array::{Float64Array, Int64Array, StringViewArray};

    use super::*;

    const ALL_OPTIONS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

    fn keys(keys: &[u32], count: usize, null: bool) -> Criterion {
        Criterion::Keys { keys: keys.to_vec(), count, null }
    }

    fn options((descending, nulls_first): (bool, bool)) -> SortOptions {
        SortOptions { descending, nulls_first }
    }

    /// Arrow's order of the values that the keys stand for.
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
        let of = [2, 3, 0, 1, 3, 0];
        let [near, far] = [[5, -7, 3, i64::from(i32::MAX), 0, 4], [5, -7, i64::MIN, i64::MAX, 0, 4]]
            .map(|sums| Arc::new(Int64Array::from(sums.to_vec())) as ArrayRef);
        for (text, sums) in
            ALL_OPTIONS.map(options).into_iter().flat_map(|text| [(text, &near), (text, &far)])
        {
            for sum in ALL_OPTIONS.map(options) {
                for fetch in [None, Some(0), Some(1), Some(4), Some(6), Some(9)] {
                    let criteria =
                        vec![(keys(&of, 4, true), text), (Criterion::Values(Arc::clone(sums)), sum)];
                    let found = order(criteria, 6, fetch).unwrap();
                    assert_eq!(found, expected(&[(texts(&of), text), (Arc::clone(sums), sum)], fetch));
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
    fn numbers_of_every_width_are_ordered() {
        let numbers = |of: &[Option<i64>]| Arc::new(Int64Array::from(of.to_vec())) as ArrayRef;
        let far = numbers(&[Some(i64::MIN), Some(i64::MAX), Some(0), Some(i64::MAX), Some(-1)]);
        let check = |columns: &[&ArrayRef]| {
            for option in ALL_OPTIONS.map(options) {
                let columns: Vec<_> = columns.iter().map(|values| (Arc::clone(values), option)).collect();
                let criteria =
                    columns.iter().map(|(values, option)| (Criterion::Values(Arc::clone(values)), *option));
                let found = order(criteria.collect(), columns[0].0.len(), None).unwrap();
                assert_eq!(found, expected(&columns, None), "{columns:?}");
            }
        };
        // Together with the position, which takes 3 bits, these are around the limits of 64 and of 128 bits, and beyond.
        for bits in [58, 59, 60, 61, 62, 63] {
            let near =
                numbers(&[Some(1 << (bits - 1)), Some(0), Some(5), Some((1 << (bits - 1)) - 1), Some(7)]);
            check(&[&near]);
            check(&[&far, &near]);
        }
        let other = numbers(&[Some(3), Some(i64::MIN), Some(i64::MAX), Some(4), Some(5)]);
        check(&[&far, &other]);
        check(&[&numbers(&[Some(4), None, Some(-4), Some(0)])]);
        check(&[&numbers(&[Some(4)])]);
        check(&[&numbers(&[])]);
    }

    #[test]
    fn equal_groups_stay_where_they_are() {
        let far = || {
            Criterion::Values(Arc::new(Int64Array::from(vec![
                i64::MAX,
                i64::MIN,
                i64::MAX,
                i64::MIN,
                i64::MAX,
            ])))
        };
        for criterion in [keys(&[1, 0, 1, 0, 1], 2, false), far()] {
            let found = order(vec![(criterion, options((true, false)))], 5, Some(4)).unwrap();
            assert_eq!(found, UInt32Array::from(vec![0, 2, 4, 1]));
        }
    }
}
