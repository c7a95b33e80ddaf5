//! Moments are read and computed in the time zone of the session.

use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::{Between, BinaryExpr, Cast, Expr, ExprSchemable, Operator, cast, lit};

use super::decimals::CHOICES;
use super::{Meaning, Scope};
use crate::functions::{AtTimeZone, INTERVAL, interval_of, timestamp_of};

/// Functions that read the date or the time of day of a moment.
const OF_A_CLOCK: &[&str] = &["date_part", "date_trunc", "date_bin", "to_char", "to_local_time", "age"];

/// Names of the time zones whose clock shows UTC.
const UTC: &[&str] = &["UTC", "utc", "Z", "Etc/UTC", "GMT", "+00:00", "+00"];

/// Moments are cast to the session's zone where their date or time of day is read, and texts and times without
/// a zone that are compared with moments are read in that zone. DataFusion uses the zone of the column.
#[derive(Debug)]
pub struct SessionZone;

impl Meaning for SessionZone {
    fn name(&self) -> &'static str {
        "session_zone"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        match expr {
            Expr::BinaryExpr(binary) => binary.op.supports_propagation() || is_sum(binary.op),
            Expr::ScalarFunction(call) => {
                OF_A_CLOCK.contains(&call.func.name()) || CHOICES.contains(&call.func.name())
            }
            other => matches!(other, Expr::Between(_) | Expr::InList(_) | Expr::Cast(_)),
        }
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        let zone: Arc<str> = scope.config.execution.time_zone.as_deref().unwrap_or("UTC").into();
        let session = Session { zone, schema: scope.schema };
        Ok(match expr {
            Expr::ScalarFunction(ScalarFunction { func, args }) if CHOICES.contains(&func.name()) => {
                let (args, changed) = session.compared(args)?;
                transformed(Expr::ScalarFunction(ScalarFunction { func, args }), changed)
            }
            Expr::ScalarFunction(ScalarFunction { func, args }) => {
                let mut changed = false;
                let truncates = ["date_trunc", "date_bin"].contains(&func.name());
                let args = args.into_iter().map(|argument| {
                    // Nanoseconds do not reach the dates of all years.
                    if truncates && session.type_of(&argument) == Some(DataType::Date32) {
                        changed = true;
                        return cast(argument, DataType::Timestamp(TimeUnit::Microsecond, None));
                    }
                    session.moved(argument, &mut changed)
                });
                let args = args.collect();
                transformed(Expr::ScalarFunction(ScalarFunction { func, args }), changed)
            }
            Expr::Cast(Cast { expr, field })
                if matches!(field.data_type(), DataType::Timestamp(..)) && is_text(&expr) =>
            {
                let Expr::Literal(text, _) = expr.as_ref() else {
                    return Ok(Transformed::no(Expr::Cast(Cast { expr, field })));
                };
                transformed(Expr::Literal(session.moment_of(text, field.data_type())?, None), true)
            }
            Expr::Cast(Cast { expr, field }) if *field.data_type() == INTERVAL && is_text(&expr) => {
                let read = match expr.as_ref() {
                    Expr::Literal(text, _) => text.try_as_str().flatten().and_then(interval_of),
                    _ => None,
                };
                match read {
                    Some(interval) => {
                        let value = ScalarValue::IntervalMonthDayNano(Some(interval));
                        transformed(Expr::Literal(value, None), true)
                    }
                    None => Transformed::no(Expr::Cast(Cast { expr, field })),
                }
            }
            Expr::Cast(Cast { expr, field })
                if matches!(field.data_type(), DataType::Timestamp(_, None))
                    && matches!(session.type_of(&expr), Some(DataType::Timestamp(_, Some(_))))
                    && !session.is_own("UTC") =>
            {
                let clock = AtTimeZone::udf().call(vec![lit(session.zone.as_ref()), *expr]);
                transformed(Expr::Cast(Cast { expr: Box::new(clock), field }), true)
            }
            Expr::Cast(Cast { expr, field }) if shows_a_clock(field.data_type()) => {
                let mut changed = false;
                let expr = Box::new(session.moved(*expr, &mut changed));
                transformed(Expr::Cast(Cast { expr, field }), changed)
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_sum(op) => {
                let mut changed = false;
                let is_interval = |side: &Expr| {
                    matches!(side.get_type(scope.schema), Ok(DataType::Interval(_) | DataType::Duration(_)))
                };
                let (left_is, right_is) = (is_interval(&left), is_interval(&right));
                let left = if right_is { Box::new(session.moved(*left, &mut changed)) } else { left };
                let right = if left_is { Box::new(session.moved(*right, &mut changed)) } else { right };
                transformed(Expr::BinaryExpr(BinaryExpr { left, op, right }), changed)
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let (mut sides, changed) = session.compared(vec![*left, *right])?;
                let (right, left) = (sides.pop().unwrap_or_default(), sides.pop().unwrap_or_default());
                let (left, right) = (Box::new(left), Box::new(right));
                transformed(Expr::BinaryExpr(BinaryExpr { left, op, right }), changed)
            }
            Expr::Between(Between { expr, negated, low, high }) => {
                let (mut sides, changed) = session.compared(vec![*expr, *low, *high])?;
                let mut next = || Box::new(sides.pop().unwrap_or_default());
                let (high, low, expr) = (next(), next(), next());
                transformed(Expr::Between(Between { expr, negated, low, high }), changed)
            }
            Expr::InList(InList { expr, list, negated }) => {
                let sides = list.into_iter().chain([*expr]).collect();
                let (mut list, changed) = session.compared(sides)?;
                let expr = Box::new(list.pop().unwrap_or_default());
                transformed(Expr::InList(InList { expr, list, negated }), changed)
            }
            other => Transformed::no(other),
        })
    }
}

fn transformed(expr: Expr, changed: bool) -> Transformed<Expr> {
    if changed { Transformed::yes(expr) } else { Transformed::no(expr) }
}

/// Whether it is a constant text.
fn is_text(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if value.try_as_str().flatten().is_some())
}

fn is_sum(op: Operator) -> bool {
    matches!(op, Operator::Plus | Operator::Minus)
}

/// Whether values of a type are read from a clock or a calendar.
fn shows_a_clock(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Date32
            | DataType::Date64
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Timestamp(_, None)
            | DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
    )
}

struct Session<'a> {
    zone: Arc<str>,
    schema: &'a DFSchema,
}

impl Session<'_> {
    fn type_of(&self, expr: &Expr) -> Option<DataType> {
        expr.get_type(self.schema).ok()
    }

    fn is_own(&self, zone: &str) -> bool {
        *zone == *self.zone || (UTC.contains(&zone) && UTC.contains(&self.zone.as_ref()))
    }

    /// The timestamp that a text stands for.
    fn moment_of(&self, text: &ScalarValue, to: &DataType) -> Result<ScalarValue> {
        let DataType::Timestamp(_, zone) = to else { return text.cast_to(to) };
        let session = match zone {
            Some(_) => Some(self.zone.parse::<Tz>()?),
            None => None,
        };
        let micros = text.try_as_str().flatten().and_then(|text| timestamp_of(text, session.as_ref()));
        match micros {
            Some(micros) => ScalarValue::TimestampMicrosecond(Some(micros), zone.clone()).cast_to(to),
            None => text.cast_to(to),
        }
    }

    /// A moment, cast to the zone of the session.
    fn moved(&self, expr: Expr, changed: &mut bool) -> Expr {
        match self.type_of(&expr) {
            Some(DataType::Timestamp(unit, Some(zone))) if !self.is_own(&zone) => {
                *changed = true;
                cast(expr, DataType::Timestamp(unit, Some(Arc::clone(&self.zone))))
            }
            _ => expr,
        }
    }

    /// The sides of a comparison, if one of them is a timestamp: texts are read as timestamps in
    /// microseconds, and in the session's zone if another side is a moment, and so are times without a zone.
    fn compared(&self, sides: Vec<Expr>) -> Result<(Vec<Expr>, bool)> {
        let types: Vec<Option<DataType>> = sides.iter().map(|side| self.type_of(side)).collect();
        let timestamps = types.iter().flatten().filter_map(|data_type| match data_type {
            DataType::Timestamp(unit, zone) => Some((*unit, zone.is_some())),
            _ => None,
        });
        let (mut found, mut is_moment, mut finest) = (false, false, TimeUnit::Microsecond);
        for (unit, has_zone) in timestamps {
            found = true;
            is_moment |= has_zone;
            if unit == TimeUnit::Nanosecond {
                finest = unit;
            }
        }
        if !found {
            return Ok((sides, false));
        }
        let zone = is_moment.then(|| Arc::clone(&self.zone));
        // Nanoseconds do not reach years far away.
        let fits = |side: &Expr| match side {
            Expr::Literal(value, _) => {
                value.cast_to(&DataType::Timestamp(TimeUnit::Nanosecond, zone.clone())).is_ok()
            }
            _ => true,
        };
        let is_far = finest == TimeUnit::Nanosecond && sides.iter().any(|side| is_text(side) && !fits(side));
        let unit = if is_far { TimeUnit::Microsecond } else { finest };
        let to = DataType::Timestamp(unit, zone.clone());
        let mut changed = false;
        let sides = sides.into_iter().zip(types).map(|(side, data_type)| {
            let is_date = matches!(&data_type, Some(DataType::Date32));
            let is_clock = is_date || matches!(&data_type, Some(DataType::Timestamp(_, None)));
            let is_finer = matches!(&data_type, Some(DataType::Timestamp(TimeUnit::Nanosecond, _))) && is_far;
            if is_text(&side) {
                changed = true;
                let Expr::Literal(value, _) = &side else { return Ok(side) };
                return Ok(Expr::Literal(self.moment_of(value, &to)?, None));
            }
            if (is_moment && is_clock && !self.is_own("UTC")) || is_date || is_finer {
                changed = true;
                return Ok(cast(side, to.clone()));
            }
            Ok(side)
        });
        Ok((sides.collect::<Result<_>>()?, changed))
    }
}
