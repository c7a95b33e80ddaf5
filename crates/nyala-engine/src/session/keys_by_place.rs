//! Keys of aggregations stay in their order where two of them have one name.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::optimizer::{
    ConfigOnlyContext, PhysicalOptimizerContext, PhysicalOptimizerRule,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// `EnsureRequirements` brings the keys of an aggregation below a join into the order of the join's keys. DataFusion 55 finds
/// each of them again by its name (`reorder_aggregate_keys`): of `GROUP BY a.id, b.id`, both columns would be the first. So it
/// must not reorder where names repeat; the rows are exchanged once more then.
#[derive(Debug)]
pub struct KeysByPlace(pub Rule);

impl PhysicalOptimizerRule for KeysByPlace {
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
        if !has_namesakes(&plan)? {
            return self.0.optimize_with_context(plan, context);
        }
        let mut options = context.config_options().clone();
        options.optimizer.top_down_join_key_reordering = false;
        self.0.optimize(plan, &options)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Whether two keys of one aggregation have the same name.
fn has_namesakes(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let mut found = false;
    plan.apply(|node| {
        if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
            let mut names = BTreeSet::new();
            found |= !aggregate.group_expr().expr().iter().all(|(_, name)| names.insert(name.as_str()));
        }
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}
