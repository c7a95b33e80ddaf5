//! Two answers to one query, compared: groups by their keys, floating-point numbers within a tolerance.

use std::collections::HashMap;

use arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use nyala_sql::error::Result;

/// Largest difference of floating-point numbers: relative, and absolute for numbers below 1. Sums depend on
/// the order of their terms.
const TOLERANCE: f64 = 1e-9;

type Row = Vec<ScalarValue>;

fn rows_of(batches: &[RecordBatch]) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|column| ScalarValue::try_from_array(column, row));
            rows.push(values.collect::<datafusion::error::Result<Row>>()?);
        }
    }
    Ok(rows)
}

/// The first row; empty if there is none.
pub fn first_row(batches: &[RecordBatch]) -> Result<Row> {
    Ok(rows_of(batches)?.into_iter().next().unwrap_or_default())
}

/// The first difference between the two answers, whose first columns are `groups` keys.
pub fn difference(groups: usize, cube: &[RecordBatch], tables: &[RecordBatch]) -> Result<Option<String>> {
    let split = |mut row: Row| {
        let values = row.split_off(groups.min(row.len()));
        (row, values)
    };
    let mut expected: HashMap<Row, Row> = rows_of(tables)?.into_iter().map(split).collect();
    for (group, values) in rows_of(cube)?.into_iter().map(split) {
        let Some(right) = expected.remove(&group) else {
            return Ok(Some(format!("the tables have no group {}", list(&group))));
        };
        let wrong = values.iter().zip(&right).find(|(a, b)| !same(a, b));
        if let Some((ours, right)) = wrong {
            let (ours, right) = (show_value(ours), show_value(right));
            let place = if group.is_empty() { String::new() } else { format!(" for group {}", list(&group)) };
            return Ok(Some(format!("the cube says {ours}, the tables say {right}{place}")));
        }
    }
    Ok(expected.into_keys().next().map(|group| format!("the cube has no group {}", list(&group))))
}

fn list(group: &[ScalarValue]) -> String {
    format!("({})", group.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
}

/// A value, shortened: the set of a bitmap may have millions of members.
fn show_value(value: &ScalarValue) -> String {
    const MAX_CHARS: usize = 60;
    let text = value.to_string();
    if text.chars().count() <= MAX_CHARS {
        text
    } else {
        text.chars().take(MAX_CHARS).chain("…".chars()).collect()
    }
}

fn same(ours: &ScalarValue, right: &ScalarValue) -> bool {
    if ours == right {
        return true;
    }
    match (float(ours), float(right)) {
        (Some(a), Some(b)) => {
            (a.is_nan() && b.is_nan()) || (a - b).abs() <= TOLERANCE * a.abs().max(b.abs()).max(1.0)
        }
        _ => false,
    }
}

fn float(value: &ScalarValue) -> Option<f64> {
    match value {
        ScalarValue::Float64(value) => *value,
        // Sums of 32-bit floating-point numbers depend on the order of their terms, too.
        ScalarValue::Float32(value) => value.map(f64::from),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_digits_of_floats_may_differ() {
        let float = |value| ScalarValue::Float64(Some(value));
        assert!(same(&float(1e12), &float(1e12 + 100.0)));
        assert!(!same(&float(1e12), &float(1e12 + 10_000.0)));
        assert!(same(&float(f64::NAN), &float(f64::NAN)));
        assert!(!same(&float(0.0), &ScalarValue::Float64(None)));
        assert!(!same(&ScalarValue::Int64(Some(1 << 60)), &ScalarValue::Int64(Some((1 << 60) + 1))));
    }
}
