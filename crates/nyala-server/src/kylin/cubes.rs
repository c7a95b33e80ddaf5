//! Cubes, which Kylin 5 calls models.

use axum::extract::{Query, State};
use axum::response::Response;
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_engine::{QueryError, Session};
use nyala_model::QualifiedName;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{Dialect, Page};
use super::description::Described;
use super::error::KylinError;
use super::named_cube::NamedCube;
use super::request::flag;
use super::segments::{Segment, segments_of};
use super::session::{rows, schema_of, session_in, sql_name};
use crate::http::{Caller, Shared};

#[derive(Debug, Deserialize)]
pub struct Wanted {
    #[serde(alias = "projectName")]
    project: Option<String>,
    #[serde(alias = "cubeName", alias = "modelName")]
    model_name: Option<String>,
    #[serde(default, deserialize_with = "flag")]
    exact: bool,
    limit: Option<usize>,
    offset: Option<usize>,
    page_offset: Option<usize>,
    page_size: Option<usize>,
}

impl Wanted {
    pub fn page(&self, dialect: Dialect) -> Page {
        match dialect {
            Dialect::Bare => Page::of_rows(self.offset, self.limit),
            Dialect::Envelope => Page::of_pages(self.page_offset, self.page_size),
        }
    }

    /// Whether a cube has the name, or it is a part of its name.
    fn means(&self, cube: &Cube) -> bool {
        let name = self.model_name.as_deref().unwrap_or_default();
        cube.is_called(name) || (!self.exact && cube.name.name.contains(name))
    }
}

/// A cube as `SHOW CUBES` tells it.
pub struct Cube {
    pub name: QualifiedName,
    state: String,
    /// Whether queries are answered from it, once it is built.
    pub answers: bool,
    source_rows: u64,
    bytes: u64,
    pub built_at_ms: u64,
}

impl Cube {
    /// Its name, or that with its schema.
    fn is_called(&self, name: &str) -> bool {
        self.name.name == name || self.name.to_string() == name
    }

    /// Whether a segment of it is built.
    pub fn is_built(&self) -> bool {
        self.built_at_ms > 0
    }

    /// Whether it answers queries.
    fn is_on(&self) -> bool {
        self.answers && self.is_built()
    }
}

/// All cubes of a project.
fn all<'a>(session: &'a Session, project: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Cube>, QueryError>> {
    let sql = "SELECT schema, cube, state, answers, source_rows, bytes, CAST(extract(epoch FROM built_at) * 1000 AS BIGINT) \
               FROM system.cubes ORDER BY schema, cube";
    async move {
        let schema = schema_of(project);
        let cubes = rows(session, sql).await?.into_iter().map(|row| {
            let mut cells = row.into_iter();
            let mut next = || cells.next().flatten().unwrap_or_default();
            let (name, state, answers) = (QualifiedName::new(next(), next()), next(), next() == "true");
            let mut number = || next().parse().unwrap_or(0);
            Cube { name, state, answers, source_rows: number(), bytes: number(), built_at_ms: number() }
        });
        Ok(cubes.filter(|cube| schema.is_none_or(|schema| cube.name.schema == schema)).collect())
    }
    .boxed()
}

/// A cube with its segments, as Kylin up to version 4 shows it.
pub fn shown_cube<'a>(
    shared: &'a Shared,
    session: &'a Session,
    cube: &'a Cube,
) -> BoxFuture<'a, Result<Value, QueryError>> {
    async move {
        let segments = segments_of(shared, session, &cube.name).await?;
        Ok(json!({
            "uuid": cube.name.to_string(),
            "name": cube.name.name,
            "status": if cube.is_on() { "READY" } else { "DISABLED" },
            "state": cube.state,
            "project": cube.name.schema,
            "model": cube.name.to_string(),
            "size_kb": cube.bytes / 1024,
            "input_records_count": cube.source_rows,
            "last_modified": cube.built_at_ms,
            "segments": segments.iter().map(Segment::shown).collect::<Vec<Value>>(),
        }))
    }
    .boxed()
}

/// Cubes.
pub async fn list(
    State(shared): State<Shared>,
    Caller(options): Caller,
    dialect: Dialect,
    Query(wanted): Query<Wanted>,
) -> Result<Response, KylinError> {
    let session = session_in(&shared, options, None)?;
    let mut cubes = all(&session, wanted.project.as_deref()).await?;
    cubes.retain(|cube| wanted.means(cube));
    let page = wanted.page(dialect);
    let mut shown = Vec::new();
    for cube in cubes.iter().skip(page.offset).take(page.limit) {
        shown.push(shown_cube(&shared, &session, cube).await?);
    }
    Ok(dialect.part(shown, cubes.len(), page))
}

/// Cubes, as models.
pub async fn models(
    State(shared): State<Shared>,
    Caller(options): Caller,
    dialect: Dialect,
    Query(wanted): Query<Wanted>,
) -> Result<Response, KylinError> {
    let session = session_in(&shared, options, None)?;
    let mut cubes = all(&session, wanted.project.as_deref()).await?;
    cubes.retain(|cube| wanted.means(cube));
    let page = wanted.page(dialect);
    let mut shown = Vec::new();
    for cube in cubes.iter().skip(page.offset).take(page.limit) {
        // One that no longer fits its tables is listed, too.
        let described = Described::find(&shared, &cube.name).await.ok();
        shown.push(shown_model(cube, described.as_ref()));
    }
    Ok(dialect.part(shown, cubes.len(), page))
}

fn shown_model(cube: &Cube, described: Option<&Described>) -> Value {
    let status = match cube.state.as_str() {
        "damaged" => "BROKEN",
        _ if described.is_none() => "BROKEN",
        _ if cube.is_on() => "ONLINE",
        _ => "OFFLINE",
    };
    let part = |of: fn(&Described) -> Value| described.map(of);
    json!({
        "uuid": cube.name.to_string(),
        "name": cube.name.to_string(),
        "alias": cube.name.name,
        "project": cube.name.schema,
        "status": status,
        "storage": cube.bytes,
        "source": cube.source_rows,
        "last_modified": cube.built_at_ms,
        "description": "",
        "fact_table": part(Described::fact_table),
        "lookups": part(Described::lookups),
        "dimensions": part(Described::columns_by_table),
        "metrics": part(Described::measured_columns),
        "simplified_dimensions": part(Described::named_columns),
        "simplified_measures": part(Described::flat_measures),
        "computed_columns": part(Described::computed_columns),
        "filter_condition": part(Described::condition),
        "partition_desc": part(Described::partition),
    })
}

/// The cube of this name, in the project or with its schema.
pub fn find<'a>(
    session: &'a Session,
    name: &'a str,
    project: Option<&'a str>,
) -> BoxFuture<'a, Result<Cube, KylinError>> {
    async move {
        let mut found = all(session, project).await?.into_iter().filter(|cube| cube.is_called(name));
        match (found.next(), found.next()) {
            (Some(cube), None) => Ok(cube),
            (None, _) => Err(KylinError::invalid(format!("cube `{name}` does not exist"))),
            (Some(_), Some(_)) => Err(KylinError::invalid(format!(
                "there are several cubes `{name}`: name the schema, as in `public.{name}`"
            ))),
        }
    }
    .boxed()
}

/// One cube.
pub async fn one(dialect: Dialect, of: NamedCube) -> Result<Response, KylinError> {
    Ok(dialect.value(of.shown().await?))
}

/// Drops a cube.
pub async fn remove(dialect: Dialect, of: NamedCube) -> Result<Response, KylinError> {
    of.run(&format!("DROP CUBE {}", sql_name(of.name()))).await?;
    Ok(dialect.value(json!("")))
}
