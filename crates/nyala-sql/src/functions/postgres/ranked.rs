//! Values of a sorted list by their rank: aggregates WITHIN GROUP are written as these functions (`statement/ordered_sets.rs`).

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, IntervalMonthDayNanoArray, ListArray, UInt64Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{cast, partition, take};
use arrow::datatypes::{DataType, Field, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::ScalarUDF;

use crate::error::{ErrorKind, QueryError};
use crate::functions::intervals::{INTERVAL, Of, scaled};
use crate::functions::plain::{Call, Plain};

/// The functions, by name.
pub fn functions() -> [Arc<ScalarUDF>; 3] {
    let discrete = |types: &[DataType]| per_fraction(types, item(types));
    let continuous = |types: &[DataType]| {
        let of_intervals = matches!(item(types), DataType::Interval(_) | DataType::Duration(_));
        per_fraction(types, if of_intervals { INTERVAL } else { DataType::Float64 })
    };
    [
        Plain::udf("percentile_disc_of", |types| fractions(types, false), discrete, at_fractions),
        Plain::udf("percentile_cont_of", |types| fractions(types, true), continuous, between_values),
        Plain::udf("mode_of", |types| (types.len() == 1).then(|| types.to_vec()), item, most_frequent),
    ]
}

fn item(types: &[DataType]) -> DataType {
    match types.first() {
        Some(DataType::List(item)) => item.data_type().clone(),
        _ => DataType::Null,
    }
}

fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

/// One value, or a list of as many as there are fractions.
fn per_fraction(types: &[DataType], value: DataType) -> DataType {
    match types.get(1) {
        Some(DataType::List(_)) => list_of(value),
        _ => value,
    }
}

fn fractions(types: &[DataType], between: bool) -> Option<Vec<DataType>> {
    let [values @ DataType::List(item), fraction] = types else { return None };
    let item = item.data_type();
    let is_fit = match item {
        DataType::Interval(_) | DataType::Duration(_) | DataType::Null => true,
        other => !between || other.is_numeric(),
    };
    let fraction = match fraction {
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
            list_of(DataType::Float64)
        }
        number if number.is_numeric() || number.is_null() || number.is_string() => DataType::Float64,
        _ => return None,
    };
    is_fit.then(|| vec![values.clone(), fraction])
}

/// Where the values of a row begin, their number, and the fraction that the row asks for.
type Fraction = (usize, usize, f64);

/// The sorted values of each row, and the fractions it asks for.
struct Asked<'a> {
    values: &'a ListArray,
    /// The bounds in `fractions` of each row's fractions.
    bounds: Vec<(usize, usize)>,
    fractions: Float64Array,
    is_list: Option<NullBuffer>,
    lists: bool,
}

impl<'a> Asked<'a> {
    fn of(call: &Call<'a>) -> Result<Self> {
        let [values, fractions] = call.arrays else { return plan_err!("a percentile takes a fraction") };
        let values = values.as_list::<i32>();
        match fractions.as_list_opt::<i32>() {
            Some(lists) => {
                let offsets = lists.value_offsets().iter().map(|offset| *offset as usize);
                let bounds = offsets.clone().zip(offsets.skip(1)).collect();
                let fractions = cast(lists.values(), &DataType::Float64)?;
                let fractions = fractions.as_primitive::<Float64Type>().clone();
                Ok(Self { values, bounds, fractions, is_list: lists.nulls().cloned(), lists: true })
            }
            None => {
                let fractions = cast(fractions, &DataType::Float64)?.as_primitive::<Float64Type>().clone();
                let bounds = (0..fractions.len()).map(|row| (row, row + 1)).collect();
                Ok(Self { values, bounds, fractions, is_list: None, lists: false })
            }
        }
    }

    /// For each fraction: where the values of its row begin, their number, and the fraction.
    fn each(&self) -> Result<Vec<Option<Fraction>>, QueryError> {
        let offsets = self.values.value_offsets();
        let mut asked = Vec::with_capacity(self.fractions.len());
        for (row, (from, to)) in self.bounds.iter().enumerate() {
            let begin = offsets.get(row).copied().unwrap_or(0) as usize;
            let count = self.values.value_length(row) as usize;
            for at in *from..*to {
                let is_known = self.fractions.is_valid(at) && self.values.is_valid(row) && count > 0;
                let fraction = if is_known { Some(self.fractions.value(at)) } else { None };
                if let Some(fraction) = fraction.filter(|fraction| !(0.0..=1.0).contains(fraction)) {
                    let message = format!("percentile value {fraction} is not between 0 and 1");
                    return Err(QueryError::new(ErrorKind::OutOfRange, message));
                }
                asked.push(fraction.map(|fraction| (begin, count, fraction)));
            }
        }
        Ok(asked)
    }

    fn in_lists(&self, found: ArrayRef) -> ArrayRef {
        if !self.lists {
            return found;
        }
        let lengths = self.bounds.iter().map(|(from, to)| to - from);
        let item = Arc::new(Field::new_list_field(found.data_type().clone(), true));
        let nulls = NullBuffer::union(self.is_list.as_ref(), self.values.nulls());
        Arc::new(ListArray::new(item, OffsetBuffer::from_lengths(lengths), found, nulls))
    }
}

/// The first value at or behind a fraction of the list.
fn at_fractions(call: &Call<'_>) -> Result<ArrayRef> {
    let asked = Asked::of(call)?;
    let places = asked.each()?.into_iter().map(|asked| {
        let (begin, count, fraction) = asked?;
        let rank = (fraction * count as f64).ceil().max(1.0) as usize;
        u64::try_from(begin + rank.min(count) - 1).ok()
    });
    let found = take(asked.values.values(), &places.collect::<UInt64Array>(), None)?;
    Ok(asked.in_lists(found))
}

/// The value at a fraction of the way through the list, between two of its values.
fn between_values(call: &Call<'_>) -> Result<ArrayRef> {
    let asked = Asked::of(call)?;
    let each = asked.each()?;
    let (mut lower, mut upper, mut parts) = (Vec::new(), Vec::new(), Vec::new());
    for asked in &each {
        let place = asked.map(|(begin, count, fraction)| {
            let place = fraction * (count - 1) as f64;
            (begin + place.floor() as usize, begin + place.ceil() as usize, place.fract())
        });
        lower.push(place.map(|(lower, _, _)| lower as u64));
        upper.push(place.map(|(_, upper, _)| upper as u64));
        parts.push(place.map(|(_, _, part)| part));
    }
    let parts = Float64Array::from(parts);
    let of_intervals = matches!(asked.values.value_type(), DataType::Interval(_) | DataType::Duration(_));
    let values = cast(asked.values.values(), if of_intervals { &INTERVAL } else { &DataType::Float64 })?;
    let lower = take(&values, &UInt64Array::from(lower), None)?;
    let upper = take(&values, &UInt64Array::from(upper), None)?;
    let found: ArrayRef = match of_intervals {
        true => Arc::new(between_intervals(&lower, &upper, &parts)?),
        false => {
            let (lower, upper) = (lower.as_primitive::<Float64Type>(), upper.as_primitive::<Float64Type>());
            let pairs = lower.iter().zip(upper).zip(&parts);
            Arc::new(
                pairs
                    .map(|((lower, upper), part)| Some(lower? + (upper? - lower?) * part?))
                    .collect::<Float64Array>(),
            )
        }
    };
    Ok(asked.in_lists(found))
}

fn between_intervals(
    lower: &ArrayRef,
    upper: &ArrayRef,
    parts: &Float64Array,
) -> Result<IntervalMonthDayNanoArray> {
    let lower = lower.as_primitive::<IntervalMonthDayNanoType>();
    let upper = upper.as_primitive::<IntervalMonthDayNanoType>();
    let combined = |one: &IntervalMonthDayNanoArray, other: &IntervalMonthDayNanoArray, sign: i32| {
        let pairs = one.iter().zip(other);
        pairs
            .map(|(one, other)| {
                let (one, other) = (one?, other?);
                Some(IntervalMonthDayNano::new(
                    one.months.wrapping_add(sign * other.months),
                    one.days.wrapping_add(sign * other.days),
                    one.nanoseconds.wrapping_add(i64::from(sign) * other.nanoseconds),
                ))
            })
            .collect::<IntervalMonthDayNanoArray>()
    };
    let step = scaled(Of::Product, &combined(upper, lower, -1), parts)?;
    Ok(combined(lower, &step, 1))
}

/// The value that comes most often, of several the first.
fn most_frequent(call: &Call<'_>) -> Result<ArrayRef> {
    let Some(lists) = call.arrays.first().and_then(|lists| lists.as_list_opt::<i32>()) else {
        return plan_err!("`mode_of` takes a list");
    };
    let mut places = Vec::with_capacity(lists.len());
    for row in 0..lists.len() {
        let begin = lists.value_offsets().get(row).copied().unwrap_or(0) as u64;
        let values = lists.value(row);
        if lists.is_null(row) || values.is_empty() {
            places.push(None);
            continue;
        }
        let ranges = partition(&[values])?.ranges();
        let longest = ranges.iter().rev().max_by_key(|range| range.len());
        places.push(longest.map(|range| begin + range.start as u64));
    }
    Ok(take(lists.values(), &UInt64Array::from(places), None)?)
}
