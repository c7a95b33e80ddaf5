//! Both zeros of floating-point numbers, `0.0` and `-0.0`, are equal.
//!
//! DataFusion 55 compares and groups them as equal. But lists, CASE with a value, `nullif`, windows, and the list of its keys
//! that a join pushes down to a scan distinguish them; <https://github.com/apache/datafusion/pull/25186> mends the lists.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::{Case, Expr, ExprSchemable, Join, LogicalPlan, Operator, binary_expr, lit};

use super::{Meaning, Scope};

/// Adds zero to numbers in these places: of both zeros that makes the one without a sign.
#[derive(Debug)]
pub struct EqualZeros;

impl Meaning for EqualZeros {
    fn name(&self) -> &'static str {
        "equal_zeros"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        match expr {
            Expr::InList(listed) => listed.list.iter().any(may_be_zero),
            Expr::Case(case) => {
                case.expr.is_some() && case.when_then_expr.iter().any(|(value, _)| may_be_zero(value))
            }
            Expr::ScalarFunction(call) => {
                call.func.name() == "nullif" && call.args.get(1).is_some_and(may_be_zero)
            }
            Expr::WindowFunction(call) => {
                !call.params.order_by.is_empty() || !call.params.partition_by.is_empty()
            }
            _ => false,
        }
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        let schema = scope.schema;
        Ok(match expr {
            Expr::InList(listed) => in_list(listed, schema),
            Expr::Case(case) if case.expr.as_ref().is_some_and(|value| is_float(value, schema)) => {
                Transformed::yes(Expr::Case(case_of(case, schema)))
            }
            Expr::ScalarFunction(call) if call.func.name() == "nullif" => null_if(call, schema),
            Expr::WindowFunction(mut call) => {
                let params = &mut call.params;
                let keys = params.order_by.iter_mut().map(|by| &mut by.expr).chain(&mut params.partition_by);
                let mut changed = false;
                for key in keys.filter(|key| is_float(key, schema)) {
                    *key = plus_zero(std::mem::take(key), schema);
                    changed = true;
                }
                Transformed::new_transformed(Expr::WindowFunction(call), changed)
            }
            other => Transformed::no(other),
        })
    }
}

/// Joins by numbers plus zero; other nodes stay as they are.
pub fn equal_zeros_in_keys(node: LogicalPlan) -> Transformed<LogicalPlan> {
    let LogicalPlan::Join(mut join) = node else { return Transformed::no(node) };
    let Join { left, right, on, .. } = &mut join;
    let mut changed = false;
    for (one, other) in on {
        if is_float(one, left.schema()) && is_float(other, right.schema()) {
            *one = plus_zero(std::mem::take(one), left.schema());
            *other = plus_zero(std::mem::take(other), right.schema());
            changed = true;
        }
    }
    Transformed::new_transformed(LogicalPlan::Join(join), changed)
}

/// A list of constants gets both zeros, so that scans can still be pruned by it.
fn in_list(listed: InList, schema: &DFSchema) -> Transformed<Expr> {
    let Some(zero) = zero_of(&listed.expr, schema) else { return Transformed::no(Expr::InList(listed)) };
    let InList { expr, mut list, negated } = listed;
    if list.iter().all(|value| value.as_literal().is_some()) {
        let negative = match zero {
            ScalarValue::Float32(_) => ScalarValue::Float32(Some(-0.0)),
            _ => ScalarValue::Float64(Some(-0.0)),
        };
        let lacks = |zero: &ScalarValue| !list.iter().any(|value| value.as_literal() == Some(zero));
        let lacking: Vec<Expr> = [zero, negative].into_iter().filter(lacks).map(lit).collect();
        let changed = !lacking.is_empty();
        list.extend(lacking);
        return Transformed::new_transformed(Expr::InList(InList { expr, list, negated }), changed);
    }
    let list = list.into_iter().map(|value| plus_zero(value, schema)).collect();
    let expr = Box::new(plus_zero(*expr, schema));
    Transformed::yes(Expr::InList(InList { expr, list, negated }))
}

fn case_of(case: Case, schema: &DFSchema) -> Case {
    let compared = |value: Box<Expr>| Box::new(plus_zero(*value, schema));
    let arms = case.when_then_expr.into_iter().map(|(value, then)| (compared(value), then));
    Case { expr: case.expr.map(compared), when_then_expr: arms.collect(), else_expr: case.else_expr }
}

/// `nullif(a, b)` as `nullif(a + 0, b + 0)`.
fn null_if(mut call: ScalarFunction, schema: &DFSchema) -> Transformed<Expr> {
    let are_alike = match call.args.as_slice() {
        [one, other] => is_float(one, schema) && zero_of(one, schema) == zero_of(other, schema),
        _ => false,
    };
    if are_alike {
        call.args = call.args.into_iter().map(|value| plus_zero(value, schema)).collect();
    }
    Transformed::new_transformed(Expr::ScalarFunction(call), are_alike)
}

/// Whether the value is a zero, or not known yet.
fn may_be_zero(value: &Expr) -> bool {
    match value.as_literal() {
        Some(ScalarValue::Float64(Some(number))) => *number == 0.0,
        Some(ScalarValue::Float32(Some(number))) => *number == 0.0,
        Some(_) => false,
        None => true,
    }
}

fn is_float(expr: &Expr, schema: &DFSchema) -> bool {
    zero_of(expr, schema).is_some()
}

/// The zero without a sign in the expression's type; none if that is no floating-point type.
fn zero_of(expr: &Expr, schema: &DFSchema) -> Option<ScalarValue> {
    match expr.get_type(schema).ok()? {
        DataType::Float64 => Some(ScalarValue::Float64(Some(0.0))),
        DataType::Float32 => Some(ScalarValue::Float32(Some(0.0))),
        _ => None,
    }
}

/// The number plus zero.
fn plus_zero(number: Expr, schema: &DFSchema) -> Expr {
    match zero_of(&number, schema) {
        Some(zero) if number.as_literal().is_some() => match may_be_zero(&number) {
            true => lit(zero),
            false => number,
        },
        Some(zero) => binary_expr(number, Operator::Plus, lit(zero)),
        None => number,
    }
}
