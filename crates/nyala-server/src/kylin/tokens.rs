//! Texts of SQL as tokens. What is in quotes or a comment is one token.

/// A piece of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Token<'t> {
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
    /// Whether the token is this word, in capitals or not.
    pub fn is_word(&self, wanted: &str) -> bool {
        matches!(self, Self::Word(word) if word.eq_ignore_ascii_case(wanted))
    }
}

/// The tokens of a text, which are the whole text together.
pub fn tokens_of(sql: &str) -> Vec<Token<'_>> {
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

/// Whether words have this character.
pub fn is_of_word(character: char) -> bool {
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
        // The end is looked for behind the mark of the beginning: `/*/` does not end the comment.
        _ if rest.starts_with("/*") => {
            until(rest.get(2..).and_then(|rest| rest.find("*/")).map(|end| end + 4))
        }
        _ if first.is_whitespace() => until(rest.find(|c: char| !c.is_whitespace())),
        _ if is_of_word(first) => until(rest.find(|c: char| !is_of_word(c))),
        _ => first.len_utf8(),
    }
}

/// Length of a text in quotes: a doubled quote is part of it.
fn quoted_length(rest: &str, quote: char) -> usize {
    let mut characters = rest.char_indices().skip(1).peekable();
    while let Some((at, character)) = characters.next() {
        if character == quote && characters.next_if(|(_, next)| *next == quote).is_none() {
            return at + quote.len_utf8();
        }
    }
    rest.len()
}

/// The tokens without spaces around them.
pub fn trimmed<'s, 't>(mut tokens: &'s [Token<'t>]) -> &'s [Token<'t>] {
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

    #[test]
    fn quotes_and_comments_are_single_tokens() {
        let tokens = tokens_of("a_1 'it''s' \"b\"\"\"-- ?\n/* ; */(ä");
        assert_eq!(
            tokens,
            [
                Token::Word("a_1"),
                Token::Space(" "),
                Token::Quoted("'it''s'"),
                Token::Space(" "),
                Token::Quoted("\"b\"\"\""),
                Token::Space("-- ?"),
                Token::Space("\n"),
                Token::Space("/* ; */"),
                Token::Mark('('),
                Token::Word("ä"),
            ]
        );
        assert_eq!(trimmed(&tokens_of(" a ")), [Token::Word("a")]);
        assert_eq!(tokens_of("/*/ ? */a"), [Token::Space("/*/ ? */"), Token::Word("a")]);
        assert_eq!(tokens_of("/* open"), [Token::Space("/* open")]);
        assert_eq!(tokens_of("'open"), [Token::Quoted("'open")]);
        assert!(tokens_of("").is_empty() && trimmed(&tokens_of(" ")).is_empty());
    }
}
