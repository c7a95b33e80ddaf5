//! Finds the part of a plan that can be computed on keys: groups, aggregates, order.

use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column as ColumnExpr;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;

use crate::scan::hot::exec::HotCuboidExec;

/// How the columns of an answer follow from the rows of a scan.
#[derive(Debug, Clone)]
pub struct Shape {
    /// None if the rows of the scan are not grouped.
    pub merging: Option<Merging>,
    pub columns: Vec<Column>,
    pub computed: Vec<Computed>,
    pub order: Vec<(Column, SortOptions)>,
    /// Largest number of rows of the answer.
    pub fetch: Option<usize>,
    pub schema: SchemaRef,
}

/// Merging of the states of each group.
#[derive(Debug, Clone)]
pub struct Merging {
    /// Positions of the dimensions in the schema of the cuboid. Without any there is one group, even without rows.
    pub groups: Vec<usize>,
    pub calls: Vec<Call>,
}

#[derive(Debug, Clone)]
pub struct Call {
    pub(super) function: Arc<AggregateFunctionExpr>,
    /// Positions of its states in the schema of the cuboid.
    pub(super) states: Vec<usize>,
}

/// An expression over other columns.
#[derive(Debug, Clone)]
pub struct Computed {
    pub expr: Arc<dyn PhysicalExpr>,
    pub inputs: Vec<Column>,
    /// Schema of the inputs.
    pub schema: SchemaRef,
}

/// The source of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// A column of the cuboid, by position.
    Stored(usize),
    /// A call of the merging, by number.
    Merged(usize),
    /// An expression, by number.
    Computed(usize),
}

impl Shape {
    /// The shape of `plan` over the scan below it; none if the plan does more than merge, order and choose columns.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<(Self, Arc<dyn ExecutionPlan>)> {
        if let Some(scan) = plan.downcast_ref::<HotCuboidExec>() {
            return (scan.cuboids() == 1).then(|| (Self::over(scan), Arc::clone(plan)));
        }
        let [child] = plan.children()[..] else { return None };
        let (shape, scan) = Self::of(child)?;
        let shape = if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            shape.project(projection)
        } else if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
            shape.merge(aggregate)
        } else {
            shape.sort(plan.downcast_ref::<SortExec>()?)
        };
        Some((shape?, scan))
    }

    fn over(scan: &HotCuboidExec) -> Self {
        Self {
            merging: None,
            columns: scan.output().iter().map(|position| Column::Stored(*position)).collect(),
            computed: Vec::new(),
            order: Vec::new(),
            fetch: None,
            schema: scan.schema(),
        }
    }

    fn project(mut self, projection: &ProjectionExec) -> Option<Self> {
        let mut columns = Vec::with_capacity(projection.expr().len());
        for projected in projection.expr() {
            let column = self.column(&projected.expr);
            columns.push(column.or_else(|| self.compute(&projected.expr))?);
        }
        self.columns = columns;
        self.schema = projection.schema();
        Some(self)
    }

    fn merge(mut self, aggregate: &AggregateExec) -> Option<Self> {
        let group = aggregate.group_expr();
        let fits = self.merging.is_none()
            && self.order.is_empty()
            && *aggregate.mode() == AggregateMode::Final
            && group.is_single()
            && aggregate.filter_expr().iter().all(Option::is_none)
            && aggregate.limit_options().is_none();
        if !fits {
            return None;
        }
        let groups = group.expr().iter().map(|(expr, _)| stored(self.column(expr)?));
        let groups = groups.collect::<Option<Vec<usize>>>()?;
        let mut states = self.columns.iter().skip(groups.len());
        let mut calls = Vec::with_capacity(aggregate.aggr_expr().len());
        for function in aggregate.aggr_expr() {
            let fields = function.state_fields().ok()?;
            let vectorised = groups.is_empty() || function.groups_accumulator_supported();
            let small = fields.iter().all(|field| is_small(field.data_type()));
            if !vectorised || !small || !function.order_bys().is_empty() {
                return None;
            }
            let count = fields.len();
            let positions: Vec<usize> = states.by_ref().take(count).filter_map(|c| stored(*c)).collect();
            if positions.len() < count {
                return None;
            }
            calls.push(Call { function: Arc::clone(function), states: positions });
        }
        let merged = (0..calls.len()).map(Column::Merged);
        self.columns = groups.iter().map(|position| Column::Stored(*position)).chain(merged).collect();
        self.schema = aggregate.schema();
        self.merging = Some(Merging { groups, calls });
        Some(self)
    }

    fn sort(mut self, sort: &SortExec) -> Option<Self> {
        if !self.order.is_empty() {
            return None;
        }
        let order = sort.expr().iter().map(|by| Some((self.column(&by.expr)?, by.options)));
        self.order = order.collect::<Option<_>>()?;
        self.fetch = sort.fetch();
        Some(self)
    }

    /// None after a sort: computing a row that a limit leaves out could fail.
    fn compute(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Option<Column> {
        if !self.order.is_empty() || is_volatile(expr) {
            return None;
        }
        let mut places: Vec<usize> = collect_columns(expr).iter().map(ColumnExpr::index).collect();
        places.sort_unstable();
        let inputs = places.iter().map(|place| self.columns.get(*place).copied()).collect::<Option<_>>()?;
        let schema = Arc::new(self.schema.project(&places).ok()?);
        let expr = reassign_expr_columns(Arc::clone(expr), &schema).ok()?;
        self.computed.push(Computed { expr, inputs, schema });
        Some(Column::Computed(self.computed.len() - 1))
    }

    fn column(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<Column> {
        self.columns.get(expr.downcast_ref::<ColumnExpr>()?.index()).copied()
    }
}

/// Whether a merged state takes no more memory than each of its inputs. The general plan counts the memory of other
/// states, and spills them.
fn is_small(state: &DataType) -> bool {
    state.is_primitive() || *state == DataType::Boolean
}

fn stored(column: Column) -> Option<usize> {
    match column {
        Column::Stored(position) => Some(position),
        Column::Merged(_) | Column::Computed(_) => None,
    }
}
