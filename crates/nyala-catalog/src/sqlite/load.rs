//! Reading a snapshot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nyala_model::access::{RoleEntry, Roles};
use nyala_model::{
    CatalogSnapshot, ChangeId, CubeEntry, CubeId, CuboidEntry, DimensionSet, DiskStoreEntry, NodeId,
    QualifiedName, SegmentEntry, SegmentId, SnapshotVersion, TableEntry, TableId,
};
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Error, Row, SqlitePool};

use super::row::{json, number, unsigned, word};
use super::seal::{check, checked};

/// Reads everything in one transaction, which sees one version however many writers commit meanwhile.
pub async fn load(readers: &SqlitePool) -> Result<CatalogSnapshot, Error> {
    let mut transaction = readers.begin().await?;
    let snapshot = snapshot(&mut transaction).await?;
    transaction.commit().await?;
    Ok(snapshot)
}

pub async fn current_version(readers: &SqlitePool) -> Result<SnapshotVersion, Error> {
    version(&mut *readers.acquire().await?).await
}

/// The caller holds a transaction.
pub async fn snapshot(connection: &mut SqliteConnection) -> Result<CatalogSnapshot, Error> {
    Ok(CatalogSnapshot {
        version: version(connection).await?,
        // This process alone writes to the file, so its changes need no ids.
        change: ChangeId::default(),
        schemas: schemas(connection).await?,
        tables: tables(connection).await?,
        disk_stores: disk_stores(connection).await?,
        cubes: cubes(connection).await?,
        roles: roles(connection).await?,
    })
}

pub async fn version(connection: &mut SqliteConnection) -> Result<SnapshotVersion, Error> {
    let select = "SELECT * FROM nyala_meta WHERE key = 'snapshot_version'";
    let row = sqlx::query(select).fetch_one(connection).await?;
    check("nyala_meta", &row)?;
    unsigned(&row, "value").map(SnapshotVersion)
}

async fn schemas(connection: &mut SqliteConnection) -> Result<BTreeSet<String>, Error> {
    let rows = checked("schemas", sqlx::query("SELECT * FROM schemas").fetch_all(connection).await?)?;
    rows.iter().map(|row| row.try_get("name")).collect()
}

async fn tables(
    connection: &mut SqliteConnection,
) -> Result<BTreeMap<QualifiedName, Arc<TableEntry>>, Error> {
    let rows = checked("tables", sqlx::query("SELECT * FROM tables").fetch_all(connection).await?)?;
    let tables = rows.iter().map(table);
    tables.map(|table| table.map(|table| (table.name.clone(), Arc::new(table)))).collect()
}

async fn disk_stores(
    connection: &mut SqliteConnection,
) -> Result<BTreeMap<String, Arc<DiskStoreEntry>>, Error> {
    let rows = checked("disk_stores", sqlx::query("SELECT * FROM disk_stores").fetch_all(connection).await?)?;
    let stores = rows.iter().map(|row| json::<DiskStoreEntry>(row, "entry"));
    stores.map(|store| store.map(|store| (store.name.clone(), Arc::new(store)))).collect()
}

async fn cubes(connection: &mut SqliteConnection) -> Result<BTreeMap<QualifiedName, Arc<CubeEntry>>, Error> {
    let mut segments = segments(connection).await?;
    let rows = checked("cubes", sqlx::query("SELECT * FROM cubes").fetch_all(connection).await?)?;
    let cubes = rows.iter().map(|row| cube(row, &mut segments));
    cubes.map(|cube| cube.map(|cube| (cube.name.clone(), Arc::new(cube)))).collect()
}

async fn roles(connection: &mut SqliteConnection) -> Result<Roles, Error> {
    let rows = checked("roles", sqlx::query("SELECT * FROM roles").fetch_all(connection).await?)?;
    let roles = rows.iter().map(|row| json::<RoleEntry>(row, "entry"));
    roles.map(|role| role.map(|role| (role.name.clone(), Arc::new(role)))).collect()
}

/// Segments by cube, oldest first.
async fn segments(connection: &mut SqliteConnection) -> Result<BTreeMap<u64, Vec<SegmentEntry>>, Error> {
    let mut cuboids = cuboids(connection).await?;
    let rows = sqlx::query("SELECT * FROM segments ORDER BY id").fetch_all(connection).await?;
    let rows = checked("segments", rows)?;
    let mut segments: BTreeMap<u64, Vec<SegmentEntry>> = BTreeMap::new();
    for row in &rows {
        segments.entry(unsigned(row, "cube_id")?).or_default().push(segment(row, &mut cuboids)?);
    }
    Ok(segments)
}

/// Cuboids by segment, in the order in which they were finished.
async fn cuboids(connection: &mut SqliteConnection) -> Result<BTreeMap<u64, Vec<CuboidEntry>>, Error> {
    let rows = sqlx::query("SELECT * FROM cuboids ORDER BY id").fetch_all(connection).await?;
    let rows = checked("cuboids", rows)?;
    let mut cuboids: BTreeMap<u64, Vec<CuboidEntry>> = BTreeMap::new();
    for row in &rows {
        cuboids.entry(unsigned(row, "segment_id")?).or_default().push(cuboid(row)?);
    }
    Ok(cuboids)
}

fn table(row: &SqliteRow) -> Result<TableEntry, Error> {
    Ok(TableEntry {
        id: TableId(unsigned(row, "id")?),
        name: name(row)?,
        source: json(row, "source")?,
        schema_ipc: row.try_get("schema_ipc")?,
        definition: row.try_get("definition")?,
    })
}

fn cube(row: &SqliteRow, segments: &mut BTreeMap<u64, Vec<SegmentEntry>>) -> Result<CubeEntry, Error> {
    let id = unsigned(row, "id")?;
    Ok(CubeEntry {
        id: CubeId(id),
        name: name(row)?,
        definition: json(row, "definition")?,
        statement: row.try_get("statement")?,
        segments: segments.remove(&id).unwrap_or_default(),
    })
}

fn segment(row: &SqliteRow, cuboids: &mut BTreeMap<u64, Vec<CuboidEntry>>) -> Result<SegmentEntry, Error> {
    let id = unsigned(row, "id")?;
    Ok(SegmentEntry {
        id: SegmentId(id),
        state: word(row, "state")?,
        range: json(row, "range")?,
        sources: json(row, "sources")?,
        key_bounds: json(row, "key_bounds")?,
        location: row.try_get("location")?,
        source_rows: unsigned(row, "source_rows")?,
        built_at_ms: unsigned(row, "built_at_ms")?,
        droppable_joins: json(row, "droppable_joins")?,
        cuboids: cuboids.remove(&id).unwrap_or_default(),
        damage: json(row, "damage")?,
        node: NodeId(row.try_get("node")?),
    })
}

fn cuboid(row: &SqliteRow) -> Result<CuboidEntry, Error> {
    Ok(CuboidEntry {
        dimensions: DimensionSet::from_bits(unsigned(row, "dimensions")?),
        rows: unsigned(row, "row_count")?,
        bytes: unsigned(row, "byte_count")?,
        measures: number(row, "measures")?,
        repeats: row.try_get("repeats")?,
        wider: row.try_get("wider")?,
        files: json(row, "files")?,
    })
}

fn name(row: &SqliteRow) -> Result<QualifiedName, Error> {
    Ok(QualifiedName { schema: row.try_get("schema")?, name: row.try_get("name")? })
}
