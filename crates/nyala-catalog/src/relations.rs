//! Rules for changes of tables and views: a part of [`rules`](crate::rules).

use std::collections::BTreeSet;
use std::sync::Arc;

use nyala_model::{CatalogSnapshot, QualifiedName, TableEntry, TableId, TableSource};

use crate::change::NewTable;
use crate::edit::Edit;
use crate::error::CatalogError;
use crate::live;
use crate::lookup::{check_name_is_free, check_unused, find_table, list, missing, object_not_found};
use crate::rules::Edits;

pub fn create(base: &CatalogSnapshot, id: TableId, table: &NewTable, if_not_exists: bool) -> Edits {
    if if_not_exists && base.tables.contains_key(&table.name) {
        return Ok(Vec::new());
    }
    check_name_is_free(base, &table.name)?;
    check_inputs(base, table)?;
    let mut edits = vec![Edit::AddTable(Arc::new(table.clone().into_entry(id)))];
    if let TableSource::Live(source) = &table.source {
        // Leftovers are removed from the store; the rows of an existing table must not be.
        edits.extend(live::forget_leftover(base, &source.store, &source.stored_as)?);
    }
    Ok(edits)
}

pub fn replace_view(base: &CatalogSnapshot, id: TableId, view: &NewTable) -> Edits {
    let Some(before) = base.tables.get(&view.name) else { return create(base, id, view, false) };
    if before.view().is_none() {
        let name = view.name.to_string();
        return Err(CatalogError::WrongKind { name, is: before.kind(), wanted: "view" });
    }
    check_unused(base, before, |_| true)?;
    check_inputs(base, view)?;
    let after = Arc::new(view.clone().into_entry(before.id));
    if inputs(base, &after).contains(&before.id) {
        return Err(CatalogError::ReadsItself { name: view.name.to_string() });
    }
    Ok(vec![Edit::SetTable(after)])
}

/// A table may have been dropped since the query of a view was planned.
fn check_inputs(base: &CatalogSnapshot, table: &NewTable) -> Result<(), CatalogError> {
    let TableSource::View(source) = &table.source else { return Ok(()) };
    let gone = |id: &TableId| !base.tables.values().any(|table| table.id == *id);
    match source.reads.iter().find(|(_, id)| gone(id)) {
        Some((name, _)) => Err(object_not_found(base, "table", name, base.tables.keys())),
        None => Ok(()),
    }
}

/// The tables that a view reads, itself or through other views.
fn inputs(base: &CatalogSnapshot, view: &TableEntry) -> BTreeSet<TableId> {
    let reads = |table: &TableEntry| -> Vec<TableId> {
        table.view().into_iter().flat_map(|view| &view.reads).map(|(_, id)| *id).collect()
    };
    let (mut found, mut open) = (BTreeSet::new(), reads(view));
    while let Some(id) = open.pop() {
        if found.insert(id)
            && let Some(table) = base.tables.values().find(|table| table.id == id)
        {
            open.extend(reads(table));
        }
    }
    found
}

/// Drops tables, or views if `views`. With `if_exists` a missing one is no error; with `cascade` the views that read them are dropped, too.
pub fn drop(
    base: &CatalogSnapshot,
    names: &[QualifiedName],
    (views, if_exists, cascade): (bool, bool, bool),
) -> Edits {
    let mut wanted: Vec<&Arc<TableEntry>> = Vec::new();
    for name in names {
        match find(base, name, views) {
            Ok(table) if wanted.iter().any(|other| other.id == table.id) => {}
            Ok(table) => wanted.push(table),
            Err(error) => drop_nothing(missing(error, if_exists)?),
        }
    }
    let all = with_readers(base, wanted.clone());
    if !cascade && all.len() > wanted.len() {
        let named = |view: &&&Arc<TableEntry>| wanted.iter().all(|table| table.id != view.id);
        let by = list(all.iter().filter(named).map(|view| ("view", &view.name)));
        let (what, name) =
            wanted.first().map(|table| (table.kind(), table.name.to_string())).unwrap_or_default();
        return Err(CatalogError::InUse { what, name, by });
    }
    all.iter().try_for_each(|table| check_unused(base, table, |_| true))?;
    let stores = live::leave_over(base, &all);
    Ok(stores.chain(all.into_iter().cloned().map(Edit::RemoveTable)).collect())
}

fn drop_nothing(_: Vec<Edit>) {}

fn find<'a>(
    base: &'a CatalogSnapshot,
    name: &QualifiedName,
    view: bool,
) -> Result<&'a Arc<TableEntry>, CatalogError> {
    let wanted = if view { "view" } else { "table" };
    match base.tables.get(name) {
        Some(table) if table.view().is_some() == view => Ok(table),
        Some(table) => Err(CatalogError::WrongKind { name: name.to_string(), is: table.kind(), wanted }),
        None => {
            let same = base.tables.iter().filter(|(_, table)| table.kind() == wanted);
            Err(object_not_found(base, wanted, name, same.map(|(name, _)| name)))
        }
    }
}

/// The tables, and the views that read them, themselves or through other views.
pub fn with_readers<'a>(
    base: &'a CatalogSnapshot,
    mut tables: Vec<&'a Arc<TableEntry>>,
) -> Vec<&'a Arc<TableEntry>> {
    let mut ids: BTreeSet<TableId> = tables.iter().map(|table| table.id).collect();
    loop {
        let before = tables.len();
        for table in base.tables.values() {
            let reads = table.view().is_some_and(|view| view.reads.iter().any(|(_, id)| ids.contains(id)));
            if reads && ids.insert(table.id) {
                tables.push(table);
            }
        }
        if tables.len() == before {
            return tables;
        }
    }
}

pub fn rename(
    base: &CatalogSnapshot,
    name: &QualifiedName,
    to: &QualifiedName,
    if_exists: bool,
    statement: &str,
) -> Edits {
    let table = match find_table(base, name) {
        Ok(table) => table,
        Err(error) => return missing(error, if_exists),
    };
    check_name_is_free(base, to)?;
    check_unused(base, table, |_| true)?;
    let mut next = table.as_ref().clone();
    next.name = to.clone();
    next.definition = format!("{}; {statement}", next.definition);
    Ok(vec![Edit::RenameTable(name.clone(), Arc::new(next))])
}
