//! Large queries give way, to what ends them and to smaller ones.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::unnest::UnnestExec;

use super::give_way::GiveWayExec;

/// Makes operators that read, and those that turn one batch into many, give way between the batches they give.
///
/// DataFusion counts work at the leaves of a plan. A join can give billions of rows for one batch of
/// its input, and an aggregation above it would take them all without ever looking up.
#[derive(Debug)]
pub(super) struct GivesWay;

impl PhysicalOptimizerRule for GivesWay {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _options: &ConfigOptions,
    ) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_up(|node| {
            Ok(if reads(node.as_ref()) || multiplies(node.as_ref()) {
                Transformed::yes(Arc::new(GiveWayExec::new(node)) as Arc<dyn ExecutionPlan>)
            } else {
                Transformed::no(node)
            })
        })?;
        Ok(plan.data)
    }

    fn name(&self) -> &str {
        "gives_way"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn reads(node: &dyn ExecutionPlan) -> bool {
    node.children().is_empty() && !node.is::<PlaceholderRowExec>() && !node.is::<EmptyExec>()
}

fn multiplies(node: &dyn ExecutionPlan) -> bool {
    node.is::<HashJoinExec>()
        || node.is::<NestedLoopJoinExec>()
        || node.is::<CrossJoinExec>()
        || node.is::<SortMergeJoinExec>()
        || node.is::<UnnestExec>()
}
