//! Rules for changes of roles and grants: a part of [`rules`](crate::rules).

use std::collections::BTreeSet;
use std::sync::Arc;

use nyala_model::access::{Grant, RoleEntry, Securable, memberships};
use nyala_model::suggest::nearest;
use nyala_model::{CatalogSnapshot, QualifiedName};

use crate::change::{Granted, RoleChange};
use crate::edit::Edit;
use crate::error::CatalogError;

type Edits = Result<Vec<Edit>, CatalogError>;

pub fn create(base: &CatalogSnapshot, role: &RoleEntry, if_not_exists: bool) -> Edits {
    match (base.roles.contains_key(&role.name), if_not_exists) {
        (false, _) => Ok(vec![Edit::PutRole(Arc::new(role.clone()))]),
        (true, true) => Ok(Vec::new()),
        (true, false) => Err(CatalogError::AlreadyExists { what: "role", name: role.name.clone() }),
    }
}

pub fn alter(base: &CatalogSnapshot, name: &str, change: &RoleChange) -> Edits {
    let role = find(base, name)?;
    let mut next = role.as_ref().clone();
    next.login = change.login.unwrap_or(next.login);
    next.superuser = change.superuser.unwrap_or(next.superuser);
    if let Some(password) = &change.password {
        next.password.clone_from(password);
    }
    Ok(put_if_changed(role, next))
}

/// Also ends the membership of its members.
pub fn drop(base: &CatalogSnapshot, name: &str, if_exists: bool) -> Edits {
    match find(base, name) {
        Ok(_) => {}
        Err(_) if if_exists => return Ok(Vec::new()),
        Err(error) => return Err(error),
    }
    let members = base.roles.values().filter(|role| role.member_of.contains(name)).map(|role| {
        let mut next = role.as_ref().clone();
        next.member_of.remove(name);
        Edit::PutRole(Arc::new(next))
    });
    Ok(members.chain([Edit::RemoveRole(name.to_owned())]).collect())
}

pub fn grant(base: &CatalogSnapshot, what: &Granted, to: &BTreeSet<String>) -> Edits {
    check_exists(base, what)?;
    let mut edits = Vec::new();
    for name in to {
        let role = find(base, name)?;
        let mut next = role.as_ref().clone();
        match what {
            Granted::Privileges(grants) => next.grants.extend(grants.iter().cloned()),
            Granted::Membership(groups) => {
                check_no_circle(base, name, groups)?;
                next.member_of.extend(groups.iter().cloned());
            }
        }
        edits.extend(put_if_changed(role, next));
    }
    Ok(edits)
}

/// Revoking a missing grant is no error, as in PostgreSQL: the result is the same.
pub fn revoke(base: &CatalogSnapshot, what: &Granted, from: &BTreeSet<String>) -> Edits {
    check_exists(base, what)?;
    let mut edits = Vec::new();
    for name in from {
        let role = find(base, name)?;
        let mut next = role.as_ref().clone();
        match what {
            Granted::Privileges(grants) => next.grants.retain(|grant| !grants.contains(grant)),
            Granted::Membership(groups) => next.member_of.retain(|group| !groups.contains(group)),
        }
        edits.extend(put_if_changed(role, next));
    }
    Ok(edits)
}

/// Removes grants on objects that `edits` remove: a new object of the same name must not inherit them. Those on an object
/// that gets another name go with it.
pub fn follow(base: &CatalogSnapshot, edits: &[Edit]) -> Vec<Edit> {
    let gone: Vec<Securable> = edits.iter().filter_map(removed).collect();
    let renamed: Vec<(Securable, Securable)> = edits.iter().filter_map(renamed).collect();
    if gone.is_empty() && renamed.is_empty() {
        return Vec::new();
    }
    let now = |mut grant: Grant| {
        if let Some((_, to)) = renamed.iter().find(|(before, _)| *before == grant.on) {
            grant.on = to.clone();
        }
        grant
    };
    let next = base.roles.values().flat_map(|role| {
        let mut next = role.as_ref().clone();
        next.grants.retain(|grant| !gone.contains(&grant.on));
        next.grants = next.grants.into_iter().map(now).collect();
        put_if_changed(role, next)
    });
    next.collect()
}

fn renamed(edit: &Edit) -> Option<(Securable, Securable)> {
    match edit {
        Edit::RenameTable(before, table) => {
            Some((Securable::Object(before.clone()), Securable::Object(table.name.clone())))
        }
        _ => None,
    }
}

fn removed(edit: &Edit) -> Option<Securable> {
    match edit {
        Edit::RemoveSchema(name) => Some(Securable::Schema(name.clone())),
        Edit::RemoveTable(table) => Some(Securable::Object(table.name.clone())),
        Edit::RemoveCube(cube) => Some(Securable::Object(cube.name.clone())),
        _ => None,
    }
}

fn put_if_changed(role: &RoleEntry, next: RoleEntry) -> Vec<Edit> {
    if *role == next { Vec::new() } else { vec![Edit::PutRole(Arc::new(next))] }
}

fn find<'a>(base: &'a CatalogSnapshot, name: &str) -> Result<&'a Arc<RoleEntry>, CatalogError> {
    base.roles.get(name).ok_or_else(|| {
        let suggestion = nearest(name, base.roles.keys().map(String::as_str)).map(str::to_owned);
        CatalogError::NotFound { what: "role", name: name.to_owned(), suggestion }
    })
}

fn check_exists(base: &CatalogSnapshot, what: &Granted) -> Result<(), CatalogError> {
    match what {
        Granted::Privileges(grants) => grants.iter().try_for_each(|Grant { on, .. }| match on {
            Securable::Schema(name) if base.schemas.contains(name) => Ok(()),
            Securable::Schema(name) => Err(missing("schema", name)),
            Securable::Object(name) if is_object(base, name) => Ok(()),
            Securable::Object(name) => Err(missing("table", &name.to_string())),
        }),
        Granted::Membership(groups) => groups.iter().try_for_each(|group| find(base, group).map(drop_value)),
    }
}

fn drop_value<T>(_: T) {}

fn is_object(base: &CatalogSnapshot, name: &QualifiedName) -> bool {
    base.tables.contains_key(name) || base.cubes.contains_key(name)
}

fn missing(what: &'static str, name: &str) -> CatalogError {
    CatalogError::NotFound { what, name: name.to_owned(), suggestion: None }
}

fn check_no_circle(
    base: &CatalogSnapshot,
    role: &str,
    groups: &BTreeSet<String>,
) -> Result<(), CatalogError> {
    let circular = |group: &&String| memberships(&base.roles, group).iter().any(|above| above.name == role);
    match groups.iter().find(circular) {
        Some(group) => Err(CatalogError::RoleCircle { role: role.to_owned(), group: group.clone() }),
        None => Ok(()),
    }
}
