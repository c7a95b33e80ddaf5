//! A segment from its record in the catalog to the published files.

use std::time::{SystemTime, UNIX_EPOCH};

use datafusion::common::DataFusionError;
use nyala_catalog::Change;
use nyala_model::{
    CatalogSnapshot, CuboidEntry, QualifiedName, SegmentId, SegmentRange, SegmentState, SourceFiles,
};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use uuid::Uuid;

use super::abandoned::give_back;
use super::leftovers::{is_whole, names_of, remove_unfinished};
use super::segment_home::SegmentHome;

/// A segment that is to be made.
#[derive(Debug, Clone)]
pub struct WantedSegment {
    /// The rows that it holds.
    pub range: SegmentRange,
    /// The files with these rows.
    pub sources: Vec<SourceFiles>,
    /// The revision of the cube that is built.
    pub revision: u32,
    /// Counts the attempts to make it, from 0.
    pub attempt: u32,
    /// Whether another attempt follows if this one fails for a transient reason.
    pub again: bool,
    /// Which unfinished segment of an earlier attempt is taken up.
    pub resume: Resume,
}

/// The nodes whose unfinished segment a build may take up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume {
    /// Any node: the lease tells that the build of the segment has ended.
    Any,
    /// This node only: another node may be working for the same job. Its unfinished segment is dropped, so that the catalog refuses
    /// what it still records.
    Own,
}

/// Facts found while a segment was made.
#[derive(Debug, Clone)]
pub struct SegmentFacts {
    /// Rows of the flat join.
    pub source_rows: u64,
    /// Tables of the join that keep every row exactly once.
    pub droppable_joins: Vec<usize>,
    /// Smallest and largest key, if the cube is partitioned.
    pub key_bounds: Option<(i64, i64)>,
}

/// A segment being written. Unless it is published, dropping it gives its space back.
pub struct NewSegment {
    home: SegmentHome,
    id: SegmentId,
    folder: String,
    mark: String,
    published: bool,
}

impl NewSegment {
    /// Takes up a segment of an interrupted build, or records a new one. Returns the finished cuboids. Other
    /// unfinished segments with such rows are dropped: their builds have ended, or are not wanted any more, since the caller
    /// has the right to build these rows.
    pub async fn begin_or_resume(
        cube: &QualifiedName,
        wanted: &WantedSegment,
        home: &SegmentHome,
    ) -> Result<(Self, Vec<CuboidEntry>)> {
        let SegmentHome { catalog, store, background, .. } = home;
        let abandoned = background.abandoned();
        // The catalog may have cuboids that this node does not know: another node recorded them, or the answer to a commit was lost.
        let snapshot = catalog.refresh().await?;
        let left = snapshot.cubes.get(cube).map(|entry| entry.segments.clone()).unwrap_or_default();
        let mut resumed = None;
        let left = left.into_iter().filter(|s| s.state == SegmentState::Building);
        for segment in left.filter(|segment| !abandoned.contains(&segment.id)) {
            let same = segment.range == wanted.range && segment.sources == wanted.sources;
            let may = wanted.resume == Resume::Any || segment.node == home.node;
            if same && may && resumed.is_none() {
                resumed = Some(segment);
            } else if same || segment.range.overlaps(wanted.range) {
                home.commit(Change::DropUnfinished { segment: segment.id }).await?;
                store.remove(&segment.location).await;
            }
        }
        let Some(segment) = resumed else {
            return Ok((Self::begin(cube, wanted, home).await?, Vec::new()));
        };
        background.take_up(segment.id);
        let mut whole: Vec<CuboidEntry> = Vec::new();
        for cuboid in segment.cuboids {
            if is_whole(store, &segment.location, &cuboid).await? {
                whole.push(cuboid);
            }
        }
        remove_unfinished(store, &segment.location, &whole).await?;
        tracing::info!(cube = %cube, finished = whole.len(), "a build goes on where it stopped");
        let resumed = Self {
            home: home.clone(),
            id: segment.id,
            folder: segment.location,
            // The node that began the segment may only be halted, and put a file in place when it goes on.
            mark: new_mark(),
            published: false,
        };
        Ok((resumed, whole))
    }

    /// Records a new segment of `cube`.
    async fn begin(cube: &QualifiedName, wanted: &WantedSegment, home: &SegmentHome) -> Result<Self> {
        let snapshot = home.catalog.snapshot();
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
            node: home.node.clone(),
        };
        let segment = home.commit(change).await?.segment;
        let id = segment.ok_or_else(|| QueryError::internal("the catalog gave a segment no id"))?;
        Ok(Self { home: home.clone(), id, folder, mark: mark_of(wanted), published: false })
    }

    /// Part of the file names of this attempt. A straggler of the attempt before may still put its file in
    /// place, and must not be taken for a file of this one.
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// Lets the segment stay as it is, to be taken up by the next attempt.
    pub fn leave(mut self) {
        self.published = true;
        self.home.background.leave(self.id);
    }

    /// Folder of its files within the data store, with a trailing slash.
    pub fn folder(&self) -> &str {
        &self.folder
    }

    /// Records a finished cuboid.
    pub async fn add(&self, cuboid: &CuboidEntry) -> Result<()> {
        let change = Change::AddCuboid { segment: self.id, cuboid: cuboid.clone() };
        self.home.commit(change).await?;
        Ok(())
    }

    /// Makes the segment visible in one transaction. Files of the one it replaces are kept until no
    /// query can be reading them.
    ///
    /// The transaction goes on if the build is stopped meanwhile: it cannot be taken back, and the files of a
    /// segment that became visible must not be deleted. Nor may the next build take it up.
    pub async fn publish(self, cube: &QualifiedName, facts: SegmentFacts) -> Result<()> {
        self.home.background.abandon(self.id);
        let (background, cube) = (self.home.background.clone(), cube.clone());
        background.complete(async move { self.make_visible(&cube, facts).await }).await
    }

    async fn make_visible(mut self, cube: &QualifiedName, facts: SegmentFacts) -> Result<()> {
        let before = self.home.catalog.snapshot();
        let own = before.cubes.get(cube).and_then(|cube| cube.segments.iter().find(|s| s.id == self.id));
        let cuboids = own.map(|segment| segment.cuboids.as_slice()).unwrap_or_default();
        let sealed = self.home.store.seal(&self.folder, names_of(cuboids)).await;
        sealed.map_err(DataFusionError::from)?;
        // Another build may have published meanwhile.
        let before = self.home.catalog.snapshot();
        let SegmentFacts { source_rows, droppable_joins, key_bounds } = facts;
        let change = Change::PublishSegment {
            segment: self.id,
            source_rows,
            built_at_ms: now_ms(),
            droppable_joins,
            key_bounds,
        };
        let after = self.home.commit(change).await?.snapshot;
        self.published = true;
        self.home.background.settle(self.id);
        let ready = |snapshot: &CatalogSnapshot| {
            let entry = snapshot.cubes.get(cube);
            entry.map(|entry| entry.segments.clone()).unwrap_or_default()
        };
        let kept = ready(&after);
        for old in ready(&before).into_iter().filter(|s| s.state != SegmentState::Building) {
            if !kept.iter().any(|segment| segment.id == old.id) {
                self.home.retire(&old.location, after.version);
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
        give_back(&self.home, self.id, &self.folder);
    }
}

fn mark_of(wanted: &WantedSegment) -> String {
    if wanted.attempt == 0 { String::new() } else { new_mark() }
}

fn new_mark() -> String {
    format!("-{}", Uuid::now_v7().simple())
}

/// Milliseconds since the Unix epoch.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "segment_tests.rs"]
pub(super) mod tests;
