//! Decides which segments a statement makes.

use std::collections::BTreeSet;

use nyala_model::{KeyRange, KeySet, RangePartition, SegmentEntry, SegmentId, SegmentRange, SegmentState};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::BuildAction;

use super::filled::{FilledSteps, holds_outliers};
use super::fold::{fold, is_fold_due};
use super::segment::now_ms;
use crate::cube::partition::{PartitionColumn, show_range};
use crate::cube::rewrite::ReadyCube;

/// More segments than this are not made by one statement.
pub(super) const MAX_SEGMENTS: usize = 10_000;

/// One segment to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// Builds the segment from rows.
    Build(SegmentRange),
    /// Records that the range has no rows.
    Empty(SegmentRange),
    /// Adds the missing cuboids to the segment of these rows, after its cube was altered.
    Extend(SegmentRange, SegmentId),
    /// Merges these segments.
    Merge(SegmentRange, Vec<SegmentId>),
}

impl Work {
    /// The rows that the segment holds.
    pub fn range(&self) -> SegmentRange {
        match self {
            Self::Build(range) | Self::Empty(range) | Self::Extend(range, _) | Self::Merge(range, _) => {
                *range
            }
        }
    }
}

/// The keys that `action` on `range` of `cube` builds and no segment holds, in whole steps.
pub fn unheld(cube: &ReadyCube, action: BuildAction, range: Option<KeyRange>) -> Result<KeySet> {
    let column = cube.compiled.as_ref().ok().and_then(|compiled| compiled.partition.as_ref());
    match (column, action) {
        (Some(column), BuildAction::Build | BuildAction::Refresh) => {
            let planner = Planner::new(cube, column, range)?;
            let again = again(cube, action);
            planner.unheld(&planner.held(&again), &again)
        }
        _ => Ok(KeySet::default()),
    }
}

/// Whether an action makes a segment again.
fn again(cube: &ReadyCube, action: BuildAction) -> impl Fn(&SegmentEntry) -> bool {
    move |segment| action == BuildAction::Refresh || cube.coverage.why_stale(segment.id).is_some()
}

/// The work of `action` on `range` of `cube`, in ascending order. Empty if all is done already. `filled` tells which
/// of the steps that are not held have rows.
pub fn wanted(
    cube: &ReadyCube,
    action: BuildAction,
    range: Option<KeyRange>,
    filled: &FilledSteps,
) -> Result<Vec<Work>> {
    let column = cube.compiled.as_ref().ok().and_then(|compiled| compiled.partition.as_ref());
    let Some(column) = column else {
        if let (Some(version), None) = (cube.coverage.written(), range) {
            return fold(cube, version, action);
        }
        return match (action, range) {
            (BuildAction::Merge, _) | (_, Some(_)) => Err(unpartitioned(cube)),
            (BuildAction::Build, None) => {
                let lacking = cube.entry.segments.iter().find(|segment| is_extensible(cube, segment));
                let extend = lacking.map(|segment| Work::Extend(segment.range, segment.id));
                Ok(vec![extend.unwrap_or(Work::Build(SegmentRange::Whole))])
            }
            (BuildAction::Refresh, None) => Ok(vec![Work::Build(SegmentRange::Whole)]),
        };
    };
    let planner = Planner::new(cube, column, range)?;
    match action {
        BuildAction::Build | BuildAction::Refresh => planner.build(again(cube, action), filled),
        BuildAction::Merge => planner.merge(),
    }
}

/// Whether a segment is usable but lacks cuboids or measures.
pub fn is_extensible(cube: &ReadyCube, segment: &SegmentEntry) -> bool {
    segment.state == SegmentState::Ready
        && cube.coverage.why_stale(segment.id).is_none()
        && !cube.entry.definition.outstanding(segment).is_empty()
}

/// Whether a build has any work to do.
pub fn is_due(cube: &ReadyCube) -> bool {
    let current = |segment: &SegmentEntry| {
        segment.state == SegmentState::Ready
            && cube.coverage.why_stale(segment.id).is_none()
            && cube.entry.definition.outstanding(segment).is_empty()
    };
    if let Some(version) = cube.coverage.written() {
        return is_fold_due(cube, version, now_ms());
    }
    match &cube.entry.definition.partition {
        None => !cube.entry.segments.iter().any(current),
        // The build reports the error.
        Some(_) => {
            let works = wanted(cube, BuildAction::Build, None, &FilledSteps::default());
            works.map_or(true, |works| !works.is_empty())
        }
    }
}

/// The first key that is kept: the cube's retention before the end of the newest range, including `range` as if
/// it were built. None if all keys are kept.
pub fn kept_from(cube: &ReadyCube, column: &PartitionColumn, range: Option<KeyRange>) -> Option<i64> {
    let retention = cube.entry.definition.options.retention?;
    let segments = cube.entry.segments.iter().filter(|segment| segment.state == SegmentState::Ready);
    let ends = segments.filter_map(|segment| match segment.range {
        SegmentRange::Keys(keys) => Some(keys.to),
        SegmentRange::Whole | SegmentRange::Nulls | SegmentRange::Written(_) => None,
    });
    let files = cube.coverage.file_spans().filter_map(|(_, last)| Some(column.division.range_of(last)?.to));
    let newest = ends.chain(files).chain(range.map(|range| range.to)).max()?;
    column.division.kept_from(newest, Some(retention))
}

fn unpartitioned(cube: &ReadyCube) -> QueryError {
    if cube.compiled.as_ref().is_ok_and(|compiled| compiled.is_live()) {
        let message = format!("cube `{}` is divided by when rows were written", cube.entry.name);
        return QueryError::new(ErrorKind::InvalidDefinition, message)
            .hint("leave FROM … TO … out; each statement does what there is to do");
    }
    QueryError::new(
        ErrorKind::InvalidDefinition,
        format!("cube `{}` is not partitioned, so it has no ranges", cube.entry.name),
    )
    .hint("leave FROM … TO … out, or create it with PARTITION BY RANGE (column) EVERY …")
}

/// Refuses an empty range.
pub(super) fn check_filled(division: &RangePartition, range: KeyRange) -> Result<()> {
    if range.from < range.to {
        return Ok(());
    }
    let message = format!("range {} is empty", division.show_range(range));
    Err(QueryError::new(ErrorKind::InvalidParameter, message)
        .hint("FROM is the first value, TO the first after the last"))
}

/// The error about a segment of which a range holds a part.
pub(super) fn cut(column: &PartitionColumn, range: KeyRange, segment: &SegmentEntry) -> QueryError {
    let message = format!(
        "range {} cuts segment {}, which holds {}",
        column.division.show_range(range),
        segment.id.0,
        column.show(segment.range)
    );
    QueryError::new(ErrorKind::InvalidParameter, message).hint("widen the range; SHOW SEGMENTS lists them")
}

/// Refuses an empty range, and bounds at which no segment can begin or end.
fn check(division: &RangePartition, range: KeyRange) -> Result<()> {
    check_filled(division, range)?;
    for key in [range.from, range.to] {
        if division.is_bound(key) {
            continue;
        }
        let error = QueryError::new(
            ErrorKind::InvalidParameter,
            format!("no segment can begin or end at {}", division.show(key)),
        );
        return Err(match division.range_of(key) {
            Some(step) => error.hint(format!(
                "the bounds next to it are {} and {}",
                division.show(step.from),
                division.show(step.to)
            )),
            None => error.hint("use a value that the calendar knows"),
        });
    }
    Ok(())
}

struct Planner<'a> {
    cube: &'a ReadyCube,
    column: &'a PartitionColumn,
    range: Option<KeyRange>,
    /// Ranges before this key are not built.
    kept_from: Option<i64>,
}

impl<'a> Planner<'a> {
    fn new(cube: &'a ReadyCube, column: &'a PartitionColumn, range: Option<KeyRange>) -> Result<Self> {
        if let Some(range) = range {
            check(&column.division, range)?;
        }
        let kept_from = kept_from(cube, column, range);
        if let (Some(range), Some(from)) = (range, kept_from)
            && range.to <= from
        {
            let (shown, from) = (column.division.show_range(range), column.division.show(from));
            let message = format!("range {shown} lies before {from}, from which the cube keeps segments");
            return Err(QueryError::new(ErrorKind::InvalidParameter, message)
                .hint("raise its retention with ALTER CUBE … SET (retention = …)"));
        }
        Ok(Self { cube, column, range, kept_from })
    }

    /// Builds of existing segments for which `again` holds and of missing ones, extensions of others, and then the
    /// ranges without rows.
    fn build(&self, again: impl Fn(&SegmentEntry) -> bool, filled: &FilledSteps) -> Result<Vec<Work>> {
        let mut ranges = BTreeSet::new();
        let mut nulls_held = false;
        let mut extended = Vec::new();
        for segment in self.ready().filter(|segment| !segment.is_gap()) {
            let extend = !again(segment) && is_extensible(self.cube, segment) && self.asks_for(segment)?;
            extended.extend(extend.then_some(Work::Extend(segment.range, segment.id)));
            match segment.range {
                SegmentRange::Keys(keys) => {
                    if self.reaches(segment, keys)? && again(segment) {
                        ranges.insert(keys);
                    }
                }
                SegmentRange::Nulls => nulls_held = !again(segment),
                SegmentRange::Whole | SegmentRange::Written(_) => {}
            }
        }
        let held = self.held(&again);
        let missing = filled.ranges(&self.column.division, &held);
        let gaps = self.unheld(&held, &again)?.subtract(&missing.iter().copied().collect());
        ranges.extend(missing);
        ranges.retain(|range| self.kept_from.is_none_or(|from| range.to > from));
        if filled.are_too_many() || ranges.len() > MAX_SEGMENTS {
            return Err(self.too_many());
        }
        let mut work: Vec<Work> =
            ranges.into_iter().map(|range| Work::Build(SegmentRange::Keys(range))).collect();
        if self.range.is_none() && self.cube.coverage.nulls && !nulls_held {
            work.push(Work::Build(SegmentRange::Nulls));
        }
        work.extend(extended);
        let gaps = gaps.spans().map(|(from, last)| KeyRange { from, to: last.saturating_add(1) });
        work.extend(gaps.map(|gap| Work::Empty(SegmentRange::Keys(gap))));
        Ok(work)
    }

    /// The keys of segments that stay or are made again. A range without rows stays only if it is not checked again.
    fn held(&self, again: &impl Fn(&SegmentEntry) -> bool) -> KeySet {
        let held = self.ready().filter(|segment| !(segment.is_gap() && again(segment)));
        let keys = held.filter_map(|segment| match segment.range {
            SegmentRange::Keys(keys) => Some(keys),
            SegmentRange::Nulls | SegmentRange::Whole | SegmentRange::Written(_) => None,
        });
        keys.collect()
    }

    /// The requested range, together with the ranges without rows that it cuts and that are checked again; without a request, the steps
    /// between the first and the last key of each file. Keys of `held`, and steps that retention has dropped, are left out.
    fn unheld(&self, held: &KeySet, again: &impl Fn(&SegmentEntry) -> bool) -> Result<KeySet> {
        let division = &self.column.division;
        let kept = self.kept_from.and_then(|from| division.range_of(from));
        let kept = kept.map_or_else(KeySet::all, |first| KeySet::at_least(first.from));
        if let Some(range) = self.range {
            let gaps = self.ready().filter(|segment| segment.is_gap() && again(segment));
            let cut = gaps.filter_map(|segment| match segment.range {
                SegmentRange::Keys(keys) => range.overlaps(keys).then_some(keys),
                SegmentRange::Nulls | SegmentRange::Whole | SegmentRange::Written(_) => None,
            });
            let all: KeySet = cut.chain([range]).collect();
            return Ok(all.subtract(held).intersect(&kept));
        }
        let spans = self.cube.coverage.file_spans().map(|(first, last)| {
            if first == i64::MIN || last == i64::MAX {
                let message = format!(
                    "the files of cube `{}` do not tell their values of `{}`",
                    self.cube.entry.name, division.column
                );
                return Err(QueryError::new(ErrorKind::InvalidParameter, message)
                    .hint("say which range to build: BUILD CUBE … FROM … TO …"));
            }
            let ends = division.range_of(first).zip(division.range_of(last));
            let (first, last) = ends.ok_or_else(|| {
                let message = format!("column `{}` has values that no segment can hold", division.column);
                QueryError::new(ErrorKind::InvalidParameter, message)
                    .hint("say which range to build: BUILD CUBE … FROM … TO …")
            })?;
            Ok(KeyRange { from: first.from, to: last.to })
        });
        let spans = spans.collect::<Result<KeySet>>()?;
        Ok(spans.subtract(held).intersect(&kept))
    }

    fn ready(&self) -> impl Iterator<Item = &SegmentEntry> {
        self.cube.entry.segments.iter().filter(|segment| segment.state == SegmentState::Ready)
    }

    fn asks_for(&self, segment: &SegmentEntry) -> Result<bool> {
        match segment.range {
            SegmentRange::Keys(keys) => self.reaches(segment, keys),
            SegmentRange::Whole | SegmentRange::Nulls | SegmentRange::Written(_) => Ok(self.range.is_none()),
        }
    }

    /// Whether the requested range makes a segment again. A segment of outliers is made again even if the range cuts it.
    fn reaches(&self, segment: &SegmentEntry, keys: KeyRange) -> Result<bool> {
        let cuts = self.range.is_some_and(|range| range.overlaps(keys) && !range.contains(keys));
        if cuts && holds_outliers(&self.column.division, keys, segment.source_rows) {
            return Ok(true);
        }
        self.includes(segment, keys)
    }

    /// Whether a segment lies in the requested range; an error if the range cuts it.
    fn includes(&self, segment: &SegmentEntry, keys: KeyRange) -> Result<bool> {
        match self.range {
            Some(range) if !range.overlaps(keys) => Ok(false),
            Some(range) if !range.contains(keys) => Err(cut(self.column, range, segment)),
            _ => Ok(true),
        }
    }

    fn too_many(&self) -> QueryError {
        let message = format!("more than {MAX_SEGMENTS} segments would be built at once");
        QueryError::new(ErrorKind::InvalidParameter, message)
            .hint("build a smaller range with FROM … TO …, or create the cube with wider steps")
    }

    /// All usable segments of the range as one; they must be neighbours.
    fn merge(&self) -> Result<Vec<Work>> {
        let mut parts: Vec<(KeyRange, &SegmentEntry)> = Vec::new();
        let mut gaps = Vec::new();
        for segment in self.ready() {
            let SegmentRange::Keys(keys) = segment.range else { continue };
            match self.includes(segment, keys)? {
                true if segment.is_gap() => {
                    gaps.extend(self.cube.coverage.why_stale(segment.id).is_none().then_some(keys));
                }
                true => parts.push((keys, segment)),
                false => {}
            }
        }
        parts.sort_by_key(|(keys, _)| *keys);
        let refused = |message: String, hint: &str| {
            Err(QueryError::new(ErrorKind::InvalidParameter, message).hint(hint.to_owned()))
        };
        let (Some((first, _)), Some((last, _))) = (parts.first(), parts.last()) else {
            return refused("there is no segment to merge".to_owned(), "run BUILD CUBE first");
        };
        let whole = self.range.unwrap_or(KeyRange { from: first.from, to: last.to });
        let held: KeySet = parts.iter().map(|(keys, _)| *keys).chain(gaps).collect();
        if let Some((from, last)) = KeySet::from(whole).subtract(&held).spans().next() {
            return self.hole(KeyRange { from, to: last.saturating_add(1) });
        }
        for (_, segment) in &parts {
            if let Some(reason) = self.cube.coverage.why_stale(segment.id) {
                let shown = self.column.show(segment.range);
                return refused(
                    format!("segment {shown} is stale: {reason}"),
                    "run REFRESH CUBE for it first",
                );
            }
            if !self.cube.entry.definition.outstanding(segment).is_empty() {
                let shown = self.column.show(segment.range);
                return refused(
                    format!("segment {shown} was built before the cube was altered"),
                    "run BUILD CUBE for it first",
                );
            }
        }
        if parts.len() == 1 {
            return Ok(Vec::new());
        }
        Ok(vec![Work::Merge(
            SegmentRange::Keys(whole),
            parts.iter().map(|(_, segment)| segment.id).collect(),
        )])
    }

    fn hole(&self, missing: KeyRange) -> Result<Vec<Work>> {
        let shown = show_range(Some(&self.column.division), SegmentRange::Keys(missing));
        Err(QueryError::new(ErrorKind::InvalidParameter, format!("no segment holds {shown}"))
            .hint("build that range first, or merge a range without a hole"))
    }
}
