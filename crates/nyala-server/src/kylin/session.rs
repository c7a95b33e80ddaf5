//! Sessions of requests.

use std::sync::Arc;

use nyala_engine::{QueryError, Session, SessionOptions, schema_in_path};
use nyala_model::QualifiedName;

use crate::http::Shared;
use crate::small_queries::quoted;
pub use crate::small_queries::{literal, rows};

/// The project that stands for all schemas.
pub const ALL: &str = "nyala";

/// A session in which names without a schema are of the project.
pub fn session_in(
    shared: &Shared,
    options: SessionOptions,
    project: Option<&str>,
) -> Result<Arc<Session>, QueryError> {
    let session = shared.engine.session(SessionOptions { dialect: "kylin", ..options });
    if let Some(schema) = schema_of(shared, project) {
        session.set("search_path", &schema_in_path(&schema))?;
    }
    Ok(session)
}

/// The schema of a project; none if it stands for all schemas. Programs that were made for Kylin write projects in capitals: such a name is a
/// schema in lower case, unless there is one as it is written.
pub fn schema_of(shared: &Shared, project: Option<&str>) -> Option<String> {
    let project = project.map(str::trim).filter(|project| !project.is_empty())?;
    if project.eq_ignore_ascii_case(ALL) {
        return None;
    }
    let snapshot = shared.engine.catalog().snapshot();
    if snapshot.schemas.contains(project) {
        return Some(project.to_owned());
    }
    let lower = project.to_lowercase();
    Some(if snapshot.schemas.contains(&lower) { lower } else { project.to_owned() })
}

/// A name in a statement.
pub fn sql_name(name: &QualifiedName) -> String {
    format!("{}.{}", quoted(&name.schema), quoted(&name.name))
}
