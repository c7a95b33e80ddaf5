//! Queries about objects that Nyala does not have, such as indexes and triggers, answered without running.
//!
//! Tools look for them with joins and functions that the engine cannot plan. But a join with a table that
//! has no rows has none either, no matter the rest of the query: so emptiness is carried upwards, and only
//! `SELECT NULL AS … WHERE false` remains to be planned.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, JoinOperator, ObjectName, Query, Select, SelectItem, SetExpr, SetOperator,
    Statement as Ast, TableFactor, TableWithJoins,
};

use super::snippets;
use super::walk::{Rewrite, any_expr, rewrite};

/// System tables that hold no row about the user's objects.
const EMPTY: &[&str] = &[
    "pg_db_role_setting",
    "pg_default_acl",
    "pg_enum",
    "pg_event_trigger",
    "pg_foreign_data_wrapper",
    "pg_foreign_server",
    "pg_foreign_table",
    "pg_inherits",
    "pg_largeobject",
    "pg_largeobject_metadata",
    "pg_matviews",
    "pg_partitioned_table",
    "pg_policy",
    "pg_publication",
    "pg_publication_namespace",
    "pg_publication_rel",
    "pg_replication_slots",
    "pg_seclabel",
    "pg_seclabels",
    "pg_sequence",
    "pg_shseclabel",
    "pg_statistic_ext",
    "pg_statistic_ext_data",
    "pg_subscription",
    "pg_subscription_rel",
    "pg_transform",
    "pg_trigger",
    "pg_user_mapping",
];

/// Aggregates, which give a row even for an empty input.
const AGGREGATES: &[&str] = &[
    "array_agg",
    "avg",
    "bit_and",
    "bit_or",
    "bool_and",
    "bool_or",
    "count",
    "every",
    "json_agg",
    "max",
    "min",
    "string_agg",
    "sum",
];

/// Replaces queries that are certainly empty.
pub fn resolve(ast: &mut Ast) {
    rewrite(ast, &mut Absent);
}

struct Absent;

impl Rewrite for Absent {
    fn query(&mut self, query: &mut Query) {
        if is_empty(query)
            && let Some(empty) = empty_like(query)
        {
            *query = empty;
        }
    }

    fn expr(&mut self, expr: &mut Expr) {
        if let Expr::Case { conditions, else_result, .. } = expr {
            // A NULL without a type takes the type of the other results, which is not known here.
            let results = conditions.iter_mut().map(|when| &mut when.result);
            results.chain(else_result.as_deref_mut()).for_each(without_rows);
        }
        let value = match expr {
            Expr::Subquery(query) if is_empty(query) => "CAST(NULL AS TEXT)",
            Expr::Exists { subquery, negated } if is_empty(subquery) => truth(*negated),
            Expr::InSubquery { subquery, negated, .. } if is_empty(subquery) => truth(*negated),
            _ => return,
        };
        if let Some(value) = snippets::expression(value) {
            *expr = value;
        }
    }
}

/// Replaces a subquery without rows by a NULL without a type.
fn without_rows(result: &mut Expr) {
    if matches!(result, Expr::Subquery(query) if is_empty(query))
        && let Some(null) = snippets::expression("NULL")
    {
        *result = null;
    }
}

fn truth(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

/// Whether a query gives no rows for any data.
fn is_empty(query: &Query) -> bool {
    // Common table expressions may hide a table's name.
    query.with.is_none() && body_is_empty(&query.body)
}

fn body_is_empty(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => select_is_empty(select),
        SetExpr::Query(query) => is_empty(query),
        SetExpr::SetOperation { op, left, right, .. } => match op {
            SetOperator::Union => body_is_empty(left) && body_is_empty(right),
            SetOperator::Intersect => body_is_empty(left) || body_is_empty(right),
            _ => body_is_empty(left),
        },
        _ => false,
    }
}

fn select_is_empty(select: &Select) -> bool {
    let grouped = matches!(&select.group_by, GroupByExpr::Expressions(by, _) if !by.is_empty());
    (grouped || !aggregates(select)) && select.from.iter().any(joined_is_empty)
}

fn aggregates(select: &Select) -> bool {
    // An aggregate in a subquery does not aggregate the rows of this query.
    let mut projection = select.projection.clone();
    rewrite(&mut projection, &mut WithoutSubqueries);
    let found = any_expr(&projection, &mut |expr| match expr {
        Expr::Function(function) => AGGREGATES.contains(&last_name(&function.name).as_str()),
        _ => false,
    });
    found || select.having.is_some()
}

struct WithoutSubqueries;

impl Rewrite for WithoutSubqueries {
    fn expr(&mut self, expr: &mut Expr) {
        if matches!(expr, Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. })
            && let Some(null) = snippets::expression("NULL")
        {
            *expr = null;
        }
    }
}

fn joined_is_empty(table: &TableWithJoins) -> bool {
    table.joins.iter().fold(factor_is_empty(&table.relation), |empty, join| {
        use JoinOperator as J;
        match &join.join_operator {
            J::Join(_) | J::Inner(_) | J::CrossJoin(_) => empty || factor_is_empty(&join.relation),
            J::Right(_) | J::RightOuter(_) => factor_is_empty(&join.relation),
            J::FullOuter(_) => empty && factor_is_empty(&join.relation),
            _ => empty,
        }
    })
}

fn factor_is_empty(factor: &TableFactor) -> bool {
    match factor {
        TableFactor::Table { name, args: None, .. } => {
            let own = name.0.len() == 1 || qualifier(name).as_deref() == Some("pg_catalog");
            own && EMPTY.contains(&last_name(name).as_str())
        }
        TableFactor::Derived { subquery, .. } => is_empty(subquery),
        TableFactor::NestedJoin { table_with_joins, .. } => joined_is_empty(table_with_joins),
        _ => false,
    }
}

fn last_name(name: &ObjectName) -> String {
    name.0.last().and_then(|part| part.as_ident()).map(|name| name.value.to_lowercase()).unwrap_or_default()
}

fn qualifier(name: &ObjectName) -> Option<String> {
    let position = name.0.len().checked_sub(2)?;
    name.0.get(position)?.as_ident().map(|name| name.value.to_lowercase())
}

/// A query with the same column names and no rows; none if the names cannot be told.
fn empty_like(query: &Query) -> Option<Query> {
    let names = names(&query.body)?;
    let columns: Vec<String> =
        names.iter().map(|name| format!("CAST(NULL AS TEXT) AS \"{}\"", name.replace('"', "\"\""))).collect();
    snippets::query(&format!("SELECT {} WHERE false", columns.join(", "))).map(|query| *query)
}

/// The names of the columns, made unique.
fn names(body: &SetExpr) -> Option<Vec<String>> {
    let select = match body {
        SetExpr::Select(select) => select,
        SetExpr::Query(query) => return names(&query.body),
        SetExpr::SetOperation { left, .. } => return names(left),
        _ => return None,
    };
    let mut taken = HashSet::new();
    let named = select.projection.iter().map(|item| {
        let name = match item {
            SelectItem::ExprWithAlias { alias, .. } if alias.quote_style.is_some() => alias.value.clone(),
            SelectItem::ExprWithAlias { alias, .. } => alias.value.to_lowercase(),
            SelectItem::UnnamedExpr(expr) => name_of(expr),
            _ => return None,
        };
        let mut unique = name.clone();
        let mut count = 1;
        while !taken.insert(unique.clone()) {
            count += 1;
            unique = format!("{name}_{count}");
        }
        Some(unique)
    });
    named.collect()
}

/// The name PostgreSQL gives an expression without alias.
pub fn name_of(expr: &Expr) -> String {
    match expr {
        Expr::Identifier(name) => name.value.clone(),
        Expr::CompoundIdentifier(names) => names.last().map(|name| name.value.clone()).unwrap_or_default(),
        Expr::Function(function) => last_name(&function.name),
        Expr::Cast { expr, .. } | Expr::Nested(expr) => name_of(expr),
        Expr::Case { .. } => "case".to_owned(),
        _ => "?column?".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn resolved(sql: &str) -> String {
        let mut ast = snippets::statement(sql).unwrap();
        resolve(&mut ast);
        ast.to_string()
    }

    #[test]
    fn emptiness_is_carried_upwards() {
        let empty = "SELECT CAST(NULL AS TEXT) AS \"relname\" WHERE false";
        for sql in [
            "SELECT relname FROM pg_class c JOIN pg_catalog.pg_trigger i ON c.oid = i.indrelid ORDER BY 1",
            "SELECT c.relname FROM (SELECT 1 FROM pg_trigger) t, pg_class c",
            "SELECT relname FROM pg_class RIGHT JOIN pg_trigger ON true",
            "SELECT relname FROM pg_trigger UNION SELECT relname FROM pg_trigger",
            "SELECT relname FROM pg_trigger GROUP BY relname",
            "SELECT (SELECT max(a) FROM t) AS relname FROM pg_trigger",
        ] {
            assert_eq!(resolved(sql), empty, "{sql}");
        }
    }

    #[test]
    fn what_may_have_rows_stays() {
        for sql in [
            "SELECT relname FROM pg_class LEFT JOIN pg_trigger ON true",
            "SELECT count(*) FROM pg_trigger",
            "SELECT a FROM mine.pg_trigger",
            "SELECT a FROM pg_class UNION SELECT a FROM pg_trigger",
            "WITH pg_trigger AS (SELECT 1 AS a) SELECT a FROM pg_trigger",
        ] {
            assert_eq!(resolved(sql), sql);
        }
    }

    #[test]
    fn subqueries_become_values() {
        let check = |sql, expected| assert_eq!(resolved(sql), expected);
        check("SELECT (SELECT a FROM pg_sequence) AS b FROM t", "SELECT CAST(NULL AS TEXT) AS b FROM t");
        check("SELECT 1 FROM t WHERE NOT EXISTS (SELECT 1 FROM pg_trigger)", "SELECT 1 FROM t WHERE true");
        check("SELECT 1 FROM t WHERE a IN (SELECT b FROM pg_enum)", "SELECT 1 FROM t WHERE false");
    }

    #[test]
    fn names_are_unique() {
        let expected = "SELECT CAST(NULL AS TEXT) AS \"?column?\", CAST(NULL AS TEXT) AS \"?column?_2\", \
                        CAST(NULL AS TEXT) AS \"n\" WHERE false";
        assert_eq!(resolved("SELECT NULL, NULL, 1 AS N FROM pg_trigger"), expected);
    }
}
