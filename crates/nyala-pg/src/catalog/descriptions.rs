//! Functions that describe objects: `format_type`, `pg_get_constraintdef`, `pg_table_is_visible` and the like.

use datafusion::common::Result;
use datafusion::prelude::SessionContext;

use super::call::{Call, CatalogFunction, Current};
use super::cells::{Cell, Kind};
use super::column_types::format_type;
use super::object_names::{relation, role_name};
use super::relations::{constraint_definition, index_definition, owner_of_part, quoted};

type Body = fn(&Call<'_>) -> Result<Cell>;

/// Adds the functions to a context.
pub fn register(context: &SessionContext, current: &Current) {
    let functions: [(&'static str, &[usize], Kind, Body); 8] = [
        ("current_schemas", &[1], Kind::TextList, search_path),
        ("format_type", &[2], Kind::Text, type_text),
        ("pg_get_constraintdef", &[1, 2], Kind::Text, constraint),
        ("pg_get_expr", &[2, 3], Kind::Text, |call| Ok(Cell::from(call.text(0).map(str::to_owned)))),
        ("pg_get_indexdef", &[1, 3], Kind::Text, index),
        ("pg_get_userbyid", &[1], Kind::Text, user),
        ("pg_get_viewdef", &[1, 2], Kind::Text, view),
        ("pg_table_is_visible", &[1], Kind::Bool, is_visible),
    ];
    for (name, counts, returns, body) in functions {
        context.register_udf(CatalogFunction::udf(name, counts, returns, body, current));
    }
}

/// The search path, with the schemas that are searched without being named.
fn search_path(call: &Call<'_>) -> Result<Cell> {
    let own = call.schema.to_owned();
    Ok(Cell::Texts(match call.text(0) {
        Some("true") => vec!["pg_catalog".to_owned(), own],
        _ => vec![own],
    }))
}

fn type_text(call: &Call<'_>) -> Result<Cell> {
    let Some(oid) = call.number(0) else { return Ok(Cell::Null) };
    let modifier = call.number(1).and_then(|modifier| i32::try_from(modifier).ok()).unwrap_or(-1);
    Ok(Cell::from(format_type(u32::try_from(oid).unwrap_or_default(), modifier)))
}

fn constraint(call: &Call<'_>) -> Result<Cell> {
    let table = call.oid(0).and_then(|oid| owner_of_part(call.database, oid));
    Ok(Cell::from(table.map(constraint_definition)))
}

/// The whole statement, or the name of one column of the index.
fn index(call: &Call<'_>) -> Result<Cell> {
    let table = call.oid(0).and_then(|oid| owner_of_part(call.database, oid));
    let column = call.number(1).filter(|column| *column > 0);
    Ok(Cell::from(table.and_then(|table| match column {
        Some(column) => {
            let at = usize::try_from(column).ok()?.checked_sub(1)?;
            table.key_columns().nth(at).map(|column| quoted(&column.name))
        }
        None => Some(index_definition(table)),
    })))
}

fn user(call: &Call<'_>) -> Result<Cell> {
    let Some(oid) = call.oid(0) else { return Ok(Cell::Null) };
    Ok(Cell::from(role_name(call, oid).unwrap_or_else(|| format!("unknown (OID={oid})"))))
}

fn view(call: &Call<'_>) -> Result<Cell> {
    let found = match call.oid(0) {
        Some(oid) => call.database.facts().relation(oid),
        None => call.text(0).and_then(|name| relation(call, name)),
    };
    Ok(Cell::from(found.and_then(|view| view.query.as_ref()).map(|query| format!(" {query};"))))
}

/// Whether the search path finds the relation by its name alone.
fn is_visible(call: &Call<'_>) -> Result<Cell> {
    let Some(oid) = call.oid(0) else { return Ok(Cell::Null) };
    let facts = call.database.facts();
    let found = facts.relation(oid).or_else(|| owner_of_part(call.database, oid));
    Ok(Cell::from(found.map(|relation| match relation.is_users() {
        true => relation.schema == call.schema,
        false => {
            facts.visible(&relation.name, &[call.schema]).is_some_and(|visible| visible.oid == relation.oid)
        }
    })))
}
