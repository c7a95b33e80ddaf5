//! Where in a statement an error is: psql draws a caret there, editors move the cursor.
//!
//! The parser tells line and column. Errors about names tell the name, whose first appearance outside of texts and comments is
//! taken.

use super::errors::Failure;

/// SQLSTATEs of errors about names: columns, tables, functions, types.
const ABOUT_NAMES: [&str; 6] = ["42P01", "42702", "42703", "42704", "42883", "42P10"];

/// The place of a failure in the text, in characters from 1.
pub fn place_of(failure: &Failure, sql: &str) -> Option<usize> {
    match failure.sqlstate {
        "42601" if failure.message.ends_with("found: EOF") => Some(sql.trim_end().chars().count() + 1),
        "42601" => line_and_column(&failure.message, sql),
        code if ABOUT_NAMES.contains(&code) => {
            let name = failure.message.split('`').nth(1)?;
            first_appearance(name.rsplit('.').next()?, sql).or_else(|| {
                // The statement may have the name in a text, as `'orders'::regclass`.
                let at = sql.find(&format!("'{name}'"))?;
                Some(sql.get(..at)?.chars().count() + 1)
            })
        }
        _ => None,
    }
}

/// The place that the parser writes as `Line: 1, Column: 8`.
fn line_and_column(message: &str, sql: &str) -> Option<usize> {
    let (_, place) = message.rsplit_once("Line: ")?;
    let (line, column) = place.split_once(", Column: ")?;
    let digits: String = column.chars().take_while(char::is_ascii_digit).collect();
    let (line, column): (usize, usize) = (line.parse().ok()?, digits.parse().ok()?);
    let before: usize =
        sql.split_inclusive('\n').take(line.checked_sub(1)?).map(|line| line.chars().count()).sum();
    let position = before.checked_add(column)?;
    (position <= sql.chars().count() + 1).then_some(position)
}

fn first_appearance(name: &str, sql: &str) -> Option<usize> {
    let name = name.trim_matches('"').trim_end_matches("()");
    let mut words = Words { sql, at: 0 };
    words
        .find(|(_, word)| *word == name || word.to_lowercase() == name)
        .map(|(at, _)| sql.get(..at).map_or(1, |before| before.chars().count() + 1))
}

/// Words and names in quotes, with the bytes where they begin; texts and comments are passed over.
struct Words<'a> {
    sql: &'a str,
    at: usize,
}

impl<'a> Iterator for Words<'a> {
    type Item = (usize, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let rest = self.sql.get(self.at..).filter(|rest| !rest.is_empty())?;
            let start = self.at;
            let first = rest.chars().next()?;
            if first.is_alphabetic() || first == '_' {
                let length =
                    rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$').unwrap_or(rest.len());
                self.at += length;
                return Some((start, rest.get(..length)?));
            }
            if first == '"' {
                let length = enclosed(rest, "\"", "\"");
                self.at += length;
                return Some((start, rest.get(1..length)?.trim_end_matches('"')));
            }
            self.at += match first {
                '\'' => enclosed(rest, "'", "'"),
                '-' if rest.starts_with("--") => enclosed(rest, "--", "\n"),
                '/' if rest.starts_with("/*") => enclosed(rest, "/*", "*/"),
                other => other.len_utf8(),
            };
        }
    }
}

/// Bytes from `open` up to the end of `close`; all bytes if there is no `close`.
fn enclosed(rest: &str, open: &str, close: &str) -> usize {
    let inner = rest.get(open.len()..).unwrap_or_default();
    inner.find(close).map_or(rest.len(), |end| open.len() + end + close.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_a_place() {
        let check = |code, message: &str, sql, expected| {
            assert_eq!(place_of(&Failure::error(code, message), sql), expected, "{message}: {sql}");
        };
        check("42703", "column `nope` does not exist", "SELECT 'nope', nope FROM t", Some(16));
        check("42703", "column `t.Nope` does not exist", "SELECT t.\"Nope\"", Some(10));
        check("42P01", "table `public.nope` does not exist", "SELECT 1 -- nope\nFROM Nope", Some(23));
        check("42601", "expected an expression at Line: 2, Column: 1", "SELECT\nFROM", Some(8));
        check("42601", "expected an expression at Line: 9, Column: 1", "SELECT", Some(7));
        check("42601", "expected: an expression, found: EOF", "SELECT 1 +", Some(11));
        check("42P01", "relation `nope` does not exist", "SELECT 'nope'::regclass", Some(8));
        check("22012", "division by zero", "SELECT 1/0", None);
        check("42P01", "table `é` does not exist", "SELECT 'ä' FROM é", Some(17));
    }
}
