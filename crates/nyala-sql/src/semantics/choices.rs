//! CASE, `coalesce`, LEAD and LAG give one of several values.
//!
//! Their results become one type. DataFusion finds it late for CASE, and not at all for LEAD and LAG.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::type_coercion::other::get_coerce_type_for_case_expression;
use datafusion::logical_expr::{Case, Expr, ExprSchemable, cast};

use super::guards::is_volatile;
use super::integers::is_number;
use super::{Meaning, Scope};
use crate::functions::FirstKnown;

/// The function that gives the first of its arguments that is not NULL.
const COALESCE: &str = "coalesce";

/// Casts the results of a CASE that are numbers of several types to the type that holds all of them. Until DataFusion
/// settles types, a CASE has the type of its first result, by which the operators around it would choose their own.
#[derive(Debug)]
pub struct CaseOfNumbers;

impl Meaning for CaseOfNumbers {
    fn name(&self) -> &'static str {
        "case_of_numbers"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Case(case) if results_of(case).nth(1).is_some())
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        let Expr::Case(case) = expr else { return Ok(Transformed::no(expr)) };
        let Some(common) = type_of_numbers(&case, scope.schema) else {
            return Ok(Transformed::no(Expr::Case(case)));
        };
        let to_common = |result: Box<Expr>| match result.get_type(scope.schema) {
            Ok(data_type) if data_type.is_null() || data_type == common => result,
            _ => Box::new(cast(*result, common.clone())),
        };
        let Case { expr, when_then_expr, else_expr } = case;
        let when_then_expr = when_then_expr.into_iter().map(|(when, then)| (when, to_common(then))).collect();
        let else_expr = else_expr.map(to_common);
        Ok(Transformed::yes(Expr::Case(Case { expr, when_then_expr, else_expr })))
    }
}

/// The type of a CASE as DataFusion will settle it, if its results are numbers of several types.
fn type_of_numbers(case: &Case, schema: &DFSchema) -> Option<DataType> {
    let types = results_of(case).map(|result| result.get_type(schema)).collect::<Result<Vec<_>>>().ok()?;
    let types: Vec<DataType> = types.into_iter().filter(|data_type| !data_type.is_null()).collect();
    let (first, others) = types.split_first()?;
    if !types.iter().all(DataType::is_numeric) || others.iter().all(|other| other == first) {
        return None;
    }
    get_coerce_type_for_case_expression(others, Some(first))
}

/// The results of a CASE.
pub fn results_of(case: &Case) -> impl Iterator<Item = &Expr> {
    case.when_then_expr.iter().map(|(_, then)| &**then).chain(case.else_expr.as_deref())
}

/// Computes each argument of `coalesce` once. DataFusion computes the argument that is the result a second
/// time: a call of `random()` has another value then, or is NULL.
#[derive(Debug)]
pub struct ChoicesOnce;

impl Meaning for ChoicesOnce {
    fn name(&self) -> &'static str {
        "choices_once"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        let Expr::ScalarFunction(call) = expr else { return false };
        // The last argument is computed once in any case.
        let tried = call.args.split_last().map_or_else(Default::default, |(_, tried)| tried);
        call.name() == COALESCE && tried.iter().any(is_volatile)
    }

    fn rewrite(&self, expr: Expr, _: &Scope<'_>) -> Result<Transformed<Expr>> {
        match expr {
            Expr::ScalarFunction(call) => Ok(Transformed::yes(FirstKnown::udf().call(call.args))),
            other => Ok(Transformed::no(other)),
        }
    }
}

/// Casts the value of LEAD and LAG to a type that holds their default, too: DataFusion casts the default to the type of the value.
#[derive(Debug)]
pub struct ShiftsOfOneType;

impl Meaning for ShiftsOfOneType {
    fn name(&self) -> &'static str {
        "shifts_of_one_type"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::WindowFunction(call)
            if call.params.args.len() == 3 && matches!(call.fun.name(), "lead" | "lag"))
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        let Expr::WindowFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
        let common = match call.params.args.as_slice() {
            [value, _, default] => type_of_both(value, default, scope.schema),
            _ => None,
        };
        let Some(common) = common else { return Ok(Transformed::no(Expr::WindowFunction(call))) };
        if let Some(value) = call.params.args.first_mut() {
            *value = cast(std::mem::take(value), common);
        }
        Ok(Transformed::yes(Expr::WindowFunction(call)))
    }
}

/// The type that holds a value and its default, if the type of the value does not.
fn type_of_both(value: &Expr, default: &Expr, schema: &DFSchema) -> Option<DataType> {
    // A literal whole number is an INTEGER if it fits.
    let type_of = |expr: &Expr| match is_number(expr) {
        true => Some(DataType::Int32),
        false => expr.get_type(schema).ok(),
    };
    let (of_value, of_default) = (type_of(value)?, type_of(default)?);
    let common = match (&of_value, &of_default) {
        (DataType::Date32, DataType::Timestamp(..)) => of_default.clone(),
        // A decimal as default is cast to a floating-point value anyway.
        (DataType::Float64, _) => return None,
        (one, other)
            if one.is_numeric() && other.is_numeric() && (one.is_floating() || other.is_floating()) =>
        {
            DataType::Float64
        }
        (one, other) if one.is_numeric() && other.is_numeric() => {
            get_coerce_type_for_case_expression(std::slice::from_ref(other), Some(one))?
        }
        _ => return None,
    };
    (common != of_value).then_some(common)
}
