//! What there is to know of the fact table's rows of a segment without joining them.
//!
//! Conditions of queries are compared with what is there, not with the bounds of the range: every date
//! of 1994 lies before the last of December, although the range ends in January.

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use datafusion::common::ScalarValue;
use datafusion::execution::SessionState;
use datafusion::functions_aggregate::expr_fn::{count, max, min};
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, lit};
use datafusion::physical_plan::collect;

use crate::cube::block::{qualifier, scan_plan};
use crate::cube::compile::CompiledCube;
use crate::error::{QueryError, Result};

/// Rows of the fact table.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FactRows {
    pub(super) count: u64,
    /// Smallest and largest key; none if no row has one, or the cube is not partitioned.
    pub(super) bounds: Option<(i64, i64)>,
}

/// Counts the rows. Where all of a file's are wanted its footer tells.
pub(super) async fn fact_rows(cube: &CompiledCube, state: &SessionState) -> Result<FactRows> {
    let Some(fact) = cube.block.instances.first() else { return Ok(FactRows::default()) };
    let rows: LogicalPlanBuilder = scan_plan(fact)?.alias(qualifier(0))?;
    let mut facts = vec![count(lit(1_i64)).alias("rows")];
    if let Some(column) = &cube.partition {
        let key = Expr::Column(column.column(0));
        facts.extend([min(key.clone()).alias("first"), max(key).alias("last")]);
    }
    let plan = rows.aggregate(Vec::<Expr>::new(), facts)?.build()?;
    let plan = state.create_physical_plan(&plan).await?;
    let batches = collect(plan, state.task_ctx()).await?;
    let batch = batches.first().filter(|batch| batch.num_rows() == 1);
    let [rows, ends @ ..] = batch.map(|batch| batch.columns()).unwrap_or_default() else {
        return Ok(FactRows::default());
    };
    let count = rows.as_primitive_opt::<Int64Type>().map_or(0, |count| count.value(0).unsigned_abs());
    let mut keys = Vec::new();
    for (end, column) in ends.iter().zip(cube.partition.iter().cycle()) {
        let value = ScalarValue::try_from_array(end, 0)?;
        if value.is_null() {
            return Ok(FactRows { count, bounds: None });
        }
        keys.push(column.key(&value).ok_or_else(|| QueryError::internal("a key is not a number"))?);
    }
    Ok(FactRows { count, bounds: keys.first().copied().zip(keys.last().copied()) })
}
