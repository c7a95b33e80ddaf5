//! The order in which cuboids are sorted: dimensions with few values first.
//!
//! Then equal values stand together for longest, which compresses well, and the statistics of row
//! groups and pages exclude the most for a filter on any of the leading dimensions.

use std::collections::BTreeMap;

use arrow::array::AsArray;
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::execution::SessionState;
use datafusion::functions_aggregate::expr_fn::max;
use datafusion::logical_expr::{Expr, ExprSchemable, lit};
use datafusion::physical_plan::collect;

use crate::cube::block::{instances_of, qualifier, scan_plan};
use crate::cube::compile::CompiledCube;
use crate::error::Result;

/// Positions of the dimensions, fewest distinct values first. Values are counted in the table a
/// dimension comes from; a dimension over several tables counts as large.
pub(super) async fn sort_order(cube: &CompiledCube, state: &SessionState) -> Result<Vec<usize>> {
    let mut by_table: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (dimension, expr) in cube.block.group.iter().enumerate() {
        if let [instance] = instances_of(expr).into_iter().collect::<Vec<_>>()[..] {
            by_table.entry(instance).or_default().push(dimension);
        }
    }
    let mut values = vec![u64::MAX; cube.block.group.len()];
    for (instance, dimensions) in by_table {
        let counts = count_values(cube, instance, &dimensions, state).await?;
        for (dimension, count) in dimensions.into_iter().zip(counts) {
            if let Some(slot) = values.get_mut(dimension) {
                *slot = count;
            }
        }
    }
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by_key(|dimension| values.get(*dimension).copied());
    Ok(order)
}

async fn count_values(
    cube: &CompiledCube,
    instance: usize,
    dimensions: &[usize],
    state: &SessionState,
) -> Result<Vec<u64>> {
    let Some(table) = cube.block.instances.get(instance) else {
        return Ok(Vec::new());
    };
    let scan = scan_plan(table)?.alias(qualifier(instance))?;
    let mut counts = Vec::new();
    for (i, expr) in dimensions.iter().filter_map(|i| cube.block.group.get(*i)).enumerate() {
        counts.push(count_of(expr, scan.schema(), state)?.alias(format!("d{i}")));
    }
    let plan = scan.aggregate(Vec::<Expr>::new(), counts)?.build()?;
    let plan = state.create_physical_plan(&plan).await?;
    let batches = collect(plan, state.task_ctx()).await?;
    let Some(batch) = batches.first().filter(|batch| batch.num_rows() == 1) else {
        return Ok(vec![u64::MAX; dimensions.len()]);
    };
    let columns = batch.columns().iter();
    Ok(columns
        .map(|c| {
            c.as_primitive_opt::<UInt64Type>().and_then(|c| c.iter().next().flatten()).unwrap_or(u64::MAX)
        })
        .collect())
}

/// How many values there are about; a null, which stands for many, of types that cannot be counted.
fn count_of(expr: &Expr, schema: &DFSchema, state: &SessionState) -> Result<Expr> {
    let data_type = expr.get_type(schema)?;
    let countable = !data_type.is_nested() && !matches!(data_type, DataType::Interval(_));
    Ok(match state.aggregate_functions().get("approx_distinct").filter(|_| countable) {
        Some(function) => function.call(vec![expr.clone()]),
        None => max(lit(ScalarValue::UInt64(None))),
    })
}
