//! Functions that make much of little: a few words would fill the memory outside of what is counted.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::compute::kernels::length::length;
use arrow::datatypes::{
    DataType, FieldRef, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
    UInt64Type,
};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use crate::error::{ErrorKind, QueryError};

/// Elements of lists, and bytes of texts, that a function gives for one batch of rows at most.
const MOST_ELEMENTS: i128 = 10_000_000;
const MOST_BYTES: i128 = 256 << 20;

const NANOS_OF_DAY: i128 = 86_400_000_000_000;

/// The functions of `known` that need a bound, with it.
pub(super) fn bounded(known: &[Arc<ScalarUDF>]) -> Vec<Arc<ScalarUDF>> {
    let bounded = known.iter().filter_map(|function| {
        let size = Size::of(function.name())?;
        Some(Arc::new(ScalarUDF::from(Bounded { function: Arc::clone(function), size })))
    });
    bounded.collect()
}

/// What tells how much a function gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Size {
    /// From, to and step.
    Series,
    /// The second argument is the number of elements.
    Elements,
    /// The second argument is the length of a text.
    Length,
    /// The second argument is how often the first one comes.
    Repeats,
}

impl Size {
    fn of(name: &str) -> Option<Self> {
        match name {
            "generate_series" | "range" => Some(Self::Series),
            "array_repeat" => Some(Self::Elements),
            "lpad" | "rpad" => Some(Self::Length),
            "repeat" => Some(Self::Repeats),
            _ => None,
        }
    }

    /// How much comes of these rows, and how much may.
    fn measure(self, arguments: &[ArrayRef]) -> Result<(i128, i128)> {
        // What is NULL gives nothing.
        let sum = |numbers: Vec<Option<i128>>| numbers.into_iter().flatten().map(|n| n.max(0)).sum::<i128>();
        let second = || arguments.get(1).map_or_else(|| Ok(Vec::new()), numbers);
        Ok(match self {
            Self::Series => (sum(series(arguments)?), MOST_ELEMENTS),
            Self::Elements => (sum(second()?), MOST_ELEMENTS),
            Self::Length => (sum(second()?), MOST_BYTES),
            Self::Repeats => {
                let lengths = match arguments.first() {
                    Some(texts) => numbers(&length(texts.as_ref())?)?,
                    None => Vec::new(),
                };
                let both = lengths.into_iter().zip(second()?);
                (sum(both.map(|(bytes, times)| Some(bytes? * times?.max(0))).collect()), MOST_BYTES)
            }
        })
    }
}

/// Elements of each row's series.
fn series(arguments: &[ArrayRef]) -> Result<Vec<Option<i128>>> {
    let points = arguments.iter().map(numbers).collect::<Result<Vec<_>>>()?;
    let count = |from: Option<i128>, to: Option<i128>, step: Option<i128>| match step? {
        // It is refused, or empty.
        0 => None,
        step => Some((to? - from?) / step + 1),
    };
    Ok(match points.as_slice() {
        [to] => to.clone(),
        [from, to] => from.iter().zip(to).map(|(from, to)| count(*from, *to, Some(1))).collect(),
        [from, to, steps] => {
            let ends = from.iter().zip(to).zip(steps);
            ends.map(|((from, to), step)| count(*from, *to, *step)).collect()
        }
        _ => Vec::new(),
    })
}

/// The values as numbers, moments and intervals as nanoseconds; none for NULL and for what is neither.
fn numbers(array: &ArrayRef) -> Result<Vec<Option<i128>>> {
    let nanos = match array.data_type() {
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let steps = array.as_primitive::<IntervalMonthDayNanoType>().iter();
            // Months are at least so long.
            let nanos = |step: IntervalMonthDayNano| {
                let days = i128::from(step.months) * 28 + i128::from(step.days);
                days * NANOS_OF_DAY + i128::from(step.nanoseconds)
            };
            return Ok(steps.map(|step| step.map(nanos)).collect());
        }
        DataType::UInt64 => {
            let numbers = array.as_primitive::<UInt64Type>().iter();
            return Ok(numbers.map(|number| number.map(i128::from)).collect());
        }
        DataType::Date32 => NANOS_OF_DAY,
        DataType::Date64 | DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
        DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1000,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => 1,
        data_type if data_type.is_integer() => 1,
        _ => return Ok(vec![None; array.len()]),
    };
    // What a date or a moment is in, not what it would be in another unit: that might not fit.
    let array = match array.data_type() {
        DataType::Date32 => cast(array, &DataType::Int32)?,
        _ => Arc::clone(array),
    };
    let array = cast(&array, &DataType::Int64)?;
    let numbers = array.as_primitive::<Int64Type>().iter();
    Ok(numbers.map(|number| Some(i128::from(number?) * nanos)).collect())
}

/// A function that refuses to give too much.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    function: Arc<ScalarUDF>,
    size: Size,
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.function.return_type(types)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.function.return_field_from_args(arguments)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.function.coerce_types(types)
    }

    fn is_strict(&self) -> bool {
        self.function.inner().is_strict()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.documentation()
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (size, most) = self.size.measure(&ColumnarValue::values_to_arrays(&arguments.args)?)?;
        if size > most {
            let what = if most == MOST_BYTES { "bytes" } else { "elements" };
            let (name, rows) = (self.name(), arguments.number_rows);
            let message =
                format!("`{name}` would give {size} {what} for {rows} rows, and gives at most {most}");
            return Err(QueryError::new(ErrorKind::LimitExceeded, message)
                .hint("ask for less; in FROM, `generate_series(from, to)` gives as many rows as you like")
                .into());
        }
        self.function.invoke_with_args(arguments)
    }
}
