//! The plan that takes an aggregation's place.

use std::sync::Arc;

use datafusion::common::FunctionalDependencies;
use datafusion::logical_expr::{Aggregate, Extension, LogicalPlan};
use nyala_sql::error::{QueryError, Result};

use super::calls::QueryCalls;
use super::exact::finish_each;
use super::sets::union;
use crate::cube::block::Block;
use crate::cube::finish::FinishAggregate;

/// Where the states come from.
pub struct CellPlan {
    /// Plans that give group columns and states: one, or one for each grouping set.
    pub inputs: Vec<LogicalPlan>,
    /// Whether each row is a group of its own: then nothing is left to merge.
    pub unique: bool,
    /// How many states they hold at most.
    pub estimated_states: u64,
    /// Cube and cuboids, for EXPLAIN.
    pub label: String,
}

/// A valid plan with exactly the output columns of `aggregate`; `block` is its form.
pub fn finish(
    aggregate: &Aggregate,
    block: &Block,
    calls: QueryCalls,
    cells: CellPlan,
) -> Result<LogicalPlan> {
    let missing = || QueryError::internal("an aggregation has no grouping set");
    let (input, groups) = if block.sets.is_empty() {
        let input = cells.inputs.into_iter().next().ok_or_else(missing)?;
        if cells.unique {
            return finish_each(aggregate, calls, input);
        }
        (input, block.group.len())
    } else {
        // One more group column tells the sets apart.
        (union(aggregate, block, &calls, cells.inputs)?, block.group.len() + 1)
    };
    // DataFusion takes the key of one joined table to decide columns of the others.
    let schema =
        aggregate.schema.as_ref().clone().with_functional_dependencies(FunctionalDependencies::empty())?;
    let node = FinishAggregate {
        input: Arc::new(input),
        groups,
        aggregates: calls.calls,
        flat: calls.flat,
        schema: Arc::new(schema),
        estimated_states: cells.estimated_states,
        label: cells.label,
    };
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
}
