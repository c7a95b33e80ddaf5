//! What cubes are made of: `cube_desc`, `model_desc`, indexes, and the statement.

use std::collections::HashMap;

use axum::extract::{Path, Query, State};
use axum::response::Response;
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_engine::{QueryError, Session, SessionOptions};
use nyala_model::QualifiedName;
use serde_json::json;

use super::answer::Dialect;
use super::cubes::{Cube, OfProject, Wanted, find};
use super::description::{CuboidUse, Described};
use super::error::KylinError;
use super::session::{literal, rows, session_in, sql_name};
use crate::http::{Caller, Shared};

/// The cube of this name, and its parts.
fn described<'a>(
    shared: &'a Shared,
    options: SessionOptions,
    name: &'a str,
    project: Option<&'a str>,
) -> BoxFuture<'a, Result<(Cube, Described), KylinError>> {
    async move {
        let session = session_in(shared, options, None)?;
        let cube = find(&session, name, project).await?;
        let described = Described::find(shared, &cube.name).await?;
        Ok((cube, described))
    }
    .boxed()
}

/// The description of a cube, in a list.
pub async fn cube_descs(
    State(shared): State<Shared>,
    Caller(options): Caller,
    dialect: Dialect,
    Path(cube): Path<String>,
    Query(of): Query<OfProject>,
) -> Result<Response, KylinError> {
    let (cube, described) = described(&shared, options, &cube, of.project.as_deref()).await?;
    Ok(dialect.value(json!([described.cube_desc(&cube)])))
}

/// The description of a cube.
pub async fn cube_desc(
    State(shared): State<Shared>,
    Caller(options): Caller,
    dialect: Dialect,
    Path(cube): Path<String>,
    Query(of): Query<OfProject>,
) -> Result<Response, KylinError> {
    let (cube, described) = described(&shared, options, &cube, of.project.as_deref()).await?;
    Ok(dialect.value(described.cube_desc(&cube)))
}

/// The description of a model.
pub async fn model_desc(
    State(shared): State<Shared>,
    Caller(options): Caller,
    dialect: Dialect,
    Path((project, model)): Path<(String, String)>,
) -> Result<Response, KylinError> {
    let (cube, described) = described(&shared, options, &model, Some(&project)).await?;
    Ok(dialect.value(described.model_desc(&cube)))
}

/// The cuboids of a cube.
pub async fn indexes(
    State(shared): State<Shared>,
    Caller(options): Caller,
    dialect: Dialect,
    Path(model): Path<String>,
    Query(wanted): Query<Wanted>,
) -> Result<Response, KylinError> {
    let project = wanted.project.as_deref();
    let (cube, described) = described(&shared, options.clone(), &model, project).await?;
    let session = session_in(&shared, options, None)?;
    let all = described.indexes(&cuboids_of(&session, &cube.name).await?);
    let (page, total) = (wanted.page(dialect), all.len());
    let part: Vec<_> = all.into_iter().skip(page.offset).take(page.limit).collect();
    Ok(dialect.value(json!({
        "project": cube.name.schema,
        "uuid": cube.name.to_string(),
        "model_name": cube.name.name,
        "total_size": total,
        "offset": page.offset,
        "limit": page.limit.min(total),
        "indexes": part,
    })))
}

/// The cuboids that are built, by their dimensions.
fn cuboids_of<'a>(
    session: &'a Session,
    cube: &'a QualifiedName,
) -> BoxFuture<'a, Result<HashMap<String, CuboidUse>, QueryError>> {
    let sql = format!(
        "SELECT cuboid, bytes, hits FROM system.cuboids WHERE schema = {} AND cube = {}",
        literal(&cube.schema),
        literal(&cube.name)
    );
    async move {
        let cuboids = rows(session, &sql).await?.into_iter().map(|row| {
            let mut cells = row.into_iter();
            let mut next = || cells.next().flatten().unwrap_or_default();
            let dimensions = next();
            let mut number = || next().parse().unwrap_or(0);
            (dimensions, CuboidUse { bytes: number(), hits: number() })
        });
        Ok(cuboids.collect())
    }
    .boxed()
}

/// The statement that makes the cube.
pub async fn sql(
    State(shared): State<Shared>,
    Caller(options): Caller,
    dialect: Dialect,
    Path(cube): Path<String>,
    Query(of): Query<OfProject>,
) -> Result<Response, KylinError> {
    let session = session_in(&shared, options, None)?;
    let cube = find(&session, &cube, of.project.as_deref()).await?;
    Ok(dialect.value(json!({ "sql": statement_of(&session, &cube.name).await? })))
}

/// The statement that makes a cube.
pub fn statement_of<'a>(
    session: &'a Session,
    cube: &'a QualifiedName,
) -> BoxFuture<'a, Result<String, QueryError>> {
    let show = format!("SHOW CREATE CUBE {}", sql_name(cube));
    async move {
        let shown = rows(session, &show).await?.into_iter().next();
        // Its columns are schema, cube and statement.
        let statement = shown.and_then(|row| row.into_iter().nth(2).flatten());
        statement.ok_or_else(|| QueryError::internal("SHOW CREATE CUBE has no statement"))
    }
    .boxed()
}
