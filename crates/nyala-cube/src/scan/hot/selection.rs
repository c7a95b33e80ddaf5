//! A selection: the rows of a cuboid that are read.

use std::ops::Range;

use arrow::array::{BooleanArray, UInt32Array};

/// Some rows of a cuboid, in order.
#[derive(Debug, PartialEq)]
pub enum Selection {
    Range(Range<usize>),
    Places(UInt32Array),
}

impl Selection {
    /// The rows of `ranges`. Positions have 32 bits, which is enough for a cuboid in memory.
    pub fn ranges(ranges: &[Range<usize>]) -> Self {
        match ranges {
            [] => Self::Range(0..0),
            [only] => Self::Range(only.clone()),
            several => {
                let rows = several.iter().map(Range::len).sum();
                let mut places = Vec::with_capacity(rows);
                for range in several {
                    places.extend(range.start as u32..range.end as u32);
                }
                Self::Places(places.into())
            }
        }
    }

    /// The union of several selections, which are in order and do not overlap.
    pub fn all(mut several: Vec<Self>) -> Self {
        if several.len() <= 1 {
            return several.pop().unwrap_or(Self::Range(0..0));
        }
        let mut places = Vec::with_capacity(several.iter().map(Self::rows).sum());
        for picked in &several {
            match picked {
                Self::Range(range) => places.extend(range.start as u32..range.end as u32),
                Self::Places(some) => places.extend_from_slice(some.values()),
            }
        }
        Self::Places(places.into())
    }

    pub fn rows(&self) -> usize {
        match self {
            Self::Range(range) => range.len(),
            Self::Places(places) => places.values().len(),
        }
    }

    /// The rows of the selection for which `kept` is true; it has no nulls.
    pub fn keep(&self, kept: &BooleanArray) -> Self {
        let mut left = Vec::with_capacity(kept.true_count());
        let kept = kept.values().set_indices();
        match self {
            Self::Range(range) => left.extend(kept.map(|at| (range.start + at) as u32)),
            Self::Places(places) => left.extend(kept.filter_map(|at| places.values().get(at).copied())),
        }
        Self::Places(left.into())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::single_range_in_vec_init)]
    use super::*;

    fn places(places: &[u32]) -> Selection {
        Selection::Places(UInt32Array::from(places.to_vec()))
    }

    #[test]
    fn one_range_is_sliced_and_of_several_each_row_is_picked() {
        assert_eq!(Selection::ranges(&[]).rows(), 0);
        assert_eq!(Selection::ranges(&[5..7]), Selection::Range(5..7));
        assert_eq!(Selection::ranges(&[5..7, 9..10]), places(&[5, 6, 9]));
    }

    #[test]
    fn several_become_one() {
        assert_eq!(Selection::all(Vec::new()).rows(), 0);
        assert_eq!(Selection::all(vec![Selection::Range(3..5)]), Selection::Range(3..5));
        assert_eq!(Selection::all(vec![Selection::Range(3..5), places(&[7, 9])]), places(&[3, 4, 7, 9]));
    }

    #[test]
    fn what_is_kept_is_picked_from_what_was_picked() {
        let picked = Selection::ranges(&[1..3, 5..6, 90..92]);
        assert_eq!(picked.rows(), 5);
        let kept = picked.keep(&BooleanArray::from(vec![false, true, true, false, true]));
        assert_eq!(kept, places(&[2, 5, 91]));
        assert_eq!(kept.keep(&BooleanArray::from(vec![true, false, true])), places(&[2, 91]));
        assert_eq!(Selection::Range(4..6).keep(&BooleanArray::from(vec![false, true])), places(&[5]));
        assert_eq!(picked.keep(&BooleanArray::from(vec![false; 5])).rows(), 0);
    }
}
