//! `to_char`, `to_date`, `to_timestamp` and `to_number` with PostgreSQL's patterns.
//!
//! A pattern with a `%` is one of DataFusion's: then its function is called.

use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, Decimal128Array, StringViewArray, StringViewBuilder,
    TimestampMicrosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Decimal128Type, Field, FieldRef, Float64Type, Int64Type, IntervalMonthDayNanoType, TimeUnit,
    TimestampMicrosecondType,
};
use chrono::{DateTime, NaiveDateTime, Offset, TimeZone};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use nyala_patterns::{Moment, NumberTemplate, PatternError, Read, Span, Template};

use super::call_rows::CallRows;
use super::intervals::INTERVAL;
use crate::error::{ErrorKind, QueryError};

const MICROSECONDS: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);
/// Digits after the point of a number whose pattern is not constant.
const SCALE: i8 = 16;

/// Functions with patterns, in place of those of the same names in `known`.
pub fn with_patterns(known: &[Arc<ScalarUDF>]) -> Vec<Arc<ScalarUDF>> {
    [Of::Char, Of::Date, Of::Timestamp, Of::Number]
        .into_iter()
        .map(|of| {
            let other = known.iter().find(|function| function.name() == of.name()).cloned();
            let signature = Signature::user_defined(Volatility::Immutable);
            Arc::new(ScalarUDF::from(Patterned { of, other, signature }))
        })
        .collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Of {
    Char,
    Date,
    Timestamp,
    Number,
}

impl Of {
    fn name(self) -> &'static str {
        match self {
            Self::Char => "to_char",
            Self::Date => "to_date",
            Self::Timestamp => "to_timestamp",
            Self::Number => "to_number",
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Patterned {
    of: Of,
    /// The function of DataFusion that has the name.
    other: Option<Arc<ScalarUDF>>,
    signature: Signature,
}

impl Patterned {
    /// DataFusion's function, if it has to answer: for patterns with `%`, and for texts without a pattern.
    fn other(&self, types: &[DataType], pattern: Option<&ScalarValue>) -> Option<&Arc<ScalarUDF>> {
        let is_foreign =
            pattern.and_then(|pattern| pattern.try_as_str().flatten()).is_some_and(|text| text.contains('%'));
        let is_own = match (self.of, types) {
            (Of::Timestamp, [number]) => number.is_numeric(),
            (_, [_, _]) => !is_foreign,
            _ => false,
        };
        if is_own { None } else { self.other.as_ref() }
    }
}

impl ScalarUDFImpl for Patterned {
    fn name(&self) -> &str {
        self.of.name()
    }

    fn aliases(&self) -> &[String] {
        self.other.as_ref().map_or(&[], |other| other.aliases())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let text = || DataType::Utf8View;
        Ok(match (self.of, types) {
            (Of::Timestamp, [number]) if number.is_numeric() => vec![DataType::Float64],
            (Of::Char, [value, _]) => vec![written_as(value)?, text()],
            (_, [_, _]) => vec![text(), text()],
            _ => types.iter().map(|of| if of.is_string() { text() } else { of.clone() }).collect(),
        })
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        plan_err!("the type of `{}` depends on its pattern", self.name())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> =
            arguments.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let pattern = arguments.scalar_arguments.get(1).copied().flatten();
        if let Some(other) = self.other(&types, pattern) {
            return other.return_field_from_args(arguments);
        }
        let data_type = match (self.of, types.len()) {
            (Of::Char, 2) => DataType::Utf8View,
            (Of::Date, 2) => DataType::Date32,
            (Of::Timestamp, 1 | 2) => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            (Of::Number, 2) => DataType::Decimal128(38, scale_of(pattern)),
            _ => {
                return plan_err!(
                    "`{}` takes a value and a pattern, not {} arguments",
                    self.name(),
                    types.len()
                );
            }
        };
        Ok(Arc::new(Field::new(self.name(), data_type, true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let types: Vec<DataType> =
            arguments.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let pattern = match arguments.args.get(1) {
            Some(ColumnarValue::Scalar(pattern)) => Some(pattern),
            _ => None,
        };
        if let Some(other) = self.other(&types, pattern) {
            return other.invoke_with_args(arguments);
        }
        let rows = CallRows::of(&arguments);
        let zone = arguments.config_options.execution.time_zone.as_deref().unwrap_or("UTC").parse::<Tz>()?;
        let arrays = rows.columns(&arguments.args)?;
        let computed = match (self.of, arrays.as_slice()) {
            (Of::Timestamp, [seconds]) => moments_of(seconds)?,
            (of, [values, patterns]) => {
                let patterns = cast(patterns, &DataType::Utf8View)?;
                let patterns = patterns.as_string_view();
                match of {
                    Of::Char => written(values, patterns)?,
                    Of::Date => dates(&texts(values)?, patterns)?,
                    Of::Timestamp => moments(&texts(values)?, patterns, &zone)?,
                    Of::Number => numbers(&texts(values)?, patterns, arguments.return_field.data_type())?,
                }
            }
            _ => return plan_err!("`{}` takes a value and a pattern", self.name()),
        };
        rows.value(computed)
    }
}

/// The type that a value is written from.
fn written_as(value: &DataType) -> Result<DataType> {
    Ok(match value {
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        DataType::Date32 | DataType::Date64 | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            MICROSECONDS
        }
        DataType::Interval(_) | DataType::Duration(_) | DataType::Time32(_) | DataType::Time64(_) => INTERVAL,
        DataType::Float16 | DataType::Float32 | DataType::Float64 => DataType::Float64,
        DataType::Decimal128(..) => value.clone(),
        of if of.is_decimal() => DataType::Decimal128(38, 10),
        of if of.is_integer() => DataType::Int64,
        DataType::Null => MICROSECONDS,
        other => return plan_err!("`to_char` does not write a {other}"),
    })
}

/// Digits after the point in the pattern of a number.
fn scale_of(pattern: Option<&ScalarValue>) -> i8 {
    let Some(pattern) = pattern.and_then(|pattern| pattern.try_as_str().flatten()) else { return SCALE };
    let fraction = pattern.split_once(['.', 'D', 'd']).map_or("", |(_, fraction)| fraction);
    let digits = fraction.bytes().filter(|byte| matches!(byte, b'9' | b'0')).count();
    i8::try_from(digits).unwrap_or(SCALE).min(SCALE)
}

fn refused(error: PatternError) -> QueryError {
    let kind = match error.sqlstate {
        "22007" | "22008" => ErrorKind::InvalidTime,
        "22003" => ErrorKind::OutOfRange,
        "22P02" => ErrorKind::InvalidValue,
        "42601" => ErrorKind::Syntax,
        "0A000" => ErrorKind::Unsupported,
        "54000" => ErrorKind::LimitExceeded,
        _ => ErrorKind::Data,
    };
    let refused = QueryError::new(kind, error.message);
    match error.hint.map(str::to_owned).or(error.detail) {
        Some(hint) => refused.hint(hint),
        None => refused,
    }
}

/// Compiles patterns; consecutive equal ones are compiled once.
struct Compiled<T> {
    last: Option<(String, T)>,
    compile: fn(&str) -> Result<T, PatternError>,
}

impl<T> Compiled<T> {
    fn new(compile: fn(&str) -> Result<T, PatternError>) -> Self {
        Self { last: None, compile }
    }

    fn of(&mut self, pattern: &str) -> Result<&T, QueryError> {
        let last = match self.last.take().filter(|(last, _)| last == pattern) {
            Some(last) => last,
            None => (pattern.to_owned(), (self.compile)(pattern).map_err(refused)?),
        };
        Ok(&self.last.insert(last).1)
    }
}

fn texts(values: &ArrayRef) -> Result<StringViewArray> {
    Ok(cast(values, &DataType::Utf8View)?.as_string_view().clone())
}

fn written(values: &ArrayRef, patterns: &StringViewArray) -> Result<ArrayRef> {
    let mut written = StringViewBuilder::with_capacity(values.len());
    let mut times = Compiled::new(Template::for_times);
    let mut spans = Compiled::new(Template::for_intervals);
    let mut numbers = Compiled::new(Template::for_numbers);
    let zone = match values.data_type() {
        DataType::Timestamp(_, Some(zone)) => Some((zone.parse::<Tz>()?, zone.to_string())),
        _ => None,
    };
    let mut out = String::new();
    for (row, pattern) in patterns.iter().enumerate() {
        let Some(pattern) = pattern.filter(|_| values.is_valid(row)) else {
            written.append_null();
            continue;
        };
        out.clear();
        let has_text = match values.data_type() {
            DataType::Timestamp(..) => {
                let micros = values.as_primitive::<TimestampMicrosecondType>().value(row);
                write_time(times.of(pattern)?, micros, zone.as_ref(), &mut out)
            }
            DataType::Interval(_) => {
                let interval = values.as_primitive::<IntervalMonthDayNanoType>().value(row);
                let micros = interval.nanoseconds / 1000;
                let span = Span { months: interval.months, days: interval.days, micros };
                let template = spans.of(pattern)?;
                template.write_span(&span, &mut out).map_err(refused)?;
                !template.is_empty()
            }
            _ => {
                write_number(numbers.of(pattern)?, values, row, &mut out)?;
                true
            }
        };
        if has_text { written.append_value(&out) } else { written.append_null() }
    }
    Ok(Arc::new(written.finish()))
}

/// Writes a moment; false, and nothing written, if it is infinite or the pattern is empty.
fn write_time(template: &Template, micros: i64, zone: Option<&(Tz, String)>, out: &mut String) -> bool {
    let Some(time) = DateTime::from_timestamp_micros(micros).filter(|_| !template.is_empty()) else {
        return false;
    };
    let moment = match zone {
        None => Moment { offset_seconds: None, zone: None, ..Moment::from_unix_micros(micros, 0) },
        Some((zone, name)) => {
            let offset = zone.offset_from_utc_datetime(&time.naive_utc());
            let seconds = offset.fix().local_minus_utc();
            let shown = offset.to_string();
            let shown = if shown.starts_with(['+', '-']) { name.clone() } else { shown };
            Moment {
                offset_seconds: Some(seconds),
                zone: Some(shown),
                ..Moment::from_unix_micros(micros, seconds)
            }
        }
    };
    template.write(&moment, out);
    true
}

fn write_number(template: &NumberTemplate, values: &ArrayRef, row: usize, out: &mut String) -> Result<()> {
    let done = match values.data_type() {
        DataType::Float64 => template.write_float(values.as_primitive::<Float64Type>().value(row), out),
        DataType::Decimal128(_, scale) => {
            let unscaled = values.as_primitive::<Decimal128Type>().value(row);
            template.write_decimal(unscaled, u32::try_from(*scale).unwrap_or(0), out)
        }
        _ => template.write_bigint(values.as_primitive::<Int64Type>().value(row), out),
    };
    Ok(done.map_err(refused)?)
}

fn dates(texts: &StringViewArray, patterns: &StringViewArray) -> Result<ArrayRef> {
    let mut templates = Compiled::new(Template::for_times);
    let dates = texts.iter().zip(patterns).map(|pair| {
        let (Some(text), Some(pattern)) = pair else { return Ok(None) };
        let read = templates.of(pattern)?.read_date(text).map_err(refused)?;
        read.unix_days().map(Some).ok_or_else(|| out_of_range("date", text))
    });
    Ok(Arc::new(dates.collect::<Result<Date32Array, QueryError>>()?))
}

fn moments(texts: &StringViewArray, patterns: &StringViewArray, zone: &Tz) -> Result<ArrayRef> {
    let mut templates = Compiled::new(Template::for_times);
    let moments = texts.iter().zip(patterns).map(|pair| {
        let (Some(text), Some(pattern)) = pair else { return Ok(None) };
        let read = templates.of(pattern)?.read_timestamp(text).map_err(refused)?;
        let micros = read.unix_micros(offset_of(&read, zone));
        micros.map(Some).ok_or_else(|| out_of_range("timestamp", text))
    });
    let moments = moments.collect::<Result<TimestampMicrosecondArray, QueryError>>()?;
    Ok(Arc::new(moments.with_timezone("UTC")))
}

/// The offset of a zone at a time of its clock.
fn offset_of(read: &Read, zone: &Tz) -> i32 {
    let clock: Option<NaiveDateTime> =
        read.unix_micros(0).and_then(DateTime::from_timestamp_micros).map(|time| time.naive_utc());
    let offset = clock.map(|clock| zone.offset_from_local_datetime(&clock));
    offset.and_then(|offset| offset.earliest()).map_or(0, |offset| offset.fix().local_minus_utc())
}

fn out_of_range(what: &str, text: &str) -> QueryError {
    QueryError::new(ErrorKind::InvalidTime, format!("{what} out of range: \"{text}\""))
}

/// Moments so many seconds after 1970.
fn moments_of(seconds: &ArrayRef) -> Result<ArrayRef> {
    let seconds = cast(seconds, &DataType::Float64)?;
    let moments = seconds.as_primitive::<Float64Type>().iter().map(|seconds| {
        let Some(seconds) = seconds else { return Ok(None) };
        let micros = (seconds * 1e6).round_ties_even();
        let is_known = micros.is_finite() && DateTime::from_timestamp_micros(micros as i64).is_some();
        match is_known && micros.abs() < i64::MAX as f64 {
            true => Ok(Some(micros as i64)),
            false => Err(out_of_range("timestamp", &seconds.to_string())),
        }
    });
    let moments = moments.collect::<Result<TimestampMicrosecondArray, QueryError>>()?;
    Ok(Arc::new(moments.with_timezone("UTC")))
}

fn numbers(texts: &StringViewArray, patterns: &StringViewArray, to: &DataType) -> Result<ArrayRef> {
    let DataType::Decimal128(precision, scale) = *to else { return plan_err!("a number is no {to}") };
    let mut templates = Compiled::new(Template::for_numbers);
    let numbers = texts.iter().zip(patterns).map(|pair| {
        let (Some(text), Some(pattern)) = pair else { return Ok(None) };
        let template = templates.of(pattern)?;
        if template.is_empty() {
            return Ok(None);
        }
        let (unscaled, digits) = template.read_number(text).map_err(refused)?;
        let digits = i8::try_from(digits).unwrap_or(i8::MAX);
        let value = ScalarValue::Decimal128(Some(unscaled), 38, digits).cast_to(to)?;
        match value {
            ScalarValue::Decimal128(value, ..) => Ok(value),
            _ => Ok(None),
        }
    });
    let numbers = numbers.collect::<Result<Decimal128Array>>()?;
    Ok(Arc::new(numbers.with_precision_and_scale(precision, scale)?))
}
