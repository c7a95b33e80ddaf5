//! Numbers with a point are exact, and become floating-point numbers where they meet one.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, i256};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    Between, BinaryExpr, Case, Expr, ExprSchemable, LogicalPlan, Operator, Projection, Union, binary_expr,
    cast,
};

use super::choices::results_of;
use super::{Meaning, Scope};

/// Digits of the longest number.
const MAX_DIGITS: usize = 76;

/// Functions whose result is one of their arguments, which all have one type.
pub const CHOICES: &[&str] = &["coalesce", "greatest", "least", "nullif", "nvl", "nvl2", "ifnull"];

/// Casts exact numbers that meet floating-point numbers to doubles: DataFusion makes decimals of 15 digits of both, and singles of
/// whole numbers.
#[derive(Debug)]
pub struct DecimalsMeetFloats;

/// The planner would refuse some comparisons before there is a plan.
impl ExprPlanner for DecimalsMeetFloats {
    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        Ok(PlannerResult::Original(match operands_meet([&raw.left, &raw.right], schema) {
            true => RawBinaryExpr {
                op: raw.op,
                left: floating(raw.left, schema),
                right: floating(raw.right, schema),
            },
            false => raw,
        }))
    }
}

impl Meaning for DecimalsMeetFloats {
    fn name(&self) -> &'static str {
        "decimals_meet_floats"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        match expr {
            Expr::BinaryExpr(binary) => {
                matches!(binary.op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom)
                    || binary.op.supports_propagation()
                    || binary.op.is_numerical_operators()
            }
            Expr::Between(_) | Expr::InList(_) | Expr::Case(_) => true,
            Expr::ScalarFunction(call) => CHOICES.contains(&call.func.name()),
            Expr::AggregateFunction(call) => call.func.name().contains("percentile"),
            _ => false,
        }
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        Ok(as_floats(expr, scope.schema))
    }
}

/// The negative of zero is zero: DataFusion distinguishes `-0.0` from `0.0` in sorts and arrays.
#[derive(Debug)]
pub struct PlainZero;

impl Meaning for PlainZero {
    fn name(&self) -> &'static str {
        "plain_zero"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Negative(_))
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        let Expr::Negative(number) = expr else { return Ok(Transformed::no(expr)) };
        let zero = match number.get_type(scope.schema) {
            Ok(DataType::Float64) => ScalarValue::Float64(Some(0.0)),
            Ok(DataType::Float32) => ScalarValue::Float32(Some(0.0)),
            _ => return Ok(Transformed::no(Expr::Negative(number))),
        };
        Ok(Transformed::yes(binary_expr(Expr::Literal(zero, None), Operator::Minus, *number)))
    }
}

/// The number that a text stands for, with all its digits; none if it is no number or has more than 76 digits.
pub fn exact(text: &str) -> Option<ScalarValue> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let unsigned = mantissa.strip_prefix(['-', '+']).unwrap_or(mantissa);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let behind = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
    let zeros = usize::try_from(-behind.min(0)).ok().filter(|zeros| *zeros <= MAX_DIGITS)?;
    let digits = format!("{whole}{fraction}{}", "0".repeat(zeros));
    let digits = digits.trim_start_matches('0');
    let scale = behind.max(0);
    let precision = digits.len().max(usize::try_from(scale).ok()?).max(1);
    let (precision, scale) = (u8::try_from(precision).ok()?, i8::try_from(scale).ok()?);
    let signed = format!(
        "{}{}",
        if mantissa.starts_with('-') { "-" } else { "" },
        if digits.is_empty() { "0" } else { digits }
    );
    match usize::from(precision) {
        ..=38 => Some(ScalarValue::Decimal128(Some(signed.parse().ok()?), precision, scale)),
        39..=MAX_DIGITS => Some(ScalarValue::Decimal256(Some(i256::from_string(&signed)?), precision, scale)),
        _ => None,
    }
}

fn as_floats(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if operands_meet([&*left, &*right], schema) => {
            let [left, right] = [left, right].map(|side| Box::new(floating(*side, schema)));
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::Between(Between { expr, negated, low, high })
            if operands_meet([&*expr, &*low, &*high], schema) =>
        {
            let [expr, low, high] = [expr, low, high].map(|side| Box::new(floating(*side, schema)));
            Transformed::yes(Expr::Between(Between { expr, negated, low, high }))
        }
        Expr::InList(InList { expr, list, negated })
            if operands_meet(std::iter::once(&*expr).chain(&list), schema) =>
        {
            let list = list.into_iter().map(|side| floating(side, schema)).collect();
            Transformed::yes(Expr::InList(InList { expr: Box::new(floating(*expr, schema)), list, negated }))
        }
        Expr::Case(case) => case_as_floats(case, schema),
        Expr::ScalarFunction(ScalarFunction { func, args })
            if CHOICES.contains(&func.name()) && meet(&args, schema) =>
        {
            let args = args.into_iter().map(|side| floating(side, schema)).collect();
            Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args }))
        }
        // The fraction of a percentile must be a literal, so it is converted here and not cast.
        Expr::AggregateFunction(mut call) if call.func.name().contains("percentile") => {
            let is_constant = |argument: &Expr| matches!(argument, Expr::Literal(value, _) if value.data_type().is_decimal());
            let changed = call.params.args.iter().any(is_constant);
            for argument in call.params.args.iter_mut().filter(|argument| is_constant(argument)) {
                *argument = floating(std::mem::take(argument), schema);
            }
            match changed {
                true => Transformed::yes(Expr::AggregateFunction(call)),
                false => Transformed::no(Expr::AggregateFunction(call)),
            }
        }
        other => Transformed::no(other),
    }
}

/// The value of a CASE is compared with those after WHEN, and the results are of one type.
fn case_as_floats(case: Case, schema: &DFSchema) -> Transformed<Expr> {
    let compared = case.expr.iter().map(AsRef::as_ref);
    let compares = case.expr.is_some()
        && meet(compared.chain(case.when_then_expr.iter().map(|(when, _)| &**when)), schema);
    let chooses = meet(results_of(&case), schema);
    let side = |is_concerned: bool, side: Box<Expr>| match is_concerned {
        true => Box::new(floating(*side, schema)),
        false => side,
    };
    let Case { expr, when_then_expr, else_expr } = case;
    let branches = when_then_expr.into_iter().map(|(when, then)| (side(compares, when), side(chooses, then)));
    let done = Expr::Case(Case {
        expr: expr.map(|expr| side(compares, expr)),
        when_then_expr: branches.collect(),
        else_expr: else_expr.map(|expr| side(chooses, expr)),
    });
    match compares || chooses {
        true => Transformed::yes(done),
        false => Transformed::no(done),
    }
}

/// Makes doubles of columns of a UNION that are decimals in one input and floating-point numbers in another.
pub fn unions_meet(union: Union) -> Result<Transformed<Union>> {
    one_kind(union, DataType::is_decimal, DataType::is_floating, floating)
}

/// Unifies the columns of a UNION whose type is of the kind `one` in some inputs and of the kind `other` in others.
pub fn one_kind(
    union: Union,
    one: fn(&DataType) -> bool,
    other: fn(&DataType) -> bool,
    unified: fn(Expr, &DFSchema) -> Expr,
) -> Result<Transformed<Union>> {
    let is_of = |at: usize, kind: fn(&DataType) -> bool| {
        union.inputs.iter().any(|input| {
            let fields = input.schema().fields();
            fields.get(at).is_some_and(|field| kind(field.data_type()))
        })
    };
    let mixed: Vec<bool> =
        (0..union.schema.fields().len()).map(|at| is_of(at, one) && is_of(at, other)).collect();
    if !mixed.contains(&true) {
        return Ok(Transformed::no(union));
    }
    let inputs = union.inputs.into_iter().map(|input| {
        let columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
        let columns = columns.into_iter().zip(&mixed).map(|(column, is_mixed)| {
            let (relation, name) = column.qualified_name();
            match is_mixed {
                true => unified(column, input.schema()).alias_qualified(relation, name),
                false => column,
            }
        });
        let columns = columns.collect::<Vec<_>>();
        let projection = Projection::try_new(columns, input)?;
        Ok(Arc::new(LogicalPlan::Projection(projection)))
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    Ok(Transformed::yes(Union::try_new_with_loose_types(inputs)?))
}

/// Whether there are both decimals and floating-point numbers among the sides.
fn meet<'a>(sides: impl IntoIterator<Item = &'a Expr>, schema: &DFSchema) -> bool {
    are_both(sides, schema, DataType::is_decimal, DataType::is_floating)
}

/// As [`meet`], for the sides of an operator, for which whole numbers and singles become doubles, too. Choices make singles of these.
fn operands_meet<'a>(sides: impl IntoIterator<Item = &'a Expr> + Clone, schema: &DFSchema) -> bool {
    meet(sides.clone(), schema) || are_both(sides, schema, DataType::is_integer, is_single)
}

fn are_both<'a>(
    sides: impl IntoIterator<Item = &'a Expr>,
    schema: &DFSchema,
    one: fn(&DataType) -> bool,
    other: fn(&DataType) -> bool,
) -> bool {
    let (mut has_one, mut has_other) = (false, false);
    for side in sides {
        let Ok(data_type) = side.get_type(schema) else { continue };
        has_one |= one(&data_type);
        has_other |= other(&data_type);
    }
    has_one && has_other
}

fn is_single(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float16 | DataType::Float32)
}

/// A number as a double.
fn floating(expr: Expr, schema: &DFSchema) -> Expr {
    let is_other =
        |data_type: DataType| data_type.is_decimal() || data_type.is_integer() || is_single(&data_type);
    if !expr.get_type(schema).is_ok_and(is_other) {
        return expr;
    }
    let exact = match &expr {
        Expr::Literal(value, _) if !value.is_null() => value.to_string().parse::<f64>().ok(),
        _ => None,
    };
    match exact {
        Some(value) => Expr::Literal(ScalarValue::Float64(Some(value)), None),
        None => cast(expr, DataType::Float64),
    }
}
