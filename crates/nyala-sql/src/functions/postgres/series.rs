//! `generate_series` as a list, which SELECT lists and FROM take apart (`statement/set_functions.rs`).

use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Int32Array, Int64Array, ListArray, TimestampMicrosecondArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Field, IntervalMonthDayNano, IntervalMonthDayNanoType, TimeUnit,
    TimestampMicrosecondType,
};
use chrono::{DateTime, Days, Months, NaiveDateTime, Offset, TimeZone};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::ScalarUDF;

use crate::error::{ErrorKind, QueryError};
use crate::functions::intervals::{INTERVAL, order};
use crate::functions::plain::{Call, Plain, is_whole};
use crate::functions::zones::offset_of_clock;

/// Values of all rows of a batch, at most.
const MAX_VALUES: usize = 16 << 20;
const DAY: i64 = 86_400_000_000;

/// The functions, by name.
pub fn functions() -> [Arc<ScalarUDF>; 2] {
    [
        Plain::udf("generate_series", coerced, |types| list_of(item_of(types)), series),
        Plain::udf("generate_subscripts", of_list, |_| list_of(DataType::Int32), subscripts),
    ]
}

fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

/// A series of dates is one of moments, as in PostgreSQL.
fn item_of(types: &[DataType]) -> DataType {
    match types.first() {
        Some(DataType::Date32) => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        Some(first) => first.clone(),
        None => DataType::Null,
    }
}

fn coerced(types: &[DataType]) -> Option<Vec<DataType>> {
    let (ends, step) = match types {
        [_, _] => (types, None),
        [ends @ .., step] if types.len() == 3 => (ends, Some(step)),
        _ => return None,
    };
    if types.iter().all(is_whole) {
        let is_short =
            types.iter().all(|of| matches!(of, DataType::Int8 | DataType::Int16 | DataType::Int32));
        return Some(vec![if is_short { DataType::Int32 } else { DataType::Int64 }; types.len()]);
    }
    if types.iter().all(|of| is_whole(of) || of.is_decimal()) {
        let scale = |of: &DataType| match of {
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale)
            | DataType::Decimal256(_, scale) => *scale,
            _ => 0,
        };
        let scale = types.iter().map(scale).max().unwrap_or(0);
        return Some(vec![DataType::Decimal128(38, scale); types.len()]);
    }
    let is_step =
        matches!(step?, DataType::Interval(_) | DataType::Duration(_) | DataType::Null) || step?.is_string();
    let zone = ends.iter().find_map(|end| match end {
        DataType::Timestamp(_, zone) => Some(zone.clone()),
        _ => None,
    });
    let is_moment = |end: &DataType| {
        matches!(end, DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 | DataType::Null)
            || end.is_string()
    };
    if !is_step || !ends.iter().all(is_moment) {
        return None;
    }
    let with_zone = ends.iter().find(|end| matches!(end, DataType::Timestamp(_, Some(_))));
    let end = match (with_zone, zone) {
        (Some(DataType::Timestamp(_, zone)), _) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        (_, Some(_)) => DataType::Timestamp(TimeUnit::Microsecond, None),
        _ if ends.iter().any(|end| matches!(end, DataType::Date32 | DataType::Date64)) => DataType::Date32,
        _ => return None,
    };
    Some(vec![end.clone(), end, INTERVAL])
}

fn of_list(types: &[DataType]) -> Option<Vec<DataType>> {
    match types {
        [list @ DataType::List(_), dimension] if is_whole(dimension) => {
            Some(vec![list.clone(), DataType::Int64])
        }
        [list @ DataType::List(_), dimension, DataType::Boolean] if is_whole(dimension) => {
            Some(vec![list.clone(), DataType::Int64, DataType::Boolean])
        }
        _ => None,
    }
}

/// The values of all rows, one behind the other, and how many each row has.
struct Lists<T> {
    values: Vec<T>,
    lengths: Vec<usize>,
    is_valid: Vec<bool>,
}

impl<T> Lists<T> {
    fn new(rows: usize) -> Self {
        Self { values: Vec::new(), lengths: Vec::with_capacity(rows), is_valid: Vec::with_capacity(rows) }
    }

    fn append(&mut self, values: Option<impl Iterator<Item = T>>) -> Result<(), QueryError> {
        let before = self.values.len();
        self.is_valid.push(values.is_some());
        if let Some(values) = values {
            let room = MAX_VALUES - before;
            self.values.extend(values.take(room + 1));
            if self.values.len() > MAX_VALUES {
                let message =
                    format!("`generate_series` gives at most {MAX_VALUES} values for a batch of rows");
                return Err(QueryError::new(ErrorKind::LimitExceeded, message)
                    .hint("in FROM, `generate_series(from, to)` of constant whole numbers gives as many rows as you like"));
            }
        }
        self.lengths.push(self.values.len() - before);
        Ok(())
    }

    fn finish(self, make: impl FnOnce(Vec<T>) -> ArrayRef) -> ArrayRef {
        let values = make(self.values);
        let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        let nulls = NullBuffer::from(self.is_valid);
        Arc::new(ListArray::new(item, OffsetBuffer::from_lengths(self.lengths), values, Some(nulls)))
    }
}

fn step_is_zero() -> QueryError {
    QueryError::new(ErrorKind::InvalidParameter, "step size cannot equal zero")
}

fn series(call: &Call<'_>) -> Result<ArrayRef> {
    let (Some(from), Some(to)) = (call.arrays.first(), call.arrays.get(1)) else {
        return plan_err!("`generate_series` takes two ends");
    };
    match from.data_type() {
        DataType::Int32 => {
            let lists = whole_numbers(call)?;
            // All values are between two ends of 32 bits, and so fit 32 bits.
            Ok(lists.finish(|values| {
                Arc::new(values.into_iter().map(|value| i32::try_from(value).ok()).collect::<Int32Array>())
            }))
        }
        DataType::Int64 => {
            let lists = whole_numbers(call)?;
            Ok(lists.finish(|values| Arc::new(Int64Array::from(values))))
        }
        DataType::Decimal128(precision, scale) => {
            let of = |array: &ArrayRef| array.as_primitive::<Decimal128Type>().iter().collect::<Vec<_>>();
            let one = 10_i128.pow(u32::try_from(*scale).unwrap_or(0));
            let steps = call.arrays.get(2).map_or_else(|| vec![Some(one); from.len()], of);
            let lists = numbers(&of(from), &of(to), &steps, i128::checked_add)?;
            let (precision, scale) = (*precision, *scale);
            let made = lists.finish(|values| {
                let made = Decimal128Array::from(values).with_precision_and_scale(precision, scale);
                made.map_or_else(
                    |_| Arc::new(Decimal128Array::from(Vec::<i128>::new())) as ArrayRef,
                    |made| Arc::new(made),
                )
            });
            Ok(made)
        }
        _ => moments(call, from, to),
    }
}

fn whole_numbers(call: &Call<'_>) -> Result<Lists<i64>> {
    let (from, to, steps) = (call.integers(0, 0)?, call.integers(1, 0)?, call.integers(2, 1)?);
    Ok(numbers(&from, &to, &steps, i64::checked_add)?)
}

fn numbers<T: Copy + Default + PartialOrd>(
    from: &[Option<T>],
    to: &[Option<T>],
    steps: &[Option<T>],
    add: fn(T, T) -> Option<T>,
) -> Result<Lists<T>, QueryError> {
    let mut lists = Lists::new(from.len());
    for ((from, to), step) in from.iter().zip(to).zip(steps) {
        let (Some(from), Some(to), Some(step)) = (*from, *to, *step) else {
            lists.append(None::<std::iter::Empty<T>>)?;
            continue;
        };
        if step == T::default() {
            return Err(step_is_zero());
        }
        let is_within = move |value: &T| if step > T::default() { *value <= to } else { *value >= to };
        let values = std::iter::successors(Some(from), move |value| add(*value, step)).take_while(is_within);
        lists.append(Some(values))?;
    }
    Ok(lists)
}

/// A series of timestamps, or of moments: a step of days or months follows the session's clock.
fn moments(call: &Call<'_>, from: &ArrayRef, to: &ArrayRef) -> Result<ArrayRef> {
    let zone = call.config.execution.time_zone.as_deref().unwrap_or("UTC").parse::<Tz>()?;
    let shown = match item_of(&[from.data_type().clone()]) {
        DataType::Timestamp(_, zone) => zone,
        _ => None,
    };
    let clock = shown.is_some().then_some(&zone);
    let (from, to) = (micros_of(from, &zone)?, micros_of(to, &zone)?);
    let steps = match call.arrays.get(2) {
        Some(steps) => cast(steps, &INTERVAL)?,
        None => return plan_err!("`generate_series` of times takes a step"),
    };
    let steps = steps.as_primitive::<IntervalMonthDayNanoType>();
    let mut lists = Lists::new(from.len());
    for ((from, to), step) in from.iter().zip(&to).zip(steps) {
        let (Some(from), Some(to), Some(step)) = (*from, *to, step) else {
            lists.append(None::<std::iter::Empty<i64>>)?;
            continue;
        };
        // A step of less than a microsecond leads nowhere.
        let direction = (order(step) / 1000).signum();
        if direction == 0 {
            return Err(step_is_zero().into());
        }
        let is_within = move |micros: &i64| if direction > 0 { *micros <= to } else { *micros >= to };
        let values = std::iter::successors(Some(from), |micros| later(*micros, step, clock));
        lists.append(Some(values.take_while(is_within)))?;
    }
    Ok(lists.finish(|values| {
        let made = TimestampMicrosecondArray::from(values);
        Arc::new(match shown {
            Some(zone) => made.with_timezone(zone),
            None => made,
        })
    }))
}

/// Microseconds since 1970; of a date those of its midnight in the zone.
fn micros_of(ends: &ArrayRef, zone: &Tz) -> Result<Vec<Option<i64>>> {
    let Some(dates) = ends.as_primitive_opt::<Date32Type>() else {
        return Ok(ends.as_primitive::<TimestampMicrosecondType>().iter().collect());
    };
    let midnight = |days: i32| {
        let micros = i64::from(days) * DAY;
        let clock = DateTime::from_timestamp_micros(micros)?.naive_utc();
        Some(micros - i64::from(offset_of_clock(zone, &clock)) * 1_000_000)
    };
    Ok(dates.iter().map(|days| days.and_then(midnight)).collect())
}

/// A time and an interval; none behind the last time.
fn later(micros: i64, step: IntervalMonthDayNano, zone: Option<&Tz>) -> Option<i64> {
    let mut micros = micros;
    if step.months != 0 || step.days != 0 {
        let moment = DateTime::from_timestamp_micros(micros)?.naive_utc();
        let offset = zone.map_or(0, |zone| zone.offset_from_utc_datetime(&moment).fix().local_minus_utc());
        let clock = DateTime::from_timestamp_micros(micros + i64::from(offset) * 1_000_000)?.naive_utc();
        let moved = moved(clock, step)?;
        let offset = zone.map_or(0, |zone| offset_of_clock(zone, &moved));
        micros = moved.and_utc().timestamp_micros() - i64::from(offset) * 1_000_000;
    }
    micros.checked_add(step.nanoseconds / 1000)
}

fn moved(clock: NaiveDateTime, step: IntervalMonthDayNano) -> Option<NaiveDateTime> {
    let months = Months::new(step.months.unsigned_abs());
    let clock = match step.months < 0 {
        true => clock.checked_sub_months(months)?,
        false => clock.checked_add_months(months)?,
    };
    let days = Days::new(u64::from(step.days.unsigned_abs()));
    match step.days < 0 {
        true => clock.checked_sub_days(days),
        false => clock.checked_add_days(days),
    }
}

/// The places of the elements of a list.
fn subscripts(call: &Call<'_>) -> Result<ArrayRef> {
    let Some(arrays) = call.arrays.first().and_then(|lists| lists.as_list_opt::<i32>()) else {
        return plan_err!("`generate_subscripts` takes an array");
    };
    let dimensions = call.integers(1, 1)?;
    let mut lists = Lists::new(arrays.len());
    for (row, dimension) in dimensions.iter().enumerate() {
        let is_first = arrays.is_valid(row) && *dimension == Some(1);
        let is_turned = call.arrays.get(2).is_some_and(|turned| turned.as_boolean().value(row));
        let count = arrays.value_length(row);
        let at = move |place: i32| if is_turned { count - place } else { place + 1 };
        lists.append(is_first.then(|| (0..count).map(at)))?;
    }
    Ok(lists.finish(|values| Arc::new(Int32Array::from(values))))
}
