//! A segment from its record in the catalog to the published files, and the removal of failed ones.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use datafusion::common::DataFusionError;
use nyala_catalog::{Catalog, CatalogError, Change, Committed, Permit};
use nyala_model::{
    CatalogSnapshot, CuboidEntry, NodeId, QualifiedName, SegmentId, SegmentRange, SegmentState, SourceFiles,
};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_storage::SegmentStore;
use uuid::Uuid;

use super::background::Background;
use super::leftovers::{Readers, is_whole, names_of, remove_unfinished};

/// A file operation that was under way when its task was stopped still ends, and may put its file in
/// place after the folder was deleted; so deletion waits this long, and is done twice.
pub const STRAGGLERS: Duration = Duration::from_millis(500);

/// A segment that is to be made.
#[derive(Debug, Clone)]
pub struct WantedSegment {
    /// The rows it holds.
    pub range: SegmentRange,
    /// The files they lie in.
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

/// Whose unfinished segment a build takes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume {
    /// That of any node: the lease tells that its build has ended.
    Any,
    /// That of this node only: another one may be at work for the same job. What it left is dropped, so that nothing that it
    /// does from now on can be recorded.
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

/// Where segments are recorded, kept and deleted.
#[derive(Debug, Clone)]
pub struct SegmentHome {
    /// Where they are recorded.
    pub catalog: Arc<Catalog>,
    /// Where their files lie.
    pub store: SegmentStore,
    /// Runs work that outlives its statement, such as the deletion of files.
    pub background: Background,
    /// This node.
    pub node: NodeId,
    /// The right to build the cube, for those who make its segments: what this node commits after the right has ended
    /// is refused.
    pub permit: Option<Permit>,
    /// Who may still read files that were replaced.
    pub readers: Arc<dyn Readers>,
    /// How long replaced files stay at least: [`RETIREMENT`](super::RETIREMENT).
    pub retirement: Duration,
}

impl SegmentHome {
    /// Makes a change under the lease, if there is one.
    pub async fn commit(&self, change: Change) -> std::result::Result<Committed, CatalogError> {
        self.catalog.commit_under(self.permit.as_ref().map_or(&[], Permit::fences), change).await
    }
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
        // It may name cuboids that this node does not know: another one recorded them, or the answer to a commit was lost.
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
            // The node that began it may only have been halted, with a file on its way.
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

/// Takes an abandoned segment out of the catalog, and then deletes its files. If that fails, the next build goes on with it,
/// which may be another node's: it has the lease now.
fn give_back(home: &SegmentHome, id: SegmentId, folder: &str) {
    let (home, folder) = (home.clone(), folder.to_owned());
    home.background.abandon(id);
    let background = home.background.clone();
    background.finish(async move {
        tokio::time::sleep(STRAGGLERS).await;
        match home.commit(Change::DropUnfinished { segment: id }).await {
            Ok(_) => {
                for _ in 0..2 {
                    home.store.remove(&folder).await;
                    tokio::time::sleep(STRAGGLERS).await;
                }
            }
            // Another build has the lease, or has dropped the segment already, or it became visible.
            Err(
                CatalogError::LeaseLost { .. }
                | CatalogError::SegmentReady { .. }
                | CatalogError::NotFound { what: "segment", .. },
            ) => {}
            Err(error) => {
                tracing::warn!(segment = id.0, %error, "an abandoned segment stays in the catalog until the next build");
            }
        }
        home.background.settle(id);
    });
}

/// Deletes the segments that other nodes were making for a job of this node, which has ended before they were whole. What these
/// nodes record from now on is refused.
pub async fn drop_those_of_others(cube: &QualifiedName, home: &SegmentHome) -> Result<()> {
    home.catalog.refresh().await?;
    let snapshot = home.catalog.snapshot();
    let segments = snapshot.cubes.get(cube).into_iter().flat_map(|cube| &cube.segments);
    let unfinished = segments.filter(|segment| segment.state == SegmentState::Building);
    for segment in unfinished.filter(|segment| segment.node != home.node) {
        match home.commit(Change::DropUnfinished { segment: segment.id }).await {
            Ok(_) => home.store.remove(&segment.location).await,
            Err(CatalogError::SegmentReady { .. } | CatalogError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// On drop, deletes the segments of a cube that wait for another attempt: the build failed or was stopped before.
pub struct LeftSegments {
    /// The cube that it belongs to.
    pub cube: QualifiedName,
    /// Where the segment is recorded and kept.
    pub home: SegmentHome,
}

impl Drop for LeftSegments {
    fn drop(&mut self) {
        let snapshot = self.home.catalog.snapshot();
        let segments = snapshot.cubes.get(&self.cube).into_iter().flat_map(|cube| &cube.segments);
        for segment in segments.filter(|segment| self.home.background.take_up(segment.id)) {
            give_back(&self.home, segment.id, &segment.location);
        }
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
pub(super) mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use futures::FutureExt;
    use nyala_model::{CubeDefinition, CubeOptions, CuboidFile, DimensionSet};
    use tempfile::TempDir;
    use tokio::runtime::Handle;

    use super::*;

    pub const PATIENCE: Duration = Duration::from_secs(60);
    const FILE: &str = "0-0.parquet";

    #[derive(Debug)]
    struct NoReaders;

    impl Readers for NoReaders {
        fn gone(&self, _: nyala_model::SnapshotVersion) -> futures::future::BoxFuture<'static, ()> {
            std::future::ready(()).boxed()
        }
    }

    /// Statements that read an old snapshot until they are told to end.
    #[derive(Debug, Default)]
    struct Reading(Arc<tokio::sync::Notify>);

    impl Readers for Reading {
        fn gone(&self, _: nyala_model::SnapshotVersion) -> futures::future::BoxFuture<'static, ()> {
            let ended = Arc::clone(&self.0);
            async move { ended.notified().await }.boxed()
        }
    }

    /// A catalog with one cube.
    pub struct Subject {
        pub folder: TempDir,
        pub catalog: Arc<Catalog>,
        pub background: Background,
        pub cube: QualifiedName,
    }

    impl Subject {
        pub async fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let catalog = Catalog::open_sqlite(&folder.path().join("catalog.sqlite")).await.unwrap();
            let cube = QualifiedName::new("public", "c");
            let definition = CubeDefinition {
                select: String::new(),
                sources: Vec::new(),
                dimensions: Vec::new(),
                measures: Vec::new(),
                next_measure: 0,
                grouping_sets: vec![DimensionSet::EMPTY],
                partition: None,
                revision: 0,
                options: CubeOptions::default(),
            };
            let (name, statement) = (cube.clone(), String::new());
            let create = Change::CreateCube { name, definition, statement, if_not_exists: false };
            catalog.commit(create).await.unwrap();
            let background = Background::new(Handle::current());
            Self { folder, catalog: Arc::new(catalog), background, cube }
        }

        /// A segment with one cuboid of one file, new or taken up.
        pub async fn built(&self) -> NewSegment {
            let (range, sources) = (SegmentRange::Whole, Vec::new());
            let wanted =
                WantedSegment { range, sources, revision: 0, attempt: 0, again: false, resume: Resume::Any };
            let data = self.folder.path();
            let home = self.home();
            let begun = NewSegment::begin_or_resume(&self.cube, &wanted, &home);
            let (segment, _) = begun.await.unwrap();
            let folder = data.join(segment.folder());
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(FILE), "cells").unwrap();
            let cuboid = CuboidEntry {
                dimensions: DimensionSet::EMPTY,
                rows: 1,
                bytes: 5,
                measures: 0,
                repeats: false,
                wider: false,
                files: vec![CuboidFile {
                    name: FILE.to_owned(),
                    rows: 1,
                    bytes: 5,
                    tail_from: 0,
                    tail_crc: 0,
                }],
            };
            segment.add(&cuboid).await.unwrap();
            segment
        }

        pub fn home(&self) -> SegmentHome {
            SegmentHome {
                catalog: Arc::clone(&self.catalog),
                store: SegmentStore::local(self.folder.path()).unwrap(),
                background: self.background.clone(),
                node: NodeId("here".to_owned()),
                permit: None,
                readers: Arc::new(NoReaders),
                retirement: Duration::ZERO,
            }
        }

        fn left(&self) -> LeftSegments {
            LeftSegments { cube: self.cube.clone(), home: self.home() }
        }

        fn states(&self) -> Vec<SegmentState> {
            let snapshot = self.catalog.snapshot();
            snapshot.cubes.values().flat_map(|cube| &cube.segments).map(|segment| segment.state).collect()
        }
    }

    pub fn facts() -> SegmentFacts {
        SegmentFacts { source_rows: 1, droppable_joins: Vec::new(), key_bounds: None }
    }

    #[tokio::test]
    async fn a_segment_that_becomes_visible_while_its_build_is_stopped_keeps_its_files() {
        let subject = Subject::new().await;
        let segment = subject.built().await;
        let file = subject.folder.path().join(segment.folder()).join(FILE);
        // Stopped at its first await.
        assert!(segment.publish(&subject.cube, facts()).now_or_never().is_none());
        subject.background.finished(PATIENCE).await;
        assert_eq!(subject.states(), [SegmentState::Ready]);
        assert!(file.exists());
    }

    #[tokio::test]
    async fn a_segment_without_its_files_does_not_become_visible() {
        let subject = Subject::new().await;
        let segment = subject.built().await;
        std::fs::remove_file(subject.folder.path().join(segment.folder()).join(FILE)).unwrap();
        let error = segment.publish(&subject.cube, facts()).await.unwrap_err();
        assert!(error.message.contains(FILE), "{error}");
        subject.background.finished(PATIENCE).await;
        assert!(subject.states().is_empty());
    }

    #[tokio::test]
    async fn a_segment_that_is_ready_without_this_process_knowing_is_not_taken_up() {
        let subject = Subject::new().await;
        let first = subject.built().await;
        let folder = first.folder().to_owned();
        // The answer to the commit was lost.
        let there = Catalog::open_sqlite(&subject.folder.path().join("catalog.sqlite")).await.unwrap();
        let publish = Change::PublishSegment {
            segment: first.id,
            source_rows: 1,
            built_at_ms: 1,
            droppable_joins: Vec::new(),
            key_bounds: None,
        };
        there.commit(publish).await.unwrap();
        assert_eq!(subject.states(), [SegmentState::Building]);
        first.leave();
        let second = subject.built().await;
        assert_ne!(second.folder(), folder);
        assert!(subject.folder.path().join(folder).join(FILE).exists());
        second.leave();
    }

    #[tokio::test]
    async fn replaced_files_stay_until_no_statement_on_any_node_reads_them() {
        let subject = Subject::new().await;
        let reading = Reading::default();
        let ended = Arc::clone(&reading.0);
        let home = SegmentHome { readers: Arc::new(reading), ..subject.home() };
        let folder = subject.folder.path().join("cubes/1/old/");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(FILE), "cells").unwrap();
        home.retire("cubes/1/old/", nyala_model::SnapshotVersion(7));
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(folder.join(FILE).exists());
        ended.notify_one();
        let begun = std::time::Instant::now();
        while folder.join(FILE).exists() {
            assert!(begun.elapsed() < PATIENCE, "the files of a retired segment stay");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn replaced_files_that_the_catalog_names_again_stay() {
        let subject = Subject::new().await;
        let segment = subject.built().await;
        let cuboids = subject.catalog.snapshot().cubes[&subject.cube].segments[0].cuboids.clone();
        // As after the catalog's database went back to before they were replaced.
        let since = nyala_model::SnapshotVersion(7);
        subject.home().retire(segment.folder(), since);
        subject.home().retire("cubes/", since);
        subject.home().retire_files(segment.folder(), &cuboids, since);
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(subject.folder.path().join(segment.folder()).join(FILE).exists());
        segment.leave();
    }

    #[tokio::test]
    async fn what_another_node_left_is_not_taken_up_by_a_part_of_the_same_job() {
        let subject = Subject::new().await;
        let first = subject.built().await;
        let old = first.folder().to_owned();
        let (range, sources) = (SegmentRange::Whole, Vec::new());
        let wanted =
            WantedSegment { range, sources, revision: 0, attempt: 0, again: false, resume: Resume::Own };
        let other = SegmentHome { node: NodeId("other".to_owned()), ..subject.home() };
        let (second, finished) = NewSegment::begin_or_resume(&subject.cube, &wanted, &other).await.unwrap();
        assert!(finished.is_empty());
        assert_ne!(second.folder(), old);
        // What the first does from now on is refused.
        let refused = first.publish(&subject.cube, facts()).await.unwrap_err();
        assert!(refused.message.contains("segment"), "{refused}");
        assert_eq!(subject.states(), [SegmentState::Building]);
        drop(second);
        subject.background.finished(PATIENCE).await;
        assert!(subject.states().is_empty());
    }

    /// The node that began it may be halted in the middle of a file, and put it in place when it goes on.
    #[tokio::test]
    async fn a_build_that_goes_on_with_a_segment_gives_its_files_other_names() {
        let subject = Subject::new().await;
        let first = subject.built().await;
        let (folder, mark) = (first.folder().to_owned(), first.mark().to_owned());
        first.leave();
        let second = subject.built().await;
        assert_eq!(second.folder(), folder);
        assert_ne!(second.mark(), mark);
        second.leave();
    }

    #[tokio::test]
    async fn a_segment_that_is_left_is_taken_up_or_given_back() {
        let subject = Subject::new().await;
        subject.built().await.leave();
        let taken_up = subject.built().await;
        drop(subject.left());
        assert_eq!(subject.states(), [SegmentState::Building]);
        let folder = subject.folder.path().join(taken_up.folder());
        taken_up.leave();
        drop(subject.left());
        subject.background.finished(PATIENCE).await;
        assert!(subject.states().is_empty());
        assert!(!folder.exists());
    }
}
