//! A regular expression, compiled once for consecutive rows with the same pattern.

use regex::{Captures, Regex, RegexBuilder};

use super::language::{invalid, translated};
use crate::error::{ErrorKind, QueryError, Result};

/// Bytes that a compiled pattern may take.
const MAX_BYTES: usize = 10 << 20;

/// The expression of the last row.
#[derive(Default)]
pub struct Compiled {
    last: Option<(String, String, Regex)>,
}

impl Compiled {
    /// The expression of a pattern with flags.
    pub fn of(&mut self, pattern: &str, flags: &str) -> Result<&Regex> {
        let last = match self.last.take().filter(|(of, with, _)| of == pattern && with == flags) {
            Some(last) => last,
            None => (pattern.to_owned(), flags.to_owned(), compile(pattern, flags)?),
        };
        Ok(&self.last.insert(last).2)
    }
}

/// Whether the flags ask for all matches.
pub fn is_global(flags: &str) -> bool {
    flags.contains('g')
}

/// Source: PostgreSQL documentation, "ARE Embedded-Option Letters".
fn compile(pattern: &str, flags: &str) -> Result<Regex> {
    let (mut by_lines, mut ignores_case, mut is_literal, mut is_spaced) = (false, false, false, false);
    for flag in flags.chars() {
        match flag {
            'n' | 'm' | 'p' => by_lines = true,
            's' => by_lines = false,
            'i' => ignores_case = true,
            'c' => ignores_case = false,
            'q' => is_literal = true,
            'x' => is_spaced = true,
            't' => is_spaced = false,
            'g' | 'e' => {}
            _ => {
                let message = format!("invalid regular expression option: \"{flag}\"");
                return Err(QueryError::new(ErrorKind::InvalidParameter, message)
                    .hint("options are `g`, `i`, `c`, `n`, `s`, `x` and `q`"));
            }
        }
    }
    let pattern = if is_literal { regex::escape(pattern) } else { translated(pattern)? };
    RegexBuilder::new(&pattern)
        .case_insensitive(ignores_case)
        .dot_matches_new_line(!by_lines)
        .multi_line(by_lines)
        .ignore_whitespace(is_spaced)
        .size_limit(MAX_BYTES)
        .build()
        .map_err(|error| {
            let text = error.to_string();
            let what = text.lines().last().unwrap_or(&text).trim_start_matches("error: ").to_owned();
            invalid(&what).hint(
                "regular expressions are those of Rust's crate `regex`: no look-around and no backreferences",
            )
        })
}

/// The byte at which a character begins, counted from 1; none after the end of the text.
pub fn byte_of(text: &str, character: i64) -> Option<usize> {
    let at = usize::try_from(character - 1).ok()?;
    let mut begins = text.char_indices().map(|(byte, _)| byte).chain([text.len()]);
    begins.nth(at)
}

/// The matches from a byte on, one after the other.
pub fn matches<'t>(regex: &'t Regex, text: &'t str, from: usize) -> impl Iterator<Item = Captures<'t>> {
    let mut next = Some(from);
    std::iter::from_fn(move || {
        let captures = regex.captures_at(text, next.filter(|at| *at <= text.len())?)?;
        let whole = captures.get(0)?;
        // An empty match would be found again.
        let step = match whole.is_empty() {
            true => text.get(whole.end()..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8),
            false => 0,
        };
        next = Some(whole.end() + step);
        Some(captures)
    })
}
