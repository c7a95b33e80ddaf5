//! Access checks of a session, against the tables and views that a resolved plan reads and the objects that a statement
//! names: not against its text, where names may mean anything.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use datafusion::common::TableReference;
use datafusion::logical_expr::DdlStatement;
use datafusion::sql::sqlparser::ast::{ObjectName, Query, visit_relations};
use nyala_model::access::{Privilege, Securable};
use nyala_model::{CatalogSnapshot, QualifiedName};
use nyala_sql::error::Result;
use nyala_storage::object::{Location, real_path};

use super::engine::Engine;
use super::names::{SYSTEM_SCHEMA, name_in, schema_name, table_in};
use super::plan::reads::PG_CATALOG;
use super::session::Session;
use crate::access::Identity;
use crate::session::Settings;

/// System tables that show the queries of other sessions, or the paths of files.
const FOR_SUPERUSERS: [&str; 9] = [
    "cache_blocks",
    "disk_stores",
    "local_queries",
    "misses",
    "queries",
    "query_history",
    "query_log",
    "stuck",
    "tasks",
];

/// The schema of files that a statement reads by their locations, which are their names.
pub const FILES: &str = "";

/// The role of a session, and the objects and grants of this moment.
pub struct Caller<'a> {
    pub engine: &'a Engine,
    pub identity: &'a Identity,
    pub catalog: Arc<CatalogSnapshot>,
    pub settings: &'a Settings,
}

impl<'a> Caller<'a> {
    /// The caller of a statement; none for a superuser, because superusers may run every statement.
    pub fn of(session: &'a Session, settings: &'a Settings) -> Option<Self> {
        let (engine, identity) = (session.engine.as_ref(), &session.options().identity);
        let catalog = engine.snapshots.catalog().snapshot();
        (!identity.may_everything(&catalog)).then_some(Self { engine, identity, catalog, settings })
    }

    /// A name in the statement.
    pub fn name(&self, name: &ObjectName) -> Result<QualifiedName> {
        name_in(name, self.settings)
    }

    /// Fails, because the caller is no superuser. The error names the forbidden action.
    pub fn require_superuser(&self, what: &str) -> Result<()> {
        self.identity.require_superuser(&self.catalog, what)
    }

    /// Fails unless the caller may create and drop the object.
    pub fn may_create(&self, name: QualifiedName) -> Result<()> {
        if self.settings.is_temporary(&name) {
            return Ok(());
        }
        self.identity.require(&self.catalog, Privilege::Create, &Securable::Schema(name.schema))
    }

    /// Fails unless the caller may build the cube.
    pub fn may_build(&self, name: QualifiedName) -> Result<()> {
        self.identity.require(&self.catalog, Privilege::Build, &Securable::Object(name))
    }

    /// Fails unless the caller may read all of these tables.
    pub fn may_select(&self, tables: &[QualifiedName]) -> Result<()> {
        let others = tables.iter().filter(|table| !self.settings.is_temporary(table));
        let mut tables = others.cloned().map(Securable::Object);
        tables.try_for_each(|table| self.identity.require(&self.catalog, Privilege::Select, &table))
    }

    /// The tables with the names that a query contains. A cube takes each name for a table, also one that a WITH of the
    /// query defines, so that the cube's plan may read tables that are not in the query's plan.
    pub fn tables_named(&self, query: &Query) -> Vec<QualifiedName> {
        let mut tables = Vec::new();
        let _ = visit_relations(query, |name| {
            let name = self.name(name).ok();
            tables.extend(name.filter(|name| self.catalog.tables.contains_key(name)));
            ControlFlow::<()>::Continue(())
        });
        tables
    }

    /// Leaves the data folder to superusers, with the files there that the server did not write. The server's own files
    /// are refused to superusers as well, when they are opened.
    pub fn may_read_files(&self, location: &str) -> Result<()> {
        let Some(wanted) = Location::parse(location)?.local_path() else { return Ok(()) };
        match is_of_server(&self.engine.data_dir, &self.catalog, &real_path(&wanted)) {
            true => self.require_superuser(&format!("reading the server's own files at `{location}`")),
            false => Ok(()),
        }
    }

    /// Files have no owner: a role that may make an external table of them may read them in the place of a table, too.
    pub fn may_read_file(&self, location: &str) -> Result<()> {
        let schema = Securable::Schema(self.settings.schema().to_string());
        self.identity.require(&self.catalog, Privilege::Create, &schema)?;
        self.may_read_files(location)
    }

    /// Checks the tables and views that a statement reads, as [`tables_of`](super::plan::reads::tables_of) found them. This is due whenever
    /// a plan is run, and not only when it is made: another session may have made it, and a grant may have been revoked.
    pub fn may_read(&self, tables: &[QualifiedName]) -> Result<()> {
        tables.iter().try_for_each(|table| match table.schema.as_str() {
            FILES => self.may_read_file(&table.name),
            SYSTEM_SCHEMA if !FOR_SUPERUSERS.contains(&table.name.as_str()) => Ok(()),
            SYSTEM_SCHEMA | PG_CATALOG => self.require_superuser(&format!("reading `{table}`")),
            _ => self.may_select(std::slice::from_ref(table)),
        })
    }

    /// Checks a change of schemas and tables.
    pub fn may_change(&self, change: &DdlStatement) -> Result<()> {
        let may_create = |name: &TableReference| self.may_create(table_in(name, self.settings)?);
        match change {
            DdlStatement::CreateExternalTable(create) => {
                may_create(&create.name)?;
                create.locations.iter().try_for_each(|location| self.may_read_files(location))
            }
            DdlStatement::CreateCatalogSchema(create) => {
                let name = schema_name(&create.schema_name)?;
                self.require_superuser(&format!("creating schema `{name}`"))
            }
            DdlStatement::DropCatalogSchema(_) => self.require_superuser("dropping a schema"),
            other => self.require_superuser(&other.name().to_lowercase()),
        }
    }
}

/// Whether a path is within the server's folders, or contains one of them.
fn is_of_server(data_dir: &Path, catalog: &CatalogSnapshot, wanted: &Path) -> bool {
    let stores = catalog.disk_stores.values().map(|store| data_dir.join(&store.folder));
    // These folders may be links to other disks.
    let folders = ["", "cubes", "tmp"].map(|folder| data_dir.join(folder));
    let mut own = stores.chain(folders).map(|own| real_path(&own));
    own.any(|own| wanted.starts_with(&own) || own.starts_with(wanted))
}
