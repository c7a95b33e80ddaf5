//! `FinishAggregate`: the second half of an aggregation, over states instead of rows.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs};
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};

use super::measure::MeasureCall;
use super::partial::PartialAggregate;

/// Below this many states one pass on one core is faster than any division of work.
const SINGLE_PASS_STATES: u64 = 131_072;

/// Merges states to final values.
///
/// ```text
/// FinishAggregate            output: exactly the columns of the aggregation it replaces
///   Projection               group columns first, then the states of each aggregate
///     Filter                 the query's conditions on dimensions
///       TableScan cuboid
/// ```
///
/// The columns are taken by position, so no expression here can be changed by an optimizer rule.
#[derive(Debug, Clone)]
pub struct FinishAggregate {
    /// Group columns, then states.
    pub input: Arc<LogicalPlan>,
    /// How many of the input's columns are group columns.
    pub groups: usize,
    /// The aggregates in output order; each takes its states from the input in this order.
    pub aggregates: Vec<MeasureCall>,
    /// Schema of the flat rows that the aggregates were defined over.
    pub flat: SchemaRef,
    /// Schema of the output.
    pub schema: DFSchemaRef,
    /// States in the cuboid, before the filter.
    pub estimated_states: u64,
    /// Cube and cuboid, for EXPLAIN.
    pub label: String,
}

impl UserDefinedLogicalNodeCore for FinishAggregate {
    fn name(&self) -> &str {
        "FinishAggregate"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FinishAggregate: cube={}", self.label)
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let input = inputs.into_iter().next().map_or_else(|| Arc::clone(&self.input), Arc::new);
        Ok(Self { input, ..self.clone() })
    }

    fn necessary_children_exprs(&self, _output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![(0..self.input.schema().fields().len()).collect()])
    }
}

impl PartialEq for FinishAggregate {
    fn eq(&self, other: &Self) -> bool {
        self.input == other.input
            && self.groups == other.groups
            && self.aggregates == other.aggregates
            && self.schema == other.schema
    }
}

impl Eq for FinishAggregate {}

impl PartialOrd for FinishAggregate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl Hash for FinishAggregate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.input.hash(state);
        self.groups.hash(state);
        self.aggregates.hash(state);
        self.schema.hash(state);
    }
}

/// Plans [`FinishAggregate`] and [`PartialAggregate`] into DataFusion's own aggregation operators.
#[derive(Debug)]
pub struct FinishAggregatePlanner;

#[async_trait]
impl ExtensionPlanner for FinishAggregatePlanner {
    async fn plan_extension(
        &self,
        _planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        _session: &dyn Session,
        _context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let [input] = physical_inputs else { return Ok(None) };
        if let Some(node) = node.as_any().downcast_ref::<FinishAggregate>() {
            return node.plan(Arc::clone(input)).map(Some);
        }
        let partial = node.as_any().downcast_ref::<PartialAggregate>();
        partial.map(|node| node.plan(Arc::clone(input))).transpose()
    }
}

impl FinishAggregate {
    fn plan(&self, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        if rows_read(&input).unwrap_or(self.estimated_states) <= SINGLE_PASS_STATES {
            return self.stage(AggregateMode::Final, input);
        }
        let merged = self.stage(AggregateMode::PartialReduce, input)?;
        let last = if self.groups == 0 { AggregateMode::Final } else { AggregateMode::FinalPartitioned };
        self.stage(last, merged)
    }

    fn stage(&self, mode: AggregateMode, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let group_names = self.schema.fields().iter().take(self.groups).map(|f| f.name().clone());
        let group = group_by(&input, group_names);
        let calls = self.physical_calls()?;
        let filters = vec![None; calls.len()];
        let flat = Arc::clone(&self.flat);
        Ok(Arc::new(AggregateExec::try_new(mode, group, calls, filters, input, flat)?))
    }

    fn physical_calls(&self) -> Result<Vec<Arc<AggregateFunctionExpr>>> {
        let names = self.schema.fields().iter().skip(self.groups).map(|field| field.name());
        let calls = self.aggregates.iter().zip(names);
        Ok(calls
            .map(|(call, name)| call.physical(&self.flat, name))
            .collect::<nyala_sql::error::Result<_>>()?)
    }
}

/// Rows that the leaves of `plan` give: fewer than the cuboid has if a filter left out blocks of it.
fn rows_read(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    let children = plan.children();
    if children.is_empty() {
        let statistics = plan.statistics_from_inputs(&[], &StatisticsArgs::new()).ok()?;
        return statistics.num_rows.get_value().map(|rows| *rows as u64);
    }
    children.into_iter().map(rows_read).sum()
}

/// Groups by the first columns of the input, giving them these names.
pub fn group_by(input: &Arc<dyn ExecutionPlan>, names: impl Iterator<Item = String>) -> PhysicalGroupBy {
    let schema = input.schema();
    let columns = schema.fields().iter().zip(names).enumerate().map(|(i, (field, name))| {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), i));
        (column, name)
    });
    PhysicalGroupBy::new_single(columns.collect())
}
