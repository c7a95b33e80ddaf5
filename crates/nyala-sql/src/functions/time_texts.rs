//! Timestamps and intervals as PostgreSQL writes them.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, TimeUnit, TimestampMicrosecondType,
};
use chrono::{DateTime, Datelike, NaiveDateTime, Offset, TimeZone, Timelike};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::call_rows::CallRows;
use super::intervals::INTERVAL;

/// `CAST(t AS TEXT)` of a timestamp or an interval.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct TimeText {
    signature: Signature,
}

impl TimeText {
    /// The function, to be called.
    pub fn udf() -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::from(Self { signature: Signature::any(1, Volatility::Immutable) }))
    }
}

impl ScalarUDFImpl for TimeText {
    fn name(&self) -> &str {
        "time_text"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [times] = arguments.args.as_slice() else {
            return plan_err!("a cast has one operand, not {}", arguments.args.len());
        };
        let rows = CallRows::of(&arguments);
        rows.value(texts(&times.to_array(rows.count())?)?)
    }
}

/// Texts of timestamps or intervals.
pub fn texts(times: &ArrayRef) -> Result<ArrayRef> {
    let mut builder = StringViewBuilder::with_capacity(times.len());
    let mut text = String::new();
    match times.data_type() {
        DataType::Timestamp(_, zone) => {
            let tz = zone.as_deref().map(str::parse::<Tz>).transpose()?;
            let micros = cast(times, &DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))?;
            for micros in micros.as_primitive::<TimestampMicrosecondType>() {
                text.clear();
                match micros {
                    Some(micros) => {
                        write_timestamp(&mut text, micros, tz.as_ref());
                        builder.append_value(&text);
                    }
                    None => builder.append_null(),
                }
            }
        }
        DataType::Interval(_) | DataType::Duration(_) => {
            let intervals = cast(times, &INTERVAL)?;
            for interval in intervals.as_primitive::<IntervalMonthDayNanoType>() {
                text.clear();
                match interval {
                    Some(interval) => {
                        write_interval(&mut text, interval);
                        builder.append_value(&text);
                    }
                    None => builder.append_null(),
                }
            }
        }
        other => return plan_err!("{other} is no timestamp and no interval"),
    }
    Ok(Arc::new(builder.finish()))
}

fn write_timestamp(text: &mut String, micros: i64, zone: Option<&Tz>) {
    let Some(moment) = DateTime::from_timestamp_micros(micros) else {
        text.push_str(if micros > 0 { "infinity" } else { "-infinity" });
        return;
    };
    match zone {
        None => {
            let is_before_christ = write_clock(text, &moment.naive_utc());
            end(text, is_before_christ);
        }
        Some(zone) => {
            let local = zone.from_utc_datetime(&moment.naive_utc());
            let is_before_christ = write_clock(text, &local.naive_local());
            let offset = local.offset().fix().local_minus_utc();
            let (sign, seconds) = (if offset < 0 { '-' } else { '+' }, offset.unsigned_abs());
            let _ = write!(text, "{sign}{:02}", seconds / 3600);
            if seconds % 3600 != 0 {
                let _ = write!(text, ":{:02}", seconds % 3600 / 60);
            }
            if seconds % 60 != 0 {
                let _ = write!(text, ":{:02}", seconds % 60);
            }
            end(text, is_before_christ);
        }
    }
}

fn end(text: &mut String, is_before_christ: bool) {
    if is_before_christ {
        text.push_str(" BC");
    }
}

/// Writes date and time of day; whether the year is before Christ.
fn write_clock(text: &mut String, clock: &NaiveDateTime) -> bool {
    let is_before_christ = clock.year() <= 0;
    let year = if is_before_christ { 1 - clock.year() } else { clock.year() };
    let _ = write!(text, "{year:04}-{:02}-{:02} ", clock.month(), clock.day());
    let _ = write!(text, "{:02}:{:02}:{:02}", clock.hour(), clock.minute(), clock.second());
    write_fraction(text, u64::from(clock.nanosecond() / 1000));
    is_before_christ
}

/// Writes microseconds without zeros at the end.
fn write_fraction(text: &mut String, micros: u64) {
    if micros > 0 {
        let digits = format!("{micros:06}");
        let _ = write!(text, ".{}", digits.trim_end_matches('0'));
    }
}

fn write_interval(text: &mut String, interval: IntervalMonthDayNano) {
    let IntervalMonthDayNano { months, days, nanoseconds } = interval;
    let mut is_after_negative = false;
    let mut part = |text: &mut String, count: i32, unit: &str| {
        if count == 0 {
            return;
        }
        let space = if text.is_empty() { "" } else { " " };
        let sign = if is_after_negative && count > 0 { "+" } else { "" };
        let plural = if count == 1 { "" } else { "s" };
        let _ = write!(text, "{space}{sign}{count} {unit}{plural}");
        is_after_negative = count < 0;
    };
    part(text, months / 12, "year");
    part(text, months % 12, "mon");
    part(text, days, "day");
    let micros = nanoseconds / 1000;
    if micros == 0 && !text.is_empty() {
        return;
    }
    let space = if text.is_empty() { "" } else { " " };
    let sign = match micros {
        ..0 => "-",
        _ if is_after_negative => "+",
        _ => "",
    };
    let micros = micros.unsigned_abs();
    let seconds = micros / 1_000_000;
    let _ = write!(text, "{space}{sign}{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    write_fraction(text, micros % 1_000_000);
}
