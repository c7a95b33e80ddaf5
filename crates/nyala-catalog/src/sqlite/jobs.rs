//! Background jobs: rows that change often and that no snapshot holds.

use nyala_model::{JobEntry, JobId, JobKind, JobState, QualifiedName};
use sqlx::sqlite::SqliteRow;
use sqlx::{Error, Row, SqlitePool};

use super::row::{number, optional, to_word, unsigned, word};
use crate::error::CatalogError;

pub(super) async fn create(
    writer: &SqlitePool,
    kind: JobKind,
    cube: &QualifiedName,
    cuboids_total: u32,
    now_ms: u64,
) -> Result<JobId, Error> {
    let insert = "INSERT INTO jobs (kind, cube_schema, cube_name, state, rows_read, cuboids_done, \
                  cuboids_total, bytes_written, started_at_ms) VALUES (?, ?, ?, ?, 0, 0, ?, 0, ?)";
    // `execute` runs the statement to its end and so reports a failing commit; reading one row of a
    // RETURNING clause would not.
    let done = sqlx::query(insert)
        .bind(to_word(&kind)?)
        .bind(&cube.schema)
        .bind(&cube.name)
        .bind(to_word(&JobState::Running)?)
        .bind(cuboids_total)
        .bind(now_ms.cast_signed())
        .execute(writer)
        .await?;
    Ok(JobId(done.last_insert_rowid().cast_unsigned()))
}

pub(super) async fn update(writer: &SqlitePool, job: &JobEntry) -> Result<(), CatalogError> {
    let update = "UPDATE jobs SET state = ?, rows_read = ?, cuboids_done = ?, cuboids_total = ?, \
                  bytes_written = ?, ended_at_ms = ?, error = ?, rows_total = ?, retries = ? WHERE id = ?";
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
        .execute(writer)
        .await?;
    match done.rows_affected() {
        0 => Err(CatalogError::NotFound { what: "job", name: job.id.to_string(), suggestion: None }),
        _ => Ok(()),
    }
}

pub(super) async fn forget(writer: &SqlitePool, keep: u32) -> Result<(), Error> {
    let running = to_word(&JobState::Running)?;
    let forget = "DELETE FROM jobs WHERE state <> ?1 AND id NOT IN \
                  (SELECT id FROM jobs WHERE state <> ?1 ORDER BY id DESC LIMIT ?2)";
    sqlx::query(forget).bind(running).bind(keep).execute(writer).await?;
    Ok(())
}

pub(super) async fn list(readers: &SqlitePool) -> Result<Vec<JobEntry>, Error> {
    let rows = sqlx::query("SELECT * FROM jobs ORDER BY id DESC").fetch_all(readers).await?;
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
    })
}
