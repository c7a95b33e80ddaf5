//! Decimals of 128 and of 256 bits that meet become decimals of 256 bits.
//!
//! Results that may have more than 38 digits, such as those of two roundings, have 256 bits. DataFusion 55 knows a common type of both
//! in arithmetic alone: elsewhere it fails, or refuses the statement.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, ExprSchemable, Union, cast};

use super::decimals::{CHOICES, one_kind};
use super::quotients::{is_comparison, is_wide};
use super::{Meaning, Scope};
use crate::functions::wide;

/// Casts decimals of 128 bits that meet decimals of 256 bits.
#[derive(Debug)]
pub struct DecimalsOfOneWidth;

impl Meaning for DecimalsOfOneWidth {
    fn name(&self) -> &'static str {
        "decimals_of_one_width"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        match expr {
            Expr::BinaryExpr(binary) => is_comparison(binary.op),
            Expr::ScalarFunction(call) => takes_one_type(call.func.name()),
            Expr::Between(_) | Expr::InList(_) | Expr::Case(_) => true,
            _ => false,
        }
    }

    fn rewrite(&self, mut expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        let mut changed = false;
        for sides in sides_of(&mut expr) {
            changed |= widen(sides, scope.schema);
        }
        Ok(Transformed::new_transformed(expr, changed))
    }
}

/// Casts columns of a UNION that are decimals of 128 bits in some inputs and of 256 bits in others.
pub fn unions_of_one_width(union: Union) -> Result<Transformed<Union>> {
    one_kind(union, is_narrow, is_wide, widened)
}

fn takes_one_type(function: &str) -> bool {
    CHOICES.contains(&function) || function == "make_array"
}

fn is_narrow(data_type: &DataType) -> bool {
    data_type.is_decimal() && !is_wide(data_type)
}

/// The parts of an expression that must be of one type.
fn sides_of(expr: &mut Expr) -> Vec<Vec<&mut Expr>> {
    match expr {
        Expr::BinaryExpr(binary) if is_comparison(binary.op) => {
            vec![vec![binary.left.as_mut(), binary.right.as_mut()]]
        }
        Expr::Between(between) => {
            vec![vec![between.expr.as_mut(), between.low.as_mut(), between.high.as_mut()]]
        }
        Expr::InList(listed) => {
            vec![std::iter::once(listed.expr.as_mut()).chain(listed.list.iter_mut()).collect()]
        }
        Expr::Case(case) => {
            let has_value = case.expr.is_some();
            let mut compared: Vec<&mut Expr> = case.expr.as_deref_mut().into_iter().collect();
            let mut chosen: Vec<&mut Expr> = case.else_expr.as_deref_mut().into_iter().collect();
            for (when, then) in &mut case.when_then_expr {
                if has_value {
                    compared.push(when.as_mut());
                }
                chosen.push(then.as_mut());
            }
            vec![compared, chosen]
        }
        Expr::ScalarFunction(call) if takes_one_type(call.func.name()) => {
            vec![call.args.iter_mut().collect()]
        }
        _ => Vec::new(),
    }
}

/// Casts the narrow sides, if there is a wide one. Returns whether it did.
fn widen(sides: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let (mut has_narrow, mut has_wide) = (false, false);
    for side in &sides {
        let Ok(data_type) = side.get_type(schema) else { continue };
        has_narrow |= is_narrow(&data_type);
        has_wide |= is_wide(&data_type);
    }
    if !(has_narrow && has_wide) {
        return false;
    }
    for side in sides {
        *side = widened(std::mem::take(side), schema);
    }
    true
}

/// A decimal cast to 256 bits; other values as they are.
fn widened(expr: Expr, schema: &DFSchema) -> Expr {
    match expr.get_type(schema) {
        Ok(data_type) if is_narrow(&data_type) => cast(expr, wide(&data_type)),
        _ => expr,
    }
}
