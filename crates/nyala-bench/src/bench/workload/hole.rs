//! Finds the holes of a statement: `{{name}}`, or `{{name: values}}`, which declares the parameter in place.

use anyhow::{Context, Result};

/// A statement, cut at its holes.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text that stays as it is.
    Text(String),
    /// Place of the parameter that fills the hole.
    Hole(usize),
}

/// Cuts a statement. `place` gives the place of the parameter that a hole names.
pub fn cut(text: &str, mut place: impl FnMut(&str) -> Result<usize>) -> Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let (hole, after) = after.split_once("}}").context("`{{` without `}}`")?;
        pieces.push(Piece::Text(before.to_owned()));
        pieces.push(Piece::Hole(place(hole.trim())?));
        rest = after;
    }
    pieces.push(Piece::Text(rest.to_owned()));
    Ok(pieces)
}
