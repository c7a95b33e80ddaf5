//! The physical plan that turns rows or states into one cuboid, sorted for storage.

use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};
use nyala_model::DimensionSet;
use nyala_sql::error::{QueryError, Result};

use super::batches::compact;
use crate::cube::compile::{CompiledCube, CompiledMeasure};
use crate::cube::finish::group_by;
use crate::cube::rewrite::neutral;

type Plan = Arc<dyn ExecutionPlan>;

/// The source of a cuboid.
pub enum Source {
    /// Flat rows: dimensions and arguments of measures.
    Rows(Plan),
    /// A cuboid over the given set, which must contain the wanted one.
    States(Plan, DimensionSet),
    /// Flat rows for the measures from number `measures` on, and a cuboid of the same rows for the measures
    /// before. Its set must contain the wanted one.
    Added { rows: Plan, states: Plan, measures: u32 },
}

/// Plans the cuboid over `set` in at most `partitions` parts, each sorted by the dimensions in
/// `order`. Cells are unique across the parts.
pub fn cuboid_plan(
    cube: &CompiledCube,
    set: DimensionSet,
    source: Source,
    partitions: usize,
    order: &[usize],
) -> Result<Plan> {
    let (flat, names) = (&cube.flat_schema, || dimension_names(cube, set).into_iter());
    let states = match source {
        Source::Rows(rows) => aggregate_rows(cube, Groups::of(cube, set, &rows)?, rows, 0)?,
        Source::States(parent, parent_set) => {
            let columns = select_columns(cube, set, parent_set, &parent)?;
            merge_states(cube, names(), flat, columns)?
        }
        Source::Added { rows, states, measures } => {
            let old = pad(cube, set, &states, |measure| measure.number < measures)?;
            let new = aggregate_rows(cube, Groups::of(cube, set, &rows)?, rows, measures)?;
            let new = pad(cube, set, &name_states(cube, set, new, measures)?, |m| m.number >= measures)?;
            merge_states(cube, names(), flat, UnionExec::try_new(vec![old, new])?)?
        }
    };
    let gathered = gather(set.len(), states, partitions)?;
    let merged = merge_states(cube, names(), flat, gathered)?;
    let named = name_columns(cube, set, merged)?;
    let dimensions: Vec<usize> = set.iter().collect();
    let place = |wanted: &usize| dimensions.iter().position(|dimension| dimension == wanted);
    sort(order.iter().filter_map(place), compact(&named)?)
}

/// The grouping of flat rows.
#[derive(Clone)]
pub struct Groups {
    /// Expressions over the rows, and the names of their results.
    pub(super) columns: Vec<(Arc<dyn PhysicalExpr>, String)>,
    /// The rows as the aggregates know them.
    pub(super) flat: SchemaRef,
}

impl Groups {
    /// The dimensions of `set`.
    fn of(cube: &CompiledCube, set: DimensionSet, rows: &Plan) -> Result<Self> {
        let flat = flat_fields(cube, rows)?;
        let mut columns: Vec<(Arc<dyn PhysicalExpr>, String)> = Vec::new();
        for name in dimension_names(cube, set) {
            let index = flat.index_of(&name).map_err(QueryError::internal)?;
            columns.push((Arc::new(Column::new(&name, index)), name));
        }
        Ok(Self { columns, flat })
    }

    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        self.columns.iter().map(|(_, name)| name.clone())
    }
}

/// The states of the measures from number `first` on.
pub fn aggregate_rows(cube: &CompiledCube, groups: Groups, rows: Plan, first: u32) -> Result<Plan> {
    let Groups { columns, flat } = groups;
    let measures: Vec<_> = cube.measures.iter().filter(|measure| measure.number >= first).collect();
    let calls = measures.iter().enumerate();
    let calls = calls.map(|(i, m)| m.call.physical(&flat, &format!("m{i}"))).collect::<Result<Vec<_>>>()?;
    let filters = measures.iter().map(|m| m.call.physical_filter(&flat)).collect::<Result<Vec<_>>>()?;
    let (mode, group) = (AggregateMode::Partial, PhysicalGroupBy::new_single(columns));
    Ok(Arc::new(AggregateExec::try_new(mode, group, calls, filters, rows, flat)?))
}

/// The fields of the flat rows that `rows` has.
fn flat_fields(cube: &CompiledCube, rows: &Plan) -> Result<SchemaRef> {
    let schema = rows.schema();
    if schema.fields().len() == cube.flat_schema.fields().len() {
        return Ok(Arc::clone(&cube.flat_schema));
    }
    let positions = schema.fields().iter().map(|field| cube.flat_schema.index_of(field.name()));
    let positions = positions.collect::<std::result::Result<Vec<_>, _>>().map_err(QueryError::internal)?;
    Ok(Arc::new(cube.flat_schema.project(&positions).map_err(QueryError::internal)?))
}

/// Names the columns that [`aggregate_rows`] gives as cuboids do.
fn name_states(cube: &CompiledCube, set: DimensionSet, states: Plan, first: u32) -> Result<Plan> {
    let own = cube.measures.iter().filter(|measure| measure.number >= first);
    let own = own.flat_map(|measure| measure.states.iter().map(|field| field.name().clone()));
    let names = dimension_names(cube, set).into_iter().chain(own);
    let schema = states.schema();
    let columns = schema
        .fields()
        .iter()
        .zip(names)
        .enumerate()
        .map(|(i, (from, to))| (Arc::new(Column::new(from.name(), i)) as Arc<dyn PhysicalExpr>, to));
    Ok(Arc::new(ProjectionExec::try_new(columns.collect::<Vec<_>>(), states)?))
}

/// All columns of a cuboid over `set`, from an input that has the states of some measures only. The others
/// are as if no row had been seen.
fn pad(
    cube: &CompiledCube,
    set: DimensionSet,
    input: &Plan,
    has: impl Fn(&CompiledMeasure) -> bool,
) -> Result<Plan> {
    let schema = input.schema();
    let column = |name: &str| -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Column::new(name, schema.index_of(name).map_err(QueryError::internal)?)))
    };
    let mut columns = Vec::new();
    for name in dimension_names(cube, set) {
        columns.push((column(&name)?, name));
    }
    for measure in &cube.measures {
        let neutral = neutral(&measure.call, &cube.flat_schema).map_err(QueryError::internal)?;
        for (field, state) in measure.states.iter().zip(neutral) {
            let expr = if has(measure) {
                column(field.name())?
            } else {
                Arc::new(Literal::new(state.cast_to(field.data_type())?))
            };
            columns.push((expr, field.name().clone()));
        }
    }
    Ok(Arc::new(ProjectionExec::try_new(columns, Arc::clone(input))?))
}

/// Merges equal cells within each partition. The input has a column for each of `names`, then all states.
pub fn merge_states(
    cube: &CompiledCube,
    names: impl Iterator<Item = String>,
    flat: &SchemaRef,
    input: Plan,
) -> Result<Plan> {
    let calls = cube.measures.iter().enumerate();
    let calls = calls.map(|(i, m)| m.call.physical(flat, &format!("m{i}"))).collect::<Result<Vec<_>>>()?;
    let filters = vec![None; calls.len()];
    let group = group_by(&input, names);
    let mode = AggregateMode::PartialReduce;
    Ok(Arc::new(AggregateExec::try_new(mode, group, calls, filters, input, Arc::clone(flat))?))
}

/// The dimensions of `set` and all states, out of a cuboid over `parent_set`.
fn select_columns(
    cube: &CompiledCube,
    set: DimensionSet,
    parent_set: DimensionSet,
    parent: &Plan,
) -> Result<Plan> {
    let available = cube.cuboid_schema(parent_set);
    let wanted = cube.cuboid_schema(set);
    let mut columns: Vec<(Arc<dyn PhysicalExpr>, String)> = Vec::new();
    for field in wanted.fields() {
        let index = available.index_of(field.name()).map_err(QueryError::internal)?;
        columns.push((Arc::new(Column::new(field.name(), index)), field.name().clone()));
    }
    Ok(Arc::new(ProjectionExec::try_new(columns, Arc::clone(parent))?))
}

/// Brings equal cells into the same partition; the first `keys` columns tell them apart.
pub fn gather(keys: usize, input: Plan, partitions: usize) -> Result<Plan> {
    if input.output_partitioning().partition_count() == 1 {
        return Ok(input);
    }
    if partitions == 1 || keys == 0 {
        return Ok(Arc::new(CoalescePartitionsExec::new(input)));
    }
    let schema = input.schema();
    let keys = schema.fields().iter().take(keys).enumerate();
    let keys = keys.map(|(i, field)| Arc::new(Column::new(field.name(), i)) as Arc<dyn PhysicalExpr>);
    gather_by(keys.collect(), input, partitions)
}

/// Brings cells for which these expressions are equal into the same partition.
pub fn gather_by(keys: Vec<Arc<dyn PhysicalExpr>>, input: Plan, partitions: usize) -> Result<Plan> {
    let partitioning = Partitioning::Hash(keys, partitions);
    Ok(Arc::new(RepartitionExec::try_new(input, partitioning)?))
}

/// Gives every column its name in storage.
fn name_columns(cube: &CompiledCube, set: DimensionSet, input: Plan) -> Result<Plan> {
    let stored = cube.cuboid_schema(set);
    let schema = input.schema();
    let columns = schema.fields().iter().zip(stored.fields()).enumerate().map(|(i, (from, to))| {
        (Arc::new(Column::new(from.name(), i)) as Arc<dyn PhysicalExpr>, to.name().clone())
    });
    Ok(Arc::new(ProjectionExec::try_new(columns.collect::<Vec<_>>(), input)?))
}

/// Sorts each partition by these columns.
pub fn sort(columns: impl Iterator<Item = usize>, input: Plan) -> Result<Plan> {
    let schema = input.schema();
    let keys = columns.map(|column| {
        let expr = Arc::new(Column::new(schema.field(column).name(), column));
        PhysicalSortExpr { expr, options: SortOptions::default() }
    });
    Ok(match LexOrdering::new(keys) {
        Some(ordering) => Arc::new(SortExec::new(ordering, input).with_preserve_partitioning(true)),
        None => input,
    })
}

fn dimension_names(cube: &CompiledCube, set: DimensionSet) -> Vec<String> {
    set.iter().filter_map(|i| cube.dimensions.get(i)).map(|d| d.field.name().clone()).collect()
}
