//! Rows that no segment holds, as states: the part of an answer that comes from the tables.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use datafusion::common::{DFSchema, JoinType};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, LogicalPlanBuilder};
use nyala_model::KeySet;
use nyala_sql::error::{QueryError, Result};

use crate::cube::block::{Block, instances_of, qualifier, scan_plan};
use crate::cube::flat::FlatRows;
use crate::cube::partial::PartialAggregate;
use crate::cube::partition::PartitionColumn;

/// Rows to read from the tables.
#[derive(Debug, Clone)]
pub struct RawRows {
    /// Keys that no segment covers; LSNs if the fact table is live.
    pub keys: KeySet,
    /// Whether rows without a key are not covered either.
    pub nulls: bool,
}

/// The states of the query's aggregates over the rows that are left, in the columns a cuboid would have:
/// `g0…`, then `s0_0…`.
pub fn raw_states(
    block: &Block,
    fact: usize,
    column: Option<&PartitionColumn>,
    rows: &RawRows,
) -> Result<LogicalPlan> {
    let joined = Arc::new(match column {
        Some(column) => {
            let key = Expr::Column(column.column(fact));
            let mut wanted = column.rows_in(&rows.keys, &key);
            if rows.nulls {
                wanted = wanted.or(key.is_null());
            }
            join(block, (fact, Some(wanted)))?
        }
        None => join(&written(block, fact, &rows.keys)?, (fact, None))?,
    });
    let mut flat = FlatRows::new(&joined);
    let mut fields = Vec::new();
    for (i, group) in block.group.iter().enumerate() {
        fields.push(flat.add(group, &format!("g{i}"))?);
    }
    let calls = block.aggregates.iter().enumerate();
    let calls = calls.map(|(i, call)| Ok(flat.call(call, i)?.0)).collect::<Result<Vec<_>>>()?;
    let (input, flat) = flat.finish()?;
    for (i, call) in calls.iter().enumerate() {
        let named = call.state_columns(&flat, i)?.into_iter().enumerate();
        fields.extend(named.map(|(k, field)| {
            Arc::new(Field::new(format!("s{i}_{k}"), field.data_type().clone(), field.is_nullable()))
        }));
    }
    let node = PartialAggregate {
        input: Arc::new(input),
        groups: block.group.len(),
        aggregates: calls,
        rows: flat,
        schema: Arc::new(DFSchema::try_from(Schema::new(fields))?),
        keys: rows.keys.clone(),
        label: "rows that no segment holds".to_owned(),
    };
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
}

/// The block with only the rows of a live fact table that were last written at `lsns`.
fn written(block: &Block, fact: usize, lsns: &KeySet) -> Result<Block> {
    let mut block = block.clone();
    if let Some(instance) = block.instances.get_mut(fact) {
        *instance = instance.only_written(lsns)?;
    }
    Ok(block)
}

/// The block's tables, joined and filtered, with only the `wanted` rows of the fact table.
fn join(block: &Block, (fact, wanted): (usize, Option<Expr>)) -> Result<LogicalPlan> {
    let mut left: Vec<&Expr> = block.predicates.iter().collect();
    let mut seen = BTreeSet::new();
    let mut builder: Option<LogicalPlanBuilder> = None;
    for (i, instance) in block.instances.iter().enumerate() {
        let mut table = scan_plan(instance)?.alias(qualifier(i))?;
        if let Some(wanted) = wanted.as_ref().filter(|_| i == fact) {
            table = table.filter(wanted.clone())?;
        }
        seen.insert(i);
        let Some(before) = builder else {
            builder = Some(table);
            continue;
        };
        builder = Some(match &instance.outer {
            Some(conditions) => before.join_on(table.build()?, JoinType::Left, conditions.clone())?,
            None => {
                let (now, later) = left.into_iter().partition(|predicate| {
                    let tables = instances_of(predicate);
                    tables.contains(&i) && tables.len() > 1 && tables.is_subset(&seen)
                });
                left = later;
                let now: Vec<&Expr> = now;
                before.join_on(table.build()?, JoinType::Inner, now.into_iter().cloned())?
            }
        });
    }
    let builder = builder.ok_or_else(|| QueryError::internal("a query has no tables"))?;
    Ok(match conjunction(left.into_iter().cloned()) {
        Some(rest) => builder.filter(rest)?.build()?,
        None => builder.build()?,
    })
}
