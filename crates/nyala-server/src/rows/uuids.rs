//! UUIDs as texts, the form that clients have them in.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryBuilder, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use nyala_engine::{QueryError, UUID, read_uuid};

/// Whether a column of the table has UUIDs, and the column that came has texts.
pub fn are_texts(field: &Field, column: &dyn Array) -> bool {
    *field.data_type() == UUID
        && matches!(column.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// The column as it is decoded, before its texts become UUIDs.
pub fn as_text(field: &FieldRef) -> FieldRef {
    match *field.data_type() == UUID {
        true => Arc::new(Field::new(field.name(), DataType::Utf8, field.is_nullable())),
        false => Arc::clone(field),
    }
}

/// The UUIDs in texts; an error for the first text that is no UUID.
pub fn of_texts(column: &ArrayRef) -> Result<ArrayRef, QueryError> {
    let texts = cast(column, &DataType::Utf8)?;
    let texts: &StringArray = texts.as_string();
    let mut uuids = FixedSizeBinaryBuilder::with_capacity(texts.len(), 16);
    for text in texts {
        match text {
            Some(text) => uuids.append_value(read_uuid(text)?)?,
            None => uuids.append_null(),
        }
    }
    Ok(Arc::new(uuids.finish()))
}
