//! Texts that stand for bytes, as PostgreSQL's clients write them: `\x` and hexadecimal digits.

use crate::error::{ErrorKind, QueryError};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;

/// PostgreSQL's prefix of hexadecimal bytes.
const HEX: &str = r"\x";

/// The bytes that `value` stands for, if it is a text that begins with `\x` and `data_type` is one of bytes.
pub fn bytes_of_text(
    value: &ScalarValue,
    data_type: &DataType,
) -> Option<std::result::Result<ScalarValue, QueryError>> {
    let bytes: fn(Option<Vec<u8>>) -> ScalarValue = match data_type {
        DataType::Binary => ScalarValue::Binary,
        DataType::LargeBinary => ScalarValue::LargeBinary,
        DataType::BinaryView => ScalarValue::BinaryView,
        _ => return None,
    };
    let digits = value.try_as_str().flatten()?.strip_prefix(HEX)?;
    Some(hex::decode(digits).map(|decoded| bytes(Some(decoded))).map_err(|error| {
        let message = format!("`{HEX}{digits}` does not stand for bytes: {error}");
        QueryError::new(ErrorKind::Data, message)
            .hint(r"write two hexadecimal digits for each byte, as in '\x00ff'")
    }))
}
