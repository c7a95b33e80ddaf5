//! Unneeded files: of failed builds, and of replaced cuboids and segments.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::DataFusionError;
use nyala_catalog::Catalog;
use nyala_model::{CatalogSnapshot, CuboidEntry, NodeId, SegmentState};
use nyala_sql::error::Result;
use nyala_storage::data_dir::SET_ASIDE;
use nyala_storage::{SegmentStore, path};

use super::background::Background;
use super::segment::now_ms;
use crate::scan::StoredFile;

/// Queries that began before a replacement may read the old files for this much longer.
const RETIREMENT: Duration = Duration::from_secs(300);

/// Whether every file of a cuboid is as it was written, down to the last byte: a cuboid made from damaged files
/// would get valid checksums.
pub async fn is_whole(store: &SegmentStore, folder: &str, cuboid: &CuboidEntry) -> Result<bool> {
    for file in &cuboid.files {
        let path = path(folder, &file.name);
        let stored = StoredFile::new(Arc::clone(store.files()), path.clone(), file.clone());
        if let Err(damage) = stored.verify().await {
            let error = damage.into_error(&path);
            tracing::warn!(%error, "a cuboid that an interrupted build left is made again");
            return Ok(false);
        }
    }
    Ok(true)
}

/// Deletes files in the folder of a segment that belong to none of its cuboids.
pub async fn remove_unfinished(store: &SegmentStore, folder: &str, whole: &[CuboidEntry]) -> Result<()> {
    store.remove_files(folder, &unfinished(store, folder, whole).await?).await;
    Ok(())
}

/// Files in the folder of a segment that belong to none of its cuboids.
async fn unfinished(store: &SegmentStore, folder: &str, whole: &[CuboidEntry]) -> Result<Vec<String>> {
    let names = store.names(folder).await.map_err(DataFusionError::from)?;
    Ok(of_none(names, whole))
}

/// The names of files that belong to none of these cuboids.
fn of_none(mut names: Vec<String>, cuboids: &[CuboidEntry]) -> Vec<String> {
    let finished: BTreeSet<&str> =
        cuboids.iter().flat_map(|cuboid| &cuboid.files).map(|file| file.name.as_str()).collect();
    names.retain(|name| !finished.contains(name.as_str()));
    names
}

/// At start: deletes files that no segment of the catalog owns. Segments of interrupted builds stay, so that
/// the builds can go on.
///
/// Files that a restored catalog does not know may belong to the lost newer catalog: they are moved to a folder
/// where the user finds them.
pub async fn remove_leftovers(catalog: &Catalog, store: &SegmentStore, node: &NodeId) -> Result<()> {
    let leftovers = leftovers(&catalog.snapshot(), store, node).await?;
    if !catalog.restored().await? {
        for (folder, names) in leftovers {
            match names {
                None => store.remove(&folder).await,
                Some(names) => store.remove_files(&folder, &names).await,
            }
        }
        return Ok(());
    }
    if !leftovers.is_empty() {
        let aside = now_ms().to_string();
        for (folder, names) in &leftovers {
            let names = match names {
                None => store.names(folder).await.map_err(DataFusionError::from)?,
                Some(names) => names.clone(),
            };
            store.set_aside(&aside, folder, &names).await.map_err(DataFusionError::from)?;
        }
        tracing::warn!(
            folder = format!("{SET_ASIDE}/{aside}"),
            files = leftovers.len(),
            "the restored catalog does not know some files of cubes; delete the folder when it is sure that they are not needed"
        );
    }
    Ok(catalog.forget_restored().await?)
}

/// Folders of segments that the catalog does not know, and unknown files in folders of ready segments.
async fn leftovers(
    snapshot: &CatalogSnapshot,
    store: &SegmentStore,
    node: &NodeId,
) -> Result<Vec<(String, Option<Vec<String>>)>> {
    let segments = || snapshot.cubes.values().flat_map(|cube| &cube.segments);
    let owned: BTreeSet<&str> = segments().map(|segment| segment.location.as_str()).collect();
    let mut names = store.all_names().await.map_err(DataFusionError::from)?;
    let unknown = names.keys().filter(|folder| !owned.contains(folder.as_str()));
    let mut leftovers: Vec<_> = unknown.map(|folder| (folder.clone(), None)).collect();
    // Cuboids may have been replaced or dropped, or been on their way into a segment that was ready. Another node may be
    // adding files to a segment that it made.
    for segment in segments().filter(|s| s.state == SegmentState::Ready && node.owns(&s.node)) {
        let names = of_none(names.remove(&segment.location).unwrap_or_default(), &segment.cuboids);
        if !names.is_empty() {
            leftovers.push((segment.location.clone(), Some(names)));
        }
    }
    Ok(leftovers)
}

/// Deletes a folder once no query can be reading it. Should the process end before, the next one does.
pub fn retire(store: &SegmentStore, folder: &str, background: &Background) {
    let (store, folder) = (store.clone(), folder.to_owned());
    background.later(RETIREMENT, async move { store.remove(&folder).await });
}

/// Deletes files once no query can be reading them.
pub fn retire_files(store: &SegmentStore, folder: &str, cuboids: &[CuboidEntry], background: &Background) {
    let names = names_of(cuboids);
    if names.is_empty() {
        return;
    }
    let (store, folder) = (store.clone(), folder.to_owned());
    background.later(RETIREMENT, async move { store.remove_files(&folder, &names).await });
}

/// Names of the files of cuboids.
pub fn names_of(cuboids: &[CuboidEntry]) -> Vec<String> {
    cuboids.iter().flat_map(|cuboid| &cuboid.files).map(|file| file.name.clone()).collect()
}
