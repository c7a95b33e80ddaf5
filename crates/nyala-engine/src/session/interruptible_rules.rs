//! Rules of planning that fail once the statement that is planned must end.
//!
//! DataFusion plans in one go, without a place to wait: a statement that was cancelled or timed out would keep its planning thread to
//! the end. So rules check before they begin, and rules that go node by node check before each node.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{AnalyzerRule, ApplyOrder, OptimizerConfig, OptimizerRule};

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

/// A rule of the optimizer that neither begins nor goes on to the next node for a statement that must end.
#[derive(Debug)]
pub struct InterruptibleRule(pub Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for InterruptibleRule {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        check_statement()?;
        self.0.rewrite(plan, config)
    }
}
