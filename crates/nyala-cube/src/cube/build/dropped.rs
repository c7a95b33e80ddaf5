//! Which segments `ALTER CUBE … DROP SEGMENTS` drops.

use nyala_model::{KeyRange, SegmentEntry, SegmentRange, SegmentState};
use nyala_sql::error::{ErrorKind, QueryError, Result};

use super::wanted::{check_filled, cut};
use crate::cube::rewrite::ReadyCube;

/// The segments of a range, or all of them.
///
/// One that holds other rows besides is refused. The record that a wider range has no rows stays, since that remains true, and an
/// unfinished segment goes: nothing of the range is left that a build could take up.
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

fn without_ranges(cube: &ReadyCube) -> QueryError {
    let message =
        format!("cube `{}` is not partitioned by a column, so its segments have no ranges", cube.entry.name);
    QueryError::new(ErrorKind::InvalidDefinition, message)
        .hint("without FROM … TO …, DROP SEGMENTS drops all of them")
}
