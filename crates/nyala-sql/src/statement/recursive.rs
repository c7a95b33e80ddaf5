//! Clauses before and after a UNION in WITH RECURSIVE, which DataFusion's planner would leave out.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Cte, Ident, ObjectName, Query, SetExpr, SetOperator, TableAlias, TableFactor, Visit, VisitMut, Visitor,
    VisitorMut, With, visit_relations,
};

use super::clauses::unsupported;
use super::snippets::parse_query;
use super::titles::marked;
use super::versions::{folded, last};
use crate::error::Result;

/// Keeps the clauses of queries in WITH RECURSIVE that do not name themselves, and refuses those of queries that do, except WITH.
///
/// DataFusion 55 takes each UNION there for a recursive query and plans its two sides alone, but plans a
/// UNION in brackets as any other query. The queries in the WITH of a recursive query are moved before it:
///
/// ```text
/// WITH RECURSIVE t AS (WITH c AS (SELECT 1 AS n) SELECT n FROM c UNION ALL SELECT n + 1 FROM t WHERE n < 5) …
/// WITH RECURSIVE c' AS (SELECT 1 AS n), t AS (SELECT n FROM c' AS c UNION ALL SELECT n + 1 FROM t WHERE n < 5) …
/// ```
pub fn keep_clauses(query: &mut Query) -> Result<()> {
    let Some(With { recursive: true, cte_tables, .. }) = &mut query.with else { return Ok(()) };
    let mut kept = Vec::with_capacity(cte_tables.len());
    std::mem::take(cte_tables).into_iter().try_for_each(|table| keep(table, &mut kept))?;
    *cte_tables = kept;
    Ok(())
}

fn keep(mut table: Cte, kept: &mut Vec<Cte>) -> Result<()> {
    take_with(&mut table).into_iter().try_for_each(|own| keep(own, kept))?;
    keep_clauses_of(&mut table)?;
    kept.push(table);
    Ok(())
}

fn keep_clauses_of(table: &mut Cte) -> Result<()> {
    let Some(clause) = clause_of_union(&table.query) else { return Ok(()) };
    if reads(&table.query, &table.alias.name) {
        let clause = format!("{clause} in a recursive query");
        return Err(unsupported(&clause, "put it into the query that reads the recursive one"));
    }
    let mut inner = parse_query("SELECT 1")?;
    std::mem::swap(&mut inner.body, &mut table.query.body);
    *table.query.body = SetExpr::Query(inner);
    Ok(())
}

fn is_union(query: &Query) -> bool {
    matches!(query.body.as_ref(), SetExpr::SetOperation { op: SetOperator::Union, .. })
}

/// The first clause that applies to a whole UNION.
fn clause_of_union(query: &Query) -> Option<&'static str> {
    if !is_union(query) {
        return None;
    }
    let clauses = [
        (query.with.is_some(), "WITH"),
        (query.order_by.is_some(), "ORDER BY"),
        (query.limit_clause.is_some() || query.fetch.is_some(), "LIMIT or OFFSET"),
    ];
    clauses.into_iter().find_map(|(is_there, clause)| is_there.then_some(clause))
}

/// Takes the queries in the WITH of a recursive query out of it, under unique names. They stay if one of them
/// reads the recursive query, or if one of their names means another query somewhere in it.
fn take_with(table: &mut Cte) -> Vec<Cte> {
    let Cte { alias, query, .. } = table;
    let query = &mut **query;
    if !is_union(query) || !reads(query, &alias.name) {
        return Vec::new();
    }
    let Some(With { recursive, cte_tables, .. }) = &mut query.with else { return Vec::new() };
    let names: Vec<String> = cte_tables.iter().map(|own| folded(&own.alias.name)).collect();
    let stays = |own: &Cte| reads(&own.query, &alias.name) || defines(&own.query, &names);
    if cte_tables.iter().any(stays) || defines(&query.body, &names) {
        return Vec::new();
    }
    let (is_recursive, mut taken) = (*recursive, std::mem::take(cte_tables));
    query.with = None;
    let mut renaming = Renaming { names: Vec::new() };
    for (position, own) in taken.iter_mut().enumerate() {
        let name = folded(&own.alias.name);
        let new = Ident::with_quote('"', marked(position, &format!("{} {name}", folded(&alias.name))));
        if is_recursive {
            renaming.names.push((name.clone(), new.clone()));
        }
        let _ = VisitMut::visit(&mut own.query, &mut renaming);
        if !is_recursive {
            renaming.names.push((name, new.clone()));
        }
        own.alias.name = new;
    }
    let _ = VisitMut::visit(&mut query.body, &mut renaming);
    taken
}

/// Renames tables; their columns keep their qualifiers.
struct Renaming {
    names: Vec<(String, Ident)>,
}

impl VisitorMut for Renaming {
    type Break = ();

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias, args: None, .. } = table
            && let [_] = name.0.as_slice()
            && let Some(written) = last(name).cloned()
            && let Some((_, new)) = self.names.iter().rev().find(|(old, _)| *old == folded(&written))
        {
            if alias.is_none() {
                *alias = Some(TableAlias { explicit: true, name: written, columns: Vec::new(), at: None });
            }
            *name = ObjectName::from(vec![new.clone()]);
        }
        ControlFlow::Continue(())
    }
}

/// Whether a WITH anywhere in a tree defines one of the names.
fn defines(tree: &impl Visit, names: &[String]) -> bool {
    struct Search<'a>(&'a [String]);
    impl Visitor for Search<'_> {
        type Break = ();

        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            let mut tables = query.with.iter().flat_map(|with| &with.cte_tables);
            match tables.any(|table| self.0.contains(&folded(&table.alias.name))) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }
    tree.visit(&mut Search(names)).is_break()
}

/// Whether a query reads from a relation of this name.
pub fn reads(query: &Query, name: &Ident) -> bool {
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
