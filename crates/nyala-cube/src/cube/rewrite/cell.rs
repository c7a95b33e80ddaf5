//! A function that makes states of cells as if each were one row.
//!
//! States of single rows cost more to make and to merge than the rows themselves. So, where the group keys of
//! the states are known, the function makes one state for each group of a batch, in its first row, and gives
//! the other rows the states of no rows:
//!
//! ```text
//! key  value      count(DISTINCT value)
//! a    1          {1, 2}
//! a    2          {}
//! b    1          {1}
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt64Array};
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, EmitTo, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

use crate::cube::measure::MeasureCall;

/// The states of `call` over one row with these values of its arguments: an expression for each of `fields`,
/// its state columns.
pub fn cell_states(call: &MeasureCall, flat: &SchemaRef, fields: &[FieldRef], values: &[Expr]) -> Vec<Expr> {
    let states = fields.iter().enumerate().map(|(position, field)| {
        let (call, flat, field) = (call.clone(), Arc::clone(flat), Arc::clone(field));
        CellState { call, flat, field, position, grouped: false, signature: any_arguments() }
            .of(values.to_vec())
    });
    states.collect()
}

/// These states, with one state for all cells of equal `keys`. Only valid for states that go from here into an
/// aggregation by `keys`: all but one of these cells get the state of no rows.
pub fn made_together(states: Vec<Expr>, keys: &[Expr]) -> Vec<Expr> {
    let together = |state: Expr| match &state {
        Expr::ScalarFunction(call) => match call.func.inner().downcast_ref::<CellState>() {
            Some(function) => {
                CellState { grouped: true, ..function.clone() }.of([call.args.as_slice(), keys].concat())
            }
            None => state,
        },
        _ => state,
    };
    states.into_iter().map(together).collect()
}

fn any_arguments() -> Signature {
    Signature::variadic_any(Volatility::Immutable)
}

/// One state column of an aggregate call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct CellState {
    call: MeasureCall,
    /// Schema of the arguments.
    flat: SchemaRef,
    field: FieldRef,
    position: usize,
    /// Whether the arguments are followed by the keys that states are merged by.
    grouped: bool,
    signature: Signature,
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
        let mut values = args.args.iter().map(|value| value.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let keys = values.split_off(self.flat.fields().len().min(values.len()));
        let groups = if self.grouped { Groups::of(&keys, rows)? } else { Groups::single_rows(rows) };
        let call = self.call.physical(&self.flat, "m")?;
        let states = if call.groups_accumulator_supported() {
            self.vectorised(&call, &values, &groups)?
        } else {
            self.one_by_one(&call, &values, &groups)?
        };
        groups.spread(states, &self.of_no_rows(&call)?).map(ColumnarValue::Array)
    }
}

impl CellState {
    fn of(self, arguments: Vec<Expr>) -> Expr {
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(self)), arguments))
    }

    fn vectorised(
        &self,
        call: &AggregateFunctionExpr,
        values: &[ArrayRef],
        groups: &Groups,
    ) -> Result<ArrayRef> {
        let mut accumulator = call.create_groups_accumulator()?;
        accumulator.update_batch(values, &groups.of_row, None, groups.first_rows.len())?;
        let states = accumulator.state(EmitTo::All)?;
        states.get(self.position).cloned().ok_or_else(|| self.missing())
    }

    fn one_by_one(
        &self,
        call: &AggregateFunctionExpr,
        values: &[ArrayRef],
        groups: &Groups,
    ) -> Result<ArrayRef> {
        let mut states: Vec<ScalarValue> = Vec::with_capacity(groups.first_rows.len());
        for rows in groups.rows() {
            let rows = UInt64Array::from(rows);
            let values = values.iter().map(|value| take(value, &rows, None));
            let values = values.collect::<std::result::Result<Vec<_>, _>>()?;
            let mut accumulator = call.create_accumulator()?;
            accumulator.update_batch(&values)?;
            let state = accumulator.state()?.into_iter().nth(self.position);
            states.push(state.ok_or_else(|| self.missing())?);
        }
        if states.is_empty() {
            return Ok(arrow::array::new_empty_array(self.field.data_type()));
        }
        ScalarValue::iter_to_array(states)
    }

    fn of_no_rows(&self, call: &AggregateFunctionExpr) -> Result<ArrayRef> {
        let state = call.create_accumulator()?.state()?.into_iter().nth(self.position);
        state.ok_or_else(|| self.missing())?.cast_to(self.field.data_type())?.to_array()
    }

    fn missing(&self) -> DataFusionError {
        exec_datafusion_err!("`{}` has no state {}", self.call.function.name(), self.position)
    }
}

/// The groups of a batch.
struct Groups {
    /// For each row, its group.
    of_row: Vec<usize>,
    /// For each group, the row it is first met in.
    first_rows: Vec<usize>,
}

impl Groups {
    fn single_rows(rows: usize) -> Self {
        Self { of_row: (0..rows).collect(), first_rows: (0..rows).collect() }
    }

    fn of(keys: &[ArrayRef], rows: usize) -> Result<Self> {
        if keys.is_empty() {
            return Ok(Self { of_row: vec![0; rows], first_rows: (0..rows.min(1)).collect() });
        }
        let fields = keys.iter().map(|key| SortField::new(key.data_type().clone()));
        let encoded = RowConverter::new(fields.collect())?.convert_columns(keys)?;
        let mut known = HashMap::new();
        let mut groups = Self { of_row: Vec::with_capacity(rows), first_rows: Vec::new() };
        for (row, key) in encoded.iter().enumerate() {
            let group = *known.entry(key).or_insert(groups.first_rows.len());
            if group == groups.first_rows.len() {
                groups.first_rows.push(row);
            }
            groups.of_row.push(group);
        }
        Ok(groups)
    }

    /// For each group, its rows.
    fn rows(&self) -> Vec<Vec<u64>> {
        let mut rows: Vec<Vec<u64>> = vec![Vec::new(); self.first_rows.len()];
        for (row, group) in self.of_row.iter().enumerate() {
            if let Some(rows) = rows.get_mut(*group) {
                rows.push(row as u64);
            }
        }
        rows
    }

    /// The states of the groups in their first rows, and `nothing` in all others.
    fn spread(&self, states: ArrayRef, nothing: &ArrayRef) -> Result<ArrayRef> {
        if self.first_rows.len() == self.of_row.len() {
            return Ok(states);
        }
        let candidates = concat(&[states.as_ref(), nothing.as_ref()])?;
        let chosen = self.of_row.iter().enumerate().map(|(row, group)| {
            let first = self.first_rows.get(*group) == Some(&row);
            if first { *group as u64 } else { self.first_rows.len() as u64 }
        });
        Ok(take(&candidates, &UInt64Array::from_iter_values(chosen), None)?)
    }
}
