//! How a column is sorted, remembered so that rows are found by their values.

use std::ops::Range;

use arrow::array::ArrayRef;

use super::runs::Runs;
use super::search::Keys;
use super::sorted_ranges::SortedRanges;

/// How a column is sorted.
#[derive(Debug)]
pub enum Sorted {
    /// Equal values stand together.
    Runs(Runs),
    /// Values ascend for long.
    SortedRanges(SortedRanges),
}

impl Sorted {
    /// Of rows that have the values with these `keys`, of which there are `values`. None if they are not sorted well enough.
    pub fn of(keys: &[u32], values: usize) -> Option<Self> {
        let runs = Runs::of(keys, values).map(Self::Runs);
        runs.or_else(|| SortedRanges::of(keys).map(Self::SortedRanges))
    }

    pub fn bytes(&self) -> usize {
        match self {
            Self::Runs(runs) => runs.bytes(),
            Self::SortedRanges(stretches) => stretches.bytes(),
        }
    }

    /// Sort key for the order of look-ups: fewest runs first, because they leave long ranges of rows, which
    /// sorted ranges need.
    pub fn turn(&self) -> (bool, usize) {
        match self {
            Self::Runs(runs) => (false, runs.len()),
            Self::SortedRanges(stretches) => (true, stretches.len()),
        }
    }

    /// The rows of `ranges` with `kept` keys, of all rows in `keys`; none if they must be looked at. Ranges are in
    /// order and apart, and so are the resulting ones.
    pub fn narrow(&self, keys: &ArrayRef, ranges: &[Range<usize>], kept: &Keys) -> Option<Vec<Range<usize>>> {
        match self {
            Self::Runs(runs) => Some(runs.narrow(ranges, kept)),
            Self::SortedRanges(stretches) => stretches.narrow(keys, ranges, kept),
        }
    }
}
