//! Switches that Kylin has for cubes and segments. For most of them there is no statement: then the error names what to do instead.

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_engine::SessionOptions;
use nyala_model::QualifiedName;
use serde::Deserialize;
use serde_json::json;

use super::answer::Dialect;
use super::cubes::{Cube, OfProject, find, shown_cube};
use super::definition::statement_of;
use super::error::KylinError;
use super::request::{self, flag};
use super::session::{rows, session_in, sql_name};
use crate::http::{Caller, Shared};

fn named<'a>(
    shared: &'a Shared,
    options: SessionOptions,
    name: &'a str,
    project: Option<&'a str>,
) -> BoxFuture<'a, Result<Cube, KylinError>> {
    async move { Ok(find(&session_in(shared, options, None)?, name, project).await?) }.boxed()
}

/// Every cube that is built answers, so that there is nothing to do for one.
pub async fn enable(
    State(shared): State<Shared>,
    Caller(options): Caller,
    dialect: Dialect,
    Path(cube): Path<String>,
    Query(of): Query<OfProject>,
) -> Result<Response, KylinError> {
    let session = session_in(&shared, options, None)?;
    let cube = find(&session, &cube, of.project.as_deref()).await?;
    check_answers(&cube)?;
    Ok(dialect.value(shown_cube(&shared, &session, &cube).await?))
}

fn check_answers(cube: &Cube) -> Result<(), KylinError> {
    if cube.is_built() {
        return Ok(());
    }
    let (name, sql) = (&cube.name, sql_name(&cube.name));
    let message = format!("cube `{name}` is not built, and answers once it is: run `BUILD CUBE {sql}`");
    Err(KylinError::invalid(message))
}

/// Cubes cannot be switched off.
pub async fn disable(
    State(shared): State<Shared>,
    Caller(options): Caller,
    Path(cube): Path<String>,
    Query(of): Query<OfProject>,
) -> KylinError {
    match named(&shared, options, &cube, of.project.as_deref()).await {
        Ok(cube) => always_on(&cube),
        Err(error) => error,
    }
}

fn always_on(cube: &Cube) -> KylinError {
    let (name, sql) = (&cube.name, sql_name(&cube.name));
    KylinError::invalid(format!(
        "cube `{name}` cannot be switched off for everybody: to ask the tables, send `forcedToPushDown` with a query or run \
         `SET nyala.use_cubes = off`; `DROP CUBE {sql}` removes the cube"
    ))
}

/// Cubes cannot be emptied.
pub async fn purge(
    State(shared): State<Shared>,
    Caller(options): Caller,
    Path(cube): Path<String>,
    Query(of): Query<OfProject>,
) -> KylinError {
    match named(&shared, options, &cube, of.project.as_deref()).await {
        Ok(cube) => keeps_all(&cube),
        Err(error) => error,
    }
}

fn keeps_all(cube: &Cube) -> KylinError {
    let (name, sql) = (&cube.name, sql_name(&cube.name));
    KylinError::invalid(format!(
        "cube `{name}` cannot be emptied: `REFRESH CUBE {sql}` builds all of it anew; `DROP CUBE {sql}` and then the statement of \
         `SHOW CREATE CUBE {sql}`, asked for before, make it empty"
    ))
}

/// Segments cannot be deleted one by one.
pub async fn delete_segment(
    State(shared): State<Shared>,
    Caller(options): Caller,
    Path((cube, _)): Path<(String, String)>,
    Query(of): Query<OfProject>,
) -> KylinError {
    match named(&shared, options, &cube, of.project.as_deref()).await {
        Ok(cube) => keeps_segments(&cube),
        Err(error) => error,
    }
}

fn keeps_segments(cube: &Cube) -> KylinError {
    let (name, sql) = (&cube.name, sql_name(&cube.name));
    KylinError::invalid(format!(
        "segments of cube `{name}` cannot be deleted one by one: `REFRESH CUBE {sql}` builds them anew; if the cube has PARTITION BY RANGE, \
         `REFRESH CUBE {sql} FROM … TO …` builds those of a range, and `ALTER CUBE {sql} SET (retention = '2 years')` drops old ones"
    ))
}

/// Which segments of Kylin 5 are deleted; their numbers and names do not matter, since none can be.
#[derive(Debug, Deserialize)]
pub struct Deleted {
    project: Option<String>,
    #[serde(default, deserialize_with = "flag")]
    purge: bool,
}

/// Neither some segments can be deleted, nor all.
pub async fn delete_segments(
    State(shared): State<Shared>,
    Caller(options): Caller,
    Path(model): Path<String>,
    Query(deleted): Query<Deleted>,
) -> KylinError {
    match named(&shared, options, &model, deleted.project.as_deref()).await {
        Ok(cube) if deleted.purge => keeps_all(&cube),
        Ok(cube) => keeps_segments(&cube),
        Err(error) => error,
    }
}

/// The wanted status of a model of Kylin 5.
#[derive(Debug, Deserialize)]
pub struct Status {
    project: Option<String>,
    status: String,
}

/// A model that is built is online, and cannot be taken offline.
pub async fn status(
    State(shared): State<Shared>,
    Caller(options): Caller,
    dialect: Dialect,
    Path(model): Path<String>,
    body: Bytes,
) -> Result<Response, KylinError> {
    let Status { project, status } = request::body(&body)?;
    let cube = named(&shared, options, &model, project.as_deref()).await?;
    match status.to_uppercase().as_str() {
        "ONLINE" => check_answers(&cube).map(|()| dialect.value(json!(""))),
        "OFFLINE" => Err(always_on(&cube)),
        _ => Err(KylinError::invalid(format!("status `{status}` is neither ONLINE nor OFFLINE"))),
    }
}

/// The name of a copy: of the same schema, or with another one.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewCube {
    cube_name: String,
    project: Option<String>,
}

/// Makes a cube that has the definition of another one, and is not built.
pub async fn clone_cube(
    State(shared): State<Shared>,
    Caller(options): Caller,
    dialect: Dialect,
    Path(cube): Path<String>,
    body: Bytes,
) -> Result<Response, KylinError> {
    let new: NewCube = request::body(&body)?;
    let session = session_in(&shared, options, None)?;
    let cube = find(&session, &cube, new.project.as_deref()).await?;
    let (schema, name) = new.cube_name.split_once('.').unwrap_or((&cube.name.schema, &new.cube_name));
    let name = QualifiedName::new(schema, name);
    let statement = statement_of(&session, &cube.name).await?;
    let statement = with_name(&statement, &sql_name(&name))
        .ok_or_else(|| KylinError::invalid(format!("the statement of cube `{}` has no name", cube.name)))?;
    rows(&session, &statement).await?;
    let made = find(&session, &name.to_string(), None).await?;
    Ok(dialect.value(shown_cube(&shared, &session, &made).await?))
}

/// The statement of a cube, `CREATE CUBE schema.cube …`, with another name.
fn with_name(statement: &str, name: &str) -> Option<String> {
    let schema = statement.strip_prefix("CREATE CUBE ")?;
    let cube = after_identifier(schema)?.strip_prefix('.')?;
    Some(format!("CREATE CUBE {name}{}", after_identifier(cube)?))
}

/// The text after the identifier that it begins with.
fn after_identifier(text: &str) -> Option<&str> {
    let Some(mut rest) = text.strip_prefix('"') else {
        return text.get(text.find(['.', ' '])?..);
    };
    loop {
        let (_, after) = rest.split_once('"')?;
        match after.strip_prefix('"') {
            Some(more) => rest = more,
            None => return Some(after),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_statement_with_another_name() {
        let check = |statement: &str, expected: Option<&str>| {
            assert_eq!(with_name(statement, "\"b\".\"c\"").as_deref(), expected, "{statement}");
        };
        let copied = Some("CREATE CUBE \"b\".\"c\" WITH (x = on) AS SELECT 1 AS \"a.b\"");
        check("CREATE CUBE public.sales WITH (x = on) AS SELECT 1 AS \"a.b\"", copied);
        check("CREATE CUBE public.\"a. \"\"b\" WITH (x = on) AS SELECT 1 AS \"a.b\"", copied);
        check("CREATE CUBE \"My \"\"Shop\".sales WITH (x = on) AS SELECT 1 AS \"a.b\"", copied);
        check("CREATE CUBE sales AS SELECT 1", None);
        check("SELECT 1", None);
    }
}
