//! Bitmaps as text: `1,2,3`.

use std::fmt::Write;

use datafusion::common::Result;

use super::set::Bitmap;
use crate::error::{ErrorKind, QueryError};

/// Reads integers with commas between them, and spaces around them; none if there is anything else, as
/// in Doris. An empty text is an empty bitmap.
pub fn parse(text: &str) -> Option<Bitmap> {
    if text.trim().is_empty() {
        return Some(Bitmap::default());
    }
    text.split(',').map(|number| number.trim().parse::<i64>().ok()).collect()
}

/// Most values of a text. A bitmap of many millions takes a few bytes, and its text gigabytes.
const MAX_VALUES: u64 = 10_000_000;

/// The values in order, with commas between them.
pub fn format(bitmap: &Bitmap) -> Result<String> {
    let count = bitmap.len();
    if count > MAX_VALUES {
        let message = format!("a bitmap of {count} values is too long for a text of at most {MAX_VALUES}");
        return Err(QueryError::new(ErrorKind::LimitExceeded, message)
            .hint("count them with `bitmap_count`, or choose some with `bitmap_and`")
            .into());
    }
    let mut text = String::new();
    for value in bitmap.iter() {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}{value}");
    }
    Ok(text)
}
