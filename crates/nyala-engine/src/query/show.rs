//! `SHOW CUBES`, `SHOW JOBS` and `SHOW` of a setting, and the helpers for answers of all our own statements.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::record_batch::RecordBatch;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use nyala_cube::cube::build::now_ms;
use nyala_model::{CubeEntry, SegmentEntry, SegmentState};
use nyala_sql::error::Result;
use nyala_sql::statement::{Nyala, Statement};

use super::activity::Running;
use super::answer::Answer;
use super::cubes::{analyze, check, recommend, segments};
use super::engine::Engine;
use super::run::ready;
use super::system::{all_settings, settings_schema};
use super::{history, roles};
use crate::session::{Settings, unknown_setting};

/// Columns of an answer; none for statements without rows.
pub(super) fn schema(statement: &Nyala) -> Option<SchemaRef> {
    match statement {
        Nyala::ShowCubes => Some(cubes_schema()),
        Nyala::ShowSegments { .. } => Some(segments::schema()),
        Nyala::ShowCuboids { .. } => Some(segments::cuboids_schema()),
        Nyala::ShowJobs => Some(jobs_schema()),
        Nyala::ShowQueryHistory => Some(history::schema()),
        Nyala::AnalyzeCube { .. } => Some(analyze::schema()),
        Nyala::RecommendCube(_) => Some(recommend::schema()),
        Nyala::CheckCube { .. } => Some(check::schema()),
        Nyala::Role(statement) => roles::schema(statement),
        Nyala::CreateCube(_)
        | Nyala::AlterCube(_)
        | Nyala::BuildCube(_)
        | Nyala::DropCube { .. }
        | Nyala::CancelJob(_)
        | Nyala::Live(_)
        | Nyala::Backup(_)
        | Nyala::KillQuery { .. } => None,
    }
}

pub(super) fn text(name: &str) -> Field {
    Field::new(name, DataType::Utf8, true)
}

pub(super) fn number(name: &str) -> Field {
    Field::new(name, DataType::Int64, true)
}

pub(super) fn time(name: &str) -> Field {
    Field::new(name, DataType::Timestamp(TimeUnit::Millisecond, None), true)
}

pub(super) fn cubes_schema() -> SchemaRef {
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
    ]))
}

pub(super) fn jobs_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        number("job"),
        text("kind"),
        text("cube"),
        text("state"),
        number("rows_read"),
        number("cuboids_done"),
        number("cuboids_total"),
        number("bytes_written"),
        time("started_at"),
        time("ended_at"),
        text("error"),
        number("rows_total"),
        number("percent"),
        number("seconds_left"),
        number("retries"),
    ]))
}

pub(super) fn texts<'a>(values: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
    Arc::new(values.collect::<StringArray>())
}

pub(super) fn numbers(values: impl Iterator<Item = Option<u64>>) -> ArrayRef {
    let signed = values.map(|value| value.map(|value| i64::try_from(value).unwrap_or(i64::MAX)));
    Arc::new(signed.collect::<Int64Array>())
}

pub(super) fn times(values: impl Iterator<Item = Option<u64>>) -> ArrayRef {
    let signed = values.map(|ms| ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX)));
    Arc::new(signed.collect::<TimestampMillisecondArray>())
}

fn ready_segments(cube: &CubeEntry) -> impl Iterator<Item = &SegmentEntry> {
    cube.segments.iter().filter(|segment| segment.state == SegmentState::Ready)
}

pub(super) fn cubes(engine: &Engine) -> Result<RecordBatch> {
    let context = engine.context();
    let cubes: Vec<&Arc<CubeEntry>> = context.snapshot().cubes.values().collect();
    let each = || cubes.iter();
    let built = |cube: &CubeEntry| ready_segments(cube).next().is_some();
    let total = |count: fn(&SegmentEntry) -> u64| {
        numbers(each().map(move |cube| built(cube).then(|| ready_segments(cube).map(count).sum())))
    };
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

pub(super) async fn jobs(engine: &Engine) -> Result<RecordBatch> {
    let jobs = engine.jobs().await?;
    let now = now_ms();
    let cubes: Vec<String> = jobs.iter().map(|job| job.cube.to_string()).collect();
    let columns: Vec<ArrayRef> = vec![
        numbers(jobs.iter().map(|job| Some(job.id.0))),
        texts(jobs.iter().map(|job| Some(job.kind.word()))),
        texts(cubes.iter().map(|cube| Some(cube.as_str()))),
        texts(jobs.iter().map(|job| Some(job.state.word()))),
        numbers(jobs.iter().map(|job| Some(job.rows_read))),
        numbers(jobs.iter().map(|job| Some(job.cuboids_done.into()))),
        numbers(jobs.iter().map(|job| Some(job.cuboids_total.into()))),
        numbers(jobs.iter().map(|job| Some(job.bytes_written))),
        times(jobs.iter().map(|job| Some(job.started_at_ms))),
        times(jobs.iter().map(|job| job.ended_at_ms)),
        texts(jobs.iter().map(|job| job.error.as_deref())),
        numbers(jobs.iter().map(|job| Some(job.rows_total).filter(|rows| *rows > 0))),
        numbers(jobs.iter().map(|job| Some(job.percent().into()))),
        numbers(jobs.iter().map(|job| job.remaining_ms(now).map(|ms| ms / 1000))),
        numbers(jobs.iter().map(|job| Some(job.retries.into()))),
    ];
    batch(jobs_schema(), columns)
}

/// The name in `SHOW name`, if the statement is of that form.
pub(super) fn setting_name(statement: &Statement) -> Option<String> {
    match statement.ast()? {
        SqlStatement::ShowVariable { variable } => {
            let parts: Vec<&str> = variable.iter().map(|ident| ident.value.as_str()).collect();
            Some(parts.join(".").to_ascii_lowercase())
        }
        _ => None,
    }
}

/// The name of all settings together.
const ALL: &str = "all";

/// Columns of `SHOW name`.
pub(super) fn setting_schema(name: &str) -> SchemaRef {
    match name {
        ALL => settings_schema(),
        name => Arc::new(Schema::new(vec![text(name)])),
    }
}

/// The answer to `SHOW name`.
///
/// # Errors
/// There is no such setting.
pub(super) fn setting(name: &str, settings: &Settings, running: Running) -> Result<Answer> {
    if name == ALL {
        return Ok(rows(all_settings(settings)?, running));
    }
    let value = settings.get(name).ok_or_else(|| unknown_setting(name))?;
    answer(setting_schema(name), vec![texts(std::iter::once(Some(value.as_str())))], running)
}

pub(super) fn answer(schema: SchemaRef, columns: Vec<ArrayRef>, running: Running) -> Result<Answer> {
    Ok(rows(batch(schema, columns)?, running))
}

pub(super) fn batch(schema: SchemaRef, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    Ok(RecordBatch::try_new(schema, columns)?)
}

/// An answer of one batch.
pub(super) fn rows(batch: RecordBatch, running: Running) -> Answer {
    ready(batch.schema(), vec![batch], running, None)
}
