//! The aggregate calls of a query, finished in the same way for every source of states.

use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use nyala_sql::error::QueryError;

use crate::cube::block::{Block, Miss};
use crate::cube::call::Call;
use crate::cube::measure::{Argument, MeasureCall};

/// The calls of one aggregation, over rows with their arguments as the only columns.
#[derive(Debug, Clone)]
pub struct QueryCalls {
    /// Schema of these rows.
    pub flat: SchemaRef,
    /// The calls, in the order of the aggregation.
    pub calls: Vec<MeasureCall>,
}

impl QueryCalls {
    /// The calls of `block`, or which of them cannot be finished from states.
    pub fn of(block: &Block) -> Result<Self, Miss> {
        let columns = block.columns().map_err(|error| Miss::new(error.to_string()))?;
        let (mut calls, mut fields) = (Vec::new(), Vec::new());
        for (i, aggregate) in block.aggregates.iter().enumerate() {
            let (call, arguments) = Call::of(aggregate)?.typed(&columns, &format!("a{i}_"))?;
            calls.push(call);
            fields.extend(arguments);
        }
        Ok(Self { flat: Arc::new(Schema::new(fields)), calls })
    }
}

/// The states of `call` if it saw no row: they change nothing when merged with others.
pub fn neutral(call: &MeasureCall, flat: &SchemaRef) -> Result<Vec<ScalarValue>, Miss> {
    let physical = call.physical(flat, "m").map_err(|error| Miss::new(error.to_string()))?;
    let state = physical.create_accumulator().and_then(|mut accumulator| accumulator.state());
    state.map_err(|error| Miss::new(error.to_string()))
}

/// The states of `call` over one row. All its arguments are constants.
pub fn of_one_row(call: &MeasureCall, flat: &SchemaRef) -> Result<Vec<ScalarValue>, Miss> {
    let made = || {
        let mut accumulator = call.physical(flat, "m")?.create_accumulator()?;
        let values = call.arguments.iter().filter_map(|argument| match argument {
            Argument::Constant(value) => Some(value.to_array()),
            Argument::Column(_) => None,
        });
        accumulator.update_batch(&values.collect::<Result<Vec<_>, _>>()?)?;
        Ok::<_, QueryError>(accumulator.state()?)
    };
    made().map_err(|error| Miss::new(error.to_string()))
}

/// The columns of the states of `call`.
pub fn state_fields(call: &MeasureCall, flat: &SchemaRef) -> Result<Vec<FieldRef>, Miss> {
    call.state_columns(flat, 0).map_err(|error| Miss::new(error.to_string()))
}
