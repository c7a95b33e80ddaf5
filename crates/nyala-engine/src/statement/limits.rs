//! Bounds a statement's size and shape before anything recursive sees it.
//!
//! DataFusion and the SQL parser walk trees by recursion, and planning time grows faster than the
//! length of a chain of operators. So the token list is walked once, iteratively, and a statement that
//! could exhaust a stack or a minute of planning is refused with its limit named.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use nyala_model::config::QueryConfig;

use crate::error::{ErrorKind, QueryError, Result};

/// Chains of arithmetic and other operators may be this much of the limit for AND and OR, which are
/// balanced before planning while the others cannot be without changing results.
const OTHER_OPERATORS_SHARE: usize = 8;

/// Deepest nesting of brackets.
const MAX_DEPTH: usize = 64;

/// Largest sizes and shapes of a statement that are accepted.
#[derive(Debug, Clone, Copy)]
pub struct StatementLimits {
    bytes: usize,
    terms: usize,
    set_operations: usize,
}

impl From<&QueryConfig> for StatementLimits {
    fn from(config: &QueryConfig) -> Self {
        Self {
            bytes: config.max_statement_bytes,
            terms: config.max_expression_terms,
            set_operations: config.max_set_operations,
        }
    }
}

impl StatementLimits {
    /// Refuses a text that is too long, before it is even tokenised.
    pub fn check_bytes(&self, sql: &str) -> Result<()> {
        let limit = self.bytes;
        if sql.len() <= limit {
            return Ok(());
        }
        Err(exceeded(
            format!("statement has {} bytes, more than the {limit} allowed", sql.len()),
            "load the values into a table and join it, or raise `query.max_statement_bytes`",
        ))
    }

    /// Refuses statements whose nesting, operator chains or set operations exceed the limits.
    pub fn check_tokens(&self, tokens: &[TokenWithSpan]) -> Result<()> {
        let mut levels = vec![Level::default()];
        for token in tokens {
            match &token.token {
                Token::LParen | Token::LBracket | Token::LBrace => levels.push(Level::default()),
                Token::RParen | Token::RBracket | Token::RBrace if levels.len() > 1 => {
                    levels.pop();
                }
                token => {
                    if let Some(level) = levels.last_mut() {
                        level.count(token);
                    }
                }
            }
            self.check_depth(levels.len())?;
            if let Some(level) = levels.last() {
                self.check_level(level)?;
            }
        }
        Ok(())
    }

    fn check_depth(&self, depth: usize) -> Result<()> {
        if depth <= MAX_DEPTH {
            return Ok(());
        }
        Err(exceeded(
            format!("statement nests brackets deeper than {MAX_DEPTH}"),
            "split it with common table expressions",
        ))
    }

    fn check_level(&self, level: &Level) -> Result<()> {
        let others = (self.terms / OTHER_OPERATORS_SHARE).max(1);
        if level.set_operations > self.set_operations {
            return Err(exceeded(
                format!("statement combines more than {} SELECTs", self.set_operations),
                "load the values into a table, or raise `query.max_set_operations`",
            ));
        }
        if level.logical > self.terms {
            return Err(exceeded(
                format!("expression has a chain of more than {} AND or OR terms", self.terms),
                "use `IN (…)` or join a table of the values, or raise `query.max_expression_terms`",
            ));
        }
        if level.prefixes.max(level.operators) > others {
            return Err(exceeded(
                format!("expression has a chain of more than {others} operators"),
                "split the expression, or raise `query.max_expression_terms`",
            ));
        }
        Ok(())
    }
}

fn exceeded(message: String, hint: &str) -> QueryError {
    QueryError::new(ErrorKind::LimitExceeded, message).hint(hint)
}

/// What has been seen since the last opening bracket.
#[derive(Default)]
struct Level {
    /// AND and OR since the last comma or clause.
    logical: usize,
    /// Other binary operators since the last AND, OR, comma or clause.
    operators: usize,
    /// NOT, unary signs and CASE in a row: they nest without brackets.
    prefixes: usize,
    set_operations: usize,
}

impl Level {
    fn count(&mut self, token: &Token) {
        match token {
            Token::Comma | Token::SemiColon => self.start_expression(),
            Token::Word(word) => self.count_word(word.keyword),
            Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::Whitespace(_)
            | Token::Placeholder(_)
            | Token::EOF => {}
            _ => self.operators += 1,
        }
    }

    fn count_word(&mut self, keyword: Keyword) {
        match keyword {
            Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT | Keyword::MINUS => {
                self.set_operations += 1;
                self.start_expression();
            }
            Keyword::AND | Keyword::OR => {
                self.logical += 1;
                self.operators = 0;
                self.prefixes = 0;
            }
            Keyword::SELECT
            | Keyword::FROM
            | Keyword::WHERE
            | Keyword::GROUP
            | Keyword::HAVING
            | Keyword::ORDER
            | Keyword::ON
            | Keyword::VALUES
            // The arms of a CASE stand side by side.
            | Keyword::WHEN
            | Keyword::THEN
            | Keyword::ELSE => self.start_expression(),
            Keyword::NOT | Keyword::CASE | Keyword::EXPLAIN => self.prefixes += 1,
            Keyword::IS | Keyword::LIKE | Keyword::ILIKE | Keyword::COLLATE | Keyword::AT | Keyword::JOIN => {
                self.operators += 1;
            }
            _ => {}
        }
    }

    fn start_expression(&mut self) {
        self.logical = 0;
        self.operators = 0;
        self.prefixes = 0;
    }
}
