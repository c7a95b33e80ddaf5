//! `CREATE DISK STORE`, `DROP DISK STORE`, and what dropped tables leave behind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::Ident;
use nyala_catalog::{CatalogError, Change};
use nyala_model::{CatalogSnapshot, DiskStoreEntry};
use nyala_storage::object::{Location, check_allowed};
use nyala_storage::oplog::OplogError;

use super::blocking;
use super::lost::drop_lost_segments;
use crate::error::{ErrorKind, QueryError, Result};
use crate::live::{LiveStores, OpenStore, check_options};
use crate::query::answer::{Answer, Completion};
use crate::query::engine::Engine;
use crate::statement::StatementOption;

/// The store of tables that name none. It is made when it is first needed.
const DEFAULT_STORE: &str = "main";

pub(super) async fn create(
    engine: &Arc<Engine>,
    name: &Ident,
    if_not_exists: bool,
    folder: Option<&str>,
    options: &[StatementOption],
) -> Result<Answer> {
    let name = store_name(name);
    if engine.catalog().snapshot().disk_stores.contains_key(&name) {
        return match if_not_exists {
            true => Ok(Completion::of("CREATE DISK STORE")),
            false => Err(CatalogError::AlreadyExists { what: "disk store", name }.into()),
        };
    }
    let mut given = BTreeMap::new();
    for StatementOption { name, value } in options {
        if given.insert(name.clone(), value.clone()).is_some() {
            let message = format!("option `{name}` is given twice");
            return Err(QueryError::new(ErrorKind::InvalidDefinition, message));
        }
    }
    check_options(&given)?;
    let folder = match folder {
        Some(folder) => check_folder(engine, folder)?,
        None => default_folder(&name),
    };
    let entry = DiskStoreEntry { name, folder, options: given, leftovers: BTreeSet::new() };
    add(engine, entry, if_not_exists).await?;
    Ok(Completion::of("CREATE DISK STORE"))
}

/// The store of this name, made with all defaults if it is the one of tables that name none.
pub(super) async fn find_or_make(engine: &Arc<Engine>, name: Option<&str>) -> Result<Arc<OpenStore>> {
    let wanted = name.unwrap_or(DEFAULT_STORE);
    if let Some(store) = engine.live().find(wanted) {
        return Ok(store);
    }
    if name.is_some() {
        let error =
            QueryError::new(ErrorKind::UndefinedObject, format!("disk store `{wanted}` does not exist"));
        return Err(
            error.hint("CREATE DISK STORE makes one; a table that names none lives in the default one")
        );
    }
    let entry = DiskStoreEntry {
        name: wanted.to_owned(),
        folder: default_folder(wanted),
        options: BTreeMap::new(),
        leftovers: BTreeSet::new(),
    };
    add(engine, entry, true).await?;
    let found = engine.live().find(wanted);
    found.ok_or_else(|| QueryError::internal(format!("disk store `{wanted}` was not added")))
}

/// Opens a store, which makes its folder, and records it.
async fn add(engine: &Arc<Engine>, entry: DiskStoreEntry, if_not_exists: bool) -> Result<()> {
    let _one_at_a_time = engine.stores_change.lock().await;
    if if_not_exists && engine.catalog().snapshot().disk_stores.contains_key(&entry.name) {
        return Ok(());
    }
    let store = engine.live().open(entry.clone()).await?;
    let committed = engine.catalog().commit(Change::CreateDiskStore { store: entry, if_not_exists }).await;
    if let Err(error) = committed {
        close(store).await?;
        return Err(error.into());
    }
    engine.live().add(store);
    engine.refresh().await
}

/// Forgets a store that no table lives in. Its folder stays where it is.
pub(super) async fn drop(engine: &Arc<Engine>, name: &Ident, if_exists: bool) -> Result<Answer> {
    let _one_at_a_time = engine.stores_change.lock().await;
    let name = store_name(name);
    engine.catalog().commit(Change::DropDiskStore { name: name.clone(), if_exists }).await?;
    if let Some(store) = engine.live().remove(&name) {
        close(store).await?;
    }
    engine.refresh().await?;
    Ok(Completion::of("DROP DISK STORE"))
}

async fn close(store: Arc<OpenStore>) -> Result<()> {
    blocking(move || {
        LiveStores::close(&store);
        Ok(())
    })
    .await
}

fn store_name(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

fn default_folder(name: &str) -> String {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    match plain && !name.is_empty() {
        true => format!("stores/{name}"),
        // Other names are no names of folders everywhere.
        false => format!("stores/{}", blake3::hash(name.as_bytes()).to_hex()),
    }
}

/// A folder as it is recorded: absolute, and one that may be used.
fn check_folder(engine: &Engine, text: &str) -> Result<String> {
    let location = Location::parse(text)?.into_folder();
    check_allowed(&location, engine.stores().config())?;
    let path = location.local_path().ok_or_else(|| {
        QueryError::new(ErrorKind::InvalidDefinition, format!("`{text}` is not a folder of this machine"))
            .hint("a disk store lies on a local disk")
    })?;
    path.to_str().map(str::to_owned).ok_or_else(|| {
        QueryError::new(ErrorKind::InvalidDefinition, format!("`{text}` is not a folder name in UTF-8"))
    })
}

/// Removes the rows of tables that were dropped from the catalog, as soon as their stores are open.
pub(in crate::query) async fn forget_leftovers(engine: &Engine) -> Result<()> {
    let snapshot: Arc<CatalogSnapshot> = engine.catalog().snapshot();
    for entry in snapshot.disk_stores.values().filter(|store| !store.leftovers.is_empty()) {
        let Some(store) = engine.live().find(&entry.name) else { continue };
        // One that cannot be opened keeps its leftovers until it can.
        let Ok(open) = store.opened().await else { continue };
        for stored_as in entry.leftovers.clone() {
            let (open, name) = (Arc::clone(&open), stored_as.clone());
            blocking(move || match open.table(&name).and_then(|table| table.drop_table()) {
                Ok(_) | Err(OplogError::NoTable { .. }) => Ok(()),
                Err(error) => Err(error.into()),
            })
            .await?;
            let change = Change::ForgetLeftover { store: entry.name.clone(), stored_as };
            engine.catalog().commit(change).await?;
        }
    }
    Ok(())
}

/// Does the same without anybody waiting for it. What is not done when the engine stops is done at its next start.
pub(in crate::query) fn forget_leftovers_later(engine: &Arc<Engine>) {
    let (engine, stopping) = (Arc::clone(engine), engine.stopping.clone());
    let threads = engine.threads.execution().clone();
    threads.spawn(stopping.run_until_cancelled_owned(async move {
        if let Err(error) = forget_leftovers(&engine).await {
            tracing::warn!(%error, "rows of dropped tables are still in their disk stores");
        }
        if let Err(error) = forget_unborn(&engine).await {
            tracing::warn!(%error, "disk stores may have tables that nobody knows");
        }
        if let Err(error) = drop_lost_segments(&engine).await {
            tracing::warn!(%error, "cubes may have segments that are newer than their disk stores");
        }
    }));
}

/// Removes tables that a crash kept from getting into the catalog. Nobody was told of them, so they have no rows;
/// one that has is of another catalog, and stays.
async fn forget_unborn(engine: &Engine) -> Result<()> {
    for store in engine.live().all() {
        let Ok(open) = store.opened().await else { continue };
        let _one_at_a_time = engine.stores_change.lock().await;
        let snapshot = engine.catalog().snapshot();
        let lives = snapshot.tables.values().filter_map(|table| table.live());
        let mut known: BTreeSet<String> =
            lives.filter(|live| live.store == store.name()).map(|live| live.stored_as.clone()).collect();
        known.extend(snapshot.disk_stores.get(store.name()).into_iter().flat_map(|s| s.leftovers.clone()));
        for table in open.tables().into_iter().filter(|table| !known.contains(&table.name())) {
            let (name, rows) = (table.name(), table.version().rows());
            if rows > 0 || !table.version().damage().is_empty() {
                tracing::warn!(store = %store.name(), table = %name, rows, "a disk store has a table that is in no catalog");
                continue;
            }
            blocking(move || Ok(table.drop_table()?)).await?;
        }
    }
    Ok(())
}
