//! Texts in quotes that continue on another line.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// Joins texts that are separated only by white space with a line break, as the SQL standard says. Otherwise
/// the second text would be taken for an alias of the first.
pub fn join_texts(tokens: &mut Vec<TokenWithSpan>) {
    let is_text = |token: &TokenWithSpan| matches!(token.token, Token::SingleQuotedString(_));
    if tokens.iter().filter(|token| is_text(token)).count() < 2 {
        return;
    }
    let mut joined: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for token in std::mem::take(tokens) {
        let Token::SingleQuotedString(more) = &token.token else {
            joined.push(token);
            continue;
        };
        let before = joined.iter().rposition(|token| !matches!(token.token, Token::Whitespace(_)));
        let breaks = |between: &[TokenWithSpan]| between.iter().any(|token| is_break(&token.token));
        match before {
            Some(at) if joined.get(at).is_some_and(is_text) && joined.get(at + 1..).is_some_and(breaks) => {
                joined.truncate(at + 1);
                if let Some(Token::SingleQuotedString(text)) = joined.last_mut().map(|token| &mut token.token)
                {
                    text.push_str(more);
                }
            }
            _ => joined.push(token),
        }
    }
    *tokens = joined;
}

fn is_break(token: &Token) -> bool {
    matches!(token, Token::Whitespace(Whitespace::Newline | Whitespace::SingleLineComment { .. }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    #[test]
    fn texts_go_on_in_another_line() {
        let check = |sql: &str, expected: &str| {
            let mut tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location().unwrap();
            join_texts(&mut tokens);
            let found: String = tokens.iter().map(|token| token.token.to_string()).collect();
            assert_eq!(found, expected);
        };
        check("SELECT 'a'\n  'b' -- c\n 'c', 'd'", "SELECT 'abc', 'd'");
        check("SELECT 'a' 'b'", "SELECT 'a' 'b'");
        check("IN ('a',\n'b')", "IN ('a',\n'b')");
    }
}
