//! Replaces a lost or damaged catalog by a copy.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use nyala_model::{CatalogSnapshot, DiskStoreEntry};
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection, Error, Row, SqlitePool};

use super::file::create_file;
use super::mark::{self, Found, Mark, sync_folder};
use super::row::to_json;
use super::seal::{Key, check, count_write, seal};
use super::store::{SqliteStore, give_back};
use super::{load, schema};
use crate::error::CatalogError;

/// Number of versions to skip: the lost catalog may have given them since the copy was made. They are the ids
/// of tables, cubes and segments, and the files of these may still exist.
const VERSIONS_LEFT_OUT: u64 = 1 << 20;
/// Suffixes that SQLite and the mark add to the name of the catalog file.
const SUFFIXES: [&str; 5] = ["", "-wal", "-shm", "-journal", "-mark"];

/// The outcome of a restoration.
#[derive(Debug)]
pub struct Restored {
    /// The restored catalog.
    pub snapshot: CatalogSnapshot,
    /// Folder with the files of the previous catalog; none if there were none.
    pub set_aside: Option<PathBuf>,
    /// Transactions of the previous catalog that the copy lacks; none if unknown.
    pub missing: Option<u64>,
}

/// Replaces the catalog `path`, which no process may have open, by the copy `from`, which stays. The old
/// files move to a new folder below `aside`. `moved` gives the new folders of disk stores by store name.
///
/// # Errors
/// As [`SqliteStore::open`] if the copy is not whole: then nothing was changed.
pub async fn restore(
    path: &Path,
    from: &Path,
    aside: &Path,
    moved: &BTreeMap<String, String>,
) -> Result<Restored, CatalogError> {
    let failed = |source| CatalogError::Open { path: path.to_owned(), source };
    let marked = mark::read(path).map_err(failed)?;
    let new = with_suffix(path, "-restoring");
    remove(&new).map_err(failed)?;
    copy_files(from, &new).map_err(|source| CatalogError::Open { path: from.to_owned(), source })?;
    let (snapshot, writes, had) = match prepare((&new, from), marked, moved).await {
        Ok(prepared) => prepared,
        Err(error) => {
            remove(&new).map_err(failed)?;
            return Err(error);
        }
    };
    let set_aside = set_aside(path, aside).map_err(failed)?;
    replace(&new, path, writes).map_err(failed)?;
    let missing = match marked {
        Found::Writes(marked) => Some(marked.saturating_sub(had)),
        Found::Missing | Found::Damaged => None,
    };
    Ok(Restored { snapshot, set_aside, missing })
}

/// Verifies the copy and makes it the successor of the lost catalog. Returns its content, its number of
/// transactions now, and the number before.
async fn prepare(
    (new, from): (&Path, &Path),
    marked: Found,
    moved: &BTreeMap<String, String>,
) -> Result<(CatalogSnapshot, u64, u64), CatalogError> {
    let store = SqliteStore::open_copy(new, from).await?;
    let prepared = succeed(&store, marked, moved).await.map_err(|error| store.explain(error));
    store.close().await;
    prepared
}

async fn succeed(
    store: &SqliteStore,
    marked: Found,
    moved: &BTreeMap<String, String>,
) -> Result<(CatalogSnapshot, u64, u64), CatalogError> {
    let mut connection = store.writer.acquire().await?;
    schema::migrate(&mut connection).await?;
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    // Reads every row, and so compares it with its checksum.
    let before = load::snapshot(&mut transaction).await?;
    let had = super::seal::writes(&mut transaction).await?;
    for entry in before.disk_stores.values() {
        keep_tables(&mut transaction, entry, moved.get(&entry.name)).await?;
    }
    let version = before.version.0.saturating_add(VERSIONS_LEFT_OUT);
    set(&mut transaction, "snapshot_version", version).await?;
    set(&mut transaction, "restored_at_ms", now_ms()).await?;
    if let Found::Writes(marked) = marked {
        set(&mut transaction, "writes", had.max(marked)).await?;
    }
    let writes = count_write(&mut transaction).await?;
    let snapshot = load::snapshot(&mut transaction).await?;
    transaction.commit().await?;
    Ok((snapshot, writes, had))
}

/// Clears the leftovers of a disk store: the newer catalog may have given a leftover's name to a table, whose rows must stay.
async fn keep_tables(
    connection: &mut SqliteConnection,
    store: &DiskStoreEntry,
    folder: Option<&String>,
) -> Result<(), Error> {
    let folder = folder.unwrap_or(&store.folder).clone();
    let entry = DiskStoreEntry { leftovers: BTreeSet::new(), folder, ..store.clone() };
    let update = "UPDATE disk_stores SET entry = ? WHERE name = ?";
    sqlx::query(update).bind(to_json(&entry)?).bind(&store.name).execute(&mut *connection).await?;
    seal(connection, &Key::name("disk_stores", "name", &store.name)).await
}

async fn set(connection: &mut SqliteConnection, key: &str, value: u64) -> Result<(), Error> {
    let update = "UPDATE nyala_meta SET value = ? WHERE key = ?";
    sqlx::query(update).bind(value.cast_signed()).bind(key).execute(&mut *connection).await?;
    seal(connection, &Key::name("nyala_meta", "key", key)).await
}

/// Whether the catalog was restored, and the leftovers of the previous one are not cleared yet.
pub async fn was_restored(readers: &SqlitePool) -> Result<bool, Error> {
    let select = "SELECT * FROM nyala_meta WHERE key = 'restored_at_ms'";
    let row = sqlx::query(select).fetch_one(readers).await?;
    check("nyala_meta", &row)?;
    Ok(row.try_get::<i64, _>("value")? != 0)
}

/// Records that the leftovers are cleared.
pub async fn forget_restored(writer: &SqlitePool) -> Result<u64, Error> {
    let mut connection = writer.acquire().await?;
    let forgotten = clear_restored(&mut connection).await;
    give_back(connection, forgotten)
}

async fn clear_restored(connection: &mut SqliteConnection) -> Result<u64, Error> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    set(&mut transaction, "restored_at_ms", 0).await?;
    let writes = count_write(&mut transaction).await?;
    transaction.commit().await?;
    Ok(writes)
}

/// Copies the catalog file, and its write-ahead log if there is one.
fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    for suffix in ["", "-wal"] {
        let (from, to) = (with_suffix(from, suffix), with_suffix(to, suffix));
        if suffix.is_empty() || from.exists() {
            create_file(&to)?;
            // Not `fs::copy`, which would copy the mode, too.
            io::copy(&mut File::open(from)?, &mut File::options().write(true).open(to)?)?;
        }
    }
    Ok(())
}

/// Moves the files of the catalog to a new folder; returns it.
fn set_aside(path: &Path, aside: &Path) -> io::Result<Option<PathBuf>> {
    let files: Vec<PathBuf> = SUFFIXES.iter().map(|suffix| with_suffix(path, suffix)).collect();
    if !files.iter().any(|file| file.exists()) {
        return Ok(None);
    }
    let folder = aside.join(format!("{}", now_ms()));
    std::fs::create_dir_all(&folder)?;
    for file in files.iter().filter(|file| file.exists()) {
        std::fs::rename(file, folder.join(file.file_name().unwrap_or_default()))?;
    }
    File::open(&folder)?.sync_all()?;
    Ok(Some(folder))
}

/// Writes the mark first: a catalog without its mark would not be opened.
fn replace(new: &Path, path: &Path, writes: u64) -> io::Result<()> {
    File::open(new)?.sync_all()?;
    Mark::open(path, writes)?;
    std::fs::rename(new, path)?;
    sync_folder(path)
}

fn remove(path: &Path) -> io::Result<()> {
    for suffix in SUFFIXES {
        match std::fs::remove_file(with_suffix(path, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
