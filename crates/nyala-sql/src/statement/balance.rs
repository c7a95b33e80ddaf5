//! Chains of AND or OR become balanced trees, so that recursion over them stays shallow.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Ident, Statement, VisitMut, VisitorMut};

/// Rebuilds every chain of one logical operator in `statement`. The order of the terms stays, and
/// with it the result: AND and OR are associative, in three-valued logic too.
pub fn balance_chains(statement: &mut Statement) {
    let _ = statement.visit(&mut Balance);
}

struct Balance;

impl VisitorMut for Balance {
    type Break = ();

    /// Works from the top of a chain down, so that each term moves once for every level of the new
    /// tree and not once for every term above it.
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } = expr {
            let op = op.clone();
            *expr = build(take_chain(expr, &op), &op);
        }
        ControlFlow::Continue(())
    }
}

/// The terms of the chain at `expr`, left to right; `expr` is left empty.
fn take_chain(expr: &mut Expr, op: &BinaryOperator) -> Vec<Expr> {
    let mut terms = Vec::new();
    let mut pending = vec![std::mem::replace(expr, nothing())];
    while let Some(next) = pending.pop() {
        match next {
            Expr::BinaryOp { left, op: found, right } if found == *op => {
                pending.push(*right);
                pending.push(*left);
            }
            term => terms.push(term),
        }
    }
    terms
}

/// Pairs neighbours until one tree is left. Building a tree of its own terms again changes nothing.
fn build(terms: Vec<Expr>, op: &BinaryOperator) -> Expr {
    let join = |left, right| Expr::BinaryOp { left: Box::new(left), op: op.clone(), right: Box::new(right) };
    let mut level = terms;
    while level.len() > 1 {
        let mut terms = level.into_iter();
        let mut next = Vec::with_capacity(terms.len().div_ceil(2));
        while let Some(left) = terms.next() {
            next.push(match terms.next() {
                Some(right) => join(left, right),
                None => left,
            });
        }
        level = next;
    }
    level.pop().unwrap_or_else(nothing)
}

fn nothing() -> Expr {
    Expr::Identifier(Ident::new(""))
}
