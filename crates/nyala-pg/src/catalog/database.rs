//! What one catalog snapshot holds, as relations with columns, keys and defaults: the facts that all system tables show.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use datafusion::catalog::{CatalogProviderList, SchemaProvider};
use datafusion::common::Result;
use datafusion::datasource::TableProvider;
use futures::FutureExt;
use nyala_engine::decode_schema;
use nyala_model::{CatalogSnapshot, QualifiedName, TableEntry};
use nyala_sql::statement::written_columns;

use super::column_types::ColumnType;
use super::oids::{self, Part};
use super::tables;

/// The name of the database.
pub const DATABASE: &str = "nyala";
/// Schemas of the system, with the tables that are made when they are read.
const SYSTEM_SCHEMAS: [&str; 3] = ["information_schema", "pg_catalog", "system"];

/// A snapshot, whose facts are worked out when a system table is read for the first time.
pub struct Database {
    pub snapshot: Arc<CatalogSnapshot>,
    /// Weak: the list holds the system tables, which hold this.
    catalogs: Weak<dyn CatalogProviderList>,
    facts: OnceLock<Facts>,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("version", &self.snapshot.version).finish_non_exhaustive()
    }
}

/// All schemas and relations.
#[derive(Debug, Default)]
pub struct Facts {
    pub schemas: Vec<(i32, String)>,
    pub relations: Vec<Relation>,
    by_name: HashMap<(String, String), usize>,
    by_oid: HashMap<i32, usize>,
}

/// What a relation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelationKind {
    /// A table of the user.
    Table,
    /// A query of the user.
    View,
    /// A table of the system.
    System,
}

/// A table or a view.
#[derive(Debug)]
pub struct Relation {
    pub oid: i32,
    pub schema: String,
    pub name: String,
    pub kind: RelationKind,
    pub columns: Vec<Column>,
    /// Numbers of the columns of the primary key, from 1; empty without a key.
    pub key: Vec<i16>,
    /// The query of a view.
    pub query: Option<String>,
    /// Whether INSERT and UPDATE may change its rows.
    pub is_writable: bool,
    pub index_oid: i32,
    pub constraint_oid: i32,
    /// OID of the rewrite rule, which PostgreSQL keeps the query of a view in.
    pub rule_oid: i32,
    /// The relations that a view reads.
    pub reads: Vec<i32>,
}

/// A column of a relation.
#[derive(Debug)]
pub struct Column {
    pub number: i16,
    pub name: String,
    pub column_type: ColumnType,
    pub not_null: bool,
    /// The default, as SQL.
    pub default: Option<String>,
}

impl Relation {
    /// The kind of relation, as in `relkind`.
    pub fn letter(&self) -> &'static str {
        match (self.kind, self.schema.as_str()) {
            (RelationKind::Table, _) => "r",
            (RelationKind::System, "pg_catalog") if !self.is_system_view() => "r",
            _ => "v",
        }
    }

    fn is_system_view(&self) -> bool {
        tables::VIEWS.contains(&self.name.as_str())
    }

    pub fn is_view(&self) -> bool {
        self.letter() == "v"
    }

    pub fn is_users(&self) -> bool {
        self.kind != RelationKind::System
    }

    /// The name of the primary key and of its index.
    pub fn key_name(&self) -> String {
        format!("{}_pkey", self.name)
    }

    pub fn schema_oid(&self) -> i32 {
        oids::schema(&self.schema)
    }

    /// Columns of the primary key, in the order of the key.
    pub fn key_columns(&self) -> impl Iterator<Item = &Column> {
        self.key.iter().filter_map(|number| self.columns.iter().find(|column| column.number == *number))
    }
}

impl Database {
    /// A snapshot, and the list of the schemas that sessions see of it.
    pub fn new(snapshot: Arc<CatalogSnapshot>, catalogs: &Arc<dyn CatalogProviderList>) -> Self {
        Self { snapshot, catalogs: Arc::downgrade(catalogs), facts: OnceLock::new() }
    }

    /// The facts, which are computed at the first call.
    pub fn facts(&self) -> &Facts {
        self.facts.get_or_init(|| self.work_out())
    }

    fn work_out(&self) -> Facts {
        let mut facts = Facts::default();
        let names = self.snapshot.schemas.iter().map(String::as_str).chain(SYSTEM_SCHEMAS);
        facts.schemas = names.map(|name| (oids::schema(name), name.to_owned())).collect();
        for entry in self.snapshot.tables.values() {
            facts.add(user_relation(entry));
        }
        for schema in SYSTEM_SCHEMAS {
            let Some(provider) = self.schema(schema) else { continue };
            let names = match schema {
                "pg_catalog" => tables::names(),
                _ => provider.table_names(),
            };
            for (at, name) in sorted(names).into_iter().enumerate() {
                facts.add(system_relation(schema, &name, at, columns_of(provider.as_ref(), &name)));
            }
        }
        facts
    }

    /// A table of the schema `system`.
    pub async fn system_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match self.schema("system") {
            Some(schema) => schema.table(name).await,
            None => Ok(None),
        }
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        self.catalogs.upgrade()?.catalog(DATABASE)?.schema(name)
    }
}

impl Facts {
    fn add(&mut self, relation: Relation) {
        let at = self.relations.len();
        self.by_name.insert((relation.schema.clone(), relation.name.clone()), at);
        self.by_oid.insert(relation.oid, at);
        self.relations.push(relation);
    }

    /// A relation by its number.
    pub fn relation(&self, oid: i32) -> Option<&Relation> {
        self.relations.get(*self.by_oid.get(&oid)?)
    }

    /// A relation by its name.
    pub fn named(&self, schema: &str, name: &str) -> Option<&Relation> {
        self.relations.get(*self.by_name.get(&(schema.to_owned(), name.to_owned()))?)
    }

    /// The relation that a name without a schema means: PostgreSQL's system tables come before those of the search path.
    pub fn visible(&self, name: &str, search_path: &[&str]) -> Option<&Relation> {
        let schemas = std::iter::once("pg_catalog").chain(search_path.iter().copied());
        schemas.into_iter().find_map(|schema| self.named(schema, name))
    }

    /// Tables and views of users, without those of the system.
    pub fn users(&self) -> impl Iterator<Item = &Relation> {
        self.relations.iter().filter(|relation| relation.is_users())
    }

    /// Relations with a primary key.
    pub fn with_key(&self) -> impl Iterator<Item = &Relation> {
        self.relations.iter().filter(|relation| !relation.key.is_empty())
    }
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort_unstable();
    names
}

/// A table or a view of users.
pub fn user_relation(entry: &TableEntry) -> Relation {
    let live = entry.live();
    let written = written_columns(&entry.definition);
    // A table whose schema cannot be read is listed without columns.
    let fields = decode_schema(entry).map(|schema| schema.fields().to_vec()).unwrap_or_default();
    let column = |(at, field): (usize, &arrow::datatypes::FieldRef)| {
        let is_key = live.is_some_and(|live| live.key.contains(field.name()));
        Column {
            number: i16::try_from(at + 1).unwrap_or(i16::MAX),
            name: field.name().clone(),
            column_type: ColumnType::of(field, written.get(field.name())),
            not_null: !field.is_nullable() || is_key,
            default: live.and_then(|live| live.defaults.get(field.name()).cloned()),
        }
    };
    let columns: Vec<Column> = fields.iter().enumerate().map(column).collect();
    let number =
        |name: &String| columns.iter().find(|column| column.name == *name).map(|column| column.number);
    let key = live.map(|live| live.key.iter().filter_map(number).collect()).unwrap_or_default();
    let query = entry.view().map(|view| view.query.clone());
    let read = entry.view().into_iter().flat_map(|view| &view.reads);
    let reads = read.map(|(_, id)| oids::table(*id, Part::Table)).collect();
    let QualifiedName { schema, name } = entry.name.clone();
    let oid = |part| oids::table(entry.id, part);
    Relation {
        oid: oid(Part::Table),
        schema,
        name,
        kind: if query.is_some() { RelationKind::View } else { RelationKind::Table },
        columns,
        key,
        query,
        is_writable: live.is_some(),
        index_oid: oid(Part::Index),
        constraint_oid: oid(Part::Constraint),
        rule_oid: oid(Part::Rule),
        reads,
    }
}

fn system_relation(schema: &str, name: &str, at: usize, columns: Vec<Column>) -> Relation {
    let oid = oids::system_table(oids::schema(schema), name, at);
    Relation {
        oid,
        schema: schema.to_owned(),
        name: name.to_owned(),
        kind: RelationKind::System,
        columns,
        key: Vec::new(),
        query: None,
        is_writable: false,
        index_oid: 0,
        constraint_oid: 0,
        rule_oid: 0,
        reads: Vec::new(),
    }
}

fn columns_of(schema: &dyn SchemaProvider, table: &str) -> Vec<Column> {
    // Looking up a system table never waits, so that its future is ready at once.
    let table = schema.table(table).now_or_never().and_then(Result::ok).flatten();
    table.map(|table| columns_of_schema(&table.schema())).unwrap_or_default()
}

/// Columns of a table of the system.
pub fn columns_of_schema(schema: &arrow::datatypes::Schema) -> Vec<Column> {
    let column = |(at, field): (usize, &arrow::datatypes::FieldRef)| Column {
        number: i16::try_from(at + 1).unwrap_or(i16::MAX),
        name: field.name().clone(),
        column_type: ColumnType::of(field, None),
        not_null: !field.is_nullable(),
        default: None,
    };
    schema.fields().iter().enumerate().map(column).collect()
}
