//! Finishes cells that are already the groups of the query: no merge is needed, so each is finished where it
//! stands, without a hash table.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef, SchemaRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    Aggregate, ColumnarValue, EmitTo, Expr, LogicalPlan, LogicalPlanBuilder, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use nyala_sql::error::QueryError;
use nyala_sql::functions::is_its_state;

use super::calls::{QueryCalls, state_fields};
use crate::cube::block::Miss;
use crate::cube::measure::MeasureCall;

/// The aggregation over `cells`, which have its group columns, each combination once, and states.
pub fn finish_each(
    aggregate: &Aggregate,
    calls: QueryCalls,
    cells: LogicalPlan,
) -> nyala_sql::error::Result<LogicalPlan> {
    let mut columns = cells.schema().columns().into_iter().map(Expr::Column);
    let groups = aggregate.schema.fields().len().saturating_sub(calls.calls.len());
    let mut values: Vec<Expr> = columns.by_ref().take(groups).collect();
    for call in calls.calls {
        let internal = |miss: Miss| QueryError::internal(miss);
        let fields = state_fields(&call, &calls.flat).map_err(internal)?;
        let states: Vec<Expr> = columns.by_ref().take(fields.len()).collect();
        let field = call.physical(&calls.flat, "value")?.field();
        values.push(match (states.as_slice(), fields.as_slice()) {
            ([state], [stored]) if is_stored(&call, stored, &field) => state.clone(),
            _ => {
                let flat = Arc::clone(&calls.flat);
                let signature = Signature::any(states.len(), Volatility::Immutable);
                let function = FinishState { call, flat, field, signature };
                let function = Arc::new(ScalarUDF::from(function));
                Expr::ScalarFunction(ScalarFunction::new_udf(function, states))
            }
        });
    }
    let named = values.into_iter().zip(aggregate.schema.columns());
    let named = named.map(|(value, column)| value.alias_qualified(column.relation, column.name));
    Ok(LogicalPlanBuilder::from(cells).project(named.collect::<Vec<_>>())?.build()?)
}

/// Whether the value of a call is its only state as it is stored.
fn is_stored(call: &MeasureCall, stored: &Field, value: &Field) -> bool {
    is_its_state(&call.function)
        && !call.distinct
        && stored.data_type() == value.data_type()
        && (value.is_nullable() || !stored.is_nullable())
}

/// The value of an aggregate call from states that are all in one row.
#[derive(Debug, PartialEq, Eq, Hash)]
struct FinishState {
    call: MeasureCall,
    /// Schema of the arguments.
    flat: SchemaRef,
    field: FieldRef,
    signature: Signature,
}

impl ScalarUDFImpl for FinishState {
    fn name(&self) -> &str {
        "nyala_finish_state"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _argument_types: &[DataType]) -> Result<DataType> {
        Ok(self.field.data_type().clone())
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::clone(&self.field))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let states = args.args.iter().map(|state| state.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let call = self.call.physical(&self.flat, "value")?;
        if call.groups_accumulator_supported() {
            let mut groups = call.create_groups_accumulator()?;
            groups.merge_batch(&states, &(0..rows).collect::<Vec<_>>(), rows)?;
            return Ok(ColumnarValue::Array(groups.evaluate(EmitTo::All)?));
        }
        let mut values = Vec::with_capacity(rows);
        for row in 0..rows {
            let states: Vec<ArrayRef> = states.iter().map(|state| state.slice(row, 1)).collect();
            let mut accumulator = call.create_accumulator()?;
            accumulator.merge_batch(&states)?;
            values.push(accumulator.evaluate()?);
        }
        if values.is_empty() {
            return Ok(ColumnarValue::Array(arrow::array::new_empty_array(self.field.data_type())));
        }
        ScalarValue::iter_to_array(values).map(ColumnarValue::Array)
    }
}
