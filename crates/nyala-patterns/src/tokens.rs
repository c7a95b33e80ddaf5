//! Cuts a date or time pattern into its parts.

use super::keywords::{Key, find_keyword};
use super::literals::{Literal, is_separator, is_space, take_literal};
use super::names::Case;

/// One part of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    Field(Field),
    /// A letter, a digit, a character outside ASCII, or anything quoted.
    Text(char),
    /// ASCII punctuation outside quotes. A reader accepts any separator in its place.
    Separator(char),
    /// White space outside quotes.
    Space(char),
}

/// A field with its modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) key: Key,
    /// The field as its pattern spells it, for messages.
    pub(super) name: &'static str,
    /// `FM`: no padding; a reader takes as many digits as there are.
    pub(super) fill: bool,
    /// `TM`: names without padding. The names themselves are those of the locale `C`, which are English.
    pub(super) translated: bool,
    /// `TH`, `th`: an ordinal's ending.
    pub(super) ordinal: Option<Case>,
}

/// The parts of a pattern. Every text is a pattern: a character that is in no field stands for itself.
pub(super) fn cut(pattern: &str) -> Vec<Node> {
    let mut nodes = Vec::new();
    let mut rest = pattern;
    while !rest.is_empty() {
        let (prefix, after) = take_prefix(rest);
        rest = match find_keyword(after) {
            Some(keyword) => {
                let mut field = prefix.field(keyword.key, keyword.name);
                let after = after.get(keyword.name.len()..).unwrap_or_default();
                let (ordinal, after) = take_postfix(after);
                field.ordinal = ordinal;
                nodes.push(Node::Field(field));
                after
            }
            // Modifiers before something other than a field are dropped.
            None => take_literal(after, |literal| nodes.push(node_of(literal))),
        };
    }
    nodes
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prefix {
    None,
    Fill,
    Translated,
}

impl Prefix {
    fn field(self, key: Key, name: &'static str) -> Field {
        let (fill, translated) = (self == Self::Fill, self == Self::Translated);
        Field { key, name, fill, translated, ordinal: None }
    }
}

fn take_prefix(pattern: &str) -> (Prefix, &str) {
    let known =
        [("FM", Prefix::Fill), ("fm", Prefix::Fill), ("TM", Prefix::Translated), ("tm", Prefix::Translated)];
    let found = known.into_iter().find_map(|(name, prefix)| Some((prefix, pattern.strip_prefix(name)?)));
    found.unwrap_or((Prefix::None, pattern))
}

/// `SP`, spelling a number out, is accepted and does nothing, as in PostgreSQL.
fn take_postfix(pattern: &str) -> (Option<Case>, &str) {
    let known = [("TH", Some(Case::Upper)), ("th", Some(Case::Lower)), ("SP", None)];
    let found = known.into_iter().find_map(|(name, ordinal)| Some((ordinal, pattern.strip_prefix(name)?)));
    found.unwrap_or((None, pattern))
}

fn node_of(literal: Literal) -> Node {
    let Literal { character, quoted } = literal;
    match u8::try_from(character) {
        Ok(byte) if !quoted && is_separator(byte) => Node::Separator(character),
        Ok(byte) if !quoted && is_space(byte) => Node::Space(character),
        _ => Node::Text(character),
    }
}

impl Node {
    /// Whether a reader sees a digit here.
    pub(super) fn is_digit(self) -> bool {
        match self {
            Self::Field(field) => field.key.is_number(),
            Self::Text(character) => character.is_ascii_digit(),
            Self::Separator(_) | Self::Space(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(pattern: &str) -> Vec<String> {
        let name = |node| match node {
            Node::Field(field) => field.name.to_owned(),
            Node::Text(c) | Node::Separator(c) | Node::Space(c) => format!("'{c}'"),
        };
        cut(pattern).into_iter().map(name).collect()
    }

    #[test]
    fn the_longest_field_wins() {
        assert_eq!(names("HH24HH12HHIYYYDDDD"), ["HH24", "HH12", "HH", "IYYY", "DDD", "D"]);
    }

    #[test]
    fn quotes_and_backslashes() {
        assert_eq!(names(r#"YY"YY\"\\"\"\Y"#), ["YY", "'Y'", "'Y'", "'\"'", "'\\'", "'\"'", "'\\'", "Y"]);
        assert_eq!(names("\"never closed\\"), names("\"never closed\\\\\""));
    }

    #[test]
    fn a_node_is_small() {
        // `Template::MAX_PATTERN_BYTES` is chosen for nodes of this size.
        assert!(size_of::<Node>() <= 24);
    }

    #[test]
    fn a_prefix_without_a_field_is_lost() {
        assert_eq!(names("FM-FM"), ["'-'"]);
    }
}
