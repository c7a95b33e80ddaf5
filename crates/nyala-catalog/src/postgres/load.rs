//! Reading a snapshot: all entries, or the changes since one that is known.

use nyala_model::{CatalogSnapshot, SnapshotVersion};
use sqlx::postgres::{PgConnection, PgPool};
use sqlx::{Connection, Row};

use super::entries::{Assembly, from_json};
use crate::edit::Edit;
use crate::error::CatalogError;

/// Changes that are read one by one; further ones cost more than reading everything.
const MAX_CHANGES: i64 = 500;

pub async fn version(connection: &mut PgConnection) -> Result<SnapshotVersion, sqlx::Error> {
    let row = sqlx::query("SELECT version FROM nyala.catalog").fetch_one(connection).await?;
    row.try_get::<i64, _>(0).map(|version| SnapshotVersion(version.cast_unsigned()))
}

/// The catalog as it is now, in one transaction that sees one version.
pub async fn load(pool: &PgPool, known: Option<&CatalogSnapshot>) -> Result<CatalogSnapshot, CatalogError> {
    let mut connection = pool.acquire().await?;
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    let mut transaction = connection.begin_with(begin).await?;
    let snapshot = match known {
        Some(known) => newest(&mut transaction, known).await?,
        None => snapshot(&mut transaction).await?,
    };
    transaction.commit().await?;
    Ok(snapshot)
}

/// Brings `known` up to the stored version. The caller holds a transaction.
pub async fn newest(
    connection: &mut PgConnection,
    known: &CatalogSnapshot,
) -> Result<CatalogSnapshot, CatalogError> {
    let stored = version(connection).await?;
    if stored == known.version {
        return Ok(known.clone());
    }
    match stored.0.checked_sub(known.version.0) {
        Some(behind) if behind <= MAX_CHANGES.cast_unsigned() => {
            Ok(match followed(connection, known, stored).await? {
                Some(followed) => followed,
                None => snapshot(connection).await?,
            })
        }
        // The database may have been restored to an older state.
        _ => snapshot(connection).await,
    }
}

/// The known snapshot with all later changes made; none if they are not all there any more.
async fn followed(
    connection: &mut PgConnection,
    known: &CatalogSnapshot,
    stored: SnapshotVersion,
) -> Result<Option<CatalogSnapshot>, CatalogError> {
    let select = "SELECT edits FROM nyala.changes WHERE version > $1 AND version <= $2 ORDER BY version";
    let rows = sqlx::query(select)
        .bind(known.version.0.cast_signed())
        .bind(stored.0.cast_signed())
        .fetch_all(connection)
        .await?;
    if rows.len() as u64 != stored.0 - known.version.0 {
        return Ok(None);
    }
    let mut next = known.clone();
    for row in &rows {
        let edits: Vec<Edit> = from_json(row.try_get(0)?)?;
        edits.iter().for_each(|edit| edit.apply_to(&mut next));
    }
    next.version = stored;
    Ok(Some(next))
}

/// Reads all entries. The caller holds a transaction.
async fn snapshot(connection: &mut PgConnection) -> Result<CatalogSnapshot, CatalogError> {
    let version = version(connection).await?;
    let select = "SELECT kind, key, body FROM nyala.entries ORDER BY place";
    let mut assembly = Assembly::default();
    for row in sqlx::query(select).fetch_all(connection).await? {
        assembly.add(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)?;
    }
    Ok(assembly.finish(version))
}
