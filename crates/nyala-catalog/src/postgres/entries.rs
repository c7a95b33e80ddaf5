//! Entries as rows: the rows that an edit writes, and the snapshot that rows make.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use nyala_model::access::RoleEntry;
use nyala_model::{
    CatalogSnapshot, CubeEntry, CuboidEntry, DimensionSet, DiskStoreEntry, SegmentEntry, SegmentId,
    TableEntry,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::edit::{CubeKey, Edit};
use crate::error::CatalogError;

/// The kind of the entry in a row. The row's key is a name, or ids from the cube to the entry, with slashes between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Schema,
    Table,
    DiskStore,
    /// A cube without its segments.
    Cube,
    /// A segment without its cuboids.
    Segment,
    Cuboid,
    Role,
}

impl Kind {
    pub fn word(self) -> &'static str {
        match self {
            Self::Schema => "schema",
            Self::Table => "table",
            Self::DiskStore => "disk_store",
            Self::Cube => "cube",
            Self::Segment => "segment",
            Self::Cuboid => "cuboid",
            Self::Role => "role",
        }
    }
}

/// A row that is written or removed.
#[derive(Debug, PartialEq, Eq)]
pub enum Write {
    /// Adds a row, or replaces the body of the row with this key, which keeps its place.
    Put {
        kind: Kind,
        key: String,
        body: String,
    },
    /// Gives the row with the key `before` another key and body.
    Move {
        kind: Kind,
        before: String,
        key: String,
        body: String,
    },
    Remove {
        kind: Kind,
        key: String,
    },
    /// Removes all rows with keys that begin with `prefix`.
    RemoveBelow {
        kind: Kind,
        prefix: String,
    },
}

/// The rows that an edit writes. `next` is the catalog after all edits of the change.
pub fn writes(edit: &Edit, next: &CatalogSnapshot) -> Result<Vec<Write>, CatalogError> {
    let remove = |kind, key: String| Ok(vec![Write::Remove { kind, key }]);
    match edit {
        Edit::AddSchema(name) => put(Kind::Schema, name.clone(), &EmptyBody {}),
        Edit::RemoveSchema(name) => remove(Kind::Schema, name.clone()),
        Edit::AddTable(table) | Edit::SetTable(table) | Edit::RenameTable(_, table) => {
            put(Kind::Table, table.id.to_string(), table.as_ref())
        }
        Edit::RemoveTable(table) => remove(Kind::Table, table.id.to_string()),
        Edit::PutDiskStore(store) => put(Kind::DiskStore, store.name.clone(), store.as_ref()),
        Edit::RemoveDiskStore(name) => remove(Kind::DiskStore, name.clone()),
        Edit::AddCube(cube) => put(Kind::Cube, cube.id.to_string(), &without_segments(cube)),
        Edit::SetDefinition { cube, .. } => match next.cubes.get(&cube.name) {
            Some(entry) => put(Kind::Cube, cube.id.to_string(), &without_segments(entry)),
            None => Ok(Vec::new()),
        },
        Edit::RemoveCube(cube) => Ok(vec![
            Write::Remove { kind: Kind::Cube, key: cube.id.to_string() },
            Write::RemoveBelow { kind: Kind::Segment, prefix: format!("{}/", cube.id) },
            Write::RemoveBelow { kind: Kind::Cuboid, prefix: format!("{}/", cube.id) },
        ]),
        Edit::AddSegment(cube, segment) => put_segment(cube, segment),
        Edit::SetReady { cube, segment, .. } | Edit::SetDamaged(cube, segment, _) => {
            let entry = next.cubes.get(&cube.name);
            let entry = entry.and_then(|cube| cube.segments.iter().find(|entry| entry.id == *segment));
            entry.map_or(Ok(Vec::new()), |entry| put_segment(cube, entry))
        }
        Edit::RemoveSegment(cube, segment) => Ok(vec![
            Write::Remove { kind: Kind::Segment, key: segment_key(cube, *segment) },
            Write::RemoveBelow { kind: Kind::Cuboid, prefix: format!("{}/", segment_key(cube, *segment)) },
        ]),
        Edit::PutCuboid(cube, segment, cuboid) => {
            put(Kind::Cuboid, cuboid_key(cube, *segment, cuboid.dimensions), cuboid)
        }
        Edit::RemoveCuboid(cube, segment, dimensions) => {
            remove(Kind::Cuboid, cuboid_key(cube, *segment, *dimensions))
        }
        Edit::MoveCuboid(cube, segment, before, cuboid) => Ok(vec![Write::Move {
            kind: Kind::Cuboid,
            before: cuboid_key(cube, *segment, *before),
            key: cuboid_key(cube, *segment, cuboid.dimensions),
            body: to_json(cuboid)?,
        }]),
        Edit::PutRole(role) => put(Kind::Role, role.name.clone(), role.as_ref()),
        Edit::RemoveRole(name) => remove(Kind::Role, name.clone()),
    }
}

#[derive(Serialize)]
struct EmptyBody {}

fn put<T: Serialize>(kind: Kind, key: String, body: &T) -> Result<Vec<Write>, CatalogError> {
    Ok(vec![Write::Put { kind, key, body: to_json(body)? }])
}

fn put_segment(cube: &CubeKey, segment: &SegmentEntry) -> Result<Vec<Write>, CatalogError> {
    let bare = SegmentEntry { cuboids: Vec::new(), ..segment.clone() };
    put(Kind::Segment, segment_key(cube, segment.id), &bare)
}

fn without_segments(cube: &CubeEntry) -> CubeEntry {
    CubeEntry { segments: Vec::new(), ..cube.clone() }
}

fn segment_key(cube: &CubeKey, segment: SegmentId) -> String {
    format!("{}/{segment}", cube.id)
}

fn cuboid_key(cube: &CubeKey, segment: SegmentId, dimensions: DimensionSet) -> String {
    format!("{}/{}", segment_key(cube, segment), dimensions.bits())
}

/// JSON of a body.
pub fn to_json<T: Serialize>(value: &T) -> Result<String, CatalogError> {
    serde_json::to_string(value).map_err(|error| sqlx::Error::Encode(Box::new(error)).into())
}

/// A body from its JSON.
pub fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, CatalogError> {
    serde_json::from_str(text).map_err(|error| sqlx::Error::Decode(Box::new(error)).into())
}

/// A snapshot that is being assembled from rows, which come in the order of their places.
#[derive(Debug, Default)]
pub struct Assembly {
    snapshot: CatalogSnapshot,
    cubes: BTreeMap<String, CubeEntry>,
    /// The place of each segment in its cube, by key.
    segments: HashMap<String, usize>,
}

impl Assembly {
    pub fn add(&mut self, kind: &str, key: &str, body: &str) -> Result<(), CatalogError> {
        let snapshot = &mut self.snapshot;
        match kind {
            "schema" => drop(snapshot.schemas.insert(key.to_owned())),
            "table" => {
                let table: TableEntry = from_json(body)?;
                snapshot.tables.insert(table.name.clone(), Arc::new(table));
            }
            "disk_store" => {
                let store: DiskStoreEntry = from_json(body)?;
                snapshot.disk_stores.insert(store.name.clone(), Arc::new(store));
            }
            "cube" => drop(self.cubes.insert(key.to_owned(), from_json(body)?)),
            "segment" => {
                let cube = key.split_once('/').and_then(|(cube, _)| self.cubes.get_mut(cube));
                let cube = cube.ok_or_else(|| without_parent(kind, key))?;
                self.segments.insert(key.to_owned(), cube.segments.len());
                cube.segments.push(from_json(body)?);
            }
            "cuboid" => self.segment_of(key)?.cuboids.push(from_json::<CuboidEntry>(body)?),
            "role" => {
                let role: RoleEntry = from_json(body)?;
                snapshot.roles.insert(role.name.clone(), Arc::new(role));
            }
            other => return Err(damaged(format!("it has an entry of the unknown kind `{other}`"))),
        }
        Ok(())
    }

    fn segment_of(&mut self, cuboid: &str) -> Result<&mut SegmentEntry, CatalogError> {
        let segment = cuboid.rsplit_once('/').map(|(segment, _)| segment).unwrap_or_default();
        let cube = segment.split_once('/').and_then(|(cube, _)| self.cubes.get_mut(cube));
        let place = self.segments.get(segment).copied();
        let found = cube.zip(place).and_then(|(cube, place)| cube.segments.get_mut(place));
        found.ok_or_else(|| without_parent("cuboid", cuboid))
    }

    /// The entries as a snapshot, without a version yet.
    pub fn finish(mut self) -> CatalogSnapshot {
        let cubes = self.cubes.into_values().map(|cube| (cube.name.clone(), Arc::new(cube)));
        self.snapshot.cubes = cubes.collect();
        self.snapshot
    }
}

fn without_parent(kind: &str, key: &str) -> CatalogError {
    damaged(format!("{kind} `{key}` is there without what it belongs to"))
}

fn damaged(reason: String) -> CatalogError {
    let what = format!("the catalog in PostgreSQL is damaged: {reason}; restore its database from a backup");
    CatalogError::Corrupt { what }
}
