//! Clauses before and behind a UNION in WITH RECURSIVE, which DataFusion's planner would leave out.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Ident, Query, SetExpr, SetOperator, With, visit_relations};

use super::clauses::unsupported;
use super::snippets::parse_query;
use super::versions::folded;
use crate::error::Result;

/// Keeps the clauses of queries in WITH RECURSIVE that do not name themselves, and refuses those of the others.
///
/// DataFusion 55 takes each UNION there for a recursive query and plans its two sides alone. One in brackets is planned as any other
/// query.
pub fn keep_clauses(query: &mut Query) -> Result<()> {
    let Some(With { recursive: true, cte_tables, .. }) = &mut query.with else { return Ok(()) };
    for table in cte_tables {
        let Some(clause) = clause_of_union(&table.query) else { continue };
        if reads(&table.query, &table.alias.name) {
            let clause = format!("{clause} in a recursive query");
            return Err(unsupported(&clause, "put it into the query that reads the recursive one"));
        }
        let mut inner = parse_query("SELECT 1")?;
        std::mem::swap(&mut inner.body, &mut table.query.body);
        *table.query.body = SetExpr::Query(inner);
    }
    Ok(())
}

/// The first clause that is about a whole UNION.
fn clause_of_union(query: &Query) -> Option<&'static str> {
    if !matches!(query.body.as_ref(), SetExpr::SetOperation { op: SetOperator::Union, .. }) {
        return None;
    }
    let clauses = [
        (query.with.is_some(), "WITH"),
        (query.order_by.is_some(), "ORDER BY"),
        (query.limit_clause.is_some() || query.fetch.is_some(), "LIMIT or OFFSET"),
    ];
    clauses.into_iter().find_map(|(is_there, clause)| is_there.then_some(clause))
}

/// Whether a query reads from a relation of this name.
fn reads(query: &Query, name: &Ident) -> bool {
    let name = folded(name);
    let found = visit_relations(query, |relation| {
        let is_it = match relation.0.as_slice() {
            [part] => part.as_ident().is_some_and(|part| folded(part) == name),
            _ => false,
        };
        if is_it { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    found.is_break()
}
