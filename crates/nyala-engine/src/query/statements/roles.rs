//! Statements about roles and grants, such as `CREATE ROLE`, `SHOW ROLES` and `SHOW GRANTS`.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_catalog::{Change, Granted, RoleChange};
use nyala_model::access::{Grant, PasswordEntry, Privilege, RoleEntry, Securable};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::{GrantOn, GrantWhat, RoleOptions, RoleStatement};

use crate::access::new_password;
use crate::query::answer::Answer;
use crate::query::authorize::Caller;
use crate::query::columns::{text, texts};
use crate::query::command::Command;
use crate::query::engine::Engine;
use crate::query::execution::Execution;
use crate::query::names::role_name;

/// Privileges that can be granted on a table or a cube.
const ON_OBJECTS: [Privilege; 5] =
    [Privilege::Select, Privilege::Build, Privilege::Insert, Privilege::Update, Privilege::Delete];

/// A statement about roles or grants.
pub struct Role<'s>(pub &'s RoleStatement);

impl Command for Role<'_> {
    fn schema(&self) -> Option<SchemaRef> {
        match self.0 {
            RoleStatement::ShowRoles => Some(roles_schema()),
            RoleStatement::ShowGrants => Some(grants_schema()),
            _ => None,
        }
    }

    /// Every role may change its own password, and list roles and grants.
    fn authorize(&self, caller: &Caller<'_>) -> Result<()> {
        match self.0 {
            RoleStatement::ShowRoles | RoleStatement::ShowGrants => Ok(()),
            RoleStatement::Alter {
                name,
                options: RoleOptions { login: None, superuser: None, password: Some(_) },
            } if caller.identity.is(&role_name(name)) => Ok(()),
            _ => caller.require_superuser("changing roles and grants"),
        }
    }

    fn run<'a>(&'a self, execution: Execution<'a>) -> BoxFuture<'a, Result<Answer>> {
        run(self.0, execution).boxed()
    }
}

async fn run(statement: &RoleStatement, execution: Execution<'_>) -> Result<Answer> {
    let engine = execution.engine();
    let (change, tag) = match statement {
        RoleStatement::ShowRoles => return show_roles(execution),
        RoleStatement::ShowGrants => return show_grants(execution),
        RoleStatement::Create { name, if_not_exists, options } => {
            let role = new_role(engine, name, options).await?;
            (Change::CreateRole { role, if_not_exists: *if_not_exists }, "CREATE ROLE")
        }
        RoleStatement::Alter { name, options } => {
            let password = password(engine, options).await?;
            let change = RoleChange { login: options.login, superuser: options.superuser, password };
            (Change::AlterRole { name: role_name(name), change }, "ALTER ROLE")
        }
        RoleStatement::Drop { name, if_exists } => {
            (Change::DropRole { name: role_name(name), if_exists: *if_exists }, "DROP ROLE")
        }
        RoleStatement::Grant { what, to } => {
            (Change::Grant { what: granted(what, &execution)?, to: role_names(to) }, "GRANT")
        }
        RoleStatement::Revoke { what, from } => {
            let mut what = granted(what, &execution)?;
            with_tables(&mut what, of_tables(statement), &execution);
            (Change::Revoke { what, from: role_names(from) }, "REVOKE")
        }
    };
    execution.commit(change, tag).await
}

async fn new_role(engine: &Engine, name: &Ident, options: &RoleOptions) -> Result<RoleEntry> {
    Ok(RoleEntry {
        name: role_name(name),
        login: options.login.unwrap_or_default(),
        superuser: options.superuser.unwrap_or_default(),
        password: password(engine, options).await?.flatten(),
        member_of: BTreeSet::new(),
        grants: BTreeSet::new(),
    })
}

/// Hashes on the planning threads, because hashing takes long.
async fn password(engine: &Engine, options: &RoleOptions) -> Result<Option<Option<PasswordEntry>>> {
    match options.password.clone() {
        None => Ok(None),
        Some(None) => Ok(Some(None)),
        Some(Some(text)) => {
            let entry = engine.runtime.threads.plan(async move { new_password(&text) }).await?;
            Ok(Some(Some(entry)))
        }
    }
}

fn role_names(names: &[Ident]) -> BTreeSet<String> {
    names.iter().map(role_name).collect()
}

fn granted(what: &GrantWhat, execution: &Execution<'_>) -> Result<Granted> {
    let (privileges, on) = match what {
        GrantWhat::Membership(roles) => return Ok(Granted::Membership(role_names(roles))),
        GrantWhat::Privileges { privileges, on } => (privileges, on),
    };
    let (things, possible): (Vec<Securable>, &[Privilege]) = match on {
        GrantOn::Schemas(names) | GrantOn::TablesIn(names) => {
            (names.iter().map(|name| Securable::Schema(role_name(name))).collect(), &Privilege::ALL)
        }
        GrantOn::Objects(names) => {
            let object = |name: &ObjectName| execution.name(name).map(Securable::Object);
            (names.iter().map(object).collect::<Result<_>>()?, &ON_OBJECTS)
        }
    };
    let privileges = privileges.as_deref().unwrap_or(possible);
    if let Some(other) = privileges.iter().find(|privilege| !possible.contains(privilege)) {
        let message = format!("{} cannot be granted on a table or cube", other.word());
        return Err(QueryError::new(ErrorKind::InvalidDefinition, message).hint("grant it ON SCHEMA …"));
    }
    let grants = things
        .iter()
        .flat_map(|on| privileges.iter().map(|privilege| Grant { privilege: *privilege, on: on.clone() }));
    Ok(Granted::Privileges(grants.collect()))
}

/// Whether a statement is about all tables of schemas.
fn of_tables(statement: &RoleStatement) -> bool {
    matches!(
        statement,
        RoleStatement::Revoke { what: GrantWhat::Privileges { on: GrantOn::TablesIn(_), .. }, .. }
    )
}

/// Adds the privileges on each table of the schemas to those on the schemas.
fn with_tables(what: &mut Granted, of_tables: bool, execution: &Execution<'_>) {
    let Granted::Privileges(grants) = what else { return };
    if !of_tables {
        return;
    }
    let catalog = execution.engine().catalog().snapshot();
    let of_schema = |grant: &Grant| match &grant.on {
        Securable::Schema(schema) => {
            let tables = catalog.tables.keys().filter(|name| name.schema == *schema);
            let on = tables.map(|name| Securable::Object(name.clone()));
            on.map(|on| Grant { privilege: grant.privilege, on }).collect()
        }
        Securable::Object(_) => Vec::new(),
    };
    let of_tables: Vec<Grant> = grants.iter().flat_map(of_schema).collect();
    grants.extend(of_tables);
}

fn roles_schema() -> SchemaRef {
    let switch = |name| Field::new(name, DataType::Boolean, false);
    Arc::new(Schema::new(vec![
        text("role"),
        switch("login"),
        switch("superuser"),
        switch("password"),
        text("member_of"),
    ]))
}

fn show_roles(execution: Execution<'_>) -> Result<Answer> {
    let catalog = execution.engine().catalog().snapshot();
    let roles = || catalog.roles.values();
    let switches = |switch: fn(&RoleEntry) -> bool| -> ArrayRef {
        Arc::new(roles().map(|role| Some(switch(role))).collect::<BooleanArray>())
    };
    let groups: Vec<String> =
        roles().map(|role| role.member_of.iter().cloned().collect::<Vec<_>>().join(", ")).collect();
    let columns = vec![
        texts(roles().map(|role| Some(role.name.as_str()))),
        switches(|role| role.login),
        switches(|role| role.superuser),
        switches(|role| role.password.is_some()),
        texts(groups.iter().map(|groups| Some(groups.as_str()).filter(|groups| !groups.is_empty()))),
    ];
    execution.columns(roles_schema(), columns)
}

fn grants_schema() -> SchemaRef {
    let columns = ["role", "privilege", "kind", "schema", "name"];
    Arc::new(Schema::new(columns.map(text).to_vec()))
}

fn show_grants(execution: Execution<'_>) -> Result<Answer> {
    let catalog = execution.engine().catalog().snapshot();
    let all: Vec<(&str, &Grant)> = catalog
        .roles
        .values()
        .flat_map(|role| role.grants.iter().map(|grant| (role.name.as_str(), grant)))
        .collect();
    let name = |grant: &Grant| match &grant.on {
        Securable::Schema(_) => None,
        Securable::Object(name) => Some(name.name.clone()),
    };
    let names: Vec<Option<String>> = all.iter().map(|(_, grant)| name(grant)).collect();
    let kind = |grant: &Grant| match &grant.on {
        Securable::Schema(_) => "schema",
        Securable::Object(name) if catalog.cubes.contains_key(name) => "cube",
        Securable::Object(_) => "table",
    };
    let columns = vec![
        texts(all.iter().map(|(role, _)| Some(*role))),
        texts(all.iter().map(|(_, grant)| Some(grant.privilege.word()))),
        texts(all.iter().map(|(_, grant)| Some(kind(grant)))),
        texts(all.iter().map(|(_, grant)| Some(grant.on.schema()))),
        texts(names.iter().map(Option::as_deref)),
    ];
    execution.columns(grants_schema(), columns)
}
