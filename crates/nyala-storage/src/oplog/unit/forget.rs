//! Texts of dead rows, which need not be in memory.

use std::ops::Range;

use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer};

use super::DeadRows;

/// Texts are left out only if at least one row in so many is dead: reading takes longer then.
const WORTH_ONE_IN: u32 = 32;

/// Whether enough rows are dead.
pub fn is_worth_it(dead: &DeadRows, rows: u32) -> bool {
    dead.count().saturating_mul(WORTH_ONE_IN) >= rows
}

/// Ranges of the rows' texts: offsets of all rows in a number of bytes.
pub struct Texts<'a, O> {
    ends: &'a [O],
    live: &'a BooleanBuffer,
}

impl<'a, O: ArrowNativeType + PartialOrd> Texts<'a, O> {
    /// None if the offsets make no sense, which Arrow's check of the column reports.
    pub fn new(ends: &'a [O], live: &'a BooleanBuffer, bytes: usize) -> Option<Self> {
        let sensible = ends.len() == live.len() + 1
            && ends.is_sorted()
            && ends.first().is_some_and(|first| *first == O::default())
            && ends.last().is_some_and(|last| last.as_usize() <= bytes);
        sensible.then_some(Self { ends, live })
    }

    /// Ranges of the texts of live rows.
    pub fn live_ranges(&self) -> impl Iterator<Item = Range<usize>> {
        let end = |row: usize| self.ends.get(row).map_or(0, |end| end.as_usize());
        let runs = self.live.set_slices().map(move |(first, last)| end(first)..end(last));
        runs.filter(|range| !range.is_empty())
    }

    /// Offsets of all rows after the texts of dead rows are left out.
    pub fn live_ends(&self) -> Buffer {
        let mut kept_ends = Vec::with_capacity(self.ends.len());
        let mut kept = 0;
        kept_ends.push(O::default());
        for (first, last) in self.live.set_slices() {
            let run = self.ends.get(first..=last).unwrap_or_default();
            let [start, end] = [run.first(), run.last()].map(|end| end.map_or(0, |end| end.as_usize()));
            // Dead rows before this run are empty.
            kept_ends.resize(first + 1, O::usize_as(kept));
            let moved = start - kept;
            kept_ends.extend(run.iter().skip(1).map(|end| O::usize_as(end.as_usize() - moved)));
            kept += end - start;
        }
        kept_ends.resize(self.ends.len(), O::usize_as(kept));
        Buffer::from_vec(kept_ends)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::single_range_in_vec_init)]
    use super::*;

    fn check(ends: &[i32], live: &[bool], expected: Option<(&[i32], &[Range<usize>])>) {
        let live = live.iter().copied().collect();
        let found =
            Texts::new(ends, &live, 9).map(|texts| (texts.live_ends(), texts.live_ranges().collect()));
        let expected = expected.map(|(ends, ranges)| (Buffer::from_slice_ref(ends), ranges.to_vec()));
        assert_eq!(found, expected, "{ends:?} {live:?}");
    }

    #[test]
    fn texts_of_dead_rows_are_left_out() {
        check(&[0], &[], Some((&[0], &[])));
        check(&[0, 2, 5], &[true, true], Some((&[0, 2, 5], &[0..5])));
        check(&[0, 2, 5], &[false, false], Some((&[0, 0, 0], &[])));
        check(&[0, 2, 5, 5, 9], &[false, true, true, false], Some((&[0, 0, 3, 3, 3], &[2..5])));
        check(&[0, 2, 5, 5, 9], &[true, false, true, true], Some((&[0, 2, 2, 2, 6], &[0..2, 5..9])));
        check(&[0, 2, 5, 5, 9], &[false, false, true, false], Some((&[0, 0, 0, 0, 0], &[])));
    }

    #[test]
    fn offsets_that_make_no_sense_are_noticed() {
        for ends in [&[0, 9, 4][..], &[0, 2, 99], &[0, 2], &[1, 2, 4], &[], &[-1, 2, 4], &[0, -1, 4]] {
            check(ends, &[false, true], None);
        }
        let live = [false, true].into_iter().collect();
        let large = Texts::<i64>::new(&[0, 3, 8], &live, 8).unwrap();
        assert_eq!(large.live_ends(), Buffer::from_slice_ref([0_i64, 0, 5]));
        assert_eq!(large.live_ranges().collect::<Vec<_>>(), [3..8]);
    }
}
