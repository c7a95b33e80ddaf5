//! Whether an answer is what the file expects, in the forms of SQLite's and of DataFusion's files.

use crate::answer::{Answer, Row};
use crate::files::Expects;
use md5::{Digest, Md5};
use sqllogictest::{DefaultColumnType, SortMode};

/// Whether a file expects this answer; a form that is not known is no match.
pub fn is_met(expects: &Expects, answer: &Answer) -> bool {
    match (expects, answer) {
        (Expects::Failure, answer) => answer.is_error(),
        (Expects::Success, answer) => !answer.is_error(),
        (Expects::Rows { types, sort, lines }, Answer::Rows { rows, .. }) => {
            rows_match(types, *sort, lines, rows)
        }
        (Expects::Rows { lines, .. }, Answer::Done) => lines.is_empty(),
        _ => false,
    }
}

fn rows_match(types: &[DefaultColumnType], sort: SortMode, lines: &[String], rows: &[Row]) -> bool {
    let mut cells: Vec<Vec<String>> = rows.iter().map(|row| written(types, row)).collect();
    if sort == SortMode::RowSort {
        cells.sort();
    }
    let mut values: Vec<&str> = cells.iter().flatten().map(String::as_str).collect();
    if sort == SortMode::ValueSort {
        values.sort_unstable();
    }
    if let Some(hash) = lines.first().and_then(|line| line.split(" values hashing to ").nth(1)) {
        return hash == hash_of(&values);
    }
    if lines.len() == values.len() && lines.iter().zip(&values).all(|(line, value)| line == value) {
        return true;
    }
    let mut expected: Vec<String> = lines.iter().map(|line| words(line)).collect();
    let mut found: Vec<String> = cells.iter().map(|row| words(&row.join(" "))).collect();
    if sort != SortMode::NoSort {
        expected.sort();
        found.sort();
    }
    expected == found
}

fn written(types: &[DefaultColumnType], row: &Row) -> Vec<String> {
    row.iter().enumerate().map(|(column, cell)| value(types.get(column), cell.as_deref())).collect()
}

/// A value as SQLite's program writes it.
fn value(kind: Option<&DefaultColumnType>, cell: Option<&str>) -> String {
    let Some(text) = cell else { return "NULL".into() };
    match (kind, text.parse::<f64>()) {
        (_, _) if text.is_empty() => "(empty)".into(),
        (Some(DefaultColumnType::Integer), Ok(number)) if text.contains('.') => {
            format!("{}", number.trunc() as i64)
        }
        (Some(DefaultColumnType::FloatingPoint), Ok(number)) => format!("{number:.3}"),
        _ => text.into(),
    }
}

fn hash_of(values: &[&str]) -> String {
    let mut hash = Md5::new();
    for value in values {
        hash.update(value.as_bytes());
        hash.update(b"\n");
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}
