//! Jobs as Kylin's scripts poll them.

use axum::extract::{Path, Query, State};
use axum::response::Response;
use nyala_engine::SessionOptions;
use nyala_model::{JobEntry, JobId, JobState};
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{Dialect, Page};
use super::error::KylinError;
use super::request;
use super::session::{rows, schema_of, session_in};
use crate::http::{Caller, Shared};

/// Which jobs are listed.
#[derive(Debug, Deserialize)]
pub struct Wanted {
    #[serde(alias = "projectName")]
    project: Option<String>,
    limit: Option<usize>,
    offset: Option<usize>,
    page_offset: Option<usize>,
    page_size: Option<usize>,
    /// A part of the cube's name.
    #[serde(alias = "cubeName")]
    key: Option<String>,
}

/// All jobs, the newest first.
pub async fn list(
    State(shared): State<Shared>,
    dialect: Dialect,
    Query(wanted): Query<Wanted>,
) -> Result<Response, KylinError> {
    let schema = schema_of(wanted.project.as_deref());
    let key = wanted.key.as_deref().unwrap_or_default();
    let jobs = shared.engine.jobs().await?;
    let of_project = |job: &&JobEntry| schema.is_none_or(|schema| *job.cube.schema == *schema);
    let named = |job: &&JobEntry| job.cube.to_string().contains(key);
    let jobs: Vec<Value> =
        jobs.iter().filter(of_project).filter(named).map(|job| shown(job, dialect)).collect();
    let page = match dialect {
        Dialect::Bare => Page::of_rows(wanted.offset, wanted.limit),
        Dialect::Envelope => Page::of_pages(wanted.page_offset, wanted.page_size),
    };
    Ok(dialect.list(jobs, page))
}

/// One job.
pub async fn one(
    State(shared): State<Shared>,
    dialect: Dialect,
    Path(job): Path<String>,
) -> Result<Response, KylinError> {
    Ok(dialect.value(shown(&find(&shared, number_of(&job)?).await?, dialect)))
}

/// Ends a job.
pub async fn cancel(
    State(shared): State<Shared>,
    Caller(options): Caller,
    dialect: Dialect,
    Path(job): Path<String>,
) -> Result<Response, KylinError> {
    let job = number_of(&job)?;
    end(&shared, options, job).await?;
    Ok(dialect.value(shown(&find(&shared, job).await?, dialect)))
}

/// What a script wants of several jobs.
#[derive(Debug, Deserialize)]
pub struct Change {
    #[serde(default)]
    job_ids: Vec<String>,
    #[serde(default)]
    action: String,
}

#[derive(Debug, Deserialize)]
pub struct Action {
    action: Option<String>,
}

/// Ends several jobs; a job cannot be paused.
pub async fn change(
    State(shared): State<Shared>,
    Caller(options): Caller,
    dialect: Dialect,
    Query(action): Query<Action>,
    body: axum::body::Bytes,
) -> Result<Response, KylinError> {
    let change: Change = request::body(&body)?;
    let action = action.action.unwrap_or(change.action);
    if !action.eq_ignore_ascii_case("DISCARD") {
        let message = format!("jobs cannot be asked to `{action}`: there is DISCARD, which ends them");
        return Err(KylinError::invalid(message));
    }
    for job in &change.job_ids {
        end(&shared, options.clone(), number_of(job)?).await?;
    }
    Ok(dialect.value(json!("")))
}

async fn end(shared: &Shared, options: SessionOptions, job: JobId) -> Result<(), KylinError> {
    let session = session_in(shared, options, None)?;
    rows(&session, &format!("CANCEL JOB {}", job.0)).await?;
    Ok(())
}

/// The job of this number.
pub async fn find(shared: &Shared, wanted: JobId) -> Result<JobEntry, KylinError> {
    let job = shared.engine.jobs().await?.into_iter().find(|job| job.id == wanted);
    job.ok_or_else(|| KylinError::invalid(format!("job `{}` does not exist", wanted.0)))
}

/// The number that a client names a job by.
pub fn number_of(job: &str) -> Result<JobId, KylinError> {
    job.parse().map(JobId).map_err(|_| KylinError::invalid(format!("job `{job}` does not exist")))
}

/// A job, as it is polled.
pub fn shown(job: &JobEntry, dialect: Dialect) -> Value {
    let state = match job.state {
        JobState::Running => "RUNNING",
        JobState::Done => "FINISHED",
        JobState::Failed => "ERROR",
        JobState::Cancelled => "DISCARDED",
    };
    let percent = job.percent();
    let (id, cube) = (job.id.0.to_string(), job.cube.to_string());
    let end = job.ended_at_ms.unwrap_or(0);
    let duration = job.ended_at_ms.map_or(0, |end| end.saturating_sub(job.started_at_ms));
    match dialect {
        Dialect::Bare => json!({
            "uuid": id,
            "id": id,
            "name": format!("{} {cube}", job.kind.word()),
            "type": "BUILD",
            "job_status": state,
            "progress": percent,
            "related_cube": cube,
            "display_cube_name": cube,
            "duration": duration / 1000,
            "exec_start_time": job.started_at_ms,
            "exec_end_time": end,
            "last_modified": end.max(job.started_at_ms),
            "steps": [],
            "info": job.error,
        }),
        Dialect::Envelope => json!({
            "id": id,
            "job_name": job.kind.word().to_uppercase(),
            "job_status": state,
            "step_ratio": f64::from(percent) / 100.0,
            "target_model": cube,
            "target_subject": cube,
            "create_time": job.started_at_ms,
            "exec_start_time": job.started_at_ms,
            "exec_end_time": end,
            "last_modified": end.max(job.started_at_ms),
            "duration": duration,
            "failed_msg": job.error,
        }),
    }
}
