//! The statement of a cube: read again when the cube is altered, and shown to make the cube elsewhere.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, ObjectNamePart, Query, Statement as SqlStatement, visit_relations, visit_relations_mut,
};
use nyala_model::CubeEntry;
use nyala_sql::error::{QueryError, Result};
use nyala_sql::statement::{CreateCube, Kind, Nyala, StatementLimits, parse};

use super::shape::quoted;

/// The `CREATE CUBE` that makes the cube as it is now, with schemas for all names, so that it means the same in every session.
///
/// # Errors
/// Internal, if the catalog's text is no such statement.
pub fn create_statement(entry: &CubeEntry, limits: &StatementLimits) -> Result<String> {
    let mut create = create_of(entry, limits)?;
    create.name = ObjectName::from(Vec::from([&entry.name.schema, &entry.name.name].map(|part| plain(part))));
    // The statement has the tables as they were written. The definition has them with their schemas, in the same order.
    let mut tables = Vec::new();
    let _ = visit_relations(&query_of(&entry.definition.select, limits)?, |table| {
        tables.push(table.clone());
        ControlFlow::<()>::Continue(())
    });
    let mut tables = tables.into_iter();
    let named = visit_relations_mut(&mut create.query, |name| match tables.next() {
        Some(table) if last(&table) == last(name) => {
            *name = in_plain_words(&table);
            ControlFlow::Continue(())
        }
        _ => ControlFlow::Break(()),
    });
    match (named, tables.next()) {
        (ControlFlow::Continue(()), None) => Ok(create.to_string()),
        _ => Err(QueryError::internal("the statement of a cube has other tables than its definition")),
    }
}

/// The recorded statement of a cube.
pub(super) fn create_of(entry: &CubeEntry, limits: &StatementLimits) -> Result<CreateCube> {
    let parsed = parse(&entry.statement, limits)?.pop().map(|statement| statement.kind);
    match parsed {
        Some(Kind::Nyala(Nyala::CreateCube(create))) => Ok(CreateCube { if_not_exists: false, ..*create }),
        _ => Err(QueryError::internal("the statement of a cube is not CREATE CUBE")),
    }
}

/// The SELECT of a definition.
pub(super) fn query_of(select: &str, limits: &StatementLimits) -> Result<Query> {
    let statement = parse(select, limits)?.pop();
    match statement.as_ref().and_then(|statement| statement.ast()) {
        Some(SqlStatement::Query(query)) => Ok(query.as_ref().clone()),
        _ => Err(QueryError::internal("the SELECT of a cube is not a query")),
    }
}

fn last(name: &ObjectName) -> Option<&str> {
    name.0.last().and_then(ObjectNamePart::as_ident).map(|part| part.value.as_str())
}

/// The name without quotes that it does not need.
fn in_plain_words(name: &ObjectName) -> ObjectName {
    let parts = name.0.iter().filter_map(ObjectNamePart::as_ident).map(|part| match part.quote_style {
        Some(_) => plain(&part.value),
        None => part.clone(),
    });
    ObjectName::from(parts.collect::<Vec<_>>())
}

fn plain(name: &str) -> Ident {
    if quoted(name) == name { Ident::new(name) } else { Ident::with_quote('"', name) }
}
