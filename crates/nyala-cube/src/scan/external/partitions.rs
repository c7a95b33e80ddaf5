//! Values of partition columns: what the names of folders mean in the types of their columns.

use arrow::compute::CastOptions;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::functions::timestamp_of;

use crate::scan::merge::type_words;

/// The folder that Hive, Spark and others write rows to whose value is null.
const HIVE_NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// Whether the name of a folder stands for NULL.
fn is_null(text: &str) -> bool {
    text.is_empty() || text == HIVE_NULL
}

/// The value of a folder in the type of its column.
pub fn value_of(column: &str, text: &str, data_type: &DataType) -> Result<ScalarValue> {
    if is_null(text) {
        return Ok(ScalarValue::try_new_null(data_type)?);
    }
    if let Some(value) = time_of(text, data_type) {
        return Ok(value);
    }
    let trimmed = if data_type.is_string() || data_type.is_binary() { text } else { text.trim() };
    let options = CastOptions { safe: false, ..CastOptions::default() };
    ScalarValue::Utf8(Some(trimmed.to_owned())).cast_to_with_options(data_type, &options).map_err(|_| {
        let message = format!("folder `{column}={text}`: `{text}` is no {}", type_words(data_type));
        QueryError::new(ErrorKind::InvalidValue, message)
            .hint(format!("list column `{column}` with a type that all its folders have, such as TEXT"))
    })
}

/// A time as PostgreSQL reads it. The text has no zone; the column may have one.
fn time_of(text: &str, data_type: &DataType) -> Option<ScalarValue> {
    let DataType::Timestamp(unit, zone) = data_type else { return None };
    let reader = zone.as_deref().map(str::parse).transpose().ok()?;
    let micros = ScalarValue::TimestampMicrosecond(timestamp_of(text, reader.as_ref()), zone.clone());
    if micros.is_null() {
        return None;
    }
    micros.cast_to(&DataType::Timestamp(*unit, zone.clone())).ok()
}

/// The type of a column by the values of its folders: BIGINT, DATE, TIMESTAMP, or else text.
pub fn type_of<'a>(texts: impl Iterator<Item = &'a str> + Clone) -> DataType {
    let candidates = [DataType::Int64, DataType::Date32, DataType::Timestamp(TimeUnit::Microsecond, None)];
    let mut values = texts.filter(|text| !is_null(text)).peekable();
    if values.peek().is_none() {
        return DataType::Utf8;
    }
    let fits = |kind: &DataType| values.clone().all(|text| looks_like(text, kind));
    candidates.into_iter().find(fits).unwrap_or(DataType::Utf8)
}

fn looks_like(text: &str, kind: &DataType) -> bool {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_written = match kind {
        DataType::Int64 => is_digits(text.strip_prefix('-').unwrap_or(text)),
        DataType::Date32 => is_date(text),
        _ => text.get(..10).is_some_and(is_date) && text.get(10..).is_some_and(|rest| rest.contains(':')),
    };
    is_written && value_of("", text, kind).is_ok()
}

/// Whether a text is a date as `2024-01-31`.
fn is_date(text: &str) -> bool {
    let mut parts = text.split('-').map(|part| (part.len(), part.bytes().all(|byte| byte.is_ascii_digit())));
    [4, 2, 2].iter().all(|length| parts.next() == Some((*length, true))) && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn types_are_those_that_all_folders_have() {
        let time = DataType::Timestamp(TimeUnit::Microsecond, None);
        for (texts, expected) in [
            (&["07", "-3", HIVE_NULL][..], DataType::Int64),
            (&["1", "1.5"], DataType::Utf8),
            (&["99999999999999999999"], DataType::Utf8),
            (&["2024-01-05", ""], DataType::Date32),
            (&["2024-01-05", "2024-02-30"], DataType::Utf8),
            (&["2024-01-05 12:00:00", "2024-01-05T13:00:00.5"], time),
            (&["2024-01-05", "none"], DataType::Utf8),
            (&[HIVE_NULL], DataType::Utf8),
        ] {
            assert_eq!(type_of(texts.iter().copied()), expected, "{texts:?}");
        }
    }

    #[test]
    fn values_are_read_in_their_type() {
        let check = |text: &str, kind: &DataType, expected: &str| {
            let shown =
                value_of("x", text, kind).map_or_else(|error| error.message, |value| value.to_string());
            assert_eq!(shown, expected, "{text}");
        };
        check("07", &DataType::Int32, "7");
        check("1.0", &DataType::Float64, "1");
        check("2.50", &DataType::Decimal128(5, 2), "2.50");
        check(HIVE_NULL, &DataType::Int32, "NULL");
        check("", &DataType::Utf8, "NULL");
        check(" a ", &DataType::Utf8, " a ");
        check("b", &DataType::Int32, "folder `x=b`: `b` is no INTEGER");
        let time = DataType::Timestamp(TimeUnit::Microsecond, None);
        check("9999-12-31 00:00", &time, "253402214400000000");
    }
}
