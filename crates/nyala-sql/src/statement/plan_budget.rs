//! How much a statement may be planned into, and the errors of one that would be planned into more.

use nyala_model::config::QueryConfig;

use crate::error::{ErrorKind, QueryError, Result};

/// How much a statement may be planned into.
#[derive(Debug, Clone, Copy)]
pub struct PlanBudget {
    /// SELECTs, tables and joins.
    pub nodes: usize,
    /// Columns, calls and operators, in [`PARTS`].
    expression_parts: usize,
}

/// Expressions are counted in tenths: a constant is one, since nothing is resolved or rewritten in it.
pub const PARTS: usize = 10;

/// Tenths of an expression that is a constant, or is not.
pub fn parts(is_constant: bool) -> usize {
    if is_constant { 1 } else { PARTS }
}

impl Default for PlanBudget {
    fn default() -> Self {
        Self::from(&QueryConfig::default())
    }
}

impl From<&QueryConfig> for PlanBudget {
    fn from(config: &QueryConfig) -> Self {
        Self {
            nodes: config.max_plan_nodes,
            expression_parts: config.max_plan_expressions.saturating_mul(PARTS),
        }
    }
}

impl PlanBudget {
    /// Refuses a plan of so many nodes.
    pub fn check_nodes(&self, nodes: usize) -> Result<()> {
        if nodes <= self.nodes {
            return Ok(());
        }
        let message = format!(
            "statement is planned into {} SELECTs, tables and joins, more than the {} allowed",
            counted(nodes),
            self.nodes
        );
        Err(exceeded(message).hint(
            "a query in WITH counts wherever it is named: write its result to a table, or raise `query.max_plan_nodes`",
        ))
    }

    /// Whether a plan may have so many [parts] of expressions.
    pub fn has_room_for(&self, parts: usize) -> bool {
        parts <= self.expression_parts
    }

    /// Refuses a plan of so many [parts] of expressions.
    pub fn check_expressions(&self, parts: usize) -> Result<()> {
        if self.has_room_for(parts) {
            return Ok(());
        }
        let expressions = if parts == usize::MAX { parts } else { parts / PARTS };
        let message = format!(
            "statement is planned into {} expressions, more than the {} allowed",
            counted(expressions),
            self.expression_parts / PARTS
        );
        Err(exceeded(message).hint(
            "write the result of a subquery to a table, join a table of the values, or raise `query.max_plan_expressions`",
        ))
    }
}

/// Sums end at the largest number.
pub fn counted(number: usize) -> String {
    match number {
        usize::MAX => "endlessly many".to_owned(),
        number => number.to_string(),
    }
}

pub fn exceeded(message: String) -> QueryError {
    QueryError::new(ErrorKind::LimitExceeded, message)
}
