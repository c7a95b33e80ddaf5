//! Checksums of rows. SQLite has none: it does not detect a flipped bit in a value.
//!
//! Every row of every table has the CRC-32C of its other columns. A writer reads its row back within the
//! transaction and computes it; every reader compares it. SQLite's integrity check, which runs at start, finds
//! rows that vanish as a whole. The [`mark`](super::mark) counts transactions, and so finds lost transactions.

use crc32c::crc32c_append;
use sqlx::sqlite::{Sqlite, SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, Column, Error, Row, TypeInfo, ValueRef};

type Query<'q> = sqlx::query::Query<'q, Sqlite, SqliteArguments>;

/// The column with the checksum of the others.
const CHECKSUM: &str = "checksum";

/// Tables of the catalog, each with the column that identifies its rows.
const TABLES: [(&str, &str); 10] = [
    ("nyala_meta", "key"),
    ("schemas", "name"),
    ("tables", "id"),
    ("disk_stores", "name"),
    ("cubes", "id"),
    ("segments", "id"),
    ("cuboids", "id"),
    ("roles", "name"),
    ("jobs", "id"),
    ("query_history", "id"),
];

/// The key of one row.
#[derive(Debug, Clone)]
pub struct Key {
    table: &'static str,
    columns: Vec<(&'static str, KeyValue)>,
}

#[derive(Debug, Clone)]
enum KeyValue {
    Number(i64),
    Text(String),
}

impl Key {
    /// The row of `table` with this number.
    pub fn id(table: &'static str, column: &'static str, value: u64) -> Self {
        Self { table, columns: vec![(column, KeyValue::Number(value.cast_signed()))] }
    }

    /// The row of `table` with this name.
    pub fn name(table: &'static str, column: &'static str, value: &str) -> Self {
        Self { table, columns: vec![(column, KeyValue::Text(value.to_owned()))] }
    }

    /// Adds a second column to the key.
    pub fn and(mut self, column: &'static str, value: u64) -> Self {
        self.columns.push((column, KeyValue::Number(value.cast_signed())));
        self
    }

    fn condition(&self) -> String {
        let equal: Vec<String> = self.columns.iter().map(|(column, _)| format!("{column} = ?")).collect();
        equal.join(" AND ")
    }

    fn bind<'q>(&self, query: Query<'q>) -> Query<'q> {
        self.columns.iter().fold(query, |query, (_, value)| match value {
            KeyValue::Number(number) => query.bind(*number),
            KeyValue::Text(text) => query.bind(text.clone()),
        })
    }
}

/// Stores the checksum of a written row. The caller holds a transaction.
pub async fn seal(connection: &mut SqliteConnection, key: &Key) -> Result<(), Error> {
    let (table, condition) = (key.table, key.condition());
    let select = AssertSqlSafe(format!("SELECT * FROM {table} WHERE {condition}"));
    let row = key.bind(sqlx::query(select)).fetch_one(&mut *connection).await?;
    let update = AssertSqlSafe(format!("UPDATE {table} SET {CHECKSUM} = ? WHERE {condition}"));
    let update = sqlx::query(update).bind(i64::from(checksum(&row)?));
    match key.bind(update).execute(connection).await?.rows_affected() {
        1 => Ok(()),
        _ => Err(Error::RowNotFound),
    }
}

/// Stores the checksum of every row: after a migration the old ones are wrong or missing.
pub async fn seal_all(connection: &mut SqliteConnection) -> Result<(), Error> {
    for (table, column) in TABLES {
        let select = AssertSqlSafe(format!("SELECT {column} FROM {table}"));
        for row in sqlx::query(select).fetch_all(&mut *connection).await? {
            let key = match row.try_get_raw(0)?.type_info().name() {
                "INTEGER" => Key::id(table, column, row.try_get::<i64, _>(0)?.cast_unsigned()),
                _ => Key::name(table, column, row.try_get(0)?),
            };
            seal(connection, &key).await?;
        }
    }
    Ok(())
}

/// `rows` of `table`, if all match their checksums.
pub fn checked(table: &'static str, rows: Vec<SqliteRow>) -> Result<Vec<SqliteRow>, Error> {
    rows.iter().try_for_each(|row| check(table, row))?;
    Ok(rows)
}

/// Fails if the row of `table` does not match its checksum.
pub fn check(table: &'static str, row: &SqliteRow) -> Result<(), Error> {
    if row.try_get::<i64, _>(CHECKSUM)? == i64::from(checksum(row)?) {
        return Ok(());
    }
    Err(Error::Decode(format!("a row of table `{table}` does not match its checksum").into()))
}

/// The checksum of a row: over all other columns, each with type and length, so that no byte can move between columns.
fn checksum(row: &SqliteRow) -> Result<u32, Error> {
    let mut sum = 0;
    for column in row.columns().iter().filter(|column| column.name() != CHECKSUM) {
        let at = column.ordinal();
        let value = row.try_get_raw(at)?;
        if value.is_null() {
            sum = crc32c_append(sum, b"n");
            continue;
        }
        let kind = value.type_info().name().to_owned();
        let (tag, bytes) = match kind.as_str() {
            "INTEGER" => (b"i", row.try_get_unchecked::<i64, _>(at)?.to_le_bytes().to_vec()),
            "TEXT" => (b"t", row.try_get_unchecked::<String, _>(at)?.into_bytes()),
            _ => (b"b", row.try_get_unchecked::<Vec<u8>, _>(at)?),
        };
        sum = crc32c_append(sum, tag);
        sum = crc32c_append(sum, &(bytes.len() as u64).to_le_bytes());
        sum = crc32c_append(sum, &bytes);
    }
    Ok(sum)
}

/// Counts a writing transaction; returns the new count. The caller holds the transaction.
pub async fn count_write(connection: &mut SqliteConnection) -> Result<u64, Error> {
    let update = "UPDATE nyala_meta SET value = value + 1 WHERE key = 'writes'";
    sqlx::query(update).execute(&mut *connection).await?;
    seal(connection, &Key::name("nyala_meta", "key", "writes")).await?;
    writes(connection).await
}

/// The number of writing transactions so far.
pub async fn writes(connection: &mut SqliteConnection) -> Result<u64, Error> {
    let row = sqlx::query("SELECT * FROM nyala_meta WHERE key = 'writes'").fetch_one(connection).await?;
    check("nyala_meta", &row)?;
    row.try_get::<i64, _>("value").map(i64::cast_unsigned)
}
