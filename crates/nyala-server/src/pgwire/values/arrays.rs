//! One-dimensional array parameters, such as drivers send for `= ANY($1)`.

use arrow::datatypes::{DataType, Field};
use bytes::Buf;
use datafusion::common::ScalarValue;
use nyala_model::array_text::array_elements;
use nyala_pg::types::array_element;
use pgwire::api::Type;

use super::parameters::Zone;
use super::{numeric, parameters};

/// The element type of an array type; none for other types.
pub fn item_type(kind: &Type) -> Option<Type> {
    match array_element(kind)? {
        Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::CHAR => Some(Type::TEXT),
        item @ (Type::TEXT | Type::NUMERIC | Type::JSON | Type::JSONB) => Some(item),
        item => parameters::arrow_type(&item).map(|_| item),
    }
}

/// The engine's type for arrays of an element type.
pub fn list_type(item: &Type) -> DataType {
    let item = match *item {
        Type::NUMERIC => DataType::Decimal128(38, 10),
        _ => parameters::arrow_type(item).unwrap_or(DataType::Utf8),
    };
    DataType::List(Field::new_list_field(item, true).into())
}

/// Reads a text such as `{1,NULL,"a b"}`. None if it is malformed, or has more dimensions.
pub fn from_text(item: &Type, text: &str, zone: Zone<'_>) -> Option<ScalarValue> {
    let mut values = Vec::new();
    for element in array_elements(without_bounds(text))? {
        values.push(match element {
            Some(text) => parameters::from_text(item, &text, zone)?,
            None => parameters::null(item),
        });
    }
    Some(list(item, &values))
}

/// Reads the binary form: dimensions, flags, element type, then length and bytes of each element.
pub fn from_binary(mut bytes: &[u8]) -> Option<ScalarValue> {
    let dimensions = bytes.try_get_i32().ok()?;
    let _flags = bytes.try_get_i32().ok()?;
    let item = Type::from_oid(bytes.try_get_u32().ok()?)?;
    let count = match dimensions {
        0 => 0,
        1 => {
            let count = bytes.try_get_i32().ok()?;
            let _lower_bound = bytes.try_get_i32().ok()?;
            count
        }
        _ => return None,
    };
    let mut values = Vec::new();
    for _ in 0..count {
        let length = bytes.try_get_i32().ok()?;
        values.push(match usize::try_from(length) {
            Ok(length) => {
                let (element, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                parameters::from_binary(&item, element)?
            }
            Err(_) => parameters::null(&item),
        });
    }
    bytes.is_empty().then(|| list(&item, &values))
}

/// The text behind the numbers of the first and the last element, as in `[0:1]={1,2}`.
fn without_bounds(text: &str) -> &str {
    let text = text.trim();
    let bounds = text.strip_prefix('[').and_then(|rest| rest.split_once('='));
    let is_bound = |sign: char| sign.is_ascii_digit() || matches!(sign, ':' | ']' | '[' | '-' | '+');
    match bounds {
        Some((bounds, elements)) if bounds.chars().all(is_bound) => elements,
        _ => text,
    }
}

fn list(item: &Type, values: &[ScalarValue]) -> ScalarValue {
    if *item == Type::NUMERIC {
        let (data_type, values) = numeric::of_one_type(values);
        return ScalarValue::List(ScalarValue::new_list_nullable(&values, &data_type));
    }
    let data_type = parameters::arrow_type(item).unwrap_or(DataType::Utf8);
    ScalarValue::List(ScalarValue::new_list_nullable(values, &data_type))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn arrays_become_lists() {
        let expected = list(&Type::INT4, &[ScalarValue::Int32(Some(7)), ScalarValue::Int32(None)]);
        assert_eq!(from_text(&Type::INT4, "{7,NULL}", &|| None), Some(expected.clone()));
        let mut bytes = vec![0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 23, 0, 0, 0, 2, 0, 0, 0, 1];
        bytes.extend([0, 0, 0, 4, 0, 0, 0, 7, 255, 255, 255, 255]);
        assert_eq!(from_binary(&bytes), Some(expected.clone()));
        assert_eq!(from_text(&Type::INT4, "{}", &|| None), Some(list(&Type::INT4, &[])));
        assert_eq!(from_text(&Type::INT4, "[0:1]={7,NULL}", &|| None), Some(expected));
        assert_eq!(from_text(&Type::INT4, "{{1},{2}}", &|| None), None);
        let decimals = from_text(&Type::NUMERIC, "{1.5,20,NULL}", &|| None).unwrap();
        assert_eq!(decimals.data_type(), DataType::new_list(DataType::Decimal128(3, 1), true));
        bytes.pop();
        assert_eq!(from_binary(&bytes), None);
    }
}
