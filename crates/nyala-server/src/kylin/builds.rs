//! Builds of cubes: BUILD, REFRESH and MERGE CUBE as jobs that go on by themselves.

use axum::body::Bytes;
use axum::response::Response;
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_model::JobEntry;
use serde::Deserialize;
use serde_json::json;

use super::answer::Dialect;
use super::error::KylinError;
use super::jobs::{self, shown};
use super::named_cube::{CubeName, NamedCube};
use super::request;
use super::segments::{END_OF_TIME_MS, range_of, utc_text};
use super::session::{literal, rows, sql_name};

/// A build of Kylin up to version 4.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Build {
    /// In milliseconds since the Unix epoch. If the end is 0, everything is built.
    start_time: i64,
    end_time: i64,
    build_type: Option<String>,
    #[serde(alias = "projectName")]
    project: Option<String>,
}

/// Begins a build, a refresh or a merge, and gives its job.
pub async fn build(dialect: Dialect, name: CubeName, body: Bytes) -> Result<Response, KylinError> {
    let build: Build = request::body(&body)?;
    let range = (build.end_time != 0).then_some((build.start_time, build.end_time));
    let verb = build.build_type.as_deref().unwrap_or("BUILD").to_uppercase();
    if !matches!(verb.as_str(), "BUILD" | "REFRESH" | "MERGE") {
        return Err(KylinError::invalid(format!("`{verb}` is none of BUILD, REFRESH and MERGE")));
    }
    let of = name.find(build.project.as_deref()).await?;
    let job = begin(&of, &verb, &range_text(range)?).await?;
    Ok(dialect.value(shown(&job, dialect)))
}

/// New segments of Kylin 5. The times are texts of milliseconds; without times, everything is built.
#[derive(Debug, Deserialize)]
pub struct NewSegments {
    project: Option<String>,
    start: Option<String>,
    end: Option<String>,
}

impl NewSegments {
    /// In milliseconds since the Unix epoch; none for everything.
    fn range(&self) -> Result<Option<(i64, i64)>, KylinError> {
        let range = read_time(self.start.as_deref())?.zip(read_time(self.end.as_deref())?);
        Ok(range.filter(|(_, end)| *end < END_OF_TIME_MS))
    }
}

fn read_time(text: Option<&str>) -> Result<Option<i64>, KylinError> {
    match text.map(str::trim) {
        None | Some("") => Ok(None),
        Some(text) => {
            let invalid = |_| KylinError::invalid(format!("`{text}` is no time in milliseconds"));
            text.parse().map(Some).map_err(invalid)
        }
    }
}

/// Begins a build, and gives its job.
pub async fn build_segments(dialect: Dialect, name: CubeName, body: Bytes) -> Result<Response, KylinError> {
    let new: NewSegments = request::body(&body)?;
    let range = new.range()?;
    let of = name.find(new.project.as_deref()).await?;
    let job = begin(&of, "BUILD", &range_text(range)?).await?;
    Ok(dialect.value(json!({ "jobs": [{ "job_id": job.id.0.to_string(), "job_name": "INC_BUILD" }] })))
}

/// A refresh or merge of segments in Kylin 5; of all segments if none is named.
#[derive(Debug, Deserialize)]
pub struct ChangedSegments {
    project: Option<String>,
    #[serde(rename = "type")]
    kind: String,
    ids: Option<Vec<String>>,
    names: Option<Vec<String>>,
}

/// Begins to refresh or to merge segments.
pub async fn change_segments(dialect: Dialect, name: CubeName, body: Bytes) -> Result<Response, KylinError> {
    let change: ChangedSegments = request::body(&body)?;
    let verb = change.kind.to_uppercase();
    let job_name = match verb.as_str() {
        "REFRESH" => "INDEX_REFRESH",
        "MERGE" => "INDEX_MERGE",
        _ => {
            let message = format!("type `{}` is neither REFRESH nor MERGE", change.kind);
            return Err(KylinError::invalid(message));
        }
    };
    let of = name.find(change.project.as_deref()).await?;
    let segments = of.segments().await?;
    let names: Vec<String> = [change.ids, change.names].into_iter().flatten().flatten().collect();
    let range = range_of(of.name(), &segments, &names)?;
    let job = begin(&of, &verb, &range).await?;
    Ok(dialect.value(json!({ "jobs": [{ "job_id": job.id.0.to_string(), "job_name": job_name }] })))
}

/// Begins a job that goes on when its client has been answered. `range` is that of the SQL statement; an empty text for everything.
fn begin<'a>(
    of: &'a NamedCube,
    verb: &'a str,
    range: &'a str,
) -> BoxFuture<'a, Result<JobEntry, KylinError>> {
    async move {
        let sql = format!("{verb} CUBE {} WITH (wait = off){range}", sql_name(of.name()));
        let answer = rows(&of.session, &sql).await?;
        match answer.first().and_then(|row| row.first()?.as_deref()) {
            Some(job) => jobs::find(&of.shared, jobs::number_of(job)?).await,
            None => Err(KylinError::invalid(format!("`{verb} CUBE` had nothing to do"))),
        }
    }
    .boxed()
}

/// A range of times for SQL statements; an empty text for everything.
fn range_text(range: Option<(i64, i64)>) -> Result<String, KylinError> {
    match range {
        Some((from, to)) => Ok(format!(" FROM {} TO {}", time_text(from)?, time_text(to)?)),
        None => Ok(String::new()),
    }
}

/// A time as a literal of SQL.
fn time_text(ms: i64) -> Result<String, KylinError> {
    let text = utc_text(ms, "%Y-%m-%d %H:%M:%S");
    let text =
        text.ok_or_else(|| KylinError::invalid(format!("{ms} milliseconds are no time of the calendar")))?;
    Ok(literal(&text))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn times_are_of_utc() {
        assert_eq!(time_text(0).unwrap(), "'1970-01-01 00:00:00'");
        assert_eq!(time_text(1_764_288_000_000).unwrap(), "'2025-11-28 00:00:00'");
        assert!(time_text(i64::MAX).is_err());
    }

    #[test]
    fn builds_are_read_as_scripts_send_them() {
        let build: Build = request::body(&Bytes::from_static(
            b"{\"startTime\": 0, \"endTime\": 0, \"buildType\": \"BUILD\"}",
        ))
        .unwrap();
        assert_eq!((build.start_time, build.end_time, build.build_type.as_deref()), (0, 0, Some("BUILD")));
    }

    #[test]
    fn a_build_of_everything_has_no_range() {
        let range = |body: &'static str| {
            request::body::<NewSegments>(&Bytes::from_static(body.as_bytes())).unwrap().range()
        };
        assert_eq!(range(r#"{"start": "1", "end": "9223372036854775806"}"#).unwrap(), None);
        assert_eq!(range(r#"{"project": "nyala"}"#).unwrap(), None);
        assert_eq!(range(r#"{"start": "0", "end": "86400000"}"#).unwrap(), Some((0, 86_400_000)));
        assert!(range(r#"{"start": "yesterday", "end": "1"}"#).is_err());
    }
}
