//! The smallest and largest key of a segment's rows.
//!
//! Conditions of queries are compared with what is there, not with the bounds of the range: every date
//! of 1994 lies before the last of December, although the range ends in January.

use datafusion::common::ScalarValue;
use datafusion::execution::SessionState;
use datafusion::functions_aggregate::expr_fn::{max, min};
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use datafusion::physical_plan::collect;

use crate::cube::block::{qualifier, scan_plan};
use crate::cube::compile::CompiledCube;
use crate::error::{QueryError, Result};

/// Both ends; none if no row has a key, or the cube is not partitioned.
pub(super) async fn key_bounds(cube: &CompiledCube, state: &SessionState) -> Result<Option<(i64, i64)>> {
    let (Some(column), Some(fact)) = (&cube.partition, cube.block.instances.first()) else {
        return Ok(None);
    };
    let key = Expr::Column(column.column(0));
    let rows: LogicalPlanBuilder = scan_plan(fact)?.alias(qualifier(0))?;
    let ends = [min(key.clone()).alias("first"), max(key).alias("last")];
    let plan = rows.aggregate(Vec::<Expr>::new(), ends)?.build()?;
    let plan = state.create_physical_plan(&plan).await?;
    let batches = collect(plan, state.task_ctx()).await?;
    let Some(batch) = batches.first().filter(|batch| batch.num_rows() == 1) else { return Ok(None) };
    let mut ends = Vec::new();
    for end in batch.columns() {
        let value = ScalarValue::try_from_array(end, 0)?;
        if value.is_null() {
            return Ok(None);
        }
        ends.push(column.key(&value).ok_or_else(|| QueryError::internal("a key is not a number"))?);
    }
    Ok(ends.first().copied().zip(ends.last().copied()))
}
