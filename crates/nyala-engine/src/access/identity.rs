//! The identity of a session: the owner of the database, or a role.

use nyala_model::CatalogSnapshot;
use nyala_model::access::{Privilege, Securable, is_superuser, may, memberships};
use nyala_sql::error::{ErrorKind, QueryError, Result};

/// The identity of a session. Privileges of a role are looked up for each statement, so that a revoked one is gone
/// at once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Identity {
    /// The owner of the data folder, or a client of a server without authentication: everything is allowed.
    #[default]
    Owner,
    /// A role that has shown its password.
    Role(String),
}

impl Identity {
    /// Whether no privilege has to be checked: for the owner and for superusers.
    pub(crate) fn may_everything(&self, catalog: &CatalogSnapshot) -> bool {
        match self {
            Self::Owner => true,
            Self::Role(role) => is_superuser(&catalog.roles, role),
        }
    }

    /// Whether this is the role itself.
    pub(crate) fn is(&self, role: &str) -> bool {
        matches!(self, Self::Role(own) if own == role)
    }

    /// Whether this is one of these roles, or a member of one.
    pub(crate) fn is_member_of_any(&self, catalog: &CatalogSnapshot, wanted: &[String]) -> bool {
        match self {
            Self::Owner => true,
            Self::Role(role) => {
                memberships(&catalog.roles, role).iter().any(|own| wanted.contains(&own.name))
            }
        }
    }

    /// Fails if the privilege was not granted.
    pub(crate) fn require(
        &self,
        catalog: &CatalogSnapshot,
        privilege: Privilege,
        on: &Securable,
    ) -> Result<()> {
        match self {
            Self::Role(role) if !may(&catalog.roles, role, privilege, on) => Err(denied(role, privilege, on)),
            _ => Ok(()),
        }
    }

    /// Fails for roles that are not superusers.
    pub(crate) fn require_superuser(&self, catalog: &CatalogSnapshot, what: &str) -> Result<()> {
        if self.may_everything(catalog) {
            return Ok(());
        }
        Err(QueryError::new(ErrorKind::PermissionDenied, format!("{what} is for superusers only"))
            .hint("ask a superuser to do it"))
    }
}

fn denied(role: &str, privilege: Privilege, on: &Securable) -> QueryError {
    let word = privilege.word();
    let place = match on {
        Securable::Schema(name) => format!("SCHEMA {name}"),
        Securable::Object(name) => name.to_string(),
    };
    QueryError::new(ErrorKind::PermissionDenied, format!("role `{role}` lacks {word} on {on}"))
        .hint(format!("ask a superuser for `GRANT {word} ON {place} TO {role}`"))
}
