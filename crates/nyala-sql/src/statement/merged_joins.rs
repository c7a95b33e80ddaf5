//! Rewrites joins that merge columns in all queries of a statement, by the columns of its tables and of its queries in FROM and WITH.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    ObjectName, OrderBy, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableAlias,
    TableFactor, Visit, VisitMut, Visitor, VisitorMut, With,
};

use super::join_constraint::merges;
use super::join_sides::{Side, names_all, renamed};
use super::merged_columns::{Known, merge_columns, refuse_unmerged, side_of_from};
use super::titles::title_of;
use super::versions::{folded, last};
use crate::error::{QueryError, Result};

/// Looks up the columns of a table by its name.
type Tables<'a> = &'a dyn Fn(&ObjectName) -> Option<Vec<String>>;

/// Whether a statement still has joins that merge columns.
pub fn merges_columns(statement: &DfStatement) -> bool {
    struct Search;
    impl Visitor for Search {
        type Break = ();

        fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
            match select.from.iter().any(merges) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }
    match statement {
        DfStatement::Statement(statement) => statement.visit(&mut Search).is_break(),
        DfStatement::Explain(explain) => merges_columns(&explain.statement),
        _ => false,
    }
}

/// Rewrites all joins that merge columns, with the columns that `tables` finds. `hidden` is a column that no NATURAL JOIN merges.
pub fn merge_joins(statement: &mut DfStatement, tables: Tables<'_>, hidden: &str) -> Result<()> {
    let statement = match statement {
        DfStatement::Statement(statement) => statement,
        DfStatement::Explain(explain) => return merge_joins(&mut explain.statement, tables, hidden),
        _ => return Ok(()),
    };
    let mut walk = Walk { queries: Queries { tables, hidden }, with: Vec::new(), open: Vec::new() };
    match VisitMut::visit(statement, &mut walk) {
        ControlFlow::Break(error) => Err(*error),
        ControlFlow::Continue(()) => refuse_unmerged_joins(&**statement),
    }
}

/// Refuses joins that merge columns and that the planner would plan wrongly.
pub fn refuse_unmerged_joins(tree: &impl Visit) -> Result<()> {
    struct Refuse;
    impl Visitor for Refuse {
        type Break = Box<QueryError>;

        fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Box<QueryError>> {
            match refuse_unmerged(select) {
                Err(error) => ControlFlow::Break(Box::new(error)),
                Ok(()) => ControlFlow::Continue(()),
            }
        }
    }
    match tree.visit(&mut Refuse) {
        ControlFlow::Break(error) => Err(*error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// A query in WITH with its columns, if they are known.
#[derive(Clone)]
struct Named {
    name: String,
    columns: Option<Vec<String>>,
}

impl Named {
    fn new(alias: &TableAlias, columns: Option<Vec<String>>) -> Self {
        Self { name: folded(&alias.name), columns: renamed(columns, Some(alias)) }
    }

    /// The queries in WITH RECURSIVE, which may name themselves; their columns are not known.
    fn recursive(with: &With) -> impl Iterator<Item = Self> {
        let tables = with.cte_tables.iter().filter(move |_| with.recursive);
        tables.map(|table| Self::new(&table.alias, None))
    }
}

/// A query that the walk has entered.
struct Frame {
    /// Number of queries in WITH that are known outside of this query.
    known: usize,
    /// The names of its queries in WITH that were not walked over yet, the next one last.
    coming: Vec<TableAlias>,
}

struct Walk<'a> {
    queries: Queries<'a>,
    /// Queries in WITH that may be named here, the innermost last.
    with: Vec<Named>,
    open: Vec<Frame>,
}

impl VisitorMut for Walk<'_> {
    type Break = Box<QueryError>;

    /// The walk visits queries in WITH before the body of the query that has them.
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        let known = self.with.len();
        let with = query.with.as_ref();
        self.with.extend(with.into_iter().flat_map(Named::recursive));
        let aliases = with.into_iter().flat_map(|with| with.cte_tables.iter().rev());
        self.open.push(Frame { known, coming: aliases.map(|table| table.alias.clone()).collect() });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        let Query { body, order_by, .. } = query;
        if let Err(error) = self.queries.merge(body, order_by.as_mut(), &self.with) {
            return ControlFlow::Break(Box::new(error));
        }
        let Some(frame) = self.open.pop() else { return ControlFlow::Continue(()) };
        let alias = self.open.last_mut().and_then(|around| around.coming.pop());
        let named = alias.map(|alias| Named::new(&alias, self.queries.of_body(body, &self.with)));
        self.with.truncate(frame.known);
        self.with.extend(named);
        ControlFlow::Continue(())
    }
}

/// Finds the columns of queries.
#[derive(Clone, Copy)]
struct Queries<'a> {
    tables: Tables<'a>,
    hidden: &'a str,
}

impl Queries<'_> {
    fn merge(self, body: &mut SetExpr, order_by: Option<&mut OrderBy>, with: &[Named]) -> Result<()> {
        match body {
            SetExpr::Select(select) => {
                let columns_of = |table: &TableFactor| self.of_table(table, with);
                merge_columns(select, order_by, Known { columns_of: &columns_of, hidden: self.hidden })?;
                Ok(())
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.merge(left, None, with)?;
                self.merge(right, None, with)
            }
            _ => Ok(()),
        }
    }

    fn of_table(self, table: &TableFactor, with: &[Named]) -> Option<Vec<String>> {
        match table {
            TableFactor::Table { name, args: None, .. } => {
                let bare = last(name).filter(|_| name.0.len() == 1).map(folded);
                match with.iter().rev().find(|query| Some(&query.name) == bare.as_ref()) {
                    Some(query) => query.columns.clone(),
                    None => (self.tables)(name),
                }
            }
            TableFactor::Derived { subquery, .. } => self.of_query(subquery, with),
            TableFactor::NestedJoin { table_with_joins, .. } => {
                let columns_of = |table: &TableFactor| self.of_table(table, with);
                let known = Known { columns_of: &columns_of, hidden: self.hidden };
                let mut from = [(**table_with_joins).clone()];
                side_of_from(&mut from, known).ok()??.names()
            }
            _ => None,
        }
    }

    fn of_query(self, query: &Query, around: &[Named]) -> Option<Vec<String>> {
        let mut with = around.to_vec();
        if let Some(own) = &query.with {
            with.extend(Named::recursive(own));
            for table in &own.cte_tables {
                let columns = self.of_query(&table.query, &with);
                with.push(Named::new(&table.alias, columns));
            }
        }
        self.of_body(&query.body, &with)
    }

    fn of_body(self, body: &SetExpr, with: &[Named]) -> Option<Vec<String>> {
        match body {
            SetExpr::Select(select) => self.of_select(select, with),
            SetExpr::Query(query) => self.of_query(query, with),
            SetExpr::SetOperation { left, .. } => self.of_body(left, with),
            SetExpr::Values(values) => {
                let count = values.rows.first()?.content.len();
                Some((1..=count).map(|position| format!("column{position}")).collect())
            }
            _ => None,
        }
    }

    fn of_select(self, select: &Select, with: &[Named]) -> Option<Vec<String>> {
        let mut columns = Vec::new();
        for item in &select.projection {
            match item {
                SelectItem::Wildcard(options) if names_all(options) => {
                    columns.extend(self.side(select, with)?.names()?);
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
                    if names_all(options) =>
                {
                    columns.extend(self.side(select, with)?.names_of(&folded(last(name)?))?);
                }
                item => columns.push(title_of(item)?),
            }
        }
        Some(columns)
    }

    fn side(self, select: &Select, with: &[Named]) -> Option<Side> {
        let columns_of = |table: &TableFactor| self.of_table(table, with);
        let known = Known { columns_of: &columns_of, hidden: self.hidden };
        side_of_from(&mut select.from.clone(), known).ok()?
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use nyala_model::config::QueryConfig;

    use super::*;
    use crate::statement::{Kind, StatementLimits, parse};

    /// The statement as it is planned, with tables `a (k, x)`, `b (k, y)` and `c (y, z)`.
    fn merged(sql: &str) -> Result<String> {
        let statement = parse(sql, &StatementLimits::from(&QueryConfig::default()))?.remove(0);
        let Kind::DataFusion(mut statement) = statement.kind else { panic!("{sql}") };
        let tables = |name: &ObjectName| {
            let columns = match name.to_string().as_str() {
                "a" | "public.a" => ["k", "x"],
                "b" => ["k", "y"],
                "c" => ["y", "z"],
                _ => return None,
            };
            Some(columns.map(str::to_owned).to_vec())
        };
        merge_joins(&mut statement, &tables, "_version")?;
        assert!(!merges_columns(&statement), "{statement}");
        Ok(statement.to_string().replace('"', ""))
    }

    fn check(sql: &str, expected: &str) {
        assert_eq!(merged(sql).unwrap(), expected, "{sql}");
    }

    #[test]
    fn natural_joins_compare_the_columns_that_both_sides_have() {
        check(
            "SELECT * FROM a NATURAL FULL JOIN b",
            "SELECT coalesce(a.k, b.k) AS k, a.x, b.y FROM a FULL JOIN b ON a.k = b.k",
        );
        check("SELECT x FROM a NATURAL JOIN c", "SELECT x FROM a JOIN c ON true");
        check(
            "SELECT * FROM public.a LEFT JOIN b USING (k)",
            "SELECT a.k AS k, a.x, b.y FROM public.a LEFT JOIN b ON a.k = b.k",
        );
        check(
            "SELECT * FROM a NATURAL LEFT JOIN b NATURAL RIGHT JOIN c",
            "SELECT c.y AS y, a.k AS k, a.x, c.z FROM a LEFT JOIN b ON a.k = b.k RIGHT JOIN c ON b.y = c.y",
        );
    }

    #[test]
    fn joins_in_brackets_and_beside_others_find_their_columns() {
        check(
            "SELECT k FROM a JOIN (b JOIN c USING (y)) USING (k)",
            "SELECT a.k AS k FROM a JOIN (b JOIN c ON b.y = c.y) ON a.k = b.k",
        );
        check(
            "SELECT x, z FROM a JOIN b ON a.k < b.k RIGHT JOIN c USING (y) ORDER BY y, c.y + y",
            "SELECT x, z FROM a JOIN b ON a.k < b.k RIGHT JOIN c ON b.y = c.y ORDER BY c.y, c.y + c.y",
        );
        check(
            "SELECT j.k FROM (a FULL JOIN b USING (k)) AS j",
            "SELECT j.k FROM (SELECT coalesce(a.k, b.k) AS k, a.* EXCLUDE (k), b.* EXCLUDE (k) \
             FROM a FULL JOIN b ON a.k = b.k) AS j",
        );
    }

    #[test]
    fn queries_in_from_and_with_have_the_columns_that_they_list() {
        check(
            "WITH q AS (SELECT k, y AS w FROM b), r (k, v) AS (SELECT * FROM q) \
             SELECT * FROM a NATURAL LEFT JOIN r NATURAL LEFT JOIN (SELECT c.*, 1 AS v FROM c) AS s",
            "WITH q AS (SELECT k, y AS w FROM b), r (k, v) AS (SELECT * FROM q) \
             SELECT r.v AS v, a.k AS k, a.x, s.y, s.z FROM a LEFT JOIN r ON a.k = r.k \
             LEFT JOIN (SELECT c.*, 1 AS v FROM c) AS s ON r.v = s.v",
        );
    }

    #[test]
    fn columns_that_are_missing_or_not_known_are_told() {
        let told = |sql: &str| merged(sql).unwrap_err().message;
        assert_eq!(
            told("SELECT 1 FROM a JOIN b ON a.k = b.k JOIN c USING (w)"),
            "column `w` specified in USING clause does not exist in left table"
        );
        assert_eq!(
            told("SELECT 1 FROM a JOIN b ON a.k = b.k JOIN a a2 USING (k)"),
            "common column name `k` appears more than once in left table"
        );
        assert!(told("SELECT 1 FROM a NATURAL FULL JOIN d").contains("not known"));
    }
}
