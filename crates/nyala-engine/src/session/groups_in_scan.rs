//! Groups and order of the cells of a hot cuboid, made of the keys that these are kept as.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use nyala_cube::scan::HotGroupsExec;

/// Puts one operator in the place of those that merge, order and choose what a scan gives.
#[derive(Debug)]
pub(super) struct GroupsInScan;

impl PhysicalOptimizerRule for GroupsInScan {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|node| {
            Ok(match HotGroupsExec::instead_of(&node) {
                Some(groups) => Transformed::new(Arc::new(groups), true, TreeNodeRecursion::Jump),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "groups_in_scan"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
