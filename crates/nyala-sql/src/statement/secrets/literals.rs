//! Finds the literals, quoted names and comments of a text by PostgreSQL's rules; the text need not be SQL.

use std::ops::Range;

/// Kind of a part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `'…'`, also behind `E` or `U&`, and `$tag$…$tag$`.
    Literal,
    /// `"…"`, and `` `…` `` of other dialects.
    Name,
    /// `-- …` and `/* … */`.
    Comment,
    /// Everything else.
    Other,
}

/// A part of a text. The parts in sequence make up the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub kind: Kind,
    pub range: Range<usize>,
    /// Whether the part is closed.
    pub whole: bool,
}

/// The parts of a text.
pub fn parts(sql: &str) -> Vec<Part> {
    let bytes = sql.as_bytes();
    let mut parts = Vec::new();
    let (mut at, mut other) = (0, 0);
    while at < bytes.len() {
        let Some((kind, length)) = special(bytes, at) else {
            at += 1;
            continue;
        };
        if other < at {
            parts.push(Part { kind: Kind::Other, range: other..at, whole: true });
        }
        let end = length.map_or(bytes.len(), |length| (at + length).min(bytes.len()));
        parts.push(Part { kind, range: at..end, whole: length.is_some() });
        (at, other) = (end, end);
    }
    if other < bytes.len() {
        parts.push(Part { kind: Kind::Other, range: other..bytes.len(), whole: true });
    }
    parts
}

/// Kind and length of the special part that begins here; no length if it is not closed.
fn special(bytes: &[u8], at: usize) -> Option<(Kind, Option<usize>)> {
    let rest = bytes.get(at..)?;
    match rest {
        [b'\'', ..] => Some((Kind::Literal, quoted(rest, b'\'', is_escaped(bytes, at)))),
        [quote @ (b'"' | b'`'), ..] => Some((Kind::Name, quoted(rest, *quote, false))),
        [b'-', b'-', ..] => {
            let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            Some((Kind::Comment, Some(end)))
        }
        [b'/', b'*', ..] => Some((Kind::Comment, comment(rest))),
        [b'$', ..] if !at.checked_sub(1).and_then(|before| bytes.get(before)).is_some_and(is_of_word) => {
            let tag = tag(rest)?;
            let end = rest.get(tag.len()..)?.windows(tag.len()).position(|window| window == tag);
            Some((Kind::Literal, end.map(|end| end + 2 * tag.len())))
        }
        _ => None,
    }
}

fn is_of_word(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii()
}

/// Whether a backslash escapes the next character in the literal that begins here.
fn is_escaped(bytes: &[u8], at: usize) -> bool {
    let before = bytes.get(..at).unwrap_or_default();
    match before {
        [.., word, b'E' | b'e'] => !is_of_word(word),
        [b'E' | b'e'] => true,
        _ => false,
    }
}

/// Length of a quoted text with doubled quotes within.
fn quoted(rest: &[u8], quote: u8, escaped: bool) -> Option<usize> {
    let mut at = 1;
    loop {
        let byte = *rest.get(at)?;
        let doubled = byte == quote && rest.get(at + 1) == Some(&quote);
        match byte {
            b'\\' if escaped => at += 2,
            _ if doubled => at += 2,
            _ if byte == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// Length of a comment, which may have others within.
fn comment(rest: &[u8]) -> Option<usize> {
    let (mut at, mut depth) = (0, 0_usize);
    loop {
        match rest.get(at..)? {
            [b'/', b'*', ..] => (at, depth) = (at + 2, depth + 1),
            [b'*', b'/', ..] => (at, depth) = (at + 2, depth - 1),
            [_, ..] => at += 1,
            [] => return None,
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

/// `$$` or `$tag$` at the beginning.
fn tag(rest: &[u8]) -> Option<&[u8]> {
    let name = rest.get(1..)?;
    let end = name.iter().position(|byte| !is_of_word(byte))?;
    let begins_well = name.first().is_some_and(|byte| !byte.is_ascii_digit());
    (name.get(end) == Some(&b'$') && begins_well).then(|| rest.get(..end + 2))?
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    fn check(sql: &str, kind: Kind, expected: &[&str]) {
        let parts = parts(sql);
        let whole: String = parts.iter().map(|part| &sql[part.range.clone()]).collect();
        assert_eq!(whole, sql, "the parts are the text");
        let found: Vec<&str> =
            parts.iter().filter(|part| part.kind == kind).map(|part| &sql[part.range.clone()]).collect();
        assert_eq!(found, expected, "{sql}");
    }

    #[test]
    fn literals_are_found_in_every_form() {
        check("'a' || 'b''c' || ''", Kind::Literal, &["'a'", "'b''c'", "''"]);
        check("E'a\\'b' || 'c\\' || e'd\\\\'", Kind::Literal, &["'a\\'b'", "'c\\'", "'d\\\\'"]);
        check("line'a\\' b'", Kind::Literal, &["'a\\'", "'"]);
        check("$$a'b$$ || $x1$ $$ $x1$ || $1 || a$b$c", Kind::Literal, &["$$a'b$$", "$x1$ $$ $x1$"]);
        check("-- 'a'\n/* 'b' /* 'c' */ 'd' */ 'é' \"'f'\" `'g'`", Kind::Literal, &["'é'"]);
        check("$1$a$1$", Kind::Literal, &[]);
    }

    #[test]
    fn names_and_comments_are_no_literals() {
        check("\"a\"\"b'\" 'c' `d`", Kind::Name, &["\"a\"\"b'\"", "`d`"]);
        check("a - -b -- c\n/* d */ '--e'", Kind::Comment, &["-- c", "/* d */"]);
    }

    #[test]
    fn what_has_no_end_reaches_to_the_last_byte() {
        for (sql, begin) in
            [("a 'b", 2), ("'a' E'b\\'", 5), ("$x$ b $y$", 0), ("a /* b /* c */", 2), ("\"a", 0), ("E'\\", 1)]
        {
            let part = parts(sql).pop().unwrap();
            assert_eq!((part.range, part.whole), (begin..sql.len(), false), "{sql}");
        }
    }
}
