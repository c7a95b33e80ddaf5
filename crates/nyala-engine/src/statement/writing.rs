//! What DataFusion's planner does not know of statements that write rows.

use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, ConflictTarget, Expr, Insert, ObjectName, OnConflict, OnConflictAction,
    OnInsert, Query, SetExpr, Statement as SqlStatement,
};

use super::{joined, returning};
use crate::error::{ErrorKind, QueryError, Result};

/// What is done with a row whose key exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum IfExists {
    /// The new row takes its place.
    #[default]
    Replace,
    /// It stays.
    Keep,
}

/// How a statement is planned and what it writes.
#[derive(Debug, Default)]
pub(crate) struct Writing {
    /// Whether live tables show the versions of their rows to it.
    pub(crate) versions: bool,
    pub(crate) if_exists: IfExists,
    /// What it gives back, as a query over its tables, the target first.
    pub(crate) returning: Option<Box<Query>>,
    /// Whether it is a DELETE that is planned as an UPDATE.
    pub(crate) deletes: bool,
}

impl Writing {
    /// Takes out of a statement what DataFusion would refuse. `row_version` is the column with the versions of rows.
    pub(crate) fn take(statement: &mut DfStatement, row_version: &str) -> Result<Self> {
        let ast = match statement {
            DfStatement::Statement(ast) => ast,
            DfStatement::Explain(explain) => return Self::take(&mut explain.statement, row_version),
            _ => return Ok(Self::default()),
        };
        let deletes = joined::take_delete(ast);
        match ast.as_mut() {
            SqlStatement::Update(update) => {
                joined::join_from(update);
                let returning = returning::of_update(update)?;
                Ok(Self { versions: true, returning, deletes, ..Self::default() })
            }
            SqlStatement::Delete(delete) => {
                let returning = returning::of_delete(delete)?;
                Ok(Self { versions: true, returning, ..Self::default() })
            }
            SqlStatement::Insert(insert) => {
                let if_exists = take_conflict(insert)?;
                let returning = returning::of_insert(insert)?;
                let versions = insert_names(insert, row_version);
                Ok(Self { versions, if_exists, returning, ..Self::default() })
            }
            SqlStatement::Query(query) => {
                let versions = query.to_string().contains(row_version);
                Ok(Self { versions, ..Self::default() })
            }
            _ => Ok(Self::default()),
        }
    }
}

/// A list of values is not searched: it may be long, and names no columns.
fn insert_names(insert: &Insert, column: &str) -> bool {
    let named = insert.columns.iter().any(|name| last(name) == Some(column));
    let query = insert.source.as_ref().filter(|query| !matches!(*query.body, SetExpr::Values(_)));
    named || query.is_some_and(|query| query.to_string().contains(column))
}

fn last(name: &ObjectName) -> Option<&str> {
    Some(name.0.last()?.as_ident()?.value.as_str())
}

fn take_conflict(insert: &mut Insert) -> Result<IfExists> {
    match insert.on.take() {
        None => Ok(IfExists::Replace),
        Some(OnInsert::OnConflict(OnConflict { action: OnConflictAction::DoNothing, .. })) => {
            Ok(IfExists::Keep)
        }
        Some(OnInsert::OnConflict(conflict)) => {
            check_replaces(&conflict, insert)?;
            Ok(IfExists::Replace)
        }
        Some(other) => {
            Err(QueryError::new(ErrorKind::Unsupported, format!("`INSERT …{other}` is not supported")))
        }
    }
}

/// `DO UPDATE` can be done if it is what an INSERT does anyway: every column of the row that is not of the key gets
/// its new value.
fn check_replaces(conflict: &OnConflict, insert: &Insert) -> Result<()> {
    let OnConflictAction::DoUpdate(update) = &conflict.action else { return Ok(()) };
    let key: Vec<&str> = match &conflict.conflict_target {
        Some(ConflictTarget::Columns(columns)) => columns.iter().map(|name| name.value.as_str()).collect(),
        _ => Vec::new(),
    };
    let replaced: Option<Vec<&str>> = update.assignments.iter().map(excluded).collect();
    let covers = |replaced: &Vec<&str>| {
        let mut columns = insert.columns.iter().filter_map(last);
        !insert.columns.is_empty()
            && columns.all(|column| key.contains(&column) || replaced.contains(&column))
    };
    if update.selection.is_none() && replaced.as_ref().is_some_and(covers) {
        return Ok(());
    }
    Err(QueryError::new(ErrorKind::Unsupported, "this ON CONFLICT … DO UPDATE is not supported").hint(
        "name the columns of the INSERT and set each that is not of the key to EXCLUDED.column; a plain INSERT \
         replaces rows with the same key, too",
    ))
}

/// The column, if it gets the value of the same column of the new row.
fn excluded(assignment: &Assignment) -> Option<&str> {
    let AssignmentTarget::ColumnName(target) = &assignment.target else { return None };
    let Expr::CompoundIdentifier(parts) = &assignment.value else { return None };
    let [table, column] = parts.as_slice() else { return None };
    let same = table.value.eq_ignore_ascii_case("excluded") && last(target) == Some(column.value.as_str());
    same.then(|| last(target)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::{Kind, StatementLimits, parse};

    fn take(sql: &str) -> Result<Writing> {
        let limits = StatementLimits::from(&nyala_model::config::QueryConfig::default());
        let statement = parse(sql, &limits).unwrap().remove(0);
        let Kind::DataFusion(mut statement) = statement.kind else { panic!("{sql} is not SQL") };
        let writing = Writing::take(&mut statement, "_version");
        let rest = statement.to_string();
        assert!(
            !["CONFLICT", "RETURNING", " FROM u, ", "USING"].iter().any(|word| rest.contains(word)),
            "{rest}"
        );
        writing
    }

    #[test]
    fn versions_are_shown_to_those_who_name_or_need_them() {
        for (sql, versions) in [
            ("SELECT a FROM t", false),
            ("SELECT a, _version FROM t", true),
            ("INSERT INTO t VALUES (1)", false),
            ("INSERT INTO t (a, _version) VALUES (1, 0)", true),
            ("INSERT INTO t SELECT a FROM u WHERE _version > 7", true),
            ("UPDATE t SET a = 1", true),
            ("DELETE FROM t", true),
        ] {
            assert_eq!(take(sql).unwrap().versions, versions, "{sql}");
        }
    }

    #[test]
    fn what_is_given_back_is_a_query_over_the_same_tables() {
        let check = |sql: &str, expected: &str| {
            let returning = take(sql).unwrap().returning.map(|query| query.to_string());
            assert_eq!(returning.unwrap_or_default(), expected, "{sql}");
        };
        check("INSERT INTO t VALUES (1)", "");
        check("INSERT INTO s.t (a) VALUES (1) RETURNING a, a + 1 AS b", "SELECT a, a + 1 AS b FROM s.t");
        check("DELETE FROM t WHERE a = 1 RETURNING *", "SELECT * FROM t");
        check("UPDATE t AS x SET a = 1 RETURNING x.a", "SELECT x.a FROM t AS x");
        check("UPDATE t SET a = u.a FROM u, v JOIN w ON v.k = w.k WHERE t.k = u.k", "");
        check(
            "UPDATE t SET a = u.a FROM u, v JOIN w ON v.k = w.k WHERE t.k = u.k RETURNING t.a, w.b",
            "SELECT t.a, w.b FROM t CROSS JOIN u CROSS JOIN (v JOIN w ON v.k = w.k)",
        );
        check(
            "DELETE FROM t AS x USING u, v WHERE x.k = u.k RETURNING x.a, v.b",
            "SELECT x.a, v.b FROM t AS x CROSS JOIN u CROSS JOIN v",
        );
    }

    #[test]
    fn deletes_with_other_tables_or_a_name_are_planned_as_updates() {
        for (sql, deletes) in [
            ("DELETE FROM t WHERE k = 1", false),
            ("UPDATE t SET a = 1 FROM u", false),
            ("DELETE FROM t USING u WHERE t.k = u.k", true),
            ("DELETE FROM s.t AS x WHERE x.k = 1", true),
        ] {
            assert_eq!(take(sql).unwrap().deletes, deletes, "{sql}");
        }
    }

    #[test]
    fn conflicts_are_resolved_as_far_as_a_row_can_be_replaced() {
        for (sql, expected) in [
            ("INSERT INTO t VALUES (1)", Some(IfExists::Replace)),
            ("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING", Some(IfExists::Keep)),
            ("INSERT INTO t (k, a) VALUES (1, 2) ON CONFLICT (k) DO NOTHING", Some(IfExists::Keep)),
            (
                "INSERT INTO t (k, a) VALUES (1, 2) ON CONFLICT (k) DO UPDATE SET a = EXCLUDED.a",
                Some(IfExists::Replace),
            ),
            ("INSERT INTO t (k, a, b) VALUES (1, 2, 3) ON CONFLICT (k) DO UPDATE SET a = EXCLUDED.a", None),
            ("INSERT INTO t (k, a) VALUES (1, 2) ON CONFLICT (k) DO UPDATE SET a = t.a + 1", None),
            ("INSERT INTO t VALUES (1, 2) ON CONFLICT (k) DO UPDATE SET a = EXCLUDED.a", None),
        ] {
            assert_eq!(take(sql).ok().map(|writing| writing.if_exists), expected, "{sql}");
        }
    }
}
