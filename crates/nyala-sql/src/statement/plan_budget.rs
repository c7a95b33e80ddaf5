//! The largest plan that a statement may have, and the errors of statements that exceed it.

use nyala_model::config::QueryConfig;

use crate::error::{ErrorKind, QueryError, Result};

/// The largest plan that a statement may have.
#[derive(Debug, Clone, Copy)]
pub struct PlanBudget {
    /// Number of SELECTs, tables and joins.
    pub nodes: usize,
    /// Number of columns, calls and operators, times [`PARTS`].
    expression_parts: usize,
}

/// Expressions are counted in tenths: a constant is one, since nothing is resolved or rewritten in it.
pub const PARTS: usize = 10;

/// The size of an expression in tenths: of a constant or of another one.
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
    /// Refuses a plan with this number of nodes, if it is too large.
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

    /// Whether a plan may have this number of [parts] of expressions.
    pub fn has_room_for(&self, parts: usize) -> bool {
        parts <= self.expression_parts
    }

    /// Refuses a plan with this number of [parts] of expressions, if it is too large.
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

/// A number in a message. Sums are saturating, so that the largest number stands for any larger one.
pub fn counted(number: usize) -> String {
    match number {
        usize::MAX => "endlessly many".to_owned(),
        number => number.to_string(),
    }
}

pub fn exceeded(message: String) -> QueryError {
    QueryError::new(ErrorKind::LimitExceeded, message)
}
