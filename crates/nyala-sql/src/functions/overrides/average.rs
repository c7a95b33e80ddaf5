//! Averages of decimals and whole numbers, rounded to at least 16 digits after the point.
//!
//! DataFusion computes a quotient with as many digits as the type of the result has, and cuts off the rest. It is asked
//! for one digit more, by which the result is rounded.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::compute::cast_with_options;
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, FieldRef};
use datafusion::common::format::DEFAULT_CAST_OPTIONS;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

use crate::functions::digits_of_integer;

/// Digits after the point, as PostgreSQL has at least.
const DIGITS: i8 = 16;

/// The type of an average of numbers of this type; none if DataFusion's type is right.
pub fn average_type(of: &DataType) -> Option<DataType> {
    Some(match of {
        DataType::Decimal128(_, scale) => DataType::Decimal128(DECIMAL128_MAX_PRECISION, DIGITS.max(*scale)),
        DataType::Decimal256(_, scale) => DataType::Decimal256(DECIMAL256_MAX_PRECISION, DIGITS.max(*scale)),
        of => DataType::Decimal128(DECIMAL128_MAX_PRECISION, digits_of_integer(of).map(|_| DIGITS)?),
    })
}

/// The type that an argument is cast to, so that all digits of the average have room.
pub fn averaged_as(of: &DataType) -> DataType {
    if let Some(digits) = digits_of_integer(of) {
        return DataType::Decimal128(digits, 0);
    }
    let behind = |scale: i8| i16::from(DIGITS.max(scale)) + 1;
    match *of {
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(precision, scale)
        }
        DataType::Decimal128(precision, scale)
            if i16::from(precision) - i16::from(scale) + behind(scale)
                > i16::from(DECIMAL128_MAX_PRECISION) =>
        {
            DataType::Decimal256(precision, scale)
        }
        _ => of.clone(),
    }
}

/// The arguments that make an accumulator of one digit more.
pub fn with_one_digit_more(arguments: AccumulatorArgs<'_>) -> AccumulatorArgs<'_> {
    let more = match arguments.return_field.data_type() {
        DataType::Decimal128(precision, scale) => DataType::Decimal128(*precision, scale.saturating_add(1)),
        DataType::Decimal256(precision, scale) => DataType::Decimal256(*precision, scale.saturating_add(1)),
        _ => return arguments,
    };
    let field: FieldRef = Arc::new(arguments.return_field.as_ref().clone().with_data_type(more));
    AccumulatorArgs { return_field: field, ..arguments }
}

/// An accumulator whose result is rounded to a type of fewer digits.
#[derive(Debug)]
pub struct Rounded {
    pub inner: Box<dyn Accumulator>,
    pub to: DataType,
}

impl Accumulator for Rounded {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let exact = self.inner.evaluate()?;
        ScalarValue::try_from_array(&round(&exact.to_array()?, &self.to)?, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.inner.size()
    }
}

/// As [`Rounded`], for groups.
pub struct RoundedGroups {
    pub inner: Box<dyn GroupsAccumulator>,
    pub to: DataType,
}

impl GroupsAccumulator for RoundedGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.inner.update_batch(values, group_indices, opt_filter, total_num_groups)
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.inner.merge_batch(values, group_indices, total_num_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        round(&self.inner.evaluate(emit_to)?, &self.to)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.inner.state(emit_to)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(values, opt_filter)
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.inner.size()
    }
}

fn round(exact: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    Ok(cast_with_options(exact, to, &DEFAULT_CAST_OPTIONS)?)
}
