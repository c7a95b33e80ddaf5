//! Row counts and key bounds of a segment's fact rows, found without joins.
//!
//! Conditions of queries are compared with the keys of existing rows, not with the bounds of the range: every
//! date of 1994 lies before the last of December, although the range ends in January.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::UInt32Type;
use arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::execution::SessionState;
use datafusion::functions_aggregate::expr_fn::{count, max, min};
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, lit};
use datafusion::physical_plan::collect;
use nyala_sql::error::{QueryError, Result};

use super::coded::{SegmentCodes, segment_of};
use crate::cube::block::{qualifier, scan_plan};
use crate::cube::compile::CompiledCube;

/// Rows of the fact table.
#[derive(Debug, Clone, Copy, Default)]
pub struct FactRows {
    pub count: u64,
    /// Smallest and largest key; none if no row has one, or the cube is not partitioned.
    pub bounds: Option<(i64, i64)>,
}

/// Counts the rows. The footer of a file gives the count if all of its rows are wanted.
pub async fn fact_rows(cube: &CompiledCube, state: &SessionState) -> Result<FactRows> {
    let mut found = FactRows::default();
    for batch in look(cube, None, state).await? {
        found = facts_in(cube, &batch, 0)?;
    }
    Ok(found)
}

/// Counts the rows of each of several segments, in one pass.
pub async fn fact_rows_by(
    cube: &CompiledCube,
    segments: &Arc<SegmentCodes>,
    state: &SessionState,
) -> Result<Vec<FactRows>> {
    let mut found = vec![FactRows::default(); segments.len()];
    for batch in look(cube, Some(segments), state).await? {
        let codes = batch.column_by_name(SEGMENT).and_then(|codes| codes.as_primitive_opt::<UInt32Type>());
        let codes = codes.ok_or_else(|| QueryError::internal("rows have no segment"))?;
        for (row, code) in codes.values().iter().enumerate() {
            if let Some(slot) = (*code as usize).checked_sub(1).and_then(|i| found.get_mut(i)) {
                *slot = facts_in(cube, &batch, row)?;
            }
        }
    }
    Ok(found)
}

const ROWS: &str = "rows";
const FIRST: &str = "first";
const LAST: &str = "last";
const SEGMENT: &str = "segment";

async fn look(
    cube: &CompiledCube,
    segments: Option<&Arc<SegmentCodes>>,
    state: &SessionState,
) -> Result<Vec<RecordBatch>> {
    let Some(fact) = cube.block.instances.first() else { return Ok(Vec::new()) };
    let rows: LogicalPlanBuilder = scan_plan(fact)?.alias(qualifier(0))?;
    let mut facts = vec![count(lit(1_i64)).alias(ROWS)];
    let mut groups = Vec::new();
    if let Some(column) = &cube.partition {
        let key = Expr::Column(column.column(0));
        groups.extend(segments.map(|segments| segment_of(key.clone(), segments).alias(SEGMENT)));
        facts.extend([min(key.clone()).alias(FIRST), max(key).alias(LAST)]);
    }
    let plan = rows.aggregate(groups, facts)?.build()?;
    let plan = state.create_physical_plan(&plan).await?;
    Ok(collect(plan, state.task_ctx()).await?)
}

fn facts_in(cube: &CompiledCube, batch: &RecordBatch, row: usize) -> Result<FactRows> {
    let number =
        |name: &str| batch.column_by_name(name).map(|column| ScalarValue::try_from_array(column, row));
    let count = match number(ROWS).transpose()? {
        Some(ScalarValue::Int64(Some(count))) => count.unsigned_abs(),
        _ => 0,
    };
    let key = |name: &str| -> Result<Option<i64>> {
        let value = number(name).transpose()?.filter(|value| !value.is_null());
        let (Some(value), Some(column)) = (value, &cube.partition) else { return Ok(None) };
        column.key(&value).map(Some).ok_or_else(|| QueryError::internal("a key is not a number"))
    };
    Ok(FactRows { count, bounds: key(FIRST)?.zip(key(LAST)?) })
}
