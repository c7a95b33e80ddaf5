//! Filters over hot cuboids, decided by the scan.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use nyala_cube::scan::HotCuboidExec;

/// Lets the scan do the work of a filter right above it: it decodes fewer rows then.
#[derive(Debug)]
pub struct FilterInScan;

impl PhysicalOptimizerRule for FilterInScan {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let filtered = match node.downcast_ref::<FilterExec>() {
                Some(filter) => match filter.input().downcast_ref::<HotCuboidExec>() {
                    Some(scan) => scan.with_filter(filter)?,
                    None => None,
                },
                None => None,
            };
            Ok(match filtered {
                Some(scan) => Transformed::yes(Arc::new(scan) as Arc<dyn ExecutionPlan>),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "filter_in_scan"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
