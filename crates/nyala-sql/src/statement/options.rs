//! Options of a statement, such as those of `CREATE CUBE … WITH (…)` and `CREATE DISK STORE … WITH (…)`.

use datafusion::sql::parser::DFParser;
use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::words::{expected, from_parser};
use crate::error::Result;

/// `name = value`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementOption {
    /// The name, in lower case.
    pub name: String,
    /// The value, without quotes.
    pub value: String,
}

/// `(name = value, …)`; values are strings, numbers or words.
pub fn parse_options(parser: &mut DFParser<'_>) -> Result<Vec<StatementOption>> {
    parser.parser.expect_token(&Token::LParen).map_err(from_parser)?;
    let mut options = Vec::new();
    loop {
        let name = parser.parser.parse_identifier().map_err(from_parser)?.value.to_lowercase();
        parser.parser.expect_token(&Token::Eq).map_err(from_parser)?;
        let value = match parser.parser.next_token().token {
            Token::SingleQuotedString(text) | Token::Number(text, _) => text,
            Token::Word(word) => word.value,
            _ => {
                parser.parser.prev_token();
                return Err(expected(parser, "a value in single quotes"));
            }
        };
        options.push(StatementOption { name, value });
        if !parser.parser.consume_token(&Token::Comma) {
            parser.parser.expect_token(&Token::RParen).map_err(from_parser)?;
            return Ok(options);
        }
    }
}

/// `(name = 'value', …)`
pub fn show_options(options: &[StatementOption]) -> String {
    let shown = options.iter().map(|StatementOption { name, value }| {
        let name = Ident::new(name);
        format!("{name} = '{}'", value.replace('\'', "''"))
    });
    format!("({})", shown.collect::<Vec<_>>().join(", "))
}
