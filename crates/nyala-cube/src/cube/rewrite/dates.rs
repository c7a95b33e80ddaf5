//! Expressions that follow from a truncated date: coarser truncations, parts, and ranges that begin with a unit.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::functions::datetime::date_trunc;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, cast};

use super::dimensions::column;
use crate::cube::compile::CompiledDimension;
use crate::cube::expression::constant;

/// `expr` in terms of `dimension`, if that is a truncated date or a year that determines it.
pub fn follow(expr: &Expr, dimension: &CompiledDimension, columns: &DFSchema) -> Option<Expr> {
    let truncated = call(&dimension.expression, &["date_trunc", "date_part"])?;
    let source = Source { truncated, dimension, columns };
    match expr {
        Expr::ScalarFunction(_) => source.coarser(expr),
        Expr::BinaryExpr(binary) => source.compared(binary),
        Expr::Between(between) => {
            let low = source.bounded(&between.expr, Operator::GtEq, &between.low)?;
            let inside = low.and(source.bounded(&between.expr, Operator::LtEq, &between.high)?);
            Some(if between.negated { Expr::Not(Box::new(inside)) } else { inside })
        }
        other => source.whole_day(other),
    }
}

/// Whether other dates may follow from a dimension with this expression.
pub fn is_date_call(expr: &Expr) -> bool {
    call(expr, &["date_trunc", "date_part"]).is_some()
}

/// Whether `expr` may follow from a dimension that is this call; `expr` and `dimension` read the same columns.
pub fn may_follow(expr: &Expr, dimension: &Expr) -> bool {
    let Some(known) = call(dimension, &["date_trunc", "date_part"]) else { return false };
    let truncates = known.function.name() == "date_trunc";
    match expr {
        Expr::ScalarFunction(_) => call(expr, &["date_trunc", "date_part"]).is_some_and(|wanted| {
            truncates && tells(&known.unit, &wanted.unit, wanted.function.name() == "date_part")
        }),
        Expr::BinaryExpr(_) | Expr::Between(_) => true,
        _ => truncates && rank(&known.unit).is_some_and(|unit| Some(unit) <= rank("day")),
    }
}

/// `function('unit', date)`.
struct DateCall<'a> {
    function: &'a ScalarFunction,
    unit: String,
    date: &'a Expr,
}

fn call<'a>(expr: &'a Expr, names: &[&str]) -> Option<DateCall<'a>> {
    let Expr::ScalarFunction(function) = expr else { return None };
    let [Expr::Literal(unit, _), date] = function.args.as_slice() else { return None };
    let unit = unit.try_as_str().flatten()?.to_lowercase();
    names.contains(&function.name()).then_some(DateCall { function, unit, date })
}

struct Source<'a> {
    truncated: DateCall<'a>,
    dimension: &'a CompiledDimension,
    columns: &'a DFSchema,
}

impl Source<'_> {
    fn truncates(&self) -> bool {
        self.truncated.function.name() == "date_trunc"
    }

    /// `date_trunc('month', d)` or `date_part('month', d)` from `date_trunc('day', d)`.
    fn coarser(&self, expr: &Expr) -> Option<Expr> {
        let wanted = call(expr, &["date_trunc", "date_part"])?;
        let part = wanted.function.name() == "date_part";
        let known = self.truncates() && self.is_source(wanted.date);
        if !known || !tells(&self.truncated.unit, &wanted.unit, part) {
            return None;
        }
        let unit = wanted.function.args.first()?.clone();
        let function = wanted.function.func.clone();
        let date = if part { column(self.dimension) } else { self.as_moment(wanted.date)? };
        Some(Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![unit, date])))
    }

    /// The dimension in the type of `date`, which truncations keep.
    fn as_moment(&self, date: &Expr) -> Option<Expr> {
        let wanted = date.get_type(self.columns).ok()?;
        let known = column(self.dimension);
        Some(if wanted == *self.dimension.field.data_type() { known } else { cast(known, wanted) })
    }

    /// A date as such from its truncation to days.
    fn whole_day(&self, expr: &Expr) -> Option<Expr> {
        let same = self.truncates() && self.is_source(expr);
        let days = rank(&self.truncated.unit)? <= rank("day")?;
        (same && days && self.is_date(expr)).then(|| cast(column(self.dimension), DataType::Date32))
    }

    /// Whether the dimension is computed from `date`, be it under casts that keep the moment.
    fn is_source(&self, date: &Expr) -> bool {
        self.without_cast(date) == self.without_cast(self.truncated.date)
    }

    /// `expr` without casts from dates to timestamps and from timestamps to finer ones.
    fn without_cast<'e>(&self, expr: &'e Expr) -> &'e Expr {
        let Expr::Cast(cast) = expr else { return expr };
        let keeps = match (cast.expr.get_type(self.columns).ok(), cast.field.data_type()) {
            (Some(DataType::Date32), DataType::Timestamp(_, None)) => true,
            (Some(DataType::Timestamp(from, zone)), DataType::Timestamp(to, other)) => {
                zone == *other && per_second(from) <= per_second(*to)
            }
            _ => false,
        };
        if keeps { self.without_cast(&cast.expr) } else { expr }
    }

    fn is_date(&self, expr: &Expr) -> bool {
        expr.get_type(self.columns).is_ok_and(|data_type| data_type == DataType::Date32)
    }

    fn compared(&self, binary: &BinaryExpr) -> Option<Expr> {
        let BinaryExpr { left, op, right } = binary;
        self.bounded(left, *op, right).or_else(|| self.bounded(right, op.swap()?, left))
    }

    /// `date op bound` where the bound is the first moment of a unit: then it holds for a whole unit or for no
    /// part of it.
    fn bounded(&self, date: &Expr, op: Operator, bound: &Expr) -> Option<Expr> {
        if !self.is_source(date) || self.in_zone() {
            return None;
        }
        let mut bound = constant(bound).filter(|value| !value.is_null())?;
        let op = match op {
            Operator::Lt | Operator::GtEq => op,
            // Days are whole: up to the last of a month is before the first of the next.
            Operator::LtEq | Operator::Gt if self.is_date(date) => {
                let ScalarValue::Date32(Some(day)) = bound else { return None };
                bound = ScalarValue::Date32(Some(day.checked_add(1)?));
                if op == Operator::LtEq { Operator::Lt } else { Operator::GtEq }
            }
            _ => return None,
        };
        let bound = self.aligned(&bound)?;
        Some(Expr::BinaryExpr(BinaryExpr::new(
            Box::new(column(self.dimension)),
            op,
            Box::new(literal(bound)),
        )))
    }

    /// Whether the clock of a zone is truncated. It can show one time twice, and then a truncated moment may
    /// lie after the moment itself.
    fn in_zone(&self) -> bool {
        matches!(self.truncated.date.get_type(self.columns), Ok(DataType::Timestamp(_, Some(_))))
    }

    /// The dimension's value at `bound`, if a unit begins there.
    fn aligned(&self, bound: &ScalarValue) -> Option<ScalarValue> {
        let unit = self.truncated.function.args.first()?.clone();
        let moment = exactly(bound, &self.truncated.date.get_type(self.columns).ok()?)?;
        if self.truncates() {
            let begin = constant(&self.apply(vec![unit, literal(moment.clone())]))?;
            return (begin == moment).then_some(begin);
        }
        if self.truncated.unit != "year" {
            return None;
        }
        let instant = exactly(bound, &DataType::Timestamp(TimeUnit::Nanosecond, None))?;
        let year = literal(ScalarValue::from("year"));
        let begin = constant(&date_trunc().call(vec![year, literal(instant.clone())]))?;
        if begin == instant { constant(&self.apply(vec![unit, literal(moment)])) } else { None }
    }

    fn apply(&self, arguments: Vec<Expr>) -> Expr {
        Expr::ScalarFunction(ScalarFunction::new_udf(self.truncated.function.func.clone(), arguments))
    }
}

/// `value` in another type, if that has it exactly.
fn exactly(value: &ScalarValue, wanted: &DataType) -> Option<ScalarValue> {
    let other = value.cast_to(wanted).ok()?;
    (other.cast_to(&value.data_type()).ok()? == *value).then_some(other)
}

fn per_second(unit: TimeUnit) -> u32 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

fn literal(value: ScalarValue) -> Expr {
    Expr::Literal(value, None)
}

const UNITS: &[&str] =
    &["microsecond", "millisecond", "second", "minute", "hour", "day", "month", "quarter", "year"];

fn rank(unit: &str) -> Option<usize> {
    UNITS.iter().position(|known| *known == unit)
}

/// Whether a date truncated to `fine` determines the date truncated to `coarse`, or that part of the date.
fn tells(fine: &str, coarse: &str, part: bool) -> bool {
    // Truncation does not determine parts of a minute: seconds have fractions.
    if part && rank(coarse).is_some_and(|unit| unit < 3) {
        return false;
    }
    let beginning = match coarse {
        // Weeks cross the ends of months.
        "week" | "dow" | "doy" | "isodow" => "day",
        _ => coarse,
    };
    fine == coarse || rank(fine).zip(rank(beginning)).is_some_and(|(fine, coarse)| fine <= coarse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_tell_coarser_ones() {
        let cases = [
            ("day", "month", false, true),
            ("month", "day", false, false),
            ("day", "week", false, true),
            ("week", "month", false, false),
            ("month", "quarter", true, true),
            ("day", "dow", true, true),
            ("month", "doy", true, false),
            ("week", "week", false, true),
            ("week", "year", true, false),
            ("hour", "second", true, false),
            ("second", "second", true, false),
        ];
        for (fine, coarse, part, expected) in cases {
            assert_eq!(tells(fine, coarse, part), expected, "{fine} {coarse} {part}");
        }
    }
}
