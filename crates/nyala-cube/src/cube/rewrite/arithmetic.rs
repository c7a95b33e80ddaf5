//! Counts, sums and averages that follow from other counts and sums.
//!
//! The arithmetic must be exact: integers, where an overflow of a product or sum is an error, and decimals with room
//! for every digit. A floating-point number is rounded at each step, so `sum(2 * x)` is not taken from `sum(x)`
//! if x is one.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Case, Expr, ExprSchemable, Operator, cast, lit};
use nyala_sql::functions::{Algebra, adding, algebra, counted_in, counting};

use super::calls::state_fields;
use super::dimensions::Expressed;
use super::show::show;
use super::states::{CellStates, States, states_of};
use crate::cube::block::Miss;
use crate::cube::call::Call;
use crate::cube::compile::CompiledMeasure;
use crate::cube::expression::constant;

impl States<'_> {
    /// The states of a count, a sum or an average.
    pub fn by_algebra(self, call: &Call) -> Result<Option<CellStates>, Miss> {
        let [argument] = call.arguments.as_slice() else { return Ok(None) };
        if call.distinct {
            return Ok(None);
        }
        match algebra(&call.function) {
            Algebra::Counts => Ok(self.count(call, argument)),
            Algebra::Adds => Ok(self.sum(call, argument)),
            Algebra::Averages => self.average(call, argument),
            Algebra::Opaque => Ok(None),
        }
    }

    /// `count(x)` from any measure that counts x, from `count(*)` if x is never null or follows from the
    /// dimensions, and `count(*)` from the count of any argument that is never null.
    fn count(self, call: &Call, argument: &Expr) -> Option<CellStates> {
        let argument = without_casts(argument);
        if let Some(found) = self.counted(call, argument) {
            return Some(found);
        }
        let rows = Call { function: counting(), arguments: vec![lit(1_i64)], ..call.clone() };
        if *call == rows {
            return None;
        }
        if self.never_null(argument) {
            return self.of(&rows).ok();
        }
        let value = self.dimensions().express(argument).ok()?;
        let rows = self.of(&rows).ok()?;
        let count = either(value.expr.is_not_null(), rows.columns.first()?.clone(), lit(0_i64));
        Some(CellStates { columns: vec![count], needed: rows.needed.union(value.needed), ..rows })
    }

    /// A state of some measure in which this very argument was counted.
    fn counted(self, call: &Call, argument: &Expr) -> Option<CellStates> {
        let counts = |measure: &&CompiledMeasure| {
            let canonical = &measure.canonical;
            let [theirs] = canonical.arguments.as_slice() else { return false };
            let theirs = without_casts(theirs);
            let same = theirs == argument || (self.never_null(theirs) && self.never_null(argument));
            let known =
                counted_in(&canonical.function).is_some() || algebra(&canonical.function) == Algebra::Counts;
            same && known && !canonical.distinct && same_conditions(canonical, call)
        };
        let measure = self.cube.measures.iter().find(counts)?;
        let states = states_of(measure);
        let count = states.columns.get(counted_in(&measure.call.function).unwrap_or(0))?;
        // An average of no rows has null as its count.
        let count = either(count.clone().is_null(), lit(0_i64), cast(count.clone(), DataType::Int64));
        Some(CellStates { columns: vec![count], ..states })
    }

    fn sum(self, call: &Call, argument: &Expr) -> Option<CellStates> {
        if let Some(found) = self.sum_of_average(call, argument) {
            return Some(found);
        }
        let total = self.sum_type(call)?;
        if let Some(found) = self.widened(call, argument).or_else(|| self.with_zeros(call, argument, &total))
        {
            return Some(found);
        }
        if let Ok(value) = self.dimensions().express(argument) {
            return self.sum_of_cell_value(call, argument, value, &total);
        }
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = argument else { return None };
        exact(&total).then_some(())?;
        match op {
            Operator::Multiply => {
                self.scaled(call, left, right, &total).or_else(|| self.scaled(call, right, left, &total))
            }
            Operator::Plus => self
                .shifted(call, left, right, Operator::Plus, &total)
                .or_else(|| self.shifted(call, right, left, Operator::Plus, &total)),
            Operator::Minus => self.shifted(call, left, right, Operator::Minus, &total),
            _ => None,
        }
    }

    /// `sum(x)` is among the states of `avg(x)`.
    fn sum_of_average(self, call: &Call, argument: &Expr) -> Option<CellStates> {
        let averages = |measure: &&CompiledMeasure| {
            let canonical = &measure.canonical;
            algebra(&canonical.function) == Algebra::Averages
                && !canonical.distinct
                && canonical.arguments.as_slice() == std::slice::from_ref(argument)
                && same_conditions(canonical, call)
        };
        self.has_room(call)?;
        let states = states_of(self.cube.measures.iter().find(averages)?);
        let sum = states.columns.get(1)?.clone();
        Some(CellStates { columns: vec![sum], ..states })
    }

    /// The sum of a decimal with more digits than it has in the cube.
    fn widened(self, call: &Call, argument: &Expr) -> Option<CellStates> {
        let Expr::Cast(cast) = argument else { return None };
        let (whole, places) = around_point(&cast.expr.get_type(&self.cube.columns).ok()?)?;
        let (wider_whole, more_places) = around_point(cast.field.data_type())?;
        (wider_whole >= whole && more_places >= places).then_some(())?;
        let narrow = call.with_argument(cast.expr.as_ref().clone()).canonical();
        self.has_room(&narrow)?;
        self.of(&narrow).ok()
    }

    /// `sum(coalesce(x, 0))` from `sum(x)`: 0 where no x is known.
    fn with_zeros(self, call: &Call, argument: &Expr, total: &DataType) -> Option<CellStates> {
        let Expr::ScalarFunction(function) = argument else { return None };
        let [value, otherwise] = function.args.as_slice() else { return None };
        let fills = matches!(function.name(), "coalesce" | "nvl") && call.conditions.is_empty();
        let zero =
            constant(otherwise).filter(|value| fills && is_zero(value)).map(|_| ScalarValue::new_zero(total));
        let zero = Expr::Literal(zero?.ok()?, None);
        let sum = self.of(&call.with_argument(value.clone()).canonical()).ok()?;
        let known = cast(sum.columns.first()?.clone(), total.clone());
        let filled = either(known.clone().is_null(), zero, known);
        Some(CellStates { columns: vec![filled], of_rows: true, ..sum })
    }

    /// The sum of a value that is the same in all rows of a cell: its product with their number.
    fn sum_of_cell_value(
        self,
        call: &Call,
        argument: &Expr,
        value: Expressed,
        total: &DataType,
    ) -> Option<CellStates> {
        // With conditions it is not known here whether any row fulfils them, and the sum of no rows is null.
        if call.conditions.is_empty() && constant(argument).is_some_and(|value| is_zero(&value)) {
            let zero = ScalarValue::new_zero(total).ok()?;
            let columns = vec![Expr::Literal(zero, None)];
            return Some(CellStates { columns, needed: value.needed, of_rows: true });
        }
        exact(total).then_some(())?;
        self.has_room(call)?;
        let rows = Call { function: counting(), arguments: vec![lit(1_i64)], ..call.clone() };
        let rows = self.of(&rows).ok()?;
        let count = rows.columns.first()?.clone();
        let product = value.expr * as_factor(&count, total);
        let sum = none_unless(count.gt(lit(0_i64)), cast(product, total.clone()), total)?;
        Some(CellStates { columns: vec![sum], needed: rows.needed.union(value.needed), ..rows })
    }

    /// `sum(d * x)` from `sum(x)`.
    fn scaled(self, call: &Call, factor: &Expr, other: &Expr, total: &DataType) -> Option<CellStates> {
        let factor = self.dimensions().express(factor).ok()?;
        let sum = self.of(&call.with_argument(other.clone())).ok()?;
        let product = factor.expr * sum.columns.first()?.clone();
        (product.get_type(&self.cube.cells).ok()? == *total).then_some(())?;
        Some(CellStates { columns: vec![product], needed: sum.needed.union(factor.needed), ..sum })
    }

    /// `sum(x + d)` and `sum(x - d)` from `sum(x)` and `count(x)`.
    fn shifted(
        self,
        call: &Call,
        other: &Expr,
        shift: &Expr,
        op: Operator,
        total: &DataType,
    ) -> Option<CellStates> {
        self.has_room(call)?;
        let shift = self.dimensions().express(shift).ok()?;
        let (_, sum, count) = self.sum_and_count(&call.with_argument(other.clone())).ok()??;
        let (s, n) = (sum.columns.first()?.clone(), count.columns.first()?.clone());
        let shifts = cast(shift.expr * as_factor(&n, total), total.clone());
        let shifted =
            Expr::BinaryExpr(BinaryExpr::new(Box::new(cast(s, total.clone())), op, Box::new(shifts)));
        let needed = sum.needed.union(count.needed).union(shift.needed);
        let of_rows = sum.of_rows || count.of_rows;
        Some(CellStates { columns: vec![cast(shifted, total.clone())], needed, of_rows })
    }

    /// `avg(x)` from `sum(x)` and `count(x)`.
    fn average(self, call: &Call, argument: &Expr) -> Result<Option<CellStates>, Miss> {
        let core = self.integer_core(argument);
        let core_type = core.get_type(&self.cube.columns).map_err(|error| Miss::new(error.to_string()))?;
        let summed = match core_type {
            DataType::Int64 | DataType::UInt64 => return self.average_of_wide(call, core),
            DataType::Int8 | DataType::Int16 | DataType::Int32 => cast(core.clone(), DataType::Int64),
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => cast(core.clone(), DataType::UInt64),
            DataType::Float64 => argument.clone(),
            decimal if digits(&decimal).is_some() => argument.clone(),
            _ => return Ok(None),
        };
        let Some((summing, sum, count)) = self.sum_and_count(&call.with_argument(summed))? else {
            return Ok(None);
        };
        if self.has_room(&summing).is_none() {
            return Ok(None);
        }
        Ok(self.averaged(call, sum, count))
    }

    fn average_of_wide(self, call: &Call, core: &Expr) -> Result<Option<CellStates>, Miss> {
        match self.sum_and_count(&call.with_argument(core.clone()))? {
            None => Ok(None),
            Some(_) => Err(Miss::new(format!(
                "it has no measure {}, and a sum of 64-bit integers may be out of range where their average is not",
                show(self.cube, &call.expr())
            ))),
        }
    }

    /// The integer under casts to larger integers or floating-point numbers, or else `expr` itself.
    fn integer_core(self, expr: &Expr) -> &Expr {
        match expr {
            Expr::Cast(cast)
                if cast.expr.get_type(&self.cube.columns).is_ok_and(|inner| inner.is_integer()) =>
            {
                self.integer_core(&cast.expr)
            }
            other => other,
        }
    }

    fn averaged(self, call: &Call, sum: CellStates, count: CellStates) -> Option<CellStates> {
        let (typed, flat) = self.typed(call).ok()?;
        let fields = state_fields(&typed, &flat).ok()?;
        let (n, s) = (count.columns.first()?.clone(), sum.columns.first()?.clone());
        let [count_field, sum_field] = fields.as_slice() else { return None };
        let some = || n.clone().gt(lit(0_i64));
        let columns = vec![
            none_unless(some(), cast(n.clone(), count_field.data_type().clone()), count_field.data_type())?,
            none_unless(some(), cast(s, sum_field.data_type().clone()), sum_field.data_type())?,
        ];
        let needed = sum.needed.union(count.needed);
        Some(CellStates { columns, needed, of_rows: sum.of_rows || count.of_rows })
    }

    /// The states of the sum and the count of the argument of `call`, if the cube has both.
    fn sum_and_count(self, call: &Call) -> Result<Option<(Call, CellStates, CellStates)>, Miss> {
        let summing = Call { function: adding(), ..call.clone() };
        let counting = Call { function: counting(), ..call.clone() };
        Ok(match (self.of(&summing), self.of(&counting)) {
            (Ok(sum), Ok(count)) => Some((summing, sum, count)),
            _ => None,
        })
    }

    fn never_null(self, expr: &Expr) -> bool {
        expr.nullable(&self.cube.columns).is_ok_and(|nullable| !nullable)
    }

    fn sum_type(self, call: &Call) -> Option<DataType> {
        let (typed, flat) = self.typed(call).ok()?;
        state_fields(&typed, &flat).ok()?.first().map(|field| field.data_type().clone())
    }

    /// Some if the type of the sum has ten digits more than its argument, when that is a decimal: then no
    /// sum of fewer than 10^10 rows overflows or wraps.
    fn has_room(self, call: &Call) -> Option<()> {
        let argument = call.arguments.first()?.get_type(&self.cube.columns).ok()?;
        match (digits(&argument), digits(&self.sum_type(call)?)) {
            (Some(argument), Some(sum)) => (sum >= argument + 10).then_some(()),
            _ => Some(()),
        }
    }
}

fn same_conditions(one: &Call, other: &Call) -> bool {
    one.conditions.len() == other.conditions.len()
        && one.conditions.iter().all(|condition| other.conditions.contains(condition))
}

/// Whether sums of this type are exact in any order.
fn exact(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Int64 | DataType::UInt64 | DataType::Decimal128(..))
}

fn digits(data_type: &DataType) -> Option<u8> {
    match data_type {
        DataType::Decimal32(precision, _)
        | DataType::Decimal64(precision, _)
        | DataType::Decimal128(precision, _)
        | DataType::Decimal256(precision, _) => Some(*precision),
        _ => None,
    }
}

/// Digits of a decimal before and behind the point.
fn around_point(data_type: &DataType) -> Option<(i16, i16)> {
    match data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            Some((i16::from(*precision) - i16::from(*scale), (*scale).into()))
        }
        _ => None,
    }
}

/// A number of rows as a factor of a value that is summed to `total`.
fn as_factor(count: &Expr, total: &DataType) -> Expr {
    match total {
        DataType::Decimal128(..) => cast(count.clone(), DataType::Decimal128(19, 0)),
        integer => cast(count.clone(), integer.clone()),
    }
}

/// The counted expression under its casts: a cast fails or gives a value, never null for a value.
fn without_casts(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast(cast) => without_casts(&cast.expr),
        other => other,
    }
}

fn is_zero(value: &ScalarValue) -> bool {
    ScalarValue::new_zero(&value.data_type()).is_ok_and(|zero| zero == *value)
}

fn either(condition: Expr, then: Expr, otherwise: Expr) -> Expr {
    let branches = vec![(Box::new(condition), Box::new(then))];
    Expr::Case(Case::new(None, branches, Some(Box::new(otherwise))))
}

fn none_unless(condition: Expr, value: Expr, data_type: &DataType) -> Option<Expr> {
    let nothing = ScalarValue::try_new_null(data_type).ok()?;
    Some(either(condition, value, Expr::Literal(nothing, None)))
}
