//! Running queries and their history.

use axum::extract::{Path, State};
use axum::response::Response;
use serde_json::{Value, json};

use super::answer::{Dialect, Page};
use super::error::KylinError;
use super::parameters::Parameters;
use super::session::{literal, rows, schema_of, session_in};
use crate::http::{Caller, Shared};

/// Queries of a page of the history, unless the client says how many: Kylin's default.
const HISTORY_PAGE: usize = 10;

type Row = Vec<Option<String>>;

fn text(row: &Row, at: usize) -> &str {
    row.get(at).and_then(Option::as_deref).unwrap_or_default()
}

fn number(row: &Row, at: usize) -> u64 {
    text(row, at).parse().unwrap_or(0)
}

/// Queries that run now.
pub async fn list(
    State(shared): State<Shared>,
    Caller(options): Caller,
    dialect: Dialect,
) -> Result<Response, KylinError> {
    let session = session_in(&shared, options, None)?;
    let sql = "SELECT query_id, query, \"user\", running_ms, CAST(extract(epoch FROM started_at) * 1000 AS BIGINT) FROM system.queries \
               WHERE sent_by IS NULL ORDER BY query_id";
    let running = rows(&session, sql).await?;
    let shown = running.iter().map(|row| {
        json!({
            "queryId": text(row, 0),
            "query_id": text(row, 0),
            "sql": text(row, 1),
            "user": text(row, 2),
            "runningSeconds": number(row, 3) / 1000,
            "startTime": number(row, 4),
        })
    });
    Ok(dialect.list("runningQueries", shown.collect(), Page::default()))
}

/// Ends a query.
pub async fn stop(
    State(shared): State<Shared>,
    Caller(options): Caller,
    dialect: Dialect,
    Path(id): Path<String>,
) -> Result<Response, KylinError> {
    let query: u64 =
        id.parse().map_err(|_| KylinError::invalid(format!("`{id}` is not the number of a query")))?;
    let session = session_in(&shared, options, None)?;
    rows(&session, &format!("KILL QUERY {query}")).await?;
    Ok(dialect.value(Value::Null))
}

/// Queries of a project that ended lately, those that began last first. Times are in milliseconds since the Unix epoch. `offset` counts
/// pages here: it is the older name of `page_offset`.
pub async fn histories(
    State(shared): State<Shared>,
    Caller(options): Caller,
    dialect: Dialect,
    asked: Parameters,
) -> Result<Response, KylinError> {
    let size = asked.number(&["page_size", "pageSize", "limit"])?.unwrap_or(HISTORY_PAGE);
    let page: usize = asked.number(&["page_offset", "pageOffset", "offset"])?.unwrap_or(0);
    let (from, to) = (asked.number(&["start_time_from"])?, asked.number(&["start_time_to"])?);
    let session = session_in(&shared, options, None)?;
    let bound = |ms: Option<i64>, compare: &str| {
        let seconds = ms.map(|ms| ms as f64 / 1000.0);
        seconds
            .map(|seconds| format!("AND extract(epoch FROM started_at) {compare} {seconds}"))
            .unwrap_or_default()
    };
    let project = schema_of(&shared, asked.project());
    let project = project.map(|schema| format!("AND schema = {}", literal(&schema))).unwrap_or_default();
    let sql = format!(
        "SELECT query_id, query, CAST(extract(epoch FROM started_at) * 1000 AS BIGINT), took_us / 1000, status, answered_from, rows, \"user\" \
         FROM system.query_log WHERE true {} {} {project} ORDER BY started_at DESC, query_id DESC",
        bound(from, ">="),
        bound(to, "<=")
    );
    let ended = rows(&session, &sql).await?;
    let shown = ended.iter().skip(page.saturating_mul(size)).take(size).map(|row| {
        let is_hit = !text(row, 5).is_empty();
        json!({
            "query_id": text(row, 0),
            "sql_text": text(row, 1),
            "query_time": number(row, 2),
            "duration": number(row, 3),
            "query_status": if text(row, 4) == "finished" { "SUCCEEDED" } else { "FAILED" },
            "index_hit": is_hit,
            "result_row_count": number(row, 6),
            "submitter": text(row, 7),
            "engine_type": if is_hit { "NATIVE" } else { "TABLES" },
            "realizations": if is_hit { json!([{ "modelAlias": text(row, 5) }]) } else { json!([]) },
        })
    });
    let shown: Vec<Value> = shown.collect();
    Ok(dialect.value(json!({ "size": ended.len(), "query_histories": shown })))
}
