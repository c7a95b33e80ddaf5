//! Databases, schemas and roles, and the views that list tables, views and indexes by name.

use nyala_model::access::RoleEntry;

use super::cells::{Cell, Kind, Row, row};
use super::database::{DATABASE, Relation};
use super::functions::OWNER as OWNER_NAME;
use super::oids::{self, OWNER};
use super::relations::index_definition;
use super::tables::Definition;

use Kind::{Bool, Char, Int4, Int8, Oid, OidList, Text, TextList, Time};

/// The number of UTF-8 among the encodings.
const UTF8: i32 = 6;
const DEFAULT_TABLESPACE: i32 = 1663;

pub const DATABASES: Definition = Definition {
    name: "pg_database",
    columns: &[
        ("oid", Oid),
        ("datname", Text),
        ("datdba", Oid),
        ("encoding", Int4),
        ("datlocprovider", Char),
        ("datistemplate", Bool),
        ("datallowconn", Bool),
        ("datconnlimit", Int4),
        ("datfrozenxid", Int4),
        ("datminmxid", Int4),
        ("dattablespace", Oid),
        ("datcollate", Text),
        ("datctype", Text),
        ("daticulocale", Text),
        ("datcollversion", Text),
        ("datacl", TextList),
    ],
    rows: |_| {
        vec![row![
            oids::DATABASE,
            DATABASE,
            OWNER,
            UTF8,
            "c",
            false,
            true,
            -1,
            0,
            0,
            DEFAULT_TABLESPACE,
            "C",
            "C",
        ]]
    },
};

pub const NAMESPACE: Definition = Definition {
    name: "pg_namespace",
    columns: &[("oid", Oid), ("nspname", Text), ("nspowner", Oid), ("nspacl", TextList)],
    rows: |database| {
        let schemas = database.facts().schemas.iter();
        schemas.map(|(oid, name)| row![*oid, name, OWNER]).collect()
    },
};

/// The role that owns the data, and the roles of the catalog.
fn roles(database: &super::database::Database) -> Vec<(i32, RoleEntry)> {
    let owner = RoleEntry {
        name: OWNER_NAME.to_owned(),
        login: true,
        superuser: true,
        password: None,
        member_of: Default::default(),
        grants: Default::default(),
    };
    let others = database.snapshot.roles.values().filter(|role| role.name != OWNER_NAME);
    let others = others.map(|role| (oids::role(&role.name), role.as_ref().clone()));
    std::iter::once((OWNER, owner)).chain(others).collect()
}

pub const ROLES: Definition = Definition {
    name: "pg_roles",
    columns: &[
        ("rolname", Text),
        ("rolsuper", Bool),
        ("rolinherit", Bool),
        ("rolcreaterole", Bool),
        ("rolcreatedb", Bool),
        ("rolcanlogin", Bool),
        ("rolreplication", Bool),
        ("rolconnlimit", Int4),
        ("rolpassword", Text),
        ("rolvaliduntil", Time),
        ("rolbypassrls", Bool),
        ("rolconfig", TextList),
        ("oid", Oid),
    ],
    rows: |database| {
        let role = |(oid, role): &(i32, RoleEntry)| {
            let all = role.superuser;
            let hidden = "********";
            row![
                &role.name,
                all,
                true,
                all,
                all,
                role.login,
                false,
                -1,
                hidden,
                Cell::Null,
                all,
                Cell::Null,
                *oid
            ]
        };
        roles(database).iter().map(role).collect()
    },
};

pub const AUTHID: Definition = Definition {
    name: "pg_authid",
    columns: &[
        ("oid", Oid),
        ("rolname", Text),
        ("rolsuper", Bool),
        ("rolinherit", Bool),
        ("rolcreaterole", Bool),
        ("rolcreatedb", Bool),
        ("rolcanlogin", Bool),
        ("rolreplication", Bool),
        ("rolbypassrls", Bool),
        ("rolconnlimit", Int4),
        ("rolpassword", Text),
        ("rolvaliduntil", Time),
    ],
    rows: |database| {
        let role = |(oid, role): &(i32, RoleEntry)| {
            let all = role.superuser;
            row![*oid, &role.name, all, true, all, all, role.login, false, all, -1]
        };
        roles(database).iter().map(role).collect()
    },
};

pub const AUTH_MEMBERS: Definition = Definition {
    name: "pg_auth_members",
    columns: &[("roleid", Oid), ("member", Oid), ("grantor", Oid), ("admin_option", Bool)],
    rows: |database| {
        let members = database.snapshot.roles.values().flat_map(|role| {
            let member = oids::role(&role.name);
            role.member_of.iter().map(move |group| row![oids::role(group), member, OWNER, false])
        });
        members.collect()
    },
};

pub const USER: Definition = Definition {
    name: "pg_user",
    columns: &[
        ("usename", Text),
        ("usesysid", Oid),
        ("usecreatedb", Bool),
        ("usesuper", Bool),
        ("userepl", Bool),
        ("usebypassrls", Bool),
        ("passwd", Text),
        ("valuntil", Time),
        ("useconfig", TextList),
    ],
    rows: |database| {
        let users = roles(database).into_iter().filter(|(_, role)| role.login);
        let user = |(oid, role): (i32, RoleEntry)| {
            let all = role.superuser;
            row![role.name, oid, all, all, false, all, "********"]
        };
        users.map(user).collect()
    },
};

pub const GROUP: Definition = Definition {
    name: "pg_group",
    columns: &[("groname", Text), ("grosysid", Oid), ("grolist", OidList)],
    rows: |database| {
        let all = &database.snapshot.roles;
        let group = |role: &RoleEntry| {
            let members = all.values().filter(|member| member.member_of.contains(&role.name));
            let members = members.map(|member| oids::role(&member.name)).collect();
            row![&role.name, oids::role(&role.name), Cell::Oids(members)]
        };
        all.values().filter(|role| !role.login).map(|role| group(role)).collect()
    },
};

pub const USER_MAPPINGS: Definition = Definition {
    name: "pg_user_mappings",
    columns: &[
        ("umid", Oid),
        ("srvid", Oid),
        ("srvname", Text),
        ("umuser", Oid),
        ("usename", Text),
        ("umoptions", TextList),
    ],
    rows: |_| Vec::new(),
};

pub const TABLES: Definition = Definition {
    name: "pg_tables",
    columns: &[
        ("schemaname", Text),
        ("tablename", Text),
        ("tableowner", Text),
        ("tablespace", Text),
        ("hasindexes", Bool),
        ("hasrules", Bool),
        ("hastriggers", Bool),
        ("rowsecurity", Bool),
    ],
    rows: |database| {
        let tables = database.facts().relations.iter().filter(|relation| !relation.is_view());
        let table = |table: &Relation| {
            let has_index = !table.key.is_empty();
            row![&table.schema, &table.name, OWNER_NAME, Cell::Null, has_index, false, false, false]
        };
        tables.map(table).collect()
    },
};

pub const VIEWS: Definition = Definition {
    name: "pg_views",
    columns: &[("schemaname", Text), ("viewname", Text), ("viewowner", Text), ("definition", Text)],
    rows: |database| {
        let views = database.facts().relations.iter().filter(|relation| relation.is_view());
        views.map(|view| row![&view.schema, &view.name, OWNER_NAME, view.query.clone()]).collect()
    },
};

pub const INDEXES: Definition = Definition {
    name: "pg_indexes",
    columns: &[
        ("schemaname", Text),
        ("tablename", Text),
        ("indexname", Text),
        ("tablespace", Text),
        ("indexdef", Text),
    ],
    rows: |database| database.facts().with_key().map(index).collect(),
};

fn index(table: &Relation) -> Row {
    row![&table.schema, &table.name, table.key_name(), Cell::Null, index_definition(table)]
}

pub const SEQUENCES: Definition = Definition {
    name: "pg_sequences",
    columns: &[
        ("schemaname", Text),
        ("sequencename", Text),
        ("sequenceowner", Text),
        ("data_type", Oid),
        ("start_value", Int8),
        ("min_value", Int8),
        ("max_value", Int8),
        ("increment_by", Int8),
        ("cycle", Bool),
        ("cache_size", Int8),
        ("last_value", Int8),
    ],
    rows: |_| Vec::new(),
};
