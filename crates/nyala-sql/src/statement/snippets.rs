//! Parts of statements that are written as text and parsed again.

use datafusion::sql::sqlparser::ast::{Expr, Query};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

use super::dialect::Postgres;
use super::words::from_parser;
use crate::error::{ErrorKind, QueryError, Result};

/// Longest text that a part of a statement is written as.
const MAX_TEXT_BYTES: usize = 4 << 20;

/// Parses a text in the dialect of the statements, so that operators bind as they do there.
fn parsed<T>(
    text: &str,
    parse: impl FnOnce(&mut Parser<'_>) -> std::result::Result<T, ParserError>,
) -> Result<T> {
    // A part that is written twice doubles the text at each level of nesting.
    if text.len() > MAX_TEXT_BYTES {
        let error = QueryError::new(ErrorKind::LimitExceeded, "rows are compared within rows too deeply");
        return Err(error.hint("split the statement with common table expressions"));
    }
    let dialect = Postgres::for_tokens(text.len());
    let mut parser = Parser::new(&dialect).try_with_sql(text).map_err(from_parser)?;
    parse(&mut parser).map_err(from_parser)
}

/// Parses a query that becomes a part of a statement.
pub fn parse_query(text: &str) -> Result<Box<Query>> {
    parsed(text, |parser| parser.parse_query())
}

/// Parses an expression that becomes a part of a statement.
pub fn parse_expr(text: &str) -> Result<Expr> {
    parsed(text, |parser| parser.parse_expr())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn parts_are_read_as_in_the_statement() {
        assert!(matches!(parse_expr("p IS DISTINCT FROM true AND q").unwrap(), Expr::BinaryOp { .. }));
        for query in [
            "SELECT 1 FROM t WHERE p IS NOT DISTINCT FROM q OR r",
            "SELECT a FROM t GROUP BY ROLLUP ((a)::INT, (b, c))",
        ] {
            assert_eq!(parse_query(query).unwrap().to_string(), query);
        }
    }
}
