//! The tables of one schema of a snapshot, as DataFusion looks them up.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::SchemaProvider;
use datafusion::datasource::TableProvider;

use crate::error::QueryError;
use crate::scan::ExternalTable;

/// A table, or why it cannot be opened.
pub(super) type OpenedTable = Result<Arc<ExternalTable>, QueryError>;

/// An immutable schema.
#[derive(Debug)]
pub(super) struct SnapshotSchema {
    tables: BTreeMap<String, OpenedTable>,
}

impl SnapshotSchema {
    pub(super) fn new(tables: BTreeMap<String, OpenedTable>) -> Self {
        Self { tables }
    }
}

#[async_trait]
impl SchemaProvider for SnapshotSchema {
    fn table_names(&self) -> Vec<String> {
        self.tables.keys().cloned().collect()
    }

    async fn table(&self, name: &str) -> datafusion::error::Result<Option<Arc<dyn TableProvider>>> {
        match self.tables.get(name) {
            Some(Ok(table)) => Ok(Some(Arc::clone(table) as Arc<dyn TableProvider>)),
            Some(Err(error)) => Err(error.clone().into()),
            None => Ok(None),
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables.contains_key(name)
    }
}
