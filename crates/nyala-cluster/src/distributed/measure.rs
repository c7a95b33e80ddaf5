//! What the operators of a query did on all nodes, for EXPLAIN ANALYZE.
//!
//! datafusion-distributed gets the metrics of a task as a list in the order of its operators, and assigns them to the operators that were sent.
//! A node puts further operators between those that it runs: a head, and places to yield. So the coordinator puts marks at the same places
//! of the operators that it sends for a query that is measured. The marks stay on the coordinator; of a mark, only its input travels.

use std::sync::Arc;
use std::time::Duration;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion_distributed::{
    DistributedMetricsFormat, NetworkBoundaryExt, Stage, display_plan_ascii,
    rewrite_distributed_plan_with_metrics,
};
use nyala_engine::{Pass, PassExec, insert_yields, is_yield, remove_checks, remove_yields};

use super::distribution::is_boundary;
use super::fragment::with_head;

/// After this long without the metrics of a task, the node that did it is taken for gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// Marks the place where the node that runs a task adds its head.
#[derive(Debug)]
struct Head;

impl Pass for Head {
    fn name(&self) -> &'static str {
        "InScopeExec"
    }

    fn anew(&self) -> Self {
        Self
    }
}

/// Whether an operator is a mark.
pub fn is_mark(operator: &dyn ExecutionPlan) -> bool {
    is_yield(operator) || operator.is::<PassExec<Head>>()
}

/// The operators of a query, with marks in all stages that are sent.
pub fn with_marks(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(boundary) = plan.as_network_boundary()
        && let Stage::Local(stage) = boundary.input_stage()
    {
        let mut stage = stage.clone();
        let marked = remove_checks(insert_yields(with_marks(stage.plan)?, &is_boundary)?)?;
        stage.plan = with_head(marked, Head)?;
        let boundary: Arc<dyn ExecutionPlan> = boundary.with_input_stage(Stage::Local(stage))?;
        return Ok(boundary);
    }
    let children = plan.children().into_iter().map(|child| with_marks(Arc::clone(child)));
    let children = children.collect::<Result<Vec<_>>>()?;
    replace_children_if_necessary(plan, children)
}

/// The operators without marks: a node that sends a task to itself gets them as they are.
pub fn without_marks(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = plan.transform_up(|node| {
        Ok(match node.downcast_ref::<PassExec<Head>>() {
            Some(head) => Transformed::yes(Arc::clone(head.input())),
            None => Transformed::no(node),
        })
    })?;
    remove_yields(plan.data)
}

/// The operators of a query whose rows have ended, stage by stage, with what they did: in all tasks together, or in each.
pub async fn figures(plan: &Arc<dyn ExecutionPlan>, of_each_task: bool) -> Result<String> {
    let format = match of_each_task {
        true => DistributedMetricsFormat::PerTask,
        false => DistributedMetricsFormat::Aggregated,
    };
    let rewritten = rewrite_distributed_plan_with_metrics(Arc::clone(plan), format);
    Ok(match tokio::time::timeout(PATIENCE, rewritten).await {
        Ok(measured) => display_plan_ascii(measured?.as_ref(), true),
        Err(_) => {
            let plan = display_plan_ascii(plan.as_ref(), false);
            format!("a node has not told within {PATIENCE:?} what its operators did\n{plan}")
        }
    })
}
