//! `GET /api/v1/queries`, `GET /debug/tasks` and `DELETE /api/v1/queries/{id}`.

use std::time::Instant;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use nyala_engine::{ErrorKind, SessionOptions};
use serde::Deserialize;
use serde_json::Value;

use super::body::Wanted;
use super::query::{requested_format, respond};
use crate::http::{ApiError, Caller, Shared};
use crate::route::statement;

/// The running queries.
const RUNNING: &str = "SELECT * FROM system.queries ORDER BY node, query_id";

/// The running tasks, with their present work.
const TASKS: &str = "SELECT * FROM system.tasks ORDER BY kind, id";

/// The rows of `system.queries`, in any format of query results.
pub async fn list(
    State(shared): State<Shared>,
    Caller(options): Caller,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    answer(&shared, options, &headers, RUNNING).await
}

/// The rows of `system.tasks`: for superusers.
pub async fn tasks(
    State(shared): State<Shared>,
    Caller(options): Caller,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    answer(&shared, options, &headers, TASKS).await
}

async fn answer(
    shared: &Shared,
    options: SessionOptions,
    headers: &HeaderMap,
    sql: &str,
) -> Result<Response, ApiError> {
    let started = Instant::now();
    let format = requested_format(headers)?;
    let session = shared.engine.session(options);
    respond(session.query(sql).await?, format, Wanted::default(), started).await
}

/// The query parameters of a request to end a query.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The node that runs the query; without it, this node.
    node: Option<String>,
}

/// A statement of this node that runs or ended lately, with its progress and route.
pub async fn one(
    State(shared): State<Shared>,
    Caller(options): Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let profile = shared.engine.session(options).profile(number_of(&id)?);
    profile.map(|profile| Json(statement(&profile))).map_err(|error| {
        let hint = error.hint.unwrap_or_default();
        ApiError::new(StatusCode::NOT_FOUND, "not_found", error.message).hint(hint)
    })
}

fn number_of(id: &str) -> Result<u64, ApiError> {
    id.parse().map_err(|_| {
        let message = format!("`{id}` is not the number of a query");
        ApiError::new(StatusCode::BAD_REQUEST, "invalid_request", message)
            .hint("`GET /api/v1/queries` lists what runs")
    })
}

/// Ends a query, like `KILL QUERY`.
pub async fn kill(
    State(shared): State<Shared>,
    Caller(options): Caller,
    Path(id): Path<String>,
    place: Result<Query<Place>, QueryRejection>,
) -> Result<StatusCode, ApiError> {
    let Query(place) = place.map_err(|rejection| {
        ApiError::new(StatusCode::BAD_REQUEST, "invalid_request", rejection.body_text())
            .hint("there is `node`, the name of a node in `system.nodes`")
    })?;
    let number = number_of(&id)?;
    let node = place.node.map(|name| format!(" ON NODE '{}'", name.replace('\'', "''")));
    let statement = format!("KILL QUERY {number}{}", node.unwrap_or_default());
    match shared.engine.session(options).query(&statement).await {
        Ok(_) => Ok(StatusCode::NO_CONTENT),
        Err(error) if error.kind == ErrorKind::UndefinedObject => {
            Err(ApiError::new(StatusCode::NOT_FOUND, "not_found", error.message)
                .hint("`GET /api/v1/queries` lists what runs"))
        }
        Err(error) => Err(error.into()),
    }
}
