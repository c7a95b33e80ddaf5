//! A segment from the wish to the published files, and the end of those that come to nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::{StreamExt, TryStreamExt};
use nyala_catalog::{Catalog, Change};
use nyala_model::{CuboidEntry, QualifiedName, SegmentId, SegmentState};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use tokio::runtime::Handle;
use uuid::Uuid;

use crate::error::{ErrorKind, QueryError, Result};

/// Queries that began before a segment was replaced may read it for this much longer.
const RETIREMENT: Duration = Duration::from_secs(300);

/// A segment being written. Unless it is published, dropping it gives its space back.
pub(super) struct NewSegment {
    catalog: Arc<Catalog>,
    store: Arc<dyn ObjectStore>,
    runtime: Handle,
    id: SegmentId,
    folder: String,
    published: bool,
}

impl NewSegment {
    /// Records the wish for a segment of `cube`.
    pub(super) async fn begin(
        cube: &QualifiedName,
        catalog: &Arc<Catalog>,
        store: &Arc<dyn ObjectStore>,
        runtime: &Handle,
    ) -> Result<Self> {
        let snapshot = catalog.snapshot();
        let id = snapshot.cubes.get(cube).map(|entry| entry.id).ok_or_else(|| {
            QueryError::new(ErrorKind::UndefinedTable, format!("cube `{cube}` does not exist"))
        })?;
        let folder = format!("cubes/{id}/{}/", Uuid::now_v7().simple());
        let change = Change::BeginSegment { cube: id, location: folder.clone() };
        let segment = catalog.commit(change).await?.segment;
        let id = segment.ok_or_else(|| QueryError::internal("the catalog gave a segment no id"))?;
        Ok(Self {
            catalog: Arc::clone(catalog),
            store: Arc::clone(store),
            runtime: runtime.clone(),
            id,
            folder,
            published: false,
        })
    }

    /// Folder of its files within the data store, with a trailing slash.
    pub(super) fn folder(&self) -> &str {
        &self.folder
    }

    /// Records a finished cuboid.
    pub(super) async fn add(&self, cuboid: &CuboidEntry) -> Result<()> {
        let change = Change::AddCuboid { segment: self.id, cuboid: cuboid.clone() };
        self.catalog.commit(change).await?;
        Ok(())
    }

    /// Makes the segment visible in one transaction. Files of the one it replaces are kept until no
    /// query can be reading them.
    pub(super) async fn publish(
        mut self,
        cube: &QualifiedName,
        source_rows: u64,
        droppable_joins: Vec<usize>,
    ) -> Result<()> {
        let before = self.catalog.snapshot();
        let built_at_ms = now_ms();
        let change = Change::PublishSegment { segment: self.id, source_rows, built_at_ms, droppable_joins };
        self.catalog.commit(change).await?;
        self.published = true;
        let replaced = before.cubes.get(cube).map(|entry| entry.segments.clone()).unwrap_or_default();
        for old in replaced.into_iter().filter(|s| s.state == SegmentState::Ready) {
            let store = Arc::clone(&self.store);
            self.runtime.spawn(async move {
                tokio::time::sleep(RETIREMENT).await;
                remove_folder(store.as_ref(), &old.location).await;
            });
        }
        Ok(())
    }
}

impl Drop for NewSegment {
    fn drop(&mut self) {
        if self.published {
            return;
        }
        let (catalog, store) = (Arc::clone(&self.catalog), Arc::clone(&self.store));
        let (id, folder) = (self.id, self.folder.clone());
        self.runtime.spawn(async move {
            remove_folder(store.as_ref(), &folder).await;
            if let Err(error) = catalog.commit(Change::DropSegment { segment: id }).await {
                tracing::warn!(segment = id.0, %error, "an abandoned segment stays in the catalog until restart");
            }
        });
    }
}

/// Milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// At start: forgets segments whose build died with its process, and deletes files that no segment of
/// the catalog owns.
pub(crate) async fn remove_leftovers(catalog: &Catalog, store: &dyn ObjectStore) -> Result<()> {
    let snapshot = catalog.snapshot();
    for segment in snapshot.cubes.values().flat_map(|cube| &cube.segments) {
        if segment.state == SegmentState::Building {
            catalog.commit(Change::DropSegment { segment: segment.id }).await?;
        }
    }
    let snapshot = catalog.snapshot();
    let owned: BTreeSet<&str> =
        snapshot.cubes.values().flat_map(|cube| &cube.segments).map(|s| s.location.as_str()).collect();
    let files: Vec<_> = store
        .list(Some(&Path::from("cubes")))
        .map_ok(|file| file.location)
        .try_collect()
        .await
        .map_err(datafusion::common::DataFusionError::from)?;
    for file in files {
        if !owned.iter().any(|folder| file.as_ref().starts_with(folder)) {
            remove_file(store, &file).await;
        }
    }
    Ok(())
}

async fn remove_folder(store: &dyn ObjectStore, folder: &str) {
    let path = Path::from(folder.trim_end_matches('/'));
    let mut files = store.list(Some(&path));
    while let Some(file) = files.next().await {
        match file {
            Ok(file) => remove_file(store, &file.location).await,
            Err(error) => tracing::warn!(folder, %error, "cannot list the files of an old segment"),
        }
    }
}

async fn remove_file(store: &dyn ObjectStore, path: &Path) {
    if let Err(error) = store.delete(path).await {
        tracing::warn!(file = %path, %error, "cannot delete a file of an old segment");
    }
}
