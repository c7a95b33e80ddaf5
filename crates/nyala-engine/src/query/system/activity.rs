//! `system.queries`, `system.local_queries`, `system.query_log`, `system.stuck` and `system.tasks`.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use nyala_sql::error::Result;

use crate::query::activity::{self, BytesRead, Entry, Phase, Progress, Status, Stuck};
use crate::query::columns::{batch, number, numbers, text, texts, time, times};
use crate::query::engine::Engine;

/// How long a statement was in each phase.
const PHASES: [(&str, Phase); 4] = [
    ("planning_us", Phase::Planning),
    ("queued_us", Phase::Queued),
    ("running_us", Phase::Running),
    ("sending_us", Phase::Sending),
];

fn common() -> Vec<Field> {
    vec![text("user"), text("application"), text("client"), text("query"), time("started_at")]
}

fn common_columns(entries: &[Arc<Entry>]) -> Vec<ArrayRef> {
    let shown: Vec<String> = entries.iter().map(|entry| entry.text.to_string()).collect();
    vec![
        texts(entries.iter().map(|entry| Some(entry.owner.user.as_str()))),
        texts(entries.iter().map(|entry| Some(entry.owner.application.as_str()))),
        texts(entries.iter().map(|entry| Some(entry.owner.client.as_str()))),
        texts(shown.iter().map(|text| Some(text.as_str()))),
        times(entries.iter().map(|entry| Some(entry.begun_ms))),
    ]
}

pub fn queries_schema() -> SchemaRef {
    let mut fields = vec![number("query_id"), text("state")];
    fields.extend(common());
    fields.extend([number("running_ms"), number("rows"), number("peak_memory_bytes"), text("answered_from")]);
    fields.extend([
        number("process_id"),
        text("node"),
        text("sent_by"),
        number("rows_read"),
        number("rows_total"),
    ]);
    Arc::new(Schema::new(fields))
}

/// Running statements of all nodes that answer, with this query.
pub async fn queries(engine: &Engine) -> Result<RecordBatch> {
    let (here, schema) = (queries_here(engine)?, queries_schema());
    let others = engine.queries_of_others(&schema).await;
    Ok(concat_batches(&schema, std::iter::once(&here).chain(&others))?)
}

/// Running statements of this node. `sent_by` is the node that forwarded a statement here.
pub fn queries_here(engine: &Engine) -> Result<RecordBatch> {
    let entries = engine.observed.registry.running();
    let each = || entries.iter();
    let progress: Vec<Option<Progress>> = each().map(|entry| entry.progress()).collect();
    let mut columns =
        vec![numbers(each().map(|entry| Some(entry.id))), texts(each().map(|entry| Some(entry.state())))];
    columns.extend(common_columns(&entries));
    columns.extend([
        numbers(each().map(|entry| Some(entry.begun.elapsed().as_millis() as u64))),
        numbers(each().map(|entry| Some(entry.rows()))),
        numbers(each().map(|entry| Some(entry.peak_memory_bytes() as u64))),
        texts(each().map(|entry| entry.answered_from())),
        numbers(each().map(|entry| u64::try_from(entry.owner.process_id).ok().filter(|id| *id > 0))),
        texts(each().map(|_| Some(engine.node.0.as_str()))),
        texts(each().map(|entry| entry.owner.sent_by.as_ref().map(|node| node.0.as_str()))),
        numbers(progress.iter().map(|progress| Some(progress.as_ref()?.rows_read))),
        numbers(progress.iter().map(|progress| progress.as_ref()?.rows_total)),
    ]);
    batch(queries_schema(), columns)
}

pub fn query_log_schema() -> SchemaRef {
    let mut fields = vec![number("query_id"), text("status")];
    fields.extend(common());
    fields.extend([
        number("took_us"),
        number("rows"),
        number("peak_memory_bytes"),
        Field::new("ready_plan", DataType::Boolean, false),
        text("answered_from"),
        text("error"),
        text("cuboids"),
        text("raw"),
        text("miss_reason"),
        number("bytes_from_memory"),
        number("bytes_from_disk"),
        number("bytes_from_store"),
    ]);
    fields.extend(PHASES.map(|(name, _)| number(name)));
    fields.extend([number("preparing_us"), text("schema")]);
    Arc::new(Schema::new(fields))
}

/// Ended statements, the last to end first.
pub fn query_log(engine: &Engine) -> Result<RecordBatch> {
    let entries = engine.observed.registry.log();
    let each = || entries.iter();
    let error = |entry: &'_ Arc<Entry>| match entry.end().map(|end| &end.status) {
        Some(Status::Failed(error)) => Some(error.clone()),
        _ => None,
    };
    let errors: Vec<Option<String>> = each().map(error).collect();
    let routes: Vec<LoggedRoute> = each().map(|entry| LoggedRoute::of(entry)).collect();
    let mut columns =
        vec![numbers(each().map(|entry| Some(entry.id))), texts(each().map(|entry| Some(entry.state())))];
    columns.extend(common_columns(&entries));
    columns.extend([
        numbers(each().map(|entry| entry.end().map(|end| end.took.as_micros() as u64))),
        numbers(each().map(|entry| Some(entry.rows()))),
        numbers(each().map(|entry| Some(entry.peak_memory_bytes() as u64))),
        Arc::new(BooleanArray::from_iter(each().map(|entry| Some(entry.ready_plan())))) as ArrayRef,
        texts(each().map(|entry| entry.answered_from())),
        texts(errors.iter().map(Option::as_deref)),
        texts(routes.iter().map(|route| route.cuboids.as_deref())),
        texts(routes.iter().map(|route| route.raw.as_deref())),
        texts(routes.iter().map(|route| route.miss_reason.as_deref())),
        numbers(routes.iter().map(|route| Some(route.bytes?.memory))),
        numbers(routes.iter().map(|route| Some(route.bytes?.disk))),
        numbers(routes.iter().map(|route| Some(route.bytes?.store))),
    ]);
    let us = |time: Duration| Some(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    columns.extend(PHASES.map(|(_, phase)| numbers(each().map(|entry| us(entry.spent(phase))))));
    columns.extend([
        numbers(each().map(|entry| us(entry.preparing()))),
        texts(each().map(|entry| entry.schema())),
    ]);
    batch(query_log_schema(), columns)
}

/// The route of an ended statement, as texts.
#[derive(Default)]
struct LoggedRoute {
    cuboids: Option<String>,
    raw: Option<String>,
    miss_reason: Option<String>,
    bytes: Option<BytesRead>,
}

impl LoggedRoute {
    fn of(entry: &Entry) -> Self {
        let bytes = entry.bytes_read();
        let Some(route) = entry.route() else { return Self { bytes, ..Self::default() } };
        let chosen = || route.aggregations.iter().filter_map(|aggregation| aggregation.chosen.as_ref());
        let cuboids: Vec<String> =
            chosen().map(|chosen| format!("{} {}", chosen.cube, chosen.shown_cuboids())).collect();
        let raw: Vec<&str> = chosen().filter_map(|chosen| chosen.raw.as_deref()).collect();
        let text = |parts: String| (!parts.is_empty()).then_some(parts);
        let (cuboids, raw) = (text(cuboids.join("; ")), text(raw.join("; ")));
        Self { cuboids, raw, miss_reason: route.miss_reason(), bytes }
    }
}

pub fn stuck_schema() -> SchemaRef {
    works_schema("still_ms")
}

/// Work without progress at the watchdog's last look, the longest first.
pub fn stuck(engine: &Engine) -> Result<RecordBatch> {
    works(&engine.observed.registry.stuck(), stuck_schema())
}

pub fn tasks_schema() -> SchemaRef {
    works_schema("running_ms")
}

/// Running work with the operator at work, and how busy the threads are.
pub fn tasks(engine: &Engine) -> Result<RecordBatch> {
    works(&activity::tasks(&engine.watched(), &engine.runtime.threads.runtimes()), tasks_schema())
}

/// The columns of work, the last one for its time.
fn works_schema(time_column: &str) -> SchemaRef {
    Arc::new(Schema::new(vec![
        text("kind"),
        number("id"),
        text("what"),
        text("operator"),
        text("waits_for"),
        number(time_column),
    ]))
}

fn works(works: &[Stuck], schema: SchemaRef) -> Result<RecordBatch> {
    let columns: Vec<ArrayRef> = vec![
        texts(works.iter().map(|work| Some(work.kind))),
        numbers(works.iter().map(|work| Some(work.id))),
        texts(works.iter().map(|work| Some(work.what.as_str()))),
        texts(works.iter().map(|work| work.operator.as_deref())),
        texts(works.iter().map(|work| Some(work.waits_for.as_ref()))),
        numbers(works.iter().map(|work| Some(work.still.as_millis() as u64))),
    ];
    batch(schema, columns)
}
