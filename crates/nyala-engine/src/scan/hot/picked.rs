//! Which rows of a cuboid are read.

use std::ops::Range;

use arrow::array::{BooleanArray, UInt32Array};

use super::column::CHUNK_ROWS;

/// Ranges of at least this many rows are sliced and joined; of shorter ones each row is picked.
const WORTH_SLICING: usize = 128;

/// Some rows, in order, by the chunk that they are in.
#[derive(Debug)]
pub(super) struct Picked {
    pub(super) parts: Vec<(usize, Part)>,
    rows: usize,
}

/// Rows of one chunk, counted from its first.
#[derive(Debug, PartialEq)]
pub(super) enum Part {
    Range(Range<usize>),
    Places(UInt32Array),
}

impl Picked {
    /// The rows of `ranges`, of which none crosses a chunk.
    pub(super) fn ranges(ranges: &[Range<usize>]) -> Self {
        let rows: usize = ranges.iter().map(Range::len).sum();
        let mut parts = Vec::new();
        for of_chunk in ranges.chunk_by(|a, b| a.start / CHUNK_ROWS == b.start / CHUNK_ROWS) {
            let Some(first) = of_chunk.first() else { continue };
            let chunk = first.start / CHUNK_ROWS;
            let within =
                |range: &Range<usize>| range.start - chunk * CHUNK_ROWS..range.end - chunk * CHUNK_ROWS;
            if of_chunk.iter().map(Range::len).sum::<usize>() >= of_chunk.len() * WORTH_SLICING
                || of_chunk.len() == 1
            {
                parts.extend(of_chunk.iter().map(|range| (chunk, Part::Range(within(range)))));
            } else {
                let places = of_chunk.iter().flat_map(within).map(|place| place as u32);
                parts.push((chunk, Part::Places(UInt32Array::from_iter_values(places))));
            }
        }
        Self { parts, rows }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Those of them that are `kept`, which has no nulls.
    pub(super) fn keep(&self, kept: &BooleanArray) -> Self {
        let (mut parts, mut rows, mut start) = (Vec::new(), 0, 0);
        for (chunk, part) in &self.parts {
            let here = kept.slice(start, part.len());
            start += part.len();
            let count = here.true_count();
            if count == 0 {
                continue;
            }
            rows += count;
            let places = here.values().set_indices();
            let places: UInt32Array = match part {
                Part::Range(range) => places.map(|at| Some((range.start + at) as u32)).collect(),
                Part::Places(known) => places.map(|at| known.values().get(at).copied()).collect(),
            };
            parts.push((*chunk, Part::Places(places)));
        }
        Self { parts, rows }
    }
}

impl Part {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Range(range) => range.len(),
            Self::Places(places) => arrow::array::Array::len(places),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::single_range_in_vec_init)]
    use super::*;

    fn places(places: &[u32]) -> Part {
        Part::Places(UInt32Array::from(places.to_vec()))
    }

    #[test]
    fn short_ranges_are_picked_row_by_row_and_long_ones_sliced() {
        let check = |ranges: &[Range<usize>], expected: Vec<(usize, Part)>| {
            assert_eq!(Picked::ranges(ranges).parts, expected, "{ranges:?}");
        };
        check(&[], vec![]);
        check(&[5..7], vec![(0, Part::Range(5..7))]);
        check(&[5..7, 9..10], vec![(0, places(&[5, 6, 9]))]);
        check(&[0..300, 400..700], vec![(0, Part::Range(0..300)), (0, Part::Range(400..700))]);
        check(
            &[CHUNK_ROWS - 2..CHUNK_ROWS, CHUNK_ROWS..CHUNK_ROWS + 1, CHUNK_ROWS + 7..CHUNK_ROWS + 8],
            vec![(0, Part::Range(CHUNK_ROWS - 2..CHUNK_ROWS)), (1, places(&[0, 7]))],
        );
    }

    #[test]
    fn what_is_kept_is_picked_from_what_was_picked() {
        let picked = Picked::ranges(&[1..3, 5..6, CHUNK_ROWS..CHUNK_ROWS + 2]);
        assert_eq!(picked.rows(), 5);
        let kept = picked.keep(&BooleanArray::from(vec![false, true, true, false, true]));
        assert_eq!((kept.rows(), kept.parts), (3, vec![(0, places(&[2, 5])), (1, places(&[1]))]));
        let none = picked.keep(&BooleanArray::from(vec![false; 5]));
        assert_eq!((none.rows(), none.parts), (0, vec![]));
    }
}
