//! A live table of the catalog, whether or not its store is open.

use std::sync::{Arc, OnceLock};

use arrow::record_batch::RecordBatch;
use nyala_model::{LiveSource, TableEntry};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_storage::oplog::{LiveTable, OplogError, Version};
use tokio::sync::Mutex;

use super::column_rules::ColumnRules;
use super::pins::Pins;
use super::store::{OpenStore, OpenedAt};

/// A live table as the catalog knows it, with the store that has its rows.
#[derive(Debug)]
pub struct LiveRef {
    entry: Arc<TableEntry>,
    source: LiveSource,
    store: Option<Arc<OpenStore>>,
    table: OnceLock<LiveTable>,
    rules: OnceLock<ColumnRules>,
    /// Lock of statements that read rows and write them back, once they have conflicted with another one. So each of many
    /// statements that change the same row gets its turn.
    pub turn: Mutex<()>,
}

impl LiveRef {
    /// The table of `entry`, whose rows are in `store`.
    pub fn new(entry: Arc<TableEntry>, source: LiveSource, store: Option<Arc<OpenStore>>) -> Self {
        Self { entry, source, store, table: OnceLock::new(), rules: OnceLock::new(), turn: Mutex::new(()) }
    }

    /// The catalog's entry.
    pub fn entry(&self) -> &Arc<TableEntry> {
        &self.entry
    }

    /// Its place in a disk store.
    pub fn source(&self) -> &LiveSource {
        &self.source
    }

    /// The rows fitted to the table: numbers get the types of their columns, and blanks beyond a column's length are cut off.
    ///
    /// # Errors
    /// A text is too long for its column, or is no JSON in a column of JSON.
    pub fn fit(&self, rows: RecordBatch) -> Result<RecordBatch> {
        let rules = match (self.rules.get(), self.ready()?) {
            (Some(rules), _) => rules,
            (None, Some(table)) => {
                self.rules.get_or_init(|| ColumnRules::of(&table.schema(), &self.entry.definition))
            }
            // The store is not open, which writing the rows will report.
            (None, None) => return Ok(rows),
        };
        rules.fit(rows)
    }

    /// The table, if its store is open.
    pub fn ready(&self) -> Result<Option<LiveTable>> {
        if let Some(table) = self.table.get() {
            return Ok(Some(table.clone()));
        }
        match self.store()?.ready()? {
            Some(store) => self.find(&store).map(Some),
            None => Ok(None),
        }
    }

    /// The table, as soon as its store is open.
    pub async fn opened(&self) -> Result<LiveTable> {
        match self.table.get() {
            Some(table) => Ok(table.clone()),
            None => self.find(&*self.store()?.opened().await?),
        }
    }

    /// The version that a statement with these `pins` reads, and the store's state when it was opened; none if the store
    /// is not open yet.
    pub fn pinned(&self, pins: &Pins) -> Result<Option<(Arc<Version>, OpenedAt)>> {
        let Some(table) = self.ready()? else { return Ok(None) };
        let version = pins.get_or(self.entry.id, || table.version());
        Ok(self.store()?.opened_at().map(|opened| (version, opened)))
    }

    fn store(&self) -> Result<&Arc<OpenStore>> {
        self.store.as_ref().ok_or_else(|| {
            let (store, table) = (&self.source.store, &self.entry.name);
            QueryError::new(ErrorKind::Unreadable, format!("disk store `{store}` of table `{table}` is gone"))
        })
    }

    fn find(&self, store: &nyala_storage::oplog::DiskStore) -> Result<LiveTable> {
        let table = store.table(&self.source.stored_as).map_err(|error| match error {
            OplogError::NoTable { .. } => QueryError::new(
                ErrorKind::Unreadable,
                format!("table `{}` is not in disk store `{}`", self.entry.name, self.source.store),
            )
            .hint("its folder may be that of another time; restore it, or drop the table"),
            other => other.into(),
        })?;
        Ok(self.table.get_or_init(|| table).clone())
    }
}
