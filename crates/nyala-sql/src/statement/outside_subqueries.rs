//! Expressions that belong to a query itself, and not to the queries within it.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Query, Visit, VisitMut, Visitor, VisitorMut};

/// Looks at each expression of a part of a query, those within an expression first, until `look` breaks.
pub fn visit_outside_subqueries<B>(
    part: &impl Visit,
    look: impl FnMut(&Expr) -> ControlFlow<B>,
) -> ControlFlow<B> {
    part.visit(&mut Look { look, depth: 0 })
}

/// Changes each expression of a part of a query, those within an expression first.
pub fn change_outside_subqueries(part: &mut impl VisitMut, change: impl FnMut(&mut Expr)) {
    let _ = part.visit(&mut Change { change, depth: 0 });
}

struct Look<F> {
    look: F,
    /// Queries that the walk is in.
    depth: usize,
}

impl<B, F: FnMut(&Expr) -> ControlFlow<B>> Visitor for Look<F> {
    type Break = B;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<B> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<B> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<B> {
        match self.depth {
            0 => (self.look)(expr),
            _ => ControlFlow::Continue(()),
        }
    }
}

struct Change<F> {
    change: F,
    /// Queries that the walk is in.
    depth: usize,
}

impl<F: FnMut(&mut Expr)> VisitorMut for Change<F> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth == 0 {
            (self.change)(expr);
        }
        ControlFlow::Continue(())
    }
}
