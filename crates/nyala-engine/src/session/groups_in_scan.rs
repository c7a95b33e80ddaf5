//! Groups and sorts the cells of a hot cuboid by their stored keys.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use nyala_cube::scan::HotGroupsExec;

/// Replaces the operators that merge, sort and choose the rows of a scan by one operator.
#[derive(Debug)]
pub struct GroupsInScan;

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
