//! Parameter values of clients, text or binary, as the engine's scalars.

use arrow::array::timezone::Tz;
use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use bytes::{Buf, Bytes};
use datafusion::common::ScalarValue;
use nyala_engine::{UUID, read_uuid, texts};
use pgwire::api::Type;

use super::arrays;
use super::form::Form;
use super::local_time::without_zone;
use super::numeric;
use super::render::{EPOCH_OFFSET_DAYS, EPOCH_OFFSET_US};
use crate::pgwire::errors::{Failure, sqlstate};

/// The type that the client is told and its values are read as: the declared type, otherwise the inferred type,
/// otherwise text.
pub fn resolve(declared_oid: u32, inferred: Option<&DataType>) -> Type {
    Type::from_oid(declared_oid)
        .filter(|declared| *declared != Type::UNKNOWN)
        .or_else(|| Some(Form::of_type(inferred?).pg_type()))
        .unwrap_or(Type::TEXT)
}

/// The engine's type for values of a PostgreSQL type; none for types with values that stay text.
pub fn arrow_type(kind: &Type) -> Option<DataType> {
    Some(match *kind {
        Type::BOOL => DataType::Boolean,
        Type::INT2 => DataType::Int16,
        Type::INT4 | Type::OID | Type::REGCLASS | Type::REGTYPE | Type::REGPROC | Type::REGNAMESPACE => {
            DataType::Int32
        }
        Type::INT8 => DataType::Int64,
        Type::FLOAT4 => DataType::Float32,
        Type::FLOAT8 => DataType::Float64,
        Type::BYTEA => DataType::Binary,
        Type::UUID => UUID,
        Type::DATE => DataType::Date32,
        Type::TIME => DataType::Time64(TimeUnit::Microsecond),
        Type::TIMESTAMP => DataType::Timestamp(TimeUnit::Microsecond, None),
        Type::TIMESTAMPTZ => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        Type::INTERVAL => DataType::Interval(IntervalUnit::MonthDayNano),
        _ => return None,
    })
}

/// The zone of the session, asked for only where a text is a moment.
pub type Zone<'a> = &'a dyn Fn() -> Option<Tz>;

/// Reads all values of a Bind message.
///
/// # Errors
/// Another number of values or formats than of parameters, or a value that its type cannot hold.
pub fn decode_all(
    types: &[Type],
    formats: &[i16],
    values: &[Option<Bytes>],
    zone: Zone<'_>,
) -> Result<Vec<ScalarValue>, Failure> {
    if values.len() != types.len() {
        let (given, wanted) = (values.len(), types.len());
        let message =
            format!("bind message supplies {given} parameters, but prepared statement requires {wanted}");
        return Err(Failure::error(sqlstate::PROTOCOL_VIOLATION, message));
    }
    if formats.len() > 1 && formats.len() != values.len() {
        let message = format!("bind message has {} formats but {} parameters", formats.len(), values.len());
        return Err(Failure::error(sqlstate::PROTOCOL_VIOLATION, message));
    }
    let format = |i: usize| formats.get(if formats.len() == 1 { 0 } else { i }).copied().unwrap_or(0);
    let values = types.iter().zip(values).enumerate();
    values.map(|(i, (kind, value))| decode(kind, format(i), value.as_deref(), i + 1, zone)).collect()
}

/// Reads one value; `number` is its place, for messages.
fn decode(
    kind: &Type,
    format: i16,
    value: Option<&[u8]>,
    number: usize,
    zone: Zone<'_>,
) -> Result<ScalarValue, Failure> {
    let Some(bytes) = value else {
        return Ok(null(kind));
    };
    let (value, sqlstate) = match format {
        0 => {
            let text = std::str::from_utf8(bytes).map_err(|_| {
                Failure::error(
                    sqlstate::INVALID_CHARACTERS,
                    format!("parameter ${number} is not valid UTF-8"),
                )
            })?;
            (
                from_text(kind, text, zone),
                if is_time(kind) { sqlstate::INVALID_TIME } else { sqlstate::INVALID_TEXT },
            )
        }
        1 => (from_binary(kind, bytes), sqlstate::INVALID_BINARY),
        other => {
            let message = format!("unsupported format code `{other}`");
            return Err(Failure::error(sqlstate::INVALID_PARAMETER_VALUE, message));
        }
    };
    value.ok_or_else(|| {
        let written = if format == 0 { String::from_utf8_lossy(bytes).into_owned() } else { "binary".into() };
        Failure::error(
            sqlstate,
            format!("invalid input for type {}, parameter ${number}: `{written}`", kind.name()),
        )
    })
}

fn is_time(kind: &Type) -> bool {
    matches!(*kind, Type::DATE | Type::TIME | Type::TIMESTAMP | Type::TIMESTAMPTZ | Type::INTERVAL)
}

/// A NULL of a type.
pub fn null(kind: &Type) -> ScalarValue {
    let item = arrays::item_type(kind);
    let data_type = match (arrow_type(kind), item) {
        (Some(data_type), _) => data_type,
        (None, Some(item)) => arrays::list_type(&item),
        (None, None) if *kind == Type::NUMERIC => DataType::Null,
        (None, None) => DataType::Utf8,
    };
    ScalarValue::try_from(&data_type).unwrap_or(ScalarValue::Null)
}

/// Reads a value from its text. None if the text is not of the type.
pub fn from_text(kind: &Type, text: &str, zone: Zone<'_>) -> Option<ScalarValue> {
    if let Some(item) = arrays::item_type(kind) {
        return arrays::from_text(&item, text, zone);
    }
    match *kind {
        Type::BOOL => boolean(text).map(|value| ScalarValue::Boolean(Some(value))),
        Type::NUMERIC => numeric::parse(text),
        Type::FLOAT4 => text.trim().parse().ok().map(|value| ScalarValue::Float32(Some(value))),
        Type::FLOAT8 => text.trim().parse().ok().map(|value| ScalarValue::Float64(Some(value))),
        Type::UUID => {
            read_uuid(text).ok().map(|bytes| ScalarValue::FixedSizeBinary(16, Some(bytes.to_vec())))
        }
        Type::BYTEA => bytea(text).map(|value| ScalarValue::Binary(Some(value))),
        // A timestamp may come with the zone of the client's clock behind it, which means nothing here.
        Type::TIMESTAMP => {
            let micros = texts::timestamp_of(without_zone(text), None);
            match micros {
                Some(micros) => Some(ScalarValue::TimestampMicrosecond(Some(micros), None)),
                None => cast(without_zone(text), &arrow_type(kind)?),
            }
        }
        // A time without a zone of its own is a local time of the session's zone.
        Type::TIMESTAMPTZ => {
            let micros = zone().and_then(|zone| texts::timestamp_of(text, Some(&zone)));
            match micros {
                Some(micros) => Some(ScalarValue::TimestampMicrosecond(Some(micros), Some("+00:00".into()))),
                None => cast(text.trim(), &arrow_type(kind)?),
            }
        }
        Type::DATE => texts::date_of_text(text).map(|days| ScalarValue::Date32(Some(days))),
        Type::TIME => {
            let nanos = texts::time_of_text(text.trim())?;
            Some(ScalarValue::Time64Microsecond(Some(nanos / 1000)))
        }
        Type::INTERVAL => {
            let interval = texts::interval_of(text)?;
            Some(ScalarValue::IntervalMonthDayNano(Some(interval)))
        }
        Type::JSON | Type::JSONB => json(kind, text.as_bytes()),
        _ => match arrow_type(kind) {
            Some(data_type) => cast(text.trim(), &data_type),
            None => Some(ScalarValue::Utf8(Some(text.to_owned()))),
        },
    }
}

fn json(kind: &Type, bytes: &[u8]) -> Option<ScalarValue> {
    let text = std::str::from_utf8(bytes).ok()?;
    let written = if *kind == Type::JSONB { texts::normal_json(text) } else { Some(text.to_owned()) };
    written.filter(|text| texts::is_json(text)).map(|text| ScalarValue::Utf8(Some(text)))
}

fn cast(text: &str, data_type: &DataType) -> Option<ScalarValue> {
    let value = ScalarValue::Utf8(Some(text.to_owned())).cast_to(data_type).ok()?;
    (!value.is_null()).then_some(value)
}

fn boolean(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "t" | "true" | "y" | "yes" | "on" | "1" => Some(true),
        "f" | "false" | "n" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
}

/// Hexadecimal (`\x6869`) or escaped (`hi\000`) bytes.
fn bytea(text: &str) -> Option<Vec<u8>> {
    if let Some(digits) = text.strip_prefix("\\x") {
        let digits: Vec<u8> = digits
            .chars()
            .map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
            .collect::<Option<_>>()?;
        let pairs = digits.chunks_exact(2);
        let whole = pairs.remainder().is_empty();
        return whole
            .then(|| pairs.map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next()? {
                b'\\' => b'\\',
                high => octal([high, rest.next()?, rest.next()?])?,
            },
            byte => byte,
        });
    }
    Some(bytes)
}

fn octal(digits: [u8; 3]) -> Option<u8> {
    let text = std::str::from_utf8(&digits).ok()?.to_owned();
    u8::from_str_radix(&text, 8).ok()
}

/// Reads a value from its binary form. None if the bytes are not of the type.
pub fn from_binary(kind: &Type, bytes: &[u8]) -> Option<ScalarValue> {
    if arrays::item_type(kind).is_some() {
        return arrays::from_binary(bytes);
    }
    let mut rest = bytes;
    let value = match *kind {
        Type::BOOL => ScalarValue::Boolean(Some(rest.try_get_u8().ok()? != 0)),
        Type::INT2 => ScalarValue::Int16(Some(rest.try_get_i16().ok()?)),
        Type::INT8 => ScalarValue::Int64(Some(rest.try_get_i64().ok()?)),
        Type::FLOAT4 => ScalarValue::Float32(Some(rest.try_get_f32().ok()?)),
        Type::FLOAT8 => ScalarValue::Float64(Some(rest.try_get_f64().ok()?)),
        Type::DATE => ScalarValue::Date32(Some(rest.try_get_i32().ok()?.checked_add(EPOCH_OFFSET_DAYS)?)),
        Type::TIME => ScalarValue::Time64Microsecond(Some(rest.try_get_i64().ok()?)),
        Type::TIMESTAMP => ScalarValue::TimestampMicrosecond(Some(timestamp(&mut rest)?), None),
        Type::TIMESTAMPTZ => {
            ScalarValue::TimestampMicrosecond(Some(timestamp(&mut rest)?), Some("+00:00".into()))
        }
        Type::INTERVAL => interval(&mut rest)?,
        Type::NUMERIC => return numeric::parse(&numeric::read_binary(bytes)?),
        Type::UUID if bytes.len() == 16 => {
            return Some(ScalarValue::FixedSizeBinary(16, Some(bytes.to_vec())));
        }
        Type::UUID => return None,
        Type::BYTEA => return Some(ScalarValue::Binary(Some(bytes.to_vec()))),
        Type::JSONB => return json(kind, bytes.strip_prefix(&[1])?),
        Type::JSON => return json(kind, bytes),
        _ if arrow_type(kind) == Some(DataType::Int32) => ScalarValue::Int32(Some(rest.try_get_i32().ok()?)),
        _ => return text(bytes),
    };
    rest.is_empty().then_some(value)
}

fn timestamp(rest: &mut &[u8]) -> Option<i64> {
    rest.try_get_i64().ok()?.checked_add(EPOCH_OFFSET_US)
}

fn interval(rest: &mut &[u8]) -> Option<ScalarValue> {
    let nanoseconds = rest.try_get_i64().ok()?.checked_mul(1000)?;
    let days = rest.try_get_i32().ok()?;
    let months = rest.try_get_i32().ok()?;
    Some(ScalarValue::new_interval_mdn(months, days, nanoseconds))
}

fn text(bytes: &[u8]) -> Option<ScalarValue> {
    Some(ScalarValue::Utf8(Some(std::str::from_utf8(bytes).ok()?.to_owned())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
    use super::*;

    #[test]
    fn texts_become_scalars() {
        let check = |kind, text, expected: &str| {
            let value = from_text(&kind, text, &|| None).unwrap();
            assert_eq!(format!("{value:?}"), expected, "{kind} {text}");
        };
        check(Type::BOOL, "on", "Boolean(true)");
        check(Type::INT2, "-7", "Int16(-7)");
        check(Type::INT4, " 42 ", "Int32(42)");
        check(Type::INT8, "9223372036854775807", "Int64(9223372036854775807)");
        check(Type::FLOAT8, "1e3", "Float64(1000)");
        check(Type::NUMERIC, "1e3", "Decimal128(1000,4,0)");
        check(Type::DATE, "0044-03-15 BC", "Date32(\"-0043-03-15\")");
        check(Type::DATE, "2024-02-29 +01", "Date32(\"2024-02-29\")");
        let time = ScalarValue::Time64Microsecond(Some(45_296_000_000));
        assert_eq!(from_text(&Type::TIME, "12:34:56+00", &|| None), Some(time));
        for written in ["1 day 02:00:00", "P1DT2H", "@ 1 day 2 hours"] {
            let expected = ScalarValue::new_interval_mdn(0, 1, 7_200_000_000_000);
            assert_eq!(from_text(&Type::INTERVAL, written, &|| None), Some(expected), "{written}");
        }
        let object = ScalarValue::Utf8(Some("{\"a\": 2, \"b\": 1}".to_owned()));
        assert_eq!(from_text(&Type::JSONB, "{\"b\":1,\"a\":2}", &|| None), Some(object));
        check(Type::FLOAT8, "NaN", "Float64(NaN)");
        check(Type::NUMERIC, "1.50", "Decimal128(1.50,3,2)");
        check(Type::VARCHAR, "it's", "Utf8(\"it's\")");
        check(Type::DATE, "2024-02-29 +01", "Date32(\"2024-02-29\")");
        check(Type::BYTEA, "\\x6869", "Binary(\"104,105\")");
        check(Type::BYTEA, "h\\151\\\\", "Binary(\"104,105,92\")");
        check(
            Type::TIMESTAMPTZ,
            "2000-01-01 01:00:00+01",
            "TimestampMicrosecond(946684800000000, Some(\"+00:00\"))",
        );
    }

    #[test]
    fn a_moment_without_a_zone_is_of_that_of_the_session() {
        let read = |text, zone: Option<&str>| {
            let zone = || -> Option<Tz> { zone?.parse().ok() };
            from_text(&Type::TIMESTAMPTZ, text, &zone)
        };
        let moment = |seconds: i64| {
            Some(ScalarValue::TimestampMicrosecond(Some(seconds * 1_000_000), Some("+00:00".into())))
        };
        assert_eq!(read("2024-01-05 10:00:00", Some("Asia/Kolkata")), moment(1_704_429_000));
        assert_eq!(read("2024-01-05 10:00:00", None), moment(1_704_448_800));
        assert_eq!(read("2024-01-05 10:00:00+00", Some("Asia/Kolkata")), moment(1_704_448_800));
        let all = from_text(&Type::TIMESTAMPTZ_ARRAY, "{2024-01-05}", &|| "Asia/Kolkata".parse().ok());
        let same = from_text(&Type::TIMESTAMPTZ_ARRAY, "{2024-01-04 18:30:00+00}", &|| None);
        assert!(all.is_some() && all == same, "{all:?} {same:?}");
    }

    #[test]
    fn wrong_texts_are_refused_with_the_type_and_the_place() {
        for (kind, text) in [
            (Type::BOOL, "maybe"),
            (Type::INT4, "4.5"),
            (Type::INT2, "70000"),
            (Type::DATE, "2024-13-01"),
            (Type::DATE, ""),
            (Type::DATE, "2024-02-29 garbage"),
            (Type::JSON, "nope"),
            (Type::INTERVAL, "soon"),
            (Type::BYTEA, "\\x6"),
            (Type::BYTEA, "\\9"),
            (Type::TIMESTAMP, "soon"),
        ] {
            let failure = decode(&kind, 0, Some(text.as_bytes()), 2, &|| None).unwrap_err();
            assert_eq!(failure.sqlstate, if is_time(&kind) { "22007" } else { "22P02" });
            assert!(failure.message.contains("$2"), "{}", failure.message);
        }
    }

    #[test]
    fn binary_values_become_scalars() {
        let check = |kind, bytes: &[u8], expected: ScalarValue| {
            assert_eq!(from_binary(&kind, bytes), Some(expected));
        };
        check(Type::BOOL, &[1], ScalarValue::Boolean(Some(true)));
        check(Type::INT4, &[0, 0, 1, 0], ScalarValue::Int32(Some(256)));
        check(Type::DATE, &[0, 0, 0, 0], ScalarValue::Date32(Some(EPOCH_OFFSET_DAYS)));
        check(Type::TIMESTAMP, &[0; 8], ScalarValue::TimestampMicrosecond(Some(EPOCH_OFFSET_US), None));
        check(Type::TEXT, b"hi", ScalarValue::Utf8(Some("hi".to_owned())));
        assert_eq!(from_binary(&Type::INT4, &[0, 0, 1]), None);
        assert_eq!(from_binary(&Type::INT4, &[0, 0, 1, 0, 0]), None);
        assert_eq!(from_binary(&Type::TEXT, &[0xff]), None);
        assert_eq!(from_binary(&Type::INTERVAL, &[0; 15]), None);
    }

    #[test]
    fn nulls_keep_their_type() {
        assert_eq!(decode(&Type::INT8, 1, None, 1, &|| None), Ok(ScalarValue::Int64(None)));
        assert_eq!(decode(&Type::TEXT, 0, None, 1, &|| None), Ok(ScalarValue::Utf8(None)));
    }

    #[test]
    fn declared_types_win_over_inferred_ones() {
        assert_eq!(resolve(Type::INT8.oid(), Some(&DataType::Utf8)), Type::INT8);
        assert_eq!(resolve(0, Some(&DataType::Int32)), Type::INT4);
        assert_eq!(resolve(Type::UNKNOWN.oid(), Some(&DataType::Utf8View)), Type::TEXT);
        assert_eq!(resolve(0, Some(&DataType::Null)), Type::TEXT);
        assert_eq!(resolve(0, None), Type::TEXT);
    }

    #[test]
    fn counts_must_agree() {
        assert_eq!(decode_all(&[Type::INT4], &[], &[], &|| None).unwrap_err().sqlstate, "08P01");
        let one = Some(Bytes::from_static(b"1"));
        assert!(decode_all(&[Type::INT4], &[0, 0], std::slice::from_ref(&one), &|| None).is_err());
        assert_eq!(decode_all(&[Type::INT4], &[0], &[one], &|| None).unwrap(), [ScalarValue::Int32(Some(1))]);
    }
}
