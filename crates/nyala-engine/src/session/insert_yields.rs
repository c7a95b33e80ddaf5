//! Puts yields into plans, and checks whether the statement must end.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder, SortMergeJoinExec,
};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::unnest::UnnestExec;

use super::interruptible_expr::InterruptibleExpr;
use super::shared_rows::SharedRowsExec;
use super::yielding::{YieldExec, once, slicing, yielding};

/// Rows of the first slice where an operator may compare a row with, or repeat it for, any number of others.
const ONE_ROW: usize = 1;
/// Rows of the first slice where most rows match few others, found by hash.
const SOME_ROWS: usize = 64;

/// Makes leaf operators yield, and operators that turn one batch into many.
///
/// DataFusion counts work at the leaves of a plan, and a task ends between two polls only. A join may compare one batch of its
/// input with millions of rows, for hours, and return none of them: the operators above it never get to check, and the
/// ones below are not polled. So a join
/// - gets its probe side in slices, small enough for a check in time,
/// - checks in its filter, for each few thousand pairs, whether the statement must end, as one slice may take seconds,
/// - yields between its output batches, of which one input batch may make billions.
///
/// The left side of a join without keys is executed once, see [`once`].
#[derive(Debug)]
pub struct InsertYields;

impl PhysicalOptimizerRule for InsertYields {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        insert_yields(plan, &|_| false)
    }

    fn name(&self) -> &str {
        "insert_yields"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan with places to yield, down to operators for which `ends` holds: what is below them runs elsewhere.
pub fn insert_yields(
    plan: Arc<dyn ExecutionPlan>,
    ends: &dyn Fn(&dyn ExecutionPlan) -> bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    if ends(plan.as_ref()) {
        return Ok(yielding(plan));
    }
    let children = plan.children().into_iter().map(|child| insert_yields(Arc::clone(child), ends));
    let children = children.collect::<Result<Vec<_>>>()?;
    let node = replace_children_if_necessary(plan, children)?;
    // The rows that are shared come from memory for all places but the first.
    if is_leaf(node.as_ref()) || node.is::<SharedRowsExec>() {
        return Ok(yielding(node));
    }
    Ok(multiplier(&node)?.map_or(node, yielding))
}

/// The plan as it was before [`insert_yields`]: only this process knows the operators that yield.
pub fn remove_yields(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = plan.transform_up(|node| {
        Ok(match node.downcast_ref::<YieldExec>() {
            Some(yields) => Transformed::yes(Arc::clone(yields.input())),
            None => Transformed::no(node),
        })
    })?;
    remove_checks(plan.data)
}

/// The plan with the filters that its joins had before [`insert_yields`], and with its places to yield.
pub fn remove_checks(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = plan.transform_up(|node| {
        if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
            let filter = join.filter().map(uninterruptible);
            return Ok(Transformed::yes(Arc::new(
                NestedLoopJoinExecBuilder::from(join).with_filter(filter).build()?,
            )));
        }
        if let Some(join) = node.downcast_ref::<HashJoinExec>()
            && let Some(filter) = join.filter()
        {
            let filter = Some(uninterruptible(filter));
            return Ok(Transformed::yes(join.builder().with_filter(filter).build_exec()?));
        }
        if let Some(join) = node.downcast_ref::<SortMergeJoinExec>() {
            return Ok(Transformed::yes(sort_merge(join, uninterruptible)?));
        }
        Ok(Transformed::no(node))
    })?;
    Ok(plan.data)
}

fn is_leaf(node: &dyn ExecutionPlan) -> bool {
    node.children().is_empty() && !node.is::<PlaceholderRowExec>() && !node.is::<EmptyExec>()
}

/// An operator that may make many rows of one batch, with a sliced input and a filter that checks; none for any other.
fn multiplier(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let node = if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        let filter = join.filter().map(interruptible);
        let join = NestedLoopJoinExecBuilder::from(join).with_filter(filter).build()?;
        with_slices(with_left_once(Arc::new(join))?, 1, ONE_ROW)?
    } else if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        let join = match join.filter() {
            Some(filter) => join.builder().with_filter(Some(interruptible(filter))).build_exec()?,
            None => Arc::clone(node),
        };
        with_slices(join, 1, SOME_ROWS)?
    } else if let Some(join) = node.downcast_ref::<SortMergeJoinExec>() {
        sort_merge(join, interruptible)?
    } else if node.is::<CrossJoinExec>() {
        // A batch that it gives has one row of the left side with all rows of a batch of the right one: slices of that would be
        // batches of a few rows each.
        Arc::clone(node)
    } else if node.is::<UnnestExec>() {
        with_slices(Arc::clone(node), 0, ONE_ROW)?
    } else {
        return Ok(None);
    };
    Ok(Some(node))
}

fn sort_merge(
    join: &SortMergeJoinExec,
    of_filter: impl FnOnce(&JoinFilter) -> JoinFilter,
) -> Result<Arc<dyn ExecutionPlan>> {
    Ok(Arc::new(SortMergeJoinExec::try_new(
        Arc::clone(join.left()),
        Arc::clone(join.right()),
        join.on().to_vec(),
        join.filter().as_ref().map(of_filter),
        join.join_type(),
        join.sort_options().to_vec(),
        join.null_equality(),
    )?))
}

/// The operator with slices of its input number `probe`.
fn with_slices(
    node: Arc<dyn ExecutionPlan>,
    probe: usize,
    first_rows: usize,
) -> Result<Arc<dyn ExecutionPlan>> {
    let mut children: Vec<_> = node.children().into_iter().cloned().collect();
    if let Some(child) = children.get_mut(probe) {
        *child = slicing(Arc::clone(child), first_rows);
    }
    replace_children_if_necessary(node, children)
}

fn with_left_once(join: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let mut children: Vec<_> = join.children().into_iter().cloned().collect();
    if let Some(left) = children.first_mut() {
        *left = once(Arc::clone(left));
    }
    replace_children_if_necessary(join, children)
}

fn interruptible(filter: &JoinFilter) -> JoinFilter {
    let expression = Arc::new(InterruptibleExpr::new(Arc::clone(filter.expression())));
    JoinFilter::new(expression, filter.column_indices().to_vec(), Arc::clone(filter.schema()))
}

fn uninterruptible(filter: &JoinFilter) -> JoinFilter {
    let expression = match filter.expression().downcast_ref::<InterruptibleExpr>() {
        Some(interruptible) => Arc::clone(interruptible.argument()),
        None => Arc::clone(filter.expression()),
    };
    JoinFilter::new(expression, filter.column_indices().to_vec(), Arc::clone(filter.schema()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::common::DataFusionError;
    use datafusion::execution::SessionStateBuilder;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::prelude::{SessionConfig, SessionContext};

    use super::*;

    /// The average is the left side of the join. It is computed over an exchange, which gives its rows once.
    #[tokio::test]
    async fn a_left_side_without_memory_is_not_executed_again() {
        let mut config = SessionConfig::new().with_target_partitions(2);
        config.options_mut().optimizer.hash_join_single_partition_threshold = 0;
        config.options_mut().optimizer.hash_join_single_partition_threshold_rows = 0;
        let state = SessionStateBuilder::new()
            .with_default_features()
            .with_config(config)
            .with_runtime_env(RuntimeEnvBuilder::new().with_memory_limit(1 << 20, 1.0).build_arc().unwrap())
            .with_physical_optimizer_rule(Arc::new(InsertYields))
            .build();
        let context = SessionContext::new_with_state(state);
        let table = "CREATE TABLE t AS SELECT value AS k FROM generate_series(1, 100000)";
        context.sql(table).await.unwrap().collect().await.unwrap();
        let sql = "SELECT count(*) FROM t JOIN (SELECT avg(n) AS a FROM (SELECT o.k, count(*) AS n FROM t o JOIN t i \
                   ON o.k = i.k GROUP BY o.k) g) s ON t.k > s.a";
        let failed = context.sql(sql).await.unwrap().collect().await.unwrap_err();
        assert!(matches!(failed.find_root(), DataFusionError::ResourcesExhausted(_)), "{failed}");
        assert!(failed.to_string().contains("all pairs of rows"), "{failed}");
    }
}
