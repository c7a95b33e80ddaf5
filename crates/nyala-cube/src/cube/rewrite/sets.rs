//! Grouping sets of a query: each is answered from the smallest cuboid that has it.
//!
//! ```text
//! GROUP BY ROLLUP (a, b)      FinishAggregate            groups: a, b, __grouping_id
//!                               Union
//!                                 Projection a, b, 0     cuboid (a, b)
//!                                 Projection a, NULL, 1  cuboid (a)
//!                                 Projection NULL, NULL, 3   cuboid ()
//!                                 NULL, NULL, 3          the states of no rows
//! ```
//!
//! The last line is there for the empty set only, which has a row even if the tables have none.

use std::sync::Arc;

use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::logical_expr::{Aggregate, EmptyRelation, Expr, LogicalPlan, LogicalPlanBuilder, Union};
use nyala_sql::error::{QueryError, Result};

use super::calls::{QueryCalls, neutral, state_fields};
use super::matching::group_name;
use crate::cube::block::{Block, Miss};
use crate::cube::grouping::QuerySet;

/// The aggregation as plain ones: itself, or one for each grouping set.
pub fn plain_blocks(block: &Block) -> Vec<Block> {
    if block.sets.is_empty() {
        return vec![block.clone()];
    }
    let only = |set: &QuerySet| {
        let members = block.group.iter().zip(&set.members).filter(|(_, member)| **member);
        Block { group: members.map(|(expr, _)| expr.clone()).collect(), sets: Vec::new(), ..block.clone() }
    };
    block.sets.iter().map(only).collect()
}

/// All of `inputs`, one for each set of `block`, with all group columns and the number of the set.
pub fn union(
    aggregate: &Aggregate,
    block: &Block,
    calls: &QueryCalls,
    inputs: Vec<LogicalPlan>,
) -> Result<LogicalPlan> {
    let mut parts = Vec::new();
    for (input, set) in inputs.into_iter().zip(&block.sets) {
        if members(set) == 0 && calls.calls.is_empty() {
            // Without aggregates, the empty set always has one row, whether or not the tables have any.
            parts.push(Arc::new(no_rows(aggregate, set, calls)?));
            continue;
        }
        let mut columns = group_columns(aggregate, set)?;
        let states = input.schema().columns().into_iter().skip(members(set));
        columns.extend(states.map(Expr::Column));
        parts.push(Arc::new(LogicalPlanBuilder::from(input).project(columns)?.build()?));
        if members(set) == 0 {
            parts.push(Arc::new(no_rows(aggregate, set, calls)?));
        }
    }
    Ok(match <[_; 1]>::try_from(parts) {
        Ok([only]) => Arc::unwrap_or_clone(only),
        Err(parts) => LogicalPlan::Union(Union::try_new(parts)?),
    })
}

fn members(set: &QuerySet) -> usize {
    set.members.iter().filter(|member| **member).count()
}

/// The group columns of the whole aggregation, made from the group columns of one set.
fn group_columns(aggregate: &Aggregate, set: &QuerySet) -> Result<Vec<Expr>> {
    let mut columns = Vec::new();
    let mut taken = 0;
    for (i, (member, field)) in set.members.iter().zip(aggregate.schema.fields()).enumerate() {
        let column = if *member {
            taken += 1;
            Expr::Column(Column::new_unqualified(group_name(taken - 1)))
        } else {
            Expr::Literal(ScalarValue::try_new_null(field.data_type())?, None)
        };
        columns.push(column.alias(group_name(i)));
    }
    columns.push(Expr::Literal(set.id.clone(), None).alias(group_name(set.members.len())));
    Ok(columns)
}

fn no_rows(aggregate: &Aggregate, set: &QuerySet, calls: &QueryCalls) -> Result<LogicalPlan> {
    let internal = |miss: Miss| QueryError::internal(miss);
    let mut columns = group_columns(aggregate, set)?;
    for (i, call) in calls.calls.iter().enumerate() {
        let fields = state_fields(call, &calls.flat).map_err(internal)?;
        let states = neutral(call, &calls.flat).map_err(internal)?;
        for (k, (state, field)) in states.into_iter().zip(fields).enumerate() {
            let state = state.cast_to(field.data_type())?;
            columns.push(Expr::Literal(state, None).alias(format!("s{i}_{k}")));
        }
    }
    let row = EmptyRelation { produce_one_row: true, schema: Arc::new(DFSchema::empty()) };
    Ok(LogicalPlanBuilder::from(LogicalPlan::EmptyRelation(row)).project(columns)?.build()?)
}
