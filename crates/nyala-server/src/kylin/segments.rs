//! Segments of a cube, which Kylin names by the times that its rows lie between.

use std::collections::HashMap;

use axum::response::Response;
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_engine::{QueryError, Session};
use nyala_model::{KeyKind, QualifiedName, RangePartition, SegmentRange};
use serde_json::{Value, json};

use super::answer::Dialect;
use super::error::KylinError;
use super::named_cube::NamedCube;
use super::parameters::Parameters;
use super::session::{literal, rows, sql_name};
use crate::http::Shared;

/// The end of a period without bounds, as Kylin 5 writes it, in milliseconds. Its beginning is 0.
pub const END_OF_TIME_MS: i64 = i64::MAX - 1;

/// A segment as `SHOW SEGMENTS` tells it.
pub struct Segment {
    /// The number of the segment.
    id: String,
    /// `19970101000000_19970201000000`, or the range as `SHOW SEGMENTS` writes it where Kylin has no such range.
    name: String,
    state: String,
    bytes: u64,
    rows: u64,
    built_at_ms: u64,
    bounds: Option<(i64, i64)>,
    /// The values of FROM and TO in statements; none if the segment has no range of values.
    range: Option<(String, String)>,
}

impl Segment {
    fn of(
        row: Vec<Option<String>>,
        division: Option<&RangePartition>,
        ranges: &HashMap<u64, SegmentRange>,
    ) -> Self {
        let mut cells = row.into_iter();
        let mut next = || cells.next().flatten();
        let range = next().zip(next());
        let mut text = || next().unwrap_or_default();
        let (id, shown_range, state) = (text(), text(), text());
        let mut number = || text().parse::<u64>().unwrap_or(0);
        let (bytes, rows, built_at_ms) = (number(), number(), number());
        let bounds = id.parse::<u64>().ok().and_then(|id| bounds_of(division, *ranges.get(&id)?));
        let name = bounds.and_then(|bounds| name_of(division, bounds)).unwrap_or(shown_range);
        Self { id, name, state, bytes, rows, built_at_ms, bounds, range }
    }

    fn is_called(&self, name: &str) -> bool {
        self.id == name || self.name == name
    }

    /// Whether the segment may hold rows of a period. Rows without a value are only in a period without bounds.
    fn is_between(&self, from: Option<i64>, to: Option<i64>) -> bool {
        let is_everything = from.is_none_or(|from| from == 0) && to.is_none_or(|to| to >= END_OF_TIME_MS);
        let reaches_into =
            |(first, end): (i64, i64)| from.is_none_or(|from| end > from) && to.is_none_or(|to| first < to);
        is_everything || self.bounds.is_some_and(reaches_into)
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
        "SELECT range_from, range_to, segment, \"range\", state, bytes, source_rows, CAST(extract(epoch FROM built_at) * 1000 AS BIGINT) \
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

/// The segments of these names or numbers.
fn named<'s>(
    cube: &QualifiedName,
    segments: &'s [Segment],
    names: &[String],
) -> Result<Vec<&'s Segment>, KylinError> {
    let called = |name: &String| {
        let segment = segments.iter().find(|segment| segment.is_called(name));
        segment.ok_or_else(|| KylinError::invalid(format!("cube `{cube}` has no segment `{name}`")))
    };
    names.iter().map(called).collect()
}

/// FROM and TO of the segments of these names or numbers; nothing for all segments of the cube, and without names.
pub fn range_of(cube: &QualifiedName, segments: &[Segment], names: &[String]) -> Result<String, KylinError> {
    let mut wanted = named(cube, segments, names)?;
    wanted.sort_by_key(|segment| segment.bounds);
    wanted.dedup_by(|one, other| one.id == other.id);
    let ranges: Option<Vec<&(String, String)>> =
        wanted.iter().map(|segment| segment.range.as_ref()).collect();
    let adjoin = |pair: &[&(String, String)]| matches!(pair, [one, next] if one.1 == next.0);
    let joined = ranges.filter(|ranges| ranges.windows(2).all(adjoin));
    match joined.as_deref() {
        Some([first, .., last]) => Ok(format!(" FROM {} TO {}", constant(&first.0), constant(&last.1))),
        Some([only]) => Ok(format!(" FROM {} TO {}", constant(&only.0), constant(&only.1))),
        _ if wanted.is_empty() || wanted.len() == segments.len() => Ok(String::new()),
        _ => Err(KylinError::invalid(format!(
            "segments `{}` of cube `{cube}` are not one range of values; send a request for each, or name all segments",
            names.join("`, `")
        ))),
    }
}

/// The statement that drops the segments of these names or numbers, all at once. It names numbers, not ranges: another segment may hold the
/// same range by the time it runs.
pub fn drop_of(cube: &QualifiedName, segments: &[Segment], names: &[String]) -> Result<String, KylinError> {
    let wanted = named(cube, segments, names)?;
    let numbers: Vec<&str> = wanted.into_iter().map(|segment| segment.id.as_str()).collect();
    Ok(format!("ALTER CUBE {} DROP SEGMENTS {}", sql_name(cube), numbers.join(", ")))
}

/// A bound of a range as a constant of SQL.
fn constant(bound: &str) -> String {
    if bound.parse::<i64>().is_ok() { bound.to_owned() } else { literal(bound) }
}

/// The segments of a cube, of those that hold a part of a period if one is asked for.
pub async fn list(dialect: Dialect, asked: Parameters, of: NamedCube) -> Result<Response, KylinError> {
    let (page, from, to) = (asked.page(dialect)?, asked.number(&["start"])?, asked.number(&["end"])?);
    let segments = of.segments().await?;
    let wanted = segments.iter().filter(|segment| segment.is_between(from, to));
    Ok(dialect.list("segments", wanted.map(Segment::shown).collect(), page))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use nyala_model::{KeyRange, Step};

    use super::*;

    fn segment(id: u64, range: Option<(&str, &str)>) -> Segment {
        let (from, to) = range.unzip();
        let cells = [from.map(str::to_owned), to.map(str::to_owned), Some(id.to_string())];
        let cells = cells.into_iter().chain([Some(format!("range {id}"))]).collect();
        Segment::of(cells, None, &HashMap::new())
    }

    #[test]
    fn segments_are_dropped_by_name_or_number() {
        let cube = QualifiedName::new("public", "c");
        let segments = [
            segment(7, Some(("2024-01-01", "2024-02-01"))),
            segment(8, Some(("-100", "0"))),
            segment(9, None),
        ];
        let dropped = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            drop_of(&cube, &segments, &names).ok()
        };
        let check = |names: &[&str], numbers: Option<&str>| {
            let expected = numbers.map(|all| format!("ALTER CUBE \"public\".\"c\" DROP SEGMENTS {all}"));
            assert_eq!(dropped(names), expected, "{names:?}");
        };
        check(&["7"], Some("7"));
        check(&["range 8", "7"], Some("8, 7"));
        check(&["7", "9", "range 8"], Some("7, 9, 8"));
        check(&["6"], None);
        check(&["7", "6"], None);
        check(&[""], None);
    }

    #[test]
    fn segments_that_adjoin_are_one_range() {
        let cube = QualifiedName::new("public", "c");
        let at = |id: u64, from: i64, to: i64| {
            let (first, end) = (from.to_string(), to.to_string());
            Segment { bounds: Some((from, to)), ..segment(id, Some((first.as_str(), end.as_str()))) }
        };
        let segments = [at(1, 0, 10), at(2, 10, 20), at(3, 30, 40), segment(4, None)];
        let check = |names: &[&str], expected: Option<&str>| {
            let owned: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(range_of(&cube, &segments, &owned).ok().as_deref(), expected, "{names:?}");
        };
        check(&["range 3"], Some(" FROM 30 TO 40"));
        check(&["2", "1", "2"], Some(" FROM 0 TO 20"));
        check(&[], Some(""));
        check(&["1", "2", "3", "4"], Some(""));
        check(&["1", "3"], None);
        check(&["4"], None);
        check(&["5"], None);
    }

    #[test]
    fn segments_of_a_period_are_those_that_reach_into_it() {
        let bounded = |bounds| Segment { bounds, ..segment(1, None) };
        let check = |bounds, from, to, expected: bool| {
            assert_eq!(bounded(bounds).is_between(from, to), expected, "{bounds:?} {from:?} {to:?}");
        };
        check(Some((10, 20)), None, None, true);
        check(Some((10, 20)), Some(19), Some(30), true);
        check(Some((10, 20)), Some(20), None, false);
        check(Some((10, 20)), None, Some(10), false);
        check(None, None, None, true);
        check(None, Some(1), None, false);
        check(None, None, Some(10), false);
        // Kylin 5 takes these bounds where a client names none, and some clients write them.
        check(None, Some(0), Some(i64::MAX - 1), true);
        check(Some((-20, -10)), Some(0), Some(i64::MAX - 1), true);
        check(Some((-20, -10)), Some(0), Some(10), false);
    }

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
