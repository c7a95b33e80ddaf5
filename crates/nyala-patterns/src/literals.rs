//! The parts of a pattern that are no fields: characters to copy, quoted text, and backslashes.

/// One character to copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Literal {
    pub(super) character: char,
    /// Whether the character stood between double quotes: then it is only copied, even if it is a space or a separator.
    pub(super) quoted: bool,
}

/// Takes the literal at the start of a pattern: one character, or one quoted text. Returns the rest of the pattern.
///
/// A backslash outside quotes has a meaning only before a double quote; within quotes it takes the meaning of
/// any character away. A quote that is never closed ends with the pattern.
pub(super) fn take_literal(pattern: &str, mut keep: impl FnMut(Literal)) -> &str {
    if let Some(quoted) = pattern.strip_prefix('"') {
        return take_quoted(quoted, keep);
    }
    let rest = match pattern.strip_prefix('\\') {
        Some(rest) if rest.starts_with('"') => rest,
        _ => pattern,
    };
    let mut characters = rest.chars();
    if let Some(character) = characters.next() {
        keep(Literal { character, quoted: false });
    }
    characters.as_str()
}

fn take_quoted(quoted: &str, mut keep: impl FnMut(Literal)) -> &str {
    let mut characters = quoted.chars();
    while let Some(next) = characters.next() {
        let character = match next {
            '"' => break,
            // A backslash that ends the pattern is itself.
            '\\' => characters.next().unwrap_or('\\'),
            other => other,
        };
        keep(Literal { character, quoted: true });
    }
    characters.as_str()
}

/// Whether C's `isspace` holds: PostgreSQL skips these and no other white space.
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

/// Whether a byte is ASCII punctuation, which separates the fields of a date.
pub(super) fn is_separator(byte: u8) -> bool {
    byte.is_ascii_punctuation()
}
