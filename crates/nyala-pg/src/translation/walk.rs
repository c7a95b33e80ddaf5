//! Walks over the trees of statements.
//!
//! sqlparser compiles the whole walk, some hundred kinds of nodes, once more for every type of visitor. So all
//! walks share one visitor, which calls the rules through a pointer.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Query, TableFactor, Visit, VisitMut, Visitor, VisitorMut};

/// Rules that change a tree: the walk calls them for every node of these kinds.
pub trait Rewrite {
    /// Called before the children of the node.
    fn query(&mut self, _query: &mut Query) {}
    /// Called before the children of the node.
    fn table(&mut self, _table: &mut TableFactor) {}
    /// Called before the children of the node; a replacement is walked over.
    fn expr(&mut self, _expr: &mut Expr) {}
    /// Called after the children of the node; a replacement is not walked over.
    fn whole_expr(&mut self, _expr: &mut Expr) {}
}

/// Applies the rules to the nodes of `tree`.
pub fn rewrite(tree: &mut impl VisitMut, rules: &mut dyn Rewrite) {
    let _ = tree.visit(&mut Rewriting(rules));
}

/// Whether `wanted` holds for any expression in `tree`. The walk stops at the first.
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
