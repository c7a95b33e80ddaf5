//! A segment from the wish to the published files, and the end of those that come to nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nyala_catalog::{Catalog, Change};
use nyala_model::{
    CatalogSnapshot, CuboidEntry, QualifiedName, SegmentId, SegmentRange, SegmentState, SourceFiles,
};
use uuid::Uuid;

use super::background::Background;
use super::leftovers::{is_whole, remove, remove_unfinished, retire};
use crate::error::{ErrorKind, QueryError, Result};

/// A file operation that was under way when its task was stopped still ends, and may put its file in
/// place after the folder was deleted; so deletion waits this long, and is done twice.
pub(super) const STRAGGLERS: Duration = Duration::from_millis(500);

/// A segment that is to be made.
#[derive(Debug, Clone)]
pub(crate) struct WantedSegment {
    /// The rows it holds.
    pub(crate) range: SegmentRange,
    /// The files they lie in.
    pub(crate) sources: Vec<SourceFiles>,
    /// The revision of the cube that is built.
    pub(crate) revision: u32,
    /// Counts the attempts to make it, from 0.
    pub(crate) attempt: u32,
    /// Whether another attempt follows if this one fails because of the moment.
    pub(crate) again: bool,
}

/// What was found out while a segment was made.
#[derive(Debug, Clone)]
pub(super) struct SegmentFacts {
    /// Rows of the flat join.
    pub(super) source_rows: u64,
    /// Tables of the join that keep every row exactly once.
    pub(super) droppable_joins: Vec<usize>,
    /// Smallest and largest key, if the cube is partitioned.
    pub(super) key_bounds: Option<(i64, i64)>,
}

/// A segment being written. Unless it is published, dropping it gives its space back.
pub(super) struct NewSegment {
    catalog: Arc<Catalog>,
    data_dir: PathBuf,
    background: Background,
    id: SegmentId,
    folder: String,
    mark: String,
    published: bool,
}

impl NewSegment {
    /// Takes up a segment whose build died with its process, or records the wish for a new one. Gives the
    /// cuboids that are finished already. Others that were left and hold such rows are given up.
    pub(super) async fn begin_or_resume(
        cube: &QualifiedName,
        wanted: &WantedSegment,
        catalog: &Arc<Catalog>,
        data_dir: &Path,
        background: &Background,
    ) -> Result<(Self, Vec<CuboidEntry>)> {
        let snapshot = catalog.snapshot();
        let left = snapshot.cubes.get(cube).map(|entry| entry.segments.clone()).unwrap_or_default();
        let mut resumed = None;
        let left = left.into_iter().filter(|s| s.state == SegmentState::Building);
        for segment in left.filter(|segment| !background.is_abandoned(segment.id)) {
            let same = segment.range == wanted.range && segment.sources == wanted.sources;
            if same && resumed.is_none() {
                resumed = Some(segment);
            } else if same || segment.range.overlaps(wanted.range) {
                remove(&data_dir.join(&segment.location));
                catalog.commit(Change::DropSegment { segment: segment.id }).await?;
            }
        }
        let Some(segment) = resumed else {
            return Ok((Self::begin(cube, wanted, catalog, data_dir, background).await?, Vec::new()));
        };
        let folder = data_dir.join(&segment.location);
        let whole: Vec<CuboidEntry> =
            segment.cuboids.into_iter().filter(|cuboid| is_whole(&folder, cuboid)).collect();
        remove_unfinished(&folder, &whole);
        tracing::info!(cube = %cube, finished = whole.len(), "a build goes on where it stopped");
        let resumed = Self {
            catalog: Arc::clone(catalog),
            data_dir: data_dir.to_owned(),
            background: background.clone(),
            id: segment.id,
            folder: segment.location,
            mark: mark_of(wanted),
            published: false,
        };
        Ok((resumed, whole))
    }

    /// Records the wish for a segment of `cube`.
    async fn begin(
        cube: &QualifiedName,
        wanted: &WantedSegment,
        catalog: &Arc<Catalog>,
        data_dir: &Path,
        background: &Background,
    ) -> Result<Self> {
        let snapshot = catalog.snapshot();
        let id = snapshot.cubes.get(cube).map(|entry| entry.id).ok_or_else(|| {
            QueryError::new(ErrorKind::UndefinedTable, format!("cube `{cube}` does not exist"))
        })?;
        let folder = format!("cubes/{id}/{}/", Uuid::now_v7().simple());
        let change = Change::BeginSegment {
            cube: id,
            revision: wanted.revision,
            location: folder.clone(),
            range: wanted.range,
            sources: wanted.sources.clone(),
        };
        let segment = catalog.commit(change).await?.segment;
        let id = segment.ok_or_else(|| QueryError::internal("the catalog gave a segment no id"))?;
        Ok(Self {
            catalog: Arc::clone(catalog),
            data_dir: data_dir.to_owned(),
            background: background.clone(),
            id,
            folder,
            mark: mark_of(wanted),
            published: false,
        })
    }

    /// What the names of this attempt's files have, so that a straggler of the one before, which may still
    /// put its file in place, is never taken for one of them.
    pub(super) fn mark(&self) -> &str {
        &self.mark
    }

    /// Lets the segment stay as it is, to be taken up by the next attempt.
    pub(super) fn leave(mut self) {
        self.published = true;
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
    pub(super) async fn publish(mut self, cube: &QualifiedName, facts: SegmentFacts) -> Result<()> {
        let before = self.catalog.snapshot();
        let SegmentFacts { source_rows, droppable_joins, key_bounds } = facts;
        let change = Change::PublishSegment {
            segment: self.id,
            source_rows,
            built_at_ms: now_ms(),
            droppable_joins,
            key_bounds,
        };
        let after = self.catalog.commit(change).await?.snapshot;
        self.published = true;
        let ready = |snapshot: &CatalogSnapshot| {
            let entry = snapshot.cubes.get(cube);
            entry.map(|entry| entry.segments.clone()).unwrap_or_default()
        };
        let kept = ready(&after);
        for old in ready(&before).into_iter().filter(|s| s.state == SegmentState::Ready) {
            if !kept.iter().any(|segment| segment.id == old.id) {
                retire(self.data_dir.join(&old.location), &self.background);
            }
        }
        Ok(())
    }
}

impl Drop for NewSegment {
    fn drop(&mut self) {
        if self.published {
            return;
        }
        let catalog = Arc::clone(&self.catalog);
        let (id, folder) = (self.id, self.data_dir.join(&self.folder));
        self.background.abandon(id);
        self.background.finish(async move {
            for _ in 0..2 {
                tokio::time::sleep(STRAGGLERS).await;
                remove(&folder);
            }
            if let Err(error) = catalog.commit(Change::DropSegment { segment: id }).await {
                tracing::warn!(segment = id.0, %error, "an abandoned segment stays in the catalog until restart");
            }
        });
    }
}

fn mark_of(wanted: &WantedSegment) -> String {
    if wanted.attempt == 0 { String::new() } else { format!("-{}", Uuid::now_v7().simple()) }
}

/// Milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
