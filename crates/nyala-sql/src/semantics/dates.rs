//! Dates plus intervals or numbers, differences of times, the parts of times, and the precision of the current moment.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, Operator, cast, lit};

use super::{Meaning, Scope};
use crate::error::{ErrorKind, QueryError};
use crate::functions::{AtTimeZone, DatePart, MovedDate, days_between, type_name};

const MICROSECONDS: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);
/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// A date plus or minus an interval is a timestamp: DataFusion makes a date of it, and drops the time. A date
/// plus or minus a number is a date. The difference of two timestamps is an interval of days and a time.
#[derive(Debug)]
pub struct DatesAndIntervals;

impl Meaning for DatesAndIntervals {
    fn name(&self) -> &'static str {
        "dates_and_intervals"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::BinaryExpr(binary) if matches!(binary.op, Operator::Plus | Operator::Minus))
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return Ok(Transformed::no(expr)) };
        let types = (left.get_type(scope.schema), right.get_type(scope.schema));
        let is_interval = |data_type: &DataType| matches!(data_type, DataType::Interval(_));
        let (left, right, changed) = match types {
            (Ok(date), Ok(interval)) if is_date(&date) && is_interval(&interval) => {
                (Box::new(cast(*left, MICROSECONDS)), right, true)
            }
            (Ok(interval), Ok(date)) if is_date(&date) && is_interval(&interval) && op == Operator::Plus => {
                (left, Box::new(cast(*right, MICROSECONDS)), true)
            }
            (Ok(DataType::Date32), Ok(days)) if days.is_integer() => {
                return Ok(moved_date(*left, op, *right));
            }
            (Ok(days), Ok(DataType::Date32)) if days.is_integer() && op == Operator::Plus => {
                return Ok(moved_date(*right, op, *left));
            }
            (Ok(DataType::Timestamp(..)), Ok(DataType::Timestamp(..))) if op == Operator::Minus => {
                // The difference counts 24 hours as a day.
                let difference = Expr::BinaryExpr(BinaryExpr { left, op, right });
                return Ok(Transformed::yes(days_between().call(vec![difference])));
            }
            (Ok(DataType::Timestamp(_, None)), Ok(date)) if is_date(&date) && op == Operator::Minus => {
                let right = Box::new(cast(*right, MICROSECONDS));
                let difference = Expr::BinaryExpr(BinaryExpr { left, op, right });
                return Ok(Transformed::yes(days_between().call(vec![difference])));
            }
            (Ok(date), Ok(DataType::Timestamp(_, None))) if is_date(&date) && op == Operator::Minus => {
                let left = Box::new(cast(*left, MICROSECONDS));
                let difference = Expr::BinaryExpr(BinaryExpr { left, op, right });
                return Ok(Transformed::yes(days_between().call(vec![difference])));
            }
            (Ok(DataType::Timestamp(_, Some(_))), Ok(date)) if is_date(&date) && op == Operator::Minus => {
                let right = Box::new(midnight(*right, scope));
                let difference = Expr::BinaryExpr(BinaryExpr { left, op, right });
                return Ok(Transformed::yes(days_between().call(vec![difference])));
            }
            (Ok(date), Ok(DataType::Timestamp(_, Some(_)))) if is_date(&date) && op == Operator::Minus => {
                let left = Box::new(midnight(*left, scope));
                let difference = Expr::BinaryExpr(BinaryExpr { left, op, right });
                return Ok(Transformed::yes(days_between().call(vec![difference])));
            }
            (Ok(earlier), Ok(later)) if is_date(&earlier) && is_date(&later) && op == Operator::Minus => {
                let days = Expr::BinaryExpr(BinaryExpr { left, op, right });
                return Ok(Transformed::yes(cast(days, DataType::Int32)));
            }
            _ => (left, right, false),
        };
        let expr = Expr::BinaryExpr(BinaryExpr { left, op, right });
        Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) })
    }
}

/// The date that is `days` days later or earlier.
fn moved_date(date: Expr, op: Operator, days: Expr) -> Transformed<Expr> {
    match MovedDate::of(op) {
        Some(function) => Transformed::yes(function.call(vec![date, cast(days, DataType::Int64)])),
        None => {
            Transformed::no(Expr::BinaryExpr(BinaryExpr { left: Box::new(date), op, right: Box::new(days) }))
        }
    }
}

/// The moment at which a date begins in the zone of the session.
fn midnight(date: Expr, scope: &Scope<'_>) -> Expr {
    let zone = scope.config.execution.time_zone.as_deref().unwrap_or("UTC");
    AtTimeZone::udf().call(vec![lit(zone), cast(date, MICROSECONDS)])
}

/// A whole number does not become a date: DataFusion counts it in days from 1970.
#[derive(Debug)]
pub struct NumbersAreNoDates;

impl Meaning for NumbersAreNoDates {
    fn name(&self) -> &'static str {
        "numbers_are_no_dates"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::BinaryExpr(binary) if binary.op.supports_propagation())
            || matches!(expr, Expr::Cast(Cast { field, .. })
            if is_calendar(field.data_type()) || field.data_type().is_numeric())
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        if let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &expr
            && let (Ok(left), Ok(right)) = (left.get_type(scope.schema), right.get_type(scope.schema))
            && (is_calendar(&left) && right.is_numeric() || left.is_numeric() && is_calendar(&right))
        {
            let (left, right) = (type_name(&left), type_name(&right));
            let message = format!("operator does not exist: {left} {op} {right}");
            let hint =
                "write to_date(number::text, 'YYYYMMDD'), to_timestamp(seconds) or extract(epoch FROM time)";
            return Err(QueryError::new(ErrorKind::InvalidText, message).sqlstate("42883").hint(hint).into());
        }
        if let Expr::Cast(Cast { expr: number, field }) = &expr
            && let Ok(data_type) = number.get_type(scope.schema)
            && (data_type.is_numeric() && is_calendar(field.data_type())
                || is_calendar(&data_type) && field.data_type().is_numeric())
        {
            let message = format!("cannot cast type {data_type} to {}", field.data_type());
            let hint =
                "write to_date(number::text, 'YYYYMMDD'), to_timestamp(seconds) or extract(epoch FROM time)";
            return Err(QueryError::new(ErrorKind::InvalidText, message).hint(hint).into());
        }
        Ok(Transformed::no(expr))
    }
}

fn is_calendar(data_type: &DataType) -> bool {
    is_date(data_type) || matches!(data_type, DataType::Timestamp(..))
}

fn is_date(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Date32 | DataType::Date64)
}

/// The current moment counts microseconds, as other moments do.
#[derive(Debug)]
pub struct Now;

impl Meaning for Now {
    fn name(&self) -> &'static str {
        "now"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::ScalarFunction(call) if call.func.name() == "now")
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        Ok(match expr.get_type(scope.schema) {
            Ok(DataType::Timestamp(TimeUnit::Nanosecond, zone)) => {
                Transformed::yes(cast(expr, DataType::Timestamp(TimeUnit::Microsecond, zone)))
            }
            _ => Transformed::no(expr),
        })
    }
}

/// Parts of a time of day, which a date has not, as the planner writes them for `extract`. DataFusion's `date_part` gives zeros for them.
const OF_A_DAY: &[&str] =
    &["HOUR", "MINUTE", "SECOND", "MILLISECONDS", "MILLISECOND", "MICROSECONDS", "MICROSECOND"];

/// `extract` gives fractions of seconds, and knows more parts.
#[derive(Debug)]
pub struct MoreParts;

impl Meaning for MoreParts {
    fn name(&self) -> &'static str {
        "more_parts"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::ScalarFunction(call) if call.func.name() == "date_part")
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        let Expr::ScalarFunction(call) = expr else { return Ok(Transformed::no(expr)) };
        if let [Expr::Literal(part, _), date] = call.args.as_slice()
            && date.get_type(scope.schema).is_ok_and(|data_type| is_date(&data_type))
            && let Some(Some(part)) = part.try_as_str()
            && OF_A_DAY.contains(&part)
        {
            let message = format!("unit \"{}\" not supported for type date", part.to_lowercase());
            return Err(QueryError::new(ErrorKind::Unsupported, message).hint("cast it to TIMESTAMP").into());
        }
        Ok(match DatePart::over(&call.func) {
            Some(function) => Transformed::yes(function.call(call.args)),
            None => Transformed::no(Expr::ScalarFunction(call)),
        })
    }
}

/// Makes a comparison of a date with a constant timestamp a comparison of dates, by which files, segments and cuboids can be pruned.
#[derive(Debug)]
pub struct DatesAgainstTimes;

impl Meaning for DatesAgainstTimes {
    fn name(&self) -> &'static str {
        "dates_against_times"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::BinaryExpr(binary) if binary.op.supports_propagation())
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return Ok(Transformed::no(expr)) };
        let found = date_below(&left, scope).zip(constant_time(&right)?).map(|(date, time)| (date, op, time));
        let found = match found {
            Some(found) => Some(found),
            None => {
                let swapped = op.swap();
                let sides = date_below(&right, scope).zip(constant_time(&left)?);
                sides.zip(swapped).map(|((date, time), op)| (date, op, time))
            }
        };
        Ok(match found.and_then(|(date, op, time)| against_date(date, op, time)) {
            Some(compared) => Transformed::yes(compared),
            None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
        })
    }
}

/// The date column under a cast to a timestamp.
fn date_below(expr: &Expr, scope: &Scope<'_>) -> Option<Expr> {
    match expr {
        Expr::Cast(Cast { expr, field })
            if matches!(field.data_type(), DataType::Timestamp(_, None))
                && expr.any_column_refs()
                && expr.get_type(scope.schema).ok()? == DataType::Date32 =>
        {
            Some(expr.as_ref().clone())
        }
        _ => None,
    }
}

/// The microseconds of a constant timestamp.
fn constant_time(expr: &Expr) -> Result<Option<i64>> {
    let value = match expr {
        Expr::Literal(value, _) if matches!(value.data_type(), DataType::Timestamp(_, None)) => value.clone(),
        Expr::Cast(_) | Expr::BinaryExpr(_) => match folded(expr)? {
            Some(value) if matches!(value.data_type(), DataType::Timestamp(_, None)) => value,
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    Ok(match value.cast_to(&MICROSECONDS)? {
        ScalarValue::TimestampMicrosecond(time, _) => time,
        _ => None,
    })
}

/// The value of sums of constant dates, times and intervals; none for other expressions, or if the sum fails: planning reports that better.
fn folded(expr: &Expr) -> Result<Option<ScalarValue>> {
    Ok(match expr {
        Expr::Literal(value, _) if !value.is_null() => Some(value.clone()),
        Expr::Cast(Cast { expr, field }) => match folded(expr)? {
            Some(value) if field.data_type().is_temporal() => value.cast_to(field.data_type()).ok(),
            _ => None,
        },
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Plus | Operator::Minus), right }) => {
            let (Some(left), Some(right)) = (folded(left)?, folded(right)?) else { return Ok(None) };
            match op {
                Operator::Plus => left.add(right).ok(),
                _ => left.sub(right).ok(),
            }
        }
        _ => None,
    })
}

fn against_date(date: Expr, op: Operator, time: i64) -> Option<Expr> {
    let days = i32::try_from(time.div_euclid(DAY)).ok()?;
    let is_midnight = time.rem_euclid(DAY) == 0;
    let op = match op {
        _ if is_midnight => op,
        // A date is at midnight: it comes before a later time of the same day.
        Operator::Lt | Operator::LtEq => Operator::LtEq,
        Operator::Gt | Operator::GtEq => Operator::Gt,
        _ => return None,
    };
    let day = Expr::Literal(ScalarValue::Date32(Some(days)), None);
    Some(Expr::BinaryExpr(BinaryExpr { left: Box::new(date), op, right: Box::new(day) }))
}
