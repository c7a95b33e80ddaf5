//! Access control: roles, their passwords and their grants.
//!
//! A role is a user, a group of users, or both. Its privileges are the union of its own grants and those of
//! every role it is a member of, directly or not. A superuser may do everything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::name::QualifiedName;

/// A user or a group of users.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleEntry {
    /// Its name.
    pub name: String,
    /// Whether it may connect.
    pub login: bool,
    /// Whether it may do everything.
    pub superuser: bool,
    /// Its password verifier; none if it has no password, and then it cannot connect.
    pub password: Option<PasswordEntry>,
    /// Groups that it belongs to: it has their grants, too.
    pub member_of: BTreeSet<String>,
    /// Grants to the role itself.
    pub grants: BTreeSet<Grant>,
}

/// The verifiers of a password. The password itself is never stored.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PasswordEntry {
    /// `SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey`, as PostgreSQL writes it: for PostgreSQL clients.
    pub scram: String,
    /// An argon2id hash in PHC form: for HTTP. None if the password was set as a SCRAM verifier, from which it
    /// cannot be worked out.
    pub argon2: Option<String>,
}

/// Shows no part of the verifiers.
impl fmt::Debug for PasswordEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordEntry")
    }
}

/// An operation that a role may be allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Privilege {
    /// Reading a table, from its files or from cubes.
    Select,
    /// Building, refreshing, merging, checking and analysing a cube.
    Build,
    /// Creating, altering and dropping tables and cubes in a schema.
    Create,
    /// Adding rows to a live table, or replacing them.
    Insert,
    /// Changing rows of a live table.
    Update,
    /// Deleting rows of a live table, also all rows.
    Delete,
}

impl Privilege {
    /// All privileges.
    pub const ALL: [Self; 6] =
        [Self::Select, Self::Build, Self::Create, Self::Insert, Self::Update, Self::Delete];

    /// The name of the privilege in SQL.
    pub fn word(self) -> &'static str {
        match self {
            Self::Select => "SELECT",
            Self::Build => "BUILD",
            Self::Create => "CREATE",
            Self::Insert => "INSERT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// The object of a privilege.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Securable {
    /// A schema with all its tables and cubes, now and later.
    Schema(String),
    /// A table or a cube; they share one namespace.
    Object(QualifiedName),
}

impl Securable {
    /// The schema itself, or the schema of the object.
    pub fn schema(&self) -> &str {
        match self {
            Self::Schema(name) => name,
            Self::Object(name) => &name.schema,
        }
    }
}

impl fmt::Display for Securable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Schema(name) => write!(f, "schema `{name}`"),
            Self::Object(name) => write!(f, "`{name}`"),
        }
    }
}

/// One privilege on one object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Grant {
    /// The privilege.
    pub privilege: Privilege,
    /// Its object.
    pub on: Securable,
}

impl Grant {
    /// Whether it allows `privilege` on `wanted`: by a grant on the object or on its schema.
    fn covers(&self, privilege: Privilege, wanted: &Securable) -> bool {
        let same = self.on == *wanted;
        let within = matches!(&self.on, Securable::Schema(schema) if schema == wanted.schema());
        self.privilege == privilege && (same || within)
    }
}

/// All roles, by name.
pub type Roles = BTreeMap<String, Arc<RoleEntry>>;

/// A role and all its groups, direct and indirect.
pub fn memberships<'a>(roles: &'a Roles, role: &str) -> Vec<&'a RoleEntry> {
    let mut found: Vec<&RoleEntry> = roles.get(role).map(Arc::as_ref).into_iter().collect();
    let mut next = 0;
    while let Some(role) = found.get(next).copied() {
        next += 1;
        for name in &role.member_of {
            match roles.get(name).map(Arc::as_ref) {
                Some(group) if !found.iter().any(|known| known.name == group.name) => found.push(group),
                _ => {}
            }
        }
    }
    found
}

/// Whether a role is a superuser. Members of a superuser are not: that would be overlooked too easily.
pub fn is_superuser(roles: &Roles, role: &str) -> bool {
    roles.get(role).is_some_and(|role| role.superuser)
}

/// Whether a role has a privilege on an object.
pub fn may(roles: &Roles, role: &str, privilege: Privilege, wanted: &Securable) -> bool {
    is_superuser(roles, role)
        || memberships(roles, role)
            .iter()
            .flat_map(|role| &role.grants)
            .any(|grant| grant.covers(privilege, wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(name: &str, member_of: &[&str], grants: &[(Privilege, Securable)]) -> (String, Arc<RoleEntry>) {
        let role = RoleEntry {
            name: name.to_owned(),
            login: true,
            superuser: name == "root",
            password: None,
            member_of: member_of.iter().map(ToString::to_string).collect(),
            grants: grants.iter().cloned().map(|(privilege, on)| Grant { privilege, on }).collect(),
        };
        (name.to_owned(), Arc::new(role))
    }

    fn table(name: &str) -> Securable {
        let (schema, name) = name.split_once('.').unwrap_or(("public", name));
        Securable::Object(QualifiedName::new(schema, name))
    }

    #[test]
    fn grants_reach_what_they_name_and_whoever_is_a_member() {
        let shop = Securable::Schema("shop".to_owned());
        let roles: Roles = [
            role("root", &[], &[]),
            role("readers", &["everybody"], &[(Privilege::Select, shop.clone())]),
            role("everybody", &["readers"], &[(Privilege::Select, table("calendar"))]),
            role("ann", &["readers", "gone"], &[(Privilege::Build, table("shop.revenue"))]),
            role("bob", &["root"], &[]),
        ]
        .into();
        let check = |who: &str, privilege, on: &Securable, expected| {
            assert_eq!(may(&roles, who, privilege, on), expected, "{who} {privilege:?} {on}");
        };
        check("ann", Privilege::Select, &table("shop.sales"), true);
        check("ann", Privilege::Select, &table("calendar"), true);
        check("ann", Privilege::Select, &table("secrets"), false);
        check("ann", Privilege::Build, &table("shop.revenue"), true);
        check("ann", Privilege::Build, &table("shop.other"), false);
        check("ann", Privilege::Create, &shop, false);
        check("everybody", Privilege::Select, &table("shop.sales"), true);
        check("root", Privilege::Create, &shop, true);
        check("bob", Privilege::Select, &table("secrets"), false);
        check("nobody", Privilege::Select, &table("calendar"), false);
    }

    #[test]
    fn a_grant_on_a_table_says_nothing_of_its_schema() {
        let roles: Roles = [role("ann", &[], &[(Privilege::Create, table("shop.sales"))])].into();
        assert!(!may(&roles, "ann", Privilege::Create, &Securable::Schema("shop".to_owned())));
    }
}
