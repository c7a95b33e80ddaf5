//! Joins give way, so that a query that is cancelled in the middle of one ends.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::unnest::UnnestExec;

/// Makes operators that turn one batch into many yield between the batches they give.
///
/// DataFusion counts work at the leaves of a plan. A join can give billions of rows for one batch of
/// its input, and an aggregation above it would take them all without ever looking up.
#[derive(Debug)]
pub(super) struct CooperativeJoins;

impl PhysicalOptimizerRule for CooperativeJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _options: &ConfigOptions,
    ) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_up(|node| {
            Ok(if multiplies(node.as_ref()) {
                Transformed::yes(Arc::new(CooperativeExec::new(node)) as Arc<dyn ExecutionPlan>)
            } else {
                Transformed::no(node)
            })
        })?;
        Ok(plan.data)
    }

    fn name(&self) -> &str {
        "cooperative_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn multiplies(node: &dyn ExecutionPlan) -> bool {
    node.is::<HashJoinExec>()
        || node.is::<NestedLoopJoinExec>()
        || node.is::<CrossJoinExec>()
        || node.is::<SortMergeJoinExec>()
        || node.is::<UnnestExec>()
}
