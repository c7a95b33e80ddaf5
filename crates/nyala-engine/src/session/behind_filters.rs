//! Projections stay above the filters that guard what they compute.
//!
//! DataFusion moves projections below filters: `a / b … WHERE b <> 0` would be computed for the other rows too.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_optimizer::optimizer::PhysicalOptimizerContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::{ProjectionExec, try_embed_projection};

use super::context_rule::PhysicalRule;
use super::wrapped_physical_rule::PhysicalWrapper;
use super::yielding::{is_yield, yielding};

/// Keeps a rule that moves projections from moving one that computes something below a filter.
#[derive(Debug)]
pub struct BehindFilters;

impl PhysicalWrapper for BehindFilters {
    fn run(
        &self,
        rule: &PhysicalRule,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let fenced = fence(plan, false)?;
        let done = rule.optimize_with_context(fenced.data, context)?;
        if !fenced.transformed {
            return Ok(done);
        }
        Ok(done.transform_up(unfence)?.data)
    }
}

/// Puts a fence, which projections are not moved through, above each filter below a projection that computes something.
fn fence(plan: Arc<dyn ExecutionPlan>, computed_above: bool) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let is_fenced = computed_above && plan.is::<FilterExec>();
    let computes = plan.downcast_ref::<ProjectionExec>().map(computes);
    let comes_through = |child: &Arc<dyn ExecutionPlan>| match computes {
        Some(computes) => computes || computed_above,
        // An operator with the columns of its input lets projections through, also if it renames columns.
        None => {
            let columns = |plan: &Arc<dyn ExecutionPlan>| plan.schema().fields().len();
            computed_above && !is_fenced && columns(child) == columns(&plan)
        }
    };
    let mut changed = false;
    let mut children = Vec::new();
    for child in plan.children() {
        let fenced = fence(Arc::clone(child), comes_through(child))?;
        changed |= fenced.transformed;
        children.push(fenced.data);
    }
    let plan = replace_children_if_necessary(plan, children)?;
    if is_fenced {
        return Ok(Transformed::yes(yielding(plan)));
    }
    Ok(Transformed::new_transformed(plan, changed))
}

/// Removes a fence: every yield in the plan is one, because `InsertYields` runs later. Merges a projection into the filter below it.
fn unfence(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if let (true, [child]) = (is_yield(node.as_ref()), &node.children()[..]) {
        return Ok(Transformed::yes(Arc::clone(child)));
    }
    let embedded = match node.downcast_ref::<ProjectionExec>() {
        Some(projection) => match projection.input().downcast_ref::<FilterExec>() {
            Some(filter) => try_embed_projection(projection, filter)?,
            None => None,
        },
        None => None,
    };
    Ok(embedded.map_or(Transformed::no(node), Transformed::yes))
}

fn computes(projection: &ProjectionExec) -> bool {
    projection.expr().iter().any(|column| !(column.expr.is::<Column>() || column.expr.is::<Literal>()))
}
