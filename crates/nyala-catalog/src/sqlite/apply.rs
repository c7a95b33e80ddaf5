//! Writing a change: one transaction, each edit one statement.

use std::borrow::Cow;

use nyala_model::access::RoleEntry;
use nyala_model::{
    CatalogSnapshot, CubeEntry, CuboidEntry, DimensionSet, DiskStoreEntry, SegmentDamage, SegmentEntry,
    SegmentId, SegmentState, SnapshotVersion, TableEntry,
};
use sqlx::sqlite::{Sqlite, SqliteArguments, SqliteConnection};
use sqlx::{Connection, Error, SqlitePool};

use super::load;
use super::row::{to_json, to_word};
use super::seal::{Key, count_write, seal};
use crate::change::Change;
use crate::edit::{CubeKey, Edit};
use crate::error::CatalogError;
use crate::rules;
use crate::store::Applied;

type Statement<'q> = sqlx::query::Query<'q, Sqlite, SqliteArguments>;

pub async fn apply(
    writer: &SqlitePool,
    base: &CatalogSnapshot,
    change: &Change,
) -> Result<(Applied, Option<u64>), CatalogError> {
    let mut connection = writer.acquire().await?;
    let result = transact(&mut connection, base, change).await;
    if let Err(CatalogError::Store(_)) = result {
        // On a full disk SQLite rolls back by itself, which sqlx does not notice: every later BEGIN on this
        // connection would be refused. A new connection starts clean.
        connection.close_on_drop();
    }
    result
}

/// An early return drops the transaction, which rolls it back.
async fn transact(
    connection: &mut SqliteConnection,
    base: &CatalogSnapshot,
    change: &Change,
) -> Result<(Applied, Option<u64>), CatalogError> {
    // IMMEDIATE takes the write lock before the first read: no writer gets between rules and edits.
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let base = match load::version(&mut transaction).await? {
        stored if stored == base.version => Cow::Borrowed(base),
        _ => Cow::Owned(load::snapshot(&mut transaction).await?),
    };
    let decision = rules::decide(&base, change)?;
    let changed = !decision.edits.is_empty();
    for edit in &decision.edits {
        write(&mut transaction, edit).await?;
    }
    let mut writes = None;
    if changed {
        writes = Some(end(&mut transaction, decision.next.version).await?);
    }
    transaction.commit().await?;
    Ok((Applied { snapshot: decision.next, segment: decision.segment, changed }, writes))
}

/// Writes a whole catalog into a new one.
pub async fn import(writer: &SqlitePool, snapshot: &CatalogSnapshot) -> Result<(), Error> {
    let mut connection = writer.acquire().await?;
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    for edit in Edit::all_of(snapshot) {
        write(&mut transaction, &edit).await?;
    }
    end(&mut transaction, snapshot.version).await?;
    transaction.commit().await
}

/// Sets the version, and counts the transaction.
async fn end(connection: &mut SqliteConnection, version: SnapshotVersion) -> Result<u64, Error> {
    execute(connection, set_version(version)).await?;
    seal(connection, &Key::name("nyala_meta", "key", "snapshot_version")).await?;
    count_write(connection).await
}

async fn write(connection: &mut SqliteConnection, edit: &Edit) -> Result<(), Error> {
    let statement = match edit {
        Edit::AddSchema(name) => sqlx::query("INSERT INTO schemas (name) VALUES (?)").bind(name),
        Edit::RemoveSchema(name) => sqlx::query("DELETE FROM schemas WHERE name = ?").bind(name),
        Edit::AddTable(table) => add_table(table)?,
        Edit::SetTable(table) | Edit::RenameTable(_, table) => set_table(table)?,
        Edit::PutDiskStore(store) => put_disk_store(store)?,
        Edit::RemoveDiskStore(name) => sqlx::query("DELETE FROM disk_stores WHERE name = ?").bind(name),
        Edit::RemoveTable(table) => by_id("DELETE FROM tables WHERE id = ?", table.id.0),
        Edit::AddCube(cube) => add_cube(cube)?,
        Edit::SetDefinition { cube, definition, statement } => {
            let update = "UPDATE cubes SET definition = ?, statement = ? WHERE id = ?";
            sqlx::query(update).bind(to_json(definition)?).bind(statement).bind(cube.id.0.cast_signed())
        }
        Edit::RemoveCube(cube) => by_id("DELETE FROM cubes WHERE id = ?", cube.id.0),
        Edit::AddSegment(cube, segment) => add_segment(cube, segment)?,
        Edit::PutCuboid(_, segment, cuboid) => put_cuboid(*segment, cuboid)?,
        Edit::RemoveCuboid(_, segment, dimensions) => {
            by_id("DELETE FROM cuboids WHERE segment_id = ? AND dimensions = ?", segment.0)
                .bind(dimensions.bits().cast_signed())
        }
        Edit::MoveCuboid(_, segment, before, cuboid) => move_cuboid(*segment, *before, cuboid),
        Edit::SetReady { segment, source_rows, built_at_ms, droppable_joins, key_bounds, .. } => {
            set_ready(*segment, *source_rows, *built_at_ms, droppable_joins, *key_bounds)?
        }
        Edit::SetDamaged(_, segment, damage) => set_damaged(*segment, damage)?,
        Edit::RemoveSegment(_, segment) => by_id("DELETE FROM segments WHERE id = ?", segment.0),
        Edit::PutRole(role) => put_role(role)?,
        Edit::RemoveRole(name) => sqlx::query("DELETE FROM roles WHERE name = ?").bind(name),
    };
    execute(connection, statement).await?;
    match written(edit) {
        Some(row) => seal(connection, &row).await,
        None => Ok(()),
    }
}

/// The row that an edit leaves; none if it removes one.
fn written(edit: &Edit) -> Option<Key> {
    let cuboid = |segment: &SegmentId, cuboid: &CuboidEntry| {
        Key::id("cuboids", "segment_id", segment.0).and("dimensions", cuboid.dimensions.bits())
    };
    Some(match edit {
        Edit::AddSchema(name) => Key::name("schemas", "name", name),
        Edit::AddTable(table) | Edit::SetTable(table) | Edit::RenameTable(_, table) => {
            Key::id("tables", "id", table.id.0)
        }
        Edit::PutDiskStore(store) => Key::name("disk_stores", "name", &store.name),
        Edit::AddCube(cube) => Key::id("cubes", "id", cube.id.0),
        Edit::SetDefinition { cube, .. } => Key::id("cubes", "id", cube.id.0),
        Edit::AddSegment(_, segment) => Key::id("segments", "id", segment.id.0),
        Edit::SetReady { segment, .. } | Edit::SetDamaged(_, segment, _) => {
            Key::id("segments", "id", segment.0)
        }
        Edit::PutCuboid(_, segment, entry) | Edit::MoveCuboid(_, segment, _, entry) => cuboid(segment, entry),
        Edit::PutRole(role) => Key::name("roles", "name", &role.name),
        Edit::RemoveSchema(_)
        | Edit::RemoveTable(_)
        | Edit::RemoveDiskStore(_)
        | Edit::RemoveCube(_)
        | Edit::RemoveCuboid(..)
        | Edit::RemoveSegment(..)
        | Edit::RemoveRole(_) => return None,
    })
}

/// Every edit touches exactly one row of its own; another count means that memory and file differ.
async fn execute(connection: &mut SqliteConnection, statement: Statement<'_>) -> Result<(), Error> {
    match statement.execute(connection).await?.rows_affected() {
        1 => Ok(()),
        _ => Err(Error::RowNotFound),
    }
}

fn set_version<'q>(version: SnapshotVersion) -> Statement<'q> {
    by_id("UPDATE nyala_meta SET value = ? WHERE key = 'snapshot_version'", version.0)
}

fn by_id<'q>(sql: &'static str, id: u64) -> Statement<'q> {
    sqlx::query(sql).bind(id.cast_signed())
}

fn add_table(table: &TableEntry) -> Result<Statement<'_>, Error> {
    let insert =
        "INSERT INTO tables (id, schema, name, source, schema_ipc, definition) VALUES (?, ?, ?, ?, ?, ?)";
    Ok(by_id(insert, table.id.0)
        .bind(&table.name.schema)
        .bind(&table.name.name)
        .bind(to_json(&table.source)?)
        .bind(&table.schema_ipc)
        .bind(&table.definition))
}

fn set_table(table: &TableEntry) -> Result<Statement<'_>, Error> {
    let update =
        "UPDATE tables SET schema = ?, name = ?, source = ?, schema_ipc = ?, definition = ? WHERE id = ?";
    Ok(sqlx::query(update)
        .bind(&table.name.schema)
        .bind(&table.name.name)
        .bind(to_json(&table.source)?)
        .bind(&table.schema_ipc)
        .bind(&table.definition)
        .bind(table.id.0.cast_signed()))
}

fn add_cube(cube: &CubeEntry) -> Result<Statement<'_>, Error> {
    let insert = "INSERT INTO cubes (id, schema, name, definition, statement) VALUES (?, ?, ?, ?, ?)";
    Ok(by_id(insert, cube.id.0)
        .bind(&cube.name.schema)
        .bind(&cube.name.name)
        .bind(to_json(&cube.definition)?)
        .bind(&cube.statement))
}

fn add_segment<'q>(cube: &CubeKey, segment: &'q SegmentEntry) -> Result<Statement<'q>, Error> {
    let insert = "INSERT INTO segments (id, cube_id, state, location, source_rows, built_at_ms, \
                  droppable_joins, range, sources, key_bounds, node) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    Ok(by_id(insert, segment.id.0)
        .bind(cube.id.0.cast_signed())
        .bind(to_word(&segment.state)?)
        .bind(&segment.location)
        .bind(segment.source_rows.cast_signed())
        .bind(segment.built_at_ms.cast_signed())
        .bind(to_json(&segment.droppable_joins)?)
        .bind(to_json(&segment.range)?)
        .bind(to_json(&segment.sources)?)
        .bind(to_json(&segment.key_bounds)?)
        .bind(&segment.node.0))
}

/// The upsert keeps the row's id and with it the cuboid's place among the others.
fn put_cuboid<'q>(segment: SegmentId, cuboid: &CuboidEntry) -> Result<Statement<'q>, Error> {
    let upsert = "INSERT INTO cuboids (segment_id, dimensions, row_count, byte_count, measures, repeats, wider, files) \
                  VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (segment_id, dimensions) DO UPDATE SET \
                  row_count = excluded.row_count, byte_count = excluded.byte_count, \
                  measures = excluded.measures, repeats = excluded.repeats, \
                  wider = excluded.wider, files = excluded.files";
    Ok(by_id(upsert, segment.0)
        .bind(cuboid.dimensions.bits().cast_signed())
        .bind(cuboid.rows.cast_signed())
        .bind(cuboid.bytes.cast_signed())
        .bind(cuboid.measures)
        .bind(cuboid.repeats)
        .bind(cuboid.wider)
        .bind(to_json(&cuboid.files)?))
}

/// Changes only its dimensions and the columns that follow from them; its files stay.
fn move_cuboid<'q>(segment: SegmentId, before: DimensionSet, cuboid: &CuboidEntry) -> Statement<'q> {
    let update = "UPDATE cuboids SET dimensions = ?, measures = ?, repeats = ?, wider = ? \
                  WHERE segment_id = ? AND dimensions = ?";
    sqlx::query(update)
        .bind(cuboid.dimensions.bits().cast_signed())
        .bind(cuboid.measures)
        .bind(cuboid.repeats)
        .bind(cuboid.wider)
        .bind(segment.0.cast_signed())
        .bind(before.bits().cast_signed())
}

fn put_role(role: &RoleEntry) -> Result<Statement<'_>, Error> {
    let upsert = "INSERT INTO roles (name, entry) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET entry = excluded.entry";
    Ok(sqlx::query(upsert).bind(&role.name).bind(to_json(role)?))
}

fn put_disk_store(store: &DiskStoreEntry) -> Result<Statement<'_>, Error> {
    let upsert = "INSERT INTO disk_stores (name, entry) VALUES (?, ?) \
                  ON CONFLICT (name) DO UPDATE SET entry = excluded.entry";
    Ok(sqlx::query(upsert).bind(&store.name).bind(to_json(store)?))
}

fn set_damaged<'q>(segment: SegmentId, damage: &SegmentDamage) -> Result<Statement<'q>, Error> {
    let update = "UPDATE segments SET state = ?, damage = ? WHERE id = ?";
    Ok(sqlx::query(update)
        .bind(to_word(&SegmentState::Damaged)?)
        .bind(to_json(&Some(damage))?)
        .bind(segment.0.cast_signed()))
}

fn set_ready<'q>(
    segment: SegmentId,
    source_rows: u64,
    built_at_ms: u64,
    droppable_joins: &[usize],
    key_bounds: Option<(i64, i64)>,
) -> Result<Statement<'q>, Error> {
    let update = "UPDATE segments SET state = ?, source_rows = ?, built_at_ms = ?, droppable_joins = ?, key_bounds = ? \
         WHERE id = ?";
    Ok(sqlx::query(update)
        .bind(to_word(&SegmentState::Ready)?)
        .bind(source_rows.cast_signed())
        .bind(built_at_ms.cast_signed())
        .bind(to_json(&droppable_joins)?)
        .bind(to_json(&key_bounds)?)
        .bind(segment.0.cast_signed()))
}
