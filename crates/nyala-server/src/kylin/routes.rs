//! The routes from paths to handlers.

use std::sync::Arc;

use axum::Router;
use axum::routing::{MethodRouter, delete, get, post, put};

use super::error::not_found;
use super::names::LoweredStatements;
use super::{builds, cubes, definition, jobs, metadata, query, running, segments, switches};
use crate::http::Shared;

/// The route of queries. The door gives the handler, which lets clients in itself and calls [`query`](super::query()).
pub fn query_route(handler: MethodRouter<Shared>) -> Router<Shared> {
    Router::new().route("/kylin/api/query", handler.fallback(not_found))
}

/// All other routes, below `/kylin/api`.
pub fn routes(lowered: Arc<LoweredStatements>) -> Router<Shared> {
    let routes = tables().merge(queries(lowered)).merge(of_cubes()).merge(of_models()).merge(of_jobs());
    Router::new().nest("/kylin/api", routes.method_not_allowed_fallback(not_found).fallback(not_found))
}

fn tables() -> Router<Shared> {
    Router::new()
        .route("/user/authentication", get(metadata::user).post(metadata::user))
        .route("/projects", get(metadata::projects))
        .route("/tables_and_columns", get(metadata::tables_and_columns))
        .route("/query/tables_and_columns", get(metadata::tables_and_columns))
        .route("/tables", get(metadata::tables))
        .route("/tables/catalog_cache", put(metadata::list_files))
        .route("/cache/{entity}/{key}/{event}", put(metadata::list_files))
}

fn queries(lowered: Arc<LoweredStatements>) -> Router<Shared> {
    let prepare = move |state, caller, dialect, body| query::prepare(state, caller, dialect, body, lowered);
    Router::new()
        .route("/query/prestate", post(prepare))
        .route("/query/runningQueries", get(running::list))
        .route("/query/query_histories", get(running::histories))
        .route("/query/cache", delete(metadata::list_files))
        .route("/query/{id}/stop", put(running::stop))
        .route("/query/{id}", delete(running::stop))
}

/// Routes of cubes, as in Kylin up to version 4 and in Kyligence 3.
fn of_cubes() -> Router<Shared> {
    Router::new()
        .route("/cube_desc/{cube}", get(definition::cube_descs))
        .route("/cube_desc/{cube}/desc", get(definition::cube_desc))
        .route("/cube_desc/{project}/{cube}", get(definition::named_cube_desc))
        .route("/cubes", get(cubes::list))
        .route("/cubes/{cube}", get(cubes::one).delete(cubes::remove))
        .route("/cubes/{cube}/sql", get(definition::sql))
        .route("/cubes/{cube}/build", put(builds::build))
        .route("/cubes/{cube}/rebuild", put(builds::build))
        .route("/cubes/{cube}/enable", put(switches::enable))
        .route("/cubes/{cube}/disable", put(switches::disable))
        .route("/cubes/{cube}/purge", put(switches::purge))
        .route("/cubes/{cube}/clone", put(switches::clone_cube))
        .route("/cubes/{cube}/segs/{segment}", delete(switches::delete_segment))
}

/// Routes of models, as in Kylin 5. Older versions have the list, too.
fn of_models() -> Router<Shared> {
    Router::new()
        .route("/models", get(cubes::models))
        .route("/models/{model}", delete(cubes::remove))
        .route("/models/{model}/status", put(switches::status))
        .route("/models/{model}/indexes", get(definition::indexes))
        .route(
            "/models/{model}/segments",
            get(segments::list)
                .post(builds::build_segments)
                .put(builds::change_segments)
                .delete(switches::delete_segments),
        )
        .route("/models/{project}/{model}/model_desc", get(definition::model_desc))
}

fn of_jobs() -> Router<Shared> {
    Router::new()
        .route("/jobs", get(jobs::list))
        .route("/jobs/status", put(jobs::change))
        .route("/jobs/{job}", get(jobs::one))
        .route("/jobs/{job}/cancel", put(jobs::cancel))
}
