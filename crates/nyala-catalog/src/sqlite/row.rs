//! Values between memory and columns.

use serde::Serialize;
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, IntoDeserializer};
use sqlx::sqlite::SqliteRow;
use sqlx::{Error, Row};

/// SQLite's integers are signed: the 64 bits are kept as they are, so that every value comes back.
pub fn unsigned(row: &SqliteRow, column: &str) -> Result<u64, Error> {
    row.try_get(column).map(i64::cast_unsigned)
}

/// An unsigned number that may be absent.
pub fn optional(row: &SqliteRow, column: &str) -> Result<Option<u64>, Error> {
    row.try_get::<Option<i64>, _>(column).map(|value| value.map(i64::cast_unsigned))
}

/// A number of 32 bits; any other value is damage.
pub fn number(row: &SqliteRow, column: &str) -> Result<u32, Error> {
    let value: i64 = row.try_get(column)?;
    u32::try_from(value).map_err(|error| undecodable(column, error))
}

/// A nested structure from its JSON text.
pub fn json<T: DeserializeOwned>(row: &SqliteRow, column: &str) -> Result<T, Error> {
    let text: &str = row.try_get(column)?;
    serde_json::from_str(text).map_err(|error| undecodable(column, error))
}

/// A variant of a plain enum from the word it serialises as.
pub fn word<T: DeserializeOwned>(row: &SqliteRow, column: &str) -> Result<T, Error> {
    let text: &str = row.try_get(column)?;
    let deserializer: StrDeserializer<'_, serde_json::Error> = text.into_deserializer();
    T::deserialize(deserializer).map_err(|error| undecodable(column, error))
}

/// A nested structure as JSON text.
pub fn to_json<T: Serialize>(value: &T) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| Error::Encode(Box::new(error)))
}

/// A plain enum's variant as the word it serialises as.
pub fn to_word<T: Serialize>(value: &T) -> Result<String, Error> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => Ok(word),
        Ok(other) => Err(Error::Encode(format!("`{other}` is not a plain word").into())),
        Err(error) => Err(Error::Encode(Box::new(error))),
    }
}

fn undecodable(column: &str, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::ColumnDecode { index: format!("`{column}`"), source: Box::new(error) }
}
