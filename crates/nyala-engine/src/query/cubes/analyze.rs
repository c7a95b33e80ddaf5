//! `ANALYZE CUBE`: how much each cuboid takes, and how often it was used.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::ObjectName;
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_model::{CubeEntry, DimensionSet, QueryHistoryEntry, SegmentState};
use nyala_sql::error::Result;

use super::segments::missing_cube;
use crate::query::answer::Answer;
use crate::query::authorize::Caller;
use crate::query::columns::{number, numbers, text, texts, time, times};
use crate::query::command::Command;
use crate::query::execution::Execution;

/// `ANALYZE CUBE`.
pub struct Analyze<'s>(pub &'s ObjectName);

impl Command for Analyze<'_> {
    fn schema(&self) -> Option<SchemaRef> {
        Some(schema())
    }

    fn authorize(&self, caller: &Caller<'_>) -> Result<()> {
        caller.may_build(caller.name(self.0)?)
    }

    fn run<'a>(&'a self, execution: Execution<'a>) -> BoxFuture<'a, Result<Answer>> {
        run(self.0, execution).boxed()
    }
}

/// Columns of the answer.
fn schema() -> SchemaRef {
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
async fn run(name: &ObjectName, execution: Execution<'_>) -> Result<Answer> {
    let (engine, name) = (execution.engine(), execution.name(name)?);
    let history = engine.observed.history.entries().await;
    let context = engine.snapshots.current();
    let cube = context.snapshot().cubes.get(&name).ok_or_else(|| missing_cube(&name))?;
    let lattice = cube.definition.lattice();
    let mut rows: Vec<Row> = lattice.sets().iter().map(|set| row(cube, *set, &history)).collect();
    rows.sort_by_key(|row| (row.hits, std::cmp::Reverse(row.bytes)));
    let advice = if cube.definition.options.answers { "not used" } else { "switched off" };
    let columns: Vec<ArrayRef> = vec![
        texts(rows.iter().map(|row| Some(row.cuboid.as_str()))),
        numbers(rows.iter().map(|row| Some(row.rows))),
        numbers(rows.iter().map(|row| Some(row.bytes))),
        numbers(rows.iter().map(|row| Some(row.hits))),
        times(rows.iter().map(|row| row.last_used_ms)),
        texts(rows.iter().map(|row| (row.hits == 0).then_some(advice))),
    ];
    execution.columns(schema(), columns)
}

fn row(cube: &CubeEntry, set: DimensionSet, history: &[QueryHistoryEntry]) -> Row {
    let names = cube.definition.dimension_names(set);
    let ready = cube.segments.iter().filter(|segment| segment.state == SegmentState::Ready);
    let stored: Vec<_> = ready.flat_map(|s| s.cuboids.iter().filter(|c| c.dimensions == set)).collect();
    let uses = uses_of(history, cube, &names);
    Row {
        cuboid: format!("({})", names.join(", ")),
        rows: stored.iter().map(|cuboid| cuboid.rows).sum(),
        bytes: stored.iter().map(|cuboid| cuboid.bytes).sum(),
        hits: uses.times,
        last_used_ms: uses.last_ms,
    }
}

/// How often a cuboid has answered.
#[derive(Debug, Clone, Copy, Default)]
pub struct Uses {
    pub times: u64,
    /// The last use, in milliseconds since the Unix epoch.
    pub last_ms: Option<u64>,
}

/// How often the cuboid of these dimensions has answered, as far as the history knows.
pub fn uses_of(history: &[QueryHistoryEntry], cube: &CubeEntry, dimensions: &[&str]) -> Uses {
    let answers = history.iter().flat_map(|entry| &entry.answers);
    let own = answers.filter(|used| used.cube == cube.id && used.cuboid == dimensions);
    own.fold(Uses::default(), |uses, used| Uses {
        times: uses.times.saturating_add(used.times),
        last_ms: uses.last_ms.max(Some(used.last_ms)),
    })
}
