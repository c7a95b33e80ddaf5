//! SQL as Calcite and ODBC have it, made ours.
//!
//! | theirs | ours |
//! |---|---|
//! | `?` | `$1`, `$2`, … |
//! | `{fn f(x)}`, `{d '…'}`, `{t '…'}`, `{ts '…'}` | `f(x)`, `DATE '…'`, `TIME '…'`, `TIMESTAMP '…'` |
//! | `FLOOR(x TO MONTH)` | `date_trunc('month', x)` |
//! | `TIMESTAMPADD(MONTH, n, x)` | `((x) + (n) * INTERVAL '1 month')` |
//! | `YEAR(x)`, `QUARTER(x)`, `WEEK(x)`, … | `date_part('year', x)`, … |
//! | a `;` at the end | nothing |
//!
//! Texts are cut into tokens, and what is in quotes or a comment stays as it is. Whatever is not in the table goes on unchanged, and the
//! engine says what it thinks of it.

use std::ops::Range;

/// A piece of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'t> {
    /// Letters, digits and `_`.
    Word(&'t str),
    /// Anything in quotes, quotes included.
    Quoted(&'t str),
    /// Spaces and comments.
    Space(&'t str),
    /// Any other character.
    Mark(char),
}

impl Token<'_> {
    fn is_word(&self, wanted: &str) -> bool {
        matches!(self, Self::Word(word) if word.eq_ignore_ascii_case(wanted))
    }
}

/// Functions of a time that give one part of it, and the part.
const PARTS: [(&str, &str); 11] = [
    ("YEAR", "year"),
    ("QUARTER", "quarter"),
    ("MONTH", "month"),
    ("WEEK", "week"),
    ("DAYOFMONTH", "day"),
    ("DAYOFYEAR", "doy"),
    ("DAYOFWEEK", "dow"),
    ("DAY", "day"),
    ("HOUR", "hour"),
    ("MINUTE", "minute"),
    ("SECOND", "second"),
];

/// Units of time, and the interval that each is.
const UNITS: [(&str, &str); 8] = [
    ("SECOND", "1 second"),
    ("MINUTE", "1 minute"),
    ("HOUR", "1 hour"),
    ("DAY", "1 day"),
    ("WEEK", "7 days"),
    ("MONTH", "1 month"),
    ("QUARTER", "3 months"),
    ("YEAR", "1 year"),
];

/// Deepest nesting of translated functions: each level is a call of this process.
const MAX_DEPTH: usize = 50;

/// A text of a Kylin client as a text of ours.
pub fn translate(sql: &str) -> String {
    let mut tokens = tokens_of(sql);
    while tokens.last().is_some_and(|token| matches!(token, Token::Space(_) | Token::Mark(';'))) {
        tokens.pop();
    }
    let closing = closing_of(&tokens);
    let mut translation = Translation {
        tokens: &tokens,
        closing: &closing,
        text: String::with_capacity(sql.len()),
        placeholders: 0,
    };
    translation.add(0..tokens.len(), 0);
    translation.text
}

/// The same with names in quotes in lower case: Kylin's are in capitals, ours mostly are not.
pub fn with_lower_names(sql: &str) -> String {
    let mut text = String::with_capacity(sql.len());
    for token in tokens_of(sql) {
        match token {
            Token::Quoted(name) if name.starts_with('"') => text.push_str(&name.to_lowercase()),
            Token::Word(other) | Token::Quoted(other) | Token::Space(other) => text.push_str(other),
            Token::Mark(mark) => text.push(mark),
        }
    }
    text
}

fn tokens_of(sql: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let length = length_of(rest, first);
        let (text, after) = rest.split_at(length);
        tokens.push(match first {
            '\'' | '"' | '`' => Token::Quoted(text),
            _ if is_space(first, rest) => Token::Space(text),
            _ if is_of_word(first) => Token::Word(text),
            _ => Token::Mark(first),
        });
        rest = after;
    }
    tokens
}

fn is_of_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn is_space(first: char, rest: &str) -> bool {
    first.is_whitespace() || rest.starts_with("--") || rest.starts_with("/*")
}

/// Length of the first token in bytes; at least that of its first character.
fn length_of(rest: &str, first: char) -> usize {
    let until = |end: Option<usize>| end.unwrap_or(rest.len());
    match first {
        '\'' | '"' | '`' => quoted_length(rest, first),
        _ if rest.starts_with("--") => until(rest.find('\n')),
        _ if rest.starts_with("/*") => until(rest.find("*/").map(|end| end + 2)),
        _ if first.is_whitespace() => until(rest.find(|c: char| !c.is_whitespace())),
        _ if is_of_word(first) => until(rest.find(|c: char| !is_of_word(c))),
        _ => first.len_utf8(),
    }
}

/// Length of what is in quotes: a doubled quote stands for one.
fn quoted_length(rest: &str, quote: char) -> usize {
    let mut characters = rest.char_indices().skip(1).peekable();
    while let Some((at, character)) = characters.next() {
        if character == quote && characters.next_if(|(_, next)| *next == quote).is_none() {
            return at + quote.len_utf8();
        }
    }
    rest.len()
}

/// For each bracket that opens, where the one is that closes it. Found once, so that nested calls cost no more than others.
fn closing_of(tokens: &[Token<'_>]) -> Vec<Option<usize>> {
    let mut closing = vec![None; tokens.len()];
    let (mut round, mut curly) = (Vec::new(), Vec::new());
    for (at, token) in tokens.iter().enumerate() {
        let opened = match token {
            Token::Mark('(') => {
                round.push(at);
                None
            }
            Token::Mark('{') => {
                curly.push(at);
                None
            }
            Token::Mark(')') => round.pop(),
            Token::Mark('}') => curly.pop(),
            _ => None,
        };
        if let Some(place) = opened.and_then(|opened| closing.get_mut(opened)) {
            *place = Some(at);
        }
    }
    closing
}

struct Translation<'t> {
    tokens: &'t [Token<'t>],
    closing: &'t [Option<usize>],
    text: String,
    placeholders: usize,
}

impl<'t> Translation<'t> {
    fn add(&mut self, places: Range<usize>, depth: usize) {
        let Range { start: mut at, end } = places;
        while at < end {
            at = self.add_one(at, end, depth);
        }
    }

    /// Adds the token at a place, or the call or escape that begins there; gives the place behind it.
    fn add_one(&mut self, at: usize, end: usize, depth: usize) -> usize {
        let after = at + 1;
        match self.tokens.get(at) {
            Some(Token::Mark('?')) => {
                self.placeholders += 1;
                self.text.push_str(&format!("${}", self.placeholders));
            }
            Some(Token::Mark('{')) if depth < MAX_DEPTH => {
                if let Some(inside) = self.within(at, end)
                    && self.add_escape(inside.clone(), depth)
                {
                    return inside.end + 1;
                }
                self.text.push('{');
            }
            Some(Token::Word(word)) => {
                let open = after + self.spaces(after..end);
                let is_call = depth < MAX_DEPTH && self.tokens.get(open) == Some(&Token::Mark('('));
                if is_call
                    && let Some(inside) = self.within(open, end)
                    && self.add_call(word, inside.clone(), depth)
                {
                    return inside.end + 1;
                }
                self.text.push_str(word);
            }
            Some(Token::Quoted(text) | Token::Space(text)) => self.text.push_str(text),
            Some(Token::Mark(mark)) => self.text.push(*mark),
            None => {}
        }
        after
    }

    /// The places between a bracket and the one that closes it; none if that is not before `end`.
    fn within(&self, open: usize, end: usize) -> Option<Range<usize>> {
        let close = self.closing.get(open).copied().flatten()?;
        (close < end).then_some(open + 1..close)
    }

    fn slice(&self, places: Range<usize>) -> &'t [Token<'t>] {
        self.tokens.get(places).unwrap_or_default()
    }

    fn spaces(&self, places: Range<usize>) -> usize {
        self.slice(places).iter().take_while(|token| matches!(token, Token::Space(_))).count()
    }

    /// What is in braces, if it is an escape of ODBC.
    fn add_escape(&mut self, inside: Range<usize>, depth: usize) -> bool {
        let first = inside.start + self.spaces(inside.clone());
        let prefix = match self.tokens.get(first) {
            Some(kind) if kind.is_word("fn") => "",
            Some(kind) if kind.is_word("d") => "DATE",
            Some(kind) if kind.is_word("t") => "TIME",
            Some(kind) if kind.is_word("ts") => "TIMESTAMP",
            _ => return false,
        };
        self.text.push_str(prefix);
        self.add(first + 1..inside.end, depth + 1);
        true
    }

    /// A call of a function with these arguments, if it is one of the table.
    fn add_call(&mut self, name: &str, inside: Range<usize>, depth: usize) -> bool {
        if name.eq_ignore_ascii_case("FLOOR")
            && let Some((value, unit)) = to_unit(self.slice(inside.clone()))
        {
            self.text.push_str(&format!("date_trunc('{}', ", unit.to_lowercase()));
            let start = inside.start + self.spaces(inside.clone());
            self.add(start..start + value, depth + 1);
            self.text.push(')');
            return true;
        }
        let part = PARTS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        if part.is_none() && !name.eq_ignore_ascii_case("TIMESTAMPADD") {
            return false;
        }
        let arguments = self.arguments(inside);
        if let (None, [unit, count, value]) = (part, arguments.as_slice()) {
            let [Token::Word(unit)] = trimmed(self.slice(unit.clone())) else { return false };
            let Some((_, interval)) = UNITS.iter().find(|(known, _)| *known == plain(unit)) else {
                return false;
            };
            self.text.push_str("((");
            self.add(value.clone(), depth + 1);
            self.text.push_str(") + (");
            self.add(count.clone(), depth + 1);
            self.text.push_str(&format!(") * INTERVAL '{interval}')"));
            return true;
        }
        let (Some((_, part)), [value]) = (part, arguments.as_slice()) else { return false };
        if trimmed(self.slice(value.clone())).is_empty() {
            return false;
        }
        self.text.push_str(&format!("CAST(date_part('{part}', "));
        self.add(value.clone(), depth + 1);
        self.text.push_str(") AS BIGINT)");
        // Calcite's week begins with Sunday as 1.
        if *part == "dow" {
            self.text.push_str(" + 1");
        }
        true
    }

    /// The places of the arguments between commas that are in no further brackets.
    fn arguments(&self, inside: Range<usize>) -> Vec<Range<usize>> {
        let (mut arguments, mut start, mut at) = (Vec::new(), inside.start, inside.start);
        while at < inside.end {
            if self.tokens.get(at) == Some(&Token::Mark(',')) {
                arguments.push(start..at);
                start = at + 1;
            }
            at = self.closing.get(at).copied().flatten().unwrap_or(at) + 1;
        }
        arguments.push(start..inside.end);
        arguments
    }
}

/// `SQL_TSI_MONTH`, as ODBC calls it, is `MONTH`.
fn plain(unit: &str) -> String {
    let unit = unit.to_uppercase();
    unit.strip_prefix("SQL_TSI_").map_or(unit.clone(), str::to_owned)
}

/// The number of tokens of the value, without spaces around it, and the unit in `value TO unit`.
fn to_unit<'t>(inside: &[Token<'t>]) -> Option<(usize, &'t str)> {
    let (last, before) = trimmed(inside).split_last()?;
    let Token::Word(unit) = last else { return None };
    UNITS.iter().find(|(known, _)| known.eq_ignore_ascii_case(unit))?;
    let (to, value) = trimmed(before).split_last()?;
    to.is_word("TO").then_some((trimmed(value).len(), *unit))
}

fn trimmed<'s, 't>(mut tokens: &'s [Token<'t>]) -> &'s [Token<'t>] {
    while let [Token::Space(_), rest @ ..] = tokens {
        tokens = rest;
    }
    while let [rest @ .., Token::Space(_)] = tokens {
        tokens = rest;
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(theirs: &str, ours: &str) {
        assert_eq!(translate(theirs), ours, "{theirs}");
    }

    #[test]
    fn placeholders_are_numbered_and_texts_stay() {
        check("SELECT ? + a FROM t WHERE b = ?;", "SELECT $1 + a FROM t WHERE b = $2");
        check("SELECT '?''?', \"?\" -- ?\n, /* ? */ ?", "SELECT '?''?', \"?\" -- ?\n, /* ? */ $1");
        check("SELECT 1 ; ;\n", "SELECT 1");
        check("SELECT 'open", "SELECT 'open");
        check("", "");
    }

    #[test]
    fn escapes_of_odbc_are_read() {
        check("SELECT {fn UCASE({fn LTRIM(a)})}", "SELECT  UCASE( LTRIM(a))");
        check("WHERE d >= {d '2026-01-31'}", "WHERE d >= DATE '2026-01-31'");
        check("{ts '2026-01-31 10:00:00'} {t '10:00:00'}", "TIMESTAMP '2026-01-31 10:00:00' TIME '10:00:00'");
        check("SELECT {x: 1}, {fn open", "SELECT {x: 1}, {fn open");
        check("{fn YEAR(d)}", " CAST(date_part('year', d) AS BIGINT)");
    }

    #[test]
    fn times_are_cut_and_added_to() {
        check(
            "CAST(FLOOR(CAST(x AS TIMESTAMP) TO MONTH) AS DATE)",
            "CAST(date_trunc('month', CAST(x AS TIMESTAMP)) AS DATE)",
        );
        check("FLOOR(price / 2)", "FLOOR(price / 2)");
        check("TIMESTAMPADD(WEEK, -1, d)", "(( d) + ( -1) * INTERVAL '7 days')");
        check(
            "TIMESTAMPADD(SQL_TSI_QUARTER, ?, FLOOR(d TO YEAR))",
            "(( date_trunc('year', d)) + ( $1) * INTERVAL '3 months')",
        );
        check(
            "QUARTER(d), week (d)",
            "CAST(date_part('quarter', d) AS BIGINT), CAST(date_part('week', d) AS BIGINT)",
        );
        check("SELECT year, month FROM t", "SELECT year, month FROM t");
        check("YEAR(), YEAR(a, b)", "YEAR(), YEAR(a, b)");
    }

    #[test]
    fn deep_nesting_ends() {
        let deep = format!("{}d{}", "YEAR(".repeat(10_000), ")".repeat(10_000));
        assert!(translate(&deep).contains("date_part"));
    }

    #[test]
    fn names_in_quotes_lose_their_capitals_and_texts_do_not() {
        assert_eq!(
            with_lower_names("SELECT \"PRICE\", 'Ä\"B\"' FROM \"DEFAULT\".\"KYLIN_SALES\""),
            "SELECT \"price\", 'Ä\"B\"' FROM \"default\".\"kylin_sales\""
        );
    }
}
