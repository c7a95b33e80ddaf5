//! Intervals: their order, products with numbers, and days and months made of hours and days.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Decimal128Array, Float64Array, IntervalMonthDayNanoArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit};
use arrow::error::ArrowError;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

use super::call_rows::CallRows;
use crate::error::{ErrorKind, QueryError};

/// The type that intervals are computed in.
pub const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

const HOUR: i64 = 3_600_000_000_000;
/// Nanoseconds of a day, as intervals are compared.
const DAY: i64 = 24 * HOUR;
/// Days of a month, as intervals are compared.
const MONTH: i32 = 30;

/// The computation of a function of intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Of {
    /// A number by which intervals are ordered: months have 30 days, and days 24 hours.
    Order,
    /// The product with a number.
    Product,
    /// The quotient by a number.
    Quotient,
    /// Hours become days.
    JustifyHours,
    /// Days become months.
    JustifyDays,
    /// Hours become days and days become months, and all parts get one sign.
    Justify,
}

/// A function of intervals.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Intervals {
    of: Of,
    signature: Signature,
}

impl Intervals {
    /// The function, to be called.
    pub fn udf(of: Of) -> Arc<ScalarUDF> {
        let signature = match of {
            Of::Product | Of::Quotient => TypeSignature::Exact(vec![INTERVAL, DataType::Float64]),
            _ => TypeSignature::Exact(vec![INTERVAL]),
        };
        let signature = Signature::new(signature, Volatility::Immutable);
        Arc::new(ScalarUDF::from(Self { of, signature }))
    }

    /// The functions that a statement calls by name.
    pub fn named() -> [Arc<ScalarUDF>; 3] {
        [Of::JustifyHours, Of::JustifyDays, Of::Justify].map(Self::udf)
    }
}

impl ScalarUDFImpl for Intervals {
    fn name(&self) -> &str {
        match self.of {
            Of::Order => "interval_order",
            Of::Product => "interval_mul",
            Of::Quotient => "interval_div",
            Of::JustifyHours => "justify_hours",
            Of::JustifyDays => "justify_days",
            Of::Justify => "justify_interval",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.of {
            Of::Order => DataType::Decimal128(38, 0),
            _ => INTERVAL,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = CallRows::of(&arguments);
        rows.value(compute(self.of, &rows.columns(&arguments.args)?)?)
    }
}

fn compute(of: Of, arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let Some(intervals) = arrays.first() else { return plan_err!("there is no interval") };
    let intervals = cast(intervals, &INTERVAL)?;
    let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
    Ok(match (of, arrays.get(1)) {
        (Of::Order, _) => {
            let orders = intervals.iter().map(|interval| interval.map(order));
            Arc::new(orders.collect::<Decimal128Array>().with_precision_and_scale(38, 0)?)
        }
        (Of::Product | Of::Quotient, Some(numbers)) => {
            let numbers = cast(numbers, &DataType::Float64)?;
            Arc::new(scaled(of, intervals, numbers.as_primitive::<Float64Type>())?)
        }
        (Of::Product | Of::Quotient, None) => return plan_err!("there is no number"),
        _ => {
            let justified =
                intervals.iter().map(|interval| interval.map(|interval| justify(of, interval)).transpose());
            Arc::new(justified.collect::<Result<IntervalMonthDayNanoArray, ArrowError>>()?)
        }
    })
}

/// Nanoseconds of an interval as it is compared.
pub fn order(interval: IntervalMonthDayNano) -> i128 {
    let days = i64::from(interval.months) * i64::from(MONTH) + i64::from(interval.days);
    i128::from(days) * i128::from(DAY) + i128::from(interval.nanoseconds)
}

fn out_of_range() -> ArrowError {
    let error = QueryError::new(ErrorKind::OutOfRange, "an interval is out of range");
    ArrowError::ExternalError(Box::new(error))
}

pub fn scaled(
    of: Of,
    intervals: &IntervalMonthDayNanoArray,
    numbers: &Float64Array,
) -> Result<IntervalMonthDayNanoArray> {
    let scaled = intervals.iter().zip(numbers).map(|pair| match pair {
        (Some(_), Some(number)) if of == Of::Quotient && number == 0.0 => Err(ArrowError::DivideByZero),
        (Some(interval), Some(number)) => {
            let divisor = if of == Of::Quotient { number } else { 1.0 };
            let factor = if of == Of::Quotient { 1.0 } else { number };
            scale(interval, factor, divisor).map(Some)
        }
        _ => Ok(None),
    });
    Ok(scaled.collect::<Result<_, ArrowError>>()?)
}

/// The parts of a month go to days, and those of a day to hours.
fn scale(
    interval: IntervalMonthDayNano,
    factor: f64,
    divisor: f64,
) -> Result<IntervalMonthDayNano, ArrowError> {
    let by = |value: f64| value * factor / divisor;
    let months = by(f64::from(interval.months));
    let days = by(f64::from(interval.days));
    let rest_of_months = micro_rounded((months - months.trunc()) * f64::from(MONTH));
    let mut rest_of_days = micro_rounded(days - days.trunc() + (rest_of_months - rest_of_months.trunc()));
    let mut more_days = rest_of_months.trunc();
    // Parts of two days may make one.
    if rest_of_days.abs() >= 1.0 {
        more_days += rest_of_days.trunc();
        rest_of_days -= rest_of_days.trunc();
    }
    let micros = by(interval.nanoseconds as f64 / 1000.0) + rest_of_days * DAY as f64 / 1000.0;
    let months = whole(months.trunc(), f64::from(i32::MAX))?;
    let days = whole(days.trunc() + more_days, f64::from(i32::MAX))?;
    let micros = whole(micros.round_ties_even(), i64::MAX as f64 / 1000.0)?;
    Ok(IntervalMonthDayNano::new(months as i32, days as i32, micros.saturating_mul(1000)))
}

fn micro_rounded(value: f64) -> f64 {
    (value * 1e6).round_ties_even() / 1e6
}

fn whole(value: f64, most: f64) -> Result<i64, ArrowError> {
    match value.is_finite() && value.abs() <= most {
        true => Ok(value as i64),
        false => Err(out_of_range()),
    }
}

fn justify(of: Of, interval: IntervalMonthDayNano) -> Result<IntervalMonthDayNano, ArrowError> {
    let IntervalMonthDayNano { mut months, mut days, mut nanoseconds } = interval;
    if matches!(of, Of::JustifyHours | Of::Justify) {
        let more = i32::try_from(nanoseconds / DAY).map_err(|_| out_of_range())?;
        (days, nanoseconds) = (days.checked_add(more).ok_or_else(out_of_range)?, nanoseconds % DAY);
        if of == Of::JustifyHours {
            if days > 0 && nanoseconds < 0 {
                (days, nanoseconds) = (days - 1, nanoseconds + DAY);
            } else if days < 0 && nanoseconds > 0 {
                (days, nanoseconds) = (days + 1, nanoseconds - DAY);
            }
            return Ok(IntervalMonthDayNano::new(months, days, nanoseconds));
        }
    }
    months = months.checked_add(days / MONTH).ok_or_else(out_of_range)?;
    days %= MONTH;
    let is_positive = |days: i32, nanoseconds: i64| days > 0 || (days == 0 && nanoseconds > 0);
    if months > 0 && (days < 0 || (days == 0 && nanoseconds < 0)) {
        (months, days) = (months - 1, days + MONTH);
    } else if months < 0 && is_positive(days, if of == Of::Justify { nanoseconds } else { 0 }) {
        (months, days) = (months + 1, days - MONTH);
    }
    if of == Of::Justify {
        if days > 0 && nanoseconds < 0 {
            (days, nanoseconds) = (days - 1, nanoseconds + DAY);
        } else if days < 0 && nanoseconds > 0 {
            (days, nanoseconds) = (days + 1, nanoseconds - DAY);
        }
    }
    Ok(IntervalMonthDayNano::new(months, days, nanoseconds))
}
