//! Projections of constants and subqueries keep the qualifiers of their columns.
//!
//! DataFusion 55 merges a projection into the one below it. It drops an alias of the name that its expression has anyway, and adds it
//! again only if it has merged anything. A projection that reads no column is not merged: its columns have lost their
//! qualifiers, and the next check of the plan's schema fails.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};
use datafusion::optimizer::OptimizerConfig;

use super::wrapped_logical_rule::{LogicalRule, LogicalWrapper};

/// The rule of DataFusion that merges projections.
const MERGING: &str = "optimize_projections";

/// Lets the rule that merges projections find each projection that reads no column on the input of the projections below it. Other rules
/// are returned as they are.
pub fn keep_qualifiers(rule: LogicalRule) -> LogicalRule {
    match rule.name() == MERGING {
        true => KeepQualifiers.around(rule),
        false => rule,
    }
}

#[derive(Debug)]
struct KeepQualifiers;

impl LogicalWrapper for KeepQualifiers {
    fn run(
        &self,
        rule: &LogicalRule,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        plan.transform_down(below_unread)?.transform_data(|plan| rule.rewrite(plan, config))
    }
}

/// Leaves out the projections below a projection that reads no column.
fn below_unread(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Projection(projection) = &node else { return Ok(Transformed::no(node)) };
    // Few projections pass the first two tests, and the third writes out names of expressions.
    let is_at_risk = matches!(projection.input.as_ref(), LogicalPlan::Projection(_))
        && projection.expr.iter().all(reads_nothing)
        && projection.expr.iter().any(has_own_name);
    if !is_at_risk {
        return Ok(Transformed::no(node));
    }
    let mut input = &projection.input;
    while let LogicalPlan::Projection(below) = input.as_ref() {
        input = &below.input;
    }
    let moved = Projection::try_new(projection.expr.clone(), Arc::clone(input))?;
    Ok(Transformed::yes(LogicalPlan::Projection(moved)))
}

/// Whether an alias adds a qualifier, and nothing else.
fn has_own_name(expr: &Expr) -> bool {
    matches!(expr, Expr::Alias(alias)
        if alias.relation.is_some() && alias.expr.schema_name().to_string() == alias.name)
}

fn reads_nothing(expr: &Expr) -> bool {
    !expr.any_column_refs() && !expr.exists(|part| Ok(is_correlated(part))).unwrap_or(true)
}

fn is_correlated(part: &Expr) -> bool {
    let subquery = match part {
        Expr::ScalarSubquery(subquery) => subquery,
        Expr::Exists(exists) => &exists.subquery,
        Expr::InSubquery(within) => &within.subquery,
        Expr::SetComparison(comparison) => &comparison.subquery,
        _ => return false,
    };
    !subquery.outer_ref_columns.is_empty()
}
