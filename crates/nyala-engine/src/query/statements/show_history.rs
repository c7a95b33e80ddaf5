//! `SHOW QUERY HISTORY`.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_cube::cube::show_shape;
use nyala_model::QueryHistoryEntry;
use nyala_sql::error::Result;

use crate::query::answer::Answer;
use crate::query::authorize::Caller;
use crate::query::columns::{batch, number, numbers, text, texts, time, times};
use crate::query::command::Command;
use crate::query::engine::Engine;
use crate::query::execution::Execution;

/// `SHOW QUERY HISTORY`.
pub struct ShowQueryHistory;

impl Command for ShowQueryHistory {
    fn schema(&self) -> Option<SchemaRef> {
        Some(schema())
    }

    fn authorize(&self, caller: &Caller<'_>) -> Result<()> {
        // The history shows queries of other sessions.
        caller.require_superuser("the query history")
    }

    fn run<'a>(&'a self, execution: Execution<'a>) -> BoxFuture<'a, Result<Answer>> {
        async move {
            let rows = show(execution.engine()).await?;
            Ok(execution.rows(rows))
        }
        .boxed()
    }
}

/// Columns of the answer.
pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        text("query"),
        number("asked"),
        number("total_ms"),
        number("max_ms"),
        number("rows"),
        number("misses"),
        text("answered_from"),
        text("miss_reason"),
        time("last_asked"),
    ]))
}

/// Every shape, the one asked last first.
pub async fn show(engine: &Engine) -> Result<RecordBatch> {
    let entries = engine.observed.history.entries().await;
    let queries: Vec<String> = entries.iter().map(|entry| show_shape(&entry.shape)).collect();
    let answers: Vec<Option<String>> = entries.iter().map(answered_from).collect();
    let columns: Vec<ArrayRef> = vec![
        texts(queries.iter().map(|query| Some(query.as_str()))),
        numbers(entries.iter().map(|entry| Some(entry.asked))),
        numbers(entries.iter().map(|entry| Some(entry.total_us / 1000))),
        numbers(entries.iter().map(|entry| Some(entry.max_us / 1000))),
        numbers(entries.iter().map(|entry| Some(entry.rows))),
        numbers(entries.iter().map(|entry| Some(entry.misses))),
        texts(answers.iter().map(Option::as_deref)),
        texts(entries.iter().map(|entry| entry.miss_reason.as_deref())),
        times(entries.iter().map(|entry| Some(entry.last_asked_ms))),
    ];
    batch(schema(), columns)
}

/// The cube and cuboids that answered last.
fn answered_from(entry: &QueryHistoryEntry) -> Option<String> {
    let last = entry.answers.iter().max_by_key(|answer| answer.last_ms)?;
    let together = entry.answers.iter().filter(|a| a.cube == last.cube && a.last_ms == last.last_ms);
    let cuboids: Vec<String> = together.map(|a| format!("({})", a.cuboid.join(", "))).collect();
    Some(format!("{} {}", last.name, cuboids.join(", ")))
}

/// Columns of `system.misses`.
pub fn misses_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        text("query"),
        number("misses"),
        number("missed_ms"),
        text("reason"),
        time("last_missed"),
        number("asked"),
    ]))
}

/// Shapes that no cube answered, the one that took most time first.
pub async fn misses(engine: &Engine) -> Result<RecordBatch> {
    let mut entries = engine.observed.history.entries().await;
    entries.retain(|entry| entry.misses > 0);
    entries.sort_by_key(|entry| std::cmp::Reverse((entry.missed_us, entry.misses)));
    let queries: Vec<String> = entries.iter().map(|entry| show_shape(&entry.shape)).collect();
    let columns: Vec<ArrayRef> = vec![
        texts(queries.iter().map(|query| Some(query.as_str()))),
        numbers(entries.iter().map(|entry| Some(entry.misses))),
        numbers(entries.iter().map(|entry| Some(entry.missed_us / 1000))),
        texts(
            entries
                .iter()
                .map(|entry| Some(entry.miss_reason.as_deref().unwrap_or("no cube has its tables"))),
        ),
        times(entries.iter().map(|entry| Some(entry.last_miss_ms))),
        numbers(entries.iter().map(|entry| Some(entry.asked))),
    ];
    batch(misses_schema(), columns)
}
