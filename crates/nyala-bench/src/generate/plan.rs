//! A data set as tables, a table as parts. One part becomes one file.

use std::ops::Range;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

/// Rows a file has at least, unless the table is smaller.
const SMALLEST_FILE_ROWS: u64 = 1_000_000;
/// Rows a file has at most, give or take the last source row.
const MAX_FILE_ROWS: u64 = 8_000_000;
/// Between these limits a table gets this many files: enough to keep the cores of one machine busy.
const FILES_WANTED: u64 = 16;

/// The rows of a part.
pub type Batches = Box<dyn Iterator<Item = anyhow::Result<RecordBatch>> + Send>;

/// One table, cut into parts.
pub struct TablePlan {
    /// The table's name.
    pub name: &'static str,
    /// Schema of every batch of every part.
    pub schema: SchemaRef,
    /// The parts in the order of their rows.
    pub parts: Vec<Part>,
}

/// A run of rows of one table that can be generated without the runs before it.
pub struct Part {
    /// About how many rows it has, for the progress display.
    pub expected_rows: u64,
    /// Starts the generation. Runs on the thread that will take the batches.
    pub open: Box<dyn FnOnce() -> anyhow::Result<Batches> + Send>,
}

/// Cuts `units` (orders or keys, as the generator counts) into ranges of nearly equal size, one for
/// each file, when each unit gives about `rows_per_unit` rows. Depends on nothing else, so that a
/// scale always gives the same files.
pub fn cut(units: u64, rows_per_unit: u64) -> Vec<Range<u64>> {
    let rows = units.saturating_mul(rows_per_unit);
    let file_rows = (rows / FILES_WANTED).clamp(SMALLEST_FILE_ROWS, MAX_FILE_ROWS);
    let file_units = (file_rows / rows_per_unit.max(1)).max(1);
    let files = units.div_ceil(file_units).max(1);
    let border = |file: u64| file * (units / files) + file.min(units % files);
    (0..files).map(|file| border(file)..border(file + 1)).collect()
}

/// Cuts a range into steps of at most `step` units, one for each batch.
pub fn steps(range: Range<u64>, step: u64) -> impl Iterator<Item = Range<u64>> + Send {
    let end = range.end;
    range.step_by(usize::try_from(step.max(1)).unwrap_or(usize::MAX)).map(move |at| at..end.min(at + step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_cover_every_unit_once() {
        let check = |units, rows_per_unit, files: usize| {
            let ranges = cut(units, rows_per_unit);
            assert_eq!(ranges.len(), files, "{units} x {rows_per_unit}");
            let mut next = 0;
            for range in ranges {
                assert_eq!(range.start, next);
                next = range.end;
            }
            assert_eq!(next, units);
        };
        check(0, 1, 1);
        check(1, 1, 1);
        check(1_000_000, 1, 1);
        check(1_000_001, 1, 2);
        check(1_500_000, 4, 6);
        check(15_000_000, 4, 16);
        check(150_000_000, 4, 75);
    }

    #[test]
    fn steps_end_with_the_range() {
        let all: Vec<_> = steps(5..26, 10).collect();
        assert_eq!(all, [5..15, 15..25, 25..26]);
        assert_eq!(steps(3..3, 10).count(), 0);
    }
}
