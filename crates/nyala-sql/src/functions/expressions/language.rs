//! PostgreSQL's regular expressions, written for the crate `regex`.

use std::iter::Peekable;
use std::str::Chars;

use crate::error::{ErrorKind, QueryError, Result};

/// The most times that a part may be repeated by `{n}`.
const MAX_REPETITIONS: u32 = 255;
/// Source: PostgreSQL documentation, "Bracket Expressions".
const CLASSES: &[&str] = &[
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

/// The pattern for the crate `regex`. Parts that both languages write alike stay as they are, so that a pattern may be translated twice.
pub fn translated(pattern: &str) -> Result<String> {
    if let Some(literal) = pattern.strip_prefix("***=") {
        return Ok(regex::escape(literal));
    }
    let pattern = pattern.strip_prefix("***:").unwrap_or(pattern);
    let mut written = String::with_capacity(pattern.len());
    let mut signs = pattern.chars().peekable();
    let mut has_point = false;
    while let Some(sign) = signs.next() {
        match sign {
            '\\' => escape(&mut signs, &mut written)?,
            '[' => brackets(&mut signs, &mut written)?,
            '{' if signs.peek().is_some_and(char::is_ascii_digit) => repeated(&mut signs, &mut written)?,
            '{' => written.push_str(r"\{"),
            _ => {
                has_point |= sign == '.';
                written.push(sign);
            }
        }
    }
    // In PostgreSQL `.` matches every character, also a newline.
    Ok(if has_point && !written.starts_with("(?") { format!("(?s){written}") } else { written })
}

/// An error in a pattern.
pub fn invalid(what: &str) -> QueryError {
    QueryError::new(ErrorKind::Data, format!("invalid regular expression: {what}")).sqlstate("2201B")
}

/// Translates an escape, behind its backslash.
fn escape(signs: &mut Peekable<Chars<'_>>, written: &mut String) -> Result<()> {
    match signs.next() {
        None => return Err(invalid("invalid escape \\ sequence")),
        Some('y') => written.push_str(r"\b"),
        Some('Y') => written.push_str(r"\B"),
        Some('m') => written.push_str(r"\b{start}"),
        Some('M') => written.push_str(r"\b{end}"),
        Some('Z') => written.push_str(r"\z"),
        Some('e') => written.push_str(r"\x1B"),
        Some(sign @ ('b' | 'x' | 'u' | 'p' | 'P')) => {
            written.extend(['\\', sign]);
            // These escapes may have braces of their own.
            if signs.peek() == Some(&'{') {
                written.extend(signs.by_ref().take_while(|sign| *sign != '}'));
                written.push('}');
            }
        }
        Some(sign @ '1'..='9') => {
            return Err(invalid(&format!("the backreference \\{sign} is not supported"))
                .hint("match a part of the text, and compare that by itself"));
        }
        Some(sign) => written.extend(['\\', sign]),
    }
    Ok(())
}

/// Translates the characters in brackets, more of which are special in `regex`.
fn brackets(signs: &mut Peekable<Chars<'_>>, written: &mut String) -> Result<()> {
    for (boundary, other) in [("[:<:]]", r"\b{start}"), ("[:>:]]", r"\b{end}")] {
        if signs.clone().take(boundary.len()).eq(boundary.chars()) {
            signs.nth(boundary.len() - 1);
            written.push_str(other);
            return Ok(());
        }
    }
    written.push('[');
    if signs.next_if_eq(&'^').is_some() {
        written.push('^');
    }
    if signs.next_if_eq(&']').is_some() {
        written.push_str(r"\]");
    }
    while let Some(sign) = signs.next() {
        match sign {
            ']' => {
                written.push(']');
                return Ok(());
            }
            '[' if signs.next_if_eq(&':').is_some() => class(signs, written)?,
            '[' | '&' | '~' => written.extend(['\\', sign]),
            '\\' => {
                written.push('\\');
                written.extend(signs.next());
            }
            _ => written.push(sign),
        }
    }
    Err(invalid("brackets [] not balanced"))
}

/// Translates a class of characters, behind `[:`.
fn class(signs: &mut Peekable<Chars<'_>>, written: &mut String) -> Result<()> {
    let name: String = signs.by_ref().take_while(|sign| *sign != ':').collect();
    let bare = name.strip_prefix('^').unwrap_or(&name);
    if !CLASSES.contains(&bare) || signs.next_if_eq(&']').is_none() {
        return Err(invalid("invalid character class"));
    }
    written.push_str(&format!("[:{name}:]"));
    Ok(())
}

/// Translates a count of repetitions, behind `{`.
fn repeated(signs: &mut Peekable<Chars<'_>>, written: &mut String) -> Result<()> {
    let counts: String = signs.by_ref().take_while(|sign| *sign != '}').collect();
    let is_count = |count: &str| {
        count.is_empty() || count.trim().parse::<u32>().is_ok_and(|count| count <= MAX_REPETITIONS)
    };
    if !counts.split(',').all(is_count) {
        return Err(invalid("invalid repetition count(s)"));
    }
    written.push_str(&format!("{{{counts}}}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_written_in_the_other_language() {
        let check = |pattern: &str, expected: &str| {
            let written = translated(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert_eq!(written, expected, "{pattern}");
            assert_eq!(translated(&written).ok().as_deref(), Some(expected), "{pattern} again");
        };
        check("^abc$", "^abc$");
        check("a.c", "(?s)a.c");
        check(r"\ybar\y", r"\bbar\b");
        check(r"\mbar\M", r"\b{start}bar\b{end}");
        check("[[:<:]]a[[:>:]]", r"\b{start}a\b{end}");
        check("[]a[b&&c]", r"[\]a\[b\&\&c]");
        check("[[:alpha:]_]{2,3}", "[[:alpha:]_]{2,3}");
        check("a{b", r"a\{b");
        for pattern in ["[[:nope:]]", "a{99999}", r"(a)\1", "[ab", "\\"] {
            assert!(translated(pattern).is_err(), "{pattern}");
        }
    }
}
