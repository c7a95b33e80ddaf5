//! Sorted ranges: where the values of a column ascend.
//!
//! A cuboid is sorted by the last of its dimensions, too, but there equal values are hardly ever adjacent, so that there are
//! no runs to keep. Among cells that are equal in the dimensions before it, its values ascend, and the rows of
//! a condition are found by binary search.

use std::ops::Range;

use arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray};
use arrow::datatypes::{UInt8Type, UInt16Type, UInt32Type};

use super::ranges::extend;
use super::search::Keys;

/// Average length from which sorted ranges are kept.
const MIN_LENGTH: usize = 32;
/// Binary search in a sorted range costs as much as checking this many rows.
const COST_OF_SEARCH: usize = 64;

/// The sorted ranges of one column.
#[derive(Debug)]
pub struct SortedRanges {
    /// The first row of each range but the first.
    starts: Vec<u32>,
}

impl SortedRanges {
    /// The sorted ranges of rows with these `keys`. None if they are too short to be of use.
    pub fn of(keys: &[u32]) -> Option<Self> {
        let descents = || keys.iter().zip(keys.iter().skip(1)).zip(1..).filter(|((key, next), _)| key > next);
        let count = descents().count();
        if (count + 1).saturating_mul(MIN_LENGTH) > keys.len() {
            return None;
        }
        let mut starts = Vec::with_capacity(count);
        starts.extend(descents().map(|(_, row)| row));
        Some(Self { starts })
    }

    /// Number of sorted ranges.
    pub fn len(&self) -> usize {
        self.starts.len() + 1
    }

    pub fn bytes(&self) -> usize {
        self.starts.capacity() * size_of::<u32>()
    }

    /// The rows of `ranges` with `kept` keys; `keys` has the keys of all rows. None if checking each row is faster. The ranges are
    /// in order and do not overlap, nor do the resulting ones.
    pub fn narrow(&self, keys: &ArrayRef, ranges: &[Range<usize>], kept: &Keys) -> Option<Vec<Range<usize>>> {
        let rows: usize = ranges.iter().map(Range::len).sum();
        let searches = |stretches: usize| stretches.saturating_mul(kept.ranges().len());
        let is_faster = |searches: usize| searches.saturating_mul(COST_OF_SEARCH) <= rows;
        if !is_faster(searches(ranges.len())) {
            return None;
        }
        let stretches: usize = ranges.iter().map(|range| 1 + self.starts_within(range).len()).sum();
        if !is_faster(searches(stretches)) {
            return None;
        }
        if let Some(keys) = keys.as_primitive_opt::<UInt8Type>() {
            Some(self.find::<UInt8Type>(keys.values(), ranges, kept))
        } else if let Some(keys) = keys.as_primitive_opt::<UInt16Type>() {
            Some(self.find::<UInt16Type>(keys.values(), ranges, kept))
        } else {
            let keys = keys.as_primitive_opt::<UInt32Type>()?;
            Some(self.find::<UInt32Type>(keys.values(), ranges, kept))
        }
    }

    fn find<T>(&self, keys: &[T::Native], ranges: &[Range<usize>], kept: &Keys) -> Vec<Range<usize>>
    where
        T: ArrowPrimitiveType,
        T::Native: Into<u32>,
    {
        let mut left = Vec::new();
        for stretch in ranges.iter().flat_map(|range| self.within(range)) {
            let keys = keys.get(stretch.clone()).unwrap_or_default();
            let row_of =
                |key: usize| stretch.start + keys.partition_point(|at| ((*at).into() as usize) < key);
            for wanted in kept.ranges() {
                extend(&mut left, row_of(wanted.start)..row_of(wanted.end));
            }
        }
        left
    }

    /// The parts of a range of rows that are within one sorted range each.
    fn within(&self, range: &Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let starts = self.starts_within(range).iter().map(|start| *start as usize);
        let ends = starts.clone().chain([range.end]);
        [range.start].into_iter().chain(starts).zip(ends).map(|(start, end)| start..end)
    }

    /// The first rows of sorted ranges within a range, without the first row of the range.
    fn starts_within(&self, range: &Range<usize>) -> &[u32] {
        let first = self.starts.partition_point(|start| *start as usize <= range.start);
        let starts = self.starts.get(first..).unwrap_or_default();
        let end = starts.partition_point(|start| (*start as usize) < range.end);
        starts.get(..end).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::single_range_in_vec_init)]
    use std::sync::Arc;

    use arrow::array::{UInt8Array, UInt16Array, UInt32Array};

    use super::*;

    fn kept(keys: &[usize]) -> Keys {
        Keys::of(&(0..256).map(|key| keys.contains(&key)).collect())
    }

    #[test]
    fn what_is_kept_is_found_in_every_stretch() {
        // Sorted ranges of 200 to 400 rows with values of 0 to 255, some equal, some missing.
        let mut keys: Vec<u32> = Vec::new();
        for stretch in 0..40_u32 {
            let length = 200 + stretch * 37 % 200;
            keys.extend((0..length).map(|row| (row * 256 / length + stretch) / 3 * 3 % 256));
        }
        let stretches = SortedRanges::of(&keys).unwrap();
        assert!((40..=80).contains(&stretches.len()), "{}", stretches.len());
        let arrays: [ArrayRef; 3] = [
            Arc::new(UInt8Array::from_iter_values(keys.iter().map(|key| *key as u8))),
            Arc::new(UInt16Array::from_iter_values(keys.iter().map(|key| *key as u16))),
            Arc::new(UInt32Array::from(keys.clone())),
        ];
        let all = [0..keys.len()];
        let some: Vec<Range<usize>> = (0..20).map(|at| at * 500 + 3..at * 500 + 480).collect();
        for ranges in [&all[..], &some, &[199..801], &[]] {
            for wanted in [vec![], vec![0], vec![9], vec![10], vec![255], (30..60).collect(), vec![3, 250]] {
                let rows = ranges.iter().cloned().flatten();
                let expected: Vec<usize> =
                    rows.filter(|row| wanted.contains(&(keys[*row] as usize))).collect();
                for array in &arrays {
                    let left = stretches.narrow(array, ranges, &kept(&wanted)).unwrap();
                    assert!(left.iter().all(|range| !range.is_empty()), "{left:?}");
                    assert!(left.windows(2).all(|pair| pair[0].end < pair[1].start), "{left:?}");
                    assert_eq!(left.into_iter().flatten().collect::<Vec<_>>(), expected, "{wanted:?}");
                }
            }
        }
    }

    #[test]
    fn where_halving_is_slower_each_row_is_looked_at() {
        let keys: Vec<u32> = (0..6_400).map(|row| row % 64).collect();
        let array: ArrayRef = Arc::new(UInt8Array::from_iter_values(keys.iter().map(|key| *key as u8)));
        let stretches = SortedRanges::of(&keys).unwrap();
        assert_eq!(stretches.len(), 100);
        let found = |ranges: &[Range<usize>], keys: &[usize]| stretches.narrow(&array, ranges, &kept(keys));
        assert_eq!(found(&[0..640], &[5, 7]), None, "as many searches as would pass all rows twice");
        assert_eq!(found(&[0..64], &[5]), Some(vec![5..6]));
        assert_eq!(found(&[10..20], &[15]), None);
    }

    #[test]
    fn short_stretches_are_not_remembered() {
        assert!(SortedRanges::of(&(0..1_000).map(|row| row % 20).collect::<Vec<u32>>()).is_none());
        assert!(SortedRanges::of(&(0..1_000).rev().collect::<Vec<u32>>()).is_none());
        assert!(SortedRanges::of(&[]).is_none());
        assert_eq!(SortedRanges::of(&[7; 32]).unwrap().len(), 1);
    }
}
