//! Translates SQL of Calcite and ODBC into Nyala's.
//!
//! | Calcite and ODBC | Nyala |
//! |---|---|
//! | `?` | `$1`, `$2`, … |
//! | `{fn f(x)}`, `{d '…'}`, `{t '…'}`, `{ts '…'}` | `f(x)` or [our name of it](super::odbc), `DATE '…'`, `TIME '…'`, `TIMESTAMP '…'` |
//! | `FLOOR(x TO MONTH)` | `date_trunc('month', x)` |
//! | `CEIL(x TO MONTH)` | `date_trunc` of the last moment of the month that begins with x |
//! | `TIMESTAMPADD(MONTH, n, x)` | `((x) + CAST(n AS BIGINT) * INTERVAL '1 month')` |
//! | `TIMESTAMPDIFF(MONTH, x, y)` | the whole months between them |
//! | `YEAR(x)`, `QUARTER(x)`, `WEEK(x)`, … | `date_part('year', x)`, … |
//! | `EXTRACT(DOW FROM x)`, `EXTRACT(SECOND FROM x)` | the day of the week from 1, whole seconds |
//! | a `;` at the end | nothing |
//!
//! Weeks begin on Monday, and `WEEK(x)` is the week of ISO 8601. Kylin 5 computes them so, by `date_trunc` and `weekofyear` of Spark. In
//! Calcite they begin on Sunday, but only since version 1.16 of its Avatica; Kylin 5 has 1.10.
//!
//! Texts are cut into tokens, and what is in quotes or a comment stays as it is. Whatever is not in the table goes on unchanged, and the
//! engine parses it or names the error.

use std::borrow::Cow;
use std::ops::Range;

use super::odbc::{self, Unit};
use super::tokens::{Token, is_of_word, tokens_of, trimmed};

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

/// The other functions that have another name or another form of arguments in Nyala.
const TIMES: [&str; 6] = ["FLOOR", "CEIL", "CEILING", "EXTRACT", "TIMESTAMPADD", "TIMESTAMPDIFF"];

/// Parts for which EXTRACT gives another value in Nyala.
const EXTRACTED: [(&str, &str); 2] = [("DOW", "dow"), ("SECOND", "second")];

/// Deepest nesting of translated functions: each level is a call of this process.
const MAX_DEPTH: usize = 50;

/// A statement of a Kylin client in Nyala's SQL.
pub fn translate(sql: &str) -> Cow<'_, str> {
    match may_be_theirs(sql) {
        true => translated(sql).into(),
        false => sql.trim_end_matches(|end: char| end == ';' || end.is_whitespace()).into(),
    }
}

/// Whether a text may hold anything of the table. Most texts do not, and need not be cut into tokens. In a text with a comment, only tokens
/// tell where an entry of the table begins, and where the text ends.
fn may_be_theirs(sql: &str) -> bool {
    let mut last = 0;
    sql.bytes().enumerate().any(|(at, byte)| match (std::mem::replace(&mut last, byte), byte) {
        (_, b'?' | b'{') | (b'-', b'-') | (b'/', b'*') => true,
        (_, b'(') => is_called_otherwise(last_word(sql.get(..at).unwrap_or_default())),
        _ => false,
    })
}

/// The word before a bracket; empty if there is none.
fn last_word(text: &str) -> &str {
    text.trim_end().rsplit(|character| !is_of_word(character)).next().unwrap_or_default()
}

fn is_called_otherwise(name: &str) -> bool {
    let parts = PARTS.iter().map(|(part, _)| *part);
    parts.chain(TIMES).any(|known| known.eq_ignore_ascii_case(name))
}

fn translated(sql: &str) -> String {
    let mut tokens = tokens_of(sql);
    while tokens.last().is_some_and(|token| matches!(token, Token::Space(_) | Token::Mark(';'))) {
        tokens.pop();
    }
    let (closing, numbers) = (closing_of(&tokens), placeholders_of(&tokens));
    let mut translation = Translation {
        tokens: &tokens,
        closing: &closing,
        numbers: &numbers,
        text: String::with_capacity(sql.len()),
        is_doubled: false,
    };
    translation.add(0..tokens.len(), 0);
    translation.text
}

/// For each opening bracket, the place of its closing one. They are found once, so that nested calls cost no more than others.
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

/// For each token, the number of the placeholder that it is: arguments of functions may change their places.
fn placeholders_of(tokens: &[Token<'_>]) -> Vec<usize> {
    let numbers = tokens.iter().scan(0, |count, token| {
        *count += usize::from(*token == Token::Mark('?'));
        Some(*count)
    });
    numbers.collect()
}

struct Translation<'t> {
    tokens: &'t [Token<'t>],
    closing: &'t [Option<usize>],
    numbers: &'t [usize],
    text: String,
    /// Whether the text that is added now is written twice.
    is_doubled: bool,
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
                let number = self.numbers.get(at).copied().unwrap_or_default();
                self.text.push_str(&format!("${number}"));
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

    /// Adds the text in braces if it is an escape of ODBC; false if not.
    fn add_escape(&mut self, inside: Range<usize>, depth: usize) -> bool {
        let first = inside.start + self.spaces(inside.clone());
        let prefix = match self.tokens.get(first) {
            Some(kind) if kind.is_word("fn") => {
                if !self.add_function(first + 1..inside.end, depth) {
                    self.add(first + 1..inside.end, depth + 1);
                }
                return true;
            }
            Some(kind) if kind.is_word("d") => "DATE",
            Some(kind) if kind.is_word("t") => "TIME",
            Some(kind) if kind.is_word("ts") => "TIMESTAMP",
            _ => return false,
        };
        self.text.push_str(prefix);
        self.add(first + 1..inside.end, depth + 1);
        true
    }

    /// Adds a call of a function that has another name in ODBC.
    fn add_function(&mut self, places: Range<usize>, depth: usize) -> bool {
        let at = places.start + self.spaces(places.clone());
        let Some(Token::Word(name)) = self.tokens.get(at) else { return false };
        let open = at + 1 + self.spaces(at + 1..places.end);
        if self.tokens.get(open) != Some(&Token::Mark('(')) {
            return false;
        }
        let Some(inside) = self.within(open, places.end) else { return false };
        if !trimmed(self.slice(inside.end + 1..places.end)).is_empty() {
            return false;
        }
        let arguments = self.arguments(inside);
        if name.eq_ignore_ascii_case("CONVERT")
            && let [value, kind] = arguments.as_slice()
            && let [Token::Word(kind)] = trimmed(self.slice(kind.clone()))
            && let Some(kind) = odbc::type_named(kind)
        {
            self.add_template(&format!("CAST($1 AS {kind})"), std::slice::from_ref(value), depth);
            return true;
        }
        let Some(ours) = odbc::function(name, arguments.len()) else { return false };
        self.add_template(ours, &arguments, depth);
        true
    }

    /// Adds Nyala's SQL for a function, with the arguments in the places of `$1` and so on.
    fn add_template(&mut self, template: &str, arguments: &[Range<usize>], depth: usize) {
        let mut parts = template.split('$');
        self.text.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let Some((number, rest)) = part.split_at_checked(1) else { continue };
            let at = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            if let Some(argument) = at.and_then(|at| arguments.get(at)) {
                self.add(self.without_spaces(argument), depth + 1);
            }
            self.text.push_str(rest);
        }
    }

    /// The places of an argument without the spaces around it.
    fn without_spaces(&self, places: &Range<usize>) -> Range<usize> {
        let start = places.start + self.spaces(places.clone());
        start..start + trimmed(self.slice(places.clone())).len()
    }

    /// Adds a call of a function with these arguments, if it is one of the table.
    fn add_call(&mut self, name: &str, inside: Range<usize>, depth: usize) -> bool {
        let is = |known: &str| known.eq_ignore_ascii_case(name);
        if is("FLOOR") {
            return self.add_rounded(Unit::floor, inside, depth);
        }
        if is("CEIL") || is("CEILING") {
            return self.add_rounded(Unit::ceil, inside, depth);
        }
        if is("EXTRACT") {
            return self.add_extract(inside, depth);
        }
        if is("TIMESTAMPADD") || is("TIMESTAMPDIFF") {
            return self.add_times(name, inside, depth);
        }
        let Some(part) = part_named(&PARTS, name) else { return false };
        let arguments = self.arguments(inside);
        if arguments.len() != 1 {
            return false;
        }
        self.add_template(&template_of(part), &arguments, depth);
        true
    }

    /// Adds a time that is rounded to a unit: `value TO unit`. A number is rounded by the function of the same name.
    fn add_rounded(&mut self, template: fn(Unit) -> String, inside: Range<usize>, depth: usize) -> bool {
        let Some((value, unit)) = to_unit(self.slice(inside.clone())) else { return false };
        let start = inside.start + self.spaces(inside);
        let value = start..start + value;
        self.add_template(&template(unit), std::slice::from_ref(&value), depth);
        true
    }

    /// Adds a part of a time: `part FROM value`.
    fn add_extract(&mut self, inside: Range<usize>, depth: usize) -> bool {
        let first = inside.start + self.spaces(inside.clone());
        let from = first + 1 + self.spaces(first + 1..inside.end);
        let [Some(Token::Word(part)), Some(word)] = [first, from].map(|at| self.tokens.get(at)) else {
            return false;
        };
        let Some(part) = part_named(&EXTRACTED, part).filter(|_| word.is_word("FROM")) else { return false };
        let value = from + 1..inside.end;
        self.add_template(&template_of(part), std::slice::from_ref(&value), depth);
        true
    }

    /// Adds a sum or a difference of times. The first argument is a unit.
    fn add_times(&mut self, name: &str, inside: Range<usize>, depth: usize) -> bool {
        let arguments = self.arguments(inside);
        let [unit, operands @ ..] = arguments.as_slice() else { return false };
        let [Token::Word(unit)] = trimmed(self.slice(unit.clone())) else { return false };
        let (Some(unit), 2) = (Unit::named(unit), operands.len()) else { return false };
        if name.eq_ignore_ascii_case("TIMESTAMPADD") {
            // The cast tells the type of a placeholder.
            let sum = format!("(($2) + CAST($1 AS BIGINT) * INTERVAL '{}')", unit.interval);
            self.add_template(&sum, operands, depth);
            return true;
        }
        // A difference in months writes its times twice. One within another would double the text at each level.
        if unit.is_of_months() && self.is_doubled {
            return false;
        }
        let outer = self.is_doubled;
        self.is_doubled |= unit.is_of_months();
        self.add_template(&unit.difference(), operands, depth);
        self.is_doubled = outer;
        true
    }

    /// The places of the arguments between commas that are in no further brackets; none between empty brackets.
    fn arguments(&self, inside: Range<usize>) -> Vec<Range<usize>> {
        let (mut arguments, mut start, mut at) = (Vec::new(), inside.start, inside.start);
        if trimmed(self.slice(inside.clone())).is_empty() {
            return arguments;
        }
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

/// The number of tokens of the value, without spaces around it, and the unit in `value TO unit`.
fn to_unit(inside: &[Token<'_>]) -> Option<(usize, Unit)> {
    let (last, before) = trimmed(inside).split_last()?;
    let Token::Word(unit) = last else { return None };
    let unit = Unit::named(unit)?;
    let (to, value) = trimmed(before).split_last()?;
    to.is_word("TO").then_some((trimmed(value).len(), unit))
}

fn part_named(parts: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    parts.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, part)| *part)
}

/// Nyala's SQL for a part of the time `$1`.
fn template_of(part: &str) -> String {
    match part {
        // Calcite counts the days of a week from Sunday as 1, and whole seconds. A cast would round them, up to 60.
        "dow" => "(CAST(date_part('dow', $1) AS BIGINT) + 1)".to_owned(),
        "second" => "CAST(trunc(date_part('second', $1)) AS BIGINT)".to_owned(),
        part => format!("CAST(date_part('{part}', $1) AS BIGINT)"),
    }
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
        check("SELECT {fn UCASE({fn LTRIM(a)})}", "SELECT upper( LTRIM(a))");
        check("{fn CURDATE()}, {fn LOCATE('?', {fn LCASE( a )})}", "CURRENT_DATE, strpos(lower(a), '?')");
        check("{fn LOCATE(?, ?)}, ?", "strpos($2, $1), $3");
        check("{fn CONVERT(a + 1, SQL_VARCHAR)} || b", "CAST(a + 1 AS VARCHAR) || b");
        check("{fn CONVERT(a, SQL_GUID)}, {fn UCASE}", " CONVERT(a, SQL_GUID),  UCASE");
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
        check("FLOOR(price / 2), CEIL (a), ceiling(b)", "FLOOR(price / 2), CEIL (a), ceiling(b)");
        check("floor( d TO sql_tsi_week )", "date_trunc('week', d)");
        check("FLOOR(d TO DECADE)", "date_trunc('decade', d)");
        check(
            "CEIL(FLOOR(d TO DAY) TO QUARTER), CEILING(? TO century)",
            "date_trunc('quarter', CAST(date_trunc('day', d) AS TIMESTAMP) + INTERVAL '3 months' - INTERVAL '1 microsecond'), \
             date_trunc('century', CAST($1 AS TIMESTAMP) + INTERVAL '100 years' - INTERVAL '1 microsecond')",
        );
        check("FLOOR(d TO DAYS), CEIL(a TO b)", "FLOOR(d TO DAYS), CEIL(a TO b)");
        check("TIMESTAMPADD(WEEK, -1, d)", "((d) + CAST(-1 AS BIGINT) * INTERVAL '7 days')");
        check(
            "TIMESTAMPADD(SQL_TSI_QUARTER, ?, FLOOR(d TO YEAR))",
            "((date_trunc('year', d)) + CAST($1 AS BIGINT) * INTERVAL '3 months')",
        );
        // Each value goes to its placeholder, although the placeholders have changed their places.
        check("TIMESTAMPADD(DAY, ?, ?)", "(($2) + CAST($1 AS BIGINT) * INTERVAL '1 day')");
        check(
            "{fn TIMESTAMPDIFF(SQL_TSI_HOUR, a, ?)}",
            " CAST(trunc((date_part('epoch', CAST($1 AS TIMESTAMP)) - date_part('epoch', CAST(a AS TIMESTAMP))) / 3600) AS BIGINT)",
        );
        check(
            "TIMESTAMPADD(MONTHS, 1, d), TIMESTAMPDIFF(DAY, a)",
            "TIMESTAMPADD(MONTHS, 1, d), TIMESTAMPDIFF(DAY, a)",
        );
        check("7 - DAYOFWEEK(d)", "7 - (CAST(date_part('dow', d) AS BIGINT) + 1)");
        check(
            "QUARTER(d), week (d)",
            "CAST(date_part('quarter', d) AS BIGINT), CAST(date_part('week', d) AS BIGINT)",
        );
        check("SECOND(d)", "CAST(trunc(date_part('second', d)) AS BIGINT)");
        check(
            "EXTRACT(DOW FROM d), extract( second\nfrom FLOOR(d TO DAY))",
            "(CAST(date_part('dow', d) AS BIGINT) + 1), CAST(trunc(date_part('second', date_trunc('day', d))) AS BIGINT)",
        );
        check(
            "EXTRACT(YEAR FROM FLOOR(d TO DAY)), EXTRACT(DOW), EXTRACT(), extract(dow, d)",
            "EXTRACT(YEAR FROM date_trunc('day', d)), EXTRACT(DOW), EXTRACT(), extract(dow, d)",
        );
        check("SELECT year, month FROM t", "SELECT year, month FROM t");
        check("YEAR(), YEAR(a, b)", "YEAR(), YEAR(a, b)");
    }

    #[test]
    fn deep_nesting_ends() {
        let deep = format!("{}d{}", "YEAR(".repeat(10_000), ")".repeat(10_000));
        assert!(translate(&deep).contains("date_part"));
        let doubled = format!("{}d{}", "TIMESTAMPDIFF(MONTH, ".repeat(100), ", d)".repeat(100));
        assert!(translate(&doubled).len() < 10 * doubled.len());
    }

    #[test]
    fn texts_that_are_ours_are_not_copied() {
        for (sql, ours) in [
            ("SELECT sum(lo_revenue), d_year FROM lineorder, dates WHERE a = (1 - -2) / 3 ;\n", true),
            ("SELECT \"YEAR\", month, floors(x), my_year(d), (1), 'it''s {' FROM t", false),
            ("SELECT \"YEAR\", month, floors(x), my_year(d), (1), äyear (d), 'it''s' FROM t", true),
            ("SELECT Year\n(d)", false),
            ("SELECT YEAR/* of */(d)", false),
            ("SELECT 1 -- ;", false),
            ("", true),
        ] {
            assert_eq!(matches!(translate(sql), Cow::Borrowed(_)), ours, "{sql}");
            assert_eq!(translate(sql), translated(sql), "{sql}");
        }
        let calls = PARTS.iter().map(|(part, _)| format!("{part}(d)"));
        let times = [
            "FLOOR(d TO DAY)",
            "CEIL(d TO DAY)",
            "ceiling(d TO DAY)",
            "EXTRACT(DOW FROM d)",
            "timestampadd(DAY, 1, d)",
            "TIMESTAMPDIFF(DAY, d, d)",
        ];
        for call in calls.chain(times.map(str::to_owned)) {
            assert_ne!(translate(&call), call);
        }
    }
}
