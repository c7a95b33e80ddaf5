//! What logs and lists may show of a statement: everything but passwords, keys and tokens.
//!
//! Which literal of a statement is a secret is known only to those who understand the statement, and many a text with a
//! secret in it cannot be parsed. So a text that names one anywhere (`password`, `secret`, `token` …) has all of its literals
//! hidden, by their positions in the text. Credentials in URLs are hidden everywhere.

mod literals;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use self::literals::{Kind, Part, parts};
use crate::error::{ErrorKind, QueryError};

/// Stands for what is hidden.
pub(crate) const MASK: &str = "********";

/// Words that contain one of these name a secret, and what follows may be one without quotes.
const STEMS: [&str; 8] =
    ["password", "passwd", "passphrase", "secret", "credential", "apikey", "accesskey", "privatekey"];
/// Whole words of that kind.
const SECRETS: [&str; 6] = ["pwd", "identified", "api_key", "access_key", "private_key", "bearer"];
/// Whole words whose literals may hold secrets. They have other meanings, too.
const NEIGHBOURS: [&str; 11] = [
    "key",
    "keys",
    "token",
    "tokens",
    "sas",
    "location",
    "signature",
    "authorization",
    "session_token",
    "auth_token",
    "sas_token",
];

/// How a text names secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Naming {
    Nothing,
    /// Literals may hold some.
    Neighbour,
    /// What follows may be one in any form.
    Secret,
}

/// A statement's text for those who look on: it can be shown only without what is secret.
#[derive(Debug, Clone)]
pub(crate) struct LoggedText {
    text: Arc<str>,
    /// What was cut off names a secret.
    more: bool,
}

impl LoggedText {
    /// Keeps so many bytes of a text.
    pub(crate) fn of(text: &str, bytes: usize) -> Self {
        let kept = text.get(..text.floor_char_boundary(bytes)).unwrap_or_default();
        let more = kept.len() < text.len() && naming(text) > Naming::Nothing;
        Self { text: kept.into(), more }
    }

    /// An error's text for those who look on: it may quote the statement.
    pub(crate) fn error(&self, error: &QueryError) -> String {
        error_without_secrets(&error.message, error.kind, self.more || naming(&self.text) > Naming::Nothing)
    }
}

impl fmt::Display for LoggedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hidden(&self.text, self.more || naming(&self.text) > Naming::Nothing))
    }
}

/// A statement's text without what is secret.
pub(crate) fn without_secrets(sql: &str) -> Cow<'_, str> {
    hidden(sql, naming(sql) > Naming::Nothing)
}

/// The same of a text that cannot be parsed, in which secrets may stand without quotes: it ends where one is named.
pub(crate) fn unparsed_without_secrets(sql: &str) -> Cow<'_, str> {
    let secret = words(sql).find(|(_, word)| naming_of(word) == Naming::Secret);
    match secret.and_then(|(at, word)| sql.get(..at + word.len())) {
        Some(beginning) => format!("{} {MASK}", hidden(beginning, true)).into(),
        None => without_secrets(sql),
    }
}

/// What logs may show of the error of a statement with this text.
pub(crate) fn error_of(sql: &str, error: &QueryError) -> String {
    error_without_secrets(&error.message, error.kind, naming(sql) > Naming::Nothing)
}

fn error_without_secrets(message: &str, kind: ErrorKind, secret: bool) -> String {
    match (secret, kind) {
        (false, _) => hidden(message, false).into_owned(),
        // It quotes what stands where something else was expected.
        (true, ErrorKind::Syntax) => "syntax error in a statement that names a secret".to_owned(),
        (true, _) => hide_values(message),
    }
}

/// A message for a log, without the values that it quotes. For errors of statements that are not at hand.
pub fn hide_values(message: &str) -> String {
    let mut shown = String::new();
    let mut rest = message;
    while let Some((before, quote, after)) =
        rest.find(['`', '\'', '"']).and_then(|at| split_at_char(rest, at))
    {
        shown.push_str(before);
        let Some(end) = after.rfind(quote).filter(|_| quote == '\'').or_else(|| after.find(quote)) else {
            shown.push_str(MASK);
            return shown;
        };
        shown.extend([quote.to_string().as_str(), MASK, quote.to_string().as_str()]);
        rest = split_at_char(after, end).map_or("", |(_, _, rest)| rest);
    }
    shown + rest
}

fn split_at_char(text: &str, at: usize) -> Option<(&str, char, &str)> {
    let (before, rest) = text.split_at_checked(at)?;
    let mut letters = rest.chars();
    let letter = letters.next()?;
    Some((before, letter, letters.as_str()))
}

/// The text with URLs shown without credentials, and without literals and comments if it names a secret.
fn hidden(sql: &str, secret: bool) -> Cow<'_, str> {
    let parts = parts(sql);
    let whole = parts.iter().all(|part| part.whole);
    if !secret && whole && !sql.contains("://") {
        return Cow::Borrowed(sql);
    }
    let mut shown = String::with_capacity(sql.len());
    for part in parts {
        let text = sql.get(part.range.clone()).unwrap_or_default();
        match part {
            // Nobody knows where it was to end.
            Part { whole: false, .. } => shown.extend(["'", MASK, "'"]),
            Part { kind: Kind::Literal, .. } if secret => shown.extend(["'", MASK, "'"]),
            Part { kind: Kind::Comment, .. } if secret => shown.push(' '),
            Part { kind: Kind::Literal, .. } => push_url(&mut shown, text, closing_of(text)),
            Part { .. } => text.split_inclusive(ends_url).for_each(|word| {
                push_url(
                    &mut shown,
                    word,
                    word.chars().last().filter(|last| ends_url(*last)).map_or(0, char::len_utf8),
                );
            }),
        }
    }
    shown.into()
}

fn ends_url(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, ',' | ';' | ')' | '"' | '`')
}

/// Length of what ends a literal.
fn closing_of(literal: &str) -> usize {
    match literal.strip_prefix('$').and_then(|rest| rest.find('$')) {
        Some(tag) => tag + 2,
        None => 1,
    }
}

/// Adds a text, of which so many bytes at the end are no part of a URL. Name and password are hidden in
/// `scheme://name:password@server`, and so are the parameters behind `?`, one of which may be a signature. A password may have
/// any of these characters in it, so that the last `@` counts.
fn push_url(shown: &mut String, text: &str, closing: usize) {
    let (url, closing) = text.split_at_checked(text.len().saturating_sub(closing)).unwrap_or((text, ""));
    let Some((scheme, mut rest)) = url.split_once("://") else { return shown.push_str(text) };
    shown.extend([scheme, "://"]);
    if let Some((_, place)) = rest.rsplit_once('@') {
        shown.extend([MASK, "@"]);
        rest = place;
    }
    match rest.split_once('?') {
        Some((place, _)) => shown.extend([place, "?", MASK]),
        None => shown.push_str(rest),
    }
    shown.push_str(closing);
}

/// How a text names secrets, in words, literals or comments.
fn naming(sql: &str) -> Naming {
    words(sql).map(|(_, word)| naming_of(word)).max().unwrap_or(Naming::Nothing)
}

fn naming_of(word: &str) -> Naming {
    // The shortest has three letters, and most words of a statement are longer than any.
    if !(3..=64).contains(&word.len()) {
        return Naming::Nothing;
    }
    let lower = word.to_ascii_lowercase();
    let lower = lower.as_str();
    if SECRETS.contains(&lower) || STEMS.iter().any(|stem| lower.contains(stem)) {
        return Naming::Secret;
    }
    if NEIGHBOURS.contains(&lower) { Naming::Neighbour } else { Naming::Nothing }
}

/// Runs of letters, digits and `_`, each with its position.
fn words(sql: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    let split = sql.split_inclusive(|letter: char| !letter.is_alphanumeric() && letter != '_');
    split.filter_map(move |piece| {
        let begin = at;
        at += piece.len();
        let word = piece.trim_end_matches(|letter: char| !letter.is_alphanumeric() && letter != '_');
        (!word.is_empty()).then_some((begin, word))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn statements_that_name_secrets_are_shown_without_literals() {
        let check = |sql: &str, shown: &str| assert_eq!(without_secrets(sql), shown, "{sql}");
        check("CREATE USER \"ann\" PASSWORD 'x y'", "CREATE USER \"ann\" PASSWORD '********'");
        check("alter user a passWord E'a\\'b' -- 'c'\n;", "alter user a passWord E'********'  \n;");
        check("ALTER USER a PASSWORD $q$it's$q$ /* or 'b' */", "ALTER USER a PASSWORD '********'  ");
        check("SELECT U&'\\0441' AS user_password", "SELECT U&'********' AS user_password");
        check(
            "SELECT 'a''b', 1 FROM t WHERE Token = 'c'",
            "SELECT '********', 1 FROM t WHERE Token = '********'",
        );
        check("OPTIONS ('aws.secret_access_key' 'k')", "OPTIONS ('********' '********')");
        check("EXPLAIN SELECT * FROM t -- my key: 'k'", "EXPLAIN SELECT * FROM t  ");
        check("SELECT 'a' FROM t WHERE d_datekey = 'b'", "SELECT 'a' FROM t WHERE d_datekey = 'b'");
        check("SELECT 'MONKEY', 'a' FROM tokenised", "SELECT 'MONKEY', 'a' FROM tokenised");
    }

    #[test]
    fn urls_are_shown_without_credentials() {
        let check = |sql: &str, shown: &str| assert_eq!(without_secrets(sql), shown, "{sql}");
        check("SELECT 's3://k:s/e@bucket/a'", "SELECT 's3://********@bucket/a'");
        check("COPY t FROM 's3://k:s''e@b/a.csv'", "COPY t FROM 's3://********@b/a.csv'");
        check(
            "COPY t FROM 'https://h/a?X-Amz-Signature=s&b=c' (FORMAT csv)",
            "COPY t FROM 'https://h/a?********' (FORMAT csv)",
        );
        check("FROM s3://k:s@b/a, $$x://u@y$$", "FROM s3://********@b/a, $$x://********@y$$");
        check("SELECT $x$http://h/a?b=it's$x$", "SELECT $x$http://h/a?********$x$");
        check("SELECT 's3://k:s?x/@b/a'", "SELECT 's3://********@b/a'");
        check("SELECT 'http://plain/a'", "SELECT 'http://plain/a'");
    }

    #[test]
    fn texts_that_cannot_be_parsed_end_where_a_secret_is_named() {
        let check = |sql: &str, shown: &str| assert_eq!(unparsed_without_secrets(sql), shown, "{sql}");
        check("EXPLAIN ALTER USER a PASSWORD hunter2", "EXPLAIN ALTER USER a PASSWORD ********");
        check("CREATE USER a IDENTIFIED BY \"hunter2\"", "CREATE USER a IDENTIFIED ********");
        check("SELECT 'a' WHERE password = 'b", "SELECT '********' WHERE password ********");
        check("SELECT 'a", "SELECT '********'");
        check("SELECT $x$a$y$", "SELECT '********'");
        check("SELECT \"a", "SELECT '********'");
        check("SELECT /* 'a", "SELECT '********'");
        check("SELEC 'a'", "SELEC 'a'");
        check(
            "CREATE TALE t (a INT PRIMARY KEY DEFAULT 'b')",
            "CREATE TALE t (a INT PRIMARY KEY DEFAULT '********')",
        );
    }

    #[test]
    fn what_is_cut_off_counts() {
        let sql = "INSERT INTO t VALUES ('hunter2', 1, 2) RETURNING password";
        assert_eq!(LoggedText::of(sql, 32).to_string(), "INSERT INTO t VALUES ('********',");
        assert_eq!(LoggedText::of("SELECT 'a', 'b'", 10).to_string(), "SELECT 'a'");
        // A literal that was cut has no end.
        assert_eq!(LoggedText::of("SELECT 'abc'", 10).to_string(), "SELECT '********'");
    }

    #[test]
    fn errors_are_shown_without_what_they_quote() {
        let error = |kind, message: &str| QueryError::new(kind, message);
        let text = LoggedText::of("SELECT CAST('hunter2' AS INT) AS password", 4096);
        let cast = error(ErrorKind::InvalidValue, "cannot cast string 'hunter2' to value of `Int32`");
        assert_eq!(text.error(&cast), "cannot cast string '********' to value of `********`");
        let syntax = error(ErrorKind::Syntax, "expected end of statement, found: hunter2");
        assert!(!text.error(&syntax).contains("hunter2"));
        assert_eq!(LoggedText::of("SELECT 'a'", 4096).error(&cast), cast.message);
        assert_eq!(hide_values("it's `a` and 'b'c' and \"d"), "it'********' and ********");
        assert_eq!(hide_values("nothing"), "nothing");
    }
}
