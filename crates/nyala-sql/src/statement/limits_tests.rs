//! Texts of shapes that are refused, and of shapes that are not.
#![allow(clippy::unwrap_used)]

use datafusion::sql::sqlparser::tokenizer::Tokenizer;

use super::*;
use crate::statement::dialect::Postgres;
use crate::statement::parse;

fn limits() -> StatementLimits {
    StatementLimits::from(&QueryConfig::default())
}

fn refused(sql: &str) -> Option<String> {
    let tokens = Tokenizer::new(&Postgres::for_tokens(0), sql).tokenize_with_location().unwrap();
    limits().check_tokens(&tokens).err().map(|error| error.message)
}

fn check_refused(sql: &str, words: &str) {
    let message = refused(sql).unwrap_or_default();
    assert!(message.contains(words), "{words} in {message}: {sql:.100}");
}

fn nested(open: &str, inner: &str, close: &str, times: usize) -> String {
    format!("SELECT {}{inner}{}", open.repeat(times), close.repeat(times))
}

#[test]
fn what_nests_without_brackets_is_counted() {
    let many = 100_000;
    for (text, words) in [
        (format!("SELECT a{}", "[1]".repeat(many)), "operators"),
        (format!("SELECT a::int{}", "[]".repeat(many)), "operators"),
        (format!("SELECT a{}", "::int".repeat(many)), "operators"),
        (format!("SELECT a{}", " NOTNULL".repeat(many)), "operators"),
        (format!("SELECT a{}", " IN (1)".repeat(many)), "operators"),
        (format!("SELECT a{}", " IS DISTINCT FROM 1".repeat(many)), "operators"),
        (format!("SELECT a{}", " BETWEEN 1 AND 2".repeat(many)), "operators"),
        (format!("SELECT {}'1'", "INTERVAL ".repeat(many)), "operators"),
        (format!("SELECT CAST(a AS {}int", "ARRAY<".repeat(many)), "operators"),
        (format!("SELECT {}1", "on + ".repeat(many)), "operators"),
        (format!("SELECT {}1", "on * ".repeat(many)), "operators"),
        (format!("SELECT {}1", "f(a) WITHIN GROUP (ORDER BY a) + ".repeat(many)), "operators"),
        (nested("CASE WHEN a THEN ", "1", " END", many), "nests CASE"),
        (nested("CASE WHEN a THEN 1 ELSE ", "1", " END", many), "nests CASE"),
        (format!("SELECT {}", "CASE ".repeat(many)), "nests CASE"),
        (nested(&format!("({}", "1 + ".repeat(200)), "1", ")", 60), "operators and brackets deep"),
        (nested("(", "1", &format!("){}", " + 1".repeat(200)), 60), "operators and brackets deep"),
    ] {
        check_refused(&text, words);
    }
}

#[test]
fn set_operations_are_counted_over_all_brackets() {
    let some = vec!["SELECT 1"; 300].join(" UNION ");
    assert_eq!(refused(&some), None);
    check_refused(&format!("SELECT * FROM ({some}) a, ({some}) b"), "more than 500 SELECTs");
    assert_eq!(refused(&format!("{some}; {some}")), None, "each statement by itself");
    check_refused(&vec!["SELECT 1"; 102].join(" EXCEPT "), "EXCEPT and INTERSECT");
}

#[test]
fn queries_in_double_brackets_multiply() {
    let deep = |times| nested("* FROM ((SELECT ", "1", ") a JOIN t ON true) ", times);
    assert_eq!(refused(&deep(10)), None);
    check_refused(&deep(30), "double brackets");
    assert_eq!(refused(&format!("{}SELECT 1{}", "(".repeat(60), ")".repeat(60))), None);
    assert_eq!(refused(&nested("((", "1", "))", 30)), None, "expressions are read once");
}

#[test]
fn what_people_write_is_let_through() {
    let conditions = "a BETWEEN 1 AND 2 AND b NOT IN (1, 2) AND (c IS NOT NULL OR d LIKE 'x%')";
    for text in [
        vec![format!("SELECT 1 FROM t WHERE {conditions}"); 1].join(""),
        format!("SELECT 1 FROM t WHERE {}", vec![conditions; 300].join(" OR ")),
        nested("CASE WHEN a THEN 1 ELSE ", "1", " END", 100),
        format!("SELECT {}", vec!["CASE WHEN a THEN 1 ELSE 2 END"; 1000].join(", ")),
        format!("SELECT CASE {} END", "WHEN a = 1 THEN b + 1 ".repeat(300)),
        format!("SELECT {}", vec!["a[1]::int + count(*) * 2"; 1000].join(", ")),
        "SELECT \"case\", t.case, t.end FROM t WHERE t.on = 1".to_owned(),
        "SELECT DISTINCT * FROM a JOIN b ON a.x = b.x WHERE a.y IS DISTINCT FROM b.y".to_owned(),
    ] {
        assert_eq!(refused(&text), None, "{text:.100}");
    }
}

/// The parser would try both readings of such calls at every level, for hours, unless it is stopped.
#[test]
fn texts_that_can_be_read_in_many_ways_end() {
    for (open, inner, close) in [
        ("position(", "'a'", ", 'a')"),
        ("CAST(", "1 1", " AS int)"),
        ("TRY_CAST(", "1 1", " AS int)"),
        ("substring(", "1 1", " FROM 1)"),
        ("overlay(", "1 1", " PLACING 1 FROM 1)"),
        ("extract(year FROM ", "1 1", ")"),
        ("ceil(", "1 1", ")"),
        ("convert(", "1 1", ", int)"),
        ("case(", "1 1", ")"),
        ("1 IN ((SELECT 1 WHERE ", "1 1", "))"),
        ("array(SELECT ", "1 1", ")"),
        ("f(a => ", "1 1", ")"),
        ("{fn f(", "1 1", ")}"),
        ("exists(SELECT ", "1 1", ")"),
    ] {
        for times in [30, 60] {
            let sql = nested(open, inner, close, times);
            let kind = parse(&sql, &limits()).err().map(|error| error.kind);
            let expected = [Some(ErrorKind::LimitExceeded), Some(ErrorKind::Syntax)];
            assert!(expected.contains(&kind), "{kind:?}: {sql:.60}");
        }
    }
    for (open, inner, close, times) in [
        ("position(", "'a'", ", 'a')", 10),
        ("replace(", "a", ", 'a', 'b')", 60),
        ("CAST(", "a", " AS int)", 60),
        ("substring(", "a", " FROM 1)", 60),
        ("f(a => ", "1", ")", 60),
    ] {
        let legal = nested(open, inner, close, times);
        assert!(parse(&legal, &limits()).is_ok(), "{legal:.60}");
    }
    let spaced = nested(&format!("position({}", " \n".repeat(5000)), "'a'", ", 'a')", 60);
    assert_eq!(parse(&spaced, &limits()).unwrap_err().kind, ErrorKind::LimitExceeded);
}
