//! The tables, all in schema `nyala`, and their migration.

use sqlx::postgres::{PgConnection, PgPool};
use sqlx::{Connection, Row};

use crate::error::CatalogError;

/// Step `n` leads from format `n` to format `n + 1`; format 0 is an empty database. A published step is never edited.
const STEPS: [&str; 1] = [FORMAT_1];

/// Bodies are JSON as text: `jsonb` cannot hold all strings. `place` is the order in which segments and cuboids came.
const FORMAT_1: &str = "
CREATE TABLE nyala.catalog (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    format   integer NOT NULL,
    version  bigint NOT NULL,
    cluster  text NOT NULL,
    cuboids  text
);
INSERT INTO nyala.catalog (format, version, cluster) VALUES (1, 1, gen_random_uuid()::text);

CREATE TABLE nyala.entries (
    kind  text NOT NULL,
    key   text NOT NULL,
    place bigint GENERATED ALWAYS AS IDENTITY,
    body  text NOT NULL,
    PRIMARY KEY (kind, key)
);
INSERT INTO nyala.entries (kind, key, body) VALUES ('schema', 'public', '{}');

CREATE TABLE nyala.changes (
    version bigint PRIMARY KEY,
    attempt text NOT NULL,
    made_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    edits   text NOT NULL
);

CREATE TABLE nyala.jobs (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    running boolean NOT NULL,
    body    text NOT NULL
);

CREATE TABLE nyala.query_history (
    node          text NOT NULL,
    id            text NOT NULL,
    last_asked_ms bigint NOT NULL,
    body          text NOT NULL,
    PRIMARY KEY (node, id)
);

CREATE TABLE nyala.leases (
    name  text PRIMARY KEY,
    owner text NOT NULL,
    token bigint NOT NULL,
    until timestamptz NOT NULL
);

CREATE TABLE nyala.nodes (
    id      text PRIMARY KEY,
    beat_at timestamptz NOT NULL,
    body    text NOT NULL
);
";

/// Key of the advisory lock of migrations: any number that no other program is likely to lock.
const MIGRATION_LOCK: i64 = 0x6e79_616c_6101;

/// Takes every missing step in one transaction, or refuses a catalog of a newer version. Nodes that start together wait
/// for each other.
pub async fn migrate(pool: &PgPool) -> Result<(), CatalogError> {
    let mut connection = pool.acquire().await?;
    let mut transaction = connection.begin().await?;
    sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(MIGRATION_LOCK).execute(&mut *transaction).await?;
    let found = format(&mut transaction).await?;
    let known = check(found)?;
    if found == 0 {
        // A role that may only use the schema need not be allowed to create one.
        sqlx::raw_sql("CREATE SCHEMA IF NOT EXISTS nyala").execute(&mut *transaction).await?;
    }
    if found < known {
        for step in STEPS.iter().skip(usize::try_from(found).unwrap_or(usize::MAX)) {
            sqlx::raw_sql(*step).execute(&mut *transaction).await?;
        }
        let update = "UPDATE nyala.catalog SET format = $1";
        sqlx::query(update).bind(known.cast_signed()).execute(&mut *transaction).await?;
        tracing::info!(found, known, "brought the shared catalog to the current format");
    }
    Ok(transaction.commit().await?)
}

/// Refuses the format of a newer version; returns the newest format that this version knows.
pub fn check(found: u32) -> Result<u32, CatalogError> {
    let known = u32::try_from(STEPS.len()).unwrap_or(u32::MAX);
    if found > known { Err(CatalogError::Newer { found, known }) } else { Ok(known) }
}

/// The format of the catalog in a database; 0 if there is none.
pub async fn format(connection: &mut PgConnection) -> Result<u32, sqlx::Error> {
    let found =
        sqlx::query("SELECT to_regclass('nyala.catalog') IS NOT NULL").fetch_one(&mut *connection).await?;
    if !found.try_get::<bool, _>(0)? {
        return Ok(0);
    }
    let row = sqlx::query("SELECT format FROM nyala.catalog").fetch_one(connection).await?;
    row.try_get::<i32, _>(0).map(i32::cast_unsigned)
}
