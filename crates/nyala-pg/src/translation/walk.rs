//! Walks over the trees of statements.
//!
//! sqlparser compiles the whole walk, some hundred kinds of nodes, once more for every type of visitor. Here all go by way of
//! one, which asks whoever is behind a pointer.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Query, TableFactor, Visit, VisitMut, Visitor, VisitorMut};

/// What changes a tree: it is shown every node of these kinds.
pub trait Rewrite {
    /// Before what is inside.
    fn query(&mut self, _query: &mut Query) {}
    /// Before what is inside.
    fn table(&mut self, _table: &mut TableFactor) {}
    /// Before what is inside; what it is replaced by is walked over.
    fn expr(&mut self, _expr: &mut Expr) {}
    /// After what is inside; what it is replaced by is not walked over.
    fn whole_expr(&mut self, _expr: &mut Expr) {}
}

/// Applies the rules to the nodes of `tree`.
pub fn rewrite(tree: &mut impl VisitMut, rules: &mut dyn Rewrite) {
    let _ = tree.visit(&mut Rewriting(rules));
}

/// Whether any expression in `tree` is one that `wanted` takes. None after that is looked at.
pub fn any_expr(tree: &impl Visit, wanted: &mut dyn FnMut(&Expr) -> bool) -> bool {
    tree.visit(&mut Looking(wanted)).is_break()
}

struct Rewriting<'a>(&'a mut dyn Rewrite);

impl VisitorMut for Rewriting<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.0.query(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        self.0.table(table);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.0.expr(expr);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.0.whole_expr(expr);
        ControlFlow::Continue(())
    }
}

struct Looking<'a>(&'a mut dyn FnMut(&Expr) -> bool);

impl Visitor for Looking<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if (self.0)(expr) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
