//! The tables of `pg_catalog` that are made of the facts of a snapshot, when they are read.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::datasource::TableProvider;
use datafusion_pg_catalog::pg_catalog::PG_CATALOG_TABLES;
use nyala_engine::{MadeRows, MadeTable};

use super::cells::{Kind, Row, batch_of, schema_of};
use super::database::Database;
use super::{activity, objects, relations, statistics, views};
use crate::translation::SESSION_TABLES;

/// A system table: its columns, and how its rows are made.
#[derive(Debug, Clone, Copy)]
pub struct Definition {
    pub name: &'static str,
    pub columns: &'static [(&'static str, Kind)],
    pub rows: fn(&Database) -> Vec<Row>,
}

/// The tables.
pub const DEFINITIONS: &[Definition] = &[
    relations::ATTRDEF,
    relations::ATTRIBUTE,
    relations::CLASS,
    relations::CONSTRAINT,
    relations::INDEX,
    objects::AUTH_MEMBERS,
    objects::AUTHID,
    objects::DATABASES,
    objects::GROUP,
    objects::INDEXES,
    objects::NAMESPACE,
    objects::ROLES,
    objects::SEQUENCES,
    objects::TABLES,
    objects::USER,
    objects::USER_MAPPINGS,
    objects::VIEWS,
    statistics::AVAILABLE_EXTENSIONS,
    statistics::DATABASE,
    statistics::LOCKS,
    statistics::PREPARED_XACTS,
    statistics::STATIO_USER_TABLES,
    statistics::STAT_ALL_INDEXES,
    statistics::STAT_ALL_TABLES,
    statistics::STAT_USER_INDEXES,
    statistics::STAT_USER_TABLES,
    statistics::TIMEZONE_NAMES,
    views::DEPEND,
    views::REWRITE,
];

/// System relations that are views in PostgreSQL.
pub const VIEWS: &[&str] = &[
    "pg_available_extensions",
    "pg_group",
    "pg_indexes",
    "pg_locks",
    "pg_matviews",
    "pg_prepared_xacts",
    "pg_replication_slots",
    "pg_roles",
    "pg_sequences",
    "pg_settings",
    "pg_stat_activity",
    "pg_stat_all_indexes",
    "pg_stat_all_tables",
    "pg_stat_database",
    "pg_stat_gssapi",
    "pg_stat_user_indexes",
    "pg_stat_user_tables",
    "pg_statio_user_tables",
    "pg_tables",
    "pg_timezone_names",
    "pg_user",
    "pg_user_mappings",
    "pg_views",
];

fn own_names() -> impl Iterator<Item = &'static str> {
    DEFINITIONS.iter().map(|definition| definition.name).chain([activity::NAME])
}

/// The names of all tables of `pg_catalog`.
pub fn names() -> Vec<String> {
    static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let own = own_names();
        let mut names: Vec<String> =
            own.chain(PG_CATALOG_TABLES.iter().copied()).map(str::to_owned).collect();
        names.sort_unstable();
        names.dedup();
        names
    });
    NAMES.clone()
}

/// Whether `pg_catalog` has a table of this name.
pub fn is_known(name: &str) -> bool {
    let of_sessions = SESSION_TABLES.iter().copied();
    own_names()
        .chain(PG_CATALOG_TABLES.iter().copied())
        .chain(of_sessions)
        .any(|known| known.eq_ignore_ascii_case(name))
}

/// A system table over a snapshot.
#[derive(Debug)]
pub struct CatalogTable {
    definition: Definition,
    schema: SchemaRef,
    database: Arc<Database>,
}

impl CatalogTable {
    /// The table of a definition, over the facts of a snapshot.
    pub fn provider(definition: &Definition, database: &Arc<Database>) -> Arc<dyn TableProvider> {
        let schema = schema_of(definition.columns);
        Arc::new(MadeTable(Self { definition: *definition, schema, database: Arc::clone(database) }))
    }
}

#[async_trait]
impl MadeRows for CatalogTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    async fn rows(&self, _session: &dyn Session) -> Result<RecordBatch> {
        let rows = (self.definition.rows)(&self.database);
        Ok(batch_of(&self.schema, self.definition.columns, &rows)?)
    }
}
