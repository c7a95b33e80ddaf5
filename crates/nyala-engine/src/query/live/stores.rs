//! `CREATE DISK STORE`, `DROP DISK STORE`, and removal of the rows of dropped tables.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use datafusion::sql::sqlparser::ast::Ident;
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_catalog::{CatalogError, Change};
use nyala_cube::live::{LiveStores, OpenStore, check_options};
use nyala_model::DiskStoreEntry;
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::{StatementOption, folded};
use nyala_storage::oplog::{DiskStore, OplogError};

use super::dual_write::{Asked, dual_write};
use super::orphaned_segments::drop_lost_segments;
use super::{alter, blocking};
use crate::query::answer::{Answer, Completion};
use crate::query::authorize::Caller;
use crate::query::command::Command;
use crate::query::engine::Engine;
use crate::query::execution::Execution;

/// How often this node looks for tables that others dropped.
const DROPPED_ELSEWHERE: Duration = Duration::from_secs(10);
/// The store of tables that name none. It is made when it is first needed.
const DEFAULT_STORE: &str = "main";

/// How long a DROP waits for the rows of its tables to be removed. The tables are gone already, so the
/// removal goes on without it.
const REMOVAL: Duration = Duration::from_secs(5);

/// `CREATE DISK STORE`.
pub struct CreateStore<'s> {
    pub name: &'s Ident,
    pub if_not_exists: bool,
    pub folder: Option<&'s str>,
    pub options: &'s [StatementOption],
}

impl Command for CreateStore<'_> {
    fn authorize(&self, caller: &Caller<'_>) -> Result<()> {
        caller.require_superuser("changing disk stores")
    }

    fn run<'a>(&'a self, execution: Execution<'a>) -> BoxFuture<'a, Result<Answer>> {
        create(self, execution).boxed()
    }
}

/// `DROP DISK STORE`: forgets a store that no table lives in. Its folder stays where it is.
pub struct DropStore<'s> {
    pub name: &'s Ident,
    pub if_exists: bool,
}

impl Command for DropStore<'_> {
    fn authorize(&self, caller: &Caller<'_>) -> Result<()> {
        caller.require_superuser("changing disk stores")
    }

    fn run<'a>(&'a self, execution: Execution<'a>) -> BoxFuture<'a, Result<Answer>> {
        async move {
            let (own, name, if_exists) =
                (Arc::clone(execution.engine()), store_name(self.name), self.if_exists);
            let work = move |asked| async move { remove(&own, name, if_exists, asked).await };
            dual_write(&execution, work).await?;
            Ok(Completion::of("DROP DISK STORE"))
        }
        .boxed()
    }
}

async fn create(statement: &CreateStore<'_>, execution: Execution<'_>) -> Result<Answer> {
    let engine = execution.engine();
    let CreateStore { name, if_not_exists, folder, options } = *statement;
    let name = store_name(name);
    if is_there(engine, &name, if_not_exists)? {
        return Ok(Completion::of("CREATE DISK STORE"));
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
    let node = engine.node.clone();
    let entry = DiskStoreEntry { name, folder, options: given, leftovers: BTreeSet::new(), node };
    add(&execution, entry, if_not_exists).await?;
    Ok(Completion::of("CREATE DISK STORE"))
}

/// The store of this name. Without a name the default store, made with default options if it is missing. A temporary table
/// lives on the node of its session: if the default store is elsewhere, in one that this node has for that.
pub async fn find_or_make(
    execution: &Execution<'_>,
    name: Option<&str>,
    is_temporary: bool,
) -> Result<Arc<OpenStore>> {
    let engine = execution.engine();
    let usual = engine.snapshots.live().find(DEFAULT_STORE);
    let is_elsewhere = usual.is_some_and(|store| !engine.node.owns(store.node()));
    let own = format!("{DEFAULT_STORE}-{}", engine.node);
    let usual = if is_temporary && is_elsewhere { own.as_str() } else { DEFAULT_STORE };
    let wanted = name.unwrap_or(usual);
    if let Some(store) = engine.snapshots.live().find(wanted) {
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
        node: engine.node.clone(),
    };
    add(execution, entry, true).await?;
    let found = engine.snapshots.live().find(wanted);
    found.ok_or_else(|| QueryError::internal(format!("disk store `{wanted}` was not added")))
}

/// Whether there is a store of this name; without `if_not_exists` that is an error.
fn is_there(engine: &Engine, name: &str, if_not_exists: bool) -> Result<bool> {
    let is_there = engine.snapshots.catalog().snapshot().disk_stores.contains_key(name);
    if is_there && !if_not_exists {
        return Err(CatalogError::AlreadyExists { what: "disk store", name: name.to_owned() }.into());
    }
    Ok(is_there)
}

/// Opens a store, which makes its folder, and records it. Opening may take long: meanwhile only statements on
/// the same folder wait.
async fn add(execution: &Execution<'_>, entry: DiskStoreEntry, if_not_exists: bool) -> Result<()> {
    let own = Arc::clone(execution.engine());
    let work = move |asked: Asked| async move {
        let folder = own.data_dir.join(&entry.folder);
        let _alone = own.store_changes.folders.take(&folder).await;
        asked.check()?;
        let is_there = {
            // A store is recorded and listed under this lock: a recorded store can be found.
            let _one_at_a_time = own.store_changes.one_at_a_time.lock().await;
            is_there(&own, &entry.name, if_not_exists)?
        };
        if is_there {
            // Another node may have made the store a moment ago.
            return own.snapshots.refresh().await;
        }
        let store = own.snapshots.live().open(entry.clone()).await?;
        let recorded = record(&own, &store, entry, if_not_exists, asked).await;
        match recorded {
            Ok(true) => own.snapshots.refresh().await,
            // The statement was cancelled, or another store has got this name and is found from now on: this one is closed.
            not_recorded => {
                close(store).await?;
                not_recorded?;
                own.snapshots.refresh().await
            }
        }
    };
    dual_write(execution, work).await
}

/// Records an open store in the catalog and lists it. Returns whether its name was free.
async fn record(
    engine: &Engine,
    store: &Arc<OpenStore>,
    entry: DiskStoreEntry,
    if_not_exists: bool,
    asked: Asked,
) -> Result<bool> {
    let _one_at_a_time = engine.store_changes.one_at_a_time.lock().await;
    asked.begin().await?;
    let done =
        engine.snapshots.catalog().commit(Change::CreateDiskStore { store: entry, if_not_exists }).await?;
    if done.changed {
        engine.snapshots.live().add(Arc::clone(store));
    }
    Ok(done.changed)
}

async fn remove(engine: &Engine, name: String, if_exists: bool, asked: Asked) -> Result<()> {
    // A store that another node has just made is not dropped while that node has it open.
    if engine.catalog().is_shared() {
        engine.catalog().refresh().await?;
    }
    engine.snapshots.refresh().await?;
    let entry = engine.snapshots.catalog().snapshot().disk_stores.get(&name).cloned();
    let folder = entry.map(|entry| engine.data_dir.join(&entry.folder));
    if let Some(store) = engine.snapshots.live().find(&name).filter(|store| !engine.node.owns(store.node())) {
        // Only the store's own node can close it. This fails with an error that names that node.
        store.ready()?;
    }
    // A CREATE on the same folder waits until the store is closed.
    let _alone = match &folder {
        Some(folder) => Some(engine.store_changes.folders.take(folder).await),
        None => None,
    };
    let removed = {
        let _one_at_a_time = engine.store_changes.one_at_a_time.lock().await;
        asked.begin().await?;
        engine.snapshots.catalog().commit(Change::DropDiskStore { name: name.clone(), if_exists }).await?;
        engine.snapshots.live().remove(&name)
    };
    if let Some(store) = removed {
        close(store).await?;
    }
    engine.snapshots.refresh().await
}

async fn close(store: Arc<OpenStore>) -> Result<()> {
    blocking(move || {
        LiveStores::close(&store);
        Ok(())
    })
    .await
}

fn store_name(name: &Ident) -> String {
    folded(name)
}

fn default_folder(name: &str) -> String {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    match plain && !name.is_empty() {
        true => format!("stores/{name}"),
        // Other names are not valid folder names on every system.
        false => format!("stores/{}", blake3::hash(name.as_bytes()).to_hex()),
    }
}

/// A folder in the form that is recorded: absolute, and allowed.
fn check_folder(engine: &Engine, text: &str) -> Result<String> {
    let location = engine.snapshots.stores().check_store(text)?;
    let path = location.local_path().ok_or_else(|| {
        QueryError::new(ErrorKind::InvalidDefinition, format!("`{text}` is not a folder of this machine"))
            .hint("a disk store lies on a local disk")
    })?;
    path.to_str().map(str::to_owned).ok_or_else(|| {
        QueryError::new(ErrorKind::InvalidDefinition, format!("`{text}` is not a folder name in UTF-8"))
    })
}

/// Removes the rows of tables that were dropped from the catalog, in the `stores` that are open. The others
/// do it once they are open.
///
/// The tables are gone already, so an error here is no error of the statement. A failed removal is repeated
/// after the next DROP of a table in the same store, and at the next start.
pub async fn forget_leftovers(execution: &Execution<'_>, stores: BTreeSet<String>) {
    if stores.is_empty() {
        return;
    }
    let own = Arc::clone(execution.engine());
    let work = move |_: Asked| async move {
        forget_dropped(&own, stores).await;
        Ok(())
    };
    // A DROP that has dropped its tables must not report that it has not.
    let removing = tokio::time::timeout(REMOVAL, dual_write(execution, work));
    let removed = execution.deadline.hand_over(removing).await;
    if let Ok(Err(error)) = removed {
        tracing::warn!(%error, "rows of dropped tables may still be in their disk stores");
    }
}

/// Removes the leftovers of one store.
pub async fn forget_in(engine: &Engine, store: &OpenStore, open: &Arc<DiskStore>) {
    let snapshot = engine.snapshots.catalog().snapshot();
    let entry = snapshot.disk_stores.get(store.name());
    for stored_as in entry.map(|entry| entry.leftovers.clone()).unwrap_or_default() {
        if let Err(error) = forget(engine, store.name(), open, &stored_as).await {
            let store = store.name();
            tracing::warn!(%store, table = %stored_as, %error, "rows of a dropped table are still in their disk store");
        }
    }
}

async fn forget(engine: &Engine, store: &str, open: &Arc<DiskStore>, stored_as: &str) -> Result<()> {
    // The lock keeps a new table from taking this name.
    let _one_at_a_time = engine.store_changes.one_at_a_time.lock().await;
    let snapshot = engine.snapshots.catalog().snapshot();
    let entry = snapshot.disk_stores.get(store);
    let is_left_over = entry.is_some_and(|entry| entry.leftovers.contains(stored_as));
    if !is_left_over {
        return Ok(());
    }
    let mut known = snapshot.tables.values().filter_map(|table| table.live());
    let is_known = known.any(|live| live.store == store && live.stored_as == stored_as);
    // A table in the catalog keeps its rows, even under the name of a leftover.
    if !is_known {
        let (open, name) = (Arc::clone(open), stored_as.to_owned());
        blocking(move || match open.table(&name).and_then(|table| table.drop_table()) {
            Ok(_) | Err(OplogError::NoTable { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        })
        .await?;
    }
    let change = Change::ForgetLeftover { store: store.to_owned(), stored_as: stored_as.to_owned() };
    engine.snapshots.catalog().commit(change).await?;
    Ok(())
}

/// Removes the rows of tables that were dropped from the catalog, in the `stores` that are open on this node.
pub async fn forget_dropped(engine: &Arc<Engine>, stores: BTreeSet<String>) {
    for store in stores {
        if let Some(store) = engine.snapshots.live().find(&store)
            && let Ok(Some(open)) = store.ready()
        {
            forget_in(engine, &store, &open).await;
        }
    }
}

/// Completes in each store, once it is open, the work that the last process left. Nothing waits for it. Work
/// that is left when the engine stops is done at its next start.
pub fn forget_leftovers_later(engine: &Arc<Engine>) {
    for store in engine.snapshots.live().all() {
        let own = Arc::clone(engine);
        later(engine, async move { complete(&own, &store).await });
    }
    let own = Arc::clone(engine);
    later(engine, async move {
        if let Err(error) = drop_lost_segments(&own).await {
            tracing::warn!(%error, "cubes may have segments that are newer than their disk stores");
        }
    });
}

/// Removes the rows of tables that other nodes dropped from the catalog, at intervals, for as long as the engine is there.
pub async fn forget_dropped_elsewhere(engine: Weak<Engine>) {
    loop {
        tokio::time::sleep(DROPPED_ELSEWHERE).await;
        let Some(engine) = engine.upgrade() else { return };
        let snapshot = engine.snapshots.catalog().snapshot();
        let left = snapshot.disk_stores.values().filter(|store| !store.leftovers.is_empty());
        let own = left.filter(|store| engine.node.owns(&store.node));
        forget_dropped(&engine, own.map(|store| store.name.clone()).collect()).await;
    }
}

fn later(engine: &Engine, work: impl Future<Output = ()> + Send + 'static) {
    engine.runtime.spawn(work);
}

async fn complete(engine: &Engine, store: &OpenStore) {
    // A store that cannot be opened keeps its leftovers until it can.
    let Ok(open) = store.opened().await else { return };
    if let Err(error) = alter::reconcile_all(engine, store.name()).await {
        tracing::warn!(store = %store.name(), %error, "tables may have other columns than the catalog says");
    }
    forget_in(engine, store, &open).await;
    if let Err(error) = forget_unborn(engine, store, &open).await {
        tracing::warn!(store = %store.name(), %error, "a disk store may have tables that nobody knows");
    }
}

/// Removes tables that a crash kept out of the catalog. Their statements were never confirmed, so they have
/// no rows; a table with rows belongs to another catalog, and stays.
async fn forget_unborn(engine: &Engine, store: &OpenStore, open: &DiskStore) -> Result<()> {
    let _one_at_a_time = engine.store_changes.one_at_a_time.lock().await;
    let snapshot = engine.snapshots.catalog().snapshot();
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
    Ok(())
}
