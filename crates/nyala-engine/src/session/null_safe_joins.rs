//! Joins by `IS NOT DISTINCT FROM`: two keys are equal also if both are NULL.
//!
//! DataFusion 55 keeps that for all keys of a join, and its rules add keys that were compared with `=` to such a join, or make one
//! join of several: NULL is equal to NULL then where it must not be.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, JoinType, NullEquality, Result};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, Extension, Join, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::optimizer::OptimizerConfig;

use super::pinned_filters::volatile_apart;
use super::wrapped_logical_rule::{LogicalRule, LogicalWrapper};

/// The rule of DataFusion that makes keys of the conditions of a join.
const KEYS: &str = "extract_equijoin_predicate";

/// The rule of DataFusion that brings inner joins into another order, and divides their keys among them anew.
const ORDER: &str = "eliminate_cross_join";

/// Keeps either of the two rules from comparing a key otherwise than it is written. Other rules are returned as they are.
pub fn keep_null_equality(rule: LogicalRule) -> LogicalRule {
    match rule.name() {
        KEYS => KeysNotNull.around(rule),
        ORDER => NullSafeApart.around(rule),
        _ => rule,
    }
}

/// Adds `IS NOT NULL` to the conditions of a null-safe join for each key that was compared with `=`. What is volatile, as `random()` is,
/// becomes no key: a key has one value for all pairs of its row, and exchanges and joins compute it each on their own.
#[derive(Debug)]
struct KeysNotNull;

impl LogicalWrapper for KeysNotNull {
    fn run(
        &self,
        rule: &LogicalRule,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(mut join) = plan else { return rule.rewrite(plan, config) };
        let null_safe = null_safe_keys(&mut join);
        let (volatile, others) = volatile_apart(join.filter.take());
        join.filter = others;
        let mut rewritten = rule.rewrite(LogicalPlan::Join(join), config)?;
        if let LogicalPlan::Join(join) = &mut rewritten.data {
            let keys = if null_safe > 0 { join.on.get(null_safe..).unwrap_or_default() } else { &[] };
            let added: Vec<Expr> = keys.iter().map(|(_, right)| right.clone().is_not_null()).collect();
            join.filter = conjunction(join.filter.take().into_iter().chain(added).chain(volatile));
        }
        Ok(rewritten)
    }
}

/// How many keys of a join are equal also where both are NULL. A join without keys forgets that it would compare them so.
fn null_safe_keys(join: &mut Join) -> usize {
    if join.on.is_empty() {
        join.null_equality = NullEquality::NullEqualsNothing;
    }
    match join.null_equality {
        NullEquality::NullEqualsNull => join.on.len(),
        NullEquality::NullEqualsNothing => 0,
    }
}

/// Hides null-safe joins from the rule, which brings the joins above and below each of them into order on their own.
#[derive(Debug)]
struct NullSafeApart;

impl LogicalWrapper for NullSafeApart {
    fn run(
        &self,
        rule: &LogicalRule,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let hidden = plan.transform_down_with_subqueries(|node| self.hide(rule, node, config))?;
        if !hidden.transformed {
            return rule.rewrite(hidden.data, config);
        }
        let rewritten = rule.rewrite(hidden.data, config)?;
        Ok(Transformed::yes(rewritten.data.transform_down_with_subqueries(show)?.data))
    }
}

impl NullSafeApart {
    /// Rewrites the inputs of a null-safe join, and puts a leaf in the place of the join, which the rule does not look into.
    fn hide(
        &self,
        rule: &LogicalRule,
        node: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(mut join) = node else { return Ok(Transformed::no(node)) };
        if join.join_type != JoinType::Inner || null_safe_keys(&mut join) == 0 {
            return Ok(Transformed::no(LogicalPlan::Join(join)));
        }
        let rewritten = LogicalPlan::Join(join).map_children(|input| self.run(rule, input, config))?;
        let join = if rewritten.transformed { rewritten.data.recompute_schema()? } else { rewritten.data };
        let leaf = LogicalPlan::Extension(Extension { node: Arc::new(HiddenJoin(join)) });
        Ok(Transformed::new(leaf, true, TreeNodeRecursion::Jump))
    }
}

fn show(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Extension(extension) = &node else { return Ok(Transformed::no(node)) };
    let Some(HiddenJoin(join)) = extension.node.as_any().downcast_ref::<HiddenJoin>() else {
        return Ok(Transformed::no(node));
    };
    Ok(Transformed::new(join.clone(), true, TreeNodeRecursion::Jump))
}

/// A join as a leaf. It never leaves [`NullSafeApart`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Hash)]
struct HiddenJoin(LogicalPlan);

impl UserDefinedLogicalNodeCore for HiddenJoin {
    fn name(&self) -> &str {
        "HiddenJoin"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        Vec::new()
    }

    fn schema(&self) -> &DFSchemaRef {
        self.0.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HiddenJoin")
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, _inputs: Vec<LogicalPlan>) -> Result<Self> {
        Ok(self.clone())
    }
}
