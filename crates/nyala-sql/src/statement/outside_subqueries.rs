//! Visits the expressions of a query itself, and not those of its subqueries.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Visit, VisitMut, Visitor, VisitorMut};

use super::query_depth::AtDepths;

/// Calls `look` for each expression of a part of a query, inner ones first, until `look` breaks.
pub fn visit_outside_subqueries<B>(
    part: &impl Visit,
    look: impl FnMut(&Expr) -> ControlFlow<B>,
) -> ControlFlow<B> {
    part.visit(&mut AtDepths::outside_queries(Look(look)))
}

/// Calls `change` for each expression of a part of a query, inner ones first.
pub fn change_outside_subqueries(part: &mut impl VisitMut, change: impl FnMut(&mut Expr)) {
    let _ = part.visit(&mut AtDepths::outside_queries(Change(change)));
}

struct Look<F>(F);

impl<B, F: FnMut(&Expr) -> ControlFlow<B>> Visitor for Look<F> {
    type Break = B;

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<B> {
        (self.0)(expr)
    }
}

struct Change<F>(F);

impl<F: FnMut(&mut Expr)> VisitorMut for Change<F> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        (self.0)(expr);
        ControlFlow::Continue(())
    }
}
