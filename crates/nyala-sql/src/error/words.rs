//! PostgreSQL's messages for errors that Arrow reports in words of its own.

use super::{ErrorKind, QueryError};

/// PostgreSQL's name of a type of Arrow.
pub fn sql_name(data_type: &str) -> Option<&'static str> {
    Some(match data_type {
        "Boolean" => "boolean",
        "Int8" | "Int16" | "UInt8" => "smallint",
        "Int32" | "UInt16" => "integer",
        "Int64" | "UInt32" => "bigint",
        "Float32" => "real",
        "Float64" => "double precision",
        "Date32" | "Date64" => "date",
        name if name.starts_with("Timestamp") => "timestamp",
        name if name.starts_with("Time") => "time",
        name if name.starts_with("Interval") => "interval",
        name if name.starts_with("Decimal") => "numeric",
        _ => return None,
    })
}

/// The type that has no room for a result: the narrowest one that holds both operands, and not the result.
pub fn overflown(operation: &str) -> &'static str {
    let words: Vec<&str> = operation.split_whitespace().collect();
    let result = match words.as_slice() {
        [left, sign, right] => match (left.parse::<i128>(), *sign, right.parse::<i128>()) {
            (Ok(left), "+", Ok(right)) => left.checked_add(right),
            (Ok(left), "-", Ok(right)) => left.checked_sub(right),
            (Ok(left), "*", Ok(right)) => left.checked_mul(right),
            (Ok(left), "/", Ok(right)) => left.checked_div(right),
            _ => None,
        },
        [_, value] => value.parse::<i128>().ok().and_then(i128::checked_neg),
        _ => None,
    };
    match result {
        Some(result) if i32::try_from(result).is_ok() => "smallint",
        Some(result) if i64::try_from(result).is_ok() => "integer",
        Some(_) => "bigint",
        None => "value",
    }
}

/// The error for a text that cannot be read as a value of a type, in PostgreSQL's words; none if the message is about something else.
pub fn unread_text(text: &str) -> Option<QueryError> {
    let (value, name) = match text.strip_prefix("Cannot cast string '") {
        Some(rest) => {
            let (value, rest) = rest.rsplit_once("' to value of ")?;
            (value, sql_name(rest.split([' ', '(']).next()?)?)
        }
        None => {
            let rest = text.strip_prefix("Error parsing timestamp from '")?;
            (rest.rsplit_once("': ")?.0, "timestamp")
        }
    };
    let has_digits = value.bytes().any(|sign| sign.is_ascii_digit());
    let is_number = value.trim().parse::<i128>().is_ok();
    Some(match name {
        "smallint" | "integer" | "bigint" if is_number => {
            let message = format!("value \"{value}\" is out of range for type {name}");
            QueryError::new(ErrorKind::OutOfRange, message).hint("cast to a wider type")
        }
        "date" | "timestamp" if has_digits && value.contains(['-', '/']) => {
            let message = format!("date/time field value out of range: \"{value}\"");
            QueryError::new(ErrorKind::InvalidTime, message)
                .sqlstate("22008")
                .hint("write YYYY-MM-DD hh:mm:ss")
        }
        "date" | "timestamp" | "time" | "interval" => QueryError::new(
            ErrorKind::InvalidTime,
            format!("invalid input syntax for type {name}: \"{value}\""),
        ),
        _ => QueryError::new(
            ErrorKind::InvalidValue,
            format!("invalid input syntax for type {name}: \"{value}\""),
        ),
    })
}

/// The kind of value that a text failed to parse as; Arrow tells it in the message only.
pub fn unread(text: &str) -> Option<ErrorKind> {
    let is_time =
        |name: &str| ["Date", "Time", "Duration", "Interval"].iter().any(|time| name.starts_with(time));
    if let Some((_, name)) = text.rsplit_once(" to value of ") {
        return Some(if is_time(name) { ErrorKind::InvalidTime } else { ErrorKind::InvalidValue });
    }
    let of_time = text.starts_with("Error parsing timestamp from ")
        || text.starts_with("Invalid input syntax for type interval")
        || text.ends_with(" as time")
        || text.ends_with(" as interval amount");
    if of_time {
        return Some(ErrorKind::InvalidTime);
    }
    text.ends_with(" to decimal").then_some(ErrorKind::InvalidValue)
}
