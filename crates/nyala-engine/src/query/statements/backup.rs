//! `BACKUP TO 'folder' [BASE 'folder']`: the whole data folder as of one moment, while it is in use.
//!
//! ```text
//! hold      changes of live tables' columns and stores; deletions of old files
//! catalog   one copy, which decides the contents of the backup
//! cubes     files of ready segments, by hard links
//! stores    each as it is then, at or after the catalog's moment
//! manifest  last
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_cube::cube::build::now_ms;
use nyala_model::{CatalogSnapshot, SegmentState};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::Backup;
use nyala_storage::data_dir::{NODE, STORES};
use nyala_storage::folder_backup::NewBackup;

use crate::query::answer::{Answer, Completion};
use crate::query::authorize::Caller;
use crate::query::command::Command;
use crate::query::engine::Engine;
use crate::query::execution::Execution;

/// `BACKUP TO`.
pub struct BackupTo<'s>(pub &'s Backup);

impl Command for BackupTo<'_> {
    fn authorize(&self, caller: &Caller<'_>) -> Result<()> {
        caller.require_superuser("a backup of the data folder")
    }

    fn run<'a>(&'a self, execution: Execution<'a>) -> BoxFuture<'a, Result<Answer>> {
        run(execution.engine(), self.0).boxed()
    }
}

/// Makes a backup. If the statement is cancelled, it stops: the folder then has no manifest, and is no backup.
async fn run(engine: &Arc<Engine>, statement: &Backup) -> Result<Answer> {
    let target = absolute(&statement.target)?;
    let base = statement.base.as_deref().map(absolute).transpose()?;
    let _stores = engine.store_changes.one_at_a_time.lock().await;
    let _files = engine.runtime.background.keep_files().await;
    let mut backup = blocking(move || Ok(NewBackup::begin(&target, base.as_deref(), now_ms())?)).await?;
    let copied = engine.snapshots.catalog().copy_to(&backup.folder().join("catalog.sqlite")).await?;
    backup = save_stores(engine, &copied, backup).await?;
    let (data_dir, version) = (engine.data_dir.clone(), copied.version.0);
    let segments = engine.snapshots.stores().segments().data_dir().map(Path::to_owned);
    let manifest = blocking(move || {
        backup.add("catalog.sqlite")?;
        backup.link(&data_dir.join(NODE), NODE)?;
        // Cuboids in a bucket are not copied: they are as durable as the bucket.
        if let Some(data_dir) = &segments {
            save_cubes(data_dir, &copied, &mut backup)?;
        }
        Ok(backup.finish(version)?)
    })
    .await?;
    let (files, bytes) = manifest.size();
    tracing::info!(folder = statement.target, files, bytes, "backup made");
    Ok(Answer::Done(Completion { tag: "BACKUP".to_owned(), rows: Some(files as u64), notice: None }))
}

fn absolute(text: &str) -> Result<PathBuf> {
    let path = PathBuf::from(text);
    if path.is_absolute() {
        return Ok(path);
    }
    Err(QueryError::new(ErrorKind::InvalidParameter, format!("`{text}` is not an absolute path"))
        .hint("name a folder of the machine that the server runs on, from `/` on"))
}

/// Copies each store while it is in use: it is sealed off as of one LSN, copied and verified.
async fn save_stores(
    engine: &Engine,
    snapshot: &CatalogSnapshot,
    mut backup: NewBackup,
) -> Result<NewBackup> {
    for (number, (name, entry)) in snapshot.disk_stores.iter().enumerate() {
        let store = engine.snapshots.live().find(name);
        let store = store.ok_or_else(|| QueryError::internal(format!("disk store `{name}` is not open")))?;
        let open = store.opened().await?;
        let folder = match Path::new(&entry.folder).is_absolute() {
            true => {
                let folder = format!("{STORES}/moved-{number}");
                backup.add_moved(name, &folder);
                folder
            }
            false => entry.folder.trim_end_matches('/').to_owned(),
        };
        backup = blocking(move || {
            open.backup(&backup.folder().join(&folder))?;
            backup.add_folder(&folder)?;
            Ok(backup)
        })
        .await?;
    }
    Ok(backup)
}

/// Segments that are being built are left out: a build begins them anew.
fn save_cubes(data_dir: &Path, snapshot: &CatalogSnapshot, backup: &mut NewBackup) -> Result<()> {
    let segments = snapshot.cubes.values().flat_map(|cube| &cube.segments);
    for segment in segments.filter(|segment| segment.state == SegmentState::Ready) {
        for file in segment.cuboids.iter().flat_map(|cuboid| &cuboid.files) {
            let name = format!("{}{}", segment.location, file.name);
            backup.link(&data_dir.join(&name), &name)?;
        }
    }
    Ok(())
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(QueryError::internal)?
}
