//! `information_schema`: the standard's views of tables, columns and keys, with PostgreSQL's names of types.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::information_schema::InformationSchemaProvider;
use datafusion::catalog::{CatalogProviderList, SchemaProvider};
use datafusion::common::Result;
use datafusion::datasource::TableProvider;

use super::cells::{Cell, Kind, Row, row};
use super::database::{Column, DATABASE, Database, Relation};
use super::functions::OWNER;
use super::relations::default_text;
use super::standard_names::{NO_ROWS, TEXT_TABLES};
use super::tables::{CatalogTable, Definition};

use Kind::{Int4, Text};

/// The name of the schema.
pub const SCHEMA: &str = "information_schema";
/// DataFusion's own tables, which its statements for settings and functions read.
const PLANNERS: [&str; 3] = ["df_settings", "parameters", "routines"];
/// Largest length of a text in bytes, as PostgreSQL gives it.
const TEXT_BYTES: i32 = 1 << 30;

const DEFINITIONS: &[Definition] = &[
    CHARACTER_SETS,
    COLUMNS,
    CONSTRAINT_COLUMN_USAGE,
    CONSTRAINT_TABLE_USAGE,
    ENABLED_ROLES,
    CATALOG_NAME,
    KEY_COLUMN_USAGE,
    SCHEMATA,
    TABLES,
    TABLE_CONSTRAINTS,
    VIEWS,
];

/// The schema over a snapshot.
#[derive(Debug)]
pub struct InformationSchema {
    pub database: Arc<Database>,
    pub catalogs: std::sync::Weak<dyn CatalogProviderList>,
}

#[async_trait]
impl SchemaProvider for InformationSchema {
    fn table_names(&self) -> Vec<String> {
        let own = DEFINITIONS.iter().map(|definition| definition.name);
        let empty = TEXT_TABLES.iter().map(|(name, _)| *name);
        own.chain(empty).chain(PLANNERS).map(str::to_owned).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(definition) = DEFINITIONS.iter().find(|definition| definition.name == name) {
            return Ok(Some(CatalogTable::provider(definition, &self.database)));
        }
        if let Some((name, columns)) = TEXT_TABLES.iter().find(|(table, _)| *table == name) {
            let definition = Definition { name, columns, rows: NO_ROWS };
            return Ok(Some(CatalogTable::provider(&definition, &self.database)));
        }
        match (PLANNERS.contains(&name), self.catalogs.upgrade()) {
            (true, Some(catalogs)) => InformationSchemaProvider::new(catalogs).table(name).await,
            _ => Ok(None),
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        DEFINITIONS.iter().any(|definition| definition.name == name)
            || TEXT_TABLES.iter().any(|(table, _)| *table == name)
            || PLANNERS.contains(&name)
    }
}

fn yes(value: bool) -> &'static str {
    if value { "YES" } else { "NO" }
}

const TABLES: Definition = Definition {
    name: "tables",
    columns: &[
        ("table_catalog", Text),
        ("table_schema", Text),
        ("table_name", Text),
        ("table_type", Text),
        ("self_referencing_column_name", Text),
        ("reference_generation", Text),
        ("user_defined_type_catalog", Text),
        ("user_defined_type_schema", Text),
        ("user_defined_type_name", Text),
        ("is_insertable_into", Text),
        ("is_typed", Text),
        ("commit_action", Text),
    ],
    rows: |database| database.facts().relations.iter().map(table_row).collect(),
};

fn table_row(table: &Relation) -> Row {
    let kind = if table.is_view() { "VIEW" } else { "BASE TABLE" };
    let none = Cell::Null;
    row![
        DATABASE,
        &table.schema,
        &table.name,
        kind,
        none.clone(),
        none.clone(),
        none.clone(),
        none.clone(),
        none,
        yes(table.is_writable),
        "NO",
    ]
}

const COLUMNS: Definition = Definition {
    name: "columns",
    columns: &[
        ("table_catalog", Text),
        ("table_schema", Text),
        ("table_name", Text),
        ("column_name", Text),
        ("ordinal_position", Int4),
        ("column_default", Text),
        ("is_nullable", Text),
        ("data_type", Text),
        ("character_maximum_length", Int4),
        ("character_octet_length", Int4),
        ("numeric_precision", Int4),
        ("numeric_precision_radix", Int4),
        ("numeric_scale", Int4),
        ("datetime_precision", Int4),
        ("interval_type", Text),
        ("interval_precision", Int4),
        ("character_set_catalog", Text),
        ("character_set_schema", Text),
        ("character_set_name", Text),
        ("collation_catalog", Text),
        ("collation_schema", Text),
        ("collation_name", Text),
        ("domain_catalog", Text),
        ("domain_schema", Text),
        ("domain_name", Text),
        ("udt_catalog", Text),
        ("udt_schema", Text),
        ("udt_name", Text),
        ("scope_catalog", Text),
        ("scope_schema", Text),
        ("scope_name", Text),
        ("maximum_cardinality", Int4),
        ("dtd_identifier", Text),
        ("is_self_referencing", Text),
        ("is_identity", Text),
        ("identity_generation", Text),
        ("identity_start", Text),
        ("identity_increment", Text),
        ("identity_maximum", Text),
        ("identity_minimum", Text),
        ("identity_cycle", Text),
        ("is_generated", Text),
        ("generation_expression", Text),
        ("is_updatable", Text),
    ],
    rows: |database| {
        let relations = database.facts().relations.iter();
        relations.flat_map(|table| table.columns.iter().map(|column| column_row(table, column))).collect()
    },
};

fn column_row(table: &Relation, column: &Column) -> Row {
    let column_type = &column.column_type;
    let (precision, radix, scale) = column_type.numeric();
    let length = column_type.length();
    let octets = match (length, column_type.is_text()) {
        (Some(length), _) => Some(length.saturating_mul(4)),
        (None, true) => Some(TEXT_BYTES),
        (None, false) => None,
    };
    let mut row = row![
        DATABASE,
        &table.schema,
        &table.name,
        &column.name,
        i32::from(column.number),
        default_text(column),
        yes(!column.not_null),
        column_type.standard_name(),
        length,
        octets,
        precision,
        radix,
        scale,
        column_type.time_digits(),
    ];
    row.extend(std::iter::repeat_n(Cell::Null, 11));
    row.extend(row![DATABASE, "pg_catalog", column_type.kind.name().to_owned()]);
    row.extend(std::iter::repeat_n(Cell::Null, 4));
    row.extend(row![column.number.to_string(), "NO", "NO"]);
    row.extend(std::iter::repeat_n(Cell::Null, 5));
    row.extend(row!["NO", "NEVER", Cell::Null, yes(table.is_writable)]);
    row
}

const VIEWS: Definition = Definition {
    name: "views",
    columns: &[
        ("table_catalog", Text),
        ("table_schema", Text),
        ("table_name", Text),
        ("view_definition", Text),
        ("check_option", Text),
        ("is_updatable", Text),
        ("is_insertable_into", Text),
        ("is_trigger_updatable", Text),
        ("is_trigger_deletable", Text),
        ("is_trigger_insertable_into", Text),
    ],
    rows: |database| {
        let views = database.facts().relations.iter().filter(|relation| relation.is_view());
        let view = |view: &Relation| {
            let query = view.query.clone();
            row![DATABASE, &view.schema, &view.name, query, "NONE", "NO", "NO", "NO", "NO", "NO"]
        };
        views.map(view).collect()
    },
};

const SCHEMATA: Definition = Definition {
    name: "schemata",
    columns: &[
        ("catalog_name", Text),
        ("schema_name", Text),
        ("schema_owner", Text),
        ("default_character_set_catalog", Text),
        ("default_character_set_schema", Text),
        ("default_character_set_name", Text),
        ("sql_path", Text),
    ],
    rows: |database| database.facts().schemas.iter().map(|(_, name)| row![DATABASE, name, OWNER]).collect(),
};

const TABLE_CONSTRAINTS: Definition = Definition {
    name: "table_constraints",
    columns: &[
        ("constraint_catalog", Text),
        ("constraint_schema", Text),
        ("constraint_name", Text),
        ("table_catalog", Text),
        ("table_schema", Text),
        ("table_name", Text),
        ("constraint_type", Text),
        ("is_deferrable", Text),
        ("initially_deferred", Text),
        ("enforced", Text),
        ("nulls_distinct", Text),
    ],
    rows: |database| {
        let key = |table: &Relation| {
            let (schema, name) = (&table.schema, &table.name);
            row![DATABASE, schema, table.key_name(), DATABASE, schema, name, "PRIMARY KEY", "NO", "NO", "YES"]
        };
        database.facts().with_key().map(key).collect()
    },
};

const KEY_COLUMN_USAGE: Definition = Definition {
    name: "key_column_usage",
    columns: &[
        ("constraint_catalog", Text),
        ("constraint_schema", Text),
        ("constraint_name", Text),
        ("table_catalog", Text),
        ("table_schema", Text),
        ("table_name", Text),
        ("column_name", Text),
        ("ordinal_position", Int4),
        ("position_in_unique_constraint", Int4),
    ],
    rows: |database| {
        let columns = |table: &Relation| {
            let column = |(at, column): (i32, &Column)| {
                let (schema, name) = (&table.schema, &table.name);
                row![DATABASE, schema, table.key_name(), DATABASE, schema, name, &column.name, at]
            };
            (1..).zip(table.key_columns()).map(column).collect::<Vec<_>>()
        };
        database.facts().with_key().flat_map(columns).collect()
    },
};

const CONSTRAINT_COLUMN_USAGE: Definition = Definition {
    name: "constraint_column_usage",
    columns: &[
        ("table_catalog", Text),
        ("table_schema", Text),
        ("table_name", Text),
        ("column_name", Text),
        ("constraint_catalog", Text),
        ("constraint_schema", Text),
        ("constraint_name", Text),
    ],
    rows: |database| {
        let columns = |table: &Relation| {
            let column = |column: &Column| {
                let (schema, name) = (&table.schema, &table.name);
                row![DATABASE, schema, name, &column.name, DATABASE, schema, table.key_name()]
            };
            table.key_columns().map(column).collect::<Vec<_>>()
        };
        database.facts().with_key().flat_map(columns).collect()
    },
};

const CONSTRAINT_TABLE_USAGE: Definition = Definition {
    name: "constraint_table_usage",
    columns: &[
        ("table_catalog", Text),
        ("table_schema", Text),
        ("table_name", Text),
        ("constraint_catalog", Text),
        ("constraint_schema", Text),
        ("constraint_name", Text),
    ],
    rows: |_| Vec::new(),
};

const CHARACTER_SETS: Definition = Definition {
    name: "character_sets",
    columns: &[
        ("character_set_catalog", Text),
        ("character_set_schema", Text),
        ("character_set_name", Text),
        ("character_repertoire", Text),
        ("form_of_use", Text),
        ("default_collate_catalog", Text),
        ("default_collate_schema", Text),
        ("default_collate_name", Text),
    ],
    rows: |_| {
        let none = Cell::Null;
        vec![row![none.clone(), none, "UTF8", "UCS", "UTF8", DATABASE, "pg_catalog", "C"]]
    },
};

const ENABLED_ROLES: Definition = Definition {
    name: "enabled_roles",
    columns: &[("role_name", Text)],
    rows: |database| {
        let roles = database.snapshot.roles.keys().map(|name| row![name]);
        std::iter::once(row![OWNER]).chain(roles).collect()
    },
};

const CATALOG_NAME: Definition = Definition {
    name: "information_schema_catalog_name",
    columns: &[("catalog_name", Text)],
    rows: |_| vec![row![DATABASE]],
};
