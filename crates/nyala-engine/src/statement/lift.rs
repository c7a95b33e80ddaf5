//! The shape of a text: the values that a query compares with are taken out of it.
//!
//! ```text
//! … WHERE d_year = 1993 AND s_city IN ('LIMA', 'CUSCO') LIMIT 10
//! … WHERE d_year = $1   AND s_city IN ($2, $3)          LIMIT 10      1993, 'LIMA', 'CUSCO'
//! ```
//!
//! A dashboard asks the same shapes again and again, and the shape is a statement itself, with parameters.
//! Only literals on the right of a comparison are taken: others may decide names and types of columns. The
//! text is walked once over its bytes; what this little scanner is not certain of stays as it is.

use std::ops::Range;

/// More values than this are not taken out: the shape of such a text hardly comes again.
const MOST_VALUES: usize = 64;

/// A text in two parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lifted {
    /// The text, with `$1`, `$2`, … where values were.
    pub(crate) shape: String,
    /// The values, `$1` first.
    pub(crate) values: Vec<Literal>,
}

/// A literal as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Literal {
    /// Digits, perhaps with a sign.
    Integer(String),
    /// Digits with a point.
    Decimal(String),
    /// The text within quotes.
    Text(String),
    /// The text of `DATE '…'`.
    Date(String),
}

/// Takes the values out of a query. None if `sql` is not certainly one query whose values may be taken out, or
/// if there are none.
pub(crate) fn lift(sql: &str) -> Option<Lifted> {
    let tokens = scan(sql)?;
    let first = tokens.first()?;
    if !["SELECT", "WITH"].iter().any(|word| first.is_word(sql, word)) {
        return None;
    }
    let mut lifted = Lifted { shape: String::with_capacity(sql.len()), values: Vec::new() };
    let mut copied = 0;
    for (literal, at) in comparands(sql, &tokens) {
        lifted.shape.push_str(sql.get(copied..at.start)?);
        lifted.values.push(literal);
        lifted.shape.push_str(&format!("${}", lifted.values.len()));
        copied = at.end;
    }
    lifted.shape.push_str(sql.get(copied..)?);
    (1..=MOST_VALUES).contains(&lifted.values.len()).then_some(lifted)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Word,
    Integer,
    Decimal,
    Text,
    Symbol,
}

#[derive(Debug, Clone)]
struct Token {
    kind: Kind,
    at: Range<usize>,
}

impl Token {
    fn text<'a>(&self, sql: &'a str) -> &'a str {
        sql.get(self.at.clone()).unwrap_or_default()
    }

    fn is_word(&self, sql: &str, word: &str) -> bool {
        self.kind == Kind::Word && self.text(sql).eq_ignore_ascii_case(word)
    }

    fn is_symbol(&self, sql: &str, symbol: &str) -> bool {
        self.kind == Kind::Symbol && self.text(sql) == symbol
    }
}

/// The tokens of a text; none if it holds something whose extent depends on more than a look at it: comments,
/// parameters, prefixed strings, several statements.
fn scan(sql: &str) -> Option<Vec<Token>> {
    let bytes = sql.as_bytes();
    let mut tokens = Vec::with_capacity(sql.len() / 4);
    let mut start = 0;
    while let Some(byte) = bytes.get(start) {
        let rest = bytes.get(start..)?;
        let (kind, length) = match byte {
            b' ' | b'\t' | b'\n' | b'\r' => {
                start += 1;
                continue;
            }
            b';' if sql.get(start + 1..)?.trim().is_empty() => break,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let length = length_of(rest, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
                if matches!(rest.get(length), Some(b'\'' | b'"' | b'$' | 128..)) {
                    return None;
                }
                (Kind::Word, length)
            }
            b'0'..=b'9' => number(rest)?,
            b'\'' => (Kind::Text, quoted(rest, b'\'')?),
            b'"' => (Kind::Word, quoted(rest, b'"')?),
            b'-' if rest.starts_with(b"--") => return None,
            b'/' if rest.starts_with(b"/*") => return None,
            b'<' | b'>' | b'=' | b'!' | b'~' | b'|' | b'&' | b'@' | b'#' | b'?' | b'^' | b':' | b'*'
            | b'/' | b'%' => (Kind::Symbol, length_of(rest, |byte| b"<>=!~|&@#?^:*/%".contains(&byte))),
            b'(' | b')' | b',' | b'.' | b'+' | b'-' | b'[' | b']' => (Kind::Symbol, 1),
            _ => return None,
        };
        tokens.push(Token { kind, at: start..start + length });
        start += length;
    }
    Some(tokens)
}

fn length_of(bytes: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|byte| !belongs(*byte)).unwrap_or(bytes.len())
}

fn number(bytes: &[u8]) -> Option<(Kind, usize)> {
    let whole = length_of(bytes, |byte| byte.is_ascii_digit());
    let (kind, length) = match bytes.get(whole) {
        Some(b'.') => {
            let fraction = length_of(bytes.get(whole + 1..)?, |byte| byte.is_ascii_digit());
            if fraction == 0 {
                return None;
            }
            (Kind::Decimal, whole + 1 + fraction)
        }
        _ => (Kind::Integer, whole),
    };
    match bytes.get(length) {
        Some(byte) if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$' | 128..) => None,
        _ => Some((kind, length)),
    }
}

/// Length of what stands in quotes, with them; a quote within is written twice.
fn quoted(bytes: &[u8], quote: u8) -> Option<usize> {
    let mut end = 1;
    loop {
        end += bytes.get(end..)?.iter().position(|byte| *byte == quote)? + 1;
        match bytes.get(end) {
            Some(next) if *next == quote => end += 1,
            // Strings side by side, on two lines, are one.
            Some(_) | None => return Some(end),
        }
    }
}

/// Literals that something is compared with, and where they stand.
fn comparands(sql: &str, tokens: &[Token]) -> Vec<(Literal, Range<usize>)> {
    let mut found = Vec::new();
    let mut at = 0;
    let mut between = false;
    while let Some(token) = tokens.get(at) {
        at += 1;
        let compares = token.kind == Kind::Symbol && is_comparison(token.text(sql))
            || ["LIKE", "ILIKE"].iter().any(|word| token.is_word(sql, word))
            || between && token.is_word(sql, "AND");
        let opens_between = token.is_word(sql, "BETWEEN");
        if token.is_word(sql, "AND") {
            between = false;
        }
        if compares || opens_between {
            if let Some((literal, next)) = literal(sql, tokens, at, opens_between) {
                found.push((literal, span(tokens, at, next)));
                at = next;
                between = opens_between;
            }
        } else if token.is_word(sql, "IN") {
            at = members(sql, tokens, at, &mut found);
        }
    }
    found
}

fn is_comparison(symbol: &str) -> bool {
    matches!(symbol, "=" | "<>" | "!=" | "<" | ">" | "<=" | ">=")
}

/// The members of `IN (…)` if all are literals; gives where to go on.
fn members(sql: &str, tokens: &[Token], at: usize, found: &mut Vec<(Literal, Range<usize>)>) -> usize {
    let is = |at: usize, symbol: &str| tokens.get(at).is_some_and(|token| token.is_symbol(sql, symbol));
    if !is(at, "(") {
        return at;
    }
    let mut listed = Vec::new();
    let mut next = at;
    loop {
        let start = next + 1;
        let Some((literal, end)) = literal(sql, tokens, start, false) else { return at };
        listed.push((literal, span(tokens, start, end)));
        next = end;
        if is(next, ")") {
            found.append(&mut listed);
            return next;
        }
        if !is(next, ",") {
            return at;
        }
    }
}

fn span(tokens: &[Token], from: usize, to: usize) -> Range<usize> {
    let start = tokens.get(from).map_or(0, |token| token.at.start);
    let end = to.checked_sub(1).and_then(|last| tokens.get(last)).map_or(start, |token| token.at.end);
    start..end
}

/// The literal at `at` and where it ends, if it is a whole operand.
fn literal(sql: &str, tokens: &[Token], at: usize, first_of_two: bool) -> Option<(Literal, usize)> {
    let token = tokens.get(at)?;
    let text = token.text(sql);
    let (literal, next) = match token.kind {
        Kind::Integer => (Literal::Integer(text.to_owned()), at + 1),
        Kind::Decimal => (Literal::Decimal(text.to_owned()), at + 1),
        Kind::Text => (Literal::Text(unquoted(text)), at + 1),
        Kind::Symbol if text == "-" => {
            let number = tokens.get(at + 1)?;
            let digits = format!("-{}", number.text(sql));
            let literal = match number.kind {
                Kind::Integer => Literal::Integer(digits),
                Kind::Decimal => Literal::Decimal(digits),
                _ => return None,
            };
            (literal, at + 2)
        }
        Kind::Word if token.is_word(sql, "DATE") => {
            let date = tokens.get(at + 1).filter(|token| token.kind == Kind::Text)?;
            (Literal::Date(unquoted(date.text(sql))), at + 2)
        }
        _ => return None,
    };
    let ends = match tokens.get(next) {
        None => true,
        Some(after) if first_of_two => after.is_word(sql, "AND"),
        Some(after) => ends_operand(sql, after),
    };
    ends.then_some((literal, next))
}

fn ends_operand(sql: &str, token: &Token) -> bool {
    const WORDS: [&str; 14] = [
        "AND",
        "OR",
        "GROUP",
        "ORDER",
        "HAVING",
        "LIMIT",
        "UNION",
        "EXCEPT",
        "INTERSECT",
        "WINDOW",
        "WHERE",
        "OFFSET",
        "FETCH",
        "THEN",
    ];
    token.is_symbol(sql, ")")
        || token.is_symbol(sql, ",")
        || WORDS.iter().any(|word| token.is_word(sql, word))
}

fn unquoted(text: &str) -> String {
    let inner = text.get(1..text.len().saturating_sub(1)).unwrap_or_default();
    inner.replace("''", "'")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn check(sql: &str, shape: &str, values: &[&str]) {
        let lifted = lift(sql).unwrap();
        assert_eq!(lifted.shape, shape);
        let shown: Vec<String> = lifted.values.iter().map(|value| format!("{value:?}")).collect();
        assert_eq!(shown, values, "{sql}");
    }

    #[test]
    fn what_is_compared_with_is_taken_out() {
        check("SELECT a FROM t WHERE b = 1993", "SELECT a FROM t WHERE b = $1", &["Integer(\"1993\")"]);
        check(
            "select a from t where b between 1 and 3 and c<-2.5 order by 1 limit 7;",
            "select a from t where b between $1 and $2 and c<$3 order by 1 limit 7;",
            &["Integer(\"1\")", "Integer(\"3\")", "Decimal(\"-2.5\")"],
        );
        check(
            "WITH x AS (SELECT 1) SELECT a FROM t WHERE b IN ('it''s', 'b') AND d >= DATE '1994-01-01'",
            "WITH x AS (SELECT 1) SELECT a FROM t WHERE b IN ($1, $2) AND d >= $3",
            &["Text(\"it's\")", "Text(\"b\")", "Date(\"1994-01-01\")"],
        );
        check(
            "SELECT \"=\" FROM t WHERE (a LIKE 'x%') GROUP BY a HAVING sum(b) > 10",
            "SELECT \"=\" FROM t WHERE (a LIKE $1) GROUP BY a HAVING sum(b) > $2",
            &["Text(\"x%\")", "Integer(\"10\")"],
        );
    }

    #[test]
    fn parts_of_larger_operands_stay() {
        for sql in [
            "SELECT 1",
            "SELECT a FROM t LIMIT 5",
            "SELECT a FROM t WHERE b = 1 + c",
            "SELECT a FROM t WHERE b = '1'::int",
            "SELECT a FROM t WHERE b IN (1, c)",
            "SELECT a FROM t WHERE b BETWEEN 1 + 1 AND c",
            "SELECT a FROM t WHERE b = 'x' 'y'",
            "SELECT a FROM t WHERE b LIKE 'x' ESCAPE 'y'",
            "SELECT f(a => 1)",
            "SELECT a FROM t WHERE 1 - b",
        ] {
            assert_eq!(lift(sql), None, "{sql}");
        }
        check(
            "SELECT a FROM t WHERE b BETWEEN 1 AND c AND d = 2",
            "SELECT a FROM t WHERE b BETWEEN $1 AND c AND d = $2",
            &["Integer(\"1\")", "Integer(\"2\")"],
        );
    }

    #[test]
    fn texts_that_need_a_parser_are_left_alone() {
        for sql in [
            "SELECT a FROM t WHERE b = 1 -- c = 2",
            "SELECT a FROM t WHERE b = 1 /* c = 2 */",
            "SELECT a FROM t WHERE b = $1 AND c = 2",
            "SELECT a FROM t WHERE b = E'\\n' AND c = 2",
            "SELECT a FROM t WHERE b = $$x$$ AND c = 2",
            "SELECT a FROM t WHERE b = 1; SELECT 2",
            "SELECT a FROM t WHERE b = 1e5",
            "SELECT a FROM t WHERE b = 'open",
            "SET x = 1",
            "EXPLAIN SELECT a FROM t WHERE b = 1",
            "",
            "é = 1",
        ] {
            assert_eq!(lift(sql), None, "{sql}");
        }
        let many: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        assert_eq!(lift(&format!("SELECT a FROM t WHERE b IN ({})", many.join(","))), None);
    }
}
