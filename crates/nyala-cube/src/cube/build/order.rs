//! The order in which cuboids are sorted: dimensions with few values first.
//!
//! Then equal values stand together for longest, which compresses well, and the statistics of row
//! groups and pages exclude the most for a filter on any of the leading dimensions.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::functions_aggregate::expr_fn::max;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlanBuilder, lit};
use datafusion::physical_plan::collect;
use nyala_model::{CuboidEntry, SegmentEntry};
use nyala_sql::error::Result;

use crate::cube::block::{instances_of, qualifier, scan_plan};
use crate::cube::compile::CompiledCube;
use crate::scan::{CuboidPart, CuboidTable};

/// The dimensions of a cube, fewest values first.
#[derive(Debug, Clone)]
pub struct Order {
    /// Positions of the dimensions.
    pub dimensions: Vec<usize>,
    /// Approximate number of values of each, by position; `u64::MAX` if unknown.
    pub values: Vec<u64>,
}

impl Order {
    fn new(values: Vec<u64>) -> Self {
        let mut dimensions: Vec<usize> = (0..values.len()).collect();
        dimensions.sort_by_key(|dimension| values.get(*dimension).copied());
        Self { dimensions, values }
    }
}

/// Counts values in the table a dimension comes from; a dimension over several tables counts as large.
pub async fn sort_order(cube: &CompiledCube, state: &SessionState) -> Result<Order> {
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
    Ok(Order::new(values))
}

/// The order by the cells of a segment instead of by rows. Of each dimension, the smallest cuboid that has it is read.
pub async fn cell_order(cube: &CompiledCube, segment: &SegmentEntry, state: &SessionState) -> Result<Order> {
    let mut values: Vec<Option<u64>> = vec![None; cube.dimensions.len()];
    let mut cuboids: Vec<&CuboidEntry> = segment.cuboids.iter().collect();
    cuboids.sort_by_key(|cuboid| cuboid.rows);
    for cuboid in cuboids {
        let open = |dimension: &usize| values.get(*dimension).is_some_and(Option::is_none);
        let dimensions: Vec<usize> = cuboid.dimensions.iter().filter(open).collect();
        if dimensions.is_empty() {
            continue;
        }
        let part = CuboidPart { folder: segment.location.clone(), cuboid: cuboid.clone() };
        let table =
            CuboidTable::new(vec![part], cube.cuboid_schema_before(cuboid.dimensions, cuboid.measures));
        let cells = LogicalPlanBuilder::scan("cells", provider_as_source(Arc::new(table)), None)?;
        let fields = dimensions.iter().filter_map(|i| cube.dimensions.get(*i)).map(|d| &d.field);
        let exprs = fields.map(|field| Expr::Column(Column::new_unqualified(field.name())));
        let counts = count_distinct(cells, exprs, state).await?;
        for (dimension, count) in dimensions.into_iter().zip(counts) {
            if let Some(slot) = values.get_mut(dimension) {
                *slot = Some(count);
            }
        }
    }
    Ok(Order::new(values.into_iter().map(|count| count.unwrap_or(u64::MAX)).collect()))
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
    let exprs = dimensions.iter().filter_map(|i| cube.block.group.get(*i));
    count_distinct(scan_plan(table)?.alias(qualifier(instance))?, exprs.cloned(), state).await
}

async fn count_distinct(
    rows: LogicalPlanBuilder,
    exprs: impl Iterator<Item = Expr>,
    state: &SessionState,
) -> Result<Vec<u64>> {
    let mut counts = Vec::new();
    for (i, expr) in exprs.enumerate() {
        counts.push(count_of(&expr, rows.schema(), state)?.alias(format!("d{i}")));
    }
    let wanted = counts.len();
    let plan = rows.aggregate(Vec::<Expr>::new(), counts)?.build()?;
    let plan = state.create_physical_plan(&plan).await?;
    let batches = collect(plan, state.task_ctx()).await?;
    let Some(batch) = batches.first().filter(|batch| batch.num_rows() == 1) else {
        return Ok(vec![u64::MAX; wanted]);
    };
    let columns = batch.columns().iter();
    Ok(columns
        .map(|c| {
            c.as_primitive_opt::<UInt64Type>().and_then(|c| c.iter().next().flatten()).unwrap_or(u64::MAX)
        })
        .collect())
}

/// The approximate number of values; null, which counts as many, for types that cannot be counted.
fn count_of(expr: &Expr, schema: &DFSchema, state: &SessionState) -> Result<Expr> {
    let data_type = expr.get_type(schema)?;
    let countable = !data_type.is_nested() && !matches!(data_type, DataType::Interval(_));
    Ok(match state.aggregate_functions().get("approx_distinct").filter(|_| countable) {
        Some(function) => function.call(vec![expr.clone()]),
        None => max(lit(ScalarValue::UInt64(None))),
    })
}
