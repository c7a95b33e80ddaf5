//! Sessions of requests, and small queries about the server itself.

use std::sync::Arc;

use arrow::util::display::{ArrayFormatter, FormatOptions};
use nyala_engine::{Answer, QueryError, Session, SessionOptions};

use crate::http::Shared;

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

/// The rows of a query, as texts.
pub async fn rows(session: &Session, sql: &str) -> Result<Vec<Vec<Option<String>>>, QueryError> {
    let Answer::Rows(rows) = session.query(sql).await? else { return Ok(Vec::new()) };
    let mut texts = Vec::new();
    for batch in rows.collect().await? {
        let options = FormatOptions::default();
        let columns: Vec<ArrayFormatter<'_>> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options))
            .collect::<Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            let cell = |(at, column): (usize, &ArrayFormatter<'_>)| {
                let is_null = batch.columns().get(at).is_none_or(|column| column.is_null(row));
                (!is_null).then(|| column.value(row).to_string())
            };
            texts.push(columns.iter().enumerate().map(cell).collect());
        }
    }
    Ok(texts)
}

/// A text as a literal of SQL.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The name of a cube: `cube`, `schema.cube`, or of the project's schema.
pub fn cube_name(name: &str, project: Option<&str>) -> String {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    match (name.split_once('.'), schema_of(project)) {
        (Some((schema, cube)), _) => format!("{}.{}", quoted(schema), quoted(cube)),
        (None, Some(schema)) => format!("{}.{}", quoted(schema), quoted(name)),
        (None, None) => quoted(name),
    }
}
