//! The shape of a text: the values that a query compares with are taken out of it.
//!
//! ```text
//! … WHERE d_year = 1993 AND s_city IN ('LIMA', 'CUSCO') LIMIT 10
//! … WHERE d_year = $1   AND s_city IN ($2, $3)          LIMIT 10      1993, 'LIMA', 'CUSCO'
//! ```
//!
//! A dashboard sends the same shapes again and again, and a shape is a statement itself, with parameters.
//! Only literals on the right of a comparison are taken out: others may decide names and types of columns.
//! The text is walked over once, byte by byte; parts that this simple scanner cannot judge stay as they are.

use std::borrow::Cow;
use std::fmt::Write;
use std::ops::Range;

/// Most values that are taken out: a shape with more of them hardly comes again.
const MAX_VALUES: usize = 64;

/// A text, split into its shape and its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameterised<'a> {
    /// The text, with `$1`, `$2`, … where values were.
    pub shape: String,
    /// The values, `$1` first.
    pub values: Vec<Literal<'a>>,
}

/// A literal as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Literal<'a> {
    /// Digits, perhaps with a sign.
    Integer(Cow<'a, str>),
    /// Digits with a point.
    Decimal(Cow<'a, str>),
    /// The text within quotes.
    Text(Cow<'a, str>),
    /// The text of `DATE '…'`.
    Date(Cow<'a, str>),
}

/// Takes the values out of a query. None unless `sql` is certainly one query with values that may be taken out.
pub fn parameterise(sql: &str) -> Option<Parameterised<'_>> {
    let tokens = scan(sql)?;
    tokens.first().filter(|first| first.kind == Kind::Query)?;
    let mut parameterised = Parameterised { shape: String::with_capacity(sql.len()), values: Vec::new() };
    let mut copied = 0;
    for (literal, at) in comparands(sql, &tokens) {
        parameterised.shape.push_str(sql.get(copied..at.start)?);
        parameterised.values.push(literal);
        write!(parameterised.shape, "${}", parameterised.values.len()).ok()?;
        copied = at.end;
    }
    parameterised.shape.push_str(sql.get(copied..)?);
    (1..=MAX_VALUES).contains(&parameterised.values.len()).then_some(parameterised)
}

/// The kind of a token, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `SELECT` and `WITH`, with which queries begin.
    Query,
    And,
    In,
    Between,
    Like,
    Date,
    /// A word that follows a complete operand, besides `AND`.
    Clause,
    /// Any other word, and names in quotes.
    Word,
    Integer,
    Decimal,
    Text,
    Comparison,
    Opening,
    Closing,
    Comma,
    Minus,
    /// Any other symbol.
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
}

/// The tokens of a text; none if it has a part whose end is not simple to find: comments, parameters, prefixed strings, several statements.
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
                (word(rest.get(..length)?), length)
            }
            b'0'..=b'9' => number(rest)?,
            b'\'' => (Kind::Text, quoted(rest, b'\'')?),
            b'"' => (Kind::Word, quoted(rest, b'"')?),
            b'-' if rest.starts_with(b"--") => return None,
            b'/' if rest.starts_with(b"/*") => return None,
            b'<' | b'>' | b'=' | b'!' | b'~' | b'|' | b'&' | b'@' | b'#' | b'?' | b'^' | b':' | b'*'
            | b'/' | b'%' => {
                let length = length_of(rest, |byte| b"<>=!~|&@#?^:*/%".contains(&byte));
                (symbol(rest.get(..length)?), length)
            }
            b'(' => (Kind::Opening, 1),
            b')' => (Kind::Closing, 1),
            b',' => (Kind::Comma, 1),
            b'-' => (Kind::Minus, 1),
            b'.' | b'+' | b'[' | b']' => (Kind::Symbol, 1),
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

/// The kind of a word. Its length and first letter leave one keyword that it may be.
fn word(text: &[u8]) -> Kind {
    let (known, kind): (&[u8], Kind) = match (text.len(), text.first().map(u8::to_ascii_uppercase)) {
        (2, Some(b'I')) => (b"IN", Kind::In),
        (2, Some(b'O')) => (b"OR", Kind::Clause),
        (3, Some(b'A')) => (b"AND", Kind::And),
        (4, Some(b'D')) => (b"DATE", Kind::Date),
        (4, Some(b'L')) => (b"LIKE", Kind::Like),
        (4, Some(b'T')) => (b"THEN", Kind::Clause),
        (4, Some(b'W')) => (b"WITH", Kind::Query),
        (5, Some(b'F')) => (b"FETCH", Kind::Clause),
        (5, Some(b'G')) => (b"GROUP", Kind::Clause),
        (5, Some(b'I')) => (b"ILIKE", Kind::Like),
        (5, Some(b'L')) => (b"LIMIT", Kind::Clause),
        (5, Some(b'O')) => (b"ORDER", Kind::Clause),
        (5, Some(b'U')) => (b"UNION", Kind::Clause),
        (5, Some(b'W')) => (b"WHERE", Kind::Clause),
        (6, Some(b'E')) => (b"EXCEPT", Kind::Clause),
        (6, Some(b'H')) => (b"HAVING", Kind::Clause),
        (6, Some(b'O')) => (b"OFFSET", Kind::Clause),
        (6, Some(b'S')) => (b"SELECT", Kind::Query),
        (6, Some(b'W')) => (b"WINDOW", Kind::Clause),
        (7, Some(b'B')) => (b"BETWEEN", Kind::Between),
        (9, Some(b'I')) => (b"INTERSECT", Kind::Clause),
        _ => return Kind::Word,
    };
    if text.eq_ignore_ascii_case(known) { kind } else { Kind::Word }
}

fn symbol(text: &[u8]) -> Kind {
    match text {
        b"=" | b"<>" | b"!=" | b"<" | b">" | b"<=" | b">=" => Kind::Comparison,
        _ => Kind::Symbol,
    }
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

/// Length of a quoted text, with its quotes; a quote within is written twice.
fn quoted(bytes: &[u8], quote: u8) -> Option<usize> {
    let mut end = 1;
    loop {
        end += bytes.get(end..)?.iter().position(|byte| *byte == quote)? + 1;
        match bytes.get(end) {
            Some(next) if *next == quote => end += 1,
            // Two strings on consecutive lines are one. Neither is taken out, because the first is no complete operand.
            Some(_) | None => return Some(end),
        }
    }
}

/// Literals on the right of comparisons, with their places.
fn comparands<'a>(sql: &'a str, tokens: &[Token]) -> Vec<(Literal<'a>, Range<usize>)> {
    let mut found = Vec::new();
    let mut at = 0;
    // Whether the next AND belongs to a BETWEEN.
    let mut between = false;
    while let Some(token) = tokens.get(at) {
        at += 1;
        let opens_between = token.kind == Kind::Between;
        let compares = match token.kind {
            Kind::Comparison | Kind::Like | Kind::Between => true,
            Kind::And => std::mem::take(&mut between),
            Kind::In => {
                at = members(sql, tokens, at, &mut found);
                false
            }
            _ => false,
        };
        if compares && let Some((literal, next)) = literal(sql, tokens, at, opens_between) {
            found.push((literal, span(tokens, at, next)));
            at = next;
            between = opens_between;
        }
    }
    found
}

/// Takes the members of `IN (…)` if all are literals; returns where the scan continues.
fn members<'a>(
    sql: &'a str,
    tokens: &[Token],
    at: usize,
    found: &mut Vec<(Literal<'a>, Range<usize>)>,
) -> usize {
    let kind = |at: usize| tokens.get(at).map(|token| token.kind);
    if kind(at) != Some(Kind::Opening) {
        return at;
    }
    let before = found.len();
    let mut next = at;
    loop {
        let start = next + 1;
        let Some((literal, end)) = literal(sql, tokens, start, false) else { break };
        found.push((literal, span(tokens, start, end)));
        next = end;
        match kind(next) {
            Some(Kind::Closing) => return next,
            Some(Kind::Comma) => {}
            _ => break,
        }
    }
    found.truncate(before);
    at
}

fn span(tokens: &[Token], from: usize, to: usize) -> Range<usize> {
    let start = tokens.get(from).map_or(0, |token| token.at.start);
    let end = to.checked_sub(1).and_then(|last| tokens.get(last)).map_or(start, |token| token.at.end);
    start..end
}

/// The literal at `at` and the place after it, if it is a complete operand.
fn literal<'a>(
    sql: &'a str,
    tokens: &[Token],
    at: usize,
    first_of_two: bool,
) -> Option<(Literal<'a>, usize)> {
    let token = tokens.get(at)?;
    let text = token.text(sql);
    let (literal, next) = match token.kind {
        Kind::Integer => (Literal::Integer(text.into()), at + 1),
        Kind::Decimal => (Literal::Decimal(text.into()), at + 1),
        // A literal that may stand for bytes must be read with the type that it is compared with.
        Kind::Text if text.starts_with(r"'\x") => return None,
        Kind::Text => (Literal::Text(unquoted(text)), at + 1),
        Kind::Minus => {
            let number = tokens.get(at + 1)?;
            let digits = || format!("-{}", number.text(sql)).into();
            let literal = match number.kind {
                Kind::Integer => Literal::Integer(digits()),
                Kind::Decimal => Literal::Decimal(digits()),
                _ => return None,
            };
            (literal, at + 2)
        }
        Kind::Date => {
            let date = tokens.get(at + 1).filter(|token| token.kind == Kind::Text)?;
            (Literal::Date(unquoted(date.text(sql))), at + 2)
        }
        _ => return None,
    };
    let ends = match tokens.get(next).map(|token| token.kind) {
        None | Some(Kind::And) => true,
        Some(Kind::Clause | Kind::Closing | Kind::Comma) => !first_of_two,
        Some(_) => false,
    };
    ends.then_some((literal, next))
}

fn unquoted(text: &str) -> Cow<'_, str> {
    let inner = text.get(1..text.len().saturating_sub(1)).unwrap_or_default();
    if inner.contains('\'') { inner.replace("''", "'").into() } else { inner.into() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn check(sql: &str, shape: &str, values: &[&str]) {
        let parameterised = parameterise(sql).unwrap();
        assert_eq!(parameterised.shape, shape);
        let shown: Vec<String> = parameterised.values.iter().map(|value| format!("{value:?}")).collect();
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
            "SELECT \"and\", inner_1 FROM t WHERE a in (1,-2) And b Between 'x' AND 'y' or c iLike 'z'",
            "SELECT \"and\", inner_1 FROM t WHERE a in ($1,$2) And b Between $3 AND $4 or c iLike $5",
            &["Integer(\"1\")", "Integer(\"-2\")", "Text(\"x\")", "Text(\"y\")", "Text(\"z\")"],
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
            assert_eq!(parameterise(sql), None, "{sql}");
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
            assert_eq!(parameterise(sql), None, "{sql}");
        }
        let many: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        assert_eq!(parameterise(&format!("SELECT a FROM t WHERE b IN ({})", many.join(","))), None);
    }
}
