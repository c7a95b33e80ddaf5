//! Statements of sizes that are refused, and of sizes that are not.
#![allow(clippy::unwrap_used)]

use nyala_model::config::QueryConfig;

use super::*;
use crate::error::ErrorKind;
use crate::statement::{StatementLimits, parse};

fn checked(sql: &str) -> Result<()> {
    parse(sql, &StatementLimits::from(&QueryConfig::default())).map(drop)
}

fn check_refused(sql: &str, words: &str) {
    let error = checked(sql).unwrap_err();
    assert_eq!(error.kind, ErrorKind::LimitExceeded);
    assert!(error.message.contains(words), "{words} in {}: {sql:.100}", error.message);
}

fn check_fits(sql: &str) {
    assert!(checked(sql).is_ok(), "{sql:.100}");
}

fn doubling(times: usize, of: &str) -> String {
    let steps = (1..=times).map(|i| format!("A{i} AS ({})", of.replace("BEFORE", &format!("a{}", i - 1))));
    let steps: Vec<String> = std::iter::once("a0 AS (SELECT 1 x)".to_owned()).chain(steps).collect();
    format!("WITH {} SELECT * FROM a{times}", steps.join(", "))
}

#[test]
fn queries_in_with_count_wherever_they_are_named() {
    for twice in [
        "SELECT * FROM BEFORE UNION ALL SELECT * FROM BEFORE",
        "SELECT p.x FROM BEFORE p, BEFORE q",
        "SELECT (SELECT max(x) FROM BEFORE) + (SELECT max(x) FROM BEFORE) x",
        "SELECT x FROM BEFORE WHERE EXISTS (SELECT 1 FROM BEFORE)",
        "WITH inner AS (SELECT * FROM BEFORE) SELECT * FROM inner UNION ALL SELECT * FROM inner",
    ] {
        check_refused(&doubling(30, twice), "SELECTs, tables and joins");
        check_refused(&doubling(200, twice), "SELECTs, tables and joins");
        check_refused(&format!("EXPLAIN {}", doubling(30, twice)), "SELECTs, tables and joins");
        check_fits(&doubling(3, twice));
    }
    check_fits(&doubling(100, "SELECT * FROM BEFORE"));
    check_fits(&doubling(100, "SELECT * FROM s.BEFORE a, s.BEFORE b"));
    check_fits("WITH RECURSIVE r AS (SELECT 1 x UNION ALL SELECT x + 1 FROM r WHERE x < 9) SELECT * FROM r");
    check_fits("WITH a AS (SELECT 1), b AS (WITH a AS (SELECT 2) SELECT * FROM a, a c) SELECT * FROM a, b");
}

#[test]
fn grouping_sets_multiply() {
    let columns = |n: usize| (0..n).map(|i| format!("c{i}")).collect::<Vec<_>>().join(", ");
    check_refused(&format!("SELECT 1 FROM t GROUP BY CUBE ({})", columns(15)), "32768 grouping sets");
    check_refused(
        &format!("SELECT 1 FROM t GROUP BY CUBE ({})", columns(99)),
        "endlessly many grouping sets",
    );
    check_fits(&format!("SELECT 1 FROM t GROUP BY CUBE ({})", columns(8)));
    check_refused(
        &format!("SELECT 1 FROM t GROUP BY {}", ["CUBE (a, b)"; 7].join(", ")),
        "16384 grouping sets",
    );
    check_refused(
        &format!("SELECT 1 FROM t GROUP BY {}", ["ROLLUP (a, b, c)"; 7].join(", ")),
        "grouping sets",
    );
    check_fits("SELECT 1 FROM t GROUP BY ROLLUP (a, b, c), CUBE (d, e), GROUPING SETS ((f), (g), ())");
}

#[test]
fn lists_have_an_end() {
    let many = |item: &str, n: usize| vec![item; n].join(", ");
    check_refused(&format!("SELECT coalesce({})", many("a", 100_000)), "`coalesce` has 100000 arguments");
    check_refused(&format!("SELECT {}", many("a", 100_000)), "SELECT list has 100000 expressions");
    check_refused(&format!("SELECT 1 FROM t GROUP BY {}", many("a", 100_000)), "GROUP BY has 100000");
    check_refused(
        &format!("SELECT {} FROM t", many("rank() OVER (ORDER BY a)", 300)),
        "250 window functions",
    );
    check_refused(&format!("SELECT CASE {} END", "WHEN a THEN 1 ".repeat(5000)), "CASE has 5000");
    check_refused(&format!("SELECT 1 WHERE a IN ({})", many("b + 1", 50_000)), "expressions");
    check_refused(&format!("SELECT 1 FROM {}", many("t", 100_000)), "SELECTs, tables and joins");
    check_fits(&format!("SELECT 1 WHERE a IN ({})", many("1", 100_000)));
}

#[test]
fn queries_within_expressions_nest_only_so_deep() {
    let nested =
        |n: usize| format!("SELECT 1 WHERE {}true{}", "EXISTS (SELECT 1 WHERE ".repeat(n), ")".repeat(n));
    check_refused(&nested(40), "nested deeper than 16");
    check_fits(&nested(16));
    check_fits(&format!("SELECT 1 WHERE {}", vec!["a IN (SELECT 1)"; 100].join(" AND ")));
}
