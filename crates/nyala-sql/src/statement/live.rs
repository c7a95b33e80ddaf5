//! Statements about live tables and disk stores that DataFusion's planner does not know.

use std::fmt;

use datafusion::sql::parser::DFParser;
use datafusion::sql::sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use datafusion::sql::sqlparser::ast::{
    AlterTable, CreateTable, CreateTableOptions, Expr, Ident, SetExpr, SqlOption, Statement as SqlStatement,
    Value,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{IsOptional, Parser, ParserError};

use super::clauses::count_microseconds;
use super::copy::{CopyInto, parse_copy};
use super::options::{StatementOption, parse_options, show_options};
use super::words::{expected, from_parser, peek_word, skip};
use crate::error::{ErrorKind, QueryError, Result};

/// A statement about live tables or disk stores.
#[derive(Debug, Clone)]
pub enum LiveStatement {
    /// `CREATE DISK STORE [IF NOT EXISTS] name [DIR '…'] [WITH (option = value, …)]`
    CreateDiskStore {
        /// The store.
        name: Ident,
        /// Whether an existing store is no error.
        if_not_exists: bool,
        /// Its folder; one in the data folder when absent.
        folder: Option<String>,
        /// Options.
        options: Vec<StatementOption>,
    },
    /// `DROP DISK STORE [IF EXISTS] name`
    DropDiskStore {
        /// The store.
        name: Ident,
        /// Whether a missing store is no error.
        if_exists: bool,
    },
    /// `CREATE [LIVE] TABLE …`, without its options, which DataFusion would refuse.
    CreateTable {
        /// The statement.
        create: Box<CreateTable>,
        /// Names of the first columns of a table that is made from a query.
        names: Vec<Ident>,
        /// Whether the table gets the rows of its query: false for `WITH NO DATA`.
        filled: bool,
        /// `WITH (disk_store = …, …)`
        options: Vec<StatementOption>,
    },
    /// `ALTER TABLE …`
    AlterTable(Box<AlterTable>),
    /// `COPY table [(columns)] FROM …`
    Copy(Box<CopyInto>),
}

/// Parses a statement about disk stores; none for other statements.
pub fn parse_live(parser: &mut DFParser<'_>, first: &str, second: &str) -> Result<Option<LiveStatement>> {
    let third = peek_word(parser, 2).unwrap_or_default();
    let statement = match (first, second, third.as_str()) {
        ("CREATE", "DISK", "STORE") => {
            skip(parser, 3);
            parse_create_store(parser)?
        }
        ("DROP", "DISK", "STORE") => {
            skip(parser, 3);
            let if_exists = parser.parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
            let name = parser.parser.parse_identifier().map_err(from_parser)?;
            LiveStatement::DropDiskStore { name, if_exists }
        }
        ("CREATE", "LIVE", "TABLE") => {
            skip(parser, 3);
            parse_create_table(parser, false)?
        }
        ("CREATE", "TABLE", _) => {
            skip(parser, 2);
            parse_create_table(parser, false)?
        }
        ("CREATE", "TEMP" | "TEMPORARY", "TABLE") => {
            skip(parser, 3);
            parse_create_table(parser, true)?
        }
        ("CREATE", "LOCAL", "TEMP" | "TEMPORARY") => {
            skip(parser, 4);
            parse_create_table(parser, true)?
        }
        ("COPY", ..) => match parse_copy(parser)? {
            Some(copy) => LiveStatement::Copy(Box::new(copy)),
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    Ok(Some(statement))
}

pub fn unsupported(what: &str) -> QueryError {
    QueryError::new(ErrorKind::Unsupported, format!("`{what}` is not supported"))
}

fn parse_create_store(parser: &mut DFParser<'_>) -> Result<LiveStatement> {
    let if_not_exists = parser.parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    let name = parser.parser.parse_identifier().map_err(from_parser)?;
    let folder = match peek_word(parser, 0).as_deref() {
        Some("DIR") => {
            skip(parser, 1);
            Some(parser.parser.parse_literal_string().map_err(from_parser)?)
        }
        _ => None,
    };
    let with = parser.parser.parse_keyword(Keyword::WITH);
    let options = if with { parse_options(parser)? } else { Vec::new() };
    Ok(LiveStatement::CreateDiskStore { name, if_not_exists, folder, options })
}

/// The part after `CREATE TABLE`.
fn parse_create_table(parser: &mut DFParser<'_>, temporary: bool) -> Result<LiveStatement> {
    let named = parser.parser.maybe_parse(parse_of_query).map_err(from_parser)?;
    let (mut create, names) = match named {
        Some((create, names)) => (CreateTable { temporary, ..create }, names),
        None => {
            let create = parser.parser.parse_create_table(false, temporary, None, false);
            (create.map_err(from_parser)?, Vec::new())
        }
    };
    let filled = match create.query.is_some() && parser.parser.parse_keyword(Keyword::WITH) {
        true => parse_filled(parser)?,
        false => true,
    };
    create.columns.iter_mut().for_each(|column| count_microseconds(&mut column.data_type));
    let options = match std::mem::take(&mut create.table_options) {
        CreateTableOptions::None => Vec::new(),
        CreateTableOptions::With(options) => options.iter().map(named_option).collect::<Result<_>>()?,
        other => return Err(unsupported(&other.to_string())),
    };
    Ok(LiveStatement::CreateTable { create: Box::new(create), names, filled, options })
}

/// `name (column, …) AS query`: names without types, which the SQL parser would take for columns that lack a type.
fn parse_of_query(parser: &mut Parser<'_>) -> std::result::Result<(CreateTable, Vec<Ident>), ParserError> {
    let if_not_exists = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    let name = parser.parse_object_name(false)?;
    let names = parser.parse_parenthesized_column_list(IsOptional::Mandatory, false)?;
    parser.expect_keyword(Keyword::AS)?;
    let query = parser.parse_query()?;
    let create = CreateTableBuilder::new(name).if_not_exists(if_not_exists).query(Some(query)).build();
    Ok((create, names))
}

/// The part after the WITH that follows a query.
fn parse_filled(parser: &mut DFParser<'_>) -> Result<bool> {
    let filled = !parser.parser.parse_keyword(Keyword::NO);
    match parser.parser.parse_keyword(Keyword::DATA) {
        true => Ok(filled),
        false => Err(expected(parser, "`DATA` or `NO DATA`")),
    }
}

/// Makes `SELECT … INTO table FROM …` the statement that creates the table; none for other statements.
pub fn select_into(statement: &mut SqlStatement) -> Option<LiveStatement> {
    let SqlStatement::Query(query) = statement else { return None };
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let into = select.into.take()?;
    let create =
        CreateTableBuilder::new(into.name).temporary(into.temporary).query(Some(query.clone())).build();
    Some(LiveStatement::CreateTable {
        create: Box::new(create),
        names: Vec::new(),
        filled: true,
        options: Vec::new(),
    })
}

fn named_option(option: &SqlOption) -> Result<StatementOption> {
    let SqlOption::KeyValue { key, value } = option else {
        return Err(QueryError::new(ErrorKind::Syntax, format!("expected `name = value`, found `{option}`")));
    };
    let value = match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        Expr::Identifier(name) => name.value.clone(),
        other => other.to_string(),
    };
    Ok(StatementOption { name: key.value.to_lowercase(), value })
}

/// Options in the parser's form.
fn written_options(options: &[StatementOption]) -> CreateTableOptions {
    let written = options.iter().map(|StatementOption { name, value }| SqlOption::KeyValue {
        key: Ident::new(name),
        value: Expr::Value(Value::SingleQuotedString(value.clone()).with_empty_span()),
    });
    match options.is_empty() {
        true => CreateTableOptions::None,
        false => CreateTableOptions::With(written.collect()),
    }
}

impl fmt::Display for LiveStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateDiskStore { name, if_not_exists, folder, options } => {
                let condition = if *if_not_exists { "IF NOT EXISTS " } else { "" };
                write!(f, "CREATE DISK STORE {condition}{name}")?;
                if let Some(folder) = folder {
                    write!(f, " DIR '{}'", folder.replace('\'', "''"))?;
                }
                with_options(f, options)
            }
            Self::DropDiskStore { name, if_exists } => {
                write!(f, "DROP DISK STORE {}{name}", if *if_exists { "IF EXISTS " } else { "" })
            }
            Self::CreateTable { create, names, filled, options } => {
                // The parser's library writes the options, because it knows that they stand before the query.
                let table_options = written_options(options);
                let text = CreateTable { table_options, ..create.as_ref().clone() }.to_string();
                let mut text = format!("CREATE LIVE {}", text.strip_prefix("CREATE ").unwrap_or(&text));
                let before = format!(
                    "TABLE {}{}",
                    if create.if_not_exists { "IF NOT EXISTS " } else { "" },
                    create.name
                );
                if !names.is_empty()
                    && let Some(at) = text.find(&before)
                {
                    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
                    text.insert_str(at + before.len(), &format!(" ({})", names.join(", ")));
                }
                f.write_str(&text)?;
                if *filled { Ok(()) } else { f.write_str(" WITH NO DATA") }
            }
            Self::AlterTable(alter) => alter.fmt(f),
            Self::Copy(copy) => copy.fmt(f),
        }
    }
}

fn with_options(f: &mut fmt::Formatter<'_>, options: &[StatementOption]) -> fmt::Result {
    match options.is_empty() {
        true => Ok(()),
        false => write!(f, " WITH {}", show_options(options)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use nyala_model::config::QueryConfig;

    use crate::statement::{StatementLimits, parse};

    /// The only statement of a text, in its `Display` form.
    fn shown(sql: &str) -> String {
        let parsed = parse(sql, &StatementLimits::from(&QueryConfig::default())).unwrap();
        assert_eq!(parsed.len(), 1, "{sql}");
        parsed[0].to_string()
    }

    /// Another node gets statements in their `Display` form.
    #[test]
    fn what_is_displayed_is_read_as_the_same_statement() {
        for (sql, expected) in [
            (
                "CREATE TABLE t WITH (disk_store = near, buckets = 4) AS SELECT 1 AS a",
                "CREATE LIVE TABLE t WITH (disk_store = 'near', buckets = '4') AS SELECT 1 AS a",
            ),
            (
                "CREATE TABLE t WITH (disk_store = 'near') AS SELECT 1 AS a WITH NO DATA",
                "CREATE LIVE TABLE t WITH (disk_store = 'near') AS SELECT 1 AS a WITH NO DATA",
            ),
            ("CREATE TABLE t (a, b) AS SELECT 1, 2", "CREATE LIVE TABLE t (a, b) AS SELECT 1, 2"),
            ("CREATE TABLE E (a) AS SELECT 1", "CREATE LIVE TABLE E (a) AS SELECT 1"),
            (
                "CREATE TABLE IF NOT EXISTS E (a) AS SELECT 1",
                "CREATE LIVE TABLE IF NOT EXISTS E (a) AS SELECT 1",
            ),
            (
                "CREATE LIVE TABLE t (id BIGINT PRIMARY KEY) WITH (ttl = '9')",
                "CREATE LIVE TABLE t (id BIGINT PRIMARY KEY) WITH (ttl = '9')",
            ),
        ] {
            assert_eq!(shown(sql), expected);
            assert_eq!(shown(expected), expected);
        }
    }
}
