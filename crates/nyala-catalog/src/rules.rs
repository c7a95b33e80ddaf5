//! Rules for changes: a pure function from the stored catalog to the edits that make the change.
//!
//! The rules know no database, so every backend keeps the same promises, and they can be tested
//! without one. They run inside the backend's transaction, on the state that it reads.
//!
//! Ids need no counter: a transaction creates at most one object, and the object's id is the version
//! of that transaction. Versions only grow, so an id is never given twice, not even after a drop.

use std::sync::Arc;

use nyala_model::{CatalogSnapshot, CubeId, SegmentEntry, SegmentId, SnapshotVersion, TableEntry, TableId};

use crate::DEFAULT_SCHEMA;
use crate::change::Change;
use crate::edit::Edit;
use crate::error::CatalogError;
use crate::lookup::{check_unused, list, schema_not_found};
use crate::{cubes, live, relations, roles};

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
            let cube = cubes::new(CubeId(id), name, definition, statement);
            cubes::create(base, cube, *if_not_exists)
        }
        Change::AlterCube { cube, definition, statement, moves, answered } => {
            cubes::alter(base, (*cube, *answered), definition, statement, moves)
        }
        Change::SwitchCube { cube, revision, answers, statement } => {
            cubes::switch(base, *cube, *revision, *answers, statement)
        }
        Change::DropCube { name, if_exists } => cubes::drop(base, name, *if_exists),
        Change::BeginSegment { cube, revision, location, range, sources, node } => {
            let segment = SegmentEntry {
                sources: sources.clone(),
                node: node.clone(),
                ..cubes::new_segment(SegmentId(id), location, *range)
            };
            cubes::begin_segment(base, *cube, *revision, segment)
        }
        Change::AddCuboid { segment, cuboid } => cubes::add_cuboid(base, *segment, cuboid),
        Change::ExtendSegment { segment, revision, cuboid } => {
            cubes::extend_segment(base, *segment, *revision, cuboid)
        }
        Change::PublishSegment { segment, source_rows, built_at_ms, droppable_joins, key_bounds } => {
            cubes::publish_segment(base, *segment, |cube, segment| Edit::SetReady {
                cube,
                segment,
                source_rows: *source_rows,
                built_at_ms: *built_at_ms,
                droppable_joins: droppable_joins.clone(),
                key_bounds: *key_bounds,
            })
        }
        Change::MarkDamaged { segment, damage } => cubes::mark_damaged(base, *segment, damage),
        Change::DropUnfinished { segment } => cubes::drop_unfinished(base, *segment),
        Change::DropSegment { segment } => cubes::drop_segment(base, *segment),
        Change::DropSegments { segments } => Ok(cubes::drop_segments(base, segments)),
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
