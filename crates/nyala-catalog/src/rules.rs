//! Rules for changes: a pure function from the stored catalog to the edits that make the change.
//!
//! The rules know no database, so every backend keeps the same promises, and they can be tested
//! without one. They run inside the backend's transaction, on the state that it reads.
//!
//! Ids need no counter: a transaction creates at most one object, and the object's id is the version
//! of that transaction. Versions only grow, so an id is never given twice, not even after a drop.

use std::collections::BTreeSet;
use std::sync::Arc;

use nyala_model::suggest::nearest;
use nyala_model::{
    CatalogSnapshot, CubeDefinition, CubeEntry, CubeId, CuboidEntry, DimensionMoves, NodeId, QualifiedName,
    SegmentEntry, SegmentId, SegmentRange, SegmentState, SnapshotVersion, TableEntry, TableId,
};

use crate::DEFAULT_SCHEMA;
use crate::change::Change;
use crate::edit::{CubeKey, Edit};
use crate::error::CatalogError;
use crate::{live, relations, roles};

/// The outcome of the rules for one change.
#[derive(Debug)]
pub struct Decision {
    /// In the order in which they must be made; empty when there is nothing to do.
    pub edits: Vec<Edit>,
    /// The catalog with the edits made, one version later; equal to the base without edits.
    pub next: CatalogSnapshot,
    /// The segment that was added.
    pub segment: Option<SegmentId>,
}

pub type Edits = Result<Vec<Edit>, CatalogError>;

/// Checks `change` against the whole stored catalog.
pub fn decide(base: &CatalogSnapshot, change: &Change) -> Result<Decision, CatalogError> {
    let mut edits = edits(base, base.version.0.saturating_add(1), change)?;
    edits.extend(roles::follow(base, &edits));
    let mut next = base.clone();
    edits.iter().for_each(|edit| edit.apply_to(&mut next));
    if !edits.is_empty() {
        next.version = SnapshotVersion(base.version.0.saturating_add(1));
    }
    let segment = edits.iter().find_map(|edit| match edit {
        Edit::AddSegment(_, segment) => Some(segment.id),
        _ => None,
    });
    Ok(Decision { edits, next, segment })
}

fn edits(base: &CatalogSnapshot, id: u64, change: &Change) -> Edits {
    match change {
        Change::CreateSchema { name, if_not_exists } => create_schema(base, name, *if_not_exists),
        Change::DropSchema { name, if_exists, cascade } => drop_schema(base, name, *if_exists, *cascade),
        Change::CreateTable { table, if_not_exists } => {
            relations::create(base, TableId(id), table, *if_not_exists)
        }
        Change::ReplaceView { view } => relations::replace_view(base, TableId(id), view),
        Change::DropTables { names, views, if_exists, cascade } => {
            relations::drop(base, names, (*views, *if_exists, *cascade))
        }
        Change::RenameTable { name, to, if_exists, statement } => {
            relations::rename(base, name, to, *if_exists, statement)
        }
        Change::AlterTable { table, schema_ipc, defaults, definition } => {
            live::alter_table(base, *table, schema_ipc, defaults, definition)
        }
        Change::CreateDiskStore { store, if_not_exists } => live::create_store(base, store, *if_not_exists),
        Change::DropDiskStore { name, if_exists } => live::drop_store(base, name, *if_exists),
        Change::ForgetLeftover { store, stored_as } => live::forget_leftover(base, store, stored_as),
        Change::CreateCube { name, definition, statement, if_not_exists } => {
            let cube = new_cube(CubeId(id), name, definition, statement);
            create_cube(base, cube, *if_not_exists)
        }
        Change::AlterCube { cube, definition, statement, moves, answered } => {
            let cube = find_cube_by_id(base, *cube)?;
            check_switch(cube, *answered)?;
            alter_cube(cube, definition, statement, moves)
        }
        Change::SwitchCube { cube, revision, answers, statement } => {
            switch_cube(base, *cube, *revision, *answers, statement)
        }
        Change::DropCube { name, if_exists } => drop_cube(base, name, *if_exists),
        Change::BeginSegment { cube, revision, location, range, sources, node } => {
            let segment = SegmentEntry {
                sources: sources.clone(),
                node: node.clone(),
                ..new_segment(SegmentId(id), location, *range)
            };
            begin_segment(base, *cube, *revision, segment)
        }
        Change::AddCuboid { segment, cuboid } => add_cuboid(base, *segment, cuboid),
        Change::ExtendSegment { segment, revision, cuboid } => {
            extend_segment(base, *segment, *revision, cuboid)
        }
        Change::PublishSegment { segment, source_rows, built_at_ms, droppable_joins, key_bounds } => {
            publish_segment(base, *segment, |cube, segment| Edit::SetReady {
                cube,
                segment,
                source_rows: *source_rows,
                built_at_ms: *built_at_ms,
                droppable_joins: droppable_joins.clone(),
                key_bounds: *key_bounds,
            })
        }
        Change::MarkDamaged { segment, damage } => {
            let (cube, segment) = find_segment(base, *segment)?;
            let ready = segment.state == SegmentState::Ready;
            let marked = || Edit::SetDamaged(cube.as_ref().into(), segment.id, damage.clone());
            Ok(ready.then(marked).into_iter().collect())
        }
        Change::DropUnfinished { segment } => {
            let (cube, segment) = find_building_segment(base, *segment)?;
            Ok(vec![Edit::RemoveSegment(cube.as_ref().into(), segment.id)])
        }
        Change::DropSegment { segment } => {
            let (cube, segment) = find_segment(base, *segment)?;
            Ok(vec![Edit::RemoveSegment(cube.as_ref().into(), segment.id)])
        }
        Change::DropSegments { segments } => Ok(drop_segments(base, segments)),
        Change::CreateRole { role, if_not_exists } => roles::create(base, role, *if_not_exists),
        Change::AlterRole { name, change } => roles::alter(base, name, change),
        Change::DropRole { name, if_exists } => roles::drop(base, name, *if_exists),
        Change::Grant { what, to } => roles::grant(base, what, to),
        Change::Revoke { what, from } => roles::revoke(base, what, from),
    }
}

fn create_schema(base: &CatalogSnapshot, name: &str, if_not_exists: bool) -> Edits {
    match (base.schemas.contains(name), if_not_exists) {
        (false, _) => Ok(vec![Edit::AddSchema(name.to_owned())]),
        (true, true) => Ok(Vec::new()),
        (true, false) => Err(CatalogError::AlreadyExists { what: "schema", name: name.to_owned() }),
    }
}

fn drop_schema(base: &CatalogSnapshot, name: &str, if_exists: bool, cascade: bool) -> Edits {
    if !base.schemas.contains(name) {
        return if if_exists { Ok(Vec::new()) } else { Err(schema_not_found(base, name)) };
    }
    if name == DEFAULT_SCHEMA {
        return Err(CatalogError::Protected { what: "schema", name: name.to_owned() });
    }
    let tables: Vec<&Arc<TableEntry>> =
        base.tables.values().filter(|table| table.name.schema == name).collect();
    let cubes: Vec<_> = base.cubes.values().filter(|cube| cube.name.schema == name).collect();
    if !cascade && (!tables.is_empty() || !cubes.is_empty()) {
        let tables = tables.iter().map(|table| (table.kind(), &table.name));
        let by = list(tables.chain(cubes.iter().map(|cube| ("cube", &cube.name))));
        return Err(CatalogError::InUse { what: "schema", name: name.to_owned(), by });
    }
    let tables = relations::with_readers(base, tables);
    for table in &tables {
        check_unused(base, table, |cube| cube.name.schema != name)?;
    }
    let cubes = cubes.into_iter().map(|cube| Edit::RemoveCube(cube.as_ref().into()));
    let stores = live::leave_over(base, &tables);
    let tables = tables.into_iter().cloned().map(Edit::RemoveTable);
    Ok(cubes.chain(tables).chain(stores).chain([Edit::RemoveSchema(name.to_owned())]).collect())
}

fn new_cube(id: CubeId, name: &QualifiedName, definition: &CubeDefinition, statement: &str) -> CubeEntry {
    CubeEntry {
        id,
        name: name.clone(),
        definition: definition.clone(),
        statement: statement.to_owned(),
        segments: Vec::new(),
    }
}

/// The tables are looked up anew because one may have been dropped since the cube was planned.
fn create_cube(base: &CatalogSnapshot, cube: CubeEntry, if_not_exists: bool) -> Edits {
    if if_not_exists && base.cubes.contains_key(&cube.name) {
        return Ok(Vec::new());
    }
    check_name_is_free(base, &cube.name)?;
    for source in &cube.definition.sources {
        find_table(base, source)?;
    }
    Ok(vec![Edit::AddCube(Arc::new(cube))])
}

fn drop_cube(base: &CatalogSnapshot, name: &QualifiedName, if_exists: bool) -> Edits {
    match find_cube(base, name) {
        Ok(cube) => Ok(vec![Edit::RemoveCube(cube.as_ref().into())]),
        Err(error) => missing(error, if_exists),
    }
}

fn alter_cube(
    cube: &Arc<CubeEntry>,
    definition: &CubeDefinition,
    statement: &str,
    moves: &DimensionMoves,
) -> Edits {
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
fn switch_cube(base: &CatalogSnapshot, cube: CubeId, revision: u32, answers: bool, statement: &str) -> Edits {
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

fn new_segment(id: SegmentId, location: &str, range: SegmentRange) -> SegmentEntry {
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

fn begin_segment(base: &CatalogSnapshot, cube: CubeId, revision: u32, segment: SegmentEntry) -> Edits {
    let cube = find_cube_by_id(base, cube)?;
    check_revision(cube, revision)?;
    Ok(vec![Edit::AddSegment(cube.as_ref().into(), segment)])
}

fn add_cuboid(base: &CatalogSnapshot, segment: SegmentId, cuboid: &CuboidEntry) -> Edits {
    let (cube, segment) = find_building_segment(base, segment)?;
    Ok(vec![Edit::PutCuboid(cube.as_ref().into(), segment.id, cuboid.clone())])
}

/// A current cuboid never changes; only an outdated one is replaced, by a current one.
fn extend_segment(base: &CatalogSnapshot, segment: SegmentId, revision: u32, cuboid: &CuboidEntry) -> Edits {
    let (cube, segment) = find_segment(base, segment)?;
    check_revision(cube, revision)?;
    let before = segment.cuboids.iter().find(|before| before.dimensions == cuboid.dimensions);
    if before.is_some_and(|before| cube.definition.is_current(before)) {
        return Err(CatalogError::SegmentReady { segment: segment.id });
    }
    Ok(vec![Edit::PutCuboid(cube.as_ref().into(), segment.id, cuboid.clone())])
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

fn drop_segments(base: &CatalogSnapshot, segments: &[SegmentId]) -> Vec<Edit> {
    let wanted: BTreeSet<SegmentId> = segments.iter().copied().collect();
    let mut edits = Vec::new();
    for cube in base.cubes.values() {
        let dropped = cube.segments.iter().filter(|segment| wanted.contains(&segment.id));
        edits.extend(dropped.map(|segment| Edit::RemoveSegment(cube.as_ref().into(), segment.id)));
    }
    edits
}

fn publish_segment(
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

pub fn check_name_is_free(base: &CatalogSnapshot, name: &QualifiedName) -> Result<(), CatalogError> {
    if !base.schemas.contains(&name.schema) {
        return Err(schema_not_found(base, &name.schema));
    }
    match kind_of(base, name) {
        Some(what) => Err(CatalogError::AlreadyExists { what, name: name.to_string() }),
        None => Ok(()),
    }
}

pub fn check_unused(
    base: &CatalogSnapshot,
    table: &TableEntry,
    counts: impl Fn(&CubeEntry) -> bool,
) -> Result<(), CatalogError> {
    let reads = |cube: &&Arc<CubeEntry>| cube.definition.sources.contains(&table.name) && counts(cube);
    let by = list(base.cubes.values().filter(reads).map(|cube| ("cube", &cube.name)));
    if by.is_empty() {
        return Ok(());
    }
    Err(CatalogError::InUse { what: table.kind(), name: table.name.to_string(), by })
}

/// `table `s.a`, cube `s.b``; beyond the first few only their number, to keep messages readable.
pub fn list<'a>(objects: impl Iterator<Item = (&'static str, &'a QualifiedName)>) -> String {
    const NAMED: usize = 5;
    let names: Vec<_> = objects.map(|(what, name)| format!("{what} `{name}`")).collect();
    let named = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(NAMED) {
        Some(more) if more > 0 => format!("{named} and {more} more"),
        _ => named,
    }
}

pub fn find_table<'a>(
    base: &'a CatalogSnapshot,
    name: &QualifiedName,
) -> Result<&'a Arc<TableEntry>, CatalogError> {
    base.tables.get(name).ok_or_else(|| object_not_found(base, "table", name, base.tables.keys()))
}

fn find_cube<'a>(
    base: &'a CatalogSnapshot,
    name: &QualifiedName,
) -> Result<&'a Arc<CubeEntry>, CatalogError> {
    base.cubes.get(name).ok_or_else(|| object_not_found(base, "cube", name, base.cubes.keys()))
}

fn find_cube_by_id(base: &CatalogSnapshot, id: CubeId) -> Result<&Arc<CubeEntry>, CatalogError> {
    base.cubes.values().find(|entry| entry.id == id).ok_or_else(|| id_not_found("cube", id))
}

fn find_segment(
    base: &CatalogSnapshot,
    id: SegmentId,
) -> Result<(&Arc<CubeEntry>, &SegmentEntry), CatalogError> {
    let all = base.cubes.values().flat_map(|cube| cube.segments.iter().map(move |segment| (cube, segment)));
    all.into_iter().find(|(_, segment)| segment.id == id).ok_or_else(|| id_not_found("segment", id))
}

fn find_building_segment(
    base: &CatalogSnapshot,
    id: SegmentId,
) -> Result<(&Arc<CubeEntry>, &SegmentEntry), CatalogError> {
    let (cube, segment) = find_segment(base, id)?;
    match segment.state {
        SegmentState::Building => Ok((cube, segment)),
        SegmentState::Ready | SegmentState::Damaged => Err(CatalogError::SegmentReady { segment: id }),
    }
}

fn kind_of(base: &CatalogSnapshot, name: &QualifiedName) -> Option<&'static str> {
    let table = base.tables.get(name).map(|table| table.kind());
    table.or_else(|| base.cubes.contains_key(name).then_some("cube"))
}

/// `IF EXISTS` forgives a missing object, but not an object of another kind with the name.
pub fn missing(error: CatalogError, if_exists: bool) -> Edits {
    match error {
        CatalogError::NotFound { .. } if if_exists => Ok(Vec::new()),
        error => Err(error),
    }
}

pub fn object_not_found<'a>(
    base: &CatalogSnapshot,
    wanted: &'static str,
    name: &QualifiedName,
    candidates: impl Iterator<Item = &'a QualifiedName>,
) -> CatalogError {
    match kind_of(base, name) {
        Some(is) => CatalogError::WrongKind { name: name.to_string(), is, wanted },
        None => CatalogError::NotFound {
            what: wanted,
            name: name.to_string(),
            suggestion: suggest_object(name, candidates),
        },
    }
}

/// A similar name in the same schema, or else the same name in another schema.
fn suggest_object<'a>(
    wanted: &QualifiedName,
    candidates: impl Iterator<Item = &'a QualifiedName>,
) -> Option<String> {
    let (near, far): (Vec<_>, Vec<_>) = candidates.partition(|name| name.schema == wanted.schema);
    let similar = nearest(&wanted.name, near.iter().map(|name| name.name.as_str()));
    let similar = similar.map(|name| QualifiedName::new(&wanted.schema, name).to_string());
    similar.or_else(|| far.iter().find(|name| name.name == wanted.name).map(ToString::to_string))
}

fn schema_not_found(base: &CatalogSnapshot, name: &str) -> CatalogError {
    let suggestion = nearest(name, base.schemas.iter().map(String::as_str)).map(str::to_owned);
    CatalogError::NotFound { what: "schema", name: name.to_owned(), suggestion }
}

fn id_not_found(what: &'static str, id: impl ToString) -> CatalogError {
    CatalogError::NotFound { what, name: id.to_string(), suggestion: None }
}
