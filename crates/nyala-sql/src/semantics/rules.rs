//! The meanings as rules of DataFusion's analyzer and optimizer.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{AnalyzerRule, OptimizerConfig, OptimizerRule};

use super::{Phase, lower_plan};

/// Applies the meanings of a phase.
#[derive(Debug)]
pub struct MeaningsOf(pub Phase);

impl MeaningsOf {
    fn title(&self) -> &'static str {
        match self.0 {
            Phase::Types => "meanings_of_types",
            Phase::Constants => "meanings_of_constants",
            Phase::Optimizer => "meanings_kept_from_rules",
            Phase::Operators => "meanings_of_operators",
        }
    }
}

impl AnalyzerRule for MeaningsOf {
    fn name(&self) -> &str {
        self.title()
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(lower_plan(plan, self.0, config)?.data)
    }
}

impl OptimizerRule for MeaningsOf {
    fn name(&self) -> &str {
        self.title()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        lower_plan(plan, self.0, &config.options())
    }
}
