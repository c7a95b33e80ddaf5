//! Reads the next words of a statement that only Nyala knows.

use datafusion::common::DataFusionError;
use datafusion::sql::parser::DFParser;
use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::error::{ErrorKind, QueryError, Result};

/// Parses a name, which must come next.
pub fn parse_name(parser: &mut DFParser<'_>) -> Result<ObjectName> {
    parser.parser.parse_object_name(false).map_err(from_parser)
}

/// The word `n` tokens ahead, in capitals; none if that token is no word, or is in quotes.
pub fn peek_word(parser: &DFParser<'_>, n: usize) -> Option<String> {
    match parser.parser.peek_nth_token(n).token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_uppercase()),
        _ => None,
    }
}

/// Steps over `n` tokens.
pub fn skip(parser: &mut DFParser<'_>, n: usize) {
    for _ in 0..n {
        parser.parser.next_token();
    }
}

/// Skips this word, which must come next.
pub fn expect_word(parser: &mut DFParser<'_>, word: &str) -> Result<()> {
    if peek_word(parser, 0).as_deref() != Some(word) {
        return Err(expected(parser, &format!("`{word}`")));
    }
    skip(parser, 1);
    Ok(())
}

/// Fails unless the statement ends here.
pub fn expect_end(parser: &mut DFParser<'_>) -> Result<()> {
    match parser.parser.peek_token().token {
        Token::EOF => Ok(()),
        _ => Err(expected(parser, "end of statement")),
    }
}

/// The error for a token other than the expected one.
pub fn expected(parser: &DFParser<'_>, what: &str) -> QueryError {
    let found = parser.parser.peek_token();
    let place = found.span.start;
    let place = if place.line == 0 {
        String::new()
    } else {
        format!(" at line {}, column {}", place.line, place.column)
    };
    QueryError::new(ErrorKind::Syntax, format!("expected {what}, found `{found}`{place}"))
}

/// Converts an error of the parser to ours.
pub fn from_parser(error: ParserError) -> QueryError {
    DataFusionError::from(error).into()
}
