//! The query history of each node: rows that change often and that no snapshot holds.

use nyala_model::{NodeId, QueryHistoryEntry};
use sqlx::postgres::{PgPool, PgRow};
use sqlx::{Connection, Row};

use super::entries::{from_json, to_json};
use crate::error::CatalogError;

pub async fn record(
    pool: &PgPool,
    node: &NodeId,
    entries: &[QueryHistoryEntry],
    keep: u32,
) -> Result<(), CatalogError> {
    let mut connection = pool.acquire().await?;
    let mut transaction = connection.begin().await?;
    let upsert = "INSERT INTO nyala.query_history (node, id, last_asked_ms, body) VALUES ($1, $2, $3, $4) \
                  ON CONFLICT (node, id) DO UPDATE SET last_asked_ms = excluded.last_asked_ms, body = excluded.body";
    for entry in entries {
        sqlx::query(upsert)
            .bind(&node.0)
            .bind(&entry.id)
            .bind(entry.last_asked_ms.cast_signed())
            .bind(to_json(entry)?)
            .execute(&mut *transaction)
            .await?;
    }
    let forget = "DELETE FROM nyala.query_history WHERE node = $1 AND id NOT IN (SELECT id FROM nyala.query_history \
                  WHERE node = $1 ORDER BY last_asked_ms DESC, id LIMIT $2)";
    sqlx::query(forget).bind(&node.0).bind(i64::from(keep)).execute(&mut *transaction).await?;
    Ok(transaction.commit().await?)
}

pub async fn of(pool: &PgPool, node: &NodeId) -> Result<Vec<QueryHistoryEntry>, CatalogError> {
    let select = "SELECT body FROM nyala.query_history WHERE node = $1 ORDER BY last_asked_ms DESC, id";
    let rows = sqlx::query(select).bind(&node.0).fetch_all(pool).await?;
    rows.iter().map(entry).collect()
}

pub async fn of_others(pool: &PgPool, node: &NodeId) -> Result<Vec<QueryHistoryEntry>, CatalogError> {
    let select =
        "SELECT body FROM nyala.query_history WHERE node <> $1 ORDER BY last_asked_ms DESC, id, node";
    let rows = sqlx::query(select).bind(&node.0).fetch_all(pool).await?;
    rows.iter().map(entry).collect()
}

fn entry(row: &PgRow) -> Result<QueryHistoryEntry, CatalogError> {
    from_json(row.try_get("body")?)
}
