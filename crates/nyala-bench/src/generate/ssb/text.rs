//! Columns and words the tables share.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::random::Random;

/// A column of whole numbers, never null.
pub fn number(name: &str) -> Field {
    Field::new(name, DataType::Int32, false)
}

/// A column of text, never null.
pub fn text(name: &str) -> Field {
    Field::new(name, DataType::Utf8, false)
}

/// A schema of these columns.
pub fn schema_of(columns: Vec<Field>) -> SchemaRef {
    Arc::new(Schema::new(columns))
}

/// A text column that takes one value from each row.
pub fn strings<'a, R>(rows: &'a [R], value: impl Fn(&'a R) -> &'a str) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(rows.iter().map(value)))
}

/// Characters of an address, as in TPC-H's variable strings.
const ADDRESS_CHARACTERS: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ, ";

/// An address: 10 to 25 random characters.
pub fn random_address(random: &mut Random) -> String {
    let length = random.between(10, 25);
    let character = |_| {
        let place = random.below(ADDRESS_CHARACTERS.len() as u32) as usize;
        ADDRESS_CHARACTERS.get(place).copied().map_or(' ', char::from)
    };
    (0..length).map(character).collect()
}
