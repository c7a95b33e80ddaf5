//! The routes from paths to handlers.

use std::sync::Arc;

use axum::extract::{ConnectInfo, DefaultBodyLimit, Request, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::middleware::{from_fn, from_fn_with_state, map_response};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use super::{changes, compress, console, front, health, jobs, openapi, profiles, queries, query, rows};
use crate::http::{ApiError, Peer, Shared, login, origin};
use crate::kylin::LoweredStatements;

/// All routes of the HTTP door.
pub fn router(shared: Shared) -> Router {
    let api = Router::new()
        .route("/api/v1/", get(index))
        .route("/api/v1", get(index))
        .route("/api/v1/queries", get(queries::list))
        .route("/api/v1/queries/{id}", get(queries::one).delete(queries::kill))
        .route("/api/v1/tables/{table}/rows", post(rows::load))
        .route("/api/v1/tables/{table}/changes", get(changes::follow))
        .route("/api/v1/jobs", get(jobs::list))
        .route("/api/v1/jobs/{id}", get(jobs::one).delete(jobs::cancel))
        .route_layer(from_fn_with_state(shared.clone(), front::with_login));
    // Without layers: see `front`.
    let queries = Router::new().route("/api/v1/query", get(query::linked).post(query::posted));
    // A request for a token shows its password to the handler, and the document is public.
    let public = Router::new()
        .route("/api/v1/token", post(login::token))
        .route("/api/v1/openapi.json", get(openapi::document).layer(from_fn(compress::compress)))
        .route_layer(from_fn_with_state(shared.clone(), front::without_login));
    let metrics = Router::new()
        .route("/metrics", get(render_metrics))
        .route("/debug/tasks", get(queries::tasks))
        .route_layer(from_fn_with_state(shared.clone(), login::require))
        .route_layer(from_fn_with_state(shared.clone(), origin::refuse_foreign));
    let profiles = Router::new()
        .route("/debug/flamegraph", get(profiles::flamegraph))
        .route("/debug/heap", get(profiles::memory))
        .route_layer(from_fn_with_state(shared.clone(), login::require))
        .route_layer(from_fn_with_state(shared.clone(), origin::refuse_foreign));
    Router::new()
        .merge(queries)
        .merge(api)
        .merge(public)
        .merge(kylin(&shared))
        .route("/healthz", get(health::live))
        .route("/readyz", get(health::ready))
        .merge(metrics)
        .merge(profiles)
        .merge(console::routes())
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(DefaultBodyLimit::max(shared.max_body_bytes))
        .with_state(shared)
}

/// Kylin's API alone.
pub fn kylin_router(shared: Shared) -> Router {
    kylin(&shared)
        .fallback(crate::kylin::not_found)
        .layer(DefaultBodyLimit::max(shared.max_body_bytes))
        .with_state(shared)
}

fn kylin(shared: &Shared) -> Router<Shared> {
    let lowered = Arc::<LoweredStatements>::default();
    let query = {
        let lowered = Arc::clone(&lowered);
        move |state, peer, request| kylin_query(state, peer, request, lowered)
    };
    crate::kylin::routes(lowered)
        .route_layer(from_fn_with_state(shared.clone(), front::with_login))
        .route_layer(map_response(crate::kylin::in_kylins_form))
        .merge(crate::kylin::query_route(post(query)))
}

async fn kylin_query(
    State(shared): State<Shared>,
    ConnectInfo(Peer(peer)): ConnectInfo<Peer>,
    request: Request,
    lowered: Arc<LoweredStatements>,
) -> Response {
    let handler = |request| crate::kylin::query(&shared, &lowered, request);
    let answer = front::answered(&shared, peer, request, handler).await;
    crate::kylin::in_kylins_form(answer).await
}

async fn index() -> Json<Value> {
    Json(json!({
        "name": "nyala",
        "version": env!("CARGO_PKG_VERSION"),
        "endpoints": {
            "query": "POST /api/v1/query",
            "link": "GET /api/v1/query?sql=",
            "queries": "GET /api/v1/queries",
            "one query": "GET /api/v1/queries/{id}",
            "kill": "DELETE /api/v1/queries/{id}",
            "load rows": "POST /api/v1/tables/{table}/rows",
            "follow changes": "GET /api/v1/tables/{table}/changes",
            "jobs": "GET /api/v1/jobs",
            "job": "GET /api/v1/jobs/{id}",
            "cancel job": "DELETE /api/v1/jobs/{id}",
            "token": "POST /api/v1/token",
            "OpenAPI": "GET /api/v1/openapi.json",
            "health": "GET /healthz",
            "readiness": "GET /readyz",
            "metrics": "GET /metrics",
            "tasks": "GET /debug/tasks",
            "CPU profile": "GET /debug/flamegraph",
            "heap profile": "GET /debug/heap",
        },
    }))
}

async fn render_metrics(State(shared): State<Shared>) -> ([(HeaderName, &'static str); 1], String) {
    let content_type = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, content_type)], shared.metrics.render(&shared.engine))
}

async fn not_found(request: Request) -> ApiError {
    let message = format!("there is nothing at `{}`", request.uri().path());
    ApiError::new(StatusCode::NOT_FOUND, "not_found", message).hint("`GET /api/v1/` lists what there is")
}

async fn method_not_allowed(request: Request) -> ApiError {
    let message = format!("`{}` does not answer to {}", request.uri().path(), request.method());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
        .hint("`GET /api/v1/` lists the methods")
}
