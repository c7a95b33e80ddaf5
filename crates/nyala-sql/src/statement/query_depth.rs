//! Visits only the parts of a statement at some depths of nested queries.

use std::ops::{ControlFlow, Range};

use datafusion::sql::sqlparser::ast::{Expr, Query, Select, Visitor, VisitorMut};

/// Calls a visitor for the expressions and SELECTs at these depths only.
pub struct AtDepths<V> {
    pub visitor: V,
    depths: Range<usize>,
    /// Number of queries that the walk has entered.
    depth: usize,
}

impl<V> AtDepths<V> {
    /// Visits what is in none of the queries of the visited part.
    pub fn outside_queries(visitor: V) -> Self {
        Self { visitor, depths: 0..1, depth: 0 }
    }

    /// Visits what is in the subqueries of the visited statement's query.
    pub fn within_query(visitor: V) -> Self {
        Self { visitor, depths: 2..usize::MAX, depth: 0 }
    }

    /// The visitor, if the walk is at one of the depths.
    fn here(&mut self) -> Option<&mut V> {
        self.depths.contains(&self.depth).then_some(&mut self.visitor)
    }
}

impl<V: Visitor> Visitor for AtDepths<V> {
    type Break = V::Break;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<V::Break> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<V::Break> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<V::Break> {
        self.here().map_or(ControlFlow::Continue(()), |visitor| visitor.pre_visit_expr(expr))
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<V::Break> {
        self.here().map_or(ControlFlow::Continue(()), |visitor| visitor.post_visit_expr(expr))
    }
}

impl<V: VisitorMut> VisitorMut for AtDepths<V> {
    type Break = V::Break;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<V::Break> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<V::Break> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<V::Break> {
        self.here().map_or(ControlFlow::Continue(()), |visitor| visitor.pre_visit_select(select))
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<V::Break> {
        self.here().map_or(ControlFlow::Continue(()), |visitor| visitor.pre_visit_expr(expr))
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<V::Break> {
        self.here().map_or(ControlFlow::Continue(()), |visitor| visitor.post_visit_expr(expr))
    }
}
