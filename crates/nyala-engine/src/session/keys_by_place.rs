//! Keys of aggregations stay in their order where two of them have one name.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizerContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

use super::context_rule::PhysicalRule;
use super::wrapped_physical_rule::PhysicalWrapper;

/// `EnsureRequirements` brings the keys of an aggregation below a join into the order of the join's keys. DataFusion 55 finds
/// each of them again by its name (`reorder_aggregate_keys`): of `GROUP BY a.id, b.id`, both columns would be the first. So it
/// must not reorder where names repeat; the rows are exchanged once more then.
#[derive(Debug)]
pub struct KeysByPlace;

impl PhysicalWrapper for KeysByPlace {
    fn run(
        &self,
        rule: &PhysicalRule,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !has_namesakes(&plan)? {
            return rule.optimize_with_context(plan, context);
        }
        let mut options = context.config_options().clone();
        options.optimizer.top_down_join_key_reordering = false;
        rule.optimize(plan, &options)
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
