//! Rules for changes of disk stores and live tables: a part of [`rules`](crate::rules).

use std::collections::BTreeMap;
use std::sync::Arc;

use nyala_model::suggest::nearest;
use nyala_model::{CatalogSnapshot, DiskStoreEntry, TableEntry, TableId, TableSource};

use crate::edit::Edit;
use crate::error::CatalogError;
use crate::lookup::list;
use crate::rules::Edits;

pub fn create_store(base: &CatalogSnapshot, store: &DiskStoreEntry, if_not_exists: bool) -> Edits {
    match (base.disk_stores.get(&store.name), if_not_exists) {
        (Some(_), true) => return Ok(Vec::new()),
        (Some(_), false) => {
            return Err(CatalogError::AlreadyExists { what: "disk store", name: store.name.clone() });
        }
        (None, _) => {}
    }
    // A path names a folder of one machine: on another node the same path is another folder.
    let is_taken =
        |other: &&Arc<DiskStoreEntry>| other.folder == store.folder && store.node.owns(&other.node);
    if let Some(other) = base.disk_stores.values().find(is_taken) {
        let by = format!("disk store `{}`", other.name);
        return Err(CatalogError::InUse { what: "folder", name: store.folder.clone(), by });
    }
    Ok(vec![Edit::PutDiskStore(Arc::new(store.clone()))])
}

pub fn drop_store(base: &CatalogSnapshot, name: &str, if_exists: bool) -> Edits {
    let store = match find_store(base, name) {
        Ok(store) => store,
        Err(_) if if_exists => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let tables = base.tables.values().filter(|table| table.live().is_some_and(|live| live.store == name));
    let by = list(tables.map(|table| ("table", &table.name)));
    if !by.is_empty() {
        return Err(CatalogError::InUse { what: "disk store", name: name.to_owned(), by });
    }
    Ok(vec![Edit::RemoveDiskStore(store.name.clone())])
}

/// The disk stores of dropped tables, with the tables as leftovers: their rows are removed later.
pub fn leave_over(base: &CatalogSnapshot, tables: &[&Arc<TableEntry>]) -> impl Iterator<Item = Edit> + use<> {
    let mut stores: BTreeMap<String, DiskStoreEntry> = BTreeMap::new();
    for live in tables.iter().filter_map(|table| table.live()) {
        if let Some(store) = base.disk_stores.get(&live.store) {
            let store = stores.entry(live.store.clone()).or_insert_with(|| store.as_ref().clone());
            store.leftovers.insert(live.stored_as.clone());
        }
    }
    stores.into_values().map(|store| Edit::PutDiskStore(Arc::new(store)))
}

pub fn forget_leftover(base: &CatalogSnapshot, store: &str, stored_as: &str) -> Edits {
    let mut store = find_store(base, store)?.as_ref().clone();
    let was_there = store.leftovers.remove(stored_as);
    Ok(was_there.then(|| Edit::PutDiskStore(Arc::new(store))).into_iter().collect())
}

pub fn alter_table(
    base: &CatalogSnapshot,
    id: TableId,
    schema_ipc: &[u8],
    defaults: &BTreeMap<String, String>,
    definition: &str,
) -> Edits {
    let table = base.tables.values().find(|table| table.id == id && table.live().is_some());
    let table = table.ok_or_else(|| CatalogError::NotFound {
        what: "live table",
        name: id.to_string(),
        suggestion: None,
    })?;
    let mut next = table.as_ref().clone();
    schema_ipc.clone_into(&mut next.schema_ipc);
    if let TableSource::Live(source) = &mut next.source {
        source.defaults.clone_from(defaults);
    }
    definition.clone_into(&mut next.definition);
    Ok(if next == **table { Vec::new() } else { vec![Edit::SetTable(Arc::new(next))] })
}

pub fn find_store<'a>(
    base: &'a CatalogSnapshot,
    name: &str,
) -> Result<&'a Arc<DiskStoreEntry>, CatalogError> {
    base.disk_stores.get(name).ok_or_else(|| {
        let suggestion = nearest(name, base.disk_stores.keys().map(String::as_str)).map(str::to_owned);
        CatalogError::NotFound { what: "disk store", name: name.to_owned(), suggestion }
    })
}
