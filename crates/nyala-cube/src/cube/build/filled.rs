//! Finds the steps of a cube's partition column that have rows: the others cost a segment without files.
//!
//! ```text
//! 0001-01      2019-11 2019-12 2020-01                9999-12
//! one row ···· many    many    many    ··············· one row     rows
//! [segment]gap [  one  ][ one ][ one  ]      gap       [segment]    segments
//! ```

use std::collections::BTreeMap;

use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Column;
use datafusion::execution::SessionState;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::execute_stream;
use futures::StreamExt;
use nyala_model::{KeyRange, KeySet, RangePartition};
use nyala_sql::error::{QueryError, Result};

use super::wanted::MAX_SEGMENTS;
use crate::cube::block::scan_plan;
use crate::cube::partition::PartitionColumn;
use crate::cube::rewrite::ReadyCube;

/// Steps with fewer rows than this, far from all others, share a segment.
const FEW_ROWS: u64 = 1_000;
/// Empty steps on both sides that make a step far from others.
const FAR_STEPS: usize = 3;

/// Whether a segment of `range` may hold steps that are far from each other.
pub fn holds_outliers(division: &RangePartition, range: KeyRange, rows: u64) -> bool {
    rows < FEW_ROWS && division.steps(range, FAR_STEPS + 1).is_none()
}

/// Steps with rows.
#[derive(Debug, Clone, Default)]
pub struct FilledSteps {
    /// The steps by their first key, and about how many rows each has.
    steps: BTreeMap<i64, (KeyRange, u64)>,
    /// Whether rows were left unread, because there are too many segments to build without them.
    too_many: bool,
}

impl FilledSteps {
    /// The steps of `keys` with rows. The statistics of a file within two steps suffice; for the other files, the column
    /// is read.
    pub async fn find(cube: &ReadyCube, keys: &KeySet, state: &SessionState) -> Result<Self> {
        let mut filled = Self::default();
        let compiled = cube.compiled.as_ref().map_err(QueryError::internal)?;
        let Some(column) = compiled.partition.as_ref().filter(|_| !keys.is_empty()) else {
            return Ok(filled);
        };
        let unsure = filled.add_files(cube, column, keys);
        if unsure.is_empty() {
            return Ok(filled);
        }
        let fact = compiled.block.instances.first().cloned();
        let mut fact = fact.ok_or_else(|| QueryError::internal("a cube has no tables"))?;
        let key =
            Expr::Column(Column::new(Some(fact.scan.table_name.clone()), column.division.column.clone()));
        fact.only = Some(column.rows_in(&unsure, &key));
        let plan = scan_plan(&fact)?.project([key])?.build()?;
        let plan = state.create_physical_plan(&plan).await?;
        let mut rows = execute_stream(plan, state.task_ctx())?;
        let mut look_at = MAX_SEGMENTS;
        while let Some(batch) = rows.next().await {
            filled.add(batch?.column(0), &column.division)?;
            // Outliers share segments: only their ranges tell whether the build will be refused, so that further rows need not be read.
            if filled.steps.len() > look_at {
                filled.too_many = filled.ranges(&column.division, &KeySet::default()).len() > MAX_SEGMENTS;
                if filled.too_many {
                    break;
                }
                look_at = 2 * filled.steps.len();
            }
        }
        Ok(filled)
    }

    /// Adds the steps that statistics of files tell. Returns the keys for which the column must be read.
    fn add_files(&mut self, cube: &ReadyCube, column: &PartitionColumn, keys: &KeySet) -> KeySet {
        let division = &column.division;
        let mut unsure = Vec::new();
        for (first, last, rows) in cube.coverage.files_with_rows() {
            match (division.range_of(first), division.range_of(last)) {
                (Some(first), Some(last)) if first.to >= last.from => {
                    self.count(first, keys, rows);
                    if first != last {
                        self.count(last, keys, rows);
                    }
                }
                (Some(first), Some(last)) => unsure.push(KeyRange { from: first.from, to: last.to }),
                _ => return keys.clone(),
            }
        }
        unsure.into_iter().collect::<KeySet>().intersect(keys)
    }

    fn count(&mut self, step: KeyRange, keys: &KeySet, rows: u64) {
        if !keys.intersect(&step.into()).is_empty() {
            self.steps.entry(step.from).or_insert((step, 0)).1 += rows;
        }
    }

    fn add(&mut self, keys: &dyn Array, division: &RangePartition) -> Result<()> {
        let keys = cast(keys, &DataType::Int64)?;
        let mut last: Option<(KeyRange, u64)> = None;
        for key in keys.as_primitive::<Int64Type>().iter().flatten() {
            match &mut last {
                Some((step, rows)) if step.from <= key && key < step.to => *rows += 1,
                _ => {
                    self.add_rows(last);
                    let known = self.steps.range(..=key).next_back().map(|(_, (step, _))| *step);
                    let known = known.filter(|step| key < step.to).or_else(|| division.range_of(key));
                    last = known.map(|step| (step, 1));
                }
            }
        }
        self.add_rows(last);
        Ok(())
    }

    fn add_rows(&mut self, counted: Option<(KeyRange, u64)>) {
        if let Some((step, rows)) = counted {
            self.steps.entry(step.from).or_insert((step, 0)).1 += rows;
        }
    }

    /// Whether more segments are to be built than one build makes.
    pub fn are_too_many(&self) -> bool {
        self.too_many
    }

    /// The ranges to build: each step for itself, but outliers that follow each other together. Steps in `held` are
    /// left out.
    pub fn ranges(&self, division: &RangePartition, held: &KeySet) -> Vec<KeyRange> {
        let free = |range: KeyRange| held.intersect(&range.into()).is_empty();
        let steps: Vec<(KeyRange, u64)> =
            self.steps.values().copied().filter(|(step, _)| free(*step)).collect();
        let between = |one: Option<&(KeyRange, u64)>, other: Option<&(KeyRange, u64)>| {
            let (Some((one, _)), Some((other, _))) = (one, other) else { return true };
            division.steps(KeyRange { from: one.to, to: other.from }, FAR_STEPS - 1).is_none()
        };
        let mut ranges: Vec<(KeyRange, Option<u64>)> = Vec::new();
        for (i, (step, rows)) in steps.iter().enumerate() {
            let here = steps.get(i);
            let before = i.checked_sub(1).and_then(|before| steps.get(before));
            let alone = between(before, here) && between(here, steps.get(i + 1));
            let few = alone.then_some(*rows);
            match (ranges.last_mut(), few) {
                (Some((last, Some(known))), Some(rows))
                    if *known + rows < FEW_ROWS && free(KeyRange { from: last.from, to: step.to }) =>
                {
                    last.to = step.to;
                    *known += rows;
                }
                _ => ranges.push((*step, few)),
            }
        }
        ranges.into_iter().map(|(range, _)| range).collect()
    }
}

#[cfg(test)]
mod tests {
    use nyala_model::{KeyKind, Step};

    use super::*;

    #[test]
    fn outliers_that_follow_each_other_share_a_segment() {
        let tens = RangePartition { column: "n".to_owned(), kind: KeyKind::Integer, step: Step::Keys(10) };
        let check = |filled: &[(i64, u64)], held: (i64, i64), expected: &[(i64, i64)]| {
            let steps =
                filled.iter().map(|(from, rows)| (*from, (KeyRange { from: *from, to: from + 10 }, *rows)));
            let held = KeySet::between(held.0, held.1);
            let filled = FilledSteps { steps: steps.collect(), too_many: false };
            let ranges = filled.ranges(&tens, &held);
            assert_eq!(ranges.iter().map(|r| (r.from, r.to)).collect::<Vec<_>>(), expected, "{filled:?}");
        };
        let nothing = (1, 0);
        check(&[(0, 1), (10, 1), (30, 1)], nothing, &[(0, 10), (10, 20), (30, 40)]);
        check(&[(0, 1), (500, 1), (700, 1)], nothing, &[(0, 710)]);
        check(&[(0, 1), (500, 1), (700, 1)], (600, 609), &[(0, 510), (700, 710)]);
        check(&[(0, 600), (500, 600), (700, 1)], nothing, &[(0, 10), (500, 710)]);
        check(
            &[(0, 1), (500, 1), (510, 1), (900, 1), (9000, 1)],
            nothing,
            &[(0, 10), (500, 510), (510, 520), (900, 9010)],
        );
        check(&[(0, 1), (500, 1)], (500, 509), &[(0, 10)]);
    }
}
