//! Runs a file's records, one after another, on an engine.

use crate::harness::{TestEngine, sorted};

use super::record::{Content, Expected, File};

/// Runs all records; gives the failures, with file and line.
pub async fn run(file: &File, test: &TestEngine) -> Vec<String> {
    let mut wrong = Vec::new();
    for item in &file.items {
        let outcome = match &item.content {
            Content::Comment(_) => Ok(()),
            Content::Statement { sql, error } => statement(test, sql, error.as_deref()).await,
            Content::Query { sql, types, sort, rows } => query(test, sql, types, *sort, rows).await,
            Content::Cube { sql, expected } => cube(test, sql, expected).await,
        };
        if let Err(what) = outcome {
            wrong.push(format!("{}:{}: {what}", file.path.display(), item.line));
        }
    }
    wrong
}

async fn statement(test: &TestEngine, sql: &str, error: Option<&str>) -> Result<(), String> {
    match (test.try_run(sql).await, error) {
        (Ok(_), None) => Ok(()),
        (Ok(_), Some(words)) => Err(format!("should fail with `{words}` but succeeds")),
        (Err(error), None) => Err(format!("should succeed but fails: {error}")),
        (Err(error), Some(words)) => {
            let text = format!("{error} / {}", error.hint.clone().unwrap_or_default());
            if text.contains(words) { Ok(()) } else { Err(format!("should say `{words}` but says: {text}")) }
        }
    }
}

async fn query(
    test: &TestEngine,
    sql: &str,
    types: &str,
    sort: bool,
    expected: &[String],
) -> Result<(), String> {
    let mut rows = test.try_run(sql).await.map_err(|error| error.to_string())?;
    if sort {
        rows = sorted(rows);
    }
    for row in &rows {
        let fits = row.len() == types.len() && row.iter().zip(types.chars()).all(|(v, t)| has_type(v, t));
        if !fits {
            return Err(format!("{row:?} has not the types {types}"));
        }
    }
    let rows: Vec<String> = rows.iter().map(|row| row.join(" ")).collect();
    if rows == expected { Ok(()) } else { Err(format!("gives\n{}", rows.join("\n"))) }
}

fn has_type(value: &str, of: char) -> bool {
    value == "NULL"
        || match of {
            'I' => value.parse::<i128>().is_ok(),
            'R' => value.parse::<f64>().is_ok(),
            _ => true,
        }
}

/// Compares EXPLAIN with the expected output, and the answers with and without cubes.
async fn cube(test: &TestEngine, sql: &str, expected: &[Expected]) -> Result<(), String> {
    let plan = test.try_run(&format!("EXPLAIN {sql}")).await.map_err(|error| error.to_string())?;
    let report = &plan[0][1];
    let blocks = blocks(report);
    let fits = blocks.len() == expected.len()
        && blocks.iter().zip(expected).all(|(block, expected)| is_as(block, expected));
    if !fits {
        return Err(format!("expected {expected:?}, but EXPLAIN says\n{report}"));
    }
    if blocks.iter().any(|block| repeats(block)) {
        return Err(format!("EXPLAIN says a thing twice\n{report}"));
    }
    if test.try_run(sql).await.map_err(|error| error.to_string())?.is_empty() {
        return Err("an answer without rows shows nothing".to_owned());
    }
    test.check_same(sql).await;
    Ok(())
}

/// The lines about each aggregation: one at the margin, and the indented ones that follow it.
fn blocks(report: &str) -> Vec<String> {
    let mut blocks: Vec<String> = Vec::new();
    for line in report.lines() {
        match blocks.last_mut() {
            Some(block) if line.starts_with(' ') => {
                block.push('\n');
                block.push_str(line);
            }
            _ => blocks.push(line.to_owned()),
        }
    }
    blocks
}

fn repeats(block: &str) -> bool {
    let lines: Vec<&str> = block.lines().collect();
    lines.iter().enumerate().any(|(i, line)| lines[..i].contains(line))
}

fn is_as(block: &str, expected: &Expected) -> bool {
    match expected {
        Expected::None => block == "no aggregation reads the fact table of a cube",
        Expected::Miss { reason } => {
            block.starts_with("answered from the tables\n") && block.contains(reason.as_str())
        }
        Expected::Hit { cube, cuboids } => {
            let rest = block.strip_prefix(&format!("answered from cube `public.{cube}`, cuboid"));
            let rest = rest.map(|rest| rest.strip_prefix('s').unwrap_or(rest));
            rest.and_then(|rest| rest.strip_prefix(&format!(" {cuboids}")))
                .is_some_and(|rest| rest.starts_with(','))
        }
    }
}

#[test]
fn a_report_is_compared_word_by_word() {
    let hit = |cuboids: &str| Expected::Hit { cube: "c".to_owned(), cuboids: cuboids.to_owned() };
    let miss = |reason: &str| Expected::Miss { reason: reason.to_owned() };
    let one = "answered from cube `public.c`, cuboid (a, b), joined with `public.t`, estimated rows: 7\n  \
               cube `public.d` not used: something";
    assert!(is_as(one, &hit("(a, b)")) && is_as(one, &hit("(a, b), joined with `public.t`")));
    for other in [hit("(a)"), hit("(a, b"), hit("(a, b), joined with `public.u`"), miss("something")] {
        assert!(!is_as(one, &other), "{other:?}");
    }
    let two = "answered from cube `public.c`, cuboids (), (a), estimated rows: 7";
    assert!(is_as(two, &hit("(), (a)")) && !is_as(two, &hit("()x")));
    let tables = "answered from the tables\n  cube `public.c` not used: something";
    assert!(is_as(tables, &miss("something")) && !is_as(tables, &miss("else")));
    assert_eq!(blocks(&format!("{one}\n{tables}")), [one, tables]);
}
