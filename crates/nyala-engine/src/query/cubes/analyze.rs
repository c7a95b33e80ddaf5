//! `ANALYZE CUBE`: how much each cuboid takes, and how often it was used.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{Schema, SchemaRef};
use nyala_model::{CubeEntry, DimensionSet, QualifiedName, QueryHistoryEntry, SegmentState};
use nyala_sql::error::Result;

use super::segments::missing_cube;
use crate::query::activity::Running;
use crate::query::answer::Answer;
use crate::query::engine::Engine;
use crate::query::show::{answer, number, numbers, text, texts, time, times};

/// Columns of the answer.
pub(in crate::query) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        text("cuboid"),
        number("rows"),
        number("bytes"),
        number("hits"),
        time("last_used"),
        text("advice"),
    ]))
}

struct Row {
    cuboid: String,
    rows: u64,
    bytes: u64,
    hits: u64,
    last_used_ms: Option<u64>,
}

/// All cuboids by ascending hits, then by descending bytes.
pub(in crate::query) async fn run(engine: &Engine, name: &QualifiedName, running: Running) -> Result<Answer> {
    let history = engine.history.entries().await;
    let context = engine.context();
    let cube = context.snapshot().cubes.get(name).ok_or_else(|| missing_cube(name))?;
    let lattice = cube.definition.lattice();
    let mut rows: Vec<Row> = lattice.sets().iter().map(|set| row(cube, *set, &history)).collect();
    rows.sort_by_key(|row| (row.hits, std::cmp::Reverse(row.bytes)));
    let columns: Vec<ArrayRef> = vec![
        texts(rows.iter().map(|row| Some(row.cuboid.as_str()))),
        numbers(rows.iter().map(|row| Some(row.rows))),
        numbers(rows.iter().map(|row| Some(row.bytes))),
        numbers(rows.iter().map(|row| Some(row.hits))),
        times(rows.iter().map(|row| row.last_used_ms)),
        texts(rows.iter().map(|row| (row.hits == 0).then_some("not used"))),
    ];
    answer(schema(), columns, running)
}

fn row(cube: &CubeEntry, set: DimensionSet, history: &[QueryHistoryEntry]) -> Row {
    let names = cube.definition.dimension_names(set);
    let ready = cube.segments.iter().filter(|segment| segment.state == SegmentState::Ready);
    let stored: Vec<_> = ready.flat_map(|s| s.cuboids.iter().filter(|c| c.dimensions == set)).collect();
    let uses = || history.iter().flat_map(|entry| &entry.answers);
    let own = || uses().filter(|used| used.cube == cube.id && used.cuboid == names);
    Row {
        cuboid: format!("({})", names.join(", ")),
        rows: stored.iter().map(|cuboid| cuboid.rows).sum(),
        bytes: stored.iter().map(|cuboid| cuboid.bytes).sum(),
        hits: own().map(|used| used.times).sum(),
        last_used_ms: own().map(|used| used.last_ms).max(),
    }
}
