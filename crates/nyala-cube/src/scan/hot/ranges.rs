//! Lists of ranges of rows, in ascending order and without overlap.

use std::ops::Range;

/// Adds a range after the others; adjacent ranges become one.
pub fn extend(ranges: &mut Vec<Range<usize>>, range: Range<usize>) {
    match ranges.last_mut() {
        _ if range.is_empty() => {}
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}

/// The intersection of two lists of ranges.
pub fn common(a: &[Range<usize>], b: &[Range<usize>]) -> Vec<Range<usize>> {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut both = Vec::new();
    while let (Some(left), Some(right)) = (a.peek(), b.peek()) {
        let range = left.start.max(right.start)..left.end.min(right.end);
        if !range.is_empty() {
            both.push(range);
        }
        if left.end <= right.end {
            a.next();
        } else {
            b.next();
        }
    }
    both
}

/// The same rows in ranges of at most `most`.
pub fn split(ranges: &[Range<usize>], most: usize) -> Vec<Range<usize>> {
    let mut split = Vec::with_capacity(ranges.len());
    for range in ranges {
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + most.max(1));
            split.push(start..end);
            start = end;
        }
    }
    split
}

#[cfg(test)]
mod tests {
    #![allow(clippy::single_range_in_vec_init)]
    use super::*;

    #[test]
    fn what_ranges_have_in_common() {
        let check = |a: &[Range<usize>], b: &[Range<usize>], expected: &[Range<usize>]| {
            assert_eq!(common(a, b), expected);
            assert_eq!(common(b, a), expected);
        };
        check(&[], &[0..5], &[]);
        check(&[0..5], &[5..7], &[]);
        check(&[0..5, 8..12], &[3..10], &[3..5, 8..10]);
        check(&[0..100], &[1..2, 50..60, 99..200], &[1..2, 50..60, 99..100]);
    }

    #[test]
    fn neighbours_become_one() {
        let mut ranges = Vec::new();
        for range in [3..5, 5..5, 5..9, 11..11, 12..13] {
            extend(&mut ranges, range);
        }
        assert_eq!(ranges, [3..9, 12..13]);
    }
}
