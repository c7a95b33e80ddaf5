//! Rules for cubes and their segments.

use std::collections::BTreeSet;
use std::sync::Arc;

use nyala_model::{
    CatalogSnapshot, CubeDefinition, CubeEntry, CubeId, CuboidEntry, DimensionMoves, NodeId, QualifiedName,
    SegmentDamage, SegmentEntry, SegmentId, SegmentRange, SegmentState,
};

use crate::edit::{CubeKey, Edit};
use crate::error::CatalogError;
use crate::lookup::{
    check_name_is_free, find_building_segment, find_cube, find_cube_by_id, find_segment, find_table, missing,
};
use crate::rules::Edits;

pub fn new(id: CubeId, name: &QualifiedName, definition: &CubeDefinition, statement: &str) -> CubeEntry {
    CubeEntry {
        id,
        name: name.clone(),
        definition: definition.clone(),
        statement: statement.to_owned(),
        segments: Vec::new(),
    }
}

/// The tables are looked up anew because one may have been dropped since the cube was planned.
pub fn create(base: &CatalogSnapshot, cube: CubeEntry, if_not_exists: bool) -> Edits {
    if if_not_exists && base.cubes.contains_key(&cube.name) {
        return Ok(Vec::new());
    }
    check_name_is_free(base, &cube.name)?;
    for source in &cube.definition.sources {
        find_table(base, source)?;
    }
    Ok(vec![Edit::AddCube(Arc::new(cube))])
}

pub fn drop(base: &CatalogSnapshot, name: &QualifiedName, if_exists: bool) -> Edits {
    match find_cube(base, name) {
        Ok(cube) => Ok(vec![Edit::RemoveCube(cube.as_ref().into())]),
        Err(error) => missing(error, if_exists),
    }
}

pub fn alter(
    base: &CatalogSnapshot,
    (cube, answered): (CubeId, bool),
    definition: &CubeDefinition,
    statement: &str,
    moves: &DimensionMoves,
) -> Edits {
    let cube = find_cube_by_id(base, cube)?;
    check_switch(cube, answered)?;
    check_revision(cube, definition.revision.wrapping_sub(1))?;
    let mut edits = Vec::new();
    for segment in &cube.segments {
        match segment.state {
            SegmentState::Ready => carry_cuboids(cube, segment, definition, moves, &mut edits),
            _ if cube.definition.same_cells(definition) => {}
            SegmentState::Building | SegmentState::Damaged => {
                edits.push(Edit::RemoveSegment(cube.as_ref().into(), segment.id))
            }
        }
    }
    edits.push(Edit::SetDefinition {
        cube: cube.as_ref().into(),
        definition: definition.clone(),
        statement: statement.to_owned(),
    });
    Ok(edits)
}

/// A build that runs commits segments only, never a definition, so it cannot undo the switch.
pub fn switch(base: &CatalogSnapshot, cube: CubeId, revision: u32, answers: bool, statement: &str) -> Edits {
    let cube = find_cube_by_id(base, cube)?;
    check_revision(cube, revision)?;
    if cube.definition.options.answers == answers {
        return Ok(Vec::new());
    }
    let mut definition = cube.definition.clone();
    definition.options.answers = answers;
    Ok(vec![Edit::SetDefinition { cube: cube.as_ref().into(), definition, statement: statement.to_owned() }])
}

/// The remaining dimensions keep their order, so each set of dimensions only becomes a smaller number. In
/// ascending order, each moves to a place that is already free: its cuboid was removed or has moved.
fn carry_cuboids(
    cube: &Arc<CubeEntry>,
    segment: &SegmentEntry,
    definition: &CubeDefinition,
    moves: &DimensionMoves,
    edits: &mut Vec<Edit>,
) {
    let gone = |number: &u32| definition.measures.iter().all(|measure| measure.number != *number);
    let first_gone = cube.definition.measures.iter().map(|measure| measure.number).find(gone);
    let after = moves.carry(&segment.cuboids, &definition.grouping_sets, first_gone);
    let mut moved = Vec::new();
    for (before, after) in segment.cuboids.iter().zip(after) {
        match after {
            None => edits.push(Edit::RemoveCuboid(cube.as_ref().into(), segment.id, before.dimensions)),
            Some(after) if after != *before => moved.push((before.dimensions, after)),
            Some(_) => {}
        }
    }
    moved.sort_by_key(|(before, _)| *before);
    let moves = moved.into_iter();
    edits.extend(
        moves.map(|(before, after)| Edit::MoveCuboid(cube.as_ref().into(), segment.id, before, after)),
    );
}

pub fn new_segment(id: SegmentId, location: &str, range: SegmentRange) -> SegmentEntry {
    SegmentEntry {
        id,
        state: SegmentState::Building,
        range,
        sources: Vec::new(),
        location: location.to_owned(),
        source_rows: 0,
        built_at_ms: 0,
        droppable_joins: Vec::new(),
        key_bounds: None,
        cuboids: Vec::new(),
        damage: None,
        node: NodeId::default(),
    }
}

pub fn begin_segment(base: &CatalogSnapshot, cube: CubeId, revision: u32, segment: SegmentEntry) -> Edits {
    let cube = find_cube_by_id(base, cube)?;
    check_revision(cube, revision)?;
    Ok(vec![Edit::AddSegment(cube.as_ref().into(), segment)])
}

pub fn add_cuboid(base: &CatalogSnapshot, segment: SegmentId, cuboid: &CuboidEntry) -> Edits {
    let (cube, segment) = find_building_segment(base, segment)?;
    Ok(vec![Edit::PutCuboid(cube.as_ref().into(), segment.id, cuboid.clone())])
}

/// A current cuboid never changes; only an outdated one is replaced, by a current one.
pub fn extend_segment(
    base: &CatalogSnapshot,
    segment: SegmentId,
    revision: u32,
    cuboid: &CuboidEntry,
) -> Edits {
    let (cube, segment) = find_segment(base, segment)?;
    check_revision(cube, revision)?;
    let before = segment.cuboids.iter().find(|before| before.dimensions == cuboid.dimensions);
    if before.is_some_and(|before| cube.definition.is_current(before)) {
        return Err(CatalogError::SegmentReady { segment: segment.id });
    }
    Ok(vec![Edit::PutCuboid(cube.as_ref().into(), segment.id, cuboid.clone())])
}

pub fn publish_segment(
    base: &CatalogSnapshot,
    segment: SegmentId,
    ready: impl FnOnce(CubeKey, SegmentId) -> Edit,
) -> Edits {
    let (cube, segment) = find_building_segment(base, segment)?;
    let ready_ones = cube.segments.iter().filter(|other| other.state == SegmentState::Ready);
    let (replaced, kept): (Vec<_>, Vec<_>) =
        ready_ones.partition(|other| segment.range.contains(other.range));
    if let Some(other) = kept.iter().find(|other| other.range.overlaps(segment.range)) {
        return Err(CatalogError::SegmentsOverlap { segment: segment.id, other: other.id });
    }
    let damaged = cube
        .segments
        .iter()
        .filter(|other| other.state == SegmentState::Damaged && other.range.overlaps(segment.range));
    let removals =
        replaced.into_iter().chain(damaged).map(|other| Edit::RemoveSegment(cube.as_ref().into(), other.id));
    Ok(removals.chain([ready(cube.as_ref().into(), segment.id)]).collect())
}

pub fn drop_segments(base: &CatalogSnapshot, segments: &[SegmentId]) -> Vec<Edit> {
    let wanted: BTreeSet<SegmentId> = segments.iter().copied().collect();
    let mut edits = Vec::new();
    for cube in base.cubes.values() {
        let dropped = cube.segments.iter().filter(|segment| wanted.contains(&segment.id));
        edits.extend(dropped.map(|segment| Edit::RemoveSegment(cube.as_ref().into(), segment.id)));
    }
    edits
}

fn check_revision(cube: &CubeEntry, revision: u32) -> Result<(), CatalogError> {
    if cube.definition.revision == revision {
        return Ok(());
    }
    Err(CatalogError::Altered { name: cube.name.to_string() })
}

fn check_switch(cube: &CubeEntry, answered: bool) -> Result<(), CatalogError> {
    if cube.definition.options.answers == answered {
        return Ok(());
    }
    Err(CatalogError::Altered { name: cube.name.to_string() })
}

pub fn mark_damaged(base: &CatalogSnapshot, segment: SegmentId, damage: &SegmentDamage) -> Edits {
    let (cube, segment) = find_segment(base, segment)?;
    let ready = segment.state == SegmentState::Ready;
    let marked = || Edit::SetDamaged(cube.as_ref().into(), segment.id, damage.clone());
    Ok(ready.then(marked).into_iter().collect())
}

pub fn drop_unfinished(base: &CatalogSnapshot, segment: SegmentId) -> Edits {
    let (cube, segment) = find_building_segment(base, segment)?;
    Ok(vec![Edit::RemoveSegment(cube.as_ref().into(), segment.id)])
}

pub fn drop_segment(base: &CatalogSnapshot, segment: SegmentId) -> Edits {
    let (cube, segment) = find_segment(base, segment)?;
    Ok(vec![Edit::RemoveSegment(cube.as_ref().into(), segment.id)])
}
