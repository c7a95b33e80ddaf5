//! `COPY table [(columns)] FROM …`, and `COPY … TO STDOUT`, which DataFusion's parser does not know.

use std::fmt;

use datafusion::sql::parser::DFParser;
use datafusion::sql::sqlparser::ast::{
    CopyLegacyCsvOption, CopyLegacyOption, CopyOption, CopySource, CopyTarget, Ident, ObjectName,
    Statement as SqlStatement,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{IsOptional, Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::ast::Statement;
use super::balance::balance_chains;
use super::clauses::rewrite_clauses;
use super::dialect::Postgres;
use super::parser::RECURSION_LIMIT;
use super::titles::name_columns_within;
use super::words::{expected, from_parser};
use crate::error::{ErrorKind, QueryError, Result};

/// The parts of a `COPY … FROM` statement.
#[derive(Debug, Clone)]
pub struct CopyInto {
    /// The table.
    pub table: ObjectName,
    /// The columns that the rows have; all when empty.
    pub columns: Vec<Ident>,
    /// A location; none for rows from the client.
    pub location: Option<String>,
    /// Options.
    pub options: Vec<CopyOption>,
    /// A label under which the load is done only once.
    pub label: Option<String>,
}

/// Parses a `COPY … FROM` statement; none for other statements.
pub fn parse_copy(parser: &mut DFParser<'_>) -> Result<Option<CopyInto>> {
    let mut is_from = false;
    // This only looks ahead: its failure brings the parser back to where it was.
    let ahead = parser.parser.maybe_parse(|parser| {
        parser.next_token();
        parser.parse_object_name(false)?;
        parser.parse_parenthesized_column_list(IsOptional::Optional, false)?;
        is_from = parser.parse_keyword(Keyword::FROM);
        Err::<(), _>(ParserError::ParserError(String::new()))
    });
    ahead.map_err(from_parser)?;
    if !is_from {
        return Ok(None);
    }
    let mut tokens = statement_tokens(parser);
    let label = take_label(&mut tokens)?;
    // The SQL parser would take the text after `FROM STDIN;` for rows, so it gets the tokens of this statement alone.
    let dialect = Postgres::for_tokens(tokens.len());
    let mut alone = Parser::new(&dialect).with_tokens_with_locations(tokens);
    alone.next_token();
    let copy = alone.parse_copy().map_err(from_parser)?;
    let rest = alone.peek_token();
    if rest.token != Token::EOF {
        let message = format!("expected the end of COPY, found `{rest}`");
        return Err(QueryError::new(ErrorKind::Syntax, message));
    }
    let SqlStatement::Copy {
        source: CopySource::Table { table_name, columns },
        target,
        mut options,
        legacy_options,
        ..
    } = copy
    else {
        return Err(expected(parser, "`COPY table FROM …`"));
    };
    let location = match target {
        CopyTarget::Stdin => None,
        CopyTarget::File { filename } => Some(filename),
        other => return Err(unsupported(&format!("COPY FROM {other}"))),
    };
    for option in legacy_options {
        modern(option, &mut options)?;
    }
    Ok(Some(CopyInto { table: table_name, columns, location, options, label }))
}

/// Whether a statement is a `COPY … TO STDOUT`.
pub fn is_copy_to_client(tokens: &[TokenWithSpan]) -> bool {
    let mut words =
        tokens.iter().map(|token| &token.token).filter(|token| !matches!(token, Token::Whitespace(_)));
    let is =
        |token: Option<&Token>, keyword| matches!(token, Some(Token::Word(word)) if word.keyword == keyword);
    let mut depth = 0_usize;
    let mut after_to = false;
    is(words.next(), Keyword::COPY)
        && words.any(|token| {
            match token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                _ => {}
            }
            let found = after_to && is(Some(token), Keyword::STDOUT);
            after_to = depth == 0 && is(Some(token), Keyword::TO);
            found
        })
}

/// Parses a `COPY … TO STDOUT`, for a door that can send rows in the requested format.
pub fn parse_copy_to_client(dialect: &Postgres, tokens: Vec<TokenWithSpan>) -> Result<Statement> {
    let mut parser =
        Parser::new(dialect).with_recursion_limit(RECURSION_LIMIT).with_tokens_with_locations(tokens);
    let copy = parser.parse_statement().map_err(from_parser)?;
    let rest = parser.peek_token();
    if rest.token != Token::EOF {
        let message = format!("expected the end of COPY, found `{rest}`");
        return Err(QueryError::new(ErrorKind::Syntax, message));
    }
    let SqlStatement::Copy { source, to, target, mut options, legacy_options, values } = copy else {
        return Err(QueryError::new(ErrorKind::Syntax, "expected `COPY … TO STDOUT`"));
    };
    for option in legacy_options {
        modern(option, &mut options)?;
    }
    let mut copy = SqlStatement::Copy { source, to, target, options, legacy_options: Vec::new(), values };
    rewrite_clauses(&mut copy)?;
    name_columns_within(&mut copy);
    balance_chains(&mut copy);
    Ok(Statement::from_ast(copy))
}

fn unsupported(what: &str) -> QueryError {
    QueryError::new(ErrorKind::Unsupported, format!("`{what}` is not supported"))
}

/// Takes all tokens up to the end of the statement out of the parser.
fn statement_tokens(parser: &mut DFParser<'_>) -> Vec<TokenWithSpan> {
    let ends = |token: &Token| matches!(token, Token::EOF | Token::SemiColon);
    let tokens = std::iter::from_fn(|| {
        let more = !ends(&parser.parser.peek_token_ref().token);
        more.then(|| parser.parser.next_token())
    });
    tokens.collect()
}

/// Takes `LABEL '…'` out of the list of options: the SQL parser does not know it.
fn take_label(tokens: &mut Vec<TokenWithSpan>) -> Result<Option<String>> {
    let is_word = |at: usize, word: &str| matches!(tokens.get(at).map(|t| &t.token), Some(Token::Word(w)) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word));
    let from = (0..tokens.len()).find(|at| is_word(*at, "FROM")).unwrap_or(tokens.len());
    let begins_option = |at: &usize| {
        let before = at.checked_sub(1).and_then(|before| tokens.get(before));
        matches!(before.map(|t| &t.token), Some(Token::LParen | Token::Comma))
    };
    let found = (from..tokens.len()).find(|at| is_word(*at, "LABEL") && begins_option(at));
    let Some(at) = found else { return Ok(None) };
    let Some(Token::SingleQuotedString(label)) = tokens.get(at + 1).map(|t| t.token.clone()) else {
        let message = "expected a text in quotes after LABEL";
        return Err(QueryError::new(ErrorKind::Syntax, message).hint("WITH (LABEL 'orders-2026-11-21')"));
    };
    let is = |at: usize, token: &Token| tokens.get(at).is_some_and(|found| found.token == *token);
    let range = match (is(at - 1, &Token::Comma), is(at + 2, &Token::Comma)) {
        (true, _) => at - 1..at + 2,
        (false, true) => at..at + 3,
        // The label is the only option.
        (false, false) if is(at + 2, &Token::RParen) => at - 1..at + 3,
        (false, false) => at..at + 2,
    };
    drop(tokens.drain(range));
    Ok(Some(label))
}

/// Adds an option that is written as before PostgreSQL 9.
fn modern(option: CopyLegacyOption, options: &mut Vec<CopyOption>) -> Result<()> {
    let format = |name: &str| CopyOption::Format(Ident::new(name));
    match option {
        CopyLegacyOption::Binary => options.push(format("binary")),
        CopyLegacyOption::Csv(given) => {
            options.push(format("csv"));
            for option in given {
                options.push(match option {
                    CopyLegacyCsvOption::Header => CopyOption::Header(true),
                    CopyLegacyCsvOption::Quote(quote) => CopyOption::Quote(quote),
                    CopyLegacyCsvOption::Escape(escape) => CopyOption::Escape(escape),
                    CopyLegacyCsvOption::ForceQuote(columns) => CopyOption::ForceQuote(columns),
                    CopyLegacyCsvOption::ForceNotNull(columns) => CopyOption::ForceNotNull(columns),
                });
            }
        }
        CopyLegacyOption::Delimiter(delimiter) => options.push(CopyOption::Delimiter(delimiter)),
        CopyLegacyOption::Header => options.push(CopyOption::Header(true)),
        CopyLegacyOption::Null(null) => options.push(CopyOption::Null(null)),
        other => return Err(unsupported(&other.to_string())),
    }
    Ok(())
}

impl fmt::Display for CopyInto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |items: Vec<String>| items.join(", ");
        write!(f, "COPY {}", self.table)?;
        if !self.columns.is_empty() {
            write!(f, " ({})", list(self.columns.iter().map(Ident::to_string).collect()))?;
        }
        match &self.location {
            Some(location) => write!(f, " FROM '{}'", location.replace('\'', "''"))?,
            None => f.write_str(" FROM STDIN")?,
        }
        let label = self.label.iter().map(|label| format!("LABEL '{}'", label.replace('\'', "''")));
        let options: Vec<String> = self.options.iter().map(CopyOption::to_string).chain(label).collect();
        match options.is_empty() {
            true => Ok(()),
            false => write!(f, " ({})", list(options)),
        }
    }
}

#[cfg(test)]
mod tests {
    use nyala_model::config::QueryConfig;

    use crate::statement::{StatementLimits, parse};

    fn limits() -> StatementLimits {
        StatementLimits::from(&QueryConfig::default())
    }

    /// The statements of a text, as displayed.
    fn check(sql: &str, expected: &[&str]) {
        let parsed = parse(sql, &limits()).unwrap();
        let shown: Vec<String> = parsed.iter().map(ToString::to_string).collect();
        assert_eq!(shown, expected, "{sql}");
    }

    #[test]
    fn rows_for_the_client_are_asked_for_in_old_and_new_ways() {
        check("COPY t TO STDOUT", &["COPY t TO STDOUT"]);
        check("copy (SELECT 1) to stdout CSV HEADER", &["COPY (SELECT 1) TO STDOUT (FORMAT csv, HEADER)"]);
        check(
            "COPY t (a, b) TO STDOUT WITH (FORMAT binary); SELECT 1",
            &["COPY t (a, b) TO STDOUT (FORMAT binary)", "SELECT 1"],
        );
        for bad in ["COPY TO STDOUT", "COPY t TO STDOUT x", "COPY (SELECT 1 TO STDOUT"] {
            assert!(parse(bad, &limits()).is_err(), "{bad}");
        }
    }

    #[test]
    fn options_old_and_new_are_understood() {
        check("COPY t FROM STDIN", &["COPY t FROM STDIN"]);
        check("COPY t FROM STDIN (LABEL 'a''b')", &["COPY t FROM STDIN (LABEL 'a''b')"]);
        let all = "COPY t (label, b) FROM 'f.csv' (FORMAT csv, HEADER, LABEL 'x')";
        check(all, &[all]);
        check("COPY t (label, b) FROM 'f.csv' WITH (FORMAT csv, label 'x', HEADER true)", &[all]);
        check("COPY t (label, b) FROM 'f.csv' WITH (label 'x', FORMAT csv, HEADER)", &[all]);
        check("COPY t FROM STDIN CSV HEADER", &["COPY t FROM STDIN (FORMAT csv, HEADER)"]);
        check("COPY t FROM STDIN WITH BINARY", &["COPY t FROM STDIN (FORMAT binary)"]);
        check("COPY t FROM STDIN; SELECT 1", &["COPY t FROM STDIN", "SELECT 1"]);
        for bad in ["COPY t FROM STDIN (LABEL x)", "COPY t FROM STDIN (LABEL 'x' CSV)", "COPY t FROM STDIN x"]
        {
            assert!(parse(bad, &limits()).is_err(), "{bad}");
        }
    }
}
