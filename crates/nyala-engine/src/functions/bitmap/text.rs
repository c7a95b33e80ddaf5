//! Bitmaps as text: `1,2,3`.

use std::fmt::Write;

use super::set::Bitmap;

/// Reads integers with commas between them, and spaces around them; none if there is anything else, as
/// in Doris. An empty text is an empty bitmap.
pub(super) fn parse(text: &str) -> Option<Bitmap> {
    if text.trim().is_empty() {
        return Some(Bitmap::default());
    }
    text.split(',').map(|number| number.trim().parse::<i64>().ok()).collect()
}

/// The values in order, with commas between them.
pub(super) fn format(bitmap: &Bitmap) -> String {
    let mut text = String::new();
    for value in bitmap.iter() {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}{value}");
    }
    text
}
