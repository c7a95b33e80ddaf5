//! `age`, and timestamps made of their parts.

use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{Array, AsArray, IntervalMonthDayNanoArray, TimestampMicrosecondArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Float64Type, Int64Type, IntervalMonthDayNano, TimeUnit, TimestampMicrosecondType,
};
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, Timelike};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use crate::error::{ErrorKind, QueryError};
use crate::functions::call_rows::CallRows;
use crate::functions::intervals::INTERVAL;
use crate::functions::zones::{offset_of_clock, zone_named};

const CLOCK: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// `age(a, b)`: years, months, days and a time that lead from one time to another.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Age {
    signature: Signature,
}

impl Age {
    pub fn new() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Age {
    fn name(&self) -> &str {
        "age"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types.len() {
            2 => Ok(vec![CLOCK, CLOCK]),
            other => plan_err!("`age` takes two times, not {other}: write age(current_date, t) for one"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = CallRows::of(&arguments);
        let [one, other] = arguments.args.as_slice() else { return plan_err!("`age` takes two times") };
        let (one, other) = (one.to_array(rows.count())?, other.to_array(rows.count())?);
        let (one, other) = (
            one.as_primitive::<TimestampMicrosecondType>(),
            other.as_primitive::<TimestampMicrosecondType>(),
        );
        let ages: IntervalMonthDayNanoArray = one
            .iter()
            .zip(other)
            .map(|(one, other)| {
                let one = DateTime::from_timestamp_micros(one?)?.naive_utc();
                let other = DateTime::from_timestamp_micros(other?)?.naive_utc();
                Some(if one >= other { age(one, other) } else { negated(age(other, one)) })
            })
            .collect();
        rows.value(Arc::new(ages))
    }
}

fn negated(interval: IntervalMonthDayNano) -> IntervalMonthDayNano {
    IntervalMonthDayNano::new(-interval.months, -interval.days, -interval.nanoseconds)
}

/// The interval from the earlier to the later time. Days that are missing are borrowed from the earlier month.
fn age(later: NaiveDateTime, earlier: NaiveDateTime) -> IntervalMonthDayNano {
    let months = |time: &NaiveDateTime| time.year() * 12 + time.month0() as i32;
    let nanos = |time: &NaiveDateTime| {
        i64::from(time.num_seconds_from_midnight()) * 1_000_000_000 + i64::from(time.nanosecond())
    };
    let mut months_between = months(&later) - months(&earlier);
    let mut days = later.day() as i32 - earlier.day() as i32;
    let mut time = nanos(&later) - nanos(&earlier);
    if time < 0 {
        (time, days) = (time + 86_400_000_000_000, days - 1);
    }
    if days < 0 {
        days += days_of_month(earlier.year(), earlier.month());
        months_between -= 1;
    }
    IntervalMonthDayNano::new(months_between, days, time)
}

fn days_of_month(year: i32, month: u32) -> i32 {
    let (year, month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    NaiveDate::from_ymd_opt(year, month, 1)
        .and_then(|first| first.pred_opt())
        .map_or(30, |last| last.day() as i32)
}

/// `make_timestamp` and `make_timestamptz` of year, month, day, hour, minute and second.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct MakeTimestamp {
    has_zone: bool,
    signature: Signature,
}

impl MakeTimestamp {
    pub fn new(has_zone: bool) -> Self {
        Self { has_zone, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for MakeTimestamp {
    fn name(&self) -> &str {
        if self.has_zone { "make_timestamptz" } else { "make_timestamp" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let parts = std::iter::repeat_n(DataType::Int64, 5).chain([DataType::Float64]);
        match types.len() {
            6 => Ok(parts.collect()),
            7 if self.has_zone => Ok(parts.chain([DataType::Utf8View]).collect()),
            other => plan_err!(
                "`{}` takes year, month, day, hour, minute and second, not {other} values",
                self.name()
            ),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Timestamp(TimeUnit::Microsecond, self.has_zone.then(|| "UTC".into())))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = CallRows::of(&arguments);
        let arrays = rows.columns(&arguments.args)?;
        let session: Tz = arguments.config_options.execution.time_zone.as_deref().unwrap_or("UTC").parse()?;
        let [whole @ .., seconds] = arrays.get(..6).unwrap_or_default() else {
            return plan_err!("`{}` takes six values", self.name());
        };
        let zones = arrays.get(6).map(|zones| cast(zones, &DataType::Utf8View)).transpose()?;
        let seconds = seconds.as_primitive::<Float64Type>();
        let made = (0..rows.count()).map(|row| {
            let parts: Option<Vec<i64>> = whole
                .iter()
                .map(|part| part.is_valid(row).then(|| part.as_primitive::<Int64Type>().value(row)))
                .collect();
            let (Some(parts), true) = (parts, seconds.is_valid(row)) else { return Ok(None) };
            let clock = clock_of(&parts, seconds.value(row))?;
            let zone = match &zones {
                Some(zones) if zones.is_null(row) => return Ok(None),
                Some(zones) => zone_named(zones.as_string_view().value(row))?,
                None => session,
            };
            let offset = if self.has_zone { offset_of_clock(&zone, &clock) } else { 0 };
            Ok(Some(clock.and_utc().timestamp_micros() - i64::from(offset) * 1_000_000))
        });
        let made = made.collect::<Result<TimestampMicrosecondArray, QueryError>>()?;
        let made = if self.has_zone { made.with_timezone("UTC") } else { made };
        rows.value(Arc::new(made))
    }
}

fn clock_of(parts: &[i64], seconds: f64) -> Result<NaiveDateTime, QueryError> {
    let part = |at: usize| parts.get(at).copied().unwrap_or_default();
    let made = (|| {
        let year = i32::try_from(part(0)).ok().filter(|year| *year != 0)?;
        // There is no year 0: the year before 1 is -1.
        let year = if year < 0 { year + 1 } else { year };
        let date = NaiveDate::from_ymd_opt(year, u32::try_from(part(1)).ok()?, u32::try_from(part(2)).ok()?)?;
        let micros = (seconds * 1e6).round_ties_even();
        if !(0.0..=60e6).contains(&micros) || !(0..24).contains(&part(3)) || !(0..60).contains(&part(4)) {
            return None;
        }
        let micros = ((part(3) * 60 + part(4)) * 60) * 1_000_000 + micros as i64;
        date.and_hms_opt(0, 0, 0)?.checked_add_signed(chrono::TimeDelta::microseconds(micros))
    })();
    made.ok_or_else(|| QueryError::new(ErrorKind::InvalidTime, "date/time field value out of range"))
}
