//! PostgreSQL's `numeric`: its text, and its binary form in base 10,000.
//!
//! ```text
//! ┌────────────┬──────────────┬────────────┬─────────────┬──────────────────┐
//! │ digits 2 B │ weight 2 B   │ sign 2 B   │ scale 2 B   │ digit 2 B each   │
//! └────────────┴──────────────┴────────────┴─────────────┴──────────────────┘
//!   weight: power of 10,000 of the first digit     sign: 0 plus, 0x4000 minus, 0xC000 NaN
//! ```
//!
//! Source: `numeric_send` and `numeric_recv` in PostgreSQL's `numeric.c`.

use arrow::datatypes::DataType;
use bytes::{Buf, BufMut};
use datafusion::common::ScalarValue;
use nyala_engine::texts;

/// Digits of base 10 in one digit of base 10,000.
const GROUP: usize = 4;
const NEGATIVE: u16 = 0x4000;

/// Groups before or behind the point that are read; a float has 77 at most.
const MAX_GROUPS: usize = 128;

/// Appends the binary form of a plain decimal text such as `-12.50`.
///
/// None if the text is no plain decimal, or too long for the format.
pub fn write_binary(text: &str, out: &mut Vec<u8>) -> Option<()> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let whole = whole.trim_start_matches('0');
    let whole_groups = whole.len().div_ceil(GROUP);
    let padding = whole_groups * GROUP - whole.len();
    let mut decimal: Vec<u8> = vec![0; padding];
    for digit in whole.bytes().chain(fraction.bytes()) {
        decimal.push(digit.checked_sub(b'0').filter(|digit| *digit < 10)?);
    }
    decimal.resize(decimal.len().next_multiple_of(GROUP), 0);
    let mut groups: Vec<u16> = decimal
        .chunks(GROUP)
        .map(|group| group.iter().fold(0, |value, digit| value * 10 + u16::from(*digit)))
        .collect();
    let zeros = groups.iter().take_while(|group| **group == 0).count();
    groups.drain(..zeros);
    while groups.last() == Some(&0) {
        groups.pop();
    }
    let weight = if groups.is_empty() {
        0
    } else {
        i16::try_from(whole_groups).ok()? - 1 - i16::try_from(zeros).ok()?
    };
    out.put_u16(u16::try_from(groups.len()).ok()?);
    out.put_i16(weight);
    out.put_u16(if negative && !groups.is_empty() { NEGATIVE } else { 0 });
    out.put_u16(u16::try_from(fraction.len()).ok()?);
    groups.iter().for_each(|group| out.put_u16(*group));
    Some(())
}

/// The plain decimal text of a binary value. None for NaN, infinities and malformed bytes, and for values that no type of the engine holds:
/// eight bytes may stand for 131,072 digits.
pub fn read_binary(mut bytes: &[u8]) -> Option<String> {
    let count = usize::from(bytes.try_get_u16().ok()?);
    let weight = bytes.try_get_i16().ok()?;
    let sign = bytes.try_get_u16().ok()?;
    // Digits beyond this scale change neither a decimal nor a float.
    let scale = usize::from(bytes.try_get_u16().ok()?).min(MAX_GROUPS * GROUP);
    if bytes.len() != count * 2 || !matches!(sign, 0 | NEGATIVE) {
        return None;
    }
    let mut groups = Vec::with_capacity(count);
    while let Ok(group) = bytes.try_get_u16() {
        groups.push(group);
    }
    if usize::try_from(weight).is_ok_and(|weight| weight > MAX_GROUPS) {
        return groups.iter().all(|group| *group == 0).then(|| "0".to_owned());
    }
    let group = |position: i32| -> u16 {
        usize::try_from(i32::from(weight) - position).ok().and_then(|i| groups.get(i).copied()).unwrap_or(0)
    };
    let mut text = if sign == NEGATIVE { "-".to_owned() } else { String::new() };
    let whole: String =
        (0..=i32::from(weight)).rev().map(|position| format!("{:04}", group(position))).collect();
    let whole = whole.trim_start_matches('0');
    text.push_str(if whole.is_empty() { "0" } else { whole });
    if scale > 0 {
        let places = i32::try_from(scale.div_ceil(GROUP)).ok()?;
        let fraction: String = (1..=places).map(|position| format!("{:04}", group(-position))).collect();
        text.push('.');
        text.push_str(fraction.get(..scale)?);
    }
    Some(text)
}

/// A decimal with as many digits as the text has; a float if the digits are too many, or the text is no decimal, such as NaN.
pub fn parse(text: &str) -> Option<ScalarValue> {
    let text = text.trim();
    texts::exact(text).or_else(|| text.parse().ok().map(|value| ScalarValue::Float64(Some(value))))
}

/// Decimals of one type, which has room for all of them, and the type. Floats stay floats.
pub fn of_one_type(values: &[ScalarValue]) -> (DataType, Vec<ScalarValue>) {
    let (mut whole, mut scale) = (1, 0);
    for value in values {
        match value.data_type() {
            DataType::Decimal128(digits, places) | DataType::Decimal256(digits, places) => {
                let places = u8::try_from(places).unwrap_or(0);
                (whole, scale) = (whole.max(digits.saturating_sub(places)), scale.max(places));
            }
            DataType::Float64 => return cast_all(values, DataType::Float64),
            _ => {}
        }
    }
    let (digits, places) = (whole.saturating_add(scale), i8::try_from(scale).unwrap_or(i8::MAX));
    match digits {
        ..=38 => cast_all(values, DataType::Decimal128(digits, places)),
        _ => cast_all(values, DataType::Decimal256(digits.min(76), places.min(76))),
    }
}

fn cast_all(values: &[ScalarValue], data_type: DataType) -> (DataType, Vec<ScalarValue>) {
    let nothing = ScalarValue::try_from(&data_type).unwrap_or(ScalarValue::Null);
    let cast = values.iter().map(|value| value.cast_to(&data_type).unwrap_or_else(|_| nothing.clone()));
    let values = cast.collect();
    (data_type, values)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn binary_forms_go_there_and_back() {
        for text in [
            "0",
            "1",
            "-1",
            "9999",
            "10000",
            "12345678.9",
            "0.0001",
            "-0.00001",
            "100000000",
            "0.50",
            "99999999999999999999999999999999999999",
            "-1234567890123456789012345678901234567890123456789012345678901234567890.123456",
        ] {
            let mut bytes = Vec::new();
            write_binary(text, &mut bytes).unwrap();
            assert_eq!(read_binary(&bytes).as_deref(), Some(text));
        }
    }

    #[test]
    fn the_bytes_are_postgresqls() {
        let mut bytes = Vec::new();
        write_binary("-12345.678", &mut bytes).unwrap();
        assert_eq!(bytes, [0, 3, 0, 1, 0x40, 0, 0, 3, 0, 1, 0x09, 0x29, 0x1a, 0x7c]);
    }

    #[test]
    fn malformed_values_are_none() {
        assert_eq!(read_binary(&[]), None);
        assert_eq!(read_binary(&[0, 9, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(read_binary(&[0, 0, 0, 0, 0xc0, 0, 0, 0]), None);
        assert_eq!(read_binary(&[0, 1, 0x7f, 0xff, 0, 0, 0, 0, 0, 1]), None, "131,072 digits");
        assert_eq!(read_binary(&[0, 0, 0x7f, 0xff, 0, 0, 0, 0]).as_deref(), Some("0"));
        assert_eq!(write_binary("1e5", &mut Vec::new()), None);
        assert_eq!(parse("12x"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn texts_keep_their_digits() {
        assert_eq!(parse("-12.50"), Some(ScalarValue::Decimal128(Some(-1250), 4, 2)));
        assert_eq!(parse("0.05"), Some(ScalarValue::Decimal128(Some(5), 2, 2)));
        assert_eq!(parse("1e3"), Some(ScalarValue::Decimal128(Some(1000), 4, 0)));
        assert_eq!(parse("1e300"), Some(ScalarValue::Float64(Some(1e300))));
    }
}
