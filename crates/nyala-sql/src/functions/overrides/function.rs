//! A function of DataFusion with some of its accumulators replaced.

use std::sync::Arc;

use arrow::datatypes::{
    DataType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Field, FieldRef, Float16Type,
    Float32Type, Float64Type, Int64Type, UInt64Type,
};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::bit_and_or_xor::{bit_and_udaf, bit_or_udaf};
use datafusion::functions_aggregate::bool_and_or::{bool_and_udaf, bool_or_udaf};
use datafusion::functions_aggregate::correlation::corr_udaf;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::functions_aggregate::string_agg::string_agg_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Expr, GroupsAccumulator, Operator,
    ReversedUDAF, SetMonotonicity, Signature, StatisticsArgs,
};

use super::average::{Rounded, RoundedGroups, average_type, averaged_as, with_one_digit_more};
use super::correlation::Correlations;
use super::extremes::{Extreme, FloatExtremes, OneNan};
use super::sliding::Sliding;
use super::totals::{Total, Totals};

/// Every overridden function.
pub fn overrides() -> [Arc<AggregateUDF>; 10] {
    [
        adding(),
        override_with(string_agg_udaf(), Replacement::OwnOrder),
        override_with(min_udaf(), Replacement::Extreme(Extreme::Least)),
        override_with(max_udaf(), Replacement::Extreme(Extreme::Greatest)),
        override_with(corr_udaf(), Replacement::Correlation),
        override_with(avg_udaf(), Replacement::Average),
        override_with(every(), Replacement::Frames(Sliding::And)),
        override_with(bool_or_udaf(), Replacement::Frames(Sliding::Or)),
        override_with(bit_and_udaf(), Replacement::Frames(Sliding::And)),
        override_with(bit_or_udaf(), Replacement::Frames(Sliding::Or)),
    ]
}

/// The function that adds.
pub fn adding() -> Arc<AggregateUDF> {
    override_with(sum_udaf(), Replacement::Total)
}

/// `bool_and`, which PostgreSQL also calls by another name.
fn every() -> Arc<AggregateUDF> {
    Arc::new(bool_and_udaf().as_ref().clone().with_aliases(["every"]))
}

fn override_with(function: Arc<AggregateUDF>, by: Replacement) -> Arc<AggregateUDF> {
    let signature = match by {
        Replacement::Average => Signature::user_defined(function.signature().volatility),
        _ => function.signature().clone(),
    };
    Arc::new(AggregateUDF::from(Override { function, by, signature }))
}

/// The replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Replacement {
    Extreme(Extreme),
    Correlation,
    Total,
    Average,
    /// DataFusion's accumulator cannot remove the rows that leave a frame.
    Frames(Sliding),
    /// The accumulator sorts by itself, so that its rows may come in any order.
    OwnOrder,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Override {
    function: Arc<AggregateUDF>,
    by: Replacement,
    signature: Signature,
}

impl Override {
    /// Whether the function is the extreme of values among which there may be NaN.
    fn meets_nan(&self, data_type: &DataType) -> bool {
        matches!(self.by, Replacement::Extreme(_)) && data_type.is_floating()
    }

    /// Whether the function is an average to which DataFusion gives too few digits.
    fn rounds(&self, data_type: &DataType) -> bool {
        self.by == Replacement::Average && average_type(data_type).is_some()
    }

    /// The accumulator that `make` makes for the replaced function, wrapped if its result has to be rounded or may be a NaN with a sign.
    fn accumulate(
        &self,
        arguments: AccumulatorArgs<'_>,
        make: impl FnOnce(AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>>,
    ) -> Result<Box<dyn Accumulator>> {
        let to = arguments.return_type().clone();
        if self.rounds(&to) {
            return Ok(Box::new(Rounded { inner: make(with_one_digit_more(arguments))?, to }));
        }
        let accumulator = make(arguments)?;
        if self.meets_nan(&to) {
            return Ok(Box::new(OneNan(accumulator)));
        }
        Ok(accumulator)
    }
}

impl AggregateUDFImpl for Override {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, argument_types: &[DataType]) -> Result<DataType> {
        if let (Replacement::Average, [number]) = (self.by, argument_types)
            && let Some(average) = average_type(number)
        {
            return Ok(average);
        }
        self.function.inner().return_type(argument_types)
    }

    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        if let (Replacement::Average, [number]) = (self.by, arguments)
            && let Some(average) = average_type(number.data_type())
        {
            return Ok(Arc::new(Field::new(self.name(), average, true)));
        }
        self.function.inner().return_field(arguments)
    }

    fn is_nullable(&self) -> bool {
        self.function.inner().is_nullable()
    }

    fn coerce_types(&self, argument_types: &[DataType]) -> Result<Vec<DataType>> {
        if self.by != Replacement::Average {
            return self.function.inner().coerce_types(argument_types);
        }
        let fields: Vec<FieldRef> =
            argument_types.iter().map(|of| Arc::new(Field::new("", averaged_as(of), true))).collect();
        let coerced = fields_with_udf(&fields, self.function.as_ref())?;
        Ok(coerced.iter().map(|field| field.data_type().clone()).collect())
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.function.inner().state_fields(arguments)
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if (self.by, arguments.is_distinct) == (Replacement::Total, false)
            && let Some(total) = total(arguments.return_type())
        {
            return Ok(total);
        }
        self.accumulate(arguments, |arguments| self.function.accumulator(arguments))
    }

    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let sliding = match self.by {
            Replacement::Frames(sliding) => Some(sliding),
            Replacement::OwnOrder => Some(Sliding::Texts),
            _ => None,
        };
        if let Some(accumulator) = sliding.and_then(|sliding| sliding.accumulator(arguments.return_type())) {
            return Ok(accumulator);
        }
        self.accumulate(arguments, |arguments| self.function.create_sliding_accumulator(arguments))
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        self.function.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        match (self.by, arguments.return_type()) {
            (Replacement::Correlation, _) => Ok(Box::new(Correlations::default())),
            (Replacement::Extreme(extreme), DataType::Float16) => {
                Ok(Box::new(FloatExtremes::<Float16Type>::new(extreme)))
            }
            (Replacement::Extreme(extreme), DataType::Float32) => {
                Ok(Box::new(FloatExtremes::<Float32Type>::new(extreme)))
            }
            (Replacement::Extreme(extreme), DataType::Float64) => {
                Ok(Box::new(FloatExtremes::<Float64Type>::new(extreme)))
            }
            (Replacement::Total, data_type) => match totals(data_type) {
                Some(totals) => Ok(Box::new(totals)),
                None => self.function.create_groups_accumulator(arguments),
            },
            (Replacement::Average, to) if self.rounds(to) => {
                let to = to.clone();
                let inner = self.function.create_groups_accumulator(with_one_digit_more(arguments))?;
                Ok(Box::new(RoundedGroups { inner, to }))
            }
            (
                Replacement::Extreme(_)
                | Replacement::Average
                | Replacement::Frames(_)
                | Replacement::OwnOrder,
                _,
            ) => self.function.create_groups_accumulator(arguments),
        }
    }

    fn simplify_expr_op_literal(
        &self,
        function: &AggregateFunction,
        argument: &Expr,
        op: Operator,
        literal: &Expr,
        argument_is_left: bool,
    ) -> Result<Option<Expr>> {
        self.function.simplify_expr_op_literal(function, argument, op, literal, argument_is_left)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        match self.by {
            Replacement::OwnOrder => AggregateOrderSensitivity::SoftRequirement,
            _ => self.function.inner().order_sensitivity(),
        }
    }

    fn with_beneficial_ordering(self: Arc<Self>, _: bool) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(match self.by {
            Replacement::OwnOrder => Some(self),
            _ => None,
        })
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.by {
            Replacement::OwnOrder => {
                ReversedUDAF::Reversed(override_with(Arc::clone(&self.function), self.by))
            }
            _ => self.function.inner().reverse_expr(),
        }
    }

    fn is_descending(&self) -> Option<bool> {
        self.function.inner().is_descending()
    }

    /// Statistics of files leave out NaN, so that the extremes of floats are not known from them.
    fn value_from_stats(&self, arguments: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        if self.meets_nan(arguments.return_type) {
            return None;
        }
        self.function.inner().value_from_stats(arguments)
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.function.inner().default_value(data_type)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.inner().documentation()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.function.inner().set_monotonicity(data_type)
    }
}

/// The accumulator that sums numbers of a type of limited range.
fn total(data_type: &DataType) -> Option<Box<dyn Accumulator>> {
    Some(match data_type {
        DataType::Int64 => Box::new(Total::<Int64Type>::new(data_type)),
        DataType::UInt64 => Box::new(Total::<UInt64Type>::new(data_type)),
        DataType::Decimal32(..) => Box::new(Total::<Decimal32Type>::new(data_type)),
        DataType::Decimal64(..) => Box::new(Total::<Decimal64Type>::new(data_type)),
        DataType::Decimal128(..) => Box::new(Total::<Decimal128Type>::new(data_type)),
        DataType::Decimal256(..) => Box::new(Total::<Decimal256Type>::new(data_type)),
        _ => return None,
    })
}

/// The accumulator that sums numbers of a type of limited range by group.
fn totals(data_type: &DataType) -> Option<Totals> {
    Some(match data_type {
        DataType::Int64 => Totals::new::<Int64Type>(data_type),
        DataType::UInt64 => Totals::new::<UInt64Type>(data_type),
        DataType::Decimal32(..) => Totals::new::<Decimal32Type>(data_type),
        DataType::Decimal64(..) => Totals::new::<Decimal64Type>(data_type),
        DataType::Decimal128(..) => Totals::new::<Decimal128Type>(data_type),
        DataType::Decimal256(..) => Totals::new::<Decimal256Type>(data_type),
        _ => return None,
    })
}
