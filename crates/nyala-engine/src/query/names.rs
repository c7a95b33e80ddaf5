//! Names in statements: of schemas, tables, cubes and roles.

use datafusion::common::TableReference;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, ObjectNamePart};
use nyala_model::QualifiedName;
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::folded;

use crate::session::{DATABASE, Settings};

/// The schema of system tables.
pub const SYSTEM_SCHEMA: &str = "system";
/// Schemas that belong to the system.
pub const SYSTEM_SCHEMAS: [&str; 3] = ["information_schema", "pg_catalog", SYSTEM_SCHEMA];

/// The name of a schema, as planned by DataFusion.
pub fn schema_name(text: &str) -> Result<String> {
    let name = text.strip_prefix("nyala.").unwrap_or(text).to_owned();
    if name.contains('.') {
        return Err(QueryError::new(ErrorKind::InvalidText, format!("`{text}` is not the name of a schema"))
            .hint("write one name, in quotes if it has dots"));
    }
    check_not_system(&name)?;
    Ok(name)
}

fn check_not_system(schema: &str) -> Result<()> {
    if SYSTEM_SCHEMAS.contains(&schema) || schema.starts_with("pg_") {
        let message = format!("schema `{schema}` belongs to the system");
        return Err(QueryError::new(ErrorKind::InvalidDefinition, message).hint("choose another name"));
    }
    Ok(())
}

/// The name of a table in a plan or a request of a session with these settings.
pub fn table_in(name: &TableReference, settings: &Settings) -> Result<QualifiedName> {
    let parts: Vec<&str> = name.schema().into_iter().chain([name.table()]).collect();
    match settings.temporary().and_then(|temporary| temporary.find_parts(&parts)) {
        Some(table) => Ok(table),
        None => table_name(name, settings.schema()),
    }
}

fn table_name(name: &TableReference, default_schema: &str) -> Result<QualifiedName> {
    if name.catalog().is_some_and(|catalog| catalog != DATABASE) {
        return Err(other_database(&name.to_string()));
    }
    let schema = name.schema().unwrap_or(default_schema);
    check_not_system(schema)?;
    Ok(QualifiedName::new(schema, name.table()))
}

/// A name in a statement of a session with these settings.
pub fn name_in(name: &ObjectName, settings: &Settings) -> Result<QualifiedName> {
    match settings.temporary().and_then(|temporary| temporary.find(name)) {
        Some(table) => Ok(table),
        None => name_of(name, settings.schema()),
    }
}

/// `name`, `schema.name` or `nyala.schema.name`; bare names are of the session's schema.
pub fn name_of(name: &ObjectName, default_schema: &str) -> Result<QualifiedName> {
    let parts: Option<Vec<String>> = name.0.iter().map(identifier).collect();
    let parts = parts.unwrap_or_default();
    match parts.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [name] => Ok(QualifiedName::new(default_schema, name)),
        [schema, name] | [DATABASE, schema, name] => {
            check_not_system(schema)?;
            Ok(QualifiedName::new(schema, name))
        }
        _ => Err(other_database(&name.to_string())),
    }
}

fn identifier(part: &ObjectNamePart) -> Option<String> {
    let ident = part.as_ident()?;
    Some(folded(ident))
}

fn other_database(name: &str) -> QueryError {
    QueryError::new(ErrorKind::UndefinedObject, format!("`{name}` is not in database `{DATABASE}`"))
        .hint("there is one database; write `schema.name`")
}

/// The name of a role. Names without quotes are lower-case, as schema names are in the planner.
pub fn role_name(name: &Ident) -> String {
    folded(name)
}
