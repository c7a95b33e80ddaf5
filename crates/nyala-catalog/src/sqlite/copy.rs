//! A copy of the catalog while it is in use.

use std::path::Path;

use nyala_model::CatalogSnapshot;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};

use super::file::create_file;
use super::load;
use crate::error::CatalogError;

/// Copies `catalog` to `target` as of one transaction, and waits until the copy is on the disk. The copy is
/// one file, without a write-ahead log.
pub async fn copy(catalog: &Path, target: &Path) -> Result<CatalogSnapshot, CatalogError> {
    let failed = |source| CatalogError::Open { path: target.to_owned(), source };
    // SQLite accepts an empty file as target, and keeps its mode.
    create_file(target).map_err(failed)?;
    let mut connection: SqliteConnection = SqliteConnectOptions::new().filename(catalog).connect().await?;
    let copied = sqlx::query("VACUUM INTO ?").bind(target.to_string_lossy().into_owned());
    let copied = copied.execute(&mut connection).await;
    connection.close().await?;
    copied?;
    let snapshot = verify(target).await?;
    sync(target).await?;
    Ok(snapshot)
}

/// Waits until a copy is on the disk.
pub async fn sync(copy: &Path) -> Result<(), CatalogError> {
    let path = copy.to_owned();
    let synced = tokio::task::spawn_blocking(move || std::fs::File::open(path)?.sync_all()).await;
    let synced = synced.map_err(|_| CatalogError::Interrupted)?;
    synced.map_err(|source| CatalogError::Open { path: copy.to_owned(), source })
}

/// Reads the whole snapshot, and so compares every row with its checksum: a damaged copy is no backup.
async fn verify(copy: &Path) -> Result<CatalogSnapshot, CatalogError> {
    let options = SqliteConnectOptions::new().filename(copy).pragma("query_only", "ON");
    let mut connection: SqliteConnection = options.connect().await?;
    let read = load::snapshot(&mut connection).await;
    connection.close().await?;
    Ok(read?)
}
