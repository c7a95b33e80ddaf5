//! A logical rule of DataFusion that runs within code of ours, which keeps it from a mistake or lets it be interrupted.

use std::fmt::Debug;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

pub type LogicalRule = Arc<dyn OptimizerRule + Send + Sync>;

/// What is done before a rule, after it, or in its place.
pub trait LogicalWrapper: Debug + Send + Sync + Sized + 'static {
    /// Runs the rule on the nodes that it is applied to.
    fn run(
        &self,
        rule: &LogicalRule,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>>;

    /// The rule, run through this wrapper, under its own name and in its own order of nodes.
    fn around(self, rule: LogicalRule) -> LogicalRule {
        Arc::new(WrappedRule { wrapper: self, rule })
    }
}

#[derive(Debug)]
struct WrappedRule<W> {
    wrapper: W,
    rule: LogicalRule,
}

impl<W: LogicalWrapper> OptimizerRule for WrappedRule<W> {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        self.wrapper.run(&self.rule, plan, config)
    }
}
