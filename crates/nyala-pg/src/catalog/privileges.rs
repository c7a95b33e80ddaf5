//! `has_table_privilege` and similar functions, answered from the grants of the catalog.
//!
//! The translation puts the session's role first where a call leaves it out.

use datafusion::common::Result;
use datafusion::prelude::SessionContext;
use nyala_model::QualifiedName;
use nyala_model::access::{Privilege, Securable, is_superuser, may, memberships};
use nyala_sql::error::{ErrorKind, QueryError};

use super::call::{Call, CatalogFunction, Current};
use super::cells::{Cell, Kind};
use super::database::Relation;
use super::functions::OWNER;
use super::object_names::{parts, relation, role_name};

type Body = fn(&Call<'_>) -> Result<Cell>;

/// Functions that ask for a privilege, with the number of their arguments when the role is among them.
pub const WITH_ROLE: &[(&str, usize)] = &[
    ("has_any_column_privilege", 3),
    ("has_column_privilege", 4),
    ("has_database_privilege", 3),
    ("has_foreign_data_wrapper_privilege", 3),
    ("has_function_privilege", 3),
    ("has_language_privilege", 3),
    ("has_schema_privilege", 3),
    ("has_sequence_privilege", 3),
    ("has_server_privilege", 3),
    ("has_table_privilege", 3),
    ("has_tablespace_privilege", 3),
    ("has_type_privilege", 3),
    ("pg_has_role", 3),
];

/// Adds the functions to a context.
pub fn register(context: &SessionContext, current: &Current) {
    for (name, count) in WITH_ROLE {
        let body: Body = match *name {
            "has_table_privilege" | "has_any_column_privilege" => on_table,
            "has_column_privilege" => on_column,
            "has_schema_privilege" => on_schema,
            "has_database_privilege" => on_database,
            "pg_has_role" => member,
            _ => |call| Ok(Cell::from(call.text(1).map(|_| true))),
        };
        context.register_udf(CatalogFunction::udf(name, &[count - 1, *count], Kind::Bool, body, current));
    }
}

/// The role in a call; none for the owner of the data.
fn role(call: &Call<'_>, at: usize) -> Result<Option<String>> {
    let name = match call.number(at) {
        Some(oid) => role_name(call, i32::try_from(oid).unwrap_or_default()),
        None => call.text(at).map(str::to_owned),
    };
    match name {
        Some(name) if name == OWNER => Ok(None),
        Some(name) if call.database.snapshot.roles.contains_key(&name) => Ok(Some(name)),
        name => {
            let name = name.or_else(|| call.text(at).map(str::to_owned)).unwrap_or_default();
            let message = format!("role `{name}` does not exist");
            Err(QueryError::new(ErrorKind::UndefinedObject, message)
                .hint("SHOW ROLES lists the roles")
                .into())
        }
    }
}

/// The position of the object, behind the role if there is one.
fn object_at(call: &Call<'_>, with_role: usize) -> usize {
    usize::from(call.count() == with_role)
}

fn on_table(call: &Call<'_>) -> Result<Cell> {
    of_relation(call, object_at(call, 3), 1)
}

fn on_column(call: &Call<'_>) -> Result<Cell> {
    of_relation(call, object_at(call, 4), 2)
}

fn of_relation(call: &Call<'_>, at: usize, behind: usize) -> Result<Cell> {
    let found = match call.number(at) {
        Some(oid) => call.database.facts().relation(i32::try_from(oid).unwrap_or_default()),
        None => {
            let Some(name) = call.text(at) else { return Ok(Cell::Null) };
            Some(relation(call, name).ok_or_else(|| {
                QueryError::new(ErrorKind::UndefinedTable, format!("relation `{name}` does not exist"))
            })?)
        }
    };
    let (Some(relation), Some(wanted)) = (found, call.text(at + behind)) else { return Ok(Cell::Null) };
    let role = if at == 0 { None } else { role(call, 0)? };
    any_of(wanted, |word| table_privilege(call, role.as_deref(), relation, word))
}

/// Whether any privilege of a list is held.
fn any_of(wanted: &str, held: impl Fn(&str) -> Option<bool>) -> Result<Cell> {
    let mut any = false;
    for word in wanted.split(',') {
        let word = word.trim().to_ascii_uppercase();
        let plain = word.strip_suffix(" WITH GRANT OPTION").unwrap_or(&word);
        let Some(is_held) = held(plain) else {
            let message = format!("unrecognized privilege type: `{}`", word.to_lowercase());
            return Err(QueryError::new(ErrorKind::InvalidParameter, message).into());
        };
        any |= is_held;
    }
    Ok(Cell::Bool(any))
}

fn table_privilege(call: &Call<'_>, role: Option<&str>, relation: &Relation, word: &str) -> Option<bool> {
    let wanted = match word {
        "SELECT" => Some(Privilege::Select),
        "INSERT" => Some(Privilege::Insert),
        "UPDATE" => Some(Privilege::Update),
        "DELETE" | "TRUNCATE" => Some(Privilege::Delete),
        "REFERENCES" | "TRIGGER" => None,
        _ => return None,
    };
    let roles = &call.database.snapshot.roles;
    Some(match (role, wanted) {
        (None, _) => true,
        (Some(_), Some(Privilege::Select)) if !relation.is_users() => true,
        (Some(role), Some(privilege)) => {
            let name = QualifiedName::new(&relation.schema, &relation.name);
            may(roles, role, privilege, &Securable::Object(name))
        }
        (Some(role), None) => is_superuser(roles, role),
    })
}

fn on_schema(call: &Call<'_>) -> Result<Cell> {
    let at = object_at(call, 3);
    let schemas = &call.database.facts().schemas;
    let found = match (call.number(at), call.text(at)) {
        (Some(oid), _) => schemas.iter().find(|(schema, _)| i64::from(*schema) == oid),
        (None, Some(name)) => {
            let wanted = parts(name).pop().unwrap_or_default();
            let found = schemas.iter().find(|(_, schema)| *schema == wanted);
            Some(found.ok_or_else(|| {
                QueryError::new(ErrorKind::UndefinedObject, format!("schema `{name}` does not exist"))
            })?)
        }
        _ => None,
    };
    let (Some((_, schema)), Some(wanted)) = (found, call.text(at + 1)) else { return Ok(Cell::Null) };
    let role = if at == 0 { None } else { role(call, 0)? };
    any_of(wanted, |word| match (word, &role) {
        ("USAGE", _) | ("CREATE", None) => Some(true),
        ("CREATE", Some(role)) => {
            let on = Securable::Schema(schema.clone());
            Some(may(&call.database.snapshot.roles, role, Privilege::Create, &on))
        }
        _ => None,
    })
}

fn on_database(call: &Call<'_>) -> Result<Cell> {
    let at = object_at(call, 3);
    let Some(wanted) = call.text(at + 1) else { return Ok(Cell::Null) };
    let role = if at == 0 { None } else { role(call, 0)? };
    any_of(wanted, |word| match (word, &role) {
        ("CONNECT" | "TEMPORARY" | "TEMP", _) | ("CREATE", None) => Some(true),
        ("CREATE", Some(role)) => Some(is_superuser(&call.database.snapshot.roles, role)),
        _ => None,
    })
}

/// Whether a role is a member of another role, or is that role.
fn member(call: &Call<'_>) -> Result<Cell> {
    let at = object_at(call, 3);
    if call.text(at).is_none() {
        return Ok(Cell::Null);
    }
    let (own, group) = (if at == 0 { None } else { role(call, 0)? }, role(call, at)?);
    let roles = &call.database.snapshot.roles;
    Ok(Cell::Bool(match (own, group) {
        (None, _) => true,
        (Some(own), None) => is_superuser(roles, &own),
        (Some(own), Some(group)) => {
            is_superuser(roles, &own) || memberships(roles, &own).iter().any(|role| role.name == group)
        }
    }))
}
