//! Looks up the names of a change in the stored catalog, and makes the errors for names that are missing, taken or in use.

use std::sync::Arc;

use nyala_model::suggest::nearest;
use nyala_model::{
    CatalogSnapshot, CubeEntry, CubeId, QualifiedName, SegmentEntry, SegmentId, SegmentState, TableEntry,
};

use crate::error::CatalogError;
use crate::rules::Edits;

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

pub fn find_cube<'a>(
    base: &'a CatalogSnapshot,
    name: &QualifiedName,
) -> Result<&'a Arc<CubeEntry>, CatalogError> {
    base.cubes.get(name).ok_or_else(|| object_not_found(base, "cube", name, base.cubes.keys()))
}

pub fn find_cube_by_id(base: &CatalogSnapshot, id: CubeId) -> Result<&Arc<CubeEntry>, CatalogError> {
    base.cubes.values().find(|entry| entry.id == id).ok_or_else(|| id_not_found("cube", id))
}

pub fn find_segment(
    base: &CatalogSnapshot,
    id: SegmentId,
) -> Result<(&Arc<CubeEntry>, &SegmentEntry), CatalogError> {
    let all = base.cubes.values().flat_map(|cube| cube.segments.iter().map(move |segment| (cube, segment)));
    all.into_iter().find(|(_, segment)| segment.id == id).ok_or_else(|| id_not_found("segment", id))
}

pub fn find_building_segment(
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

pub fn schema_not_found(base: &CatalogSnapshot, name: &str) -> CatalogError {
    let suggestion = nearest(name, base.schemas.iter().map(String::as_str)).map(str::to_owned);
    CatalogError::NotFound { what: "schema", name: name.to_owned(), suggestion }
}

fn id_not_found(what: &'static str, id: impl ToString) -> CatalogError {
    CatalogError::NotFound { what, name: id.to_string(), suggestion: None }
}
