//! `COPY table TO 'location'` and `COPY (SELECT …) TO 'location'`: rows to files on the server or in a bucket.

use std::fmt;

use datafusion::sql::sqlparser::ast::{Query, Statement as SqlStatement};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{IsOptional, Parser};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::balance::balance_chains;
use super::clauses::rewrite_clauses;
use super::dialect::Postgres;
use super::parser::RECURSION_LIMIT;
use super::titles::name_columns_within;
use super::words::from_parser;
use crate::error::{ErrorKind, QueryError, Result};

/// The parts of a `COPY … TO 'location'` statement.
#[derive(Debug, Clone)]
pub struct CopyTo {
    /// The rows.
    pub query: Box<Query>,
    /// The location that they are written to.
    pub target: String,
    /// Options, with names in lower case; those without a value are `true`.
    pub options: Vec<(String, String)>,
}

/// The place of the `TO` before a location; none in other statements.
pub fn place_of_target(tokens: &[TokenWithSpan]) -> Option<usize> {
    let is = |token: &Token, keyword| matches!(token, Token::Word(word) if word.keyword == keyword);
    let first = tokens.iter().find(|token| !is_space(token))?;
    if !is(&first.token, Keyword::COPY) {
        return None;
    }
    let mut depth = 0_usize;
    for (place, token) in tokens.iter().enumerate() {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            word if depth == 0 && is(word, Keyword::TO) => {
                let next = tokens.iter().skip(place + 1).find(|token| !is_space(token))?;
                return matches!(next.token, Token::SingleQuotedString(_)).then_some(place);
            }
            _ => {}
        }
    }
    None
}

fn is_space(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

/// Parses a statement whose `TO` is the token at `place`.
pub fn parse_copy_to(dialect: &Postgres, tokens: Vec<TokenWithSpan>, place: usize) -> Result<CopyTo> {
    let mut source = tokens;
    let rest = source.split_off(place);
    let query = query_of(dialect, source)?;
    let mut rest = rest
        .into_iter()
        .skip(1)
        .map(|token| token.token)
        .filter(|token| !matches!(token, Token::Whitespace(_)));
    let Some(Token::SingleQuotedString(target)) = rest.next() else {
        return Err(QueryError::new(ErrorKind::Syntax, "expected a location in quotes after TO"));
    };
    let options = options_of(rest.filter(|token| *token != Token::EOF).collect())?;
    Ok(CopyTo { query, target, options })
}

fn query_of(dialect: &Postgres, tokens: Vec<TokenWithSpan>) -> Result<Box<Query>> {
    let mut parser =
        Parser::new(dialect).with_recursion_limit(RECURSION_LIMIT).with_tokens_with_locations(tokens);
    parser.next_token();
    let query = if parser.peek_token_ref().token == Token::LParen {
        parser.parse_query().map_err(from_parser)?
    } else {
        let name = parser.parse_object_name(false).map_err(from_parser)?;
        let columns =
            parser.parse_parenthesized_column_list(IsOptional::Optional, false).map_err(from_parser)?;
        let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
        let columns = if columns.is_empty() { "*".to_owned() } else { columns.join(", ") };
        let sql = format!("SELECT {columns} FROM {name}");
        let mut inner = Parser::new(dialect).try_with_sql(&sql).map_err(from_parser)?;
        inner.parse_query().map_err(from_parser)?
    };
    let end = parser.peek_token();
    if end.token != Token::EOF {
        return Err(QueryError::new(
            ErrorKind::Syntax,
            format!("expected TO after the rows of COPY, found `{end}`"),
        ));
    }
    let mut statement = SqlStatement::Query(query);
    rewrite_clauses(&mut statement)?;
    name_columns_within(&mut statement);
    balance_chains(&mut statement);
    match statement {
        SqlStatement::Query(query) => Ok(query),
        _ => Err(QueryError::internal("a query stopped being one")),
    }
}

/// Options in brackets, or as words without them, as in PostgreSQL before 9.0 and in `STORED AS PARQUET`.
fn options_of(tokens: Vec<Token>) -> Result<Vec<(String, String)>> {
    let (mut options, mut name): (Vec<(String, String)>, Option<String>) = (Vec::new(), None);
    for token in tokens {
        match (&token, name.take()) {
            (Token::LParen | Token::RParen | Token::Comma, open) => options.extend(open.map(flag)),
            (Token::Eq | Token::RArrow, open) => name = open,
            (Token::Word(word), None) => match word.value.to_ascii_lowercase().as_str() {
                "with" | "as" | "options" => {}
                "stored" => name = Some("format".to_owned()),
                "csv" | "binary" => options.push(("format".to_owned(), word.value.to_ascii_lowercase())),
                "header" if word.quote_style.is_none() => name = Some("header".to_owned()),
                other => name = Some(other.to_owned()),
            },
            (Token::Word(word), Some(open)) if word.value.eq_ignore_ascii_case("as") => name = Some(open),
            (Token::SingleQuotedString(text), None) => name = Some(text.to_ascii_lowercase()),
            (Token::Word(word), Some(open)) => options.push((open, word.value.clone())),
            (
                Token::Number(text, _) | Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text),
                Some(open),
            ) => {
                options.push((open, text.clone()));
            }
            _ => {
                let message = format!("expected an option of COPY, found `{token}`");
                return Err(QueryError::new(ErrorKind::Syntax, message)
                    .hint("write options as (FORMAT parquet) or (FORMAT csv, HEADER true)"));
            }
        }
    }
    options.extend(name.map(flag));
    Ok(options)
}

fn flag(name: String) -> (String, String) {
    (name, "true".to_owned())
}

impl fmt::Display for CopyTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "COPY ({}) TO '{}'", self.query, self.target.replace('\'', "''"))?;
        if self.options.is_empty() {
            return Ok(());
        }
        let shown = |(name, value): &(String, String)| format!("{name} '{}'", value.replace('\'', "''"));
        write!(f, " ({})", self.options.iter().map(shown).collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use nyala_model::config::QueryConfig;

    use crate::statement::{StatementLimits, parse};

    #[test]
    fn rows_and_options_are_understood() {
        let limits = StatementLimits::from(&QueryConfig::default());
        let check = |sql: &str, expected: &str| {
            let parsed = parse(sql, &limits).unwrap();
            let shown: Vec<String> = parsed.iter().map(ToString::to_string).collect();
            assert_eq!(shown, [expected], "{sql}");
        };
        check("COPY t TO 'a.parquet'", "COPY (SELECT * FROM t) TO 'a.parquet'");
        check(
            "COPY s.t (a, b) TO 'a.csv' CSV HEADER",
            "COPY (SELECT a, b FROM s.t) TO 'a.csv' (format 'csv', header 'true')",
        );
        check(
            "COPY (SELECT 1 AS \"to\") TO 'a''b' (FORMAT parquet, COMPRESSION zstd);",
            "COPY ((SELECT 1 AS \"to\")) TO 'a''b' (format 'parquet', compression 'zstd')",
        );
        check(
            "COPY t TO 'x' WITH (FORMAT csv, HEADER, DELIMITER ';')",
            "COPY (SELECT * FROM t) TO 'x' (format 'csv', header 'true', delimiter ';')",
        );
        check("COPY t TO 'x' STORED AS PARQUET", "COPY (SELECT * FROM t) TO 'x' (format 'PARQUET')");
        for bad in ["COPY TO 'x'", "COPY t x TO 'x'", "COPY t TO 'x' (FORMAT +)"] {
            assert!(parse(bad, &limits).is_err(), "{bad}");
        }
    }
}
