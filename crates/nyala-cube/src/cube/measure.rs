//! Measures: aggregate calls with stored intermediate states.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::AggregateUDF;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::{Column, Literal};
use nyala_model::StateColumn;
use nyala_sql::error::{QueryError, Result};
use nyala_sql::functions::stored_form;

/// An argument of an aggregate call: a column of the flat rows, or a constant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Argument {
    /// A column of the flat rows, by name.
    Column(FieldRef),
    /// A constant, such as the fraction of a percentile.
    Constant(ScalarValue),
}

/// An aggregate call of a cube, independent of where its rows or states come from.
#[derive(Debug, Clone)]
pub struct MeasureCall {
    /// The function.
    pub function: Arc<AggregateUDF>,
    /// Its arguments over the flat rows.
    pub arguments: Vec<Argument>,
    /// Whether equal arguments count once.
    pub distinct: bool,
    /// Column of the flat rows that says which rows count; all when absent.
    pub filter: Option<FieldRef>,
}

impl MeasureCall {
    /// The physical aggregate, built against the schema of the flat rows whichever half of the
    /// aggregation it is for: DataFusion finds states by position but derives types from arguments.
    pub fn physical(&self, flat: &SchemaRef, name: &str) -> Result<Arc<AggregateFunctionExpr>> {
        let arguments: Result<Vec<_>> = self.arguments.iter().map(|arg| arg.physical(flat)).collect();
        let call = AggregateExprBuilder::new(stored_form(&self.function), arguments?)
            .schema(Arc::clone(flat))
            .alias(name)
            .with_distinct(self.distinct)
            .build()?;
        Ok(Arc::new(call))
    }

    /// The FILTER as a physical expression over the flat rows.
    pub fn physical_filter(&self, flat: &SchemaRef) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        self.filter.as_ref().map(|field| column(field, flat)).transpose()
    }

    /// Columns of the intermediate state, named for storage as measure number `number`.
    pub fn state_columns(&self, flat: &SchemaRef, number: usize) -> Result<Vec<FieldRef>> {
        let fields = self.physical(flat, "m")?.state_fields()?;
        Ok(fields
            .into_iter()
            .map(|field| {
                let name = state_name(number, field.name());
                Arc::new(field.as_ref().clone().with_name(name))
            })
            .collect())
    }
}

impl Argument {
    fn physical(&self, flat: &SchemaRef) -> Result<Arc<dyn PhysicalExpr>> {
        match self {
            Self::Column(field) => column(field, flat),
            Self::Constant(value) => Ok(Arc::new(Literal::new(value.clone()))),
        }
    }
}

fn column(field: &FieldRef, flat: &SchemaRef) -> Result<Arc<dyn PhysicalExpr>> {
    let index = flat.index_of(field.name()).map_err(QueryError::internal)?;
    Ok(Arc::new(Column::new(field.name(), index)))
}

/// `m[count distinct]` of measure number 0 is stored as `m0_count_distinct`.
fn state_name(number: usize, field: &str) -> String {
    let state = field.strip_prefix("m[").and_then(|rest| rest.strip_suffix(']')).unwrap_or("state");
    let plain: String = state.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    format!("m{number}_{plain}")
}

/// State columns as the catalog records them.
pub fn record(states: &[FieldRef]) -> Vec<StateColumn> {
    states
        .iter()
        .map(|field| StateColumn { name: field.name().clone(), data_type: field.data_type().to_string() })
        .collect()
}

impl PartialEq for MeasureCall {
    fn eq(&self, other: &Self) -> bool {
        self.function == other.function
            && self.arguments == other.arguments
            && self.distinct == other.distinct
            && self.filter == other.filter
    }
}

impl Eq for MeasureCall {}

impl Hash for MeasureCall {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.name().hash(state);
        self.arguments.hash(state);
        self.distinct.hash(state);
    }
}
