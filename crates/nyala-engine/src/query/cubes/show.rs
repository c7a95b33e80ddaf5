//! `SHOW CUBES` and `SHOW CREATE CUBE`.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::sql::sqlparser::ast::ObjectName;
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_cube::cube::create_statement;
use nyala_model::{CubeEntry, SegmentEntry, SegmentState};
use nyala_sql::error::Result;

use super::build::missing;
use super::segments;
use crate::query::answer::Answer;
use crate::query::authorize::Caller;
use crate::query::columns::{batch, number, numbers, text, texts, time, times};
use crate::query::command::Command;
use crate::query::engine::Engine;
use crate::query::execution::Execution;

/// `SHOW CUBES`.
pub struct ShowCubes;

impl Command for ShowCubes {
    fn schema(&self) -> Option<SchemaRef> {
        Some(cubes_schema())
    }

    fn authorize(&self, _: &Caller<'_>) -> Result<()> {
        Ok(())
    }

    fn run<'a>(&'a self, execution: Execution<'a>) -> BoxFuture<'a, Result<Answer>> {
        async move {
            let rows = cubes(execution.engine())?;
            Ok(execution.rows(rows))
        }
        .boxed()
    }
}

/// `SHOW CREATE CUBE name`.
pub struct ShowCreate<'s>(pub &'s ObjectName);

impl Command for ShowCreate<'_> {
    fn schema(&self) -> Option<SchemaRef> {
        Some(create_schema())
    }

    fn authorize(&self, _: &Caller<'_>) -> Result<()> {
        Ok(())
    }

    fn run<'a>(&'a self, execution: Execution<'a>) -> BoxFuture<'a, Result<Answer>> {
        async move {
            let (engine, name) = (execution.engine(), execution.name(self.0)?);
            let (context, limits) = (engine.snapshots.current(), *engine.snapshots.limits());
            let snapshot = context.snapshot();
            let cube = Arc::clone(snapshot.cubes.get(&name).ok_or_else(|| missing(&name, snapshot))?);
            // Trees are walked on planning threads alone, which have much stack.
            let work = async move { create_statement(&cube, &limits) };
            let statement = engine.runtime.threads.plan(work).await?;
            let columns = [name.schema.as_str(), name.name.as_str(), statement.as_str()];
            execution.columns(create_schema(), columns.map(|value| texts([Some(value)].into_iter())).into())
        }
        .boxed()
    }
}

fn create_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![text("schema"), text("cube"), text("statement")]))
}

/// Columns of `SHOW CUBES`.
pub fn cubes_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        text("schema"),
        text("cube"),
        text("state"),
        number("dimensions"),
        number("measures"),
        number("cuboids"),
        number("segments"),
        number("source_rows"),
        number("rows"),
        number("bytes"),
        time("built_at"),
        Field::new("answers", DataType::Boolean, true),
    ]))
}

fn ready_segments(cube: &CubeEntry) -> impl Iterator<Item = &SegmentEntry> {
    cube.segments.iter().filter(|segment| segment.state == SegmentState::Ready)
}

/// Every cube, by name.
pub fn cubes(engine: &Engine) -> Result<RecordBatch> {
    let context = engine.snapshots.current();
    let cubes: Vec<&Arc<CubeEntry>> = context.snapshot().cubes.values().collect();
    let each = || cubes.iter();
    let built = |cube: &CubeEntry| ready_segments(cube).next().is_some();
    let total = |count: fn(&SegmentEntry) -> u64| {
        numbers(each().map(move |cube| built(cube).then(|| ready_segments(cube).map(count).sum())))
    };
    let answers: BooleanArray = each().map(|cube| Some(cube.definition.options.answers)).collect();
    let built_at = each().map(|cube| ready_segments(cube).map(|segment| segment.built_at_ms).max());
    let columns: Vec<ArrayRef> = vec![
        texts(each().map(|cube| Some(cube.name.schema.as_str()))),
        texts(each().map(|cube| Some(cube.name.name.as_str()))),
        texts(each().map(|cube| Some(state_of(engine, cube)))),
        numbers(each().map(|cube| Some(cube.definition.dimensions.len() as u64))),
        numbers(each().map(|cube| Some(cube.definition.measures.len() as u64))),
        numbers(each().map(|cube| Some(cube.definition.grouping_sets.len() as u64))),
        numbers(each().map(|cube| Some(ready_segments(cube).count() as u64))),
        total(|segment| segment.source_rows),
        total(|segment| segment.cuboids.iter().map(|cuboid| cuboid.rows).sum()),
        total(|segment| segment.cuboids.iter().map(|cuboid| cuboid.bytes).sum()),
        times(built_at),
        Arc::new(answers),
    ];
    batch(cubes_schema(), columns)
}

fn state_of(engine: &Engine, cube: &CubeEntry) -> &'static str {
    let building = engine.build_progress().iter().any(|job| job.cube == cube.name);
    let coverage = segments::coverage_now(engine, cube);
    match (ready_segments(cube).next(), coverage.first_reason()) {
        _ if building => "building",
        _ if cube.segments.iter().any(|segment| segment.state == SegmentState::Damaged) => "damaged",
        (None, _) => "not built",
        (Some(_), Some(_)) => "stale",
        (Some(_), None) if ready_segments(cube).any(|s| !cube.definition.outstanding(s).is_empty()) => {
            "partial"
        }
        (Some(_), None) => "ready",
    }
}
