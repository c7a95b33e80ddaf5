//! UUIDs: sixteen bytes, written as 32 hexadecimal digits.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryBuilder, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::error::{ErrorKind, QueryError};
use crate::functions::call_rows::CallRows;

/// The type of UUIDs, as Parquet files have them.
pub const UUID: DataType = DataType::FixedSizeBinary(16);

/// Conversions between UUIDs and texts, and random UUIDs.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Uuids {
    of: Of,
    signature: Signature,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Of {
    Text,
    Bytes,
    Chance,
}

impl Uuids {
    /// The UUID of a text, for casts.
    pub fn of_text(text: Expr) -> Expr {
        ScalarUDF::from(Self::new(Of::Text)).call(vec![text])
    }

    /// The text of a UUID, for casts.
    pub fn text_of(uuid: Expr) -> Expr {
        ScalarUDF::from(Self::new(Of::Bytes)).call(vec![uuid])
    }

    /// `gen_random_uuid()`.
    pub fn random() -> Self {
        Self::new(Of::Chance)
    }

    fn new(of: Of) -> Self {
        let signature = match of {
            Of::Text | Of::Bytes => Signature::any(1, Volatility::Immutable),
            Of::Chance => Signature::nullary(Volatility::Volatile),
        };
        Self { of, signature }
    }
}

impl ScalarUDFImpl for Uuids {
    fn name(&self) -> &str {
        match self.of {
            Of::Text => "uuid_of_text",
            Of::Bytes => "text_of_uuid",
            Of::Chance => "gen_random_uuid",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.of {
            Of::Text | Of::Chance => UUID,
            Of::Bytes => DataType::Utf8View,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let value = match (self.of, arguments.args.as_slice()) {
            (Of::Chance, []) => return Ok(ColumnarValue::Array(random(arguments.number_rows)?)),
            (_, [value]) => value,
            _ => return plan_err!("`{}` takes one value", self.name()),
        };
        let rows = CallRows::of(&arguments);
        let array = value.to_array(rows.count())?;
        rows.value(match self.of {
            Of::Bytes => uuid_texts(&array)?,
            _ => uuids_of(&array)?,
        })
    }
}

fn random(count: usize) -> Result<ArrayRef> {
    let mut uuids = FixedSizeBinaryBuilder::with_capacity(count, 16);
    for _ in 0..count {
        uuids.append_value(uuid::Uuid::new_v4().as_bytes())?;
    }
    Ok(Arc::new(uuids.finish()))
}

/// The UUIDs of texts.
pub fn uuids_of(texts: &ArrayRef) -> Result<ArrayRef> {
    let texts = cast(texts, &DataType::Utf8View)?;
    let mut uuids = FixedSizeBinaryBuilder::with_capacity(texts.len(), 16);
    for text in texts.as_string_view() {
        match text {
            Some(text) => uuids.append_value(read_uuid(text)?)?,
            None => uuids.append_null(),
        }
    }
    Ok(Arc::new(uuids.finish()))
}

/// The texts of UUIDs, in small letters and with hyphens.
pub fn uuid_texts(uuids: &ArrayRef) -> Result<ArrayRef> {
    let Some(values) = uuids.as_fixed_size_binary_opt().filter(|values| values.value_length() == 16) else {
        return plan_err!("{} is not the type of UUIDs", uuids.data_type());
    };
    let mut texts = StringViewBuilder::with_capacity(values.len());
    for value in values {
        match value.map(uuid::Uuid::from_slice) {
            Some(Ok(uuid)) => texts.append_value(uuid.hyphenated().to_string()),
            _ => texts.append_null(),
        }
    }
    Ok(Arc::new(texts.finish()))
}

/// The bytes of a text: hyphens may stand behind each group of four digits, and braces around all.
///
/// Source: PostgreSQL documentation, "UUID Type".
pub fn read_uuid(text: &str) -> std::result::Result<[u8; 16], QueryError> {
    let invalid = || {
        QueryError::new(ErrorKind::InvalidValue, format!("invalid input for type uuid: `{text}`"))
            .hint("write 32 hexadecimal digits, as in `a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11`")
    };
    let inner = match text.strip_prefix('{') {
        Some(inner) => inner.strip_suffix('}').ok_or_else(invalid)?,
        None => text,
    };
    let mut digits = String::with_capacity(32);
    for letter in inner.chars() {
        match letter {
            '-' if !digits.is_empty() && digits.len().is_multiple_of(4) && digits.len() < 32 => {}
            digit if digit.is_ascii_hexdigit() => digits.push(digit),
            _ => return Err(invalid()),
        }
    }
    let mut bytes = [0; 16];
    hex::decode_to_slice(&digits, &mut bytes).map_err(|_| invalid())?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_uuids_are_read_in_all_their_forms() {
        let expected = "a0eebc999c0b4ef8bb6d6bb9bd380a11";
        for text in [
            expected,
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            "{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}",
            "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
        ] {
            assert_eq!(read_uuid(text).map(hex::encode).ok().as_deref(), Some(expected), "{text}");
        }
        for text in [
            "",
            "a0eebc99",
            "{a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0eebc999c0b4ef8bb6d6bb9bd380a1x",
            "a0e-ebc999c0b4ef8bb6d6bb9bd380a11",
        ] {
            assert!(read_uuid(text).is_err(), "{text}");
        }
    }
}
