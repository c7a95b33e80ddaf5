//! Where equal values of a column stand together.
//!
//! Cells are sorted by their dimensions, those with few values first: of 4,000,000 cells by region, year, category,
//! nation, … each region is one run for each file, each year one for each region, and so on. A condition on one column
//! is decided once for each of its different values, and its rows within some ranges are found by looking at the runs
//! within these, or, if it keeps few values, at the runs of those. So a query comes to the few hundred rows it wants by
//! a few hundred comparisons, as if there were an index for each order in which dimensions may be asked; and it need
//! not be known how the rows are sorted, or whether they are.

use std::ops::Range;

use super::ranges::extend;
use super::search::Keys;

/// Average length from which runs are kept: shorter ones take more memory than the values do.
const MIN_LENGTH: usize = 4;
/// Finding a run by its value costs as much as checking this many runs.
const COST_OF_SEARCH: usize = 4;

/// The runs of one column.
#[derive(Debug)]
pub struct Runs {
    /// The row after the last of each run.
    ends: Vec<u32>,
    /// The key of each run's value.
    keys: Vec<u32>,
    /// Runs by their value: the runs of the first value, of the second, …, each in order.
    by_value: Vec<u32>,
    /// Where the runs of each value begin in `by_value`, and last the length of `by_value`.
    starts: Vec<u32>,
}

impl Runs {
    /// The runs of rows with these `keys`, which are below `values`. None if the runs are too short to be of use.
    pub fn of(keys: &[u32], values: usize) -> Option<Self> {
        let runs = || keys.chunk_by(|a, b| a == b);
        let count = runs().count();
        if count.saturating_mul(MIN_LENGTH) > keys.len() + MIN_LENGTH {
            return None;
        }
        let (mut ends, mut of_runs) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let mut end = 0;
        for run in runs() {
            end += run.len();
            ends.push(u32::try_from(end).ok()?);
            of_runs.extend(run.first());
        }
        let (by_value, starts) = group(&of_runs, values);
        Some(Self { ends, keys: of_runs, by_value, starts })
    }

    /// Number of runs.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn bytes(&self) -> usize {
        [&self.ends, &self.keys, &self.by_value, &self.starts].iter().map(|part| part.capacity() * 4).sum()
    }

    /// The rows of `ranges` with `kept` values. The ranges are in order and do not overlap, nor do the resulting ones.
    pub fn narrow(&self, ranges: &[Range<usize>], kept: &Keys) -> Vec<Range<usize>> {
        let kept_runs = || kept.ranges().iter().map(|keys| self.of_values(keys));
        let wanted: usize = kept_runs().map(<[u32]>::len).sum();
        let passed: usize = ranges.iter().map(|range| self.within(range).len()).sum();
        if wanted * COST_OF_SEARCH + ranges.len() > passed {
            return self.pass(ranges, kept);
        }
        let mut runs: Vec<u32> = kept_runs().flatten().copied().collect();
        // The runs of each value are in order: a stable sort merges sorted parts.
        runs.sort();
        self.meet(ranges, &runs)
    }

    /// Checks every run within `ranges`.
    fn pass(&self, ranges: &[Range<usize>], kept: &Keys) -> Vec<Range<usize>> {
        let mut left: Vec<Range<usize>> = Vec::new();
        for range in ranges {
            let within = self.within(range);
            let ends = self.ends.get(within.clone()).unwrap_or_default();
            let mut start = range.start;
            for (end, key) in ends.iter().zip(self.keys.get(within).unwrap_or_default()) {
                let end = range.end.min(*end as usize);
                if kept.contains(*key as usize) {
                    extend(&mut left, start..end);
                }
                start = end;
            }
        }
        left
    }

    /// The intersection of `ranges` and the rows of `runs`, which are in order.
    fn meet(&self, ranges: &[Range<usize>], runs: &[u32]) -> Vec<Range<usize>> {
        let mut left: Vec<Range<usize>> = Vec::new();
        let mut ranges = ranges;
        for run in runs {
            let rows = self.rows_of(*run as usize);
            let passed = ranges.partition_point(|range| range.end <= rows.start);
            ranges = ranges.get(passed..).unwrap_or_default();
            for range in ranges.iter().take_while(|range| range.start < rows.end) {
                extend(&mut left, range.start.max(rows.start)..range.end.min(rows.end));
            }
        }
        left
    }

    /// Positions of the runs that have rows of a range.
    fn within(&self, range: &Range<usize>) -> Range<usize> {
        if range.is_empty() {
            return 0..0;
        }
        let first = self.ends.partition_point(|end| *end as usize <= range.start);
        let last = self.ends.partition_point(|end| (*end as usize) < range.end);
        first..self.len().min(last + 1)
    }

    fn rows_of(&self, run: usize) -> Range<usize> {
        let end_of = |run: usize| self.ends.get(run).map_or(0, |end| *end as usize);
        run.checked_sub(1).map_or(0, end_of)..end_of(run)
    }

    /// The runs of these values, by value and then in order.
    fn of_values(&self, keys: &Range<usize>) -> &[u32] {
        let start = |key: usize| self.starts.get(key).map_or(self.by_value.len(), |start| *start as usize);
        self.by_value.get(start(keys.start)..start(keys.end)).unwrap_or_default()
    }
}

/// Positions in `keys` by key, and where the positions of each key begin.
fn group(keys: &[u32], values: usize) -> (Vec<u32>, Vec<u32>) {
    let mut starts = vec![0_u32; values + 1];
    for key in keys {
        if let Some(count) = starts.get_mut(*key as usize + 1) {
            *count += 1;
        }
    }
    let mut sum = 0;
    for start in &mut starts {
        sum += *start;
        *start = sum;
    }
    let mut next = starts.clone();
    let mut grouped = vec![0_u32; keys.len()];
    for (run, key) in keys.iter().enumerate() {
        if let Some(place) = next.get_mut(*key as usize) {
            if let Some(slot) = grouped.get_mut(*place as usize) {
                *slot = run as u32;
            }
            *place += 1;
        }
    }
    (grouped, starts)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::single_range_in_vec_init)]
    use super::*;

    #[test]
    fn ranges_are_narrowed_to_the_runs_that_are_kept() {
        // 0 0 … 1 1 … 2 2 … 3 3 …, a hundred of each.
        let keys: Vec<u32> = (0..400).map(|row| row / 100).collect();
        let runs = Runs::of(&keys, 4).unwrap();
        assert_eq!(runs.len(), 4);
        let check = |ranges: &[Range<usize>], kept: [bool; 4], expected: &[Range<usize>]| {
            let kept = Keys::of(&kept.into_iter().collect());
            assert_eq!(runs.narrow(ranges, &kept), expected, "{ranges:?}");
        };
        check(&[0..400], [true, false, true, false], &[0..100, 200..300]);
        check(&[0..400], [true, true, false, true], &[0..200, 300..400]);
        check(&[50..60, 90..110, 350..351], [true, false, false, true], &[50..60, 90..100, 350..351]);
        check(&[50..60, 60..110], [true, true, false, false], &[50..110]);
        check(&[99..100, 399..400], [false, false, false, false], &[]);
        check(&[], [true, true, true, true], &[]);
        check(&[7..7], [true, true, true, true], &[]);
    }

    #[test]
    fn runs_found_by_value_are_those_found_on_the_way() {
        // Lengths of 8 to 14, 50 values that come again and again in no order.
        let lengths = (0..3_000_u32).map(|run| (run * 31 % 50, 8 + run % 7));
        let keys: Vec<u32> =
            lengths.flat_map(|(key, length)| std::iter::repeat_n(key, length as usize)).collect();
        let runs = Runs::of(&keys, 50).unwrap();
        let all = [0..keys.len()];
        let some: Vec<Range<usize>> = (0..90).map(|at| at * 300 + 5..at * 300 + 270).collect();
        for ranges in [&all[..], &some] {
            for wanted in [vec![7], vec![7, 38], vec![0, 49], (0..50).collect(), vec![]] {
                let kept: Vec<bool> = (0..50).map(|key| wanted.contains(&key)).collect();
                let rows = ranges.iter().cloned().flatten().filter(|row| kept[keys[*row] as usize]);
                let expected: Vec<usize> = rows.collect();
                let kept = Keys::of(&kept.into_iter().collect());
                let found: Vec<usize> = runs.narrow(ranges, &kept).into_iter().flatten().collect();
                assert_eq!(found, expected, "{wanted:?}");
                assert_eq!(runs.pass(ranges, &kept).into_iter().flatten().collect::<Vec<_>>(), expected);
                let mut of_kept: Vec<u32> =
                    wanted.iter().flat_map(|key| runs.of_values(&(*key..key + 1))).copied().collect();
                of_kept.sort_unstable();
                assert_eq!(runs.meet(ranges, &of_kept).into_iter().flatten().collect::<Vec<_>>(), expected);
            }
        }
    }

    #[test]
    fn short_runs_are_not_remembered() {
        let keys: Vec<u32> = (0..1000).collect();
        assert!(Runs::of(&keys, 1000).is_none());
        let keys: Vec<u32> = (0..1000).map(|row| row / 10).collect();
        assert_eq!(Runs::of(&keys, 100).unwrap().len(), 100);
    }
}
