//! Altered cubes: the cuboids that segments keep, and the refused changes.

use std::sync::Arc;

use nyala_model::{
    CubeDefinition, CubeEntry, CubeOptions, CuboidEntry, Dimension, DimensionMoves, DimensionSet, SegmentId,
};

use super::fixtures::*;
use crate::Change;

pub async fn cuboids_move_with_their_dimensions(backend: &dyn Backend) {
    let subject = with_cube(backend, &["a", "b", "c"]).await;
    let segment = subject.begin("revenue").await;
    let all = [(0b111, 90), (0b101, 20), (0b100, 7), (0b010, 5), (0b001, 3), (0b000, 1)];
    for (bits, rows) in all {
        subject.make(Change::AddCuboid { segment, cuboid: cuboid(bits, rows) }).await;
    }
    subject.make(publish(segment)).await;
    let cube = subject.cube("revenue");
    let definition = next(&cube, &["a", "c"], &[0b11, 0b10, 0b01]);
    let moves = DimensionMoves(vec![Some(0), None, Some(1)]);
    subject.make(alter(&cube, definition.clone(), moves)).await;
    let moved = |bits, before: CuboidEntry| CuboidEntry { dimensions: set(bits), ..before };
    let expected =
        [moved(0b11, cuboid(0b101, 20)), moved(0b10, cuboid(0b100, 7)), moved(0b01, cuboid(0b001, 3))];
    let altered = Subject::open(backend).await.cube("revenue");
    assert_eq!(altered.segments[0].cuboids, expected);
    assert_eq!((&altered.definition, altered.statement.as_str()), (&definition, "CREATE CUBE altered"));
    // Of the two cuboids with `c`, only the one without repeated rows is kept.
    let definition = next(&altered, &["a"], &[0b1]);
    subject.make(alter(&altered, definition, DimensionMoves(vec![None, Some(0)]))).await;
    let only = subject.cube("revenue").segments[0].cuboids.clone();
    assert_eq!(only, [moved(0b1, cuboid(0b100, 7))]);
    let altered = subject.cube("revenue");
    let definition = next(&altered, &[], &[0]);
    subject.make(alter(&altered, definition, DimensionMoves(vec![None]))).await;
    let only = subject.cube("revenue").segments[0].cuboids.clone();
    assert_eq!(only, [CuboidEntry { repeats: true, wider: true, ..moved(0, cuboid(0b100, 7)) }]);
}

pub async fn builds_of_another_revision_are_refused(backend: &dyn Backend) {
    let subject = with_cube(backend, &["a"]).await;
    let ready = subject.begin("revenue").await;
    subject.make(publish(ready)).await;
    let before = subject.cube("revenue");
    let change = alter(&before, next(&before, &["a"], &[1, 0]), DimensionMoves(vec![Some(0)]));
    subject.make(change.clone()).await;
    let refusal = "cube `public.revenue` was altered meanwhile; run the statement again";
    subject.refuse(change, refusal).await;
    subject.refuse(extend(ready, &before, cuboid(1, 10)), refusal).await;
    let begin = Change::BeginSegment {
        cube: before.id,
        revision: before.definition.revision,
        location: String::new(),
        range: nyala_model::SegmentRange::Whole,
        sources: vec![],
        node: node(),
    };
    subject.refuse(begin, refusal).await;
}

pub async fn a_switch_stops_no_build_and_no_alteration_undoes_it(backend: &dyn Backend) {
    let subject = with_cube(backend, &["a"]).await;
    let ready = subject.begin("revenue").await;
    subject.make(publish(ready)).await;
    let building = subject.begin("revenue").await;
    let switch = |cube: &CubeEntry, answers: bool| Change::SwitchCube {
        cube: cube.id,
        revision: cube.definition.revision,
        answers,
        statement: format!("CREATE CUBE switched {answers}"),
    };
    subject.make(switch(&subject.cube("revenue"), true)).await;
    let before = subject.cube("revenue");
    subject.make(switch(&before, false)).await;
    let options = CubeOptions { answers: false, ..before.definition.options.clone() };
    let expected = CubeEntry {
        definition: CubeDefinition { options, ..before.definition.clone() },
        statement: "CREATE CUBE switched false".to_owned(),
        ..before.as_ref().clone()
    };
    assert_eq!(*Subject::open(backend).await.cube("revenue"), expected);
    subject.forgive(switch(&before, false)).await;
    // The build goes on, and begins further segments.
    subject.make(Change::AddCuboid { segment: building, cuboid: cuboid(1, 10) }).await;
    subject.make(publish(building)).await;
    subject.make(extend(building, &before, cuboid(0, 1))).await;
    let off = subject.cube("revenue");
    assert!(!off.definition.options.answers);
    let refusal = "cube `public.revenue` was altered meanwhile; run the statement again";
    let moves = || DimensionMoves(vec![Some(0)]);
    subject.refuse(alter(&before, next(&before, &["a"], &[1, 0]), moves()), refusal).await;
    subject.make(alter(&off, next(&off, &["a"], &[1, 0]), moves())).await;
    assert!(!subject.cube("revenue").definition.options.answers);
    subject.refuse(switch(&off, true), refusal).await;
    subject.make(switch(&subject.cube("revenue"), true)).await;
    assert!(subject.cube("revenue").definition.options.answers);
}

pub async fn segments_being_built_end_with_their_cells(backend: &dyn Backend) {
    let subject = with_cube(backend, &["a"]).await;
    let building = subject.begin("revenue").await;
    let cube = subject.cube("revenue");
    let same = CubeDefinition { revision: 1, ..cube.definition.clone() };
    subject.make(alter(&cube, same, DimensionMoves(vec![Some(0)]))).await;
    let cube = subject.cube("revenue");
    assert_eq!(cube.segments.len(), 1);
    subject.make(alter(&cube, next(&cube, &["a"], &[0]), DimensionMoves(vec![Some(0)]))).await;
    assert!(subject.cube("revenue").segments.is_empty());
    let gone = format!("segment `{building}` does not exist; SHOW SEGMENTS lists what does");
    subject.refuse(Change::AddCuboid { segment: building, cuboid: cuboid(1, 1) }, &gone).await;
}

pub async fn a_ready_segment_takes_what_it_lacks(backend: &dyn Backend) {
    let subject = with_cube(backend, &["a", "b"]).await;
    let segment = subject.begin("revenue").await;
    let old = CuboidEntry { measures: 0, ..cuboid(0b11, 10) };
    subject.make(Change::AddCuboid { segment, cuboid: old }).await;
    subject.make(publish(segment)).await;
    let cube = subject.cube("revenue");
    for cuboid in [cuboid(0b11, 20), cuboid(0b01, 4)] {
        subject.make(extend(segment, &cube, cuboid.clone())).await;
        let immutable =
            format!("segment `{segment}` is ready and cannot be changed any more; begin a new segment");
        subject.refuse(extend(segment, &cube, cuboid), &immutable).await;
    }
    assert_eq!(subject.cube("revenue").segments[0].cuboids, [cuboid(0b11, 20), cuboid(0b01, 4)]);
}

fn set(bits: u64) -> DimensionSet {
    DimensionSet::from_bits(bits)
}

fn extend(segment: SegmentId, cube: &CubeEntry, cuboid: CuboidEntry) -> Change {
    Change::ExtendSegment { segment, revision: cube.definition.revision, cuboid }
}

fn alter(cube: &CubeEntry, definition: CubeDefinition, moves: DimensionMoves) -> Change {
    let statement = "CREATE CUBE altered".to_owned();
    let answered = cube.definition.options.answers;
    Change::AlterCube { cube: cube.id, definition: Box::new(definition), statement, moves, answered }
}

/// The definition with other dimensions and grouping sets, as its next revision.
fn next(cube: &Arc<CubeEntry>, dimensions: &[&str], sets: &[u64]) -> CubeDefinition {
    CubeDefinition {
        dimensions: named(dimensions),
        grouping_sets: sets.iter().copied().map(set).collect(),
        revision: cube.definition.revision + 1,
        ..cube.definition.clone()
    }
}

fn named(dimensions: &[&str]) -> Vec<Dimension> {
    let dimension = |name: &&str| Dimension {
        name: (*name).to_owned(),
        expression: (*name).to_owned(),
        data_type: "Int32".to_owned(),
    };
    dimensions.iter().map(dimension).collect()
}

async fn with_cube(backend: &dyn Backend, dimensions: &[&str]) -> Subject {
    let subject = Subject::open(backend).await;
    subject.make(create_table("sales")).await;
    let change = Change::CreateCube {
        name: name("revenue"),
        definition: CubeDefinition { dimensions: named(dimensions), ..definition(&["sales"]) },
        statement: "CREATE CUBE revenue AS SELECT 1".to_owned(),
        if_not_exists: false,
    };
    subject.make(change).await;
    subject
}
