//! The effect of casts on values: their order, whether they stay distinct, and their digits after the decimal
//! point.

use arrow::array::ArrayRef;
use arrow::compute::cast_with_options;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::format::DEFAULT_CAST_OPTIONS;

use crate::error::Result;
use crate::functions::{nearest_floats, nearest_whole};

/// Whether a cast certainly keeps the order of values: it never makes the higher one of two the lower one.
pub fn keeps_order(from: &DataType, to: &DataType) -> bool {
    use DataType::{Date32, Date64, Timestamp};
    match (from, to) {
        _ if from == to => true,
        (DataType::Dictionary(_, from), to) => keeps_order(from, to),
        (from, DataType::Dictionary(_, to)) => keeps_order(from, to),
        // The clocks of some zones are put back, so that a later moment has an earlier time.
        (Timestamp(_, Some(zone)), Timestamp(_, None) | Date32 | Date64) => is_fixed(zone),
        (Date32 | Date64 | Timestamp(..), Date32 | Date64 | Timestamp(..)) => true,
        _ => (from.is_numeric() && to.is_numeric()) || (from.is_string() && to.is_string()),
    }
}

/// Whether the clock of a time zone is never put back.
fn is_fixed(zone: &str) -> bool {
    matches!(zone, "UTC" | "Z" | "Etc/UTC") || zone.starts_with(['+', '-'])
}

/// Whether a comparison of a cast with a constant is the same as one of the cast's argument with the constant, cast back.
///
/// DataFusion 55 takes it to be the same for every cast between whole numbers and decimals, and between timestamps. But a cast to whole
/// numbers makes one value of `1.50` and `1.60`, and an error or NULL of a number that is too large, and a time zone moves the clock.
pub fn can_be_undone(from: &DataType, to: &DataType) -> bool {
    use DataType::{Dictionary, Timestamp};
    let is_exact = |data_type: &DataType| data_type.is_integer() || data_type.is_decimal();
    match (from, to) {
        (Dictionary(_, from), to) => can_be_undone(from, to),
        (from, Dictionary(_, to)) => can_be_undone(from, to),
        (Timestamp(_, None), Timestamp(_, Some(zone))) | (Timestamp(_, Some(zone)), Timestamp(_, None)) => {
            is_utc(zone)
        }
        (from, to) => !(is_exact(from) && is_exact(to)) || always_fits(from, to),
    }
}

/// Whether a cast certainly gives different values for different ones.
pub fn tells_apart(from: &DataType, to: &DataType) -> bool {
    use DataType::{Date32, Date64, Dictionary, Float32, Float64, Int8, Int16, Int32, Timestamp};
    let is_exact = |data_type: &DataType| data_type.is_integer() || data_type.is_decimal();
    match (from, to) {
        _ if from == to => true,
        (Dictionary(_, from), to) => tells_apart(from, to),
        (from, Dictionary(_, to)) => tells_apart(from, to),
        (Timestamp(unit, _), Timestamp(finer, _)) => finer >= unit && can_be_undone(from, to),
        (Date32, Date64 | Timestamp(..)) | (Date64, Timestamp(..)) => true,
        (Int8 | Int16 | Int32 | Float32, Float64) => true,
        (from, to) if is_exact(from) && is_exact(to) => always_fits(from, to),
        (from, to) => from.is_string() && to.is_string(),
    }
}

/// Whether the clock of a time zone shows the same as timestamps without a zone.
fn is_utc(zone: &str) -> bool {
    matches!(zone, "UTC" | "Z" | "Etc/UTC" | "+00:00")
}

/// How a cast is made to give the nearest number, as in PostgreSQL and DuckDB: Arrow truncates, or rounds twice.
#[derive(Debug, PartialEq, Eq)]
pub enum Nearest {
    /// Decimals are cast to this type first, which rounds halves away from zero.
    Cast(DataType),
    /// Floating-point numbers are rounded first, halves to the even number.
    Rint,
    /// Decimals become the nearest floating-point number by a function of our own.
    Float,
}

/// Whether and how a cast must be made to round to the nearest number.
pub fn nearest(from: &DataType, to: &DataType) -> Option<Nearest> {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256};
    if to.is_floating()
        && matches!(from, Decimal32(_, 1..) | Decimal64(_, 1..) | Decimal128(..) | Decimal256(..))
    {
        return Some(Nearest::Float);
    }
    if !to.is_integer() {
        return None;
    }
    // Rounding up may take one digit more, for which dropping the digits after the point makes room.
    let whole = |precision: u8, scale: i8| precision.saturating_sub(scale.unsigned_abs()) + 1;
    let rounding = match *from {
        Decimal32(precision, scale @ 1..) => Nearest::Cast(Decimal32(whole(precision, scale), 0)),
        Decimal64(precision, scale @ 1..) => Nearest::Cast(Decimal64(whole(precision, scale), 0)),
        Decimal128(precision, scale @ 1..) => Nearest::Cast(Decimal128(whole(precision, scale), 0)),
        Decimal256(precision, scale @ 1..) => Nearest::Cast(Decimal256(whole(precision, scale), 0)),
        _ if from.is_floating() => Nearest::Rint,
        _ => return None,
    };
    Some(rounding)
}

/// A column cast as SQL's CAST does it.
pub fn cast_column(column: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let rounded = match nearest(column.data_type(), to) {
        Some(Nearest::Cast(whole)) => cast_with_options(column, &whole, &DEFAULT_CAST_OPTIONS)?,
        Some(Nearest::Rint) => nearest_whole(column)?,
        Some(Nearest::Float) => nearest_floats(column)?,
        None => return Ok(cast_with_options(column, to, &DEFAULT_CAST_OPTIONS)?),
    };
    Ok(cast_with_options(&rounded, to, &DEFAULT_CAST_OPTIONS)?)
}

/// As [`cast_column`], for one value.
pub fn cast_value(value: &ScalarValue, to: &DataType) -> Result<ScalarValue> {
    match nearest(&value.data_type(), to) {
        None => Ok(value.cast_to(to)?),
        Some(_) => Ok(ScalarValue::try_from_array(&cast_column(&value.to_array()?, to)?, 0)?),
    }
}

/// Whether every value of one type fits the other.
pub fn always_fits(from: &DataType, to: &DataType) -> bool {
    let is_time = |data_type: &DataType| data_type.is_temporal();
    from == to
        || from.is_null()
        || to.is_string()
        || (is_time(from) && is_time(to))
        || (from == &DataType::Boolean && to.is_numeric())
        || (from.is_numeric() && to.is_floating())
        || match (digits(from, Whole::Largest), digits(to, Whole::Every)) {
            (Some((whole, behind)), Some((room, room_behind))) => {
                let loses_sign = from.is_signed_integer() && to.is_unsigned_integer();
                whole <= room && behind <= room_behind && !loses_sign
            }
            _ => false,
        }
}

/// Which numbers of a type count for its digits before the point.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whole {
    /// The largest number.
    Largest,
    /// Every number with this many digits.
    Every,
}

/// How many digits a number of this type has before and behind the point.
fn digits(data_type: &DataType, which: Whole) -> Option<(i16, i16)> {
    let whole = match data_type {
        DataType::Int8 | DataType::UInt8 => 3,
        DataType::Int16 | DataType::UInt16 => 5,
        DataType::Int32 | DataType::UInt32 => 10,
        DataType::Int64 => 19,
        DataType::UInt64 => 20,
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            return Some((i16::from(*precision) - i16::from(*scale), i16::from(*scale)));
        }
        _ => return None,
    };
    Some((if which == Whole::Every { whole - 1 } else { whole }, 0))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::datatypes::TimeUnit;

    use super::*;

    #[test]
    fn casts_that_keep_the_order_are_known() {
        let timestamp = |zone: Option<&str>| DataType::Timestamp(TimeUnit::Microsecond, zone.map(Into::into));
        let check = |from: &DataType, to: &DataType, expected: bool| {
            assert_eq!(keeps_order(from, to), expected, "{from} to {to}");
        };
        check(&timestamp(None), &DataType::Timestamp(TimeUnit::Nanosecond, None), true);
        check(&timestamp(None), &timestamp(Some("+00:00")), true);
        check(&timestamp(Some("+00:00")), &DataType::Date32, true);
        check(&timestamp(Some("Europe/Paris")), &timestamp(Some("UTC")), true);
        check(&timestamp(Some("Europe/Paris")), &timestamp(None), false);
        check(&timestamp(None), &DataType::Time64(TimeUnit::Nanosecond), false);
        check(&DataType::Date32, &timestamp(None), true);
        check(&DataType::Int64, &DataType::Decimal128(5, 2), true);
        check(&DataType::Int64, &DataType::Boolean, false);
        check(&timestamp(Some("-03:30")), &DataType::Date32, true);
        let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        check(&dictionary, &DataType::Utf8View, true);
        check(&dictionary, &DataType::Int64, false);
        check(&DataType::Utf8, &DataType::Utf8View, true);
        check(&DataType::Utf8, &DataType::Int64, false);
    }

    #[test]
    fn casts_that_always_fit_are_known() {
        use DataType::{Boolean, Date32, Decimal128, Float32, Float64, Int32, Int64, UInt32, UInt64, Utf8};
        for (from, to) in [
            (Int32, Int64),
            (UInt32, Int64),
            (Int64, Float64),
            (Float64, Float32),
            (Int32, Utf8),
            (Boolean, Int32),
            (Int64, Decimal128(19, 0)),
            (UInt64, Decimal128(22, 2)),
            (Decimal128(10, 2), Decimal128(12, 3)),
            (Date32, DataType::Date64),
            (Decimal128(18, 0), Int64),
        ] {
            assert!(always_fits(&from, &to), "{from} as {to}");
        }
        for (from, to) in [
            (Int64, Int32),
            (UInt64, Int64),
            (Int32, UInt32),
            (Int32, UInt64),
            (UInt32, Int32),
            (Utf8, Int32),
            (Utf8, Date32),
            (Float64, Int64),
            (Int64, Decimal128(18, 0)),
            (Decimal128(19, 0), Int64),
            (Decimal128(10, 2), Decimal128(12, 5)),
        ] {
            assert!(!always_fits(&from, &to), "{from} as {to}");
        }
    }

    #[test]
    fn whole_numbers_are_the_nearest() {
        use ScalarValue::{Decimal128, Float32, Float64, Int8};
        for (value, expected) in [
            (Decimal128(Some(249), 3, 2), Some(2)),
            (Decimal128(Some(250), 3, 2), Some(3)),
            (Decimal128(Some(-250), 3, 2), Some(-3)),
            (Decimal128(Some(999), 3, 2), Some(10)),
            (Decimal128(Some(99), 2, 2), Some(1)),
            (Decimal128(None, 3, 2), None),
            (Float64(Some(2.5)), Some(2)),
            (Float64(Some(3.5)), Some(4)),
            (Float64(Some(-2.6)), Some(-3)),
            (Float32(Some(1.6)), Some(2)),
            (Float64(None), None),
        ] {
            assert_eq!(cast_value(&value, &DataType::Int8).unwrap(), Int8(expected), "{value}");
        }
        let all = "0.".to_owned() + &"9".repeat(38);
        let all = ScalarValue::from(all).cast_to(&DataType::Decimal128(38, 38)).unwrap();
        assert_eq!(cast_value(&all, &DataType::Int8).unwrap(), Int8(Some(1)));
        assert!(cast_value(&Float64(Some(f64::NAN)), &DataType::Int8).is_err());
        assert!(cast_value(&Decimal128(Some(12_750), 5, 2), &DataType::Int8).is_err());
        assert_eq!(nearest(&DataType::Decimal128(10, 0), &DataType::Int8), None);
        assert_eq!(nearest(&DataType::Float64, &DataType::Float32), None);
    }

    #[test]
    fn casts_that_can_be_undone_are_known() {
        use DataType::{Boolean, Date32, Decimal128, Float64, Int16, Int32, Int64, UInt32, Utf8};
        let timestamp = |zone: Option<&str>| DataType::Timestamp(TimeUnit::Microsecond, zone.map(Into::into));
        let dictionary = DataType::Dictionary(Box::new(Int32), Box::new(Decimal128(10, 2)));
        for (from, to) in [
            (Int32, Int64),
            (Int32, Decimal128(12, 2)),
            (Decimal128(10, 2), Decimal128(12, 2)),
            (Decimal128(10, 2), Float64),
            (Int32, Utf8),
            (Boolean, Int32),
            (Date32, timestamp(None)),
            (timestamp(None), timestamp(Some("UTC"))),
            (timestamp(Some("Europe/Paris")), timestamp(Some("UTC"))),
        ] {
            assert!(can_be_undone(&from, &to), "{from} as {to}");
        }
        for (from, to) in [
            (Decimal128(10, 2), Int64),
            (Decimal128(10, 2), Decimal128(12, 1)),
            (dictionary, Int64),
            (Int64, Int16),
            (UInt32, Int32),
            (timestamp(None), timestamp(Some("Europe/Paris"))),
            (timestamp(Some("+02:00")), timestamp(None)),
        ] {
            assert!(!can_be_undone(&from, &to), "{from} as {to}");
        }
    }
}
