//! Rules of planning that fail once the statement that is planned must end.
//!
//! DataFusion plans in one go, without a place to wait: a statement that was cancelled or timed out would keep its planning thread to
//! the end. So rules check before they begin, and rules that go node by node check before each node.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{AnalyzerRule, OptimizerConfig};

use super::wrapped_logical_rule::{LogicalRule, LogicalWrapper};
use super::yielding::check_statement;

/// A rule of the analyzer that does not begin for a statement that must end.
#[derive(Debug)]
pub struct InterruptibleAnalysis(pub Arc<dyn AnalyzerRule + Send + Sync>);

impl AnalyzerRule for InterruptibleAnalysis {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        check_statement()?;
        self.0.analyze(plan, config)
    }
}

/// Keeps a rule of the optimizer from beginning, and from going on to the next node, for a statement that must end.
#[derive(Debug)]
pub struct Interruptible;

impl LogicalWrapper for Interruptible {
    fn run(
        &self,
        rule: &LogicalRule,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        check_statement()?;
        rule.rewrite(plan, config)
    }
}
