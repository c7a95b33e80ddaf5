//! Where equal values of a column stand together.
//!
//! Cells are sorted by their dimensions, those with few values first: of 4,000,000 cells by region, year, category,
//! nation, … each region is one run for each file, each year one for each region, and so on. A condition on one
//! column is decided once for each of its different values, and what it leaves of some ranges of rows is found by
//! looking at the runs within these. So a query comes to the few hundred rows it wants by a few hundred
//! comparisons, as if there were an index for each order in which dimensions may be asked; and it need not be known
//! how the rows are sorted, or whether they are.

use std::collections::HashMap;
use std::ops::Range;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::compute::partition;
use datafusion::common::ScalarValue;
use datafusion::error::Result;

/// Runs must be this long on average to be remembered: else looking at rows is as fast.
const SHORTEST: usize = 16;
/// Most different values: a condition is decided for all of them, whatever the query reads.
const MOST_VALUES: usize = 4096;

/// The runs of one column.
#[derive(Debug)]
pub(super) struct Runs {
    /// The row after the last of each run.
    ends: Vec<u32>,
    /// Position of each run's value in `values`.
    codes: Vec<u16>,
    /// Every value once; NULL is one of them.
    pub(super) values: ArrayRef,
}

impl Runs {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.ends.capacity() * 4 + self.codes.capacity() * 2 + self.values.get_array_memory_size()
    }

    /// The rows of `ranges` whose values are `kept`, which says so of each of `values`. Ranges are in order and apart,
    /// and so is what is left of them.
    pub(super) fn narrow(&self, ranges: &[Range<usize>], kept: &BooleanArray) -> Vec<Range<usize>> {
        let kept: Vec<bool> = kept.iter().map(|kept| kept.unwrap_or(false)).collect();
        let keeps = |code: u16| kept.get(usize::from(code)).is_some_and(|kept| *kept);
        let mut left: Vec<Range<usize>> = Vec::new();
        for range in ranges {
            let first = self.ends.partition_point(|end| *end as usize <= range.start);
            let ends = self.ends.iter().skip(first);
            let mut start = range.start;
            for (end, code) in ends.zip(self.codes.iter().skip(first)) {
                let end = range.end.min(*end as usize);
                if keeps(*code) {
                    extend(&mut left, start..end);
                }
                start = end;
                if start == range.end {
                    break;
                }
            }
        }
        left
    }
}

/// Adds a range behind the others; neighbours become one.
fn extend(ranges: &mut Vec<Range<usize>>, range: Range<usize>) {
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}

/// Collects the runs of a column, chunk by chunk.
pub(super) struct RunsBuilder {
    rows: usize,
    ends: Vec<u32>,
    codes: Vec<u16>,
    values: Vec<ScalarValue>,
    known: HashMap<ScalarValue, u16>,
}

impl RunsBuilder {
    pub(super) fn new() -> Self {
        Self { rows: 0, ends: Vec::new(), codes: Vec::new(), values: Vec::new(), known: HashMap::new() }
    }

    /// Adds rows; none if the runs are too short, or the values too many, to be of use.
    pub(super) fn add(mut self, values: &ArrayRef) -> Option<Self> {
        let runs = partition(std::slice::from_ref(values)).ok()?;
        if (self.ends.len() + runs.len()).saturating_mul(SHORTEST) > self.rows + values.len() + SHORTEST {
            return None;
        }
        for run in runs.ranges() {
            let code = self.code_of(ScalarValue::try_from_array(values, run.start).ok()?)?;
            let end = u32::try_from(self.rows + run.end).ok()?;
            match (self.ends.last_mut(), self.codes.last()) {
                (Some(last), Some(same)) if *same == code => *last = end,
                _ => {
                    self.ends.push(end);
                    self.codes.push(code);
                }
            }
        }
        self.rows += values.len();
        Some(self)
    }

    fn code_of(&mut self, value: ScalarValue) -> Option<u16> {
        if let Some(code) = self.known.get(&value) {
            return Some(*code);
        }
        if self.values.len() >= MOST_VALUES {
            return None;
        }
        let code = u16::try_from(self.values.len()).ok()?;
        self.values.push(value.clone());
        self.known.insert(value, code);
        Some(code)
    }

    pub(super) fn finish(mut self) -> Result<Option<Runs>> {
        if self.values.is_empty() {
            return Ok(None);
        }
        self.ends.shrink_to_fit();
        self.codes.shrink_to_fit();
        let values = ScalarValue::iter_to_array(self.values)?;
        Ok(Some(Runs { ends: self.ends, codes: self.codes, values }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::single_range_in_vec_init)]
    use std::sync::Arc;

    use arrow::array::{Array, Int64Array, StringViewArray};

    use super::*;

    fn runs(chunks: Vec<ArrayRef>) -> Option<Runs> {
        let added = chunks.iter().try_fold(RunsBuilder::new(), |builder, chunk| builder.add(chunk));
        added.and_then(|builder| builder.finish().unwrap())
    }

    fn numbers(values: impl Iterator<Item = Option<i64>>) -> ArrayRef {
        Arc::new(values.collect::<Int64Array>())
    }

    #[test]
    fn ranges_are_narrowed_to_the_runs_that_are_kept() {
        // 0 0 … 1 1 … 2 2 … NULL …, a hundred of each, in chunks of 250.
        let value = |row: usize| (row < 300).then_some(row as i64 / 100);
        let runs = runs(vec![numbers((0..250).map(value)), numbers((250..400).map(value))]).unwrap();
        assert_eq!((runs.len(), runs.values.len()), (4, 4));
        let check = |ranges: &[Range<usize>], kept: [Option<bool>; 4], expected: &[Range<usize>]| {
            assert_eq!(runs.narrow(ranges, &BooleanArray::from(kept.to_vec())), expected, "{ranges:?}");
        };
        let (yes, no) = (Some(true), Some(false));
        check(&[0..400], [yes, no, yes, None], &[0..100, 200..300]);
        check(&[0..400], [yes, yes, no, yes], &[0..200, 300..400]);
        check(&[50..60, 90..110, 350..351], [yes, no, no, yes], &[50..60, 90..100, 350..351]);
        check(&[50..60, 60..110], [yes, yes, no, no], &[50..110]);
        check(&[99..100, 399..400], [no, no, no, no], &[]);
        check(&[], [yes, yes, yes, yes], &[]);
    }

    #[test]
    fn short_runs_and_many_values_are_not_remembered() {
        assert!(runs(vec![numbers((0..1000).map(Some))]).is_none());
        let many = MOST_VALUES as i64 + 1;
        assert!(runs(vec![numbers((0..many * 20).map(|row| Some(row / 20)))]).is_none());
        assert!(runs(vec![]).is_none());
        let texts: StringViewArray = (0..1000).map(|row| Some(format!("text {}", row / 50))).collect();
        assert_eq!(runs(vec![Arc::new(texts)]).unwrap().len(), 20);
    }
}
