//! Cubes and their segments, which Kylin 5 calls models and segments, and their builds.

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use nyala_engine::{QueryError, Session, SessionOptions};
use nyala_model::JobEntry;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{Dialect, Page};
use super::error::KylinError;
use super::jobs::{self, shown};
use super::session::{cube_name, literal, rows, schema_of, session_in};
use crate::http::{Caller, Shared};

#[derive(Debug, Deserialize)]
pub struct Wanted {
    #[serde(alias = "projectName")]
    project: Option<String>,
    #[serde(alias = "cubeName", alias = "modelName")]
    model_name: Option<String>,
    #[serde(default)]
    exact: bool,
    limit: Option<usize>,
    offset: Option<usize>,
    page_offset: Option<usize>,
    page_size: Option<usize>,
}

impl Wanted {
    fn page(&self, dialect: Dialect) -> Page {
        match dialect {
            Dialect::Bare => Page::of_rows(self.offset, self.limit),
            Dialect::Envelope => Page::of_pages(self.page_offset, self.page_size),
        }
    }
}

#[derive(Debug, Deserialize)]
pub struct OfProject {
    #[serde(alias = "projectName")]
    project: Option<String>,
}

/// A cube as `SHOW CUBES` tells it.
struct Cube {
    schema: String,
    name: String,
    state: String,
    source_rows: u64,
    bytes: u64,
    built_at_ms: u64,
}

impl Cube {
    fn full_name(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }

    fn is_ready(&self) -> bool {
        self.built_at_ms > 0
    }
}

async fn all(session: &Session, project: Option<&str>) -> Result<Vec<Cube>, QueryError> {
    let sql = "SELECT schema, cube, state, source_rows, bytes, CAST(extract(epoch FROM built_at) * 1000 AS BIGINT) \
               FROM system.cubes ORDER BY schema, cube";
    let schema = schema_of(project);
    let cubes = rows(session, sql).await?.into_iter().map(|row| {
        let mut cells = row.into_iter();
        let mut next = || cells.next().flatten().unwrap_or_default();
        let (schema, name, state) = (next(), next(), next());
        let mut number = || next().parse().unwrap_or(0);
        Cube { schema, name, state, source_rows: number(), bytes: number(), built_at_ms: number() }
    });
    Ok(cubes.filter(|cube| schema.is_none_or(|schema| cube.schema == schema)).collect())
}

/// The segments of a cube.
async fn segments_of(session: &Session, cube: &Cube) -> Result<Vec<Value>, QueryError> {
    let sql = format!(
        "SELECT segment, \"range\", state, bytes, source_rows, CAST(extract(epoch FROM built_at) * 1000 AS BIGINT) \
         FROM system.segments WHERE schema = {} AND cube = {} AND segment IS NOT NULL ORDER BY segment",
        literal(&cube.schema),
        literal(&cube.name)
    );
    let segments = rows(session, &sql).await?.into_iter().map(|row| {
        let mut cells = row.into_iter();
        let mut next = || cells.next().flatten().unwrap_or_default();
        let (id, range, state) = (next(), next(), next());
        let mut number = || next().parse::<u64>().unwrap_or(0);
        let (bytes, rows, built_at) = (number(), number(), number());
        let state = if matches!(state.as_str(), "building" | "interrupted") { "NEW" } else { "READY" };
        json!({
            "uuid": id,
            "id": id,
            "name": range,
            "status": state,
            "size_kb": bytes / 1024,
            "bytes_size": bytes,
            "input_records": rows,
            "row_count": rows,
            "last_build_time": built_at,
        })
    });
    Ok(segments.collect())
}

async fn shown_cube(session: &Session, cube: &Cube) -> Result<Value, QueryError> {
    Ok(json!({
        "uuid": cube.full_name(),
        "name": cube.name,
        "status": if cube.is_ready() { "READY" } else { "DISABLED" },
        "state": cube.state,
        "project": cube.schema,
        "model": cube.name,
        "size_kb": cube.bytes / 1024,
        "input_records_count": cube.source_rows,
        "last_modified": cube.built_at_ms,
        "segments": segments_of(session, cube).await?,
    }))
}

/// Cubes.
pub async fn list(
    State(shared): State<Shared>,
    Caller(options): Caller,
    dialect: Dialect,
    Query(wanted): Query<Wanted>,
) -> Result<Response, KylinError> {
    let session = session_in(&shared, options, None)?;
    let mut found = Vec::new();
    for cube in all(&session, wanted.project.as_deref()).await? {
        let name = wanted.model_name.as_deref().unwrap_or_default();
        if cube.name.contains(name) || cube.full_name() == name {
            found.push(shown_cube(&session, &cube).await?);
        }
    }
    Ok(dialect.list(found, wanted.page(dialect)))
}

/// Cubes, as Kylin 5's models.
pub async fn models(
    State(shared): State<Shared>,
    Caller(options): Caller,
    dialect: Dialect,
    Query(wanted): Query<Wanted>,
) -> Result<Response, KylinError> {
    let session = session_in(&shared, options, None)?;
    let name = wanted.model_name.as_deref().unwrap_or_default();
    let is_meant = |cube: &&Cube| match wanted.exact {
        true => cube.name == name,
        false => cube.name.contains(name),
    };
    let cubes = all(&session, wanted.project.as_deref()).await?;
    let shown = cubes.iter().filter(is_meant).map(|cube| {
        json!({
            "uuid": cube.full_name(),
            "name": cube.full_name(),
            "alias": cube.name,
            "project": cube.schema,
            "status": match cube.state.as_str() {
                "damaged" => "BROKEN",
                _ if cube.is_ready() => "ONLINE",
                _ => "OFFLINE",
            },
            "storage": cube.bytes,
            "source": cube.source_rows,
            "last_modified": cube.built_at_ms,
        })
    });
    Ok(dialect.list(shown.collect(), wanted.page(dialect)))
}

/// The cube of this name, in the project or with its schema.
async fn find(session: &Session, name: &str, project: Option<&str>) -> Result<Cube, KylinError> {
    let cubes = all(session, project).await?;
    let mut found = cubes.into_iter().filter(|cube| cube.name == name || cube.full_name() == name);
    match (found.next(), found.next()) {
        (Some(cube), None) => Ok(cube),
        (None, _) => Err(KylinError::invalid(format!("cube `{name}` does not exist"))),
        (Some(_), Some(_)) => Err(KylinError::invalid(format!(
            "there are several cubes `{name}`: name the schema, as in `public.{name}`"
        ))),
    }
}

/// One cube.
pub async fn one(
    State(shared): State<Shared>,
    Caller(options): Caller,
    dialect: Dialect,
    Path(cube): Path<String>,
    Query(of): Query<OfProject>,
) -> Result<Response, KylinError> {
    let session = session_in(&shared, options, None)?;
    let cube = find(&session, &cube, of.project.as_deref()).await?;
    Ok(dialect.value(shown_cube(&session, &cube).await?))
}

/// Drops a cube.
pub async fn remove(
    State(shared): State<Shared>,
    Caller(options): Caller,
    dialect: Dialect,
    Path(cube): Path<String>,
    Query(of): Query<OfProject>,
) -> Result<Response, KylinError> {
    let session = session_in(&shared, options, None)?;
    let cube = find(&session, &cube, of.project.as_deref()).await?;
    rows(&session, &format!("DROP CUBE {}", cube_name(&cube.full_name(), None))).await?;
    Ok(dialect.value(json!("")))
}

/// A build of Kylin up to version 4.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Build {
    /// In milliseconds since the Unix epoch; with the end 0 all.
    start_time: i64,
    end_time: i64,
    build_type: Option<String>,
    #[serde(alias = "projectName")]
    project: Option<String>,
}

/// Begins a build, a refresh or a merge, and gives its job.
pub async fn build(
    State(shared): State<Shared>,
    Caller(options): Caller,
    dialect: Dialect,
    Path(cube): Path<String>,
    body: Bytes,
) -> Result<Response, KylinError> {
    let build: Build = parse(&body)?;
    let range = (build.end_time != 0).then_some((build.start_time, build.end_time));
    let verb = build.build_type.as_deref().unwrap_or("BUILD").to_uppercase();
    begin(&shared, options, (&cube, build.project.as_deref()), &verb, range)
        .await
        .map(|job| dialect.value(shown(&job, dialect)))
}

/// New segments of Kylin 5. The times are texts of milliseconds; without them all.
#[derive(Debug, Deserialize)]
pub struct NewSegments {
    project: Option<String>,
    start: Option<String>,
    end: Option<String>,
}

/// Begins a build, and gives its job.
pub async fn build_segments(
    State(shared): State<Shared>,
    Caller(options): Caller,
    dialect: Dialect,
    Path(model): Path<String>,
    body: Bytes,
) -> Result<Response, KylinError> {
    let new: NewSegments = parse(&body)?;
    let time = |text: &Option<String>| match text.as_deref().map(str::trim) {
        None | Some("") => Ok(None),
        Some(text) => text
            .parse()
            .map(Some)
            .map_err(|_| KylinError::invalid(format!("`{text}` is no time in milliseconds"))),
    };
    let range = time(&new.start)?.zip(time(&new.end)?);
    let job = begin(&shared, options, (&model, new.project.as_deref()), "BUILD", range).await?;
    Ok(dialect.value(json!({ "jobs": [{ "job_id": job.id.0.to_string(), "job_name": "INC_BUILD" }] })))
}

/// What becomes of segments of Kylin 5.
#[derive(Debug, Deserialize)]
pub struct ChangedSegments {
    project: Option<String>,
    #[serde(rename = "type")]
    kind: String,
}

/// Refreshes all segments: which one a number means is not told to these clients.
pub async fn change_segments(
    State(shared): State<Shared>,
    Caller(options): Caller,
    dialect: Dialect,
    Path(model): Path<String>,
    body: Bytes,
) -> Result<Response, KylinError> {
    let change: ChangedSegments = parse(&body)?;
    if !change.kind.eq_ignore_ascii_case("REFRESH") {
        let message = "only REFRESH is known here; MERGE CUBE … FROM … TO … merges segments";
        return Err(KylinError::invalid(message));
    }
    let job = begin(&shared, options, (&model, change.project.as_deref()), "REFRESH", None).await?;
    Ok(dialect.value(json!({ "jobs": [{ "job_id": job.id.0.to_string(), "job_name": "INDEX_REFRESH" }] })))
}

/// The segments of a cube.
pub async fn segments(
    State(shared): State<Shared>,
    Caller(options): Caller,
    dialect: Dialect,
    Path(model): Path<String>,
    Query(wanted): Query<Wanted>,
) -> Result<Response, KylinError> {
    let session = session_in(&shared, options, None)?;
    let cube = find(&session, &model, wanted.project.as_deref()).await?;
    Ok(dialect.list(segments_of(&session, &cube).await?, wanted.page(dialect)))
}

fn parse<'b, T: Deserialize<'b>>(body: &'b Bytes) -> Result<T, KylinError> {
    serde_json::from_slice(body).map_err(|error| KylinError::invalid(format!("request body: {error}")))
}

/// Begins a job that goes on when its client has been answered.
async fn begin(
    shared: &Shared,
    options: SessionOptions,
    (cube, project): (&str, Option<&str>),
    verb: &str,
    range: Option<(i64, i64)>,
) -> Result<JobEntry, KylinError> {
    if !matches!(verb, "BUILD" | "REFRESH" | "MERGE") {
        return Err(KylinError::invalid(format!("`{verb}` is none of BUILD, REFRESH and MERGE")));
    }
    let session = session_in(shared, options, None)?;
    let cube = find(&session, cube, project).await?;
    let name = cube_name(&cube.full_name(), None);
    let range = range
        .map(|(from, to)| Ok::<_, KylinError>(format!(" FROM {} TO {}", time_text(from)?, time_text(to)?)));
    let statement = format!("{verb} CUBE {name} WITH (wait = off){}", range.transpose()?.unwrap_or_default());
    let answer = rows(&session, &statement).await?;
    match answer.first().and_then(|row| row.first()?.as_deref()) {
        Some(job) => jobs::find(shared, jobs::number_of(job)?).await,
        None => Err(KylinError::invalid(format!("`{verb} CUBE` had nothing to do"))),
    }
}

/// A time as a literal of SQL.
fn time_text(ms: i64) -> Result<String, KylinError> {
    let array = arrow::array::TimestampMillisecondArray::from(vec![ms]);
    let at = array.value_as_datetime(0);
    let at =
        at.ok_or_else(|| KylinError::invalid(format!("{ms} milliseconds are no time of the calendar")))?;
    Ok(literal(&at.format("%Y-%m-%d %H:%M:%S").to_string()))
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
        let build: Build =
            parse(&Bytes::from_static(b"{\"startTime\": 0, \"endTime\": 0, \"buildType\": \"BUILD\"}"))
                .unwrap();
        assert_eq!((build.start_time, build.end_time, build.build_type.as_deref()), (0, 0, Some("BUILD")));
        assert!(parse::<Build>(&Bytes::from_static(b"{")).is_err());
    }
}
