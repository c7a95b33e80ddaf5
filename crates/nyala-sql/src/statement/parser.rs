//! The parser: DataFusion's, preceded by that of Nyala's statements.

use std::collections::VecDeque;

use datafusion::common::DataFusionError;
use datafusion::sql::parser::{DFParserBuilder, Statement as DfStatement};
use datafusion::sql::sqlparser::ast::{Query, Statement as SqlStatement};
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use super::array_calls::call_arrays_within;
use super::ast::{Kind, Nyala, Statement};
use super::balance::balance_chains;
use super::clauses::{count_microseconds, rewrite_clauses};
use super::copy::{is_copy_to_client, parse_copy_to_client};
use super::copy_to::{parse_copy_to, place_of_target};
use super::dialect::Postgres;
use super::limits::StatementLimits;
use super::literals::join_texts;
use super::live::select_into;
use super::numbers::write_out;
use super::nyala_parser::parse_nyala;
use super::session_user::may_name_user;
use super::spelling::respell;
use super::titles::name_columns_within;
use super::words::expect_end;
use crate::error::{ErrorKind, QueryError, Result};

/// Most levels of recursion of the parser; brackets are bounded before it starts.
pub const RECURSION_LIMIT: usize = 300;

/// Splits `sql` into statements. An empty text has none.
pub fn parse(sql: &str, limits: &StatementLimits) -> Result<Vec<Statement>> {
    limits.check_bytes(sql)?;
    let mut tokens = Tokenizer::new(&Postgres::for_tokens(0), sql)
        .tokenize_with_location()
        .map_err(|error| QueryError::from(DataFusionError::from(ParserError::from(error))))?;
    join_texts(&mut tokens);
    // The parser skips white space each time it looks ahead, so that a long run of it would be read again and again.
    let is_space = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    tokens.dedup_by(|next, token| is_space(next) && is_space(token));
    limits.check_tokens(&tokens)?;
    let mut statements = Vec::new();
    for mut tokens in split(tokens) {
        respell(&mut tokens);
        write_out(&mut tokens);
        let names_user = may_name_user(&tokens);
        let mut statement = parse_one(tokens)?;
        statement.set_may_name_user(names_user);
        limits.check_statement(&statement)?;
        statements.push(statement);
    }
    if let [statement] = statements.as_mut_slice() {
        statement.keep_text(sql);
    }
    Ok(statements)
}

/// The tokens of each statement, without the semicolons between them.
fn split(tokens: Vec<TokenWithSpan>) -> Vec<Vec<TokenWithSpan>> {
    let mut statements = vec![Vec::new()];
    for token in tokens {
        if token.token == Token::SemiColon {
            statements.push(Vec::new());
        } else if let Some(current) = statements.last_mut() {
            current.push(token);
        }
    }
    let something = |tokens: &Vec<TokenWithSpan>| {
        tokens.iter().any(|t| !matches!(t.token, Token::Whitespace(_) | Token::EOF))
    };
    statements.into_iter().filter(something).collect()
}

fn parse_one(tokens: Vec<TokenWithSpan>) -> Result<Statement> {
    let dialect = Postgres::for_tokens(tokens.len());
    match parse_with(&dialect, tokens) {
        Err(_) if dialect.is_exhausted() => {
            let message = "statement can be read in too many ways: the parser gave up";
            Err(QueryError::new(ErrorKind::LimitExceeded, message).hint(
                "calls of `CAST`, `position`, `substring` and their kin are nested deeply, and one may be misspelt: split the expression",
            ))
        }
        parsed => parsed,
    }
}

fn parse_with(dialect: &Postgres, tokens: Vec<TokenWithSpan>) -> Result<Statement> {
    if is_copy_to_client(&tokens) {
        return parse_copy_to_client(dialect, tokens);
    }
    if let Some(place) = place_of_target(&tokens) {
        let copy = parse_copy_to(dialect, tokens, place)?;
        return Ok(Statement::new(Kind::Nyala(Nyala::CopyTo(Box::new(copy)))));
    }
    let mut parser =
        DFParserBuilder::new(tokens).with_dialect(dialect).with_recursion_limit(RECURSION_LIMIT).build()?;
    if let Some(statement) = parse_nyala(&mut parser)? {
        expect_end(&mut parser)?;
        return Ok(Statement::new(Kind::Nyala(statement)));
    }
    let mut statements: VecDeque<_> = parser.parse_statements()?;
    let mut statement =
        statements.pop_front().ok_or_else(|| QueryError::new(ErrorKind::Syntax, "statement is empty"))?;
    if let DfStatement::Statement(ast) = &mut statement
        && let Some(create) = select_into(ast)
    {
        return Ok(Statement::new(Kind::Nyala(Nyala::Live(Box::new(create)))));
    }
    rewrite(&mut statement)?;
    Ok(Statement::new(Kind::DataFusion(Box::new(statement))))
}

/// A query in the form of a statement that is planned.
pub fn query_statement(query: Box<Query>) -> Result<DfStatement> {
    let mut statement = DfStatement::Statement(Box::new(SqlStatement::Query(query)));
    rewrite(&mut statement)?;
    Ok(statement)
}

fn rewrite(statement: &mut DfStatement) -> Result<()> {
    match statement {
        DfStatement::Statement(ast) => {
            rewrite_clauses(ast)?;
            plain_truncate(ast);
            name_columns_within(ast);
            call_arrays_within(ast);
            balance_chains(ast);
            Ok(())
        }
        DfStatement::Explain(explain) => rewrite(&mut explain.statement),
        DfStatement::CreateExternalTable(create) => {
            create.columns.iter_mut().for_each(|column| count_microseconds(&mut column.data_type));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Drops clauses of a TRUNCATE that have no effect here: there are no sequences, references and partitions of tables.
fn plain_truncate(ast: &mut SqlStatement) {
    if let SqlStatement::Truncate(truncate) = ast {
        (truncate.identity, truncate.cascade) = (None, None);
        truncate.table_names.iter_mut().for_each(|table| (table.only, table.has_asterisk) = (false, false));
    }
}

#[cfg(test)]
#[path = "parser_tests.rs"]
mod tests;
