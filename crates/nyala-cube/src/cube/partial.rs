//! `PartialAggregate`: the first half of an aggregation, from raw rows to the states a cuboid would hold.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::projection::ProjectionExec;
use nyala_model::KeySet;

use super::finish::group_by;
use super::measure::MeasureCall;

/// Rows to states, for rows that no segment holds.
///
/// Like [`super::finish::FinishAggregate`] it takes columns by position.
#[derive(Debug, Clone)]
pub struct PartialAggregate {
    /// Group columns, then arguments and filters.
    pub input: Arc<LogicalPlan>,
    /// How many of the input's columns are group columns.
    pub groups: usize,
    /// The aggregates over the input's columns.
    pub aggregates: Vec<MeasureCall>,
    /// Schema of the input rows as the aggregates know it.
    pub rows: SchemaRef,
    /// Group columns, then the states of each aggregate.
    pub schema: DFSchemaRef,
    /// The keys of the rows that are read; LSNs if the fact table is live. Scans of a live table compare as
    /// equal for any restriction of LSNs, and only this tells them apart.
    pub keys: KeySet,
    /// Description of the source rows, for EXPLAIN.
    pub label: String,
}

impl UserDefinedLogicalNodeCore for PartialAggregate {
    fn name(&self) -> &str {
        "PartialAggregate"
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
        write!(f, "PartialAggregate: {}", self.label)
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let input = inputs.into_iter().next().map_or_else(|| Arc::clone(&self.input), Arc::new);
        Ok(Self { input, ..self.clone() })
    }

    fn necessary_children_exprs(&self, _output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![(0..self.input.schema().fields().len()).collect()])
    }
}

impl PartialAggregate {
    pub fn plan(&self, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let names = (0..self.groups).map(|i| format!("g{i}"));
        let group = group_by(&input, names);
        let calls = self.aggregates.iter().enumerate();
        let calls = calls
            .map(|(i, call)| call.physical(&self.rows, &format!("m{i}")))
            .collect::<nyala_sql::error::Result<Vec<_>>>()?;
        let filters = self
            .aggregates
            .iter()
            .map(|call| call.physical_filter(&self.rows))
            .collect::<nyala_sql::error::Result<Vec<_>>>()?;
        let rows = Arc::clone(&self.rows);
        let states = AggregateExec::try_new(AggregateMode::Partial, group, calls, filters, input, rows)?;
        let schema = states.schema();
        let columns = schema.fields().iter().zip(self.schema.fields()).enumerate().map(|(i, (from, to))| {
            (Arc::new(Column::new(from.name(), i)) as Arc<dyn PhysicalExpr>, to.name().clone())
        });
        Ok(Arc::new(ProjectionExec::try_new(columns.collect::<Vec<_>>(), Arc::new(states))?))
    }
}

impl PartialEq for PartialAggregate {
    fn eq(&self, other: &Self) -> bool {
        self.input == other.input
            && self.groups == other.groups
            && self.aggregates == other.aggregates
            && self.schema == other.schema
            && self.keys == other.keys
    }
}

impl Eq for PartialAggregate {}

impl PartialOrd for PartialAggregate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl Hash for PartialAggregate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.input.hash(state);
        self.groups.hash(state);
        self.aggregates.hash(state);
        self.schema.hash(state);
    }
}
