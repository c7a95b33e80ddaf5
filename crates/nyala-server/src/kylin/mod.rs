//! Kylin's REST API, for programs that were made for Kylin: its JDBC and ODBC drivers, kylinpy, and scripts that watch cubes and jobs.
//!
//! ```text
//! request ─▶ Dialect (by Accept) ─▶ session whose search path is the project ─▶ SQL of Calcite made ours ─▶ engine
//!                            rows ─▶ texts of cells, in one JSON document ◀────────────────────────────────────┘
//! ```
//!
//! The dialects are those of Kylin up to version 4, of Kyligence 3, and of Kylin 5. A project is a schema; the project `nyala` is all of them.
//! Builds are statements that go on when the request has been answered.

mod answer;
mod builds;
mod cells;
mod cubes;
mod definition;
mod description;
mod error;
mod jobs;
mod measure;
mod metadata;
mod named_cube;
mod names;
mod odbc;
mod parameters;
mod query;
mod query_answer;
mod query_request;
mod request;
mod routes;
mod running;
mod segments;
mod session;
mod switches;
mod tokens;
mod translate;

pub use error::{in_kylins_form, not_found};
pub use names::LoweredStatements;
pub use query::query;
pub use routes::{query_route, routes};
