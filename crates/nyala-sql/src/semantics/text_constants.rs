//! Texts in quotes, read as constants of a type.

use arrow::datatypes::{DataType, IntervalUnit};
use datafusion::common::{Result, ScalarValue};

use crate::error::{ErrorKind, QueryError};
use crate::functions::{UUID, date_of_text, interval_of, timestamp_of};

/// The value of a text; none if a cast reads such texts correctly.
pub fn constant(text: &str, wanted: &DataType) -> Result<Option<ScalarValue>> {
    let trimmed = text.trim();
    let invalid = || invalid(text, wanted);
    Ok(Some(match wanted {
        DataType::Boolean => ScalarValue::Boolean(Some(truth(trimmed).ok_or_else(invalid)?)),
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => {
            match super::decimals::exact(trimmed) {
                Some(value) => value,
                // NaN and infinities are floating-point numbers here.
                None => ScalarValue::Float64(Some(trimmed.parse().map_err(|_| invalid())?)),
            }
        }
        number if number.is_integer() => {
            let whole: i128 = trimmed.parse().map_err(|_| invalid())?;
            let value = ScalarValue::Decimal128(Some(whole), 38, 0).cast_to(number);
            value.ok().filter(|value| !value.is_null()).ok_or_else(|| out_of_range(text, wanted))?
        }
        number if number.is_floating() => {
            ScalarValue::Float64(Some(trimmed.parse().map_err(|_| invalid())?)).cast_to(number)?
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => match interval_of(trimmed) {
            Some(interval) => ScalarValue::IntervalMonthDayNano(Some(interval)),
            None => return Ok(None),
        },
        DataType::Timestamp(_, None) => match timestamp_of(trimmed, None) {
            Some(micros) => ScalarValue::TimestampMicrosecond(Some(micros), None).cast_to(wanted)?,
            None => return Ok(None),
        },
        DataType::Date32 => match date_of_text(trimmed) {
            Some(days) => ScalarValue::Date32(Some(days)),
            None => return Ok(None),
        },
        uuid if *uuid == UUID => super::uuids::uuid(text)?,
        _ => return Ok(None),
    }))
}

/// The truth value of a text, or of the beginning of its word.
///
/// Source: PostgreSQL documentation, "Boolean Type".
fn truth(text: &str) -> Option<bool> {
    let text = text.to_ascii_lowercase();
    let begins = |word: &str| !text.is_empty() && word.starts_with(&text);
    if begins("true") || begins("yes") || text == "on" || text == "1" {
        return Some(true);
    }
    (begins("false") || begins("no") || text == "off" || text == "of" || text == "0").then_some(false)
}

fn invalid(text: &str, wanted: &DataType) -> QueryError {
    QueryError::new(
        ErrorKind::InvalidValue,
        format!("invalid input syntax for type {}: \"{text}\"", name_of(wanted)),
    )
}

fn out_of_range(text: &str, wanted: &DataType) -> QueryError {
    QueryError::new(
        ErrorKind::OutOfRange,
        format!("value \"{text}\" is out of range for type {}", name_of(wanted)),
    )
}

/// PostgreSQL's name of a type that constants are read as.
fn name_of(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "boolean".to_owned(),
        DataType::Int16 => "smallint".to_owned(),
        DataType::Int32 => "integer".to_owned(),
        DataType::Int64 => "bigint".to_owned(),
        DataType::Float32 => "real".to_owned(),
        DataType::Float64 => "double precision".to_owned(),
        other if other.is_decimal() => "numeric".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn texts_are_read_as_the_types_that_they_meet() {
        let check = |text: &str, wanted: DataType, expected: &str| {
            let read = constant(text, &wanted).map(|value| value.map(|value| value.to_string()));
            match read {
                Ok(value) => assert_eq!(value.unwrap_or_default(), expected, "{text}"),
                Err(error) => assert_eq!(QueryError::from(error).message, expected, "{text}"),
            }
        };
        check(" 7 ", DataType::Int32, "7");
        check("1.5", DataType::Int32, "invalid input syntax for type integer: \"1.5\"");
        check("40000", DataType::Int16, "value \"40000\" is out of range for type smallint");
        check("1.50", DataType::Decimal128(10, 4), "1.50");
        check("1e2", DataType::Float64, "100");
        for (text, expected) in
            [("t", "true"), ("YES", "true"), ("on", "true"), ("f", "false"), ("0", "false")]
        {
            check(text, DataType::Boolean, expected);
        }
        check("maybe", DataType::Boolean, "invalid input syntax for type boolean: \"maybe\"");
        check("2024-01-01", DataType::Date32, "2024-01-01");
        check("soon", DataType::Date32, "");
    }
}
