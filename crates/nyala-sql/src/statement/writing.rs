//! Parts of writing statements that DataFusion's planner does not know.

use std::collections::HashSet;

use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, ObjectNamePart, Query, Statement as SqlStatement,
};

use super::conflict::{self, Conflict};
use super::versions::{self, LiveNames, Versions, folded, show_versions};
use super::{joined, returning};
use crate::error::{ErrorKind, QueryError, Result};

/// The treatment of a row with a key that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IfExists {
    /// The new row replaces it.
    #[default]
    Replace,
    /// The existing row stays.
    Keep,
    /// The new row was computed from it, and replaces it if it has not changed since.
    Merge,
}

/// How a writing statement is planned, and how its rows are written.
#[derive(Debug, Default)]
pub struct Writing {
    /// Whether live tables show the versions of their rows in this statement, except those that it reads from [`PLAIN`](versions::PLAIN).
    pub versions: bool,
    /// What becomes of a row whose key exists already.
    pub if_exists: IfExists,
    /// The ON CONFLICT clause, to be checked against the table.
    pub conflict: Option<Conflict>,
    /// The RETURNING clause, as a query over the statement's tables, the target first.
    pub returning: Option<Box<Query>>,
    /// Whether it is a DELETE that is planned as an UPDATE.
    pub deletes: bool,
}

impl Writing {
    /// Takes out of a statement the clauses that DataFusion would refuse or misread.
    pub fn take(statement: &mut DfStatement, live: LiveNames<'_>) -> Result<Self> {
        let ast = match statement {
            DfStatement::Statement(ast) => ast,
            DfStatement::Explain(explain) => return Self::take(&mut explain.statement, live),
            _ => return Ok(Self::default()),
        };
        let deletes = joined::take_delete(ast);
        match ast.as_mut() {
            SqlStatement::Update(update) => {
                joined::join_from(update);
                fold_targets(&mut update.assignments)?;
                // The search comes before RETURNING is taken out, because its columns are read, too; the clause has its own names.
                let found = Versions::of(&*update, true, live);
                let returning = returning::of_update(update)?;
                let versions = found.hide(update);
                Ok(Self { versions, returning, deletes, ..Self::default() })
            }
            SqlStatement::Delete(delete) => {
                let found = Versions::of(&*delete, true, live);
                let returning = returning::of_delete(delete)?;
                let versions = found.hide(delete);
                Ok(Self { versions, returning, ..Self::default() })
            }
            SqlStatement::Insert(insert) => {
                let (if_exists, conflict) = conflict::take(insert)?;
                let returning = returning::of_insert(insert)?;
                let versions = versions::of_insert(insert, live);
                Ok(Self { versions, if_exists, conflict, returning, ..Self::default() })
            }
            SqlStatement::Query(query) => {
                let versions = show_versions(query, live);
                Ok(Self { versions, ..Self::default() })
            }
            _ => Ok(Self::default()),
        }
    }
}

/// Writes assigned columns in the form in which they are found, which DataFusion's planner does not do.
/// Refuses two assignments to a column, of which the planner would take the last.
pub fn fold_targets(assignments: &mut [Assignment]) -> Result<()> {
    let mut seen = HashSet::new();
    for assignment in assignments {
        let AssignmentTarget::ColumnName(name) = &mut assignment.target else { continue };
        let Some(ObjectNamePart::Identifier(column)) = name.0.last_mut() else { continue };
        column.value = folded(column);
        if !seen.insert(column.value.clone()) {
            let message = format!("multiple assignments to the same column `{}`", column.value);
            return Err(QueryError::new(ErrorKind::Syntax, message).hint("set each column once"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::ObjectName;
    use nyala_model::QualifiedName;

    use super::*;
    use crate::statement::{Kind, StatementLimits, parse};

    /// All tables are live but `files`. Gives the rest of the statement, too.
    fn take_of(sql: &str) -> Result<(Writing, String)> {
        let limits = StatementLimits::from(&nyala_model::config::QueryConfig::default());
        let statement = parse(sql, &limits).unwrap().remove(0);
        let Kind::DataFusion(mut statement) = statement.kind else { panic!("{sql} is not SQL") };
        let find = |name: &ObjectName| {
            let name = name.to_string();
            (name != "files").then(|| QualifiedName::new("public", name))
        };
        let live = LiveNames { row_version: "_version", find: &find };
        let writing = Writing::take(&mut statement, live);
        let rest = statement.to_string();
        assert!(
            !["CONFLICT", "RETURNING", " FROM u, ", "USING"].iter().any(|word| rest.contains(word)),
            "{rest}"
        );
        writing.map(|writing| (writing, rest))
    }

    fn take(sql: &str) -> Result<Writing> {
        take_of(sql).map(|(writing, _)| writing)
    }

    #[test]
    fn versions_are_shown_to_those_who_name_or_need_them() {
        for (sql, versions) in [
            ("SELECT a FROM t", false),
            ("SELECT a, _version FROM t", true),
            ("SELECT a, t._VERSION FROM t", true),
            ("SELECT a, \"_VERSION\" FROM t", false),
            ("SELECT * FROM model_versions", false),
            ("SELECT * FROM t WHERE app_version = 2 AND b = '_version'", false),
            ("SELECT a AS _version FROM t", false),
            ("SELECT _version FROM files", false),
            ("INSERT INTO t VALUES (1)", false),
            ("INSERT INTO t (a, _version) VALUES (1, 0)", true),
            ("INSERT INTO t SELECT a FROM u WHERE _version > 7", true),
            ("INSERT INTO model_versions SELECT * FROM staging_versions", false),
            ("UPDATE t SET a = 1", true),
            ("DELETE FROM t", true),
            ("DELETE FROM files", false),
        ] {
            assert_eq!(take(sql).unwrap().versions, versions, "{sql}");
        }
    }

    #[test]
    fn tables_whose_versions_are_not_named_are_without_them() {
        for (sql, hidden) in [
            ("DELETE FROM a WHERE k IN (SELECT k FROM (SELECT * FROM a EXCEPT SELECT * FROM b) d)", "a b"),
            ("DELETE FROM a WHERE k IN (SELECT x.k FROM a AS x NATURAL JOIN b)", "a b"),
            ("DELETE FROM a WHERE k IN (SELECT k FROM b WHERE b._version > a._version)", ""),
            ("UPDATE a SET n = b.n FROM b, (c JOIN d ON c.k = d.k) WHERE a.k = b.k", "b c d"),
            ("UPDATE a SET n = x.n FROM b AS x, c WHERE a.k = x.k AND x._version > 7", "c"),
            ("UPDATE a SET n = b.n FROM b, c WHERE a.k = b.k RETURNING c._version", "b"),
            ("SELECT a._version, b.* FROM a JOIN b ON a.k = b.k", "b"),
            ("SELECT _version FROM a JOIN b ON a.k = b.k", ""),
            ("SELECT k FROM a WHERE k IN (SELECT k FROM b) ORDER BY _version", "b"),
            ("SELECT k FROM a WHERE k IN (SELECT k FROM b WHERE _version > 7)", "a"),
            ("SELECT k FROM a WHERE EXISTS (SELECT 1 FROM files WHERE v = _version)", ""),
            ("SELECT k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE a._version = b.n)", "b"),
            ("SELECT d._version FROM (SELECT * FROM a) AS d, b", "b"),
            (
                "SELECT _version FROM (SELECT * FROM a UNION ALL SELECT * FROM b) AS d WHERE k IN (SELECT k FROM c)",
                "c",
            ),
            ("WITH a AS (SELECT * FROM a WHERE _version > 7) SELECT * FROM a NATURAL JOIN b", "b"),
            ("WITH x AS (SELECT * FROM a), y AS (SELECT * FROM b) SELECT x._version FROM x, y", "b"),
            (
                "WITH RECURSIVE x AS (SELECT k FROM a UNION ALL SELECT a.k FROM x, a) SELECT _version FROM x, b",
                "a a",
            ),
            ("SELECT _version FROM files, a", ""),
            ("INSERT INTO a (k, _version) SELECT k, 0 FROM b", "b"),
        ] {
            let (writing, rest) = take_of(sql).unwrap();
            let found = rest.split("\"_plain\".\"public\".\"").skip(1);
            let found: Vec<&str> = found.map(|rest| rest.split('"').next().unwrap()).collect();
            assert!(writing.versions, "{sql}");
            assert_eq!(found.join(" "), hidden, "{sql}\n{rest}");
        }
    }

    #[test]
    fn tables_without_versions_keep_their_names() {
        let (_, rest) = take_of("SELECT a._version, b.k FROM a JOIN b ON a.k = b.k").unwrap();
        let expected = "SELECT a._version, b.k FROM a JOIN \"_plain\".\"public\".\"b\" AS b ON a.k = b.k";
        assert_eq!(rest, expected);
        let (_, rest) = take_of("INSERT INTO a SELECT k FROM b WHERE _version > 7").unwrap();
        assert!(rest.contains("INTO \"_plain\".\"public\".\"a\""), "{rest}");
    }

    #[test]
    fn all_columns_of_a_table_without_versions_are_found() {
        let whole = |sql: &str| take_of(sql).unwrap().1.replace("\"_plain\".\"public\".", "plain ");
        assert_eq!(
            whole("SELECT S.b.*, s.c.*, a._version FROM a JOIN (s.b JOIN s.c AS x ON true) ON a.k = s.b.k"),
            "SELECT plain \"s.b\".*, s.c.*, a._version FROM a JOIN (plain \"s.b\" JOIN plain \"s.c\" AS x ON true) \
             ON a.k = s.b.k"
        );
        // If two tables have one name, the name means the nearer one.
        assert_eq!(
            whole(
                "SELECT s.b.* FROM s.b WHERE s.b._version > 7 AND k IN (SELECT d.k FROM (SELECT s.b.* FROM s.b) d)"
            ),
            "SELECT s.b.* FROM s.b WHERE s.b._version > 7 AND k IN \
             (SELECT d.k FROM (SELECT plain \"s.b\".* FROM plain \"s.b\") d)"
        );
    }

    #[test]
    fn columns_are_set_by_their_folded_names_and_once() {
        for (sql, expected) in [
            ("UPDATE t SET Amount = 5, \"Note\" = 6 WHERE ID = 1", Some("amount = 5, \"Note\" = 6")),
            ("UPDATE t SET amount = 1, AMOUNT = 2", None),
            ("UPDATE t SET amount = 1, \"Amount\" = 2", Some("amount = 1, \"Amount\" = 2")),
            (
                "INSERT INTO t (k, a) VALUES (1, 2) ON CONFLICT (k) DO UPDATE SET a = EXCLUDED.a, A = EXCLUDED.A",
                None,
            ),
        ] {
            match (take_of(sql), expected) {
                (Ok((_, rest)), Some(expected)) => assert!(rest.contains(expected), "{rest}"),
                (Err(error), None) => assert_eq!(error.kind, ErrorKind::Syntax, "{error}"),
                (taken, _) => panic!("{sql}: {taken:?}"),
            }
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
            (
                "INSERT INTO t (K, A) VALUES (1, 2) ON CONFLICT (k) DO UPDATE SET a = EXCLUDED.A",
                Some(IfExists::Replace),
            ),
            ("INSERT INTO t (k, a) VALUES (1, 2) ON CONFLICT (k) DO UPDATE SET a = \"EXCLUDED\".a", None),
            (
                "INSERT INTO t (k, a) VALUES (1, 2) ON CONFLICT (k) DO UPDATE SET a = EXCLUDED.a WHERE t.a = 1",
                None,
            ),
            ("INSERT INTO t (k, a) VALUES (1, 2) ON CONFLICT ON CONSTRAINT t_pkey DO NOTHING", None),
            ("INSERT INTO t (k, a) VALUES (1, 2) ON CONFLICT (k) DO UPDATE SET a = t.a + 1", None),
            (
                "INSERT INTO t VALUES (1, 2) ON CONFLICT (k) DO UPDATE SET a = EXCLUDED.a",
                Some(IfExists::Replace),
            ),
        ] {
            assert_eq!(take(sql).ok().map(|writing| writing.if_exists), expected, "{sql}");
        }
    }
}
