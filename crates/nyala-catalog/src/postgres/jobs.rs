//! Background jobs: rows that change often and that no snapshot holds.

use nyala_model::{JobEntry, JobId, JobState};
use sqlx::postgres::{PgPool, PgRow};
use sqlx::{Connection, Row};

use super::entries::{from_json, to_json};
use crate::error::CatalogError;

/// Adds a job. The database gives it its id, and ignores the one in the entry.
pub async fn create(pool: &PgPool, job: &JobEntry) -> Result<JobId, CatalogError> {
    let insert = "INSERT INTO nyala.jobs (running, body) VALUES ($1, $2) RETURNING id";
    let query = sqlx::query(insert).bind(job.state == JobState::Running).bind(to_json(job)?);
    id(&query.fetch_one(pool).await?)
}

pub async fn update(pool: &PgPool, job: &JobEntry) -> Result<(), CatalogError> {
    let mut connection = pool.acquire().await?;
    let mut transaction = connection.begin().await?;
    let select = "SELECT id, body FROM nyala.jobs WHERE id = $1 FOR UPDATE";
    let row = sqlx::query(select).bind(job.id.0.cast_signed()).fetch_optional(&mut *transaction).await?;
    let Some(row) = row else {
        return Err(CatalogError::NotFound { what: "job", name: job.id.to_string(), suggestion: None });
    };
    let begun = entry(&row)?;
    let now = JobEntry {
        kind: begun.kind,
        cube: begun.cube,
        started_at_ms: begun.started_at_ms,
        node: begun.node,
        ..job.clone()
    };
    sqlx::query("UPDATE nyala.jobs SET running = $2, body = $3 WHERE id = $1")
        .bind(job.id.0.cast_signed())
        .bind(now.state == JobState::Running)
        .bind(to_json(&now)?)
        .execute(&mut *transaction)
        .await?;
    Ok(transaction.commit().await?)
}

pub async fn forget(pool: &PgPool, keep: u32) -> Result<(), CatalogError> {
    let delete = "DELETE FROM nyala.jobs WHERE NOT running AND id NOT IN \
                  (SELECT id FROM nyala.jobs WHERE NOT running ORDER BY id DESC LIMIT $1)";
    sqlx::query(delete).bind(i64::from(keep)).execute(pool).await?;
    Ok(())
}

pub async fn list(pool: &PgPool) -> Result<Vec<JobEntry>, CatalogError> {
    let rows = sqlx::query("SELECT id, body FROM nyala.jobs ORDER BY id DESC").fetch_all(pool).await?;
    rows.iter().map(entry).collect()
}

fn id(row: &PgRow) -> Result<JobId, CatalogError> {
    Ok(JobId(row.try_get::<i64, _>("id")?.cast_unsigned()))
}

fn entry(row: &PgRow) -> Result<JobEntry, CatalogError> {
    Ok(JobEntry { id: id(row)?, ..from_json(row.try_get("body")?)? })
}
