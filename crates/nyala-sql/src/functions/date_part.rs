//! `extract` and `date_part` with fractions, and the parts that DataFusion does not know.

use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Int32Array};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Field, FieldRef, IntervalMonthDayNanoType, Time64MicrosecondType, TimeUnit,
    TimestampMicrosecondType,
};
use chrono::{DateTime, Datelike, NaiveDate, Offset, TimeZone};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature,
};

use super::call_rows::CallRows;
use super::intervals::INTERVAL;

const MINUTE: i64 = 60_000_000;

/// DataFusion's function, with more parts.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct DatePart(Arc<ScalarUDF>);

impl DatePart {
    /// Replaces DataFusion's `date_part`; none if `function` is another one.
    pub fn over(function: &Arc<ScalarUDF>) -> Option<Arc<ScalarUDF>> {
        let is_it = function.name() == "date_part" && !function.inner().is::<Self>();
        is_it.then(|| Arc::new(ScalarUDF::from(Self(Arc::clone(function)))))
    }
}

/// The parts that are computed here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Second,
    Millisecond,
    Epoch,
    Decade,
    Century,
    Millennium,
    Zone,
    ZoneHour,
    ZoneMinute,
}

impl Part {
    fn named(name: &ScalarValue, of: &DataType) -> Option<Self> {
        let is_known = matches!(
            of,
            DataType::Timestamp(..)
                | DataType::Date32
                | DataType::Time32(_)
                | DataType::Time64(_)
                | DataType::Interval(_)
                | DataType::Duration(_)
        );
        if !is_known {
            return None;
        }
        let has_zone = matches!(of, DataType::Timestamp(_, Some(_)));
        let name = name.try_as_str().flatten()?.to_ascii_lowercase();
        Some(match name.trim_matches(['\'', '"']) {
            "second" | "seconds" | "sec" | "secs" | "s" => Self::Second,
            "millisecond" | "milliseconds" | "ms" | "msec" | "msecs" => Self::Millisecond,
            "epoch" => Self::Epoch,
            "decade" | "decades" => Self::Decade,
            "century" | "centuries" => Self::Century,
            "millennium" | "millennia" => Self::Millennium,
            "timezone" if has_zone => Self::Zone,
            "timezone_hour" if has_zone => Self::ZoneHour,
            "timezone_minute" if has_zone => Self::ZoneMinute,
            _ => return None,
        })
    }

    fn data_type(self) -> DataType {
        match self {
            Self::Second => DataType::Decimal128(8, 6),
            Self::Millisecond => DataType::Decimal128(8, 3),
            Self::Epoch => DataType::Decimal128(20, 6),
            _ => DataType::Int32,
        }
    }
}

impl ScalarUDFImpl for DatePart {
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

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let part = match (arguments.scalar_arguments.first(), arguments.arg_fields.get(1)) {
            (Some(Some(name)), Some(time)) => Part::named(name, time.data_type()),
            _ => None,
        };
        match part {
            Some(part) => Ok(Arc::new(Field::new(self.name(), part.data_type(), true))),
            None => self.0.inner().return_field_from_args(arguments),
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let part = match arguments.args.as_slice() {
            [ColumnarValue::Scalar(name), time] => {
                Part::named(name, &time.data_type()).map(|part| (part, time))
            }
            _ => None,
        };
        let Some((part, time)) = part else { return self.0.invoke_with_args(arguments) };
        let rows = CallRows::of(&arguments);
        rows.value(part_of(part, &time.to_array(rows.count())?)?)
    }

    fn preimage(
        &self,
        arguments: &[Expr],
        literal: &Expr,
        context: &SimplifyContext,
    ) -> Result<PreimageResult> {
        self.0.inner().preimage(arguments, literal, context)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }
}

/// The values that a part is computed from.
struct Moment {
    /// Microseconds on the clock, or of an interval without its months and days.
    clock: i64,
    /// Microseconds from 1970, or of the whole interval.
    total: i128,
    /// Seconds that the clock is ahead of UTC.
    offset: i32,
    year: i32,
}

fn part_of(part: Part, times: &ArrayRef) -> Result<ArrayRef> {
    let moments = moments(times)?;
    let numbers = |of: &dyn Fn(&Moment) -> i128, data_type: DataType| -> Result<ArrayRef> {
        let values: Decimal128Array = moments.iter().map(|moment| moment.as_ref().map(of)).collect();
        let DataType::Decimal128(precision, scale) = data_type else { return Ok(Arc::new(values)) };
        Ok(Arc::new(values.with_precision_and_scale(precision, scale)?))
    };
    let whole = |of: &dyn Fn(&Moment) -> i32| -> Result<ArrayRef> {
        Ok(Arc::new(moments.iter().map(|moment| moment.as_ref().map(of)).collect::<Int32Array>()))
    };
    let after = |year: i32, span: i32| if year > 0 { (year - 1) / span + 1 } else { (year - span) / span };
    match part {
        // Microseconds of a minute are thousandths of its milliseconds.
        Part::Second | Part::Millisecond => numbers(
            &|moment| {
                i128::from(if moment.clock < 0 {
                    moment.clock % MINUTE
                } else {
                    moment.clock.rem_euclid(MINUTE)
                })
            },
            part.data_type(),
        ),
        Part::Epoch => numbers(&|moment| moment.total, part.data_type()),
        Part::Decade => whole(&|moment| moment.year.div_euclid(10)),
        Part::Century => whole(&|moment| after(moment.year, 100)),
        Part::Millennium => whole(&|moment| after(moment.year, 1000)),
        Part::Zone => whole(&|moment| moment.offset),
        Part::ZoneHour => whole(&|moment| moment.offset / 3600),
        Part::ZoneMinute => whole(&|moment| moment.offset % 3600 / 60),
    }
}

fn moments(times: &ArrayRef) -> Result<Vec<Option<Moment>>> {
    Ok(match times.data_type() {
        DataType::Interval(_) | DataType::Duration(_) => {
            let intervals = cast(times, &INTERVAL)?;
            let moments = intervals.as_primitive::<IntervalMonthDayNanoType>().iter().map(|interval| {
                let interval = interval?;
                let clock = interval.nanoseconds / 1000;
                // A year has 365.25 days, as in PostgreSQL.
                let (years, months) = (i128::from(interval.months / 12), i128::from(interval.months % 12));
                let seconds = years * 31_557_600 + (months * 30 + i128::from(interval.days)) * 86_400;
                let total = seconds * 1_000_000 + i128::from(clock);
                Some(Moment { clock, total, offset: 0, year: interval.months / 12 })
            });
            moments.collect()
        }
        DataType::Time32(_) | DataType::Time64(_) => {
            let clocks = cast(times, &DataType::Time64(TimeUnit::Microsecond))?;
            let moments = clocks.as_primitive::<Time64MicrosecondType>().iter().map(|clock| {
                let clock = clock?;
                Some(Moment { clock, total: i128::from(clock), offset: 0, year: 1970 })
            });
            moments.collect()
        }
        data_type => {
            let zone = match data_type {
                DataType::Timestamp(_, Some(zone)) => Some((zone.parse::<Tz>()?, Arc::clone(zone))),
                _ => None,
            };
            let name = zone.as_ref().map(|(_, name)| Arc::clone(name));
            let micros = cast(times, &DataType::Timestamp(TimeUnit::Microsecond, name))?;
            let moments = micros.as_primitive::<TimestampMicrosecondType>().iter().map(|micros| {
                let micros = micros?;
                let utc = DateTime::from_timestamp_micros(micros)?.naive_utc();
                let offset = zone
                    .as_ref()
                    .map_or(0, |(zone, _)| zone.offset_from_utc_datetime(&utc).fix().local_minus_utc());
                let clock = micros.saturating_add(i64::from(offset) * 1_000_000);
                let date: NaiveDate = DateTime::from_timestamp_micros(clock)?.date_naive();
                let clock = clock.rem_euclid(86_400_000_000);
                Some(Moment { clock, total: i128::from(micros), offset, year: date.year() })
            });
            moments.collect()
        }
    })
}
