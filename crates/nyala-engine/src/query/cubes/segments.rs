//! `SHOW SEGMENTS` and `SHOW CUBOIDS`.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::sql::sqlparser::ast::ObjectName;
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_cube::cube::{Coverage, show_bounds, show_range};
use nyala_cube::live::Pins;
use nyala_model::{
    CubeEntry, DimensionSet, KeyRange, KeySet, NodeEntry, NodeId, QualifiedName, SegmentEntry, SegmentRange,
    SegmentState,
};
use nyala_sql::error::{ErrorKind, QueryError, Result};

use super::analyze::{Uses, uses_of};
use super::unit::unit_text;
use crate::query::answer::Answer;
use crate::query::authorize::Caller;
use crate::query::columns::{batch, number, numbers, text, texts, time, times};
use crate::query::command::Command;
use crate::query::engine::Engine;
use crate::query::execution::Execution;
use crate::query::nodes::Nodes;

/// `SHOW SEGMENTS`.
pub struct ShowSegments<'s> {
    /// The cube to list; none for all cubes.
    pub cube: Option<&'s ObjectName>,
}

impl Command for ShowSegments<'_> {
    fn schema(&self) -> Option<SchemaRef> {
        Some(schema())
    }

    fn authorize(&self, _: &Caller<'_>) -> Result<()> {
        Ok(())
    }

    fn run<'a>(&'a self, execution: Execution<'a>) -> BoxFuture<'a, Result<Answer>> {
        async move {
            let cube = self.cube.map(|name| execution.name(name)).transpose()?;
            let rows = segments(execution.engine(), cube.as_ref())?;
            Ok(execution.rows(rows))
        }
        .boxed()
    }
}

/// `SHOW CUBOIDS`.
pub struct ShowCuboids<'s> {
    /// The cube to list; none for all cubes.
    pub cube: Option<&'s ObjectName>,
}

impl Command for ShowCuboids<'_> {
    fn schema(&self) -> Option<SchemaRef> {
        Some(cuboids_schema())
    }

    fn authorize(&self, _: &Caller<'_>) -> Result<()> {
        Ok(())
    }

    fn run<'a>(&'a self, execution: Execution<'a>) -> BoxFuture<'a, Result<Answer>> {
        async move {
            let cube = self.cube.map(|name| execution.name(name)).transpose()?;
            let rows = cuboids(execution.engine(), cube.as_ref()).await?;
            Ok(execution.rows(rows))
        }
        .boxed()
    }
}

/// Columns of `SHOW SEGMENTS`.
pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        text("schema"),
        text("cube"),
        number("segment"),
        text("range"),
        text("state"),
        text("reason"),
        number("source_rows"),
        number("cuboids"),
        number("rows"),
        number("bytes"),
        time("built_at"),
        text("node"),
        text("range_from"),
        text("range_to"),
    ]))
}

/// Columns of `SHOW CUBOIDS`.
pub fn cuboids_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        text("schema"),
        text("cube"),
        text("cuboid"),
        number("segments"),
        number("rows"),
        number("bytes"),
        number("files"),
        number("memory_bytes"),
        number("hits"),
        time("last_used"),
    ]))
}

/// A segment, or a hole between segments.
struct Row<'a> {
    cube: &'a CubeEntry,
    segment: Option<&'a SegmentEntry>,
    range: SegmentRange,
    state: &'static str,
    reason: Option<String>,
}

/// All segments in the order of ranges, and the holes between them.
pub fn segments(engine: &Engine, only: Option<&QualifiedName>) -> Result<RecordBatch> {
    let context = engine.snapshots.current();
    let nodes: Vec<NodeEntry> = engine.nodes.all().into_iter().filter(Nodes::is_alive).collect();
    let others: Vec<&NodeId> = nodes.iter().map(|node| &node.id).filter(|id| **id != engine.node).collect();
    let builds = engine.observed.registry.running();
    let is_built_for_another = |cube: &CubeEntry| {
        let text = unit_text(&cube.name);
        builds.iter().any(|entry| entry.builds() && entry.text.to_string().starts_with(&text))
    };
    let mut rows = Vec::new();
    for cube in chosen(context.snapshot(), only)? {
        let coverage = coverage_now(engine, cube);
        let running =
            is_built_for_another(cube) || engine.build_progress().iter().any(|job| job.cube == cube.name);
        rows.extend(segments_of(cube, &coverage, |segment| running || others.contains(&&segment.node)));
    }
    let ranges: Vec<String> =
        rows.iter().map(|row| show_range(row.cube.definition.partition.as_ref(), row.range)).collect();
    let bounds: Vec<(Option<String>, Option<String>)> =
        rows.iter().map(|row| show_bounds(row.cube.definition.partition.as_ref(), row.range)).collect();
    let count = |count: fn(&SegmentEntry) -> u64| numbers(rows.iter().map(move |r| r.segment.map(count)));
    let columns: Vec<ArrayRef> = vec![
        texts(rows.iter().map(|row| Some(row.cube.name.schema.as_str()))),
        texts(rows.iter().map(|row| Some(row.cube.name.name.as_str()))),
        count(|segment| segment.id.0),
        texts(ranges.iter().map(|range| Some(range.as_str()))),
        texts(rows.iter().map(|row| Some(row.state))),
        texts(rows.iter().map(|row| row.reason.as_deref())),
        count(|segment| segment.source_rows),
        count(|segment| segment.cuboids.len() as u64),
        count(|segment| segment.cuboids.iter().map(|cuboid| cuboid.rows).sum()),
        count(|segment| segment.cuboids.iter().map(|cuboid| cuboid.bytes).sum()),
        times(rows.iter().map(|row| Some(row.segment?.built_at_ms).filter(|ms| *ms > 0))),
        texts(rows.iter().map(|row| Some(row.segment?.node.0.as_str()).filter(|node| !node.is_empty()))),
        texts(bounds.iter().map(|(from, _)| from.as_deref())),
        texts(bounds.iter().map(|(_, to)| to.as_deref())),
    ];
    batch(schema(), columns)
}

/// The coverage of a cube for a statement that begins now.
pub fn coverage_now(engine: &Engine, cube: &CubeEntry) -> Coverage {
    let context = engine.snapshots.current();
    let found = context.cubes().find(cube).map(|cube| cube.at(&Pins::default()));
    found.map(|cube| cube.coverage.clone()).unwrap_or_default()
}

/// The rows of a cube. `is_made` tells whether a node is still making an unfinished segment.
fn segments_of<'a>(
    cube: &'a CubeEntry,
    coverage: &Coverage,
    is_made: impl Fn(&SegmentEntry) -> bool,
) -> Vec<Row<'a>> {
    let mut rows: Vec<Row<'a>> = cube
        .segments
        .iter()
        .map(|segment| {
            let stale = coverage.why_stale(segment.id).map(str::to_owned);
            let outstanding = cube.definition.outstanding(segment).len();
            let state = match (segment.state, &stale) {
                (SegmentState::Building, _) if is_made(segment) => "building",
                // Its process died; the next build of the range continues it.
                (SegmentState::Building, _) => "interrupted",
                (SegmentState::Damaged, _) => "damaged",
                (SegmentState::Ready, Some(_)) => "stale",
                (SegmentState::Ready, None) if outstanding > 0 => "partial",
                (SegmentState::Ready, None) if segment.is_gap() => "empty",
                (SegmentState::Ready, None) => "ready",
            };
            let all = cube.definition.grouping_sets.len();
            let partial = (state == "partial").then(|| {
                format!("{outstanding} of {all} cuboids are to be built since the cube was altered; run BUILD CUBE")
            });
            let reason = stale.or(partial);
            Row { cube, segment: Some(segment), range: segment.range, state, reason }
        })
        .collect();
    rows.extend(holes(cube, coverage).into_iter().map(|hole| Row {
        cube,
        segment: None,
        range: hole,
        state: "missing",
        reason: None,
    }));
    rows.sort_by_key(|row| match row.range {
        SegmentRange::Keys(keys) | SegmentRange::Written(keys) => {
            (keys.from, row.segment.map(|segment| segment.id))
        }
        SegmentRange::Whole | SegmentRange::Nulls => (i64::MAX, row.segment.map(|segment| segment.id)),
    });
    rows
}

/// Ranges in which tables have rows and no segment is ready.
fn holes(cube: &CubeEntry, coverage: &Coverage) -> Vec<SegmentRange> {
    let ready = cube.segments.iter().filter(|segment| segment.state == SegmentState::Ready);
    let held: KeySet = ready
        .filter_map(|segment| match segment.range {
            SegmentRange::Keys(keys) | SegmentRange::Written(keys) => Some(keys),
            SegmentRange::Whole | SegmentRange::Nulls => None,
        })
        .collect();
    let range = |(from, last): (i64, i64)| KeyRange { from, to: last.saturating_add(1) };
    if let Some(version) = coverage.written() {
        let all = KeySet::between(1, i64::try_from(version.lsn()).unwrap_or(i64::MAX));
        let holes = all.subtract(&held);
        let holes = holes.spans().map(range).filter(|lsns| coverage.may_have(&(*lsns).into(), false));
        return holes.map(SegmentRange::Written).collect();
    }
    if cube.definition.partition.is_none() {
        return Vec::new();
    }
    coverage.data.subtract(&held).spans().map(range).map(SegmentRange::Keys).collect()
}

/// All cuboids, each summed over the segments that hold it: what they take on disk and in this node's memory, and how often they
/// have answered.
pub async fn cuboids(engine: &Engine, only: Option<&QualifiedName>) -> Result<RecordBatch> {
    let history = engine.observed.history.entries().await;
    let in_memory = engine.snapshots.source().hot.as_ref().map(|hot| hot.bytes_by_path()).unwrap_or_default();
    let context = engine.snapshots.current();
    let mut rows: Vec<(&CubeEntry, String, [u64; 5], Uses)> = Vec::new();
    for cube in chosen(context.snapshot(), only)? {
        let mut totals: BTreeMap<DimensionSet, [u64; 5]> = BTreeMap::new();
        for segment in cube.segments.iter().filter(|segment| segment.state == SegmentState::Ready) {
            for cuboid in &segment.cuboids {
                let [segments, rows, bytes, files, memory] = totals.entry(cuboid.dimensions).or_default();
                *segments += 1;
                *rows += cuboid.rows;
                *bytes += cuboid.bytes;
                *files += cuboid.files.len() as u64;
                let first = cuboid.files.first().map_or("", |file| file.name.as_str());
                *memory += in_memory.get(&format!("{}{first}", segment.location)).copied().unwrap_or(0);
            }
        }
        let lattice = cube.definition.lattice();
        let built = lattice.sets().iter().filter_map(|set| Some((*set, *totals.get(set)?)));
        rows.extend(built.map(|(set, totals)| {
            let names = cube.definition.dimension_names(set);
            (cube, format!("({})", names.join(", ")), totals, uses_of(&history, cube, &names))
        }));
    }
    let total = |n: usize| numbers(rows.iter().map(move |(_, _, totals, _)| totals.get(n).copied()));
    let columns: Vec<ArrayRef> = vec![
        texts(rows.iter().map(|(cube, ..)| Some(cube.name.schema.as_str()))),
        texts(rows.iter().map(|(cube, ..)| Some(cube.name.name.as_str()))),
        texts(rows.iter().map(|(_, cuboid, ..)| Some(cuboid.as_str()))),
        total(0),
        total(1),
        total(2),
        total(3),
        total(4),
        numbers(rows.iter().map(|(.., uses)| Some(uses.times))),
        times(rows.iter().map(|(.., uses)| uses.last_ms)),
    ];
    batch(cuboids_schema(), columns)
}

fn chosen<'a>(
    snapshot: &'a nyala_model::CatalogSnapshot,
    only: Option<&QualifiedName>,
) -> Result<Vec<&'a CubeEntry>> {
    match only {
        None => Ok(snapshot.cubes.values().map(AsRef::as_ref).collect()),
        Some(name) => match snapshot.cubes.get(name) {
            Some(cube) => Ok(vec![cube.as_ref()]),
            None => Err(missing_cube(name)),
        },
    }
}

pub fn missing_cube(name: &QualifiedName) -> QueryError {
    let message = format!("cube `{name}` does not exist");
    QueryError::new(ErrorKind::UndefinedTable, message).hint("SHOW CUBES lists the cubes")
}
