//! Rows that several places of one plan read, and that are computed once for all of them.
//!
//! ```text
//! Join ─┬─ SharedRows 7 ── Limit ── …
//!       └─ Aggregate ── SharedRows 7 ── Limit ── …     the same rows, whichever place is computed first
//! ```
//!
//! A plan is a tree, so a shared input is in it twice. Both copies are planned, and one of them is executed.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU64};

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};

/// Labels given so far in this process: no two plans that are put into one statement have the same.
static LABELS: AtomicU64 = AtomicU64::new(0);

fn next_label() -> String {
    LABELS.fetch_add(1, atomic::Ordering::Relaxed).to_string()
}

/// Gives the rows of its input. All nodes of a plan with one label give the same rows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SharedRows {
    input: Arc<LogicalPlan>,
    label: Arc<str>,
}

impl SharedRows {
    /// A node with a new label. Copies of it share their rows.
    pub fn over(plan: LogicalPlan) -> LogicalPlan {
        Self { input: Arc::new(plan), label: next_label().into() }.into_plan()
    }

    /// A copy of a plan whose nodes share rows with each other, but not with the nodes of the original.
    pub fn apart(plan: LogicalPlan) -> Result<LogicalPlan> {
        let copy = next_label();
        let apart = plan.transform_up_with_subqueries(|node| {
            let renamed = Self::of(&node).map(|shared| shared.rewritten(shared.input().clone(), &copy));
            Ok(renamed.map_or_else(|| Transformed::no(node), Transformed::yes))
        })?;
        Ok(apart.data)
    }

    /// Whether a plan has such nodes.
    pub fn are_in(plan: &LogicalPlan) -> Result<bool> {
        let mut found = false;
        plan.apply_with_subqueries(|node| {
            found |= Self::of(node).is_some();
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        Ok(found)
    }

    /// The plan as a node of this type; none if it is another one.
    pub fn of(plan: &LogicalPlan) -> Option<&Self> {
        match plan {
            LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref(),
            _ => None,
        }
    }

    /// The plan that computes the rows.
    pub fn input(&self) -> &LogicalPlan {
        &self.input
    }

    /// The label: nodes with the same one share their rows.
    pub fn label(&self) -> &Arc<str> {
        &self.label
    }

    /// The node after a rewrite that replaces its input by `input`. The same rewrite of all nodes with one label gives them one label again.
    pub fn rewritten(&self, input: LogicalPlan, rewrite: &str) -> LogicalPlan {
        let label = format!("{}/{rewrite}", self.label);
        Self { input: Arc::new(input), label: label.into() }.into_plan()
    }

    fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }
}

impl UserDefinedLogicalNodeCore for SharedRows {
    fn name(&self) -> &str {
        "SharedRows"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedRows")
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let input = inputs.into_iter().next().map_or_else(|| Arc::clone(&self.input), Arc::new);
        Ok(Self { input, label: Arc::clone(&self.label) })
    }

    /// All places read the same columns, although some need fewer.
    fn necessary_children_exprs(&self, _output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![(0..self.input.schema().fields().len()).collect()])
    }
}

impl PartialOrd for SharedRows {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::logical_expr::{LogicalPlanBuilder, lit};

    use super::*;

    fn labels(plan: &LogicalPlan) -> Vec<Arc<str>> {
        let mut labels = Vec::new();
        plan.apply_with_subqueries(|node| {
            labels.extend(SharedRows::of(node).map(|shared| Arc::clone(shared.label())));
            Ok(TreeNodeRecursion::Continue)
        })
        .unwrap();
        labels
    }

    #[test]
    fn a_plan_apart_shares_rows_with_itself_only() {
        let one = LogicalPlanBuilder::values(vec![vec![lit(1_i64)]]).unwrap().build().unwrap();
        let shared = SharedRows::over(one.clone());
        assert!(!SharedRows::are_in(&one).unwrap());
        assert_ne!(labels(&shared), labels(&SharedRows::over(one)));
        let twice = LogicalPlanBuilder::from(shared.clone()).union(shared).unwrap().build().unwrap();
        assert!(SharedRows::are_in(&twice).unwrap());
        let apart = SharedRows::apart(twice.clone()).unwrap();
        for plan in [&twice, &apart] {
            let labels = labels(plan);
            assert_eq!((labels.len(), labels.first()), (2, labels.last()), "{plan}");
        }
        assert_ne!(labels(&twice), labels(&apart));
        assert_ne!(labels(&apart), labels(&SharedRows::apart(twice).unwrap()));
    }
}
