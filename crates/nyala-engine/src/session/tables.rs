//! The tables of a snapshot, opened: unchanged ones are taken over from the snapshot before.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use datafusion::common::TableReference;
use datafusion::execution::SessionState;
use nyala_cube::live::{Finder, LiveProvider, LiveRef};
use nyala_cube::scan::{ExternalTable, decode_schema};
use nyala_model::suggest::nearest;
use nyala_model::{CatalogSnapshot, QualifiedName, TableEntry, TableSource};
use nyala_sql::error::{ErrorKind, QueryError};

use super::DEFAULT_SCHEMA;
use super::context::{ContextSource, SnapshotContext};
use super::schema::{OpenedTable, SnapshotSchema, Table};

/// Opens all tables of a snapshot that are no views; a table that cannot be opened becomes its error.
pub fn open_tables(
    snapshot: &CatalogSnapshot,
    source: &ContextSource,
    state: &SessionState,
    before: Option<&SnapshotContext>,
) -> HashMap<QualifiedName, OpenedTable> {
    let open = |(name, entry): (&QualifiedName, &Arc<TableEntry>)| {
        let kept = before
            .and_then(|before| before.tables.get(name))
            .filter(|table| matches!(table, Ok(table) if Arc::ptr_eq(table.entry(), entry)));
        let table = kept.cloned().unwrap_or_else(|| open_table(entry, source, state));
        (name.clone(), table)
    };
    snapshot.tables.iter().filter(|(_, entry)| entry.view().is_none()).map(open).collect()
}

fn open_table(entry: &Arc<TableEntry>, source: &ContextSource, state: &SessionState) -> OpenedTable {
    let shared = Arc::clone(entry);
    match &entry.source {
        TableSource::External(files) => {
            let table = ExternalTable::open(shared, files, state, &source.stores)?;
            Ok(Table::External(Arc::new(table)))
        }
        TableSource::View(_) => Err(QueryError::internal("a view was opened as a table")),
        TableSource::Live(live) => {
            let table = LiveRef::new(shared, live.clone(), source.live.find(&live.store));
            Ok(Table::Live(Arc::new(LiveProvider::new(Arc::new(table), decode_schema(entry)?, state)?)))
        }
    }
}

/// Finds live tables by their names; bare ones are of the default schema.
pub fn live_finder(tables: &Arc<HashMap<QualifiedName, OpenedTable>>) -> Finder {
    let tables = Arc::clone(tables);
    Box::new(move |name| {
        let reference = TableReference::from(name);
        let name = QualifiedName::new(reference.schema().unwrap_or(DEFAULT_SCHEMA), reference.table());
        match tables.get(&name) {
            Some(Ok(Table::Live(table))) => Ok((Arc::clone(table.table()), table.stored_columns())),
            Some(Err(error)) => Err(error.clone()),
            Some(Ok(Table::External(_) | Table::View(_))) => {
                let message = format!("`{name}` is not a live table: its changes are not recorded");
                Err(QueryError::new(ErrorKind::Unsupported, message))
            }
            None => {
                let known = tables.keys().map(|table| table.name.as_str());
                let error =
                    QueryError::new(ErrorKind::UndefinedTable, format!("table `{name}` does not exist"));
                Err(match nearest(&name.name, known) {
                    Some(near) => error.hint(format!("did you mean `{near}`?")),
                    None => error,
                })
            }
        }
    })
}

/// The tables of one schema.
pub fn schema_of(schema: &str, tables: &HashMap<QualifiedName, OpenedTable>) -> SnapshotSchema {
    let own = tables.iter().filter(|(name, _)| name.schema == schema);
    let own: BTreeMap<_, _> = own.map(|(name, table)| (name.name.clone(), table.clone())).collect();
    SnapshotSchema::new(own)
}
