//! A physical rule of DataFusion that runs within code of ours, which keeps it from a mistake.

use std::fmt::Debug;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizerContext;
use datafusion::physical_plan::ExecutionPlan;

use super::context_rule::{ContextRule, PhysicalRule};

/// What is done before a rule, and after it.
pub trait PhysicalWrapper: Debug + Send + Sync + Sized + 'static {
    /// Runs the rule.
    fn run(
        &self,
        rule: &PhysicalRule,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>>;

    /// The rule, run through this wrapper, under its own name.
    fn around(self, rule: PhysicalRule) -> PhysicalRule {
        WrappedRule { wrapper: self, rule }.into_rule()
    }
}

#[derive(Debug)]
struct WrappedRule<W> {
    wrapper: W,
    rule: PhysicalRule,
}

impl<W: PhysicalWrapper> ContextRule for WrappedRule<W> {
    fn run(
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
