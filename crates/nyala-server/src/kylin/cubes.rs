//! Cubes, which Kylin 5 calls models.

use axum::extract::State;
use axum::response::Response;
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_engine::{QueryError, Session};
use nyala_model::QualifiedName;
use serde_json::{Value, json};

use super::answer::Dialect;
use super::description::Described;
use super::error::KylinError;
use super::named_cube::NamedCube;
use super::parameters::Parameters;
use super::segments::{Segment, segments_of};
use super::session::{rows, schema_of, session_in, sql_name};
use crate::http::{Caller, Shared};

/// Keeps the cubes whose name is the one asked for, or contains it. An exact match comes first: kylinpy takes the first cube for the one
/// that it has named.
fn choose(asked: &Parameters, cubes: &mut Vec<Cube>) {
    let Some(name) = asked.text(&["model_name", "cubeName", "modelName"]) else { return };
    let exact = asked.flag("exact");
    cubes.retain(|cube| cube.is_called(name) || (!exact && cube.name.name.contains(name)));
    cubes.sort_by_key(|cube| !cube.is_called(name));
}

/// A cube as `SHOW CUBES` tells it.
pub struct Cube {
    pub name: QualifiedName,
    state: String,
    /// Whether the cube may answer queries, once it is built.
    pub answers: bool,
    source_rows: u64,
    bytes: u64,
    pub built_at_ms: u64,
}

impl Cube {
    /// Whether this is the cube's name, with or without its schema.
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
fn all<'a>(
    shared: &'a Shared,
    session: &'a Session,
    project: Option<&'a str>,
) -> BoxFuture<'a, Result<Vec<Cube>, QueryError>> {
    let sql = "SELECT schema, cube, state, answers, source_rows, bytes, CAST(extract(epoch FROM built_at) * 1000 AS BIGINT) \
               FROM system.cubes ORDER BY schema, cube";
    async move {
        let schema = schema_of(shared, project);
        let cubes = rows(session, sql).await?.into_iter().map(|row| {
            let mut cells = row.into_iter();
            let mut next = || cells.next().flatten().unwrap_or_default();
            let (name, state, answers) = (QualifiedName::new(next(), next()), next(), next() == "true");
            let mut number = || next().parse().unwrap_or(0);
            Cube { name, state, answers, source_rows: number(), bytes: number(), built_at_ms: number() }
        });
        Ok(cubes.filter(|cube| schema.as_ref().is_none_or(|schema| cube.name.schema == *schema)).collect())
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
    asked: Parameters,
) -> Result<Response, KylinError> {
    let page = asked.page(dialect)?;
    let session = session_in(&shared, options, None)?;
    let mut cubes = all(&shared, &session, asked.project()).await?;
    choose(&asked, &mut cubes);
    let mut shown = Vec::new();
    for cube in cubes.iter().skip(page.offset).take(page.limit) {
        shown.push(shown_cube(&shared, &session, cube).await?);
    }
    Ok(dialect.part("cubes", shown, cubes.len(), page))
}

/// Cubes, as models.
pub async fn models(
    State(shared): State<Shared>,
    Caller(options): Caller,
    dialect: Dialect,
    asked: Parameters,
) -> Result<Response, KylinError> {
    let page = asked.page(dialect)?;
    let session = session_in(&shared, options, None)?;
    let mut cubes = all(&shared, &session, asked.project()).await?;
    choose(&asked, &mut cubes);
    let mut shown = Vec::new();
    for cube in cubes.iter().skip(page.offset).take(page.limit) {
        // A cube that no longer fits its tables is listed without a description.
        let described = Described::find(&shared, &cube.name).await.ok();
        shown.push(shown_model(cube, described.as_ref()));
    }
    Ok(dialect.part("models", shown, cubes.len(), page))
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
    shared: &'a Shared,
    session: &'a Session,
    name: &'a str,
    project: Option<&'a str>,
) -> BoxFuture<'a, Result<Cube, KylinError>> {
    async move {
        let mut found = all(shared, session, project).await?.into_iter().filter(|cube| cube.is_called(name));
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_cube_of_a_name_comes_before_those_that_have_it_as_a_part_of_theirs() {
        let chosen = |query: &str| {
            let mut cubes = Vec::from(["a_years", "days", "years"].map(|name| Cube {
                name: QualifiedName::new("shop", name),
                state: String::new(),
                answers: true,
                source_rows: 0,
                bytes: 0,
                built_at_ms: 0,
            }));
            choose(&Parameters::of(&format!("/cubes?{query}").parse().unwrap()).unwrap(), &mut cubes);
            cubes.into_iter().map(|cube| cube.name.name).collect::<Vec<_>>()
        };
        assert_eq!(chosen("cubeName=years"), ["years", "a_years"]);
        assert_eq!(chosen("cubeName=shop.years"), ["years"]);
        assert_eq!(chosen("model_name=years&exact=True"), ["years"]);
        assert_eq!(chosen("modelName=s"), ["a_years", "days", "years"]);
        // Without a name there is nothing to be exact about.
        assert_eq!(chosen("exact=true&cubeName="), ["a_years", "days", "years"]);
        assert_eq!(chosen("cubeName=weeks"), [""; 0]);
    }
}
