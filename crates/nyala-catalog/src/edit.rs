//! Elementary edits: the small vocabulary into which rules turn every change.
//!
//! An edit is interpreted twice, here on a snapshot in memory and by each backend on its rows. The
//! conformance suite compares the two after every change.

use std::sync::Arc;

use nyala_model::access::RoleEntry;
use nyala_model::{
    CatalogSnapshot, CubeDefinition, CubeEntry, CubeId, CuboidEntry, DimensionSet, DiskStoreEntry,
    QualifiedName, SegmentDamage, SegmentEntry, SegmentId, SegmentState, TableEntry,
};
use serde::{Deserialize, Serialize};

use crate::DEFAULT_SCHEMA;

/// The cube that an edit is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CubeKey {
    pub id: CubeId,
    pub name: QualifiedName,
}

impl From<&CubeEntry> for CubeKey {
    fn from(cube: &CubeEntry) -> Self {
        Self { id: cube.id, name: cube.name.clone() }
    }
}

/// One row added, changed or removed. Every name in an edit has been found to exist.
///
/// Edits are read back by other nodes, maybe of another version: a variant may get fields with defaults, and a new
/// variant is a new format of the catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Edit {
    AddSchema(String),
    /// The schema is empty when this edit is made.
    RemoveSchema(String),
    AddTable(#[serde(with = "shared")] Arc<TableEntry>),
    /// Replaces the row with the id of the entry.
    SetTable(#[serde(with = "shared")] Arc<TableEntry>),
    /// Replaces the row with this old name and the id of the entry.
    RenameTable(QualifiedName, #[serde(with = "shared")] Arc<TableEntry>),
    RemoveTable(#[serde(with = "shared")] Arc<TableEntry>),
    /// A store of the same name is replaced.
    PutDiskStore(#[serde(with = "shared")] Arc<DiskStoreEntry>),
    RemoveDiskStore(String),
    /// A cube without segments.
    AddCube(#[serde(with = "shared")] Arc<CubeEntry>),
    /// The cube's segments stay.
    SetDefinition {
        cube: CubeKey,
        definition: CubeDefinition,
        statement: String,
    },
    /// Removes the cube's segments and their cuboids, too.
    RemoveCube(CubeKey),
    /// A segment without cuboids.
    AddSegment(CubeKey, SegmentEntry),
    /// An entry with equal dimensions is replaced where it stands.
    PutCuboid(CubeKey, SegmentId, CuboidEntry),
    RemoveCuboid(CubeKey, SegmentId, DimensionSet),
    /// Replaces the cuboid over these dimensions by the given one, in its place. By then, no other cuboid
    /// of the segment has the dimensions of the given one.
    MoveCuboid(CubeKey, SegmentId, DimensionSet, CuboidEntry),
    SetReady {
        cube: CubeKey,
        segment: SegmentId,
        source_rows: u64,
        built_at_ms: u64,
        droppable_joins: Vec<usize>,
        key_bounds: Option<(i64, i64)>,
    },
    SetDamaged(CubeKey, SegmentId, SegmentDamage),
    /// Removes the segment's cuboids, too.
    RemoveSegment(CubeKey, SegmentId),
    /// A role of the same name is replaced.
    PutRole(#[serde(with = "shared")] Arc<RoleEntry>),
    RemoveRole(String),
}

impl Edit {
    /// The edits that make a catalog from a new one, which has the default schema only.
    pub fn all_of(snapshot: &CatalogSnapshot) -> Vec<Self> {
        let schemas = snapshot.schemas.iter().filter(|name| *name != DEFAULT_SCHEMA).cloned();
        let stores = snapshot.disk_stores.values().cloned().map(Self::PutDiskStore);
        let tables = snapshot.tables.values().cloned().map(Self::AddTable);
        let roles = snapshot.roles.values().cloned().map(Self::PutRole);
        let mut edits: Vec<Self> =
            schemas.map(Self::AddSchema).chain(stores).chain(tables).chain(roles).collect();
        for cube in snapshot.cubes.values() {
            edits.push(Self::AddCube(Arc::new(CubeEntry { segments: Vec::new(), ..cube.as_ref().clone() })));
            let key = || CubeKey::from(cube.as_ref());
            for segment in &cube.segments {
                let bare = SegmentEntry { cuboids: Vec::new(), ..segment.clone() };
                edits.push(Self::AddSegment(key(), bare));
                let cuboids = segment.cuboids.iter().cloned();
                edits.extend(cuboids.map(|cuboid| Self::PutCuboid(key(), segment.id, cuboid)));
                let damage = segment.damage.clone();
                edits.extend(damage.map(|damage| Self::SetDamaged(key(), segment.id, damage)));
            }
        }
        edits
    }

    /// Makes the edit on a snapshot; the caller sets the version.
    pub fn apply_to(&self, snapshot: &mut CatalogSnapshot) {
        match self {
            Self::AddSchema(name) => {
                snapshot.schemas.insert(name.clone());
            }
            Self::RemoveSchema(name) => {
                snapshot.schemas.remove(name);
            }
            Self::AddTable(table) | Self::SetTable(table) => {
                snapshot.tables.insert(table.name.clone(), Arc::clone(table));
            }
            Self::RenameTable(before, table) => {
                snapshot.tables.remove(before);
                snapshot.tables.insert(table.name.clone(), Arc::clone(table));
            }
            Self::RemoveTable(table) => {
                snapshot.tables.remove(&table.name);
            }
            Self::PutDiskStore(store) => {
                snapshot.disk_stores.insert(store.name.clone(), Arc::clone(store));
            }
            Self::RemoveDiskStore(name) => {
                snapshot.disk_stores.remove(name);
            }
            Self::AddCube(cube) => {
                snapshot.cubes.insert(cube.name.clone(), Arc::clone(cube));
            }
            Self::SetDefinition { cube, definition, statement } => {
                edit_cube(snapshot, &cube.name, |entry| {
                    entry.definition.clone_from(definition);
                    entry.statement.clone_from(statement);
                });
            }
            Self::RemoveCube(cube) => {
                snapshot.cubes.remove(&cube.name);
            }
            Self::AddSegment(cube, segment) => {
                edit_cube(snapshot, &cube.name, |entry| entry.segments.push(segment.clone()));
            }
            Self::PutCuboid(cube, id, cuboid) => {
                edit_segment(snapshot, &cube.name, *id, |segment| put_cuboid(segment, cuboid));
            }
            Self::RemoveCuboid(cube, id, dimensions) => {
                edit_segment(snapshot, &cube.name, *id, |segment| {
                    segment.cuboids.retain(|cuboid| cuboid.dimensions != *dimensions);
                });
            }
            Self::MoveCuboid(cube, id, dimensions, cuboid) => {
                edit_segment(snapshot, &cube.name, *id, |segment| {
                    let moved = segment.cuboids.iter_mut().find(|cuboid| cuboid.dimensions == *dimensions);
                    moved.into_iter().for_each(|slot| slot.clone_from(cuboid));
                });
            }
            Self::SetReady { cube, segment, source_rows, built_at_ms, droppable_joins, key_bounds } => {
                edit_segment(snapshot, &cube.name, *segment, |entry| {
                    entry.state = SegmentState::Ready;
                    entry.source_rows = *source_rows;
                    entry.built_at_ms = *built_at_ms;
                    entry.droppable_joins.clone_from(droppable_joins);
                    entry.key_bounds = *key_bounds;
                });
            }
            Self::SetDamaged(cube, id, damage) => {
                edit_segment(snapshot, &cube.name, *id, |segment| {
                    segment.state = SegmentState::Damaged;
                    segment.damage = Some(damage.clone());
                });
            }
            Self::RemoveSegment(cube, id) => {
                edit_cube(snapshot, &cube.name, |entry| entry.segments.retain(|segment| segment.id != *id));
            }
            Self::PutRole(role) => {
                snapshot.roles.insert(role.name.clone(), Arc::clone(role));
            }
            Self::RemoveRole(name) => {
                snapshot.roles.remove(name);
            }
        }
    }
}

/// Copies the cube's entry, so that older snapshots do not change.
fn edit_cube(snapshot: &mut CatalogSnapshot, name: &QualifiedName, edit: impl FnOnce(&mut CubeEntry)) {
    if let Some(cube) = snapshot.cubes.get_mut(name) {
        edit(Arc::make_mut(cube));
    }
}

fn edit_segment(
    snapshot: &mut CatalogSnapshot,
    cube: &QualifiedName,
    id: SegmentId,
    edit: impl FnOnce(&mut SegmentEntry),
) {
    edit_cube(snapshot, cube, |cube| {
        if let Some(segment) = cube.segments.iter_mut().find(|segment| segment.id == id) {
            edit(segment);
        }
    });
}

fn put_cuboid(segment: &mut SegmentEntry, cuboid: &CuboidEntry) {
    match segment.cuboids.iter_mut().find(|other| other.dimensions == cuboid.dimensions) {
        Some(other) => *other = cuboid.clone(),
        None => segment.cuboids.push(cuboid.clone()),
    }
}

/// Writes an `Arc` of an entry as the entry alone.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<T: Serialize, S: Serializer>(value: &Arc<T>, serializer: S) -> Result<S::Ok, S::Error> {
        value.as_ref().serialize(serializer)
    }

    pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<T>, D::Error> {
        T::deserialize(deserializer).map(Arc::new)
    }
}
