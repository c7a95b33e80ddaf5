//! Writes `ARRAY[…]` of columns within a subquery as a call.
//!
//! DataFusion 55 plans the elements of an array without the outer queries, so that they cannot name columns
//! of these. The arguments of a function can.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Array, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    ObjectName, Statement, VisitMut, VisitorMut, visit_expressions,
};

use super::query_depth::AtDepths;

const FUNCTION: &str = "make_array";

/// Writes the arrays in subqueries of a statement as calls. The columns of these subqueries must have their names already.
pub fn call_arrays_within(statement: &mut Statement) {
    let _ = statement.visit(&mut AtDepths::within_query(Arrays));
}

struct Arrays;

impl VisitorMut for Arrays {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if names_column(expr)
            && let Expr::Array(array) = expr
        {
            *expr = called(std::mem::replace(array, Array { elem: Vec::new(), named: true }));
        }
        ControlFlow::Continue(())
    }
}

/// Whether an expression is an array with a column in it.
fn names_column(expr: &Expr) -> bool {
    let is_column = |part: &Expr| match part {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    matches!(expr, Expr::Array(_)) && visit_expressions(expr, is_column).is_break()
}

fn called(array: Array) -> Expr {
    let argument = |element| match element {
        Expr::Array(inner) => called(inner),
        other => other,
    };
    let arguments = array.elem.into_iter().map(argument);
    let args = arguments.map(|element| FunctionArg::Unnamed(FunctionArgExpr::Expr(element))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(FUNCTION)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
