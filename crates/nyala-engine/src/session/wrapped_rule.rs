//! A physical rule of DataFusion that runs within code of ours, which keeps it from a mistake.

use std::fmt::Debug;
use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::optimizer::{
    ConfigOnlyContext, PhysicalOptimizerContext, PhysicalOptimizerRule,
};
use datafusion::physical_plan::ExecutionPlan;

pub type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// What is done before a rule, and after it.
pub trait Wrapper: Debug + Send + Sync + Sized + 'static {
    /// Runs the rule.
    fn run(
        &self,
        rule: &Rule,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>>;

    /// The rule as it is run so, under its own name.
    fn around(self, rule: Rule) -> Rule {
        Arc::new(WrappedRule { wrapper: self, rule })
    }
}

#[derive(Debug)]
struct WrappedRule<W> {
    wrapper: W,
    rule: Rule,
}

impl<W: Wrapper> PhysicalOptimizerRule for WrappedRule<W> {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.optimize_with_context(plan, &ConfigOnlyContext::new(options))
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.wrapper.run(&self.rule, plan, context)
    }

    fn name(&self) -> &str {
        self.rule.name()
    }

    fn schema_check(&self) -> bool {
        self.rule.schema_check()
    }
}
