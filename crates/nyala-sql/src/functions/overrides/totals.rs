//! Sums of numbers of limited range, which are an error if they leave it.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use arrow::array::{ArrayRef, AsArray, BooleanArray};
use arrow::compute::sum_checked;
use arrow::datatypes::{ArrowNativeTypeOp, ArrowNumericType, DataType};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Accumulator, ColumnarValue, EmitTo, GroupsAccumulator};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op::PrimitiveGroupsAccumulator;

use crate::error::{ErrorKind, QueryError};
use crate::functions::check_digits;

/// The error for a sum that is out of the range of its type.
fn out_of_range(data_type: &DataType) -> QueryError {
    let message = format!("a sum is out of the range of {data_type}");
    QueryError::new(ErrorKind::OutOfRange, message)
        .hint("add up numbers of a wider type: sum(CAST(x AS DECIMAL(38, 0)))")
}

/// The sum of all values; none if there are none.
#[derive(Debug)]
pub struct Total<T: ArrowNumericType> {
    sum: Option<T::Native>,
    data_type: DataType,
}

impl<T: ArrowNumericType> Total<T> {
    pub fn new(data_type: &DataType) -> Self {
        Self { sum: None, data_type: data_type.clone() }
    }
}

impl<T: ArrowNumericType + Debug> Accumulator for Total<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let column = values.first().and_then(|column| column.as_primitive_opt::<T>());
        let column = column.ok_or_else(|| QueryError::internal("a sum is not of numbers"))?;
        let more = sum_checked(column).map_err(|_| out_of_range(&self.data_type))?;
        self.sum = match (self.sum, more) {
            (Some(sum), Some(more)) => {
                Some(sum.add_checked(more).map_err(|_| out_of_range(&self.data_type))?)
            }
            (sum, more) => sum.or(more),
        };
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = ScalarValue::new_primitive::<T>(self.sum, &self.data_type)?;
        check_digits(&ColumnarValue::Scalar(sum.clone()))?;
        Ok(sum)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::new_primitive::<T>(self.sum, &self.data_type)?])
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }
}

/// The sum of each group.
pub struct Totals {
    sums: Box<dyn GroupsAccumulator>,
    data_type: DataType,
    /// Set as soon as one of the sums was out of range.
    overflown: Arc<AtomicBool>,
}

impl Totals {
    pub fn new<T: ArrowNumericType + Send>(data_type: &DataType) -> Self {
        let overflown = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&overflown);
        let sums = PrimitiveGroupsAccumulator::<T, _>::new(data_type, move |sum, more| {
            match sum.add_checked(more) {
                Ok(all) => *sum = all,
                Err(_) => seen.store(true, Relaxed),
            }
        });
        Self { sums: Box::new(sums), data_type: data_type.clone(), overflown }
    }

    fn check(&self) -> Result<()> {
        if self.overflown.load(Relaxed) { Err(out_of_range(&self.data_type).into()) } else { Ok(()) }
    }
}

impl GroupsAccumulator for Totals {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.sums.update_batch(values, group_indices, opt_filter, total_num_groups)?;
        self.check()
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.sums.merge_batch(values, group_indices, total_num_groups)?;
        self.check()
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let sums = self.sums.evaluate(emit_to)?;
        check_digits(&ColumnarValue::Array(Arc::clone(&sums)))?;
        Ok(sums)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.sums.state(emit_to)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.sums.convert_to_state(values, opt_filter)
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.sums.size()
    }
}
