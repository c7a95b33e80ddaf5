//! Records of the nodes that are alive: each node writes a row every few seconds, with the database's time.

use std::time::Duration;

use nyala_model::{NodeEntry, NodeId};
use sqlx::postgres::{PgConnection, PgPool, PgRow};
use sqlx::{Connection, Row};

use super::entries::{from_json, to_json};
use crate::error::CatalogError;

/// A record that was not renewed for this long belongs to a process that has ended.
const SILENT: Duration = Duration::from_secs(10);

pub async fn beat(pool: &PgPool, node: &NodeEntry, forget: Duration) -> Result<Vec<NodeEntry>, CatalogError> {
    let mut connection = pool.acquire().await?;
    let mut transaction = connection.begin().await?;
    check_start(&mut transaction, node).await?;
    let upsert = "INSERT INTO nyala.nodes (id, beat_at, body) VALUES ($1, clock_timestamp(), $2) \
                  ON CONFLICT (id) DO UPDATE SET beat_at = excluded.beat_at, body = excluded.body";
    sqlx::query(upsert).bind(&node.id.0).bind(to_json(node)?).execute(&mut *transaction).await?;
    let delete = "DELETE FROM nyala.nodes WHERE beat_at < clock_timestamp() - $1 * interval '1 ms'";
    sqlx::query(delete).bind(milliseconds(forget)).execute(&mut *transaction).await?;
    let select = "SELECT body, (extract(epoch FROM clock_timestamp() - beat_at) * 1000)::bigint AS age_ms \
                  FROM nyala.nodes ORDER BY id";
    let rows = sqlx::query(select).fetch_all(&mut *transaction).await?;
    transaction.commit().await?;
    rows.iter().map(entry).collect()
}

/// Fails if a process that started later runs as the same node, in a copy of its data folder.
async fn check_start(connection: &mut PgConnection, node: &NodeEntry) -> Result<(), CatalogError> {
    let select = "SELECT body FROM nyala.nodes \
                  WHERE id = $1 AND beat_at > clock_timestamp() - $2 * interval '1 ms' FOR UPDATE";
    let query = sqlx::query(select).bind(&node.id.0).bind(milliseconds(SILENT));
    let Some(row) = query.fetch_optional(connection).await? else { return Ok(()) };
    let stored: NodeEntry = from_json(row.try_get("body")?)?;
    if stored.started_at_ms > node.started_at_ms {
        return Err(CatalogError::NodeTaken { node: node.id.clone(), address: stored.address });
    }
    Ok(())
}

pub async fn leave(pool: &PgPool, node: &NodeId, started_at_ms: u64) -> Result<(), CatalogError> {
    let delete = "DELETE FROM nyala.nodes WHERE id = $1 AND (body::json ->> 'started_at_ms')::bigint = $2";
    sqlx::query(delete).bind(&node.0).bind(started_at_ms.cast_signed()).execute(pool).await?;
    Ok(())
}

/// A time in milliseconds, as a `bigint` of PostgreSQL.
pub fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

fn entry(row: &PgRow) -> Result<NodeEntry, CatalogError> {
    let age_ms = u64::try_from(row.try_get::<i64, _>("age_ms")?).unwrap_or(0);
    Ok(NodeEntry { age_ms, ..from_json(row.try_get("body")?)? })
}
