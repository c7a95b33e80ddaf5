//! Health checks: whether the process lives, and whether clients should send it queries.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::http::{ApiError, Phase, Shared};

/// How long the catalog may take to answer before the node counts as not ready.
const CATALOG_DEADLINE: Duration = Duration::from_secs(2);

/// `GET /healthz`: answers as long as the process does.
pub async fn live() -> Json<Value> {
    Json(json!({"status": "ok", "version": env!("CARGO_PKG_VERSION")}))
}

/// `GET /readyz`: 200 if queries are welcome and the catalog answers, else 503. A shared catalog is not asked: without it
/// queries go on, and all nodes would be taken out of service together.
pub async fn ready(State(shared): State<Shared>) -> Result<Json<Value>, ApiError> {
    let refuse = |code, message: String| Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, code, message));
    match shared.readiness.phase() {
        Phase::Ready => {}
        Phase::Starting => return refuse("starting", "the server is starting".to_owned()),
        Phase::Stopping => return refuse("shutting_down", "the server is stopping".to_owned()),
    }
    if let Err(error) = shared.engine.check_open() {
        return refuse("shutting_down", error.message);
    }
    let catalog = shared.engine.catalog();
    let ready = |version: u64| Ok(Json(json!({"status": "ready", "catalog_version": version})));
    if catalog.is_shared() {
        return ready(catalog.snapshot().version.0);
    }
    match tokio::time::timeout(CATALOG_DEADLINE, catalog.refresh()).await {
        Ok(Ok(snapshot)) => ready(snapshot.version.0),
        Ok(Err(error)) => refuse("catalog_unavailable", format!("the catalog does not answer: {error}")),
        Err(_) => refuse(
            "catalog_unavailable",
            format!("the catalog did not answer within {} s", CATALOG_DEADLINE.as_secs()),
        ),
    }
}
