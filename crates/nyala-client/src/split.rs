//! Cuts a text into statements at the semicolons that end one.
//!
//! It parses only tokens that can hide a semicolon: quotes, escapes in them, dollar quotes and comments. The
//! server's parser reads the rest, so that its errors refer to the user's own text.

/// The statements of a text, trimmed, without their semicolons; empty ones are left out.
pub fn split(text: &str) -> Vec<&str> {
    let mut statements = Vec::new();
    let mut rest = text;
    loop {
        let (statement, after) = match end_of_statement(rest) {
            Some(end) => (rest.get(..end), rest.get(end + 1..)),
            None => (Some(rest), None),
        };
        statements.extend(statement.map(str::trim).filter(|statement| !is_blank(statement)));
        match after {
            Some(after) => rest = after,
            None => return statements,
        }
    }
}

/// Whether a semicolon ends the last statement of the text, so that a prompt can send it.
pub fn is_complete(text: &str) -> bool {
    let mut rest = text;
    while let Some(end) = end_of_statement(rest) {
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    is_blank(rest)
}

/// Whether a text holds nothing but blanks and comments.
fn is_blank(text: &str) -> bool {
    let mut rest = text.trim_start();
    while let Some(length) = comment(rest) {
        rest = rest.get(length..).unwrap_or_default().trim_start();
    }
    rest.is_empty()
}

/// Byte position of the first semicolon that ends a statement.
fn end_of_statement(text: &str) -> Option<usize> {
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        at += match rest.chars().next() {
            Some(';') => return Some(at),
            Some(quote @ ('\'' | '"')) => quoted(rest, quote),
            Some('$') => dollar_quoted(rest).unwrap_or(1),
            Some(first) if first.is_alphabetic() || first == '_' => word(rest),
            Some(first) => comment(rest).unwrap_or(first.len_utf8()),
            None => return None,
        };
    }
    None
}

/// Length of a quoted text. A doubled quote needs no special case: it ends one text and begins the
/// next.
fn quoted(text: &str, quote: char) -> usize {
    let inner = text.get(1..).unwrap_or_default();
    inner.find(quote).map_or(text.len(), |end| end + 2)
}

/// Length of a word. A text with escapes is part of its `E`; a dollar within a word quotes nothing.
fn word(text: &str) -> usize {
    let ends = |c: char| !(c.is_alphanumeric() || c == '_' || c == '$');
    let (word, rest) = text.split_at(text.find(ends).unwrap_or(text.len()));
    let escapes = word.eq_ignore_ascii_case("e") && rest.starts_with('\'');
    if escapes { word.len() + escaped(rest) } else { word.len() }
}

/// Length of a quoted text in which a backslash escapes the next byte.
fn escaped(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        at += match (byte, bytes.get(at + 1)) {
            (b'\\', Some(_)) | (b'\'', Some(b'\'')) => 2,
            (b'\'', _) => return at + 1,
            _ => 1,
        };
    }
    text.len()
}

/// Length of `$tag$ … $tag$`; none if this dollar begins no such text (`$1` does not).
fn dollar_quoted(text: &str) -> Option<usize> {
    let tag_length = text.get(1..)?.find('$')? + 2;
    let tag = text.get(..tag_length)?;
    let name = tag.trim_matches('$');
    let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    if !is_name {
        return None;
    }
    let inner = text.get(tag_length..)?;
    Some(inner.find(tag).map_or(text.len(), |end| tag_length + end + tag_length))
}

/// Length of a comment, nested ones included; none if the text begins with something else.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("--") {
        return Some(text.find('\n').map_or(text.len(), |end| end + 1));
    }
    if !text.starts_with("/*") {
        return None;
    }
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(pair) = bytes.get(at..at + 2) {
        match pair {
            b"/*" => (at, depth) = (at + 2, depth + 1),
            b"*/" => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            return Some(at);
        }
    }
    Some(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semicolons_end_statements_only_where_they_stand_alone() {
        let check = |text: &str, expected: &[&str]| assert_eq!(split(text), expected, "{text}");
        check("", &[]);
        check(" ;; -- nothing\n;", &[]);
        check("SELECT 1", &["SELECT 1"]);
        check("SELECT 1; SELECT 2;", &["SELECT 1", "SELECT 2"]);
        check("SELECT ';', 'it''s;' ; x", &["SELECT ';', 'it''s;'", "x"]);
        check("SELECT \"a;b\"; x", &["SELECT \"a;b\"", "x"]);
        check("a -- b; c\n, d; e", &["a -- b; c\n, d", "e"]);
        check("a /* ; /* ; */ ; */ b; c", &["a /* ; /* ; */ ; */ b", "c"]);
        check("$$ ; $$; $t$ ; $$ ; $t$; x", &["$$ ; $$", "$t$ ; $$ ; $t$", "x"]);
        check("SELECT $1; SELECT $2", &["SELECT $1", "SELECT $2"]);
        check(r"SELECT E'it\'s; '; x", &[r"SELECT E'it\'s; '", "x"]);
        check(r"SELECT e'\\'; x; E'a''\';", &[r"SELECT e'\\'", "x", r"E'a''\';"]);
        check(r"SELECT 'a\'; de'b\'; x", &[r"SELECT 'a\'", r"de'b\'", "x"]);
        check("a$b$; c$b$", &["a$b$", "c$b$"]);
        check("SELECT 'ü;ü'; ü", &["SELECT 'ü;ü'", "ü"]);
        check("SELECT 'open; ", &["SELECT 'open;"]);
        check("a /* open; ", &["a /* open;"]);
    }

    #[test]
    fn a_prompt_goes_on_until_the_semicolon() {
        for text in ["SELECT 1;", "SELECT 1; -- done", "", "SELECT 1; /* x */ ", ";"] {
            assert!(is_complete(text), "{text}");
        }
        for text in ["SELECT 1", "SELECT ';", "SELECT 1; SELECT", "SELECT 1 -- ;", "$$ ;"] {
            assert!(!is_complete(text), "{text}");
        }
    }
}
