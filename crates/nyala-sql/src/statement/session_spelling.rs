//! Rewrites statements about cursors and plans from spellings that the parser does not know to ones that it knows.
//!
//! ```text
//! FETCH c            FETCH NEXT FROM c
//! FETCH ALL c        FETCH ALL FROM c
//! MOVE 5 IN c        FETCH 5 FROM c INTO "MOVE"
//! EXPLAIN (COSTS off, ANALYZE) SELECT …   EXPLAIN (ANALYZE) SELECT …
//! ```

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

/// The target that marks a FETCH as a MOVE: PostgreSQL's FETCH has no target.
pub const MOVED: &str = "MOVE";

/// Directions that take a number, which is 1 where it is left out.
const COUNTED: [&str; 2] = ["FORWARD", "BACKWARD"];

/// Rewrites the tokens of FETCH and MOVE; others stay as they are.
pub fn respell_cursors(tokens: &mut Vec<TokenWithSpan>) {
    let mut words: Vec<Token> = tokens
        .iter()
        .map(|token| token.token.clone())
        .filter(|token| !matches!(token, Token::Whitespace(_) | Token::EOF))
        .collect();
    let first = words.first().map(word).unwrap_or_default();
    if first != "FETCH" && first != "MOVE" || words.len() < 2 {
        return;
    }
    words.remove(0);
    let Some((direction, cursor)) = parts(words) else { return };
    let mut spelt = vec![Token::make_keyword("FETCH")];
    spelt.extend(direction);
    spelt.extend([Token::make_keyword("FROM"), cursor]);
    if first == "MOVE" {
        spelt.extend([Token::make_keyword("INTO"), Token::make_word(MOVED, Some('"'))]);
    }
    let span = tokens.first().map_or_else(Span::empty, |token| token.span);
    *tokens = spelt.into_iter().map(|token| TokenWithSpan::new(token, span)).collect();
    tokens.push(TokenWithSpan::new(Token::EOF, span));
}

/// Rewrites `a OPERATOR(pg_catalog.=) b` to `a = b`: there are no operators but those of the system.
pub fn respell_operators(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while let Some(end) = end_of_operator(tokens, at) {
        match end {
            0 => at += 1,
            end => {
                // The bracket at the end is removed first, then the word, the bracket, the schema and the point before the operator.
                let _ = tokens.splice(at + end..=at + end, []);
                let _ = tokens.splice(at..at + 4, []);
            }
        }
    }
}

/// The distance from `at` to the bracket that ends `OPERATOR(pg_catalog.…)`: 0 if no such operator begins there, none at the end of the text.
fn end_of_operator(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    let rest = tokens.get(at..).filter(|rest| !rest.is_empty())?;
    let [operator, bracket, schema, point, behind @ ..] = rest else { return Some(0) };
    let is_operator = word(&operator.token) == "OPERATOR"
        && bracket.token == Token::LParen
        && word(&schema.token) == "PG_CATALOG"
        && point.token == Token::Period;
    let end = behind.iter().take(3).position(|token| token.token == Token::RParen);
    Some(end.filter(|_| is_operator).map_or(0, |end| end + 4))
}

/// Options of EXPLAIN about facts that plans do not have here.
const WITHOUT_MEANING: [&str; 8] =
    ["BUFFERS", "COSTS", "GENERIC_PLAN", "MEMORY", "SERIALIZE", "SETTINGS", "SUMMARY", "TIMING"];

/// Removes the options of `EXPLAIN (…)` that have no effect here, and `FORMAT TEXT`, which is the default.
pub fn respell_explain(tokens: &mut Vec<TokenWithSpan>) {
    let places: Vec<usize> =
        (0..tokens.len()).filter(|at| tokens.get(*at).is_some_and(|token| !is_space(&token.token))).collect();
    let token = |at: usize| places.get(at).and_then(|place| tokens.get(*place)).map(|token| &token.token);
    if token(0).map(word).as_deref() != Some("EXPLAIN") || token(1) != Some(&Token::LParen) {
        return;
    }
    let Some(end) = (2..places.len()).find(|at| token(*at) == Some(&Token::RParen)) else { return };
    let options: Vec<Token> = (2..end).filter_map(|at| token(at).cloned()).collect();
    let kept: Vec<&[Token]> =
        options.split(|token| *token == Token::Comma).filter(|option| is_kept(option)).collect();
    let span = tokens.first().map_or_else(Span::empty, |token| token.span);
    let mut spelt = Vec::new();
    for option in &kept {
        spelt.push(if spelt.is_empty() { Token::LParen } else { Token::Comma });
        spelt.extend(option.iter().cloned());
    }
    if !kept.is_empty() {
        spelt.push(Token::RParen);
    }
    let (Some(first), Some(last)) = (places.get(1), places.get(end)) else { return };
    tokens.splice(*first..=*last, spelt.into_iter().map(|token| TokenWithSpan::new(token, span)));
}

fn is_kept(option: &[Token]) -> bool {
    let name = option.first().map(word).unwrap_or_default();
    let value = option.get(1).map(word).unwrap_or_default();
    let is_usual = name.is_empty() || name == "FORMAT" && value == "TEXT";
    !is_usual && name != "WAL" && !WITHOUT_MEANING.contains(&name.as_str())
}

fn is_space(token: &Token) -> bool {
    matches!(token, Token::Whitespace(_))
}

/// The direction, in words that the parser knows, and the name of the cursor.
fn parts(mut words: Vec<Token>) -> Option<(Vec<Token>, Token)> {
    let cursor = words.pop().filter(|token| matches!(token, Token::Word(_)))?;
    if words.last().is_some_and(|last| matches!(word(last).as_str(), "FROM" | "IN")) {
        words.pop();
    }
    let mut direction = Vec::new();
    let mut rest = words.into_iter().peekable();
    while let Some(token) = rest.next() {
        match (&token, rest.peek()) {
            (Token::Minus, Some(Token::Number(digits, long))) => {
                direction.push(Token::Number(format!("-{digits}"), *long));
                rest.next();
            }
            (Token::Plus, _) => {}
            _ => direction.push(token),
        }
    }
    match direction.as_slice() {
        [] => direction.push(Token::make_keyword("NEXT")),
        [one] if COUNTED.contains(&word(one).as_str()) => {
            direction.push(Token::Number("1".to_owned(), false))
        }
        _ => {}
    }
    (direction.len() <= 2).then_some((direction, cursor))
}

fn word(token: &Token) -> String {
    match token {
        Token::Word(word) if word.quote_style.is_none() || word.keyword != Keyword::NoKeyword => {
            word.value.to_ascii_uppercase()
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;
    use crate::statement::dialect::Postgres;

    #[test]
    fn fetch_and_explain_have_many_spellings() {
        let check = |sql, expected: &str| {
            let mut tokens = Tokenizer::new(&Postgres::for_tokens(0), sql).tokenize_with_location().unwrap();
            respell_cursors(&mut tokens);
            respell_explain(&mut tokens);
            respell_operators(&mut tokens);
            let text = tokens.iter().map(|token| token.token.to_string()).collect::<Vec<_>>().join(" ");
            assert_eq!(
                text.trim_end_matches("EOF").split_whitespace().collect::<Vec<_>>().join(" "),
                expected
            );
        };
        check("fetch c", "FETCH NEXT FROM c");
        check("FETCH ALL c", "FETCH ALL FROM c");
        check("FETCH FORWARD FROM c", "FETCH FORWARD 1 FROM c");
        check("FETCH -5 IN c", "FETCH -5 FROM c");
        check("FETCH ABSOLUTE -1 c", "FETCH ABSOLUTE -1 FROM c");
        check("MOVE 5 IN c", "FETCH 5 FROM c INTO \"MOVE\"");
        check("MOVE c", "FETCH NEXT FROM c INTO \"MOVE\"");
        check("SELECT fetch FROM c", "SELECT fetch FROM c");
        check("SELECT a OPERATOR(pg_catalog.~) b", "SELECT a ~ b");
        check("SELECT operator(a.b)", "SELECT operator ( a . b )");
        check("EXPLAIN (COSTS off, FORMAT TEXT) SELECT 1", "EXPLAIN SELECT 1");
        check("EXPLAIN (ANALYZE, BUFFERS) SELECT 1", "EXPLAIN ( ANALYZE ) SELECT 1");
    }
}
