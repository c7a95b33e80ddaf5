#![allow(clippy::unwrap_used, clippy::panic)]

use nyala_model::config::QueryConfig;

use super::*;
use crate::statement::{Kind, StatementLimits, parse};

fn find(sql: &str) -> MisplacedCalls {
    let statement = parse(sql, &StatementLimits::from(&QueryConfig::default())).unwrap().remove(0);
    let Kind::DataFusion(statement) = statement.kind else { panic!("{sql}") };
    MisplacedCalls::find(&statement, &|name| match name {
        "count" | "sum" | "max" | "grouping" => Some(CallKind::Aggregate),
        "rank" | "row_number" => Some(CallKind::Window),
        _ => None,
    })
}

fn check(sql: &str, expected: Option<(&str, &str)>) {
    let error = find(sql).check().err();
    let found = error.as_ref().map(|error| (error.message.as_str(), error.sqlstate.unwrap()));
    assert_eq!(found, expected, "{sql}");
}

#[test]
fn calls_in_the_wrong_clause_are_refused_in_the_words_of_postgresql() {
    for (sql, message, code) in [
        ("SELECT count(*) FROM t GROUP BY 1", "aggregate functions are not allowed in GROUP BY", "42803"),
        ("SELECT a FROM t GROUP BY a, sum(b)", "aggregate functions are not allowed in GROUP BY", "42803"),
        (
            "SELECT row_number() OVER () FROM t GROUP BY 1",
            "window functions are not allowed in GROUP BY",
            "42P20",
        ),
        ("SELECT a FROM t WHERE count(*) > 1", "aggregate functions are not allowed in WHERE", "42803"),
        (
            "SELECT a FROM t WHERE rank() OVER (ORDER BY a) = 1",
            "window functions are not allowed in WHERE",
            "42P20",
        ),
        (
            "SELECT a FROM t WHERE sum(rank() OVER ()) = 1",
            "window functions are not allowed in WHERE",
            "42P20",
        ),
        ("SELECT a FROM t WHERE grouping(a) = 1", "grouping operations are not allowed in WHERE", "42803"),
        (
            "SELECT 1 FROM t JOIN u ON max(t.a) = u.a",
            "aggregate functions are not allowed in JOIN conditions",
            "42803",
        ),
        (
            "SELECT 1 FROM s, (t LEFT JOIN u ON rank() OVER () = 1)",
            "window functions are not allowed in JOIN conditions",
            "42P20",
        ),
        (
            "SELECT a FROM t GROUP BY a HAVING rank() OVER () = 1",
            "window functions are not allowed in HAVING",
            "42P20",
        ),
        (
            "SELECT rank() OVER (ORDER BY rank() OVER ()) FROM t",
            "window functions are not allowed in window definitions",
            "42P20",
        ),
        (
            "SELECT count(*) FILTER (WHERE sum(a) > 1) FROM t",
            "aggregate functions are not allowed in FILTER",
            "42803",
        ),
        (
            "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE count(*) > 1)",
            "aggregate functions are not allowed in WHERE",
            "42803",
        ),
        (
            "SELECT * FROM (SELECT a FROM t WHERE sum(a) > 1) q",
            "aggregate functions are not allowed in WHERE",
            "42803",
        ),
        ("VALUES (1), (count(*))", "aggregate functions are not allowed in VALUES", "42803"),
        ("UPDATE t SET a = max(b)", "aggregate functions are not allowed in UPDATE", "42803"),
        ("DELETE FROM t WHERE a = max(b)", "aggregate functions are not allowed in WHERE", "42803"),
    ] {
        check(sql, Some((message, code)));
    }
}

#[test]
fn calls_in_other_clauses_and_of_other_queries_stay() {
    for sql in [
        "SELECT a, count(*) FROM t GROUP BY 1 HAVING sum(b) > 1 ORDER BY max(b)",
        "SELECT sum(count(*)) OVER () FROM t GROUP BY a",
        "SELECT a FROM t WHERE a = (SELECT max(b) FROM u)",
        "SELECT a FROM t GROUP BY a HAVING EXISTS (SELECT 1 FROM u WHERE u.b = max(t.b))",
        "SELECT a FROM t GROUP BY a HAVING (a, count(*)) IN (SELECT b, c FROM u)",
        "SELECT *, count(*) FROM t GROUP BY 2",
        "SELECT lower(a) FROM t WHERE lower(a) = 'x' GROUP BY 1",
    ] {
        check(sql, None);
    }
}

#[test]
fn window_functions_need_over() {
    let error = find("SELECT a, lower(rank()) FROM t").check().unwrap_err();
    assert_eq!(error.message, "window function rank requires an OVER clause");
    assert_eq!(error.kind, ErrorKind::WrongObject);
}

#[test]
fn an_alias_in_group_by_is_refused_if_no_table_has_the_column() {
    let missing =
        |name: &str| QueryError::new(ErrorKind::UndefinedColumn, format!("column `{name}` does not exist"));
    let find = || find("SELECT a, count(*) AS c FROM t GROUP BY a, c");
    assert_eq!(find().explain(missing("c")).message, "aggregate functions are not allowed in GROUP BY");
    assert_eq!(find().explain(missing("a")).message, "column `a` does not exist");
    assert!(find().check().is_ok());
}
