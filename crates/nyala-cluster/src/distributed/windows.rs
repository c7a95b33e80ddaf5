//! Sorts below windows, by all columns that the windows are divided by.
//!
//! DataFusion leaves columns out of a sort that a condition below makes constant. A stage of another node sees its input only, and
//! not the condition, which another stage has: there the rows would not count as sorted.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};

type Keys = Vec<Arc<dyn PhysicalExpr>>;

/// The plan with sorts below windows that have all keys of the windows.
pub fn sorted_by_all_keys(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = plan.transform_up(|node| {
        let keys = keys_of(node.as_ref());
        let input = match node.children()[..] {
            [input] if !keys.is_empty() => with_keys(input, &keys)?,
            _ => None,
        };
        Ok(match input {
            Some(input) => Transformed::yes(replace_children_if_necessary(node, vec![input])?),
            None => Transformed::no(node),
        })
    })?;
    Ok(plan.data)
}

/// The columns that divide the windows of an operator, if it wants its input sorted by them.
fn keys_of(node: &dyn ExecutionPlan) -> Keys {
    if let Some(window) = node.downcast_ref::<BoundedWindowAggExec>() {
        return match window.input_order_mode {
            InputOrderMode::Sorted => window.partition_keys(),
            InputOrderMode::Linear | InputOrderMode::PartiallySorted(_) => Vec::new(),
        };
    }
    node.downcast_ref::<WindowAggExec>().map(WindowAggExec::partition_keys).unwrap_or_default()
}

/// The input of windows, sorted by all of their keys; none if it is, or if something else sorts it.
fn with_keys(input: &Arc<dyn ExecutionPlan>, keys: &Keys) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(sort) = input.downcast_ref::<SortExec>() {
        return sort_with_keys(sort, keys);
    }
    // Windows of one order stand above one sort. Their columns come after those of their input.
    let is_window = input.is::<BoundedWindowAggExec>() || input.is::<WindowAggExec>();
    let below = match input.children()[..] {
        [below] if is_window => with_keys(below, keys)?,
        _ => None,
    };
    below.map(|below| replace_children_if_necessary(Arc::clone(input), vec![below])).transpose()
}

fn sort_with_keys(sort: &SortExec, keys: &Keys) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let is_key = |sorted: &&PhysicalSortExpr| keys.iter().any(|key| key.eq(&sorted.expr));
    let leading: Vec<_> = sort.expr().iter().take_while(is_key).cloned().collect();
    let missing = keys.iter().filter(|key| !sort.expr().iter().any(|sorted| sorted.expr.eq(*key)));
    let missing: Vec<_> = missing.map(|key| PhysicalSortExpr::new_default(Arc::clone(key))).collect();
    if missing.is_empty() {
        return Ok(None);
    }
    let rest = sort.expr().iter().skip(leading.len()).cloned();
    let all: Vec<_> = leading.iter().cloned().chain(missing).chain(rest).collect();
    let Some(order) = LexOrdering::new(all) else { return Ok(None) };
    let sorted = SortExec::new(order, Arc::clone(sort.input()))
        .with_preserve_partitioning(sort.preserve_partitioning())
        .with_fetch(sort.fetch());
    Ok(Some(Arc::new(sorted)))
}
