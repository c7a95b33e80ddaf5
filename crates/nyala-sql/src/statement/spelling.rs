//! Rewrites spellings of PostgreSQL's clients that the parser does not know into ones that it knows.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::bare_joins::bracket_joins;
use super::session_spelling::{respell_cursors, respell_explain, respell_operators};

/// Rewrites the tokens of a statement; also ABORT to ROLLBACK, and leaves out DEFERRABLE, because a read-only transaction never waits here.
pub fn respell(tokens: &mut Vec<TokenWithSpan>) {
    respell_similar(tokens);
    bracket_joins(tokens);
    respell_cursors(tokens);
    respell_explain(tokens);
    respell_operators(tokens);
    let words: Vec<(usize, String)> = tokens
        .iter()
        .enumerate()
        .filter(|(_, token)| !matches!(token.token, Token::Whitespace(_) | Token::EOF))
        .map(|(place, token)| (place, word(&token.token)))
        .collect();
    let is =
        |at: usize, wanted: &[&str]| words.get(at).is_some_and(|(_, word)| wanted.contains(&word.as_str()));
    if is(0, &["ABORT"])
        && let Some(token) = words.first().and_then(|(place, _)| tokens.get_mut(*place))
    {
        token.token = Token::make_keyword("ROLLBACK");
    }
    let begins = is(0, &["BEGIN", "START"]) || (is(0, &["SET"]) && is(1, &["TRANSACTION", "SESSION"]));
    if !begins {
        return;
    }
    let mut left_out = Vec::new();
    for at in (0..words.len()).filter(|at| is(*at, &["DEFERRABLE"])) {
        let negated = at > 0 && is(at - 1, &["NOT"]);
        let first = if negated { at - 1 } else { at };
        left_out.extend(first..=at);
        if first > 0 && is(first - 1, &[","]) {
            left_out.push(first - 1);
        }
    }
    let places: Vec<usize> =
        left_out.iter().filter_map(|at| words.get(*at)).map(|(place, _)| *place).collect();
    let mut place = 0;
    tokens.retain(|_| {
        place += 1;
        !places.contains(&(place - 1))
    });
}

/// Rewrites `substring(text SIMILAR pattern ESCAPE sign)` to `substring(text FROM pattern FOR sign)`.
fn respell_similar(tokens: &mut [TokenWithSpan]) {
    // For each open bracket: whether it is that of `substring`, and whether SIMILAR came in it.
    let mut open = Vec::new();
    let mut last = String::new();
    let words: Vec<String> = tokens.iter().map(|token| word(&token.token)).collect();
    for (place, token) in tokens.iter_mut().enumerate() {
        let Some(current) = words.get(place).filter(|_| !matches!(token.token, Token::Whitespace(_))) else {
            continue;
        };
        let next = words.iter().skip(place + 1).find(|word| !word.trim().is_empty());
        match current.as_str() {
            "(" => open.push((last == "SUBSTRING", false)),
            ")" => drop(open.pop()),
            "SIMILAR" if next.is_some_and(|next| next != "TO") => {
                if let Some((true, is_similar)) = open.last_mut() {
                    *is_similar = true;
                    token.token = Token::make_keyword("FROM");
                }
            }
            "ESCAPE" if matches!(open.last(), Some((true, true))) => token.token = Token::make_keyword("FOR"),
            _ => {}
        }
        last.clone_from(current);
    }
}

/// An unquoted word in capitals, or a sign.
fn word(token: &Token) -> String {
    match token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
        Token::Word(_) => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;
    use crate::statement::dialect::Postgres;

    #[test]
    fn words_of_transactions_are_known() {
        let check = |sql, expected: &str| {
            let mut tokens = Tokenizer::new(&Postgres::for_tokens(0), sql).tokenize_with_location().unwrap();
            respell(&mut tokens);
            let text: String = tokens.iter().map(|token| token.token.to_string()).collect();
            assert_eq!(text.split_whitespace().collect::<Vec<_>>().join(" "), expected, "{sql}");
        };
        check("abort", "ROLLBACK");
        check("BEGIN READ ONLY, NOT DEFERRABLE", "BEGIN READ ONLY");
        check(
            "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE",
            "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY",
        );
        check("START TRANSACTION DEFERRABLE", "START TRANSACTION");
        check("SET TRANSACTION READ ONLY, DEFERRABLE", "SET TRANSACTION READ ONLY");
        check("SELECT abort, deferrable FROM \"ABORT\"", "SELECT abort, deferrable FROM \"ABORT\"");
        check("SET a = deferrable", "SET a = deferrable");
    }
}
