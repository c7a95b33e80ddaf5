//! The query history: rows that change often and that no snapshot holds.

use nyala_model::QueryHistoryEntry;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Connection, Error, Row, SqlitePool};

use super::row::{json, to_json, unsigned};
use super::seal::{Key, checked, count_write, seal};
use super::store::give_back;

pub async fn record(writer: &SqlitePool, entries: &[QueryHistoryEntry], keep: u32) -> Result<u64, Error> {
    let mut connection = writer.acquire().await?;
    let recorded = transact(&mut connection, entries, keep).await;
    give_back(connection, recorded)
}

/// An early return drops the transaction, which rolls it back.
async fn transact(
    connection: &mut SqliteConnection,
    entries: &[QueryHistoryEntry],
    keep: u32,
) -> Result<u64, Error> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    for entry in entries {
        sqlx::query("INSERT OR REPLACE INTO query_history VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, -1, ?)")
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
            .bind(entry.missed_us.cast_signed())
            .execute(&mut *transaction)
            .await?;
        seal(&mut transaction, &Key::name("query_history", "id", &entry.id)).await?;
    }
    let forget = "DELETE FROM query_history WHERE id NOT IN \
                  (SELECT id FROM query_history ORDER BY last_asked_ms DESC, id LIMIT ?)";
    sqlx::query(forget).bind(keep).execute(&mut *transaction).await?;
    let writes = count_write(&mut transaction).await?;
    transaction.commit().await?;
    Ok(writes)
}

pub async fn list(readers: &SqlitePool) -> Result<Vec<QueryHistoryEntry>, Error> {
    let select = "SELECT * FROM query_history ORDER BY last_asked_ms DESC, id";
    let rows = sqlx::query(select).fetch_all(readers).await?;
    checked("query_history", rows)?.iter().map(entry).collect()
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
        missed_us: unsigned(row, "missed_us")?,
        miss_reason: row.try_get("miss_reason")?,
        last_miss_ms: unsigned(row, "last_miss_ms")?,
        answers: json(row, "answers")?,
        last_asked_ms: unsigned(row, "last_asked_ms")?,
    })
}
