//! Segments that are taken up, published, stopped and given back.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use nyala_catalog::Catalog;
use nyala_model::{CubeDefinition, CubeOptions, CuboidFile, DimensionSet, NodeId};
use nyala_storage::SegmentStore;
use tempfile::TempDir;
use tokio::runtime::Handle;

use super::super::abandoned::LeftSegments;
use super::super::background::Background;
use super::super::leftovers::Readers;
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
            files: vec![CuboidFile { name: FILE.to_owned(), rows: 1, bytes: 5, tail_from: 0, tail_crc: 0 }],
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
    // The build is stopped at its first await.
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
    // Another process publishes, as if the answer to the commit was lost.
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
    // As if the catalog's database had gone back to a state before the segment was replaced.
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
    let wanted = WantedSegment { range, sources, revision: 0, attempt: 0, again: false, resume: Resume::Own };
    let other = SegmentHome { node: NodeId("other".to_owned()), ..subject.home() };
    let (second, finished) = NewSegment::begin_or_resume(&subject.cube, &wanted, &other).await.unwrap();
    assert!(finished.is_empty());
    assert_ne!(second.folder(), old);
    // The catalog refuses what the first node records from now on.
    let refused = first.publish(&subject.cube, facts()).await.unwrap_err();
    assert!(refused.message.contains("segment"), "{refused}");
    assert_eq!(subject.states(), [SegmentState::Building]);
    drop(second);
    subject.background.finished(PATIENCE).await;
    assert!(subject.states().is_empty());
}

/// The node that began the segment may be halted in the middle of a file, and put the file in place when it goes on.
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
