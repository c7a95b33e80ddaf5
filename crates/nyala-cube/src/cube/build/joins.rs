//! Finds the tables of a cube's join that keep every row exactly once, by checking the data.
//!
//! Such a table can be missing from a query that the cube answers. For an inner join it takes two facts: its
//! key is unique (no row doubles), and every row of its parent table finds a partner (no row is lost). A left
//! join needs only the first.
//!
//! The check for lost rows is rarely needed: where no join can double a row, and there are as many joined rows
//! as the fact table has, no row was lost.

use std::collections::BTreeSet;

use datafusion::common::Column;
use datafusion::execution::SessionState;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::physical_plan::collect;
use nyala_sql::error::{QueryError, Result};

use crate::cube::block::{instances_of, qualifier, scan_plan};
use crate::cube::compile::CompiledCube;
use crate::cube::edges::JoinEdge;

/// Positions of the tables that may be left out.
pub async fn droppable_joins(cube: &CompiledCube, state: &SessionState) -> Result<Vec<usize>> {
    let unique = unique_joins(cube, state).await?;
    keeping_joins(cube, &unique, state).await
}

/// Positions of the tables with unique keys, so that joining them doubles no row.
pub async fn unique_joins(cube: &CompiledCube, state: &SessionState) -> Result<Vec<usize>> {
    let mut unique = Vec::new();
    for (instance, edge) in cube.edges.iter().enumerate() {
        if let Some(edge) = edge
            && is_empty(doubled_keys(cube, instance, edge)?, state).await?
        {
            unique.push(instance);
        }
    }
    Ok(unique)
}

/// Whether no join can double a row, if these tables have unique keys.
pub fn none_doubles(cube: &CompiledCube, unique: &[usize]) -> bool {
    (1..cube.block.instances.len()).all(|instance| unique.contains(&instance))
}

/// The tables, of those with `unique` keys, that may be left out where the joins are known to lose no row.
pub fn if_none_is_lost(cube: &CompiledCube, unique: &[usize]) -> Vec<usize> {
    unique.iter().copied().filter(|instance| is_keyed(cube, *instance)).collect()
}

/// The tables, of those with `unique` keys, that may be left out.
pub async fn keeping_joins(
    cube: &CompiledCube,
    unique: &[usize],
    state: &SessionState,
) -> Result<Vec<usize>> {
    let mut keeping = Vec::new();
    for instance in if_none_is_lost(cube, unique) {
        if let Some(edge) = cube.edges.get(instance).and_then(Option::as_ref)
            && keeps_rows(cube, instance, edge, state).await?
        {
            keeping.push(instance);
        }
    }
    Ok(keeping)
}

/// Whether an optional table has no conditions but those of its keys.
fn is_keyed(cube: &CompiledCube, instance: usize) -> bool {
    let outer = cube.block.instances.get(instance).and_then(|i| i.outer.as_ref());
    let edge = cube.edges.get(instance).and_then(Option::as_ref);
    outer.is_none_or(|conditions| edge.is_some_and(|edge| edge.keys.len() == conditions.len()))
}

async fn keeps_rows(
    cube: &CompiledCube,
    instance: usize,
    edge: &JoinEdge,
    state: &SessionState,
) -> Result<bool> {
    if cube.block.instances.get(instance).is_some_and(|i| i.outer.is_some()) {
        return Ok(true);
    }
    match rows_without_partner(cube, instance, edge)? {
        Some(plan) => is_empty(plan, state).await,
        None => Ok(false),
    }
}

/// Keys in more than one row of the table.
fn doubled_keys(cube: &CompiledCube, instance: usize, edge: &JoinEdge) -> Result<LogicalPlan> {
    let mut own: Vec<&Expr> = Vec::new();
    for (key, _) in &edge.keys {
        if !own.contains(&key) {
            own.push(key);
        }
    }
    // The keys get names of their own, because a column and a cast of it have the same name.
    let named = own.iter().enumerate().map(|(i, key)| (*key).clone().alias(format!("key{i}")));
    let mut builder = table(cube, instance)?.project(named.collect::<Vec<_>>())?;
    let keys = (0..own.len()).map(|i| Expr::Column(Column::new_unqualified(format!("key{i}"))));
    let keys: Vec<Expr> = keys.collect();
    if let Some(present) = conjunction(keys.iter().map(|key| key.clone().is_not_null())) {
        builder = builder.filter(present)?;
    }
    let rows = count(lit(1_i64)).alias("rows");
    let builder = builder.aggregate(keys, [rows])?;
    let doubled = Expr::Column(Column::new_unqualified("rows")).gt(lit(1_i64));
    Ok(builder.filter(doubled)?.limit(0, Some(1))?.build()?)
}

/// Rows of the parent table that the join would lose; none when there are several parent tables.
fn rows_without_partner(
    cube: &CompiledCube,
    instance: usize,
    edge: &JoinEdge,
) -> Result<Option<LogicalPlan>> {
    let parents: BTreeSet<usize> = edge.keys.iter().flat_map(|(_, other)| instances_of(other)).collect();
    let [parent] = parents.into_iter().collect::<Vec<_>>()[..] else {
        return Ok(None);
    };
    if cube.block.instances.get(parent).is_some_and(|parent| parent.outer.is_some()) {
        return Ok(None);
    }
    let partner = table(cube, instance)?.build()?;
    let equal = edge.conditions.iter().cloned();
    let builder = table(cube, parent)?.join_on(partner, JoinType::LeftAnti, equal)?;
    Ok(Some(builder.limit(0, Some(1))?.build()?))
}

fn table(cube: &CompiledCube, instance: usize) -> Result<LogicalPlanBuilder> {
    let table = cube.block.instances.get(instance);
    let table = table.ok_or_else(|| QueryError::internal("a join names a table that is not there"))?;
    Ok(scan_plan(table)?.alias(qualifier(instance))?)
}

async fn is_empty(plan: LogicalPlan, state: &SessionState) -> Result<bool> {
    let plan = state.create_physical_plan(&plan).await?;
    let batches = collect(plan, state.task_ctx()).await?;
    Ok(batches.iter().all(|batch| batch.num_rows() == 0))
}
