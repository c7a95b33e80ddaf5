//! Switches of cubes and segments: whether a cube answers, which of its segments are kept, and copies of it.

use axum::body::Bytes;
use axum::extract::Path;
use axum::response::Response;
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_model::QualifiedName;
use serde::Deserialize;
use serde_json::json;

use super::answer::Dialect;
use super::cubes::Cube;
use super::definition::statement_of;
use super::error::KylinError;
use super::named_cube::{CubeName, NamedCube};
use super::parameters::Parameters;
use super::request;
use super::segments::drop_of;
use super::session::sql_name;

/// Lets a cube answer queries, or not.
fn switch(of: &NamedCube, on: bool) -> BoxFuture<'_, Result<(), KylinError>> {
    async move {
        if on {
            check_built(&of.cube)?;
        }
        if of.cube.answers != on {
            let (name, value) = (sql_name(of.name()), if on { "on" } else { "off" });
            of.run(&format!("ALTER CUBE {name} SET (answers = {value})")).await?;
        }
        Ok(())
    }
    .boxed()
}

fn check_built(cube: &Cube) -> Result<(), KylinError> {
    if cube.is_built() {
        return Ok(());
    }
    let (name, sql) = (&cube.name, sql_name(&cube.name));
    Err(KylinError::invalid(match cube.answers {
        true => format!("cube `{name}` is not built, and answers once it is: run `BUILD CUBE {sql}`"),
        false => format!("cube `{name}` is not built: run `BUILD CUBE {sql}`, and enable it then"),
    }))
}

/// Lets a cube that is built answer queries.
pub async fn enable(dialect: Dialect, of: NamedCube) -> Result<Response, KylinError> {
    switch(&of, true).await?;
    Ok(dialect.value(of.shown_now(of.name()).await?))
}

/// Lets a cube answer no query. It goes on being built.
pub async fn disable(dialect: Dialect, of: NamedCube) -> Result<Response, KylinError> {
    switch(&of, false).await?;
    Ok(dialect.value(of.shown_now(of.name()).await?))
}

/// Drops all segments of a cube.
pub async fn purge(dialect: Dialect, of: NamedCube) -> Result<Response, KylinError> {
    drop_all(&of).await?;
    Ok(dialect.value(of.shown_now(of.name()).await?))
}

fn drop_all(of: &NamedCube) -> BoxFuture<'_, Result<(), KylinError>> {
    async move { of.run(&format!("ALTER CUBE {} DROP SEGMENTS", sql_name(of.name()))).await }.boxed()
}

/// Drops segments of these names or numbers; drops none if one is unknown or is dropped meanwhile.
fn drop_some<'a>(of: &'a NamedCube, names: &'a [String]) -> BoxFuture<'a, Result<(), KylinError>> {
    async move {
        let segments = of.segments().await?;
        of.run(&drop_of(of.name(), &segments, names)?).await
    }
    .boxed()
}

/// The part of a path that tells the segment.
#[derive(Debug, Deserialize)]
pub struct OneSegment {
    segment: String,
}

/// Drops a segment.
pub async fn delete_segment(
    dialect: Dialect,
    Path(OneSegment { segment }): Path<OneSegment>,
    of: NamedCube,
) -> Result<Response, KylinError> {
    drop_some(&of, &[segment]).await?;
    Ok(dialect.value(of.shown_now(of.name()).await?))
}

/// Drops some segments, or all.
pub async fn delete_segments(
    dialect: Dialect,
    name: CubeName,
    asked: Parameters,
) -> Result<Response, KylinError> {
    let of = name.find(asked.project()).await?;
    match asked.list(&["ids", "names"]).as_slice() {
        _ if asked.flag("purge") => drop_all(&of).await?,
        [] => {
            let message = "name the segments in `ids` or `names`, or send `purge=true` to delete all of them";
            return Err(KylinError::invalid(message));
        }
        names => drop_some(&of, names).await?,
    }
    Ok(dialect.value(json!("")))
}

/// The wanted status of a model of Kylin 5.
#[derive(Debug, Deserialize)]
pub struct Status {
    project: Option<String>,
    status: String,
}

/// Takes a model online, if it is built, or offline.
pub async fn status(dialect: Dialect, name: CubeName, body: Bytes) -> Result<Response, KylinError> {
    let Status { project, status } = request::body(&body)?;
    let of = name.find(project.as_deref()).await?;
    let on = match status.to_uppercase().as_str() {
        "ONLINE" => true,
        "OFFLINE" => false,
        _ => return Err(KylinError::invalid(format!("status `{status}` is neither ONLINE nor OFFLINE"))),
    };
    switch(&of, on).await?;
    Ok(dialect.value(json!("")))
}

/// The name of a copy, with the schema of the cube or with another one.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewCube {
    cube_name: String,
    project: Option<String>,
}

/// Makes a cube that has the definition of another one, and is not built.
pub async fn clone_cube(dialect: Dialect, name: CubeName, body: Bytes) -> Result<Response, KylinError> {
    let new: NewCube = request::body(&body)?;
    let of = name.find(new.project.as_deref()).await?;
    let (schema, name) = new.cube_name.split_once('.').unwrap_or((&of.name().schema, &new.cube_name));
    let name = QualifiedName::new(schema, name);
    let statement = statement_of(&of.session, of.name()).await?;
    let statement = with_name(&statement, &sql_name(&name))
        .ok_or_else(|| KylinError::invalid(format!("the statement of cube `{}` has no name", of.name())))?;
    of.run(&statement).await?;
    Ok(dialect.value(of.shown_now(&name).await?))
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
