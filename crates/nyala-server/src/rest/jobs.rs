//! `/api/v1/jobs`: builds, how far they are, and how to end them.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use nyala_engine::{ErrorKind, QueryError};
use nyala_model::{JobEntry, JobId};
use serde_json::{Value, json};

use crate::http::{ApiError, Caller, Shared};

/// All jobs, newest first.
pub async fn list(State(shared): State<Shared>) -> Result<Json<Value>, ApiError> {
    let now = now_ms();
    let jobs: Vec<Value> = shared.engine.jobs().await?.iter().map(|job| shown(job, now)).collect();
    Ok(Json(json!({ "jobs": jobs })))
}

/// One job.
pub async fn one(State(shared): State<Shared>, Path(id): Path<String>) -> Result<Json<Value>, ApiError> {
    let wanted = parse(&id)?;
    let job = shared.engine.jobs().await?.into_iter().find(|job| job.id == wanted);
    job.map(|job| Json(shown(&job, now_ms()))).ok_or_else(|| missing(&id))
}

/// Asks a running job to end.
pub async fn cancel(
    State(shared): State<Shared>,
    Caller(options): Caller,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let job = parse(&id)?;
    shared.engine.session(options).query(&format!("CANCEL JOB {}", job.0)).await.map_err(refused)?;
    Ok((StatusCode::ACCEPTED, Json(json!({ "job": job.0, "state": "cancelling" }))))
}

fn refused(error: QueryError) -> ApiError {
    match error.kind {
        ErrorKind::UndefinedObject => ApiError::new(StatusCode::NOT_FOUND, "not_found", error.message)
            .hint("`GET /api/v1/jobs` lists them"),
        ErrorKind::InvalidParameter => ApiError::new(StatusCode::CONFLICT, "job_ended", error.message),
        _ => error.into(),
    }
}

fn parse(id: &str) -> Result<JobId, ApiError> {
    id.parse().map(JobId).map_err(|_| missing(id))
}

fn missing(id: &str) -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "not_found", format!("job `{id}` does not exist"))
        .hint("`GET /api/v1/jobs` lists them")
}

fn shown(job: &JobEntry, now_ms: u64) -> Value {
    json!({
        "job": job.id.0,
        "kind": job.kind.word(),
        "cube": job.cube.to_string(),
        "state": job.state.word(),
        "percent": job.percent(),
        "rows_read": job.rows_read,
        "rows_total": Some(job.rows_total).filter(|rows| *rows > 0),
        "cuboids_done": job.cuboids_done,
        "cuboids_total": job.cuboids_total,
        "bytes_written": job.bytes_written,
        "started_at_ms": job.started_at_ms,
        "ended_at_ms": job.ended_at_ms,
        "remaining_ms": job.remaining_ms(now_ms),
        "retries": job.retries,
        "error": job.error,
    })
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
