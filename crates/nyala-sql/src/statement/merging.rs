//! ON CONFLICT … DO UPDATE that keeps parts of the existing rows, as an INSERT of a query that joins the new rows to them.
//!
//! ```text
//! INSERT INTO t (k, n) VALUES (1, 5) ON CONFLICT (k) DO UPDATE SET n = t.n + excluded.n
//! INSERT INTO t (k, n, _version) SELECT excluded.k, CASE WHEN t._version IS NULL THEN excluded.n ELSE t.n + excluded.n END,
//!     coalesce(t._version, 0) FROM (VALUES (1, 5)) AS excluded (k, n) LEFT JOIN t ON t.k = excluded.k
//! ```
//!
//! The versions keep changes of other statements from being lost: if a row has another version by then, the statement runs again.

use std::fmt::Write;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, DoUpdate, Expr, Ident, Insert, ObjectName, OnConflictAction, OnInsert,
    Query, SetExpr, TableFactor, TableObject, VisitMut, VisitorMut,
};

use super::conflict;
use super::given::TargetColumn;
use super::snippets::{parse_expr, parse_query};
use super::versions::{folded, last};
use super::writing::fold_targets;
use crate::error::{ErrorKind, QueryError, Result};

/// Rewrites the statement if it keeps parts of rows, and returns whether it does. `version` names the column of versions.
pub fn merge(insert: &mut Insert, columns: &[TargetColumn], key: &[String], version: &str) -> Result<bool> {
    let Some(OnInsert::OnConflict(written)) = &insert.on else { return Ok(false) };
    let OnConflictAction::DoUpdate(update) = written.action.clone() else { return Ok(false) };
    if key.is_empty() || replaces_rows(insert, columns, key) {
        return Ok(false);
    }
    conflict::check_target(written, key)?;
    let (Some(source), TableObject::TableName(table)) = (insert.source.take(), &insert.table) else {
        return Err(QueryError::new(
            ErrorKind::Unsupported,
            "ON CONFLICT … DO UPDATE needs VALUES or a query",
        ));
    };
    let there = match &insert.table_alias {
        Some(alias) => alias.alias.clone(),
        None => last(table).cloned().unwrap_or_else(|| Ident::new("t")),
    };
    let target = Target { table: table.clone(), there, columns, key, version };
    insert.source = Some(target.query(&insert.columns, source, update)?);
    let named = columns.iter().map(|column| column.name.as_str()).chain([version]);
    insert.columns = named.map(|name| ObjectName::from(vec![Ident::with_quote('"', name)])).collect();
    (insert.on, insert.table_alias) = (None, None);
    Ok(true)
}

/// Whether every column is set to the value of the new row, as an INSERT without ON CONFLICT does, too.
fn replaces_rows(insert: &Insert, columns: &[TargetColumn], key: &[String]) -> bool {
    let mut written = insert.clone();
    let Ok((_, Some(conflict))) = conflict::take(&mut written) else { return false };
    let key: Vec<&str> = key.iter().map(String::as_str).collect();
    let columns: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    conflict.check(&key, &columns).is_ok()
}

struct Target<'a> {
    table: ObjectName,
    /// The name of the existing rows in the statement.
    there: Ident,
    columns: &'a [TargetColumn],
    key: &'a [String],
    version: &'a str,
}

impl Target<'_> {
    /// The query for the rows to write, with their versions.
    fn query(&self, inserted: &[ObjectName], mut source: Box<Query>, update: DoUpdate) -> Result<Box<Query>> {
        let inserted: Vec<String> = match inserted {
            [] => self.columns.iter().map(|column| column.name.clone()).collect(),
            named => named.iter().filter_map(last).map(folded).collect(),
        };
        self.type_values(&mut source, &inserted)?;
        let given = match source.body.as_ref() {
            SetExpr::Values(values) => values.rows.first().map_or(inserted.len(), |row| row.content.len()),
            _ => inserted.len(),
        };
        let inserted = inserted.get(..given).unwrap_or(&inserted);
        let updated = self.assignments(update.assignments)?;
        let (there, version) = (&self.there, quoted(self.version));
        let mut query = String::from("SELECT ");
        for column in self.columns {
            let fresh = match inserted.contains(&column.name) {
                true => format!("excluded.{}", quoted(&column.name)),
                false => column.default.clone().unwrap_or_else(|| "NULL".to_owned()),
            };
            let kept = match updated.iter().find(|(name, _)| *name == column.name) {
                Some((_, value)) => value.to_string(),
                None => format!("{there}.{}", quoted(&column.name)),
            };
            let of_type = &column.sql_type;
            _ = match self.key.contains(&column.name) {
                true => write!(query, "{fresh}, "),
                false => write!(
                    query,
                    "CASE WHEN {there}.{version} IS NULL THEN CAST({fresh} AS {of_type}) ELSE {kept} END, "
                ),
            };
        }
        let names: Vec<String> = inserted.iter().map(|name| quoted(name)).collect();
        let same_key = self.key.iter().map(|name| format!("{there}.{0} = excluded.{0}", quoted(name)));
        let same_key = same_key.collect::<Vec<_>>().join(" AND ");
        _ = write!(
            query,
            "coalesce({there}.{version}, 0) FROM (SELECT 1) AS excluded ({}) LEFT JOIN {} AS {there} ON {same_key}",
            names.join(", "),
            self.table
        );
        if let Some(mut condition) = update.selection {
            self.qualify(&mut condition);
            _ = write!(query, " WHERE {there}.{version} IS NULL OR ({condition})");
        }
        let mut query = parse_query(&query)?;
        if let SetExpr::Select(select) = query.body.as_mut()
            && let Some(TableFactor::Derived { subquery, .. }) =
                select.from.first_mut().map(|from| &mut from.relation)
        {
            *subquery = source;
        }
        Ok(query)
    }

    /// Casts the literals of VALUES to the types of their columns.
    fn type_values(&self, source: &mut Query, inserted: &[String]) -> Result<()> {
        let SetExpr::Values(values) = source.body.as_mut() else { return Ok(()) };
        for (at, name) in inserted.iter().enumerate() {
            let Some(column) = self.columns.iter().find(|column| column.name == *name) else { continue };
            let cast = parse_expr(&format!("CAST(NULL AS {})", &column.sql_type))?;
            for cell in values.rows.iter_mut().filter_map(|row| row.content.get_mut(at)) {
                if !matches!(cell, Expr::Value(_) | Expr::UnaryOp { .. }) {
                    continue;
                }
                let literal = std::mem::replace(cell, cast.clone());
                if let Expr::Cast { expr, .. } = cell {
                    **expr = literal;
                }
            }
        }
        Ok(())
    }

    fn assignments(&self, mut assignments: Vec<Assignment>) -> Result<Vec<(String, Expr)>> {
        fold_targets(&mut assignments)?;
        let mut set = Vec::with_capacity(assignments.len());
        for Assignment { target, mut value } in assignments {
            let AssignmentTarget::ColumnName(name) = &target else {
                return Err(QueryError::new(
                    ErrorKind::Unsupported,
                    "DO UPDATE SET (…) = (…) is not supported",
                )
                .hint("set each column on its own"));
            };
            let name = last(name).map(folded).unwrap_or_default();
            if !self.columns.iter().any(|column| column.name == name) {
                let message = format!("column `{name}` does not exist");
                return Err(QueryError::new(ErrorKind::UndefinedColumn, message)
                    .hint("`DESCRIBE table` lists the columns of a table"));
            }
            if self.key.contains(&name) && value.to_string().to_lowercase() != format!("excluded.{name}") {
                let message =
                    format!("column `{name}` is part of the key by which rows conflict, and cannot be set");
                return Err(
                    QueryError::new(ErrorKind::Unsupported, message).hint("UPDATE gives rows another key")
                );
            }
            self.qualify(&mut value);
            set.push((name, value));
        }
        Ok(set)
    }

    /// Adds the name of the existing row to columns without a table, which are its columns.
    fn qualify(&self, expr: &mut Expr) {
        let _: ControlFlow<()> = expr.visit(&mut Qualify { target: self, queries: 0 });
    }
}

struct Qualify<'a> {
    target: &'a Target<'a>,
    /// Number of subqueries that the walk has entered: columns in them are their own.
    queries: usize,
}

impl VisitorMut for Qualify<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(name) = expr
            && self.queries == 0
            && self.target.columns.iter().any(|column| column.name == folded(name))
        {
            *expr = Expr::CompoundIdentifier(vec![self.target.there.clone(), name.clone()]);
        }
        ControlFlow::Continue(())
    }
}

fn quoted(name: &str) -> String {
    Ident::with_quote('"', name).to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::sql::sqlparser::ast::Statement;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    fn merged(sql: &str) -> Result<Option<String>> {
        let column = |name: &str, sql_type: &str, default: Option<&str>| TargetColumn {
            name: name.to_owned(),
            sql_type: sql_type.to_owned(),
            default: default.map(str::to_owned),
        };
        let columns =
            [column("k", "integer", None), column("n", "bigint", Some("7")), column("s", "text", None)];
        let Statement::Insert(mut insert) = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0)
        else {
            panic!("{sql}")
        };
        let merges = merge(&mut insert, &columns, &["k".to_owned()], "_version")?;
        Ok(merges.then(|| insert.to_string()))
    }

    #[test]
    fn rows_that_are_replaced_as_a_whole_are_not_joined() {
        for sql in [
            "INSERT INTO t VALUES (1, 2, 'a')",
            "INSERT INTO t VALUES (1, 2, 'a') ON CONFLICT DO NOTHING",
            "INSERT INTO t VALUES (1, 2, 'a') ON CONFLICT (k) DO UPDATE SET n = excluded.n, s = excluded.s",
        ] {
            assert_eq!(merged(sql).unwrap(), None, "{sql}");
        }
    }

    #[test]
    fn the_new_row_is_made_of_both() {
        let sql = "INSERT INTO t AS x (k, n) VALUES (1, $1) ON CONFLICT (k) DO UPDATE SET n = n + excluded.n WHERE s IS NULL";
        let expected = "INSERT INTO t (\"k\", \"n\", \"s\", \"_version\") SELECT excluded.\"k\", \
            CASE WHEN x.\"_version\" IS NULL THEN CAST(excluded.\"n\" AS BIGINT) ELSE x.n + excluded.n END, \
            CASE WHEN x.\"_version\" IS NULL THEN CAST(NULL AS TEXT) ELSE x.\"s\" END, coalesce(x.\"_version\", 0) \
            FROM (VALUES (CAST(1 AS INTEGER), CAST($1 AS BIGINT))) AS excluded (\"k\", \"n\") \
            LEFT JOIN t AS x ON x.\"k\" = excluded.\"k\" WHERE x.\"_version\" IS NULL OR (x.s IS NULL)";
        assert_eq!(merged(sql).unwrap().unwrap(), expected);
    }

    #[test]
    fn what_a_table_cannot_do_is_refused() {
        for (sql, words) in [
            (
                "INSERT INTO t (k) VALUES (1) ON CONFLICT (n) DO UPDATE SET s = 'a'",
                "does not name the primary key",
            ),
            ("INSERT INTO t (k) VALUES (1) ON CONFLICT (k) DO UPDATE SET k = 2", "cannot be set"),
            ("INSERT INTO t (k) VALUES (1) ON CONFLICT (k) DO UPDATE SET z = 2", "`z` does not exist"),
            (
                "INSERT INTO t (k) VALUES (1) ON CONFLICT (k) DO UPDATE SET n = 2, N = 3",
                "multiple assignments",
            ),
        ] {
            let message = merged(sql).unwrap_err().message;
            assert!(message.contains(words), "{sql}: {message}");
        }
    }
}
