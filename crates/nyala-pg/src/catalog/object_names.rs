//! Objects by their names and names by their numbers: what PostgreSQL's types `regclass`, `regtype` and the like do.
//!
//! The translation writes casts to these types as calls of these functions.

use datafusion::common::Result;
use datafusion::prelude::SessionContext;
use nyala_sql::error::{ErrorKind, QueryError};

use super::call::{Call, CatalogFunction, Current};
use super::cells::{Cell, Kind};
use super::database::Relation;
use super::relations::quoted;
use super::static_names::type_name;
use super::{functions::OWNER, oids};

/// Computes the value of a function for one row.
type Body = fn(&Call<'_>) -> Result<Cell>;

/// Adds the functions to a context.
pub fn register(context: &SessionContext, current: &Current) {
    let numbers: [(&'static str, Body); 10] = [
        ("nyala_regclass", |call| required(call, class_oid, "relation", ErrorKind::UndefinedTable)),
        ("nyala_regnamespace", |call| required(call, schema_oid, "schema", ErrorKind::UndefinedObject)),
        ("nyala_regproc", |call| required(call, function_oid, "function", ErrorKind::UndefinedObject)),
        ("nyala_regrole", |call| required(call, role_oid, "role", ErrorKind::UndefinedObject)),
        ("nyala_regtype", |call| required(call, type_oid, "type", ErrorKind::UndefinedObject)),
        ("to_regclass", |call| Ok(Cell::from(call.text(0).and_then(|name| class_oid(call, name))))),
        ("to_regnamespace", |call| Ok(Cell::from(call.text(0).and_then(|name| schema_oid(call, name))))),
        ("to_regproc", |call| Ok(Cell::from(call.text(0).and_then(|name| function_oid(call, name))))),
        ("to_regrole", |call| Ok(Cell::from(call.text(0).and_then(|name| role_oid(call, name))))),
        ("to_regtype", |call| Ok(Cell::from(call.text(0).and_then(|name| type_oid(call, name))))),
    ];
    for (name, body) in numbers {
        context.register_udf(CatalogFunction::udf(name, &[1], Kind::Oid, body, current));
    }
    let names: [(&'static str, Body); 5] = [
        ("nyala_regclass_name", |call| Ok(named(call, class_name))),
        ("nyala_regnamespace_name", |call| Ok(named(call, schema_name))),
        ("nyala_regproc_name", |call| Ok(named(call, function_name))),
        ("nyala_regrole_name", |call| Ok(named(call, role_name))),
        ("nyala_regtype_name", |call| Ok(named(call, |_, oid| Some(type_name(oid))))),
    ];
    for (name, body) in names {
        context.register_udf(CatalogFunction::udf(name, &[1], Kind::Text, body, current));
    }
    let lists = CatalogFunction::udf("nyala_regtype_names", &[1], Kind::TextList, type_names, current);
    context.register_udf(lists);
}

/// The names of a list of types, which are given by their numbers or names.
fn type_names(call: &Call<'_>) -> Result<Cell> {
    let Some(list) = call.text(0) else { return Ok(Cell::Null) };
    let written = list.trim_matches(['[', ']', '{', '}']).split([',', ' ']).filter(|name| !name.is_empty());
    let names = written.map(|name| name.parse().map_or_else(|_| name.to_owned(), type_name));
    Ok(Cell::Texts(names.collect()))
}

/// The OID of the object with a name; a number is taken as an OID.
///
/// # Errors
/// No object has that name.
fn required(
    call: &Call<'_>,
    find: fn(&Call<'_>, &str) -> Option<i32>,
    what: &str,
    missing: ErrorKind,
) -> Result<Cell> {
    if let Some(oid) = call.number(0) {
        return Ok(Cell::Int(oid));
    }
    let Some(name) = call.text(0) else { return Ok(Cell::Null) };
    if name == "-" {
        return Ok(Cell::Int(0));
    }
    match find(call, name) {
        Some(oid) => Ok(Cell::from(oid)),
        None => Err(QueryError::new(missing, format!("{what} `{name}` does not exist")).into()),
    }
}

fn named(call: &Call<'_>, name: fn(&Call<'_>, i32) -> Option<String>) -> Cell {
    match call.oid(0) {
        Some(0) => Cell::from("-"),
        Some(oid) => Cell::from(name(call, oid).unwrap_or_else(|| oid.to_string())),
        None => Cell::from(call.text(0).map(str::to_owned)),
    }
}

/// The parts of a written name: without quotes in lower case.
pub fn parts(name: &str) -> Vec<String> {
    let (mut parts, mut part, mut in_quotes, mut was_quoted) = (Vec::new(), String::new(), false, false);
    let mut letters = name.trim().chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if in_quotes && letters.peek() == Some(&'"') => {
                letters.next();
                part.push('"');
            }
            '"' => (in_quotes, was_quoted) = (!in_quotes, true),
            '.' if !in_quotes => {
                parts.push(std::mem::take(&mut part));
                was_quoted = false;
            }
            // Blanks may stand around each name.
            blank if !in_quotes && blank.is_whitespace() => {}
            letter if in_quotes || was_quoted => part.push(letter),
            letter => part.extend(letter.to_lowercase()),
        }
    }
    parts.push(part);
    parts
}

/// The relation that a written name means.
pub fn relation<'a>(call: &'a Call<'_>, name: &str) -> Option<&'a Relation> {
    let facts = call.database.facts();
    match parts(name).iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [name] => facts.visible(name, &[call.schema]),
        [schema, name] | [_, schema, name] => facts.named(schema, name),
        _ => None,
    }
}

fn class_oid(call: &Call<'_>, name: &str) -> Option<i32> {
    if let Some(relation) = relation(call, name) {
        return Some(relation.oid);
    }
    let parts = parts(name);
    let (index, schema) = (parts.last()?, parts.len().checked_sub(2).and_then(|at| parts.get(at)));
    let schema = schema.map_or(call.schema, String::as_str);
    let mut tables = call.database.facts().with_key();
    tables.find(|table| table.schema == schema && table.key_name() == *index).map(|table| table.index_oid)
}

fn class_name(call: &Call<'_>, oid: i32) -> Option<String> {
    let facts = call.database.facts();
    if let Some(relation) = facts.relation(oid) {
        return Some(shown(call, relation, &relation.name));
    }
    let table = facts.with_key().find(|table| table.index_oid == oid)?;
    Some(shown(call, table, &table.key_name()))
}

/// A name with its schema, unless the search path finds it without.
fn shown(call: &Call<'_>, relation: &Relation, name: &str) -> String {
    match relation.schema == call.schema || relation.schema == "pg_catalog" {
        true => quoted(name),
        false => format!("{}.{}", quoted(&relation.schema), quoted(name)),
    }
}

fn schema_oid(call: &Call<'_>, name: &str) -> Option<i32> {
    let name = parts(name).pop()?;
    call.database.facts().schemas.iter().find(|(_, schema)| *schema == name).map(|(oid, _)| *oid)
}

fn schema_name(call: &Call<'_>, oid: i32) -> Option<String> {
    let mut schemas = call.database.facts().schemas.iter();
    schemas.find(|(schema, _)| *schema == oid).map(|(_, name)| quoted(name))
}

fn function_oid(call: &Call<'_>, name: &str) -> Option<i32> {
    call.names.function_oid(name)
}

fn function_name(call: &Call<'_>, oid: i32) -> Option<String> {
    call.names.function_name(oid).map(str::to_owned)
}

fn type_oid(call: &Call<'_>, name: &str) -> Option<i32> {
    call.names.type_oid(name)
}

fn role_oid(call: &Call<'_>, name: &str) -> Option<i32> {
    let name = parts(name).pop()?;
    match name.as_str() {
        OWNER => Some(oids::OWNER),
        name => call.database.snapshot.roles.get(name).map(|role| oids::role(&role.name)),
    }
}

/// The name of a role.
pub fn role_name(call: &Call<'_>, oid: i32) -> Option<String> {
    match oid {
        oids::OWNER => Some(OWNER.to_owned()),
        oid => call.database.snapshot.roles.keys().find(|name| oids::role(name) == oid).cloned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        let check = |name, expected: &[&str]| assert_eq!(parts(name), expected);
        check("Orders", &["orders"]);
        check("shop.\"Big Orders\"", &["shop", "Big Orders"]);
        check("\"a\"\"b\".c", &["a\"b", "c"]);
        check(" shop . \"Big Orders\" ", &["shop", "Big Orders"]);
    }
}
