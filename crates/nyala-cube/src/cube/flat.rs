//! Flat rows: the joined rows of a cube or query, with a column for each input of the aggregation.

use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use datafusion::common::ExprSchema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use nyala_sql::error::{QueryError, Result};
use nyala_sql::functions::{StateVersion, state_version};

use super::compile::invalid;
use super::expression::is_deterministic;
use super::measure::{Argument, MeasureCall};

/// Collects the columns of the flat rows.
pub struct FlatRows {
    input: Arc<LogicalPlan>,
    columns: Vec<Expr>,
    fields: Vec<FieldRef>,
}

impl FlatRows {
    /// Columns over the rows of `input`.
    pub fn new(input: &Arc<LogicalPlan>) -> Self {
        Self { input: Arc::clone(input), columns: Vec::new(), fields: Vec::new() }
    }

    /// A further column.
    pub fn add(&mut self, expr: &Expr, name: &str) -> Result<FieldRef> {
        let schema: &dyn ExprSchema = self.input.schema().as_ref();
        let (_, typed) = expr.to_field(schema)?;
        let field = Arc::new(Field::new(name, typed.data_type().clone(), typed.is_nullable()));
        self.columns.push(expr.clone().unalias().alias(name));
        self.fields.push(Arc::clone(&field));
        Ok(field)
    }

    /// Takes an aggregate call apart; its arguments become columns named after `position`.
    pub fn call(&mut self, expr: &Expr, position: usize) -> Result<(MeasureCall, StateVersion)> {
        let shown = expr.clone().unalias().human_display().to_string();
        let Expr::AggregateFunction(call) = expr.clone().unalias() else {
            return Err(QueryError::internal(format!("measure `{shown}` is not an aggregate")));
        };
        let refused = |reason: &str| invalid(format!("measure `{shown}` cannot be stored: {reason}"));
        let version = state_version(call.func.name(), call.params.distinct).map_err(refused)?;
        if !call.params.order_by.is_empty() || call.params.null_treatment.is_some() {
            return Err(refused("its result depends on the order of rows"));
        }
        let filter = call.params.filter.as_deref();
        if !call.params.args.iter().chain(filter).all(is_deterministic) {
            return Err(refused("its argument gives another value each time it is computed"));
        }
        let mut arguments = Vec::new();
        for (i, argument) in call.params.args.iter().enumerate() {
            arguments.push(match argument {
                Expr::Literal(value, _) => Argument::Constant(value.clone()),
                computed => Argument::Column(self.add(computed, &format!("m{position}_a{i}"))?),
            });
        }
        let filter =
            call.params.filter.as_ref().map(|f| self.add(f, &format!("m{position}_filter"))).transpose()?;
        let call = MeasureCall { function: call.func, arguments, distinct: call.params.distinct, filter };
        Ok((call, version))
    }

    /// The projection and its schema. A cube without dimensions that only counts rows still needs a
    /// column for the rows to be counted by.
    pub fn finish(mut self) -> Result<(LogicalPlan, SchemaRef)> {
        if self.columns.is_empty() {
            self.add(&datafusion::logical_expr::lit(1_i64), "row")?;
        }
        let input = self.input.as_ref().clone();
        let plan = LogicalPlanBuilder::from(input).project(self.columns)?.build()?;
        Ok((plan, Arc::new(Schema::new(self.fields))))
    }
}
