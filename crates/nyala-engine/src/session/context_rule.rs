//! Physical rules that read the context of planning, where most read the configuration alone.

use std::fmt::Debug;
use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::optimizer::{
    ConfigOnlyContext, PhysicalOptimizerContext, PhysicalOptimizerRule,
};
use datafusion::physical_plan::ExecutionPlan;

pub type PhysicalRule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// A rule that reads the context. DataFusion calls a rule with a context or with a configuration alone, and
/// [`into_rule`](Self::into_rule) answers both calls.
pub trait ContextRule: Debug + Send + Sync + Sized + 'static {
    /// Rewrites a plan.
    fn run(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>>;

    /// The name that plans and errors show.
    fn name(&self) -> &str;

    /// Whether the rule keeps the schema of a plan, which DataFusion then checks.
    fn schema_check(&self) -> bool;

    /// This rule as DataFusion takes it.
    fn into_rule(self) -> PhysicalRule {
        Arc::new(OfContext(self))
    }
}

#[derive(Debug)]
struct OfContext<R>(R);

impl<R: ContextRule> PhysicalOptimizerRule for OfContext<R> {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.run(plan, &ConfigOnlyContext::new(options))
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.run(plan, context)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}
