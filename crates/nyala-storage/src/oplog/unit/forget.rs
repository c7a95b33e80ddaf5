//! Texts of dead rows, which need not be in memory.

use std::ops::Range;

use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer};

use super::DeadRows;

/// While fewer than one row in so many is dead, their texts are not worth the time it takes to leave them out.
const WORTH_ONE_IN: u32 = 32;

/// Whether a good part of the rows is dead.
pub(super) fn is_worth_it(dead: &DeadRows, rows: u32) -> bool {
    dead.count().saturating_mul(WORTH_ONE_IN) >= rows
}

/// Texts of live rows: where they are among those of all rows, and the offsets of all rows in them. `ends` are the offsets
/// of all rows in `bytes` bytes. There is no answer if these make no sense, which is found by who puts the column together.
pub(super) fn live_texts<O: ArrowNativeType + PartialOrd>(
    ends: &[O],
    live: &BooleanBuffer,
    bytes: usize,
) -> Option<(Buffer, Vec<Range<usize>>)> {
    let sensible = ends.len() == live.len() + 1
        && ends.is_sorted()
        && ends.first().is_some_and(|first| *first == O::default())
        && ends.last().is_some_and(|last| last.as_usize() <= bytes);
    if !sensible {
        return None;
    }
    let mut kept_ends = Vec::with_capacity(ends.len());
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut kept = 0;
    kept_ends.push(O::default());
    for (first, last) in live.set_slices() {
        let run = ends.get(first..=last)?;
        let (start, end) = (run.first()?.as_usize(), run.last()?.as_usize());
        // Dead rows before it are empty.
        kept_ends.resize(first + 1, O::usize_as(kept));
        let moved = start - kept;
        kept_ends.extend(run.iter().skip(1).map(|end| O::usize_as(end.as_usize() - moved)));
        if start < end {
            ranges.push(start..end);
        }
        kept += end - start;
    }
    kept_ends.resize(ends.len(), O::usize_as(kept));
    Some((Buffer::from_vec(kept_ends), ranges))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::single_range_in_vec_init)]
    use super::*;

    fn check(ends: &[i32], live: &[bool], expected: Option<(&[i32], &[Range<usize>])>) {
        let found = live_texts(ends, &live.iter().copied().collect(), 9);
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
        let large = live_texts::<i64>(&[0, 3, 8], &[false, true].into_iter().collect(), 8);
        assert_eq!(large, Some((Buffer::from_slice_ref([0_i64, 0, 5]), vec![3..8])));
    }
}
