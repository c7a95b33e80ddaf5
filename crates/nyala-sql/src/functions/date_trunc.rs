//! `date_trunc` of times that 64 bits of nanoseconds do not reach.

use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{AsArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use chrono::{DateTime, Datelike, Days, NaiveDate, NaiveDateTime, Offset, TimeZone, Timelike};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use super::call_rows::CallRows;

/// Microseconds that 64 bits reach as nanoseconds, with some room for time zones.
const NEAR: std::ops::Range<i64> = -9_200_000_000_000_000..9_200_000_000_000_000;

/// DataFusion's function, which is called for the times and units that it knows.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct DateTrunc(Arc<ScalarUDF>);

impl DateTrunc {
    /// Replaces `date_trunc` among the functions of `known`.
    pub fn over(known: &[Arc<ScalarUDF>]) -> Option<Arc<ScalarUDF>> {
        let inner = known.iter().find(|function| function.name() == "date_trunc")?;
        Some(Arc::new(ScalarUDF::from(Self(Arc::clone(inner)))))
    }
}

impl ScalarUDFImpl for DateTrunc {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.inner().return_type(types)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<arrow::datatypes::FieldRef> {
        self.0.inner().return_field_from_args(arguments)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = CallRows::of(&arguments);
        let (Some(ColumnarValue::Scalar(unit)), Some(times)) =
            (arguments.args.first(), arguments.args.get(1))
        else {
            return self.0.invoke_with_args(arguments);
        };
        let DataType::Timestamp(TimeUnit::Microsecond, zone) = times.data_type() else {
            return self.0.invoke_with_args(arguments);
        };
        let array = times.to_array(rows.count())?;
        let micros = array.as_primitive::<TimestampMicrosecondType>();
        let Some(unit) = unit.try_as_str().flatten().map(unit_named) else {
            return self.0.invoke_with_args(arguments);
        };
        if OF_DATAFUSION.contains(&unit.as_str())
            && micros.iter().flatten().all(|micros| NEAR.contains(&micros))
        {
            let name = ColumnarValue::Scalar(ScalarValue::Utf8(Some(unit)));
            let args = std::iter::once(name).chain(arguments.args.iter().skip(1).cloned()).collect();
            return self.0.invoke_with_args(ScalarFunctionArgs { args, ..arguments });
        }
        let zone =
            zone.map(|zone| Ok::<_, arrow::error::ArrowError>((zone.parse::<Tz>()?, zone))).transpose()?;
        let truncated = micros.iter().map(|micros| match micros {
            Some(micros) => truncated(&unit, micros, zone.as_ref().map(|(zone, _)| zone)).map(Some),
            None => Ok(None),
        });
        let mut truncated = truncated.collect::<Result<TimestampMicrosecondArray>>()?;
        if let Some((_, name)) = zone {
            truncated = truncated.with_timezone(name);
        }
        rows.value(Arc::new(truncated))
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.0.inner().output_ordering(inputs)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }
}

/// Units that DataFusion knows.
const OF_DATAFUSION: &[&str] =
    &["microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year"];

/// The name of a unit as DataFusion writes it.
fn unit_named(name: &str) -> String {
    match name.to_ascii_lowercase().as_str() {
        "microseconds" | "usec" | "usecs" | "us" | "usecond" | "useconds" => "microsecond",
        "milliseconds" | "msec" | "msecs" | "ms" | "msecond" | "mseconds" => "millisecond",
        "seconds" | "sec" | "secs" | "s" => "second",
        "minutes" | "min" | "mins" | "m" => "minute",
        "hours" | "hr" | "hrs" | "h" => "hour",
        "days" | "d" => "day",
        "weeks" | "w" => "week",
        "months" | "mon" | "mons" => "month",
        "qtr" => "quarter",
        "years" | "yr" | "yrs" | "y" => "year",
        "decades" | "dec" | "decs" => "decade",
        "centuries" | "cent" | "c" => "century",
        "millennia" | "mil" | "mils" => "millennium",
        other => return other.to_owned(),
    }
    .to_owned()
}

fn truncated(unit: &str, micros: i64, zone: Option<&Tz>) -> Result<i64> {
    let Some(moment) = DateTime::from_timestamp_micros(micros) else { return Ok(micros) };
    let offset = |utc: &NaiveDateTime| {
        zone.map_or(0, |zone| zone.offset_from_utc_datetime(utc).fix().local_minus_utc())
    };
    let ahead = i64::from(offset(&moment.naive_utc())) * 1_000_000;
    let Some(clock) = DateTime::from_timestamp_micros(micros.saturating_add(ahead)) else {
        return Ok(micros);
    };
    let Some(start) = start_of(unit, clock.naive_utc()) else {
        return plan_err!("unsupported date_trunc granularity: '{unit}'");
    };
    let start = start.and_utc().timestamp_micros();
    Ok(start - ahead)
}

fn start_of(unit: &str, clock: NaiveDateTime) -> Option<NaiveDateTime> {
    let date = clock.date();
    let first = |year: i32, month: u32| NaiveDate::from_ymd_opt(year, month, 1);
    let date = match unit {
        "millennium" => first((date.year() - 1).div_euclid(1000) * 1000 + 1, 1)?,
        "century" => first((date.year() - 1).div_euclid(100) * 100 + 1, 1)?,
        "decade" => first(date.year().div_euclid(10) * 10, 1)?,
        "year" => first(date.year(), 1)?,
        "quarter" => first(date.year(), date.month0() / 3 * 3 + 1)?,
        "month" => first(date.year(), date.month())?,
        "week" => date.checked_sub_days(Days::new(u64::from(date.weekday().num_days_from_monday())))?,
        _ => date,
    };
    let micros = clock.nanosecond() / 1000;
    let (hour, minute, second, micro) = match unit {
        "microsecond" | "microseconds" => (clock.hour(), clock.minute(), clock.second(), micros),
        "millisecond" | "milliseconds" => {
            (clock.hour(), clock.minute(), clock.second(), micros / 1000 * 1000)
        }
        "second" => (clock.hour(), clock.minute(), clock.second(), 0),
        "minute" => (clock.hour(), clock.minute(), 0, 0),
        "hour" => (clock.hour(), 0, 0, 0),
        "millennium" | "century" | "decade" | "year" | "quarter" | "month" | "week" | "day" => (0, 0, 0, 0),
        _ => return None,
    };
    date.and_hms_micro_opt(hour, minute, second, micro)
}
