//! Segments of a cube, which Kylin names by the times that its rows lie between.

use std::collections::HashMap;

use axum::extract::{Path, Query, State};
use axum::response::Response;
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_engine::{QueryError, Session};
use nyala_model::{KeyKind, QualifiedName, RangePartition, SegmentRange};
use serde_json::{Value, json};

use super::answer::Dialect;
use super::cubes::{Wanted, find};
use super::error::KylinError;
use super::session::{literal, rows, session_in};
use crate::http::{Caller, Shared};

/// A segment as `SHOW SEGMENTS` tells it.
pub struct Segment {
    /// Its number.
    id: String,
    /// `19970101000000_19970201000000`, or its range as we write it where Kylin has no such range.
    name: String,
    state: String,
    bytes: u64,
    rows: u64,
    built_at_ms: u64,
    bounds: Option<(i64, i64)>,
}

impl Segment {
    fn of(
        row: Vec<Option<String>>,
        division: Option<&RangePartition>,
        ranges: &HashMap<u64, SegmentRange>,
    ) -> Self {
        let mut cells = row.into_iter();
        let mut next = || cells.next().flatten().unwrap_or_default();
        let (id, range, state) = (next(), next(), next());
        let mut number = || next().parse::<u64>().unwrap_or(0);
        let (bytes, rows, built_at_ms) = (number(), number(), number());
        let bounds = id.parse::<u64>().ok().and_then(|id| bounds_of(division, *ranges.get(&id)?));
        let name = bounds.and_then(|bounds| name_of(division, bounds)).unwrap_or(range);
        Self { id, name, state, bytes, rows, built_at_ms, bounds }
    }

    pub fn shown(&self) -> Value {
        let is_new = matches!(self.state.as_str(), "building" | "interrupted");
        json!({
            "uuid": self.id,
            "id": self.id,
            "name": self.name,
            "status": if is_new { "NEW" } else { "READY" },
            "date_range_start": self.bounds.map(|(from, _)| from),
            "date_range_end": self.bounds.map(|(_, to)| to),
            "size_kb": self.bytes / 1024,
            "bytes_size": self.bytes,
            "input_records": self.rows,
            "row_count": self.rows,
            "last_build_time": self.built_at_ms,
        })
    }
}

/// The times that the rows of a segment lie between, in milliseconds since the Unix epoch; the numbers themselves if the cube is
/// divided by plain numbers. None for rows without a value, and for those of live tables.
fn bounds_of(division: Option<&RangePartition>, range: SegmentRange) -> Option<(i64, i64)> {
    match (division, range) {
        (_, SegmentRange::Whole) => Some((0, i64::MAX)),
        (Some(division), SegmentRange::Keys(keys)) if division.kind == KeyKind::Integer => {
            Some((keys.from, keys.to))
        }
        (Some(division), SegmentRange::Keys(keys)) => division.ms_of(keys.from).zip(division.ms_of(keys.to)),
        (None, SegmentRange::Keys(_)) | (_, SegmentRange::Nulls | SegmentRange::Written(_)) => None,
    }
}

/// The name that Kylin gives a segment with these bounds.
fn name_of(division: Option<&RangePartition>, (from, to): (i64, i64)) -> Option<String> {
    const PATTERN: &str = "%Y%m%d%H%M%S";
    match division.map(|division| division.kind) {
        None => Some("FULL_BUILD".to_owned()),
        Some(KeyKind::Integer) => Some(format!("{from}_{to}")),
        Some(KeyKind::CalendarInteger | KeyKind::Date | KeyKind::Timestamp { .. }) => {
            Some(format!("{}_{}", utc_text(from, PATTERN)?, utc_text(to, PATTERN)?))
        }
    }
}

/// A time of UTC in a pattern of chrono; none beyond the calendar.
pub fn utc_text(ms: i64, pattern: &str) -> Option<String> {
    let array = arrow::array::TimestampMillisecondArray::from(vec![ms]);
    array.value_as_datetime(0).map(|at| at.format(pattern).to_string())
}

/// The segments of a cube, by number.
pub fn segments_of<'a>(
    shared: &'a Shared,
    session: &'a Session,
    cube: &'a QualifiedName,
) -> BoxFuture<'a, Result<Vec<Segment>, QueryError>> {
    let sql = format!(
        "SELECT segment, \"range\", state, bytes, source_rows, CAST(extract(epoch FROM built_at) * 1000 AS BIGINT) \
         FROM system.segments WHERE schema = {} AND cube = {} AND segment IS NOT NULL ORDER BY segment",
        literal(&cube.schema),
        literal(&cube.name)
    );
    async move {
        let found = rows(session, &sql).await?;
        let snapshot = shared.engine.catalog().snapshot();
        let entry = snapshot.cubes.get(cube);
        let division = entry.and_then(|cube| cube.definition.partition.as_ref());
        let segments = entry.into_iter().flat_map(|cube| &cube.segments);
        let ranges: HashMap<u64, SegmentRange> =
            segments.map(|segment| (segment.id.0, segment.range)).collect();
        Ok(found.into_iter().map(|row| Segment::of(row, division, &ranges)).collect())
    }
    .boxed()
}

/// The segments of a cube.
pub async fn list(
    State(shared): State<Shared>,
    Caller(options): Caller,
    dialect: Dialect,
    Path(model): Path<String>,
    Query(wanted): Query<Wanted>,
) -> Result<Response, KylinError> {
    let session = session_in(&shared, options, None)?;
    let cube = find(&session, &model, wanted.project.as_deref()).await?;
    let segments = segments_of(&shared, &session, &cube.name).await?;
    Ok(dialect.list(segments.iter().map(Segment::shown).collect(), wanted.page(dialect)))
}

#[cfg(test)]
mod tests {
    use nyala_model::{KeyRange, Step};

    use super::*;

    #[test]
    fn segments_are_named_by_the_times_that_they_lie_between() {
        let division = |kind| RangePartition { column: "day".to_owned(), kind, step: Step::Months(1) };
        let check = |division: Option<RangePartition>,
                     range: SegmentRange,
                     bounds: Option<(i64, i64)>,
                     name: Option<&str>| {
            let found = bounds_of(division.as_ref(), range);
            assert_eq!(found, bounds, "{range:?}");
            let named = found.and_then(|bounds| name_of(division.as_ref(), bounds));
            assert_eq!(named.as_deref(), name, "{range:?}");
        };
        let keys = |from, to| SegmentRange::Keys(KeyRange { from, to });
        let january = Some((1_704_067_200_000, 1_706_745_600_000));
        let name = Some("20240101000000_20240201000000");
        check(Some(division(KeyKind::Date)), keys(19_723, 19_754), january, name);
        check(Some(division(KeyKind::CalendarInteger)), keys(20_240_101, 20_240_201), january, name);
        let seconds = KeyKind::Timestamp { per_second: 1 };
        check(Some(division(seconds)), keys(1_704_067_200, 1_706_745_600), january, name);
        check(Some(division(KeyKind::Integer)), keys(0, 1000), Some((0, 1000)), Some("0_1000"));
        check(Some(division(KeyKind::Date)), SegmentRange::Nulls, None, None);
        check(None, SegmentRange::Whole, Some((0, i64::MAX)), Some("FULL_BUILD"));
        check(None, SegmentRange::Written(KeyRange { from: 1, to: 9 }), None, None);
    }
}
