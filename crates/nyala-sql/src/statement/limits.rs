//! Bounds a statement's size and shape before anything recursive sees it.
//!
//! DataFusion and the SQL parser walk trees by recursion, and planning time grows faster than the
//! length of a chain of operators. So the token list is walked once, iteratively, and a statement that
//! could exhaust a stack or a minute of planning is refused with its limit named.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use nyala_model::config::QueryConfig;

use super::ast::{Kind, Nyala, Statement};
use super::attempts::Attempts;
use super::expansion::check_expansion;
use super::plan_budget::PlanBudget;
use super::shape::{Level, Shape};
use crate::error::{ErrorKind, QueryError, Result};

/// Chains of arithmetic and other operators may have the limit of AND and OR divided by this. Chains of AND
/// and OR are balanced before planning; others cannot be without changing results.
const OTHER_OPERATORS_SHARE: usize = 8;

/// Deepest nesting of brackets.
const MAX_DEPTH: usize = 64;

/// Deepest nesting of brackets and of CASE together.
const MAX_LEVELS: usize = 128;

/// EXCEPT and INTERSECT in one statement: each is a join.
const MAX_DIFFERENCES: usize = 100;

/// Most tokens that the parser may read, repeated readings included; see [`Attempts`].
const MAX_READINGS: usize = 5_000_000;

/// Largest sizes and shapes of a statement that are accepted.
#[derive(Debug, Clone, Copy)]
pub struct StatementLimits {
    bytes: usize,
    terms: usize,
    set_operations: usize,
    budget: PlanBudget,
}

impl From<&QueryConfig> for StatementLimits {
    fn from(config: &QueryConfig) -> Self {
        Self {
            bytes: config.max_statement_bytes,
            terms: config.max_expression_terms,
            set_operations: config.max_set_operations,
            budget: PlanBudget::from(config),
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

    /// Refuses a statement whose plan would be too large.
    pub(super) fn check_statement(&self, statement: &Statement) -> Result<()> {
        match &statement.kind {
            Kind::DataFusion(statement) => check_expansion(statement, self.budget),
            Kind::Nyala(Nyala::CopyTo(copy)) => {
                check_expansion(&Statement::query(copy.query.clone()), self.budget)
            }
            Kind::Nyala(_) => Ok(()),
        }
    }

    /// Refuses statements with more nesting, operator chains or set operations than the limits allow.
    pub fn check_tokens(&self, tokens: &[TokenWithSpan]) -> Result<()> {
        let mut shape = Shape::default();
        let mut attempts = Attempts::default();
        for token in tokens.iter().map(|token| &token.token) {
            if matches!(token, Token::Whitespace(_)) {
                continue;
            }
            attempts.count(token);
            shape.count(token);
            self.check_shape(&shape)?;
            if attempts.readings() > MAX_READINGS {
                return Err(exceeded(
                    format!(
                        "queries in double brackets are nested so that the parser would read more than {MAX_READINGS} tokens"
                    ),
                    "leave out brackets around brackets, or split the statement with common table expressions",
                ));
            }
        }
        Ok(())
    }

    fn check_shape(&self, shape: &Shape) -> Result<()> {
        if shape.brackets > MAX_DEPTH {
            return Err(exceeded(
                format!("statement nests brackets deeper than {MAX_DEPTH}"),
                "split it with common table expressions",
            ));
        }
        if shape.levels.len() > MAX_LEVELS {
            return Err(exceeded(
                format!("statement nests CASE and brackets deeper than {MAX_LEVELS}"),
                "write the conditions side by side in one CASE, or join a table of the values",
            ));
        }
        if shape.set_operations > self.set_operations {
            return Err(exceeded(
                format!("statement combines more than {} SELECTs", self.set_operations),
                "load the values into a table, or raise `query.max_set_operations`",
            ));
        }
        if shape.differences > MAX_DIFFERENCES {
            return Err(exceeded(
                format!("statement combines more than {MAX_DIFFERENCES} SELECTs with EXCEPT and INTERSECT"),
                "combine some of them with UNION first",
            ));
        }
        shape.levels.last().map_or(Ok(()), |level| self.check_level(level))
    }

    fn check_level(&self, level: &Level) -> Result<()> {
        let others = (self.terms / OTHER_OPERATORS_SHARE).max(1);
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
        let deepest = others + MAX_LEVELS;
        if level.depth() > deepest {
            return Err(exceeded(
                format!("expression is nested more than {deepest} operators and brackets deep"),
                "split the expression, or raise `query.max_expression_terms`",
            ));
        }
        Ok(())
    }
}

fn exceeded(message: String, hint: &str) -> QueryError {
    QueryError::new(ErrorKind::LimitExceeded, message).hint(hint)
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
