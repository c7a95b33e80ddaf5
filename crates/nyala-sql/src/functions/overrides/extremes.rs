//! The least and the greatest of floats, NaN being greater than all others.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float16Type, Float32Type, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

use crate::error::QueryError;
use crate::functions::aggregate::{Rows, states_of_rows};

/// The value that is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Extreme {
    Least,
    Greatest,
}

impl Extreme {
    /// Whether a value takes the place of the best one so far.
    fn prefers<N: PartialOrd + Copy>(self, new: N, best: N) -> bool {
        match self {
            Self::Least => is_above(best, new),
            Self::Greatest => is_above(new, best),
        }
    }
}

fn is_above<N: PartialOrd + Copy>(one: N, other: N) -> bool {
    one > other || (is_nan(one) && !is_nan(other))
}

/// Only NaN is not even equal to itself.
fn is_nan<N: PartialOrd>(value: N) -> bool {
    value.partial_cmp(&value).is_none()
}

/// The extreme of each group.
pub struct FloatExtremes<T: ArrowPrimitiveType> {
    extreme: Extreme,
    /// None for a group without rows that count.
    best: Vec<Option<T::Native>>,
}

impl<T: ArrowPrimitiveType> FloatExtremes<T> {
    /// Without groups.
    pub fn new(extreme: Extreme) -> Self {
        Self { extreme, best: Vec::new() }
    }
}

impl<T: ArrowPrimitiveType> GroupsAccumulator for FloatExtremes<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        let column = values.first().and_then(|column| column.as_primitive_opt::<T>());
        let column = column.ok_or_else(|| QueryError::internal("an extreme is not of floats"))?;
        if total_num_groups > self.best.len() {
            self.best.resize(total_num_groups, None);
        }
        let Self { extreme, best } = self;
        Rows::new(values, group_indices, opt_filter).for_each(|row, group| {
            let value = column.value(row);
            if let Some(best) = best.get_mut(group)
                && best.is_none_or(|best| extreme.prefers(value, best))
            {
                *best = Some(value);
            }
            Ok(())
        })
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.update_batch(values, group_indices, None, total_num_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let taken = emit_to.take_needed(&mut self.best);
        let column: ArrayRef = Arc::new(taken.into_iter().collect::<PrimitiveArray<T>>());
        Ok(without_sign(&column))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        states_of_rows(Self::new(self.extreme), values, opt_filter)
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.best.capacity() * size_of::<Option<T::Native>>()
    }
}

/// An accumulator that knows NaN without a sign only: that one is greater than all numbers in the order that
/// DataFusion compares floats by, while one with a sign is less.
#[derive(Debug)]
pub struct OneNan(pub Box<dyn Accumulator>);

impl Accumulator for OneNan {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update_batch(&without_signs(values))
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.retract_batch(&without_signs(values))
    }

    fn supports_retract_batch(&self) -> bool {
        self.0.supports_retract_batch()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(&without_signs(states))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.0.size()
    }
}

type Half = <Float16Type as ArrowPrimitiveType>::Native;

fn without_signs(columns: &[ArrayRef]) -> Vec<ArrayRef> {
    columns.iter().map(without_sign).collect()
}

fn without_sign(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float16 => one_nan::<Float16Type>(column, Half::NAN),
        DataType::Float32 => one_nan::<Float32Type>(column, f32::NAN),
        DataType::Float64 => one_nan::<Float64Type>(column, f64::NAN),
        _ => Arc::clone(column),
    }
}

fn one_nan<T: ArrowPrimitiveType>(column: &ArrayRef, nan: T::Native) -> ArrayRef {
    let column = column.as_primitive::<T>();
    Arc::new(column.unary::<_, T>(|value| if is_nan(value) { nan } else { value }))
}
