//! The query history: rows that change often and that no snapshot holds.

use nyala_model::QueryHistoryEntry;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Connection, Error, Row, SqlitePool};

use super::row::{json, to_json, unsigned};

pub(super) async fn record(
    writer: &SqlitePool,
    entries: &[QueryHistoryEntry],
    keep: u32,
) -> Result<(), Error> {
    let mut connection = writer.acquire().await?;
    let result = transact(&mut connection, entries, keep).await;
    if result.is_err() {
        // SQLite may have rolled back by itself, as on a full disk, and then every later BEGIN on this connection would be
        // refused: also those of changes.
        connection.close_on_drop();
    }
    result
}

/// Leaving early drops the transaction, which rolls it back.
async fn transact(
    connection: &mut SqliteConnection,
    entries: &[QueryHistoryEntry],
    keep: u32,
) -> Result<(), Error> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    for entry in entries {
        sqlx::query("INSERT OR REPLACE INTO query_history VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
            .bind(&entry.id)
            .bind(to_json(&entry.shape)?)
            .bind(entry.asked.cast_signed())
            .bind(entry.total_us.cast_signed())
            .bind(entry.max_us.cast_signed())
            .bind(entry.rows.cast_signed())
            .bind(entry.misses.cast_signed())
            .bind(&entry.miss_reason)
            .bind(entry.last_miss_ms.cast_signed())
            .bind(to_json(&entry.answers)?)
            .bind(entry.last_asked_ms.cast_signed())
            .execute(&mut *transaction)
            .await?;
    }
    let forget = "DELETE FROM query_history WHERE id NOT IN \
                  (SELECT id FROM query_history ORDER BY last_asked_ms DESC, id LIMIT ?)";
    sqlx::query(forget).bind(keep).execute(&mut *transaction).await?;
    transaction.commit().await
}

pub(super) async fn list(readers: &SqlitePool) -> Result<Vec<QueryHistoryEntry>, Error> {
    let select = "SELECT * FROM query_history ORDER BY last_asked_ms DESC, id";
    sqlx::query(select).fetch_all(readers).await?.iter().map(entry).collect()
}

fn entry(row: &SqliteRow) -> Result<QueryHistoryEntry, Error> {
    Ok(QueryHistoryEntry {
        id: row.try_get("id")?,
        shape: json(row, "shape")?,
        asked: unsigned(row, "asked")?,
        total_us: unsigned(row, "total_us")?,
        max_us: unsigned(row, "max_us")?,
        rows: unsigned(row, "row_count")?,
        misses: unsigned(row, "misses")?,
        miss_reason: row.try_get("miss_reason")?,
        last_miss_ms: unsigned(row, "last_miss_ms")?,
        answers: json(row, "answers")?,
        last_asked_ms: unsigned(row, "last_asked_ms")?,
    })
}
