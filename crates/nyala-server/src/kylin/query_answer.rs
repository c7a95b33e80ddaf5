//! The answer to `POST /query`.
//!
//! Columns and rows are sent first, and whether there was an error last, so that an error in the middle of the rows is still told.
//! Drivers take an error of any other status for a broken server.

use std::time::Instant;

use arrow::datatypes::Schema;
use arrow::record_batch::RecordBatch;
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, stream};
use nyala_engine::{Outcome, QueryError, RowStream, hide_values};
use serde::Serialize;

use super::answer::Dialect;
use super::cells::{columns_of, write_rows};
use super::error::text_of;
use super::names::WrittenNames;
use super::query_request::Part;

/// Bytes that are gathered before the first ones leave.
const AHEAD_BYTES: usize = 64 << 10;
/// Room for a column of an answer, and for the rest of a small one, so that its bytes are seldom moved.
const COLUMN_BYTES: usize = 512;
const REST_BYTES: usize = 4 << 10;
/// Rows that are written without a pause: behind them other requests get their turn on the thread.
const CHUNK_ROWS: usize = 1024;

/// The end of an answer.
#[derive(Default)]
pub struct End {
    rows: u64,
    affected: u64,
    partial: bool,
    error: Option<String>,
    /// Counts and cubes of the statement; none if it gave no rows.
    outcome: Option<Outcome>,
}

impl End {
    /// The end of the answer to a statement without rows.
    pub fn done(affected: u64) -> Self {
        Self { affected, ..Self::default() }
    }

    /// The end of an answer with an error.
    pub fn failed(error: &QueryError) -> Self {
        Self { error: Some(text_of(error)), ..Self::default() }
    }

    fn fields(&self, started: Instant) -> Fields<'_> {
        let outcome = self.outcome.as_ref();
        let route = outcome.and_then(|outcome| outcome.route.as_ref());
        let answered_from = route.and_then(|route| route.answered_from.as_deref());
        let chosen = route.into_iter().flat_map(|route| &route.aggregations);
        let cubes = chosen.filter_map(|aggregation| aggregation.chosen.as_ref()).map(|chosen| &*chosen.cube);
        let bytes = outcome.map(|outcome| outcome.bytes).unwrap_or_default();
        Fields {
            affected_row_count: self.affected,
            is_exception: self.error.is_some(),
            exception_message: self.error.as_deref(),
            query_id: outcome.map(|outcome| outcome.query_id.to_string()),
            duration: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            cube: answered_from.unwrap_or_default(),
            push_down: answered_from.is_none() && self.error.is_none(),
            partial: self.partial,
            total_scan_count: outcome.map_or(0, |outcome| outcome.rows_read),
            total_scan_bytes: bytes.memory + bytes.disk + bytes.store,
            result_row_count: self.rows,
            hit_exception_cache: false,
            storage_cache_used: outcome.is_some_and(|outcome| outcome.from_result_cache),
            is_timeout: false,
            trace_url: (),
            realizations: cubes.map(Realization::of).collect(),
            server: "nyala",
        }
    }
}

/// The fields of an answer behind its rows.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Fields<'a> {
    affected_row_count: u64,
    is_exception: bool,
    exception_message: Option<&'a str>,
    query_id: Option<String>,
    duration: u64,
    cube: &'a str,
    push_down: bool,
    partial: bool,
    total_scan_count: u64,
    total_scan_bytes: u64,
    result_row_count: u64,
    hit_exception_cache: bool,
    storage_cache_used: bool,
    is_timeout: bool,
    trace_url: (),
    realizations: Vec<Realization<'a>>,
    server: &'static str,
}

/// A cube that a part of the answer comes from.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Realization<'a> {
    model_id: &'a str,
    model_alias: &'a str,
    layout_id: i32,
    index_type: &'static str,
}

impl<'a> Realization<'a> {
    fn of(cube: &'a str) -> Self {
        Self { model_id: cube, model_alias: cube, layout_id: -1, index_type: "Agg Index" }
    }
}

/// Appends texts and numbers as JSON, which has a form for all of them.
fn add_json(value: &impl Serialize, out: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = serde_json::to_writer(out, value);
}

/// The beginning of an answer, to which its rows and its end are added.
pub fn head(dialect: Dialect, schema: &Schema, names: &WrittenNames) -> Vec<u8> {
    let mut out = Vec::with_capacity(schema.fields().len() * COLUMN_BYTES + REST_BYTES);
    if dialect.has_envelope() {
        out.extend_from_slice(b"{\"code\":\"000\",\"data\":");
    }
    out.extend_from_slice(b"{\"columnMetas\":");
    add_json(&columns_of(schema, names), &mut out);
    out.extend_from_slice(b",\"results\":[");
    out
}

fn add_tail(dialect: Dialect, end: &End, started: Instant, out: &mut Vec<u8>) {
    out.push(b']');
    let fields = out.len();
    add_json(&end.fields(started), out);
    // The last brace of the fields closes the answer. The first one is that of the head, whose fields go on.
    if let Some(brace) = out.get_mut(fields) {
        *brace = b',';
    }
    if dialect.has_envelope() {
        out.extend_from_slice(b",\"msg\":\"\"}");
    }
}

/// An answer without rows.
pub fn whole(mut head: Vec<u8>, dialect: Dialect, end: &End, started: Instant) -> Response {
    add_tail(dialect, end, started, &mut head);
    respond(Body::from(head))
}

/// An answer without rows and columns.
pub fn nothing(dialect: Dialect, end: &End, started: Instant) -> Response {
    whole(head(dialect, &Schema::empty(), &WrittenNames::default()), dialect, end, started)
}

fn respond(body: Body) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, body).into_response()
}

/// An answer with rows. `ahead` holds its beginning.
pub async fn of_rows(
    rows: RowStream,
    part: Part,
    mut ahead: Vec<u8>,
    dialect: Dialect,
    started: Instant,
) -> Response {
    let mut writer =
        Writer { rows, part, batch: None, written: 0, outcome: None, dialect, started, ended: false };
    while ahead.len() < AHEAD_BYTES {
        if !writer.add_chunk(&mut ahead).await {
            return respond(Body::from(ahead));
        }
    }
    let rest = stream::unfold(writer, |mut writer| async move {
        let mut chunk = Vec::new();
        let is_more = writer.add_chunk(&mut chunk).await;
        is_more.then(|| (Ok::<_, QueryError>(Bytes::from(chunk)), writer))
    });
    let ahead = stream::once(async move { Ok(Bytes::from(ahead)) });
    respond(Body::from_stream(ahead.chain(rest)))
}

struct Writer {
    rows: RowStream,
    part: Part,
    /// Rows of the last batch that are not written yet.
    batch: Option<RecordBatch>,
    written: u64,
    /// The outcome at the moment when the client had enough rows. Afterwards the operators, which count what they read, are gone.
    outcome: Option<Outcome>,
    dialect: Dialect,
    started: Instant,
    ended: bool,
}

impl Writer {
    /// Adds the next bytes; false after the last.
    async fn add_chunk(&mut self, out: &mut Vec<u8>) -> bool {
        if self.ended {
            return false;
        }
        let before = out.len();
        let end = match self.add_rows(out).await {
            Ok(true) => return true,
            Ok(false) => End::default(),
            Err(error) => {
                tracing::debug!(error = hide_values(&error.message), "a query of a Kylin client failed");
                // The failed chunk may end within a row.
                out.truncate(before);
                End::failed(&error)
            }
        };
        self.ended = true;
        let (rows, outcome) =
            (self.written, Some(self.outcome.take().unwrap_or_else(|| self.rows.outcome())));
        add_tail(self.dialect, &End { rows, outcome, ..end }, self.started, out);
        true
    }

    /// Adds some rows; false if there are no more, or no more are wanted.
    async fn add_rows(&mut self, out: &mut Vec<u8>) -> Result<bool, QueryError> {
        if self.part.most == 0 {
            self.outcome = Some(self.rows.outcome());
            self.rows.enough();
            return Ok(false);
        }
        let batch = match self.batch.take() {
            Some(batch) => batch,
            None => match self.rows.next().await.transpose()? {
                Some(batch) => batch,
                None => return Ok(false),
            },
        };
        let skipped = usize::try_from(self.part.skip).unwrap_or(usize::MAX).min(batch.num_rows());
        self.part.skip -= skipped as u64;
        let wanted = usize::try_from(self.part.most).unwrap_or(usize::MAX);
        let count = (batch.num_rows() - skipped).min(CHUNK_ROWS).min(wanted);
        write_rows(&batch.slice(skipped, count), self.written == 0, out)?;
        self.written += count as u64;
        self.part.most = self.part.most.saturating_sub(count as u64);
        let rest = skipped + count;
        if rest < batch.num_rows() {
            self.batch = Some(batch.slice(rest, batch.num_rows() - rest));
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_end_closes_what_the_head_has_opened() {
        for dialect in [Dialect::Bare, Dialect::Named, Dialect::Envelope] {
            let mut body = head(dialect, &Schema::empty(), &WrittenNames::default());
            add_tail(dialect, &End::done(3), Instant::now(), &mut body);
            let whole: Value = serde_json::from_slice(&body).unwrap();
            let answer = if dialect.has_envelope() { &whole["data"] } else { &whole };
            assert_eq!(answer["affectedRowCount"], 3);
            assert_eq!(answer["isException"], false);
            assert_eq!(answer["results"], json!([]));
        }
    }
}
