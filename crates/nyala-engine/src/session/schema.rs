//! The tables of one schema of a snapshot, as DataFusion looks them up.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::SchemaProvider;
use datafusion::datasource::TableProvider;
use nyala_cube::live::LiveProvider;
use nyala_cube::scan::ExternalTable;
use nyala_model::TableEntry;
use nyala_sql::error::QueryError;

use super::views::OpenView;

/// A table of the catalog, ready to be planned over.
#[derive(Debug, Clone)]
pub enum Table {
    /// Files.
    External(Arc<ExternalTable>),
    /// Rows that change.
    Live(Arc<LiveProvider>),
    /// Rows of a query.
    View(Arc<OpenView>),
}

impl Table {
    /// The catalog's entry.
    pub fn entry(&self) -> &Arc<TableEntry> {
        match self {
            Self::External(table) => table.entry(),
            Self::Live(table) => table.table().entry(),
            Self::View(view) => view.entry(),
        }
    }

    /// Whether both are one table, opened once.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::External(one), Self::External(other)) => Arc::ptr_eq(one, other),
            (Self::Live(one), Self::Live(other)) => Arc::ptr_eq(one, other),
            (Self::View(one), Self::View(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// The table as DataFusion reads it.
    pub fn provider(&self) -> Arc<dyn TableProvider> {
        match self {
            Self::External(table) => Arc::clone(table) as _,
            Self::Live(table) => Arc::clone(table) as _,
            Self::View(view) => Arc::clone(view) as _,
        }
    }

    /// This table; if it is live, with the versions of its rows.
    fn with_versions(&self) -> Self {
        match self {
            Self::External(_) | Self::View(_) => self.clone(),
            Self::Live(table) => Self::Live(Arc::new(table.with_versions())),
        }
    }
}

/// A table, or why it cannot be opened.
pub type OpenedTable = Result<Table, QueryError>;

/// An immutable schema.
#[derive(Debug)]
pub struct SnapshotSchema {
    tables: BTreeMap<String, OpenedTable>,
}

impl SnapshotSchema {
    pub fn new(tables: BTreeMap<String, OpenedTable>) -> Self {
        Self { tables }
    }

    /// This schema, in which live tables have the versions of their rows.
    pub fn with_versions(&self) -> Self {
        let tables = self.tables.iter();
        let versioned = |table: &OpenedTable| table.as_ref().map(Table::with_versions).map_err(Clone::clone);
        Self { tables: tables.map(|(name, table)| (name.clone(), versioned(table))).collect() }
    }
}

#[async_trait]
impl SchemaProvider for SnapshotSchema {
    fn table_names(&self) -> Vec<String> {
        self.tables.keys().cloned().collect()
    }

    async fn table(&self, name: &str) -> datafusion::error::Result<Option<Arc<dyn TableProvider>>> {
        match self.tables.get(name) {
            Some(Ok(table)) => Ok(Some(table.provider())),
            Some(Err(error)) => Err(error.clone().into()),
            None => Ok(None),
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables.contains_key(name)
    }
}
