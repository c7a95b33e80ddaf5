//! Floating-point results that are too large, too small, or not defined are errors, as in PostgreSQL.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float32Type, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Operator};

use crate::error::{ErrorKind, QueryError};

/// An error if an operator made an infinity of finite numbers, or zero of others, or divided by zero.
pub fn check_floats(
    left: &ColumnarValue,
    op: Operator,
    right: &ColumnarValue,
    computed: &ColumnarValue,
) -> Result<()> {
    match computed.data_type() {
        DataType::Float32 => check::<Float32Type>(left, op, right, computed),
        DataType::Float64 => check::<Float64Type>(left, op, right, computed),
        _ => Ok(()),
    }
}

fn check<T: ArrowPrimitiveType>(
    left: &ColumnarValue,
    op: Operator,
    right: &ColumnarValue,
    computed: &ColumnarValue,
) -> Result<()>
where
    T::Native: Into<f64>,
{
    let rows = match computed {
        ColumnarValue::Array(array) => array.len(),
        ColumnarValue::Scalar(_) => 1,
    };
    let computed = computed.to_array(rows)?;
    let may_vanish = matches!(op, Operator::Multiply | Operator::Divide);
    let is_odd = |value: f64| value.is_infinite() || value.is_nan() || (may_vanish && value == 0.0);
    // A batch without unusual results ends after this one pass.
    if !computed.as_primitive::<T>().values().iter().any(|value| is_odd((*value).into())) {
        return Ok(());
    }
    let of = |side: &ColumnarValue| -> Result<ArrayRef> {
        let array = side.to_array(rows)?;
        Ok(if *array.data_type() == T::DATA_TYPE { array } else { cast(&array, &T::DATA_TYPE)? })
    };
    let (left, right) = (of(left)?, of(right)?);
    let (left, right) = (left.as_primitive::<T>(), right.as_primitive::<T>());
    for ((left, right), value) in left.iter().zip(right).zip(computed.as_primitive::<T>()) {
        let (Some(left), Some(right), Some(value)) = (left, right, value) else { continue };
        let (left, right, value): (f64, f64, f64) = (left.into(), right.into(), value.into());
        if op == Operator::Divide && right == 0.0 && !left.is_nan() {
            return Err(QueryError::new(ErrorKind::DivisionByZero, "division by zero").into());
        }
        if value.is_infinite() && !left.is_infinite() && !right.is_infinite() {
            return Err(out_of_range("overflow"));
        }
        let is_small = value == 0.0 && left != 0.0;
        let from_product = op == Operator::Multiply && right != 0.0;
        let from_quotient = op == Operator::Divide && !right.is_infinite();
        if is_small && (from_product || from_quotient) {
            return Err(out_of_range("underflow"));
        }
    }
    Ok(())
}

fn out_of_range(how: &str) -> datafusion::common::DataFusionError {
    QueryError::new(ErrorKind::OutOfRange, format!("value out of range: {how}"))
        .hint("compute with NUMERIC, or leave such rows out")
        .into()
}

/// An error if a function of numbers is not defined for its arguments, or its result is too large or too small.
pub fn check_function(
    name: &str,
    arguments: &[ColumnarValue],
    computed: &ColumnarValue,
    rows: usize,
) -> Result<()> {
    let is_scalar = matches!(computed, ColumnarValue::Scalar(_));
    let rows = if is_scalar { 1 } else { rows };
    let mut numbers = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let array = argument.to_array(rows)?;
        if !array.data_type().is_numeric() {
            return Ok(());
        }
        numbers.push(cast(&array, &DataType::Float64)?);
    }
    let results = computed.to_array(rows)?;
    let results =
        if results.data_type().is_floating() { Some(cast(&results, &DataType::Float64)?) } else { None };
    for row in 0..rows {
        if numbers.iter().any(|array| array.is_null(row)) {
            continue;
        }
        let values: Vec<f64> =
            numbers.iter().map(|array| array.as_primitive::<Float64Type>().value(row)).collect();
        domain(name, &values)?;
        let result = results.as_ref().filter(|results| results.is_valid(row));
        let Some(result) = result.map(|results| results.as_primitive::<Float64Type>().value(row)) else {
            continue;
        };
        let is_finite = values.iter().all(|value| value.is_finite());
        if is_finite && result.is_infinite() && name != "atanh" {
            return Err(out_of_range("overflow"));
        }
        let can_vanish =
            name == "exp" || (name == "power" && values.first().is_some_and(|base| *base != 0.0));
        if is_finite && can_vanish && result == 0.0 {
            return Err(out_of_range("underflow"));
        }
    }
    Ok(())
}

/// An error if a function is not defined for these values.
fn domain(name: &str, values: &[f64]) -> Result<(), QueryError> {
    let refused = |message: &str, code: &'static str| {
        Err(QueryError::new(ErrorKind::OutOfRange, message).sqlstate(code))
    };
    match (name, values) {
        ("ln" | "log" | "log10" | "log2", values) if values.contains(&0.0) => {
            refused("cannot take logarithm of zero", "2201E")
        }
        ("ln" | "log" | "log10" | "log2", values) if values.iter().any(|value| *value < 0.0) => {
            refused("cannot take logarithm of a negative number", "2201E")
        }
        ("sqrt", [value]) if *value < 0.0 => refused("cannot take square root of a negative number", "2201F"),
        ("asin" | "acos" | "atanh", [value]) if value.abs() > 1.0 => {
            refused("input is out of range", "22003")
        }
        ("acosh", [value]) if *value < 1.0 => refused("input is out of range", "22003"),
        ("power", [base, exponent]) if *base == 0.0 && *exponent < 0.0 => {
            refused("zero raised to a negative power is undefined", "2201F")
        }
        ("power", [base, exponent])
            if *base < 0.0 && base.is_finite() && exponent.fract() != 0.0 && exponent.is_finite() =>
        {
            refused("a negative number raised to a non-integer power yields a complex result", "2201F")
        }
        _ => Ok(()),
    }
}
