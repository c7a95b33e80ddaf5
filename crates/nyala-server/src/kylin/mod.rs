//! Kylin's REST API, for programs that were made for Kylin: its JDBC and ODBC drivers, kylinpy, and scripts that watch cubes and jobs.
//!
//! ```text
//! request ─▶ Dialect (Kylin ≤ 4 or 5, by Accept) ─▶ session whose search path is the project ─▶ SQL of Calcite made ours ─▶ engine
//!                                                         rows ─▶ texts of cells, in one JSON document ◀───────────────────┘
//! ```
//!
//! A project is a schema; the project `nyala` is all of them. Builds are statements that go on when the request has been answered.

mod answer;
mod cells;
mod cubes;
mod error;
mod jobs;
mod metadata;
mod query;
mod running;
mod session;
mod translate;

use axum::Router;
use axum::routing::{delete, get, post, put};

use self::error::not_found;
use crate::http::Shared;

/// All routes, below `/kylin/api`.
pub fn routes() -> Router<Shared> {
    let routes = Router::new()
        .route("/user/authentication", get(metadata::user).post(metadata::user))
        .route("/projects", get(metadata::projects))
        .route("/tables_and_columns", get(metadata::tables_and_columns))
        .route("/query/tables_and_columns", get(metadata::tables_and_columns))
        .route("/tables", get(metadata::tables))
        .route("/tables/catalog_cache", put(metadata::list_files))
        .route("/cache/{entity}/{key}/{event}", put(metadata::list_files))
        .route("/query", post(query::query))
        .route("/query/prestate", post(query::prepare))
        .route("/query/runningQueries", get(running::list))
        .route("/query/query_histories", get(running::histories))
        .route("/query/cache", delete(metadata::list_files))
        .route("/query/{id}/stop", put(running::stop))
        .route("/query/{id}", delete(running::stop))
        .route("/cubes", get(cubes::list))
        .route("/cubes/{cube}", get(cubes::one).delete(cubes::remove))
        .route("/cubes/{cube}/build", put(cubes::build))
        .route("/cubes/{cube}/rebuild", put(cubes::build))
        .route("/models", get(cubes::models))
        .route("/models/{model}", delete(cubes::remove))
        .route(
            "/models/{model}/segments",
            get(cubes::segments).post(cubes::build_segments).put(cubes::change_segments),
        )
        .route("/jobs", get(jobs::list))
        .route("/jobs/status", put(jobs::change))
        .route("/jobs/{job}", get(jobs::one))
        .route("/jobs/{job}/cancel", put(jobs::cancel))
        .fallback(not_found);
    Router::new().nest("/kylin/api", routes)
}
