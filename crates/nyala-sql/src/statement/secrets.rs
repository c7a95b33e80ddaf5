//! Hides passwords, keys and tokens in the statements that logs and lists show.
//!
//! Only the parsed statement tells which of its literals are secrets, and a text with a secret may not be
//! parsable. So if a text names a secret anywhere (`password`, `secret`, `token` …), all of its literals are
//! hidden, by their positions in the text. Credentials in URLs are always hidden.

mod literals;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use self::literals::{Kind, Part, parts};
use crate::error::{ErrorKind, QueryError};

/// Text shown in the place of a hidden one.
pub const MASK: &str = "********";

/// Words that contain one of these stems name a secret, and the text after them may be a secret without quotes.
const STEMS: [&str; 8] =
    ["password", "passwd", "passphrase", "secret", "credential", "apikey", "accesskey", "privatekey"];
/// Whole words that name a secret in this way.
const SECRETS: [&str; 6] = ["pwd", "identified", "api_key", "access_key", "private_key", "bearer"];
/// Whole words whose literals may hold secrets. The words have other meanings, too.
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
    /// The text has a word whose literals may hold secrets.
    Neighbour,
    /// The text has a word after which a secret may stand in any form.
    Secret,
}

/// A statement's text for logs and lists: it can be shown only without its secrets.
#[derive(Debug, Clone)]
pub struct LoggedText {
    text: Arc<str>,
    /// Whether the part that was cut off names a secret.
    more: bool,
}

impl LoggedText {
    /// Keeps the first `bytes` bytes of a text.
    pub fn of(text: &str, bytes: usize) -> Self {
        let kept = text.get(..text.floor_char_boundary(bytes)).unwrap_or_default();
        let more = kept.len() < text.len() && naming(text) > Naming::Nothing;
        Self { text: kept.into(), more }
    }

    /// An error's text for logs and lists: it may quote the statement.
    pub fn error(&self, error: &QueryError) -> String {
        error_without_secrets(&error.message, error.kind, self.more || naming(&self.text) > Naming::Nothing)
    }
}

impl fmt::Display for LoggedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hidden(&self.text, self.more || naming(&self.text) > Naming::Nothing))
    }
}

/// A statement's text without its secrets.
pub fn without_secrets(sql: &str) -> Cow<'_, str> {
    hidden(sql, naming(sql) > Naming::Nothing)
}

/// As [`without_secrets`], for a text that cannot be parsed and may have secrets without quotes: it is cut after the first name of a secret.
pub fn unparsed_without_secrets(sql: &str) -> Cow<'_, str> {
    let secret = words(sql).find(|(_, word)| naming_of(word) == Naming::Secret);
    match secret.and_then(|(at, word)| sql.get(..at + word.len())) {
        Some(beginning) => format!("{} {MASK}", hidden(beginning, true)).into(),
        None => without_secrets(sql),
    }
}

/// The text of an error that logs may show, for a statement with this text.
pub fn error_of(sql: &str, error: &QueryError) -> String {
    error_without_secrets(&error.message, error.kind, naming(sql) > Naming::Nothing)
}

fn error_without_secrets(message: &str, kind: ErrorKind, secret: bool) -> String {
    match (secret, kind) {
        (false, _) => hidden(message, false).into_owned(),
        // A syntax error quotes the text that it found.
        (true, ErrorKind::Syntax) => "syntax error in a statement that names a secret".to_owned(),
        (true, _) => hide_values(message),
    }
}

/// A message for a log, without the values that it quotes, for errors whose statement is not known.
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

/// The text with URLs without credentials, and, if it names a secret, without literals and comments.
fn hidden(sql: &str, secret: bool) -> Cow<'_, str> {
    let parts = parts(sql);
    let whole = parts.iter().all(|part| part.whole);
    if !secret && whole && !sql.contains("://") {
        return Cow::Borrowed(sql);
    }
    let mut shown = String::with_capacity(sql.len());
    let mut next = Next::Anything;
    for part in parts {
        let text = sql.get(part.range.clone()).unwrap_or_default();
        match part {
            // The intended end of the part is unknown.
            Part { whole: false, .. } => shown.extend(["'", MASK, "'"]),
            Part { kind: Kind::Literal, .. } if secret => shown.extend(["'", MASK, "'"]),
            Part { kind: Kind::Name, .. } if secret && next == Next::Value => {
                shown.extend(["\"", MASK, "\""])
            }
            Part { kind: Kind::Comment, .. } if secret => shown.push(' '),
            Part { kind: Kind::Literal, .. } => push_url(&mut shown, text, closing_of(text)),
            Part { .. } => {
                let mut plain = String::new();
                let closing =
                    |word: &str| word.chars().last().filter(|last| ends_url(*last)).map_or(0, char::len_utf8);
                text.split_inclusive(ends_url).for_each(|word| push_url(&mut plain, word, closing(word)));
                if secret { next = push_words(&mut shown, &plain, next) } else { shown.push_str(&plain) }
            }
        }
        if matches!(part.kind, Kind::Literal | Kind::Name) {
            next = Next::Anything;
        }
    }
    shown.into()
}

/// The role of the next word, in a statement that names secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Anything,
    /// The sign after the name of a secret: `=`, TO or BY.
    Sign,
    /// The secret itself, which needs no quotes: `SET password = x`.
    Value,
}

/// Adds a text without quotes, and hides words that are given to the name of a secret.
fn push_words(shown: &mut String, text: &str, mut next: Next) -> Next {
    for piece in pieces(text) {
        let is_word = piece.starts_with(is_of_word);
        let hides = is_word && next == Next::Value;
        shown.push_str(if hides { MASK } else { piece });
        next = match next {
            Next::Value if hides => Next::Anything,
            Next::Sign if ["=", ":="].contains(&piece.trim()) => Next::Value,
            Next::Sign if ["to", "by"].iter().any(|word| piece.eq_ignore_ascii_case(word)) => Next::Value,
            _ if is_word && naming_of(piece) == Naming::Secret => Next::Sign,
            _ if piece.trim().is_empty() => next,
            _ => Next::Anything,
        };
    }
    next
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Words, and the text between them.
fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let is_word = text.starts_with(is_of_word);
        let end = text.find(|letter| is_of_word(letter) != is_word).unwrap_or(text.len());
        let (piece, rest) = text.split_at_checked(end)?;
        text = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

fn ends_url(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, ',' | ';' | ')' | '"' | '`')
}

/// Length of a literal's closing quote.
fn closing_of(literal: &str) -> usize {
    match literal.strip_prefix('$').and_then(|rest| rest.find('$')) {
        Some(tag) => tag + 2,
        None => 1,
    }
}

/// Adds a text whose last `closing` bytes are not part of a URL. Hides the name and password in `scheme://name:password@server`, and the
/// parameters after `?`, one of which may be a signature. A password may contain any of these characters, so that the last `@` counts.
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

/// How the words, literals or comments of a text name secrets.
fn naming(sql: &str) -> Naming {
    words(sql).map(|(_, word)| naming_of(word)).max().unwrap_or(Naming::Nothing)
}

fn naming_of(word: &str) -> Naming {
    // The shortest of these words has three letters. Longer words than this are not looked at.
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
    pieces(sql).filter_map(move |piece| {
        let begin = at;
        at += piece.len();
        piece.starts_with(is_of_word).then_some((begin, piece))
    })
}
