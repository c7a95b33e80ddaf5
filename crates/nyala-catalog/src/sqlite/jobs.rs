//! Background jobs: rows that change often and that no snapshot holds.

use nyala_model::{JobEntry, JobId, JobKind, JobState, NodeId, QualifiedName};
use sqlx::sqlite::{Sqlite, SqliteConnection, SqliteRow};
use sqlx::{Connection, Error, Row, SqlitePool, Transaction};

use super::row::{number, optional, to_word, unsigned, word};
use super::seal::{Key, checked, count_write, seal};
use super::store::give_back;
use crate::error::CatalogError;

pub async fn create(
    writer: &SqlitePool,
    kind: JobKind,
    cube: &QualifiedName,
    cuboids_total: u32,
    (node, now_ms): (&NodeId, u64),
) -> Result<(JobId, u64), Error> {
    let mut connection = writer.acquire().await?;
    let created = insert(&mut connection, kind, cube, cuboids_total, (node, now_ms)).await;
    give_back(connection, created)
}

async fn insert(
    connection: &mut SqliteConnection,
    kind: JobKind,
    cube: &QualifiedName,
    cuboids_total: u32,
    (node, now_ms): (&NodeId, u64),
) -> Result<(JobId, u64), Error> {
    let insert = "INSERT INTO jobs (kind, cube_schema, cube_name, state, rows_read, cuboids_done, \
                  cuboids_total, bytes_written, started_at_ms, node) VALUES (?, ?, ?, ?, 0, 0, ?, 0, ?, ?)";
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let done = sqlx::query(insert)
        .bind(to_word(&kind)?)
        .bind(&cube.schema)
        .bind(&cube.name)
        .bind(to_word(&JobState::Running)?)
        .bind(cuboids_total)
        .bind(now_ms.cast_signed())
        .bind(&node.0)
        .execute(&mut *transaction)
        .await?;
    let id = done.last_insert_rowid().cast_unsigned();
    Ok((JobId(id), end(transaction, Some(id)).await?))
}

/// Ends a transaction that wrote this job, and counts it.
async fn end(mut transaction: Transaction<'_, Sqlite>, job: Option<u64>) -> Result<u64, Error> {
    if let Some(id) = job {
        seal(&mut transaction, &Key::id("jobs", "id", id)).await?;
    }
    let writes = count_write(&mut transaction).await?;
    transaction.commit().await?;
    Ok(writes)
}

pub async fn update(writer: &SqlitePool, job: &JobEntry) -> Result<u64, CatalogError> {
    let mut connection = writer.acquire().await?;
    let updated = set(&mut connection, job).await;
    give_back(connection, updated)
}

async fn set(connection: &mut SqliteConnection, job: &JobEntry) -> Result<u64, CatalogError> {
    let update = "UPDATE jobs SET state = ?, rows_read = ?, cuboids_done = ?, cuboids_total = ?, \
                  bytes_written = ?, ended_at_ms = ?, error = ?, rows_total = ?, retries = ? WHERE id = ?";
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let done = sqlx::query(update)
        .bind(to_word(&job.state)?)
        .bind(job.rows_read.cast_signed())
        .bind(job.cuboids_done)
        .bind(job.cuboids_total)
        .bind(job.bytes_written.cast_signed())
        .bind(job.ended_at_ms.map(u64::cast_signed))
        .bind(&job.error)
        .bind(job.rows_total.cast_signed())
        .bind(job.retries)
        .bind(job.id.0.cast_signed())
        .execute(&mut *transaction)
        .await?;
    match done.rows_affected() {
        0 => Err(CatalogError::NotFound { what: "job", name: job.id.to_string(), suggestion: None }),
        _ => Ok(end(transaction, Some(job.id.0)).await?),
    }
}

pub async fn forget(writer: &SqlitePool, keep: u32) -> Result<u64, Error> {
    let mut connection = writer.acquire().await?;
    let forgotten = delete(&mut connection, keep).await;
    give_back(connection, forgotten)
}

async fn delete(connection: &mut SqliteConnection, keep: u32) -> Result<u64, Error> {
    let running = to_word(&JobState::Running)?;
    let forget = "DELETE FROM jobs WHERE state <> ?1 AND id NOT IN \
                  (SELECT id FROM jobs WHERE state <> ?1 ORDER BY id DESC LIMIT ?2)";
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    sqlx::query(forget).bind(running).bind(keep).execute(&mut *transaction).await?;
    end(transaction, None).await
}

pub async fn list(readers: &SqlitePool) -> Result<Vec<JobEntry>, Error> {
    let rows = sqlx::query("SELECT * FROM jobs ORDER BY id DESC").fetch_all(readers).await?;
    let rows = checked("jobs", rows)?;
    rows.iter().map(job).collect()
}

fn job(row: &SqliteRow) -> Result<JobEntry, Error> {
    Ok(JobEntry {
        id: JobId(unsigned(row, "id")?),
        kind: word(row, "kind")?,
        cube: QualifiedName { schema: row.try_get("cube_schema")?, name: row.try_get("cube_name")? },
        state: word(row, "state")?,
        rows_read: unsigned(row, "rows_read")?,
        cuboids_done: number(row, "cuboids_done")?,
        cuboids_total: number(row, "cuboids_total")?,
        bytes_written: unsigned(row, "bytes_written")?,
        started_at_ms: unsigned(row, "started_at_ms")?,
        ended_at_ms: optional(row, "ended_at_ms")?,
        error: row.try_get("error")?,
        rows_total: unsigned(row, "rows_total")?,
        retries: number(row, "retries")?,
        node: NodeId(row.try_get("node")?),
    })
}
