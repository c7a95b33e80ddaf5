//! A position in a text that is read by a pattern.

use super::error::PatternError;
use super::literals::{is_separator, is_space};
use super::tokens::Field;

const FIXED_WIDTH_HINT: &str = "If your source string is not fixed-width, try using the \"FM\" modifier.";

/// Walks over a text. The position is always between two characters.
#[derive(Debug)]
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(super) fn is_done(&self) -> bool {
        self.at >= self.text.len()
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The byte before the position.
    pub(super) fn previous(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at.checked_sub(1)?).copied()
    }

    /// Passes one character, if one is left.
    pub(super) fn advance(&mut self) {
        self.at += self.rest().chars().next().map_or(0, char::len_utf8);
    }

    /// Passes white space, and tells how much.
    pub(super) fn skip_spaces(&mut self) -> usize {
        let spaces = self.rest().bytes().take_while(|byte| is_space(*byte)).count();
        self.at += spaces;
        spaces
    }

    /// Passes one space or one character of punctuation, and tells whether there was one.
    pub(super) fn skip_separator(&mut self) -> bool {
        let found = self.peek().is_some_and(|byte| is_space(byte) || is_separator(byte));
        self.at += usize::from(found);
        found
    }

    /// Reads the first word that the text goes on with, in any case. Gives its place in `words`.
    pub(super) fn read_word(&mut self, words: &[&str], field: &Field) -> Result<usize, PatternError> {
        let rest = self.rest().as_bytes();
        let fits = |word: &&str| {
            rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
        };
        let found = words.iter().enumerate().find(|(_, word)| fits(word));
        let Some((place, word)) = found else { return Err(self.unknown_word(field)) };
        self.at += word.len();
        Ok(place)
    }

    /// Reads an integer, and tells how many bytes it took, leading spaces included.
    ///
    /// A loose field takes all the digits there are; another takes `width` characters, all of them of the number.
    pub(super) fn read_integer(
        &mut self,
        field: &Field,
        width: usize,
        is_loose: bool,
    ) -> Result<(i32, usize), PatternError> {
        let start = self.at;
        self.skip_spaces();
        let rest = self.rest();
        let (value, used) =
            if is_loose { integer(rest.as_bytes()) } else { fixed_integer(rest, field, width)? };
        self.at += used;
        // A field of a fixed width that passed spaces and found no digits is 0.
        if self.at == start || (is_loose && used == 0) {
            let detail = "Value must be an integer.";
            return Err(invalid_value(shorten(rest, width), field).detail(detail));
        }
        let value = i32::try_from(value).map_err(|_| integer_overflow(field))?;
        Ok((value, self.at - start))
    }

    /// Reads `millennia,years` as C's `scanf("%d,%03d")` does. The sum wraps as PostgreSQL's does.
    pub(super) fn read_comma_year(&mut self) -> Option<i32> {
        let rest = self.rest().as_bytes();
        let (millennia, used) = Some(integer(rest)).filter(|(_, used)| *used > 0)?;
        let after = rest.get(used..)?.strip_prefix(b",")?;
        let spaces = after.iter().take_while(|byte| is_space(**byte)).count();
        let after = after.get(spaces..)?;
        let (years, digits) = Some(integer(after.get(..3).unwrap_or(after))).filter(|(_, used)| *used > 0)?;
        self.at += used + 1 + spaces + digits;
        Some((years as i32).wrapping_add((millennia as i32).wrapping_mul(1000)))
    }

    fn unknown_word(&self, field: &Field) -> PatternError {
        let word = self.rest().split([' ', '\t', '\n', '\r', '\x0c']).next().unwrap_or_default();
        invalid_value(word, field)
            .detail("The given value did not match any of the allowed values for this field.")
    }
}

/// The integer a text starts with and its length, as C's `strtol` reads it. Length 0 means none.
fn integer(text: &[u8]) -> (i64, usize) {
    let spaces = text.iter().take_while(|byte| is_space(**byte)).count();
    let after = text.get(spaces..).unwrap_or_default();
    let sign = usize::from(matches!(after.first(), Some(b'+' | b'-')));
    let digits = after.get(sign..).unwrap_or_default().iter().take_while(|byte| byte.is_ascii_digit());
    let mut value = 0_i64;
    let mut count = 0;
    for digit in digits {
        value = value.saturating_mul(10).saturating_add(i64::from(digit - b'0'));
        count += 1;
    }
    if count == 0 {
        return (0, 0);
    }
    (if after.first() == Some(&b'-') { -value } else { value }, spaces + sign + count)
}

fn fixed_integer(rest: &str, field: &Field, width: usize) -> Result<(i64, usize), PatternError> {
    let Some(window) = rest.as_bytes().get(..width) else {
        let message = format!("source string too short for \"{}\" formatting field", field.name);
        let detail = format!("Field requires {width} characters, but only {} remain.", rest.len());
        return Err(PatternError::format(message).detail(detail).hint(FIXED_WIDTH_HINT));
    };
    let (value, used) = integer(window);
    if used > 0 && used < width {
        let detail = format!("Field requires {width} characters, but only {used} could be parsed.");
        return Err(invalid_value(shorten(rest, width), field).detail(detail).hint(FIXED_WIDTH_HINT));
    }
    Ok((value, used))
}

fn integer_overflow(field: &Field) -> PatternError {
    PatternError::overflow(format!("value for \"{}\" in source string is out of range", field.name))
        .detail("Value must be in the range -2147483648 to 2147483647.")
}

fn invalid_value(value: &str, field: &Field) -> PatternError {
    PatternError::format(format!("invalid value \"{value}\" for \"{}\"", field.name))
}

/// The start of a text, at most `width` bytes and no part of a character.
fn shorten(text: &str, width: usize) -> &str {
    text.get(..text.floor_char_boundary(width)).unwrap_or_default()
}
