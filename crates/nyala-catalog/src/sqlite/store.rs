//! The catalog file, and the connections to it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use nyala_model::{
    CatalogSnapshot, JobEntry, JobId, JobKind, LeaseEntry, NodeEntry, NodeId, QualifiedName,
    QueryHistoryEntry,
};
use sqlx::SqlitePool;
use sqlx::pool::{PoolConnection, PoolOptions};
use sqlx::sqlite::{Sqlite, SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};

use super::file::{create_file, create_folder, is_empty, may_be_sqlite};
use super::mark::{self, Found, Mark};
use super::{apply, copy, history, jobs, load, restore, schema, seal};
use crate::change::Change;
use crate::error::{CatalogError, is_busy, is_damage, is_disk_full};
use crate::lease::{Fence, LeaseToken, LocalLeases};
use crate::store::{Applied, CatalogStore};

/// How long a statement waits while another process writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Only jobs, history and reloads read the file; queries read snapshots in memory.
const READERS: u32 = 2;

/// The catalog in one SQLite file.
///
/// Every write is one `BEGIN IMMEDIATE` transaction on the only writing connection, in WAL mode and
/// with an fsync before it is acknowledged: it survives `kill -9` and a power cut.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    mark: OnceLock<Mark>,
    pub(super) writer: SqlitePool,
    readers: SqlitePool,
    /// Leases are not stored, because one process at a time works on a data folder.
    leases: Mutex<LocalLeases>,
}

impl SqliteStore {
    /// Opens the file `path`, which is created with its folder if missing; brings an older format up to
    /// date and checks the file for damage.
    ///
    /// # Errors
    /// [`CatalogError::Open`], [`CatalogError::Corrupt`] or [`CatalogError::Newer`], each with the next
    /// step.
    pub async fn open(path: &Path) -> Result<Self, CatalogError> {
        let cannot_open = |source| CatalogError::Open { path: path.to_owned(), source };
        create_folder(path)?;
        let found = mark::read(path).map_err(cannot_open)?;
        let is_new = is_empty(path).map_err(cannot_open)?;
        if is_new && !matches!(found, Found::Missing | Found::Writes(0)) {
            return Err(lost(path));
        }
        create_file(path).map_err(cannot_open)?;
        let store = Self::over(path, path);
        let prepared = store.prepare(found).await;
        store.opened(prepared).await
    }

    /// Opens a copy of a catalog for changes, and ignores its mark. Errors name the file `shown`.
    pub(super) async fn open_copy(path: &Path, shown: &Path) -> Result<Self, CatalogError> {
        let store = Self::over(path, shown);
        let verified = store.verify(path).await;
        store.opened(verified).await
    }

    /// Makes a file with the entries of a snapshot, as a copy of another catalog. Fails if it is there.
    ///
    /// # Errors
    /// The file cannot be made or written.
    pub(crate) async fn create_copy(path: &Path, snapshot: &CatalogSnapshot) -> Result<(), CatalogError> {
        create_file(path).map_err(|source| CatalogError::Open { path: path.to_owned(), source })?;
        let store = Self::over(path, path);
        let written = async {
            schema::migrate(&mut *store.writer.acquire().await?).await?;
            Ok(apply::import(&store.writer, snapshot).await?)
        };
        let written = written.await;
        store.opened(written).await?.close().await;
        copy::sync(path).await
    }

    fn local_leases(&self) -> MutexGuard<'_, LocalLeases> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pools connect at first use, so that the first statement reports every error of opening.
    fn over(path: &Path, shown: &Path) -> Self {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .foreign_keys(true)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_TIMEOUT);
        let writer = options.clone().journal_mode(SqliteJournalMode::Wal).create_if_missing(true);
        Self {
            path: shown.to_owned(),
            mark: OnceLock::new(),
            writer: pool(1).connect_lazy_with(writer),
            readers: pool(READERS).connect_lazy_with(options.pragma("query_only", "ON")),
            leases: Mutex::default(),
        }
    }

    async fn opened(self, outcome: Result<(), CatalogError>) -> Result<Self, CatalogError> {
        let Err(error) = outcome.map_err(|error| self.explain(error)) else { return Ok(self) };
        // The caller may read or move the file as soon as this returns.
        self.close().await;
        Err(match error {
            CatalogError::Store(error) if !is_busy(&error) => self.cannot_open(keep_kind(error)),
            error => error,
        })
    }

    /// Closes all connections; the last moves the log of changes into the file.
    pub(super) async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }

    /// `found` is the mark as read before the database was opened.
    async fn prepare(&self, found: Found) -> Result<(), CatalogError> {
        self.verify(&self.path).await?;
        let mut connection = self.writer.acquire().await?;
        let format = schema::format(&mut connection).await?;
        let cannot_open = |source| self.cannot_open(source);
        let found = match found {
            // Files of older formats have no mark yet: one is made before the first change.
            Found::Missing if format < schema::FIRST_WITH_MARK => {
                Mark::open(&self.path, 0).map_err(cannot_open)?;
                Found::Writes(0)
            }
            // Another process may have created file and mark meanwhile.
            Found::Missing => mark::read(&self.path).map_err(cannot_open)?,
            found => found,
        };
        schema::migrate(&mut connection).await?;
        let writes = seal::writes(&mut connection).await?;
        drop(connection);
        match found {
            Found::Writes(marked) if marked > writes => {
                let lost = marked - writes;
                return Err(self.damaged(&format!("the last {lost} of its changes are missing")));
            }
            Found::Writes(_) => {}
            Found::Missing => return Err(self.unmarked("is missing")),
            Found::Damaged => return Err(self.unmarked("is damaged")),
        }
        let mark = Mark::open(&self.path, 0).map_err(cannot_open)?;
        mark.write(writes).await;
        // Only this function sets the mark, and it runs once for a store.
        let _ = self.mark.set(mark);
        Ok(())
    }

    /// Checks that `path` is an undamaged SQLite database of this program.
    async fn verify(&self, path: &Path) -> Result<(), CatalogError> {
        if !may_be_sqlite(path).map_err(|source| self.cannot_open(source))? {
            return Err(self.damaged("it does not begin as a SQLite database"));
        }
        let mut connection = self.writer.acquire().await?;
        match schema::find_damage(&mut connection).await? {
            Some(damage) => Err(self.damaged(&damage)),
            None => Ok(()),
        }
    }

    /// Writes the mark, before the change is acknowledged.
    async fn record(&self, writes: u64) {
        if let Some(mark) = self.mark.get() {
            mark.write(writes).await;
        }
    }

    /// Without a mark, lost changes cannot be detected.
    fn unmarked(&self, what: &str) -> CatalogError {
        let what = format!(
            "file `{}`, which tells whether catalog file `{}` is whole, {what}; run `nyala catalog restore --from {}` \
             to go on with the catalog as it is, or `nyala catalog restore` for its newest backup",
            mark::path_of(&self.path).display(),
            self.path.display(),
            self.path.display(),
        );
        CatalogError::Corrupt { what }
    }

    /// Adds the file's name and the next step to an error that means the file is damaged.
    pub(super) fn explain(&self, error: CatalogError) -> CatalogError {
        match error {
            CatalogError::Store(error) if is_damage(&error) => self.damaged(&error.to_string()),
            error => error,
        }
    }

    fn cannot_open(&self, source: io::Error) -> CatalogError {
        CatalogError::Open { path: self.path.clone(), source }
    }

    fn damaged(&self, reason: &str) -> CatalogError {
        let what = format!(
            "catalog file `{}` is damaged or not a catalog: {reason}; run `nyala catalog restore`, which puts its \
             newest backup in its place and sets it aside",
            self.path.display()
        );
        CatalogError::Corrupt { what }
    }
}

#[async_trait]
impl CatalogStore for SqliteStore {
    async fn load(&self) -> Result<CatalogSnapshot, CatalogError> {
        load::load(&self.readers).await.map_err(|error| self.explain(error.into()))
    }

    async fn is_newest(&self, known: &CatalogSnapshot) -> Result<bool, CatalogError> {
        let version =
            load::current_version(&self.readers).await.map_err(|error| self.explain(error.into()))?;
        Ok(version == known.version)
    }

    async fn load_after(&self, _: &CatalogSnapshot) -> Result<CatalogSnapshot, CatalogError> {
        self.load().await
    }

    async fn changed(&self) {
        std::future::pending().await
    }

    fn is_shared(&self) -> bool {
        false
    }

    async fn cluster(&self) -> Result<Option<NodeId>, CatalogError> {
        Ok(None)
    }

    async fn agree_on_place(&self, place: &str) -> Result<String, CatalogError> {
        Ok(place.to_owned())
    }

    async fn apply(
        &self,
        base: &CatalogSnapshot,
        change: &Change,
        fences: &[Fence],
    ) -> Result<Applied, CatalogError> {
        let is_lost = |fence: &&Fence| !self.local_leases().is_held(&fence.lease, fence.token);
        if let Some(fence) = fences.iter().find(is_lost) {
            return Err(CatalogError::LeaseLost { lease: fence.lease.clone(), is_shared: false });
        }
        let applied = apply::apply(&self.writer, base, change).await.map_err(|error| self.explain(error));
        let (applied, writes) = applied?;
        if let Some(writes) = writes {
            self.record(writes).await;
        }
        Ok(applied)
    }

    async fn create_job(
        &self,
        kind: JobKind,
        cube: &QualifiedName,
        cuboids_total: u32,
        node: &NodeId,
        now_ms: u64,
    ) -> Result<JobId, CatalogError> {
        let created = jobs::create(&self.writer, kind, cube, cuboids_total, (node, now_ms)).await;
        let (job, writes) = created.map_err(|error| self.explain(error.into()))?;
        self.record(writes).await;
        Ok(job)
    }

    async fn update_job(&self, job: &JobEntry) -> Result<(), CatalogError> {
        let writes = jobs::update(&self.writer, job).await.map_err(|error| self.explain(error))?;
        self.record(writes).await;
        Ok(())
    }

    async fn forget_jobs(&self, keep: u32) -> Result<(), CatalogError> {
        let writes = jobs::forget(&self.writer, keep).await.map_err(|error| self.explain(error.into()))?;
        self.record(writes).await;
        Ok(())
    }

    async fn jobs(&self) -> Result<Vec<JobEntry>, CatalogError> {
        jobs::list(&self.readers).await.map_err(|error| self.explain(error.into()))
    }

    async fn record_queries(
        &self,
        _: &NodeId,
        entries: &[QueryHistoryEntry],
        keep: u32,
    ) -> Result<(), CatalogError> {
        let recorded = history::record(&self.writer, entries, keep).await;
        let writes = recorded.map_err(|error| self.explain(error.into()))?;
        self.record(writes).await;
        Ok(())
    }

    async fn query_history(&self, _: &NodeId) -> Result<Vec<QueryHistoryEntry>, CatalogError> {
        history::list(&self.readers).await.map_err(|error| self.explain(error.into()))
    }

    async fn history_of_others(&self, _: &NodeId) -> Result<Vec<QueryHistoryEntry>, CatalogError> {
        Ok(Vec::new())
    }

    async fn take_lease(
        &self,
        name: &str,
        owner: &NodeId,
        hold: Duration,
    ) -> Result<Option<LeaseToken>, CatalogError> {
        Ok(self.local_leases().take(name, owner, hold))
    }

    async fn renew_lease(&self, name: &str, token: LeaseToken, hold: Duration) -> Result<bool, CatalogError> {
        Ok(self.local_leases().renew(name, token, hold))
    }

    async fn release_lease(&self, name: &str, token: LeaseToken) -> Result<(), CatalogError> {
        self.local_leases().release(name, token);
        Ok(())
    }

    async fn leases(&self) -> Result<Vec<LeaseEntry>, CatalogError> {
        Ok(self.local_leases().list())
    }

    async fn beat(&self, node: &NodeEntry, _: Duration) -> Result<Vec<NodeEntry>, CatalogError> {
        Ok(vec![node.clone()])
    }

    async fn leave(&self, _: &NodeId, _: u64) -> Result<(), CatalogError> {
        Ok(())
    }

    async fn copy_to(&self, path: &Path) -> Result<CatalogSnapshot, CatalogError> {
        copy::copy(&self.path, path).await.map_err(|error| self.explain(error))
    }

    async fn restored(&self) -> Result<bool, CatalogError> {
        restore::was_restored(&self.readers).await.map_err(|error| self.explain(error.into()))
    }

    async fn forget_restored(&self) -> Result<(), CatalogError> {
        let forgotten = restore::forget_restored(&self.writer).await;
        let writes = forgotten.map_err(|error| self.explain(error.into()))?;
        self.record(writes).await;
        Ok(())
    }
}

/// Closes a connection if its transaction failed: on a full disk SQLite rolls back by itself, which sqlx does
/// not notice, and every later BEGIN on the connection would be refused.
pub fn give_back<T, E>(mut connection: PoolConnection<Sqlite>, done: Result<T, E>) -> Result<T, E> {
    if done.is_err() {
        connection.close_on_drop();
    }
    done
}

fn lost(path: &Path) -> CatalogError {
    let what = format!(
        "catalog file `{}` is missing or empty, but it had contents; run `nyala catalog restore`, which puts its \
         newest backup there",
        path.display()
    );
    CatalogError::Corrupt { what }
}

/// Connections never expire: reopening would only empty their statement caches.
fn pool(connections: u32) -> PoolOptions<sqlx::Sqlite> {
    PoolOptions::new().max_connections(connections).idle_timeout(None).max_lifetime(None)
}

/// Keeps the kind of a full disk, by which [`CatalogError::is_disk_full`] recognises it.
fn keep_kind(error: sqlx::Error) -> io::Error {
    let kind = if is_disk_full(&error) { io::ErrorKind::StorageFull } else { io::ErrorKind::Other };
    io::Error::new(kind, error)
}
