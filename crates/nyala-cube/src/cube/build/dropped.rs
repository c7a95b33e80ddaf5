//! Finds the segments that `ALTER CUBE … DROP SEGMENTS` drops.

use std::collections::BTreeSet;

use nyala_model::{CubeEntry, KeyRange, SegmentEntry, SegmentRange, SegmentState};
use nyala_sql::error::{ErrorKind, QueryError, Result};

use super::wanted::{check_filled, cut};
use crate::cube::rewrite::ReadyCube;

/// The segments of a range, or all of them.
///
/// A segment that also holds rows outside of the range is refused. A record that a wider range has no rows stays, because it
/// remains true. An unfinished segment is dropped, so that no build takes up rows of the range.
pub fn segments_in(cube: &ReadyCube, range: Option<KeyRange>) -> Result<Vec<SegmentEntry>> {
    let Some(range) = range else { return Ok(cube.entry.segments.clone()) };
    let column = cube.compiled.as_ref().ok().and_then(|compiled| compiled.partition.as_ref());
    let column = column.ok_or_else(|| without_ranges(cube))?;
    check_filled(&column.division, range)?;
    let mut chosen = Vec::new();
    for segment in &cube.entry.segments {
        let SegmentRange::Keys(keys) = segment.range else { continue };
        if !range.overlaps(keys) {
            continue;
        }
        if range.contains(keys) || segment.state == SegmentState::Building {
            chosen.push(segment.clone());
        } else if !segment.is_gap() {
            return Err(cut(column, range, segment));
        }
    }
    Ok(chosen)
}

/// The segments with these numbers. A segment without a range of values can only be dropped with all others.
///
/// # Errors
/// [`ErrorKind::UndefinedObject`] if the cube has no segment of one of the numbers: another one may hold its rows by now, and is not
/// what the statement named.
pub fn segments_numbered(cube: &CubeEntry, numbers: &[u64]) -> Result<Vec<SegmentEntry>> {
    let existing: BTreeSet<u64> = cube.segments.iter().map(|segment| segment.id.0).collect();
    let wanted: BTreeSet<u64> = numbers.iter().copied().collect();
    if let Some(gone) = wanted.difference(&existing).next() {
        let message = format!("cube `{}` has no segment `{gone}`", cube.name);
        return Err(QueryError::new(ErrorKind::UndefinedObject, message)
            .hint("it may have been dropped or built anew meanwhile; SHOW SEGMENTS lists the segments"));
    }
    let chosen = cube.segments.iter().filter(|segment| wanted.contains(&segment.id.0));
    let mut without_range = chosen.clone().filter(|segment| !matches!(segment.range, SegmentRange::Keys(_)));
    match without_range.next() {
        Some(segment) if wanted.len() < existing.len() => {
            let message = format!(
                "segment `{}` of cube `{}` has no range of values, and goes with all others only",
                segment.id, cube.name
            );
            Err(QueryError::new(ErrorKind::InvalidParameter, message)
                .hint("without numbers, DROP SEGMENTS drops all of them"))
        }
        _ => Ok(chosen.cloned().collect()),
    }
}

fn without_ranges(cube: &ReadyCube) -> QueryError {
    let message =
        format!("cube `{}` is not partitioned by a column, so its segments have no ranges", cube.entry.name);
    QueryError::new(ErrorKind::InvalidDefinition, message)
        .hint("without FROM … TO …, DROP SEGMENTS drops all of them")
}
