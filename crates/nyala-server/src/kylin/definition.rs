//! What cubes are made of: `cube_desc`, `model_desc`, indexes, and the statement.

use std::collections::HashMap;

use axum::response::Response;
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_engine::{QueryError, Session};
use nyala_model::QualifiedName;
use serde_json::json;

use super::answer::Dialect;
use super::description::CuboidUse;
use super::error::KylinError;
use super::named_cube::NamedCube;
use super::parameters::Parameters;
use super::session::{literal, rows, sql_name};

/// The description of a cube, in a list.
pub async fn cube_descs(dialect: Dialect, of: NamedCube) -> Result<Response, KylinError> {
    Ok(dialect.value(json!([of.described().await?.cube_desc(&of.cube)])))
}

/// The description of a cube.
pub async fn cube_desc(dialect: Dialect, of: NamedCube) -> Result<Response, KylinError> {
    Ok(dialect.value(of.described().await?.cube_desc(&of.cube)))
}

/// The description of a cube in the form of Kyligence 3, whose path has the project, too.
pub async fn named_cube_desc(dialect: Dialect, of: NamedCube) -> Result<Response, KylinError> {
    Ok(dialect.value(json!({ "cube": of.described().await?.cube_desc(&of.cube), "draft": null })))
}

/// The description of a model.
pub async fn model_desc(dialect: Dialect, of: NamedCube) -> Result<Response, KylinError> {
    Ok(dialect.value(of.described().await?.model_desc(&of.cube)))
}

/// The cuboids of a cube.
pub async fn indexes(dialect: Dialect, asked: Parameters, of: NamedCube) -> Result<Response, KylinError> {
    let page = asked.page(dialect)?;
    let described = of.described().await?;
    let all = described.indexes(&cuboids_of(&of.session, of.name()).await?);
    let total = all.len();
    let part: Vec<_> = all.into_iter().skip(page.offset).take(page.limit).collect();
    Ok(dialect.value(json!({
        "project": of.name().schema,
        "uuid": of.name().to_string(),
        "model_name": of.name().name,
        "total_size": total,
        "offset": page.number,
        "limit": page.shown_limit(total),
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
pub async fn sql(dialect: Dialect, of: NamedCube) -> Result<Response, KylinError> {
    Ok(dialect.value(json!({ "sql": statement_of(&of.session, of.name()).await? })))
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
