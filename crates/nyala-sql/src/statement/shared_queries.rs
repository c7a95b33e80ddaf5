//! Queries in WITH that a statement reads in several places.
//!
//! PostgreSQL computes such a query once. The planner would plan it in every place, where `random()` and LIMIT give different rows each time.
//! So it is read through a subquery with an alias by which the planner's extension (`session/shared_queries.rs` of the engine) recognises it:
//!
//! ```text
//! WITH r AS (SELECT random() AS x) SELECT a.x = b.x FROM r AS a, r AS b
//! WITH r AS (SELECT * FROM (SELECT random() AS x) AS __once) SELECT a.x = b.x FROM r AS a, r AS b
//! ```

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Query, SetExpr, Statement as SqlStatement, TableFactor, TableWithJoins, Visit, VisitMut, Visitor,
    VisitorMut, With,
};

use super::recursive::reads;
use super::snippets::parse_query;
use super::versions::{folded, last};
use crate::error::Result;

/// The alias of the subquery.
pub const SHARED_QUERY: &str = "__once";

/// Wraps queries in WITH that more than one place names in such a subquery. Recursive queries stay as they are.
pub fn share_queries(statement: &mut SqlStatement) -> Result<()> {
    let mut named = Named::default();
    let _ = Visit::visit(statement, &mut named);
    let Named { defined, mut times } = named;
    times.retain(|name, times| *times > 1 && defined.contains(name));
    if !times.is_empty() {
        let template = parse_query(&format!("SELECT * FROM (SELECT 1) AS {SHARED_QUERY}"))?;
        let _ = VisitMut::visit(statement, &mut Sharing { names: times, template });
    }
    Ok(())
}

/// The names defined in WITH, and how often each table name is used. If a name means several queries, all of its uses count for each of them.
#[derive(Default)]
struct Named {
    defined: HashSet<String>,
    times: HashMap<String, usize>,
}

impl Visitor for Named {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        self.defined.extend(tables.map(|table| folded(&table.alias.name)));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, args: None, .. } = table
            && let [_] = name.0.as_slice()
            && let Some(name) = last(name)
        {
            *self.times.entry(folded(name)).or_default() += 1;
        }
        ControlFlow::Continue(())
    }
}

struct Sharing {
    names: HashMap<String, usize>,
    /// A query that reads such a subquery.
    template: Box<Query>,
}

impl VisitorMut for Sharing {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let Some(With { recursive, cte_tables, .. }) = &mut query.with else {
            return ControlFlow::Continue(());
        };
        for table in cte_tables {
            let is_named = self.names.contains_key(&folded(&table.alias.name));
            let reads_itself = *recursive && reads(&table.query, &table.alias.name);
            if is_named && !reads_itself {
                self.share(&mut table.query);
            }
        }
        ControlFlow::Continue(())
    }
}

impl Sharing {
    fn share(&self, query: &mut Box<Query>) {
        let mut outer = self.template.clone();
        let SetExpr::Select(select) = outer.body.as_mut() else { return };
        let Some(TableWithJoins { relation: TableFactor::Derived { subquery, .. }, .. }) =
            select.from.first_mut()
        else {
            return;
        };
        std::mem::swap(subquery, query);
        *query = outer;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::sql::parser::{DFParser, Statement as DfStatement};

    use super::*;

    fn check(sql: &str, expected: &str) {
        let Some(DfStatement::Statement(mut statement)) = DFParser::parse_sql(sql).unwrap().pop_front()
        else {
            panic!("{sql}");
        };
        share_queries(&mut statement).unwrap();
        assert_eq!(statement.to_string(), expected);
    }

    #[test]
    fn queries_that_are_named_twice_are_read_through_a_subquery() {
        check(
            "WITH r AS (SELECT 1 AS x) SELECT * FROM r AS a, r AS b",
            "WITH r AS (SELECT * FROM (SELECT 1 AS x) AS __once) SELECT * FROM r AS a, r AS b",
        );
        check(
            "WITH r (x) AS (VALUES (1)), s AS (SELECT * FROM R) SELECT (SELECT max(x) FROM r) FROM s",
            "WITH r (x) AS (SELECT * FROM (VALUES (1)) AS __once), s AS (SELECT * FROM R) \
             SELECT (SELECT max(x) FROM r) FROM s",
        );
    }

    #[test]
    fn other_queries_stay() {
        for sql in [
            "SELECT * FROM r AS a, r AS b",
            "WITH r AS (SELECT 1 AS x) SELECT * FROM r, public.r AS b",
            "WITH r AS (SELECT 1 AS x) SELECT r.x, r.x FROM r",
            "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r WHERE x < 3) SELECT * FROM r, r AS b",
        ] {
            check(sql, sql);
        }
    }
}
