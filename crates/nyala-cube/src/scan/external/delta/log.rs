//! Reading the log of a Delta table. The snapshot of the last version is kept, so that the next list of files reads newer
//! commits only.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use chrono::DateTime;
use delta_kernel::history_manager::{HistoryCommitType, latest_version_as_of};
use delta_kernel::scan::state::ScanFile;
use delta_kernel::{Engine, KernelError, Snapshot, SnapshotRef};
use delta_kernel_default_engine::DefaultEngine;
use delta_kernel_default_engine::executor::TaskExecutor;
use delta_kernel_default_engine::executor::tokio::{TokioBackgroundExecutor, TokioMultiThreadExecutor};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_storage::object::refusal;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use tokio::runtime::{Handle, RuntimeFlavor};
use url::Url;

use super::{At, DeletedRows, DeltaColumns, DeltaFile, DeltaTable};

/// Number of tables whose last version is kept.
const MAX_TABLES: usize = 1000;

/// A version that was read.
#[derive(Debug)]
pub struct DeltaVersion {
    snapshot: SnapshotRef,
    /// The commit file of the version. If it has changed at the next read, the folder has another table.
    commit: Option<ObjectMeta>,
    /// Its columns.
    pub columns: DeltaColumns,
    /// Its files.
    pub files: Arc<Vec<DeltaFile>>,
}

/// The last version that was read of each table, by the store's URL.
#[derive(Default)]
pub struct DeltaLogs {
    known: Mutex<HashMap<(String, DeltaTable), Arc<DeltaVersion>>>,
}

impl fmt::Debug for DeltaLogs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaLogs").finish_non_exhaustive()
    }
}

impl DeltaLogs {
    fn get(&self, key: &(String, DeltaTable)) -> Option<Arc<DeltaVersion>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// The version of the table that was read last.
    ///
    /// # Errors
    /// No version was read before, and reading it fails.
    pub async fn last(
        &self,
        store: (&str, &Arc<dyn ObjectStore>),
        table: &DeltaTable,
    ) -> Result<Arc<DeltaVersion>> {
        match self.get(&(store.0.to_owned(), table.clone())) {
            Some(known) => Ok(known),
            None => self.read(store, table).await,
        }
    }

    /// Reads the version of the table that a statement uses, as the log is now.
    ///
    /// # Errors
    /// There is no such table or version, it has features that are not supported, or the store fails.
    pub async fn read(
        &self,
        (url, store): (&str, &Arc<dyn ObjectStore>),
        table: &DeltaTable,
    ) -> Result<Arc<DeltaVersion>> {
        let key = (url.to_owned(), table.clone());
        let known = match self.get(&key) {
            Some(known) if known.is_there(store.as_ref()).await => Some(known),
            _ => None,
        };
        if let (Some(known), At::Version(_)) = (&known, table.at) {
            return Ok(Arc::clone(known));
        }
        let (handle, store, wanted) = (Handle::current(), Arc::clone(store), table.clone());
        let read = move || match handle.runtime_flavor() {
            RuntimeFlavor::MultiThread => {
                read(store, (&handle, TokioMultiThreadExecutor::new(handle.clone())), &wanted, known)
            }
            _ => read(store, (&handle, TokioBackgroundExecutor::new()), &wanted, known),
        };
        let version = tokio::task::spawn_blocking(read).await.map_err(QueryError::internal)??;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_TABLES {
            known.clear();
        }
        known.insert(key, Arc::clone(&version));
        Ok(version)
    }
}

impl DeltaVersion {
    /// Whether the commit file is unchanged.
    async fn is_there(&self, store: &dyn ObjectStore) -> bool {
        match &self.commit {
            Some(commit) => store.head(&commit.location).await.is_ok_and(|found| found == *commit),
            None => false,
        }
    }
}

fn read<E: TaskExecutor>(
    store: Arc<dyn ObjectStore>,
    (handle, executor): (&Handle, E),
    table: &DeltaTable,
    known: Option<Arc<DeltaVersion>>,
) -> Result<Arc<DeltaVersion>> {
    let engine = DefaultEngine::builder(Arc::clone(&store)).with_task_executor(Arc::new(executor)).build();
    let unreadable = |error: KernelError| unreadable(&table.root, &error);
    let newest = || match &known {
        Some(known) if table.at == At::Newest => {
            Snapshot::builder_from(Arc::clone(&known.snapshot)).build(&engine)
        }
        _ => Snapshot::builder_for(table.root.as_str()).build(&engine),
    };
    let at = |version| Snapshot::builder_for(table.root.as_str()).at_version(version).build(&engine);
    let snapshot = match table.at {
        At::Newest => newest(),
        At::Version(version) => at(version),
        At::Time(time) => newest().and_then(|newest| {
            let commit = latest_version_as_of(&newest, &engine, time, HistoryCommitType::Recreatable)?;
            at(commit.version)
        }),
    };
    let snapshot = snapshot.map_err(unreadable)?;
    if let Some(known) = known.filter(|known| known.snapshot.version() == snapshot.version()) {
        return Ok(known);
    }
    let scan = Arc::clone(&snapshot).scan_builder().without_row_transforms().build().map_err(unreadable)?;
    let columns = DeltaColumns::of(&scan)?;
    let mut found = Vec::new();
    for part in scan.scan_metadata(&engine).map_err(unreadable)? {
        let add = |found: &mut Vec<ScanFile>, file| found.push(file);
        found = part.and_then(|part| part.visit_scan_files(found, add)).map_err(unreadable)?;
    }
    let mut files = found
        .into_iter()
        .map(|file| data_file(file, (&engine, &table.root), &columns))
        .collect::<Result<Vec<DeltaFile>>>()?;
    files.sort_by(|one, other| one.meta.location.cmp(&other.meta.location));
    let commit = format!("_delta_log/{:020}.json", snapshot.version());
    let commit = table.root.join(&commit).ok().and_then(|url| Path::from_url_path(url.path()).ok());
    let commit = commit.and_then(|path| handle.block_on(async move { store.head(&path).await.ok() }));
    Ok(Arc::new(DeltaVersion { snapshot, commit, columns, files: Arc::new(files) }))
}

fn data_file(
    file: ScanFile,
    (engine, root): (&dyn Engine, &Url),
    columns: &DeltaColumns,
) -> Result<DeltaFile> {
    let damaged = |reason: &str| {
        let message = format!("the log of Delta table `{root}` is damaged: file `{}` {reason}", file.path);
        QueryError::new(ErrorKind::Unreadable, message)
    };
    let url = root.join(&file.path).map_err(|_| damaged("has no path"))?;
    if !url.as_str().starts_with(root.as_str()) {
        let message =
            format!("Delta table `{root}` has files elsewhere: `{url}`; shallow clones are not supported");
        return Err(QueryError::new(ErrorKind::Unsupported, message)
            .hint("make a table of the original, or a deep clone"));
    }
    let deleted = deleted_rows(&file, (engine, root), &damaged)?;
    let value =
        |column: &String| (column.clone(), file.partition_values.get(column).cloned().unwrap_or_default());
    Ok(DeltaFile {
        meta: ObjectMeta {
            location: Path::from_url_path(url.path()).map_err(|_| damaged("has no path"))?,
            last_modified: DateTime::from_timestamp_millis(file.modification_time).unwrap_or_default(),
            size: u64::try_from(file.size).map_err(|_| damaged("has no size"))?,
            e_tag: deleted.as_ref().map(DeletedRows::tag),
            version: None,
        },
        values: columns.partitions.iter().map(value).collect(),
        deleted,
    })
}

/// The rows of a file that its deletion vector leaves. The log's count is compared before the vector is read: its rows
/// become numbers in memory, however few bytes it has.
fn deleted_rows(
    file: &ScanFile,
    (engine, root): (&dyn Engine, &Url),
    damaged: &dyn Fn(&str) -> QueryError,
) -> Result<Option<DeletedRows>> {
    let cannot_read = |error: KernelError| unreadable(root, &error);
    let Some(count) = file.dv_info.cardinality().map_err(cannot_read)? else { return Ok(None) };
    let Some(stats) = &file.stats else {
        return Err(damaged("has deleted rows, and the log does not tell its number of rows"));
    };
    if count > stats.num_records {
        return Err(damaged("has more deleted rows than rows"));
    }
    let rows = file.dv_info.get_row_indexes(engine, root).map_err(cannot_read)?.unwrap_or_default();
    if rows.len() as u64 != count {
        return Err(damaged("has another number of deleted rows than the log tells"));
    }
    match DeletedRows::new(&rows, stats.num_records) {
        Some(deleted) => Ok(Some(deleted)),
        None => Err(damaged("has deleted rows behind its last one")),
    }
}

fn unreadable(root: &Url, error: &KernelError) -> QueryError {
    let mut error = error;
    while let KernelError::Backtraced { source, .. } = error {
        error = source;
    }
    if let KernelError::ObjectStore(error) = error
        && let Some(refused) = refusal(error)
    {
        return refused.into();
    }
    let text = error.to_string();
    let reason = text.split("\n").next().unwrap_or_default();
    QueryError::new(ErrorKind::Unreadable, format!("cannot read Delta table `{root}`: {reason}"))
        .hint("check that the folder has a `_delta_log`, and the version if one is given")
}
