//! Unneeded files: of failed builds, and of replaced cuboids and segments.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::DataFusionError;
use futures::future::BoxFuture;
use nyala_catalog::Catalog;
use nyala_model::{CatalogSnapshot, CuboidEntry, SegmentEntry, SegmentState, SnapshotVersion};
use nyala_sql::error::Result;
use nyala_storage::data_dir::SET_ASIDE;
use nyala_storage::{SegmentStore, path};

use super::segment::now_ms;
use super::segment_home::SegmentHome;
use crate::scan::StoredFile;

/// Queries that began before a replacement may read the old files for this much longer, at least.
pub const RETIREMENT: Duration = Duration::from_secs(300);

/// The statements that may still read files of an older snapshot of the catalog, on any node.
pub trait Readers: Debug + Send + Sync {
    /// Returns when none reads a snapshot before `version` any more.
    fn gone(&self, version: SnapshotVersion) -> BoxFuture<'static, ()>;
}

/// Folders of segments that the catalog does not know, and unknown files in folders of ready segments.
pub type Leftovers = BTreeMap<String, Option<Vec<String>>>;

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

/// Deletes files that no segment of the catalog owns, for a node alone, before it begins to build. Segments of interrupted
/// builds stay, so that the builds can go on.
///
/// Files that a restored catalog does not know may belong to the lost newer catalog: they are moved to a folder
/// where the user finds them.
pub async fn remove_leftovers(catalog: &Catalog, store: &SegmentStore) -> Result<()> {
    let leftovers = leftovers(&catalog.snapshot(), store).await?;
    if !catalog.restored().await? {
        remove_all(store, &leftovers).await;
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

/// Files that no segment of the catalog owns now. While other nodes build, the files of a cuboid exist before they are recorded,
/// so that only files that stay unowned for long are leftovers.
pub async fn leftovers(snapshot: &CatalogSnapshot, store: &SegmentStore) -> Result<Leftovers> {
    let owned: BTreeSet<&str> = segments(snapshot).map(|segment| segment.location.as_str()).collect();
    let mut names = store.all_names().await.map_err(DataFusionError::from)?;
    let unknown = names.keys().filter(|folder| !owned.contains(folder.as_str()));
    let mut leftovers: Leftovers = unknown.map(|folder| (folder.clone(), None)).collect();
    // The files of replaced and dropped cuboids may be left, and those of cuboids that never got into a ready segment.
    for segment in segments(snapshot).filter(|segment| segment.state == SegmentState::Ready) {
        let names = of_none(names.remove(&segment.location).unwrap_or_default(), &segment.cuboids);
        if !names.is_empty() {
            leftovers.insert(segment.location.clone(), Some(names));
        }
    }
    Ok(leftovers)
}

/// Deletes the leftovers.
pub async fn remove_all(store: &SegmentStore, leftovers: &Leftovers) {
    for (folder, names) in leftovers {
        match names {
            None => store.remove(folder).await,
            Some(names) => store.remove_files(folder, names).await,
        }
    }
}

/// The newest snapshot, which tells the files that must not be deleted. None if the catalog does not answer: then the caller
/// leaves the files.
pub async fn newest(catalog: &Catalog, folder: &str) -> Option<Arc<CatalogSnapshot>> {
    let newest = catalog.refresh().await;
    newest.inspect_err(|error| tracing::warn!(folder, %error, "files of cubes are left for now")).ok()
}

/// Names of the files that a snapshot has in the folder of a segment.
pub fn named<'a>(snapshot: &'a CatalogSnapshot, folder: &str) -> BTreeSet<&'a str> {
    let cuboids = segments(snapshot).filter(|segment| segment.location == folder).flat_map(|s| &s.cuboids);
    cuboids.flat_map(|cuboid| &cuboid.files).map(|file| file.name.as_str()).collect()
}

fn segments(snapshot: &CatalogSnapshot) -> impl Iterator<Item = &SegmentEntry> {
    snapshot.cubes.values().flat_map(|cube| &cube.segments)
}

/// After the catalog's database went back to an older state, the catalog may name replaced segments again: their files stay.
impl SegmentHome {
    /// Deletes a folder, which snapshots from version `since` on do not name, once no query can be reading it. If the process ends
    /// before, the folder is left over.
    pub fn retire(&self, folder: &str, since: SnapshotVersion) {
        let (catalog, store, folder) = (Arc::clone(&self.catalog), self.store.clone(), folder.to_owned());
        let gone = self.readers.gone(since);
        self.background.later(self.retirement, gone, async move {
            let Some(snapshot) = newest(&catalog, &folder).await else { return };
            let is_named = segments(&snapshot).any(|segment| segment.location.starts_with(&folder));
            if !is_named {
                store.remove(&folder).await;
            }
        });
    }

    /// Deletes files of a folder once no query can be reading them.
    pub fn retire_files(&self, folder: &str, cuboids: &[CuboidEntry], since: SnapshotVersion) {
        let mut names = names_of(cuboids);
        if names.is_empty() {
            return;
        }
        let (catalog, store, folder) = (Arc::clone(&self.catalog), self.store.clone(), folder.to_owned());
        let gone = self.readers.gone(since);
        self.background.later(self.retirement, gone, async move {
            let Some(snapshot) = newest(&catalog, &folder).await else { return };
            let named = named(&snapshot, &folder);
            names.retain(|name| !named.contains(name.as_str()));
            store.remove_files(&folder, &names).await;
        });
    }
}

/// Names of the files of cuboids.
pub fn names_of(cuboids: &[CuboidEntry]) -> Vec<String> {
    cuboids.iter().flat_map(|cuboid| &cuboid.files).map(|file| file.name.clone()).collect()
}
