//! How two answers to one question differ.

use crate::answer::{Answer, Row};
use sqllogictest::SortMode;

/// What an answer of Nyala is beside that of PostgreSQL. The first two count as equal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    Equal,
    /// Floating-point numbers whose last digits differ: sums in another order.
    LastDigits,
    /// The same numbers, written with another number of zeros.
    Zeros,
    /// The same rows in another order.
    Order,
    Columns,
    /// Another number of rows.
    Rows,
    Values,
    /// PostgreSQL answers, Nyala does not.
    Error,
    /// Nyala says that the fault is its own, breaks the connection, or hangs.
    Fault,
}

pub fn compare(sql: &str, sort: SortMode, right: &Answer, found: &Answer) -> Kind {
    match (right, found) {
        (_, found) if found.is_fault() => Kind::Fault,
        (_, Answer::Error { .. }) => Kind::Error,
        (Answer::Rows { columns: right_columns, rows: right }, Answer::Rows { columns, rows }) => {
            if right_columns != columns {
                return Kind::Columns;
            }
            compare_rows(is_ordered(sql, sort), right, rows)
        }
        (Answer::Rows { .. }, _) | (_, Answer::Rows { .. }) => Kind::Columns,
        _ => Kind::Equal,
    }
}

/// Without an ORDER BY the order of rows means nothing, whatever the file says. One in brackets orders a window or a subquery.
fn is_ordered(sql: &str, sort: SortMode) -> bool {
    let mut depth = 0;
    let outside: String = sql
        .chars()
        .filter(|letter| {
            depth += i32::from(*letter == '(') - i32::from(*letter == ')');
            depth == 0
        })
        .collect();
    sort == SortMode::NoSort && outside.to_ascii_lowercase().contains("order by")
}

fn compare_rows(ordered: bool, right: &[Row], found: &[Row]) -> Kind {
    if right.len() != found.len() {
        return Kind::Rows;
    }
    let (mut sorted_right, mut sorted_found) = (right.to_vec(), found.to_vec());
    sorted_right.sort();
    sorted_found.sort();
    if ordered {
        return match compare_cells(right, found) {
            Kind::Values if compare_cells(&sorted_right, &sorted_found) < Kind::Values => Kind::Order,
            kind => kind,
        };
    }
    compare_cells(&sorted_right, &sorted_found)
}

fn compare_cells(right: &[Row], found: &[Row]) -> Kind {
    let cells = right.iter().flatten().zip(found.iter().flatten());
    cells.map(|(right, found)| compare_cell(right.as_deref(), found.as_deref())).max().unwrap_or(Kind::Equal)
}

fn compare_cell(right: Option<&str>, found: Option<&str>) -> Kind {
    let (right, found) = match (right, found) {
        _ if right == found => return Kind::Equal,
        (Some(right), Some(found)) => (right, found),
        _ => return Kind::Values,
    };
    let (Some(right_number), Some(found_number)) = (number(right), number(found)) else {
        return Kind::Values;
    };
    if without_zeros(right) == without_zeros(found) {
        Kind::Zeros
    } else if (right_number - found_number).abs() <= 1e-13 * right_number.abs() {
        Kind::LastDigits
    } else {
        Kind::Values
    }
}

fn number(text: &str) -> Option<f64> {
    let is_plain = text.starts_with(|first: char| first.is_ascii_digit() || first == '-');
    text.parse().ok().filter(|_| is_plain)
}

fn without_zeros(text: &str) -> &str {
    if !text.contains('.') || text.contains('e') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.')
}
