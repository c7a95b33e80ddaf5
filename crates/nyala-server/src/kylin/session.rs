//! Sessions of requests.

use std::sync::Arc;

use nyala_engine::{QueryError, Session, SessionOptions};
use nyala_model::QualifiedName;

use crate::http::Shared;
use crate::small_queries::quoted;
pub use crate::small_queries::{literal, rows};

/// The project that is all schemas.
pub const ALL: &str = "nyala";

/// A session in which names without a schema are of the project.
pub fn session_in(
    shared: &Shared,
    options: SessionOptions,
    project: Option<&str>,
) -> Result<Arc<Session>, QueryError> {
    let session = shared.engine.session(SessionOptions { dialect: "kylin", ..options });
    if let Some(schema) = schema_of(project) {
        session.set("search_path", schema)?;
    }
    Ok(session)
}

/// The schema of a project; none if it is all of them.
pub fn schema_of(project: Option<&str>) -> Option<&str> {
    project.map(str::trim).filter(|project| !project.is_empty() && !project.eq_ignore_ascii_case(ALL))
}

/// A name in a statement.
pub fn sql_name(name: &QualifiedName) -> String {
    format!("{}.{}", quoted(&name.schema), quoted(&name.name))
}
