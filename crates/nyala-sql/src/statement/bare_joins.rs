//! Puts brackets around joins that are the right side of another join.
//!
//! ```text
//! a JOIN b JOIN c ON y ON x            a JOIN (b JOIN c ON y) ON x
//! a LEFT JOIN b NATURAL JOIN c ON x    a LEFT JOIN (b NATURAL JOIN c) ON x
//! ```
//!
//! The parser joins from left to right, and so asks for the condition of the first join before it reads the second.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// A join whose condition has not come yet.
struct Open {
    /// The place of the first token of its right side.
    side: usize,
    /// Whether another join began since then.
    holds_join: bool,
}

/// Puts brackets around the right sides that are joins.
pub fn bracket_joins(tokens: &mut Vec<TokenWithSpan>) {
    let brackets = missing_brackets(tokens);
    if brackets.is_empty() {
        return;
    }
    let mut brackets = brackets.into_iter().peekable();
    let mut bracketed = Vec::with_capacity(tokens.len() + brackets.len());
    for (place, token) in tokens.drain(..).enumerate() {
        if let Some((_, bracket)) = brackets.next_if(|(before, _)| *before == place) {
            bracketed.push(TokenWithSpan::new(bracket, token.span));
        }
        bracketed.push(token);
    }
    *tokens = bracketed;
}

/// The missing brackets, each with the place of the token that it stands before, in order.
fn missing_brackets(tokens: &[TokenWithSpan]) -> Vec<(usize, Token)> {
    let mut brackets = Vec::new();
    // The open joins within each open bracket, and those outside of all brackets.
    let mut levels: Vec<Vec<Open>> = vec![Vec::new()];
    let mut is_unconditional = false;
    for (place, token) in tokens.iter().enumerate() {
        let keyword = match &token.token {
            Token::Whitespace(_) => continue,
            Token::LParen => {
                levels.push(Vec::new());
                Keyword::NoKeyword
            }
            Token::RParen => {
                levels.pop();
                Keyword::NoKeyword
            }
            Token::Word(word) => word.keyword,
            _ => Keyword::NoKeyword,
        };
        let Some(open) = levels.last_mut() else { break };
        match keyword {
            Keyword::CROSS | Keyword::NATURAL => is_unconditional = true,
            Keyword::INNER | Keyword::LEFT | Keyword::RIGHT | Keyword::FULL | Keyword::OUTER => {}
            Keyword::JOIN => {
                if let Some(outer) = open.last_mut() {
                    outer.holds_join = true;
                }
                if !is_unconditional {
                    open.push(Open { side: place + 1, holds_join: false });
                }
                is_unconditional = false;
            }
            Keyword::ON | Keyword::USING => {
                if let Some(Open { side, holds_join: true }) = open.pop() {
                    brackets.extend([(side, Token::LParen), (place, Token::RParen)]);
                }
            }
            _ => is_unconditional = false,
        }
    }
    brackets.sort_by_key(|(place, _)| *place);
    brackets
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;
    use crate::statement::dialect::Postgres;

    #[test]
    fn right_sides_that_are_joins_are_bracketed() {
        let check = |sql, expected: &str| {
            let mut tokens = Tokenizer::new(&Postgres::for_tokens(0), sql).tokenize_with_location().unwrap();
            bracket_joins(&mut tokens);
            let text: String = tokens.iter().map(|token| token.token.to_string()).collect();
            assert_eq!(text.replace(' ', ""), expected.replace(' ', ""), "{sql}");
        };
        let check_same = |sql| check(sql, sql);
        check("a JOIN b JOIN c ON y ON x", "a JOIN (b JOIN c ON y) ON x");
        check("a JOIN b JOIN c JOIN d ON z ON y ON x", "a JOIN (b JOIN (c JOIN d ON z) ON y) ON x");
        check("a JOIN b JOIN c ON y JOIN d ON z ON x", "a JOIN (b JOIN c ON y JOIN d ON z) ON x");
        check("a JOIN b JOIN c USING (y) ON x JOIN d ON z", "a JOIN (b JOIN c USING (y)) ON x JOIN d ON z");
        check(
            "a LEFT OUTER JOIN b NATURAL LEFT JOIN c USING (x)",
            "a LEFT OUTER JOIN (b NATURAL LEFT JOIN c) USING (x)",
        );
        check("a FULL JOIN b CROSS JOIN c ON x", "a FULL JOIN (b CROSS JOIN c) ON x");
        check(
            "a JOIN (SELECT 1 FROM d JOIN e JOIN f ON y ON x) b ON z",
            "a JOIN (SELECT 1 FROM d JOIN (e JOIN f ON y) ON x) b ON z",
        );
        check_same("a JOIN b ON x JOIN c ON y");
        check_same("a NATURAL JOIN b JOIN c ON x");
        check_same("a CROSS JOIN b JOIN c ON x");
        check_same("a CROSS JOIN b NATURAL INNER JOIN c JOIN d USING (x)");
        check_same("a JOIN b ON (SELECT 1 FROM d JOIN e ON y) JOIN c ON x");
        check_same("a JOIN \"join\" ON x");
        check_same("a JOIN b JOIN c ON x");
        check_same("a) JOIN b JOIN c ON y ON x");
    }
}
