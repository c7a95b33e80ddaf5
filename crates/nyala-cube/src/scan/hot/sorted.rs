//! How a column is sorted, so that rows can be found by their values.

use std::ops::Range;

use arrow::array::ArrayRef;

use super::runs::Runs;
use super::search::Keys;
use super::sorted_ranges::SortedRanges;

/// How a column is sorted.
#[derive(Debug)]
pub enum Sorted {
    /// Equal values are adjacent in long runs.
    Runs(Runs),
    /// Values ascend over long ranges of rows.
    SortedRanges(SortedRanges),
}

impl Sorted {
    /// The order of rows with these `keys`, which are below `values`. None if they are not sorted well enough.
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

    /// Sort key of look-ups: columns with the fewest runs first, because they leave long ranges of rows, which sorted
    /// ranges need.
    pub fn turn(&self) -> (bool, usize) {
        match self {
            Self::Runs(runs) => (false, runs.len()),
            Self::SortedRanges(stretches) => (true, stretches.len()),
        }
    }

    /// The rows of `ranges` with `kept` keys; `keys` has the keys of all rows. None if the keys must be checked one by one. The ranges
    /// are in order and do not overlap, nor do the resulting ones.
    pub fn narrow(&self, keys: &ArrayRef, ranges: &[Range<usize>], kept: &Keys) -> Option<Vec<Range<usize>>> {
        match self {
            Self::Runs(runs) => Some(runs.narrow(ranges, kept)),
            Self::SortedRanges(stretches) => stretches.narrow(keys, ranges, kept),
        }
    }
}
