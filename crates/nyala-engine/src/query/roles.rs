//! Statements about roles and grants, such as `CREATE ROLE`, `SHOW ROLES` and `SHOW GRANTS`.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::Ident;
use nyala_catalog::{Change, Granted, RoleChange};
use nyala_model::access::{Grant, PasswordEntry, Privilege, RoleEntry, Securable};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::{GrantOn, GrantWhat, RoleOptions, RoleStatement, folded};

use super::activity::Running;
use super::answer::Answer;
use super::ddl::{commit, name_of};
use super::engine::Engine;
use super::show;
use crate::access::new_password;
use crate::session::Settings;

/// Privileges that can be granted on a table or a cube.
const ON_OBJECTS: [Privilege; 5] =
    [Privilege::Select, Privilege::Build, Privilege::Insert, Privilege::Update, Privilege::Delete];

/// Columns of an answer; none for statements without rows.
pub(super) fn schema(statement: &RoleStatement) -> Option<SchemaRef> {
    match statement {
        RoleStatement::ShowRoles => Some(roles_schema()),
        RoleStatement::ShowGrants => Some(grants_schema()),
        _ => None,
    }
}

/// Runs one of these statements.
pub(super) async fn run(
    engine: &Arc<Engine>,
    statement: &RoleStatement,
    settings: &Settings,
    running: Running,
) -> Result<Answer> {
    let (change, tag) = match statement {
        RoleStatement::ShowRoles => return show_roles(engine, running),
        RoleStatement::ShowGrants => return show_grants(engine, running),
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
            (Change::Grant { what: granted(what, settings)?, to: role_names(to) }, "GRANT")
        }
        RoleStatement::Revoke { what, from } => {
            (Change::Revoke { what: granted(what, settings)?, from: role_names(from) }, "REVOKE")
        }
    };
    commit(engine, change, tag).await
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
            let entry = engine.threads.plan(async move { new_password(&text) }).await?;
            Ok(Some(Some(entry)))
        }
    }
}

/// Names without quotes are lower-case, as schema names are in the planner.
pub(super) fn role_name(name: &Ident) -> String {
    folded(name)
}

fn role_names(names: &[Ident]) -> BTreeSet<String> {
    names.iter().map(role_name).collect()
}

fn granted(what: &GrantWhat, settings: &Settings) -> Result<Granted> {
    let (privileges, on) = match what {
        GrantWhat::Membership(roles) => return Ok(Granted::Membership(role_names(roles))),
        GrantWhat::Privileges { privileges, on } => (privileges, on),
    };
    let (things, possible): (Vec<Securable>, &[Privilege]) = match on {
        GrantOn::Schemas(names) => {
            (names.iter().map(|name| Securable::Schema(role_name(name))).collect(), &Privilege::ALL)
        }
        GrantOn::Objects(names) => {
            let object = |name| name_of(name, settings.schema()).map(Securable::Object);
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

fn roles_schema() -> SchemaRef {
    let switch = |name| Field::new(name, DataType::Boolean, false);
    Arc::new(Schema::new(vec![
        show::text("role"),
        switch("login"),
        switch("superuser"),
        switch("password"),
        show::text("member_of"),
    ]))
}

fn show_roles(engine: &Engine, running: Running) -> Result<Answer> {
    let catalog = engine.catalog().snapshot();
    let roles = || catalog.roles.values();
    let switches = |switch: fn(&RoleEntry) -> bool| -> ArrayRef {
        Arc::new(roles().map(|role| Some(switch(role))).collect::<BooleanArray>())
    };
    let groups: Vec<String> =
        roles().map(|role| role.member_of.iter().cloned().collect::<Vec<_>>().join(", ")).collect();
    let columns = vec![
        show::texts(roles().map(|role| Some(role.name.as_str()))),
        switches(|role| role.login),
        switches(|role| role.superuser),
        switches(|role| role.password.is_some()),
        show::texts(groups.iter().map(|groups| Some(groups.as_str()).filter(|groups| !groups.is_empty()))),
    ];
    show::answer(roles_schema(), columns, running)
}

fn grants_schema() -> SchemaRef {
    let columns = ["role", "privilege", "kind", "schema", "name"];
    Arc::new(Schema::new(columns.map(show::text).to_vec()))
}

fn show_grants(engine: &Engine, running: Running) -> Result<Answer> {
    let catalog = engine.catalog().snapshot();
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
        show::texts(all.iter().map(|(role, _)| Some(*role))),
        show::texts(all.iter().map(|(_, grant)| Some(grant.privilege.word()))),
        show::texts(all.iter().map(|(_, grant)| Some(kind(grant)))),
        show::texts(all.iter().map(|(_, grant)| Some(grant.on.schema()))),
        show::texts(names.iter().map(Option::as_deref)),
    ];
    show::answer(grants_schema(), columns, running)
}
