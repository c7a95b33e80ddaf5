//! Parts of statements that are written as text and parsed again.

use datafusion::sql::sqlparser::ast::{Expr, Query};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::words::from_parser;
use crate::error::{ErrorKind, QueryError, Result};

/// Longest text that a clause is written as.
const MAX_TEXT_BYTES: usize = 4 << 20;

fn parser(text: &str) -> Result<Parser<'static>> {
    static DIALECT: PostgreSqlDialect = PostgreSqlDialect {};
    // A part that is written twice doubles the text at each level.
    if text.len() > MAX_TEXT_BYTES {
        let error = QueryError::new(ErrorKind::LimitExceeded, "rows are compared within rows too deeply");
        return Err(error.hint("split the statement with common table expressions"));
    }
    Parser::new(&DIALECT).try_with_sql(text).map_err(from_parser)
}

/// A query that is a part of a statement.
pub fn parse_query(text: &str) -> Result<Box<Query>> {
    parser(text)?.parse_query().map_err(from_parser)
}

/// An expression that is a part of a statement.
pub fn parse_expr(text: &str) -> Result<Expr> {
    parser(text)?.parse_expr().map_err(from_parser)
}
