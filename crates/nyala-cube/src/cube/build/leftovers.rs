//! Unneeded files: of failed builds, and of replaced cuboids and segments.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::DataFusionError;
use nyala_catalog::Catalog;
use nyala_model::{CatalogSnapshot, CuboidEntry, NodeId, SegmentState};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_storage::data_dir::{CUBES, SET_ASIDE, folders_below, remove_folder};
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;

use super::background::Background;
use super::segment::now_ms;
use crate::scan::StoredFile;

/// Queries that began before a replacement may read the old files for this much longer.
const RETIREMENT: Duration = Duration::from_secs(300);

/// Whether every file of a cuboid is as it was written, down to the last byte: a cuboid made from damaged files
/// would get valid checksums.
pub async fn is_whole(data_dir: &Path, folder: &str, cuboid: &CuboidEntry) -> Result<bool> {
    let store: Arc<dyn ObjectStore> =
        Arc::new(LocalFileSystem::new_with_prefix(data_dir).map_err(DataFusionError::from)?);
    for file in &cuboid.files {
        let path = object_store::path::Path::from(format!("{folder}{}", file.name));
        if let Err(damage) = StoredFile::new(Arc::clone(&store), path.clone(), file.clone()).verify().await {
            let error = damage.into_error(&path);
            tracing::warn!(%error, "a cuboid that an interrupted build left is made again");
            return Ok(false);
        }
    }
    Ok(true)
}

/// Deletes files in the folder of a segment that belong to none of its cuboids.
pub fn remove_unfinished(folder: &Path, whole: &[CuboidEntry]) {
    unfinished(folder, whole).iter().for_each(|file| remove_file(file));
}

/// Files in the folder of a segment that belong to none of its cuboids.
fn unfinished(folder: &Path, whole: &[CuboidEntry]) -> Vec<PathBuf> {
    let finished: BTreeSet<&str> =
        whole.iter().flat_map(|cuboid| &cuboid.files).map(|file| file.name.as_str()).collect();
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let kept = |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| finished.contains(name));
    files.filter(|file| !kept(&file.file_name())).map(|file| file.path()).collect()
}

/// At start: deletes files that no segment of the catalog owns. Segments of interrupted builds stay, so that
/// the builds can go on.
///
/// Files that a restored catalog does not know may belong to the lost newer catalog: they are moved to a folder
/// where the user finds them.
pub async fn remove_leftovers(catalog: &Catalog, data_dir: &Path, node: &NodeId) -> Result<()> {
    let unreadable = |error: std::io::Error| {
        let message = format!("cannot tidy `{}`: {error}", data_dir.display());
        QueryError::new(ErrorKind::Unreadable, message)
    };
    let leftovers = leftovers(&catalog.snapshot(), data_dir, node).map_err(unreadable)?;
    if !catalog.restored().await? {
        leftovers.iter().for_each(|path| if path.is_dir() { remove(path) } else { remove_file(path) });
        return Ok(());
    }
    if !leftovers.is_empty() {
        let aside = data_dir.join(SET_ASIDE).join(now_ms().to_string());
        leftovers.iter().try_for_each(|path| set_aside(path, data_dir, &aside)).map_err(unreadable)?;
        tracing::warn!(
            folder = %aside.display(), files = leftovers.len(),
            "the restored catalog does not know some files of cubes; delete the folder when it is sure that nobody needs it"
        );
    }
    Ok(catalog.forget_restored().await?)
}

fn set_aside(path: &Path, data_dir: &Path, aside: &Path) -> std::io::Result<()> {
    let target = aside.join(path.strip_prefix(data_dir).unwrap_or(path));
    if let Some(folder) = target.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::rename(path, target)
}

/// Folders of segments that the catalog does not know, and unknown files in folders of ready segments.
fn leftovers(snapshot: &CatalogSnapshot, data_dir: &Path, node: &NodeId) -> std::io::Result<Vec<PathBuf>> {
    let owned: BTreeSet<PathBuf> =
        snapshot.cubes.values().flat_map(|cube| &cube.segments).map(|s| data_dir.join(&s.location)).collect();
    // Comparing components leaves out the slash at the end of locations.
    let mut leftovers = folders_below(&data_dir.join(CUBES))?;
    leftovers.retain(|folder| !owned.iter().any(|segment| segment.components().eq(folder.components())));
    // Cuboids may have been replaced or dropped, or been on their way into a segment that was ready.
    let segments = snapshot.cubes.values().flat_map(|cube| &cube.segments);
    // Another node may be adding files to a segment that it made.
    for segment in segments.filter(|s| s.state == SegmentState::Ready && node.owns(&s.node)) {
        leftovers.extend(unfinished(&data_dir.join(&segment.location), &segment.cuboids));
    }
    Ok(leftovers)
}

/// Deletes a folder once no query can be reading it. Should the process end before, the next one does.
pub fn retire(folder: PathBuf, background: &Background) {
    background.later(RETIREMENT, move || remove(&folder));
}

/// Deletes files once no query can be reading them.
pub fn retire_files(folder: PathBuf, cuboids: &[CuboidEntry], background: &Background) {
    let names: Vec<String> = cuboids.iter().flat_map(|c| &c.files).map(|file| file.name.clone()).collect();
    if names.is_empty() {
        return;
    }
    background.later(RETIREMENT, move || {
        for name in names {
            remove_file(&folder.join(name));
        }
    });
}

pub fn remove_file(file: &Path) {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(file = %file.display(), %error, "cannot delete a file that nobody needs");
        }
        _ => {}
    }
}

/// Goes by folder and not by the store's list, which does not show files that are half-written.
pub fn remove(folder: &Path) {
    if let Err(error) = remove_folder(folder) {
        tracing::warn!(folder = %folder.display(), %error, "cannot delete the files of an old segment");
    }
}
