//! Jobs as Kylin's scripts poll them.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::{Path, State};
use axum::response::Response;
use nyala_engine::SessionOptions;
use nyala_model::{JobEntry, JobId, JobState};
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::Dialect;
use super::error::KylinError;
use super::parameters::Parameters;
use super::request;
use super::session::{rows, schema_of, session_in};
use crate::http::{Caller, Shared};

/// States of jobs in Kylin, by the numbers that versions before 5 give them in URLs.
const STATES: [(&str, &str); 7] = [
    ("0", "NEW"),
    ("1", "PENDING"),
    ("2", "RUNNING"),
    ("4", "FINISHED"),
    ("8", "ERROR"),
    ("16", "DISCARDED"),
    ("32", "STOPPED"),
];

const DAY_MS: u64 = 24 * 3600 * 1000;

/// Which jobs are listed.
struct Wanted {
    /// None for all schemas.
    schema: Option<String>,
    /// The number of a job, or a part of a cube's name.
    key: String,
    /// Kylin's names; empty for all.
    states: Vec<&'static str>,
    /// Jobs that ended before this time are left out, in milliseconds since the Unix epoch.
    since_ms: u64,
}

impl Wanted {
    fn of(shared: &Shared, asked: &Parameters) -> Result<Self, KylinError> {
        let states = asked.list(&["statuses", "status"]);
        Ok(Self {
            schema: schema_of(shared, asked.project()),
            key: asked.text(&["key", "cubeName", "subject"]).unwrap_or_default().to_owned(),
            states: states.iter().map(|state| state_named(state)).collect::<Result<_, _>>()?,
            since_ms: since_ms(asked.number(&["time_filter", "timeFilter"])?)?,
        })
    }

    fn chosen<'j>(&self, jobs: &'j [JobEntry]) -> Vec<&'j JobEntry> {
        // A key that is the number of a job means that job: kylinpy looks single jobs up so.
        let id = self.key.parse().ok().map(JobId).filter(|id| jobs.iter().any(|job| job.id == *id));
        let is_meant = |job: &JobEntry| match id {
            Some(id) => job.id == id,
            None => job.cube.to_string().contains(&self.key),
        };
        let is_of_project =
            |job: &JobEntry| self.schema.as_ref().is_none_or(|schema| job.cube.schema == *schema);
        let is_in_state =
            |job: &JobEntry| self.states.is_empty() || self.states.contains(&state_of(job.state));
        let is_recent = |job: &JobEntry| job.ended_at_ms.is_none_or(|ended| ended >= self.since_ms);
        let all = jobs.iter();
        all.filter(|job| is_meant(job) && is_of_project(job) && is_in_state(job) && is_recent(job)).collect()
    }
}

/// A state by its name or number.
fn state_named(text: &str) -> Result<&'static str, KylinError> {
    let state = STATES.iter().find(|(number, name)| *number == text || name.eq_ignore_ascii_case(text));
    state.map(|(_, name)| *name).ok_or_else(|| {
        let names = STATES.map(|(_, name)| name).join(", ");
        KylinError::invalid(format!("`{text}` is no state of jobs; there are {names}"))
    })
}

/// Kylin's periods: a day, a week, a month, a year, and all.
fn since_ms(period: Option<u64>) -> Result<u64, KylinError> {
    let days = match period {
        None | Some(4) => return Ok(0),
        Some(0) => 1,
        Some(1) => 7,
        Some(2) => 30,
        Some(3) => 365,
        Some(other) => {
            let message = format!(
                "time filter {other} is none of 0 (a day), 1 (a week), 2 (a month), 3 (a year) and 4 (all)"
            );
            return Err(KylinError::invalid(message));
        }
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(u64::try_from(now.as_millis()).unwrap_or(u64::MAX).saturating_sub(days * DAY_MS))
}

/// Jobs, the newest first.
pub async fn list(
    State(shared): State<Shared>,
    dialect: Dialect,
    asked: Parameters,
) -> Result<Response, KylinError> {
    let (wanted, page) = (Wanted::of(&shared, &asked)?, asked.page(dialect)?);
    let jobs = shared.engine.jobs().await?;
    let shown: Vec<Value> = wanted.chosen(&jobs).into_iter().map(|job| shown(job, dialect)).collect();
    Ok(dialect.list("jobs", shown, page))
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
#[derive(Debug, Default, Deserialize)]
pub struct Change {
    #[serde(default)]
    job_ids: Vec<String>,
    #[serde(default)]
    action: String,
}

/// Ends several jobs; a job cannot be paused.
pub async fn change(
    State(shared): State<Shared>,
    Caller(options): Caller,
    dialect: Dialect,
    asked: Parameters,
    body: axum::body::Bytes,
) -> Result<Response, KylinError> {
    // The parameters of the URL may name action and jobs without a body.
    let change = if body.is_empty() { Change::default() } else { request::body(&body)? };
    let action = asked.text(&["action"]).unwrap_or(&change.action);
    if !action.eq_ignore_ascii_case("DISCARD") {
        let message = format!("jobs cannot be asked to `{action}`: there is DISCARD, which ends them");
        return Err(KylinError::invalid(message));
    }
    let jobs = [asked.list(&["job_ids"]), change.job_ids].concat();
    if jobs.is_empty() {
        return Err(KylinError::invalid("name the jobs to end in `job_ids`"));
    }
    for job in &jobs {
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

/// The state of a job in Kylin's words.
fn state_of(state: JobState) -> &'static str {
    match state {
        JobState::Running => "RUNNING",
        JobState::Done => "FINISHED",
        JobState::Failed => "ERROR",
        JobState::Cancelled => "DISCARDED",
    }
}

/// A job, as it is polled.
pub fn shown(job: &JobEntry, dialect: Dialect) -> Value {
    let state = state_of(job.state);
    let percent = job.percent();
    let (id, cube) = (job.id.0.to_string(), job.cube.to_string());
    let end = job.ended_at_ms.unwrap_or(0);
    let duration = job.ended_at_ms.map_or(0, |end| end.saturating_sub(job.started_at_ms));
    match dialect {
        Dialect::Bare | Dialect::Named => json!({
            "uuid": id,
            "id": id,
            "name": format!("{} {cube}", job.kind.word()),
            "type": "BUILD",
            "job_status": state,
            "progress": percent,
            "related_cube": cube,
            "display_cube_name": cube,
            "project_name": job.cube.schema,
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use nyala_model::{JobKind, NodeId, QualifiedName};

    use super::*;

    fn job(id: u64, cube: &str, state: JobState, ended_at_ms: Option<u64>) -> JobEntry {
        JobEntry {
            id: JobId(id),
            kind: JobKind::Build,
            cube: QualifiedName::new("shop", cube),
            state,
            rows_read: 0,
            rows_total: 0,
            cuboids_done: 0,
            cuboids_total: 0,
            bytes_written: 0,
            started_at_ms: 1,
            ended_at_ms,
            retries: 0,
            error: None,
            node: NodeId(String::new()),
        }
    }

    #[test]
    fn jobs_are_chosen_by_number_name_state_and_time() {
        let jobs = [
            job(7, "sales", JobState::Running, None),
            job(8, "sales_7", JobState::Done, Some(100)),
            job(9, "visits", JobState::Failed, Some(200)),
        ];
        let check = |key: &str, states: &[&str], since_ms: u64, expected: &[u64]| {
            let states = states.iter().map(|state| state_named(state).unwrap()).collect();
            let wanted = Wanted { schema: None, key: key.to_owned(), states, since_ms };
            let found: Vec<u64> = wanted.chosen(&jobs).iter().map(|job| job.id.0).collect();
            assert_eq!(found, expected, "{key}");
        };
        check("", &[], 0, &[7, 8, 9]);
        check("sales", &[], 0, &[7, 8]);
        // A number names a job, even if the name of a cube contains it.
        check("7", &[], 0, &[7]);
        check("8", &["RUNNING"], 0, &[]);
        check("", &["finished", "8"], 0, &[8, 9]);
        check("", &["PENDING"], 0, &[]);
        check("", &[], 150, &[7, 9]);
        let other = Wanted { schema: Some("x".to_owned()), key: String::new(), states: vec![], since_ms: 0 };
        assert!(other.chosen(&jobs).is_empty());
    }

    #[test]
    fn states_and_periods_that_kylin_does_not_have_are_refused() {
        assert!(state_named("done").is_err() && state_named("3").is_err());
        assert!(since_ms(Some(5)).is_err());
        assert_eq!((since_ms(None).unwrap(), since_ms(Some(4)).unwrap()), (0, 0));
        assert!(since_ms(Some(0)).unwrap() > since_ms(Some(3)).unwrap());
    }
}
