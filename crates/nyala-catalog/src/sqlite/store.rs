//! Opening the file, and the connections to it.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use nyala_model::{
    CatalogSnapshot, JobEntry, JobId, JobKind, QualifiedName, QueryHistoryEntry, SnapshotVersion,
};
use sqlx::SqlitePool;
use sqlx::pool::PoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};

use super::{apply, history, jobs, load, schema};
use crate::change::Change;
use crate::error::{CatalogError, is_busy, is_damage, is_disk_full};
use crate::store::{Applied, CatalogStore};

/// How long a statement waits for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Jobs and reloads are all that reads; queries read snapshots in memory.
const READERS: u32 = 2;

/// The catalog in one SQLite file.
///
/// Every write is one `BEGIN IMMEDIATE` transaction on the only writing connection, in WAL mode and
/// with an fsync before it is acknowledged: it survives `kill -9` and a power cut.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    pub(super) writer: SqlitePool,
    readers: SqlitePool,
}

impl SqliteStore {
    /// Opens the file `path`, which is created with its folder if missing; brings an older format up to
    /// date and checks the file for damage.
    ///
    /// # Errors
    /// [`CatalogError::Open`], [`CatalogError::Corrupt`] or [`CatalogError::Newer`], each with the next
    /// step.
    pub async fn open(path: &Path) -> Result<Self, CatalogError> {
        create_folder(path)?;
        create_file(path).map_err(|source| CatalogError::Open { path: path.to_owned(), source })?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .foreign_keys(true)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_TIMEOUT);
        // Pools connect at first use, so that every error comes out of `prepare`.
        let writer = options.clone().journal_mode(SqliteJournalMode::Wal).create_if_missing(true);
        let store = Self {
            path: path.to_owned(),
            writer: pool(1).connect_lazy_with(writer),
            readers: pool(READERS).connect_lazy_with(options.pragma("query_only", "ON")),
        };
        match store.prepare().await.map_err(|error| store.explain(error)) {
            Err(CatalogError::Store(error)) if !is_busy(&error) => Err(store.cannot_open(keep_kind(error))),
            result => result.map(|()| store),
        }
    }

    async fn prepare(&self) -> Result<(), CatalogError> {
        if !may_be_sqlite(&self.path).map_err(|source| self.cannot_open(source))? {
            return Err(self.damaged("it does not begin as a SQLite database"));
        }
        let mut connection = self.writer.acquire().await?;
        if let Some(damage) = schema::find_damage(&mut connection).await? {
            return Err(self.damaged(&damage));
        }
        schema::migrate(&mut connection).await
    }

    /// Adds the file's name and the next step to an error that means the file is damaged.
    fn explain(&self, error: CatalogError) -> CatalogError {
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
            "catalog file `{}` is damaged or not a catalog: {reason}; restore it from a backup, or move it \
             away together with its `-wal` file to start with an empty catalog",
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

    async fn version(&self) -> Result<SnapshotVersion, CatalogError> {
        load::current_version(&self.readers).await.map_err(|error| self.explain(error.into()))
    }

    async fn apply(&self, base: &CatalogSnapshot, change: &Change) -> Result<Applied, CatalogError> {
        apply::apply(&self.writer, base, change).await.map_err(|error| self.explain(error))
    }

    async fn create_job(
        &self,
        kind: JobKind,
        cube: &QualifiedName,
        cuboids_total: u32,
        now_ms: u64,
    ) -> Result<JobId, CatalogError> {
        let created = jobs::create(&self.writer, kind, cube, cuboids_total, now_ms).await;
        created.map_err(|error| self.explain(error.into()))
    }

    async fn update_job(&self, job: &JobEntry) -> Result<(), CatalogError> {
        jobs::update(&self.writer, job).await.map_err(|error| self.explain(error))
    }

    async fn forget_jobs(&self, keep: u32) -> Result<(), CatalogError> {
        jobs::forget(&self.writer, keep).await.map_err(|error| self.explain(error.into()))
    }

    async fn jobs(&self) -> Result<Vec<JobEntry>, CatalogError> {
        jobs::list(&self.readers).await.map_err(|error| self.explain(error.into()))
    }

    async fn record_queries(&self, entries: &[QueryHistoryEntry], keep: u32) -> Result<(), CatalogError> {
        history::record(&self.writer, entries, keep).await.map_err(|error| self.explain(error.into()))
    }

    async fn query_history(&self) -> Result<Vec<QueryHistoryEntry>, CatalogError> {
        history::list(&self.readers).await.map_err(|error| self.explain(error.into()))
    }
}

fn create_folder(path: &Path) -> Result<(), CatalogError> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => std::fs::create_dir_all(folder)
            .map_err(|source| CatalogError::Open { path: path.to_owned(), source }),
        _ => Ok(()),
    }
}

/// Makes the file, if there is none, for its owner alone: it has what passwords are checked with. SQLite takes an empty file
/// for a new database, and gives those beside it the same mode.
fn create_file(path: &Path) -> io::Result<()> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map(drop),
    }
}

/// Connections never grow old: reopening would only empty their statement caches.
fn pool(connections: u32) -> PoolOptions<sqlx::Sqlite> {
    PoolOptions::new().max_connections(connections).idle_timeout(None).max_lifetime(None)
}

/// Whether the file is missing, empty or begins as SQLite files do.
///
/// SQLite itself takes a file of zeros, which a file system may leave after a power cut, for an empty
/// database, and a new catalog in its place would hide the loss. Beside a rollback journal any contents
/// are fine: the first write was interrupted, and SQLite is about to undo it.
fn may_be_sqlite(path: &Path) -> io::Result<bool> {
    const MAGIC: &[u8; 16] = b"SQLite format 3\0";
    let mut head = Vec::with_capacity(MAGIC.len());
    match File::open(path) {
        Ok(file) => file.take(MAGIC.len() as u64).read_to_end(&mut head)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error),
    };
    let mut journal = path.as_os_str().to_owned();
    journal.push("-journal");
    Ok(head.is_empty() || head == MAGIC || Path::new(&journal).exists())
}

/// A full disk keeps its own kind, by which [`CatalogError::is_disk_full`] recognises it.
fn keep_kind(error: sqlx::Error) -> io::Error {
    let kind = if is_disk_full(&error) { io::ErrorKind::StorageFull } else { io::ErrorKind::Other };
    io::Error::new(kind, error)
}
