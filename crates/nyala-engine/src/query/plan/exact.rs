//! Literals as values of the type that they are compared with.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use nyala_sql::statement::Literal;

/// Whole numbers up to this are exact as `f64`.
const EXACT_IN_F64: u64 = 1 << 53;

/// The literal as a value of the column type `wanted`, if comparing with either means exactly the same.
/// None otherwise, for instance for `1.5` and a column of whole numbers: then the text is planned as it is,
/// and SQL's rules for the types of both sides decide.
pub fn value_of(literal: Literal<'_>, wanted: &DataType) -> Option<ScalarValue> {
    match literal {
        Literal::Integer(digits) => integer(digits.parse().ok()?, wanted),
        Literal::Decimal(digits) if *wanted == DataType::Float64 => {
            Some(ScalarValue::Float64(Some(digits.parse().ok()?)))
        }
        Literal::Decimal(digits) => decimal(&digits, wanted),
        Literal::Text(text) => match wanted {
            DataType::Utf8 => Some(ScalarValue::Utf8(Some(text.into_owned()))),
            DataType::LargeUtf8 => Some(ScalarValue::LargeUtf8(Some(text.into_owned()))),
            DataType::Utf8View => Some(ScalarValue::Utf8View(Some(text.into_owned()))),
            _ => None,
        },
        Literal::Date(text) => match wanted {
            DataType::Date32 if is_plain_date(&text) => {
                cast(&ScalarValue::Utf8(Some(text.into_owned())), wanted)
            }
            _ => None,
        },
    }
}

/// A whole number as a value of `wanted`, if it fits. Converted here because DataFusion's cast makes an
/// array for each value of each query.
pub fn integer(value: i64, wanted: &DataType) -> Option<ScalarValue> {
    Some(match wanted {
        DataType::Int8 => ScalarValue::Int8(Some(value.try_into().ok()?)),
        DataType::Int16 => ScalarValue::Int16(Some(value.try_into().ok()?)),
        DataType::Int32 => ScalarValue::Int32(Some(value.try_into().ok()?)),
        DataType::Int64 => ScalarValue::Int64(Some(value)),
        DataType::UInt8 => ScalarValue::UInt8(Some(value.try_into().ok()?)),
        DataType::UInt16 => ScalarValue::UInt16(Some(value.try_into().ok()?)),
        DataType::UInt32 => ScalarValue::UInt32(Some(value.try_into().ok()?)),
        DataType::UInt64 => ScalarValue::UInt64(Some(value.try_into().ok()?)),
        DataType::Float64 if value.unsigned_abs() <= EXACT_IN_F64 => ScalarValue::Float64(Some(value as f64)),
        DataType::Decimal128(_, 0..) => return cast(&ScalarValue::Int64(Some(value)), wanted),
        _ => return None,
    })
}

/// A number with a point as a decimal of the type `wanted`, if it has no more digits than that.
fn decimal(digits: &str, wanted: &DataType) -> Option<ScalarValue> {
    let DataType::Decimal128(precision, scale) = *wanted else { return None };
    let (whole, fraction) = digits.split_once('.')?;
    let missing = usize::try_from(scale).ok()?.checked_sub(fraction.len())?;
    let value: i128 = format!("{whole}{fraction}{}", "0".repeat(missing)).parse().ok()?;
    let fits = value.unsigned_abs() < 10_u128.checked_pow(u32::from(precision))?;
    fits.then_some(ScalarValue::Decimal128(Some(value), precision, scale))
}

fn cast(value: &ScalarValue, wanted: &DataType) -> Option<ScalarValue> {
    value.cast_to(wanted).ok().filter(|value| !value.is_null())
}

/// `1994-01-31` and nothing else.
fn is_plain_date(text: &str) -> bool {
    let shape = text.bytes().map(|byte| if byte.is_ascii_digit() { b'0' } else { byte });
    shape.eq("0000-00-00".bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_values_are_taken() {
        let check = |literal: Literal<'_>, wanted: DataType, expected: Option<&str>| {
            let value = value_of(literal.clone(), &wanted).map(|value| format!("{value:?}"));
            assert_eq!(value.as_deref(), expected, "{literal:?} as {wanted}");
        };
        let integer = |digits: &'static str| Literal::Integer(digits.into());
        let text = |text: &'static str| Literal::Text(text.into());
        check(integer("1993"), DataType::Int32, Some("Int32(1993)"));
        check(integer("-7"), DataType::Int64, Some("Int64(-7)"));
        check(integer("-7"), DataType::UInt8, None);
        check(integer("300"), DataType::Int8, None);
        check(integer("99999999999999999999"), DataType::Int64, None);
        check(integer("9007199254740993"), DataType::Float64, None);
        check(integer("-9223372036854775808"), DataType::Float64, None);
        check(integer("-9223372036854775808"), DataType::Int64, Some("Int64(-9223372036854775808)"));
        check(integer("4294967296"), DataType::UInt32, None);
        check(integer("5"), DataType::Float64, Some("Float64(5)"));
        check(integer("5"), DataType::Float32, None);
        check(integer("5"), DataType::Decimal128(5, 2), Some("Decimal128(5.00,5,2)"));
        check(integer("5000"), DataType::Decimal128(5, 2), None);
        check(integer("5"), DataType::Utf8, None);
        check(Literal::Decimal("0.05".into()), DataType::Float64, Some("Float64(0.05)"));
        check(Literal::Decimal("1.5".into()), DataType::Int64, None);
        check(Literal::Decimal("1.5".into()), DataType::Decimal128(5, 2), Some("Decimal128(1.50,5,2)"));
        check(Literal::Decimal("-0.25".into()), DataType::Decimal128(5, 2), Some("Decimal128(-0.25,5,2)"));
        check(Literal::Decimal("1.505".into()), DataType::Decimal128(5, 2), None);
        check(Literal::Decimal("1000.5".into()), DataType::Decimal128(5, 2), None);
        check(text("it's"), DataType::Utf8View, Some("Utf8View(\"it's\")"));
        check(text("5"), DataType::Int64, None);
        check(text("1994-01-01"), DataType::Date32, None);
        check(Literal::Date("1994-01-31".into()), DataType::Date32, Some("Date32(\"1994-01-31\")"));
        check(Literal::Date("1994-02-31".into()), DataType::Date32, None);
        check(Literal::Date("1994-1-31".into()), DataType::Date32, None);
    }
}
