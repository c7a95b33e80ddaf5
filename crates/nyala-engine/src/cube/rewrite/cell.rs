//! A function that makes states of single rows: each cell as if it were one row.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, EmitTo, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

use crate::cube::measure::MeasureCall;

/// The states of `call` over one row with these values of its arguments that are no constants: an
/// expression for each of `fields`, its state columns.
pub(super) fn cell_states(
    call: &MeasureCall,
    flat: &SchemaRef,
    fields: &[FieldRef],
    values: &[Expr],
) -> Vec<Expr> {
    let states = fields.iter().enumerate().map(|(position, field)| {
        let function = CellState {
            call: call.clone(),
            flat: Arc::clone(flat),
            field: Arc::clone(field),
            position,
            signature: Signature::any(values.len(), Volatility::Immutable),
        };
        let function = Arc::new(ScalarUDF::from(function));
        Expr::ScalarFunction(ScalarFunction::new_udf(function, values.to_vec()))
    });
    states.collect()
}

/// One state column of an aggregate call, of each row on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CellState {
    call: MeasureCall,
    /// Schema of the arguments.
    flat: SchemaRef,
    field: FieldRef,
    position: usize,
    signature: Signature,
}

impl Hash for CellState {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.call.hash(state);
        self.position.hash(state);
    }
}

impl ScalarUDFImpl for CellState {
    fn name(&self) -> &str {
        "nyala_cell_state"
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
        let values = args.args.iter().map(|value| value.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let call = self.call.physical(&self.flat, "m")?;
        let states = if call.groups_accumulator_supported() {
            self.grouped(&call, &values, rows)?
        } else {
            self.one_by_one(&call, &values, rows)?
        };
        Ok(ColumnarValue::Array(states))
    }
}

impl CellState {
    /// Every row is a group of its own.
    fn grouped(&self, call: &AggregateFunctionExpr, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let mut groups = call.create_groups_accumulator()?;
        let indices: Vec<usize> = (0..rows).collect();
        groups.update_batch(values, &indices, None, rows)?;
        let states = groups.state(EmitTo::All)?;
        states.get(self.position).cloned().ok_or_else(|| self.missing())
    }

    fn one_by_one(&self, call: &AggregateFunctionExpr, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let mut states: Vec<ScalarValue> = Vec::with_capacity(rows);
        for row in 0..rows {
            let row: Vec<ArrayRef> = values.iter().map(|value| value.slice(row, 1)).collect();
            let mut accumulator = call.create_accumulator()?;
            accumulator.update_batch(&row)?;
            let state = accumulator.state()?.into_iter().nth(self.position);
            states.push(state.ok_or_else(|| self.missing())?);
        }
        if states.is_empty() {
            return Ok(arrow::array::new_empty_array(self.field.data_type()));
        }
        ScalarValue::iter_to_array(states)
    }

    fn missing(&self) -> datafusion::error::DataFusionError {
        exec_datafusion_err!("`{}` has no state {}", self.call.function.name(), self.position)
    }
}
