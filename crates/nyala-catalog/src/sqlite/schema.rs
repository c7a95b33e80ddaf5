//! The tables, and the migration of older files.

use sqlx::sqlite::SqliteConnection;
use sqlx::{Column, Connection, Row};

use super::row::number;
use super::seal;
use crate::error::CatalogError;

/// Step `n` leads from format `n` to format `n + 1`; format 0 is an empty file. A published step is
/// never edited: files that already took it would miss the edit.
const STEPS: [&str; 12] = [
    FORMAT_1, FORMAT_2, FORMAT_3, FORMAT_4, FORMAT_5, FORMAT_6, FORMAT_7, FORMAT_8, FORMAT_9, FORMAT_10,
    FORMAT_11, FORMAT_12,
];

/// Numbers that are unsigned in memory are stored as signed integers of the same 64 bits. Nested
/// structures that no statement inspects are JSON.
const FORMAT_1: &str = "
CREATE TABLE nyala_meta (
    key   TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO nyala_meta VALUES ('schema_version', 1), ('snapshot_version', 1);

CREATE TABLE schemas (
    name TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
INSERT INTO schemas VALUES ('public');

CREATE TABLE tables (
    id                INTEGER PRIMARY KEY,
    schema            TEXT NOT NULL REFERENCES schemas (name),
    name              TEXT NOT NULL,
    format            TEXT NOT NULL,
    location          TEXT NOT NULL,
    partition_columns TEXT NOT NULL,
    options           TEXT NOT NULL,
    schema_ipc        BLOB NOT NULL,
    definition        TEXT NOT NULL,
    UNIQUE (schema, name)
) STRICT;

CREATE TABLE cubes (
    id         INTEGER PRIMARY KEY,
    schema     TEXT NOT NULL REFERENCES schemas (name),
    name       TEXT NOT NULL,
    definition TEXT NOT NULL,
    statement  TEXT NOT NULL,
    UNIQUE (schema, name)
) STRICT;

CREATE TABLE segments (
    id              INTEGER PRIMARY KEY,
    cube_id         INTEGER NOT NULL REFERENCES cubes (id) ON DELETE CASCADE,
    state           TEXT NOT NULL,
    location        TEXT NOT NULL,
    source_rows     INTEGER NOT NULL,
    built_at_ms     INTEGER NOT NULL,
    droppable_joins TEXT NOT NULL
) STRICT;
CREATE INDEX segments_of_cube ON segments (cube_id);

CREATE TABLE cuboids (
    id         INTEGER PRIMARY KEY,
    segment_id INTEGER NOT NULL REFERENCES segments (id) ON DELETE CASCADE,
    dimensions INTEGER NOT NULL,
    row_count  INTEGER NOT NULL,
    byte_count INTEGER NOT NULL,
    files      TEXT NOT NULL,
    UNIQUE (segment_id, dimensions)
) STRICT;

CREATE TABLE jobs (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    kind          TEXT NOT NULL,
    cube_schema   TEXT NOT NULL,
    cube_name     TEXT NOT NULL,
    state         TEXT NOT NULL,
    rows_read     INTEGER NOT NULL,
    cuboids_done  INTEGER NOT NULL,
    cuboids_total INTEGER NOT NULL,
    bytes_written INTEGER NOT NULL,
    started_at_ms INTEGER NOT NULL,
    ended_at_ms   INTEGER,
    error         TEXT
) STRICT;
";

/// Segments record their rows and source files. Older segments do not: they are stale.
const FORMAT_2: &str = "
ALTER TABLE segments ADD COLUMN range TEXT NOT NULL DEFAULT '\"whole\"';
ALTER TABLE segments ADD COLUMN sources TEXT NOT NULL DEFAULT '[]';
ALTER TABLE segments ADD COLUMN key_bounds TEXT NOT NULL DEFAULT 'null';
";

/// The query history, which is not part of a snapshot.
const FORMAT_3: &str = "
CREATE TABLE query_history (
    id            TEXT PRIMARY KEY,
    shape         TEXT NOT NULL,
    asked         INTEGER NOT NULL,
    total_us      INTEGER NOT NULL,
    max_us        INTEGER NOT NULL,
    row_count     INTEGER NOT NULL,
    misses        INTEGER NOT NULL,
    miss_reason   TEXT,
    last_miss_ms  INTEGER NOT NULL,
    answers       TEXT NOT NULL,
    last_asked_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
";

/// Cubes can be altered: measures have numbers, and cuboids record which measures they have. Older cuboids
/// have all measures of their cube.
const FORMAT_4: &str = "
ALTER TABLE cuboids ADD COLUMN measures INTEGER NOT NULL DEFAULT 0;
ALTER TABLE cuboids ADD COLUMN repeats INTEGER NOT NULL DEFAULT 0;
ALTER TABLE cuboids ADD COLUMN wider INTEGER NOT NULL DEFAULT 0;
UPDATE cuboids SET measures = (
    SELECT json_array_length(cubes.definition, '$.measures')
    FROM segments JOIN cubes ON cubes.id = segments.cube_id
    WHERE segments.id = cuboids.segment_id
);
UPDATE cubes SET definition = json_set(
    definition,
    '$.next_measure', json_array_length(definition, '$.measures'),
    '$.measures', (
        SELECT json_group_array(json_set(measure.value, '$.number', measure.key))
        FROM json_each(cubes.definition, '$.measures') AS measure
    )
);
";

/// Jobs record their total rows and their number of retries.
const FORMAT_5: &str = "
ALTER TABLE jobs ADD COLUMN rows_total INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN retries INTEGER NOT NULL DEFAULT 0;
";

/// Roles with their grants.
const FORMAT_6: &str = "
CREATE TABLE roles (
    name  TEXT PRIMARY KEY,
    entry TEXT NOT NULL
) STRICT, WITHOUT ROWID;
";

/// Tables are external or live, and live ones belong to disk stores.
const FORMAT_7: &str = "
ALTER TABLE tables ADD COLUMN source TEXT NOT NULL DEFAULT '';
UPDATE tables SET source = json_object('external', json_object(
    'format', format,
    'location', location,
    'partition_columns', json(partition_columns),
    'options', json(options)
));
ALTER TABLE tables DROP COLUMN format;
ALTER TABLE tables DROP COLUMN location;
ALTER TABLE tables DROP COLUMN partition_columns;
ALTER TABLE tables DROP COLUMN options;
CREATE TABLE disk_stores (
    name  TEXT PRIMARY KEY,
    entry TEXT NOT NULL
) STRICT, WITHOUT ROWID;
";

/// Records checksums of cuboid files. Older files have none and are not read any more.
const FORMAT_8: &str = r#"
ALTER TABLE segments ADD COLUMN damage TEXT NOT NULL DEFAULT 'null';
DELETE FROM cuboids;
DELETE FROM segments WHERE state <> 'ready';
UPDATE segments SET state = 'damaged', damage = '{"file":"","reason":"it was built before files had checksums"}';
"#;

/// Rows have checksums, which are computed after the last step, and transactions that write are counted.
const FORMAT_9: &str = "
ALTER TABLE nyala_meta ADD COLUMN checksum INTEGER NOT NULL DEFAULT -1;
ALTER TABLE schemas ADD COLUMN checksum INTEGER NOT NULL DEFAULT -1;
ALTER TABLE tables ADD COLUMN checksum INTEGER NOT NULL DEFAULT -1;
ALTER TABLE disk_stores ADD COLUMN checksum INTEGER NOT NULL DEFAULT -1;
ALTER TABLE cubes ADD COLUMN checksum INTEGER NOT NULL DEFAULT -1;
ALTER TABLE segments ADD COLUMN checksum INTEGER NOT NULL DEFAULT -1;
ALTER TABLE cuboids ADD COLUMN checksum INTEGER NOT NULL DEFAULT -1;
ALTER TABLE roles ADD COLUMN checksum INTEGER NOT NULL DEFAULT -1;
ALTER TABLE jobs ADD COLUMN checksum INTEGER NOT NULL DEFAULT -1;
ALTER TABLE query_history ADD COLUMN checksum INTEGER NOT NULL DEFAULT -1;
INSERT INTO nyala_meta (key, value) VALUES ('writes', 0), ('restored_at_ms', 0);
";

/// Jobs and segments record the node that runs or makes them. Older ones are of the only node there was.
const FORMAT_10: &str = "
ALTER TABLE jobs ADD COLUMN node TEXT NOT NULL DEFAULT '';
ALTER TABLE segments ADD COLUMN node TEXT NOT NULL DEFAULT '';
";

/// Tables may be views, and live tables may have no key of their own: older versions cannot read such entries.
const FORMAT_11: &str = "";

/// The history records the time of queries that no cuboid answered. It is unknown for older entries.
const FORMAT_12: &str = "
ALTER TABLE query_history ADD COLUMN missed_us INTEGER NOT NULL DEFAULT 0;
";

/// The damage that SQLite finds in the file, or a message if the tables are of another program.
pub async fn find_damage(connection: &mut SqliteConnection) -> Result<Option<String>, sqlx::Error> {
    let row = sqlx::query("PRAGMA integrity_check(1)").fetch_one(&mut *connection).await?;
    let verdict: String = row.try_get(0)?;
    if verdict != "ok" {
        return Ok(Some(verdict));
    }
    let foreign = !has_tables(connection, "nyala_meta").await? && has_tables(connection, "%").await?;
    Ok(foreign.then(|| "it holds the tables of another program".to_owned()))
}

/// The first format with a [`mark`](super::mark).
pub const FIRST_WITH_MARK: u32 = 9;

/// Takes every missing step in one transaction, or refuses a file of a newer version.
pub async fn migrate(connection: &mut SqliteConnection) -> Result<(), CatalogError> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let (found, known) = (format(&mut transaction).await?, u32::try_from(STEPS.len()).unwrap_or(u32::MAX));
    if found > known {
        return Err(CatalogError::Newer { found, known });
    }
    if found < known {
        for step in STEPS.iter().skip(usize::try_from(found).unwrap_or(usize::MAX)) {
            sqlx::raw_sql(*step).execute(&mut *transaction).await?;
        }
        sqlx::query("UPDATE nyala_meta SET value = ? WHERE key = 'schema_version'")
            .bind(known)
            .execute(&mut *transaction)
            .await?;
        seal::seal_all(&mut transaction).await?;
        seal::count_write(&mut transaction).await?;
        tracing::info!(found, known, "brought catalog to the current format");
    }
    Ok(transaction.commit().await?)
}

/// The format of the file.
pub async fn format(connection: &mut SqliteConnection) -> Result<u32, sqlx::Error> {
    if !has_tables(connection, "nyala_meta").await? {
        return Ok(0);
    }
    let select = "SELECT * FROM nyala_meta WHERE key = 'schema_version'";
    let row = sqlx::query(select).fetch_one(connection).await?;
    if row.columns().iter().any(|column| column.name() == "checksum") {
        seal::check("nyala_meta", &row)?;
    }
    number(&row, "value")
}

async fn has_tables(connection: &mut SqliteConnection, pattern: &'static str) -> Result<bool, sqlx::Error> {
    let found = sqlx::query("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name LIKE ? LIMIT 1")
        .bind(pattern)
        .fetch_optional(connection)
        .await?;
    Ok(found.is_some())
}
