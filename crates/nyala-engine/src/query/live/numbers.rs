//! Numbers of rows in tables without a key of their own.
//!
//! A number is a time in units of 1/1,024 µs, moved on past the last one given: so numbers grow in the order of inserts, and a
//! process that starts later gives others. Should the clock have been set back between two starts, a number may come twice.
//! Rows are therefore inserted on condition that their numbers are new; the statement that meets an old one gets a
//! conflict, and its next attempt other numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::Schema;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use nyala_cube::live::ROW_NUMBER;
use nyala_sql::error::{QueryError, Result};

static NEXT: AtomicI64 = AtomicI64::new(0);

/// Rows for a table of these stored columns, each with a new number.
pub fn with_new_numbers(rows: &RecordBatch, stored: &Schema) -> Result<RecordBatch> {
    let count = rows.num_rows();
    let first = take(i64::try_from(count).unwrap_or(i64::MAX), now());
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((first..).take(count)));
    in_store_order(rows, stored, Some(&numbers))
}

/// The first of `count` numbers.
fn take(count: i64, now: i64) -> i64 {
    let mut first = now;
    // Never fails: the function always gives a value.
    let _ = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
        first = next.max(now);
        Some(first.saturating_add(count))
    });
    first
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX >> 10).saturating_mul(1 << 10)
}

/// The rows with the columns of the store, in its order. Their numbers are `numbers`, or those that they have.
pub fn in_store_order(
    rows: &RecordBatch,
    stored: &Schema,
    numbers: Option<&ArrayRef>,
) -> Result<RecordBatch> {
    let column = |name: &String| match numbers.filter(|_| name == ROW_NUMBER) {
        Some(numbers) => Ok(Arc::clone(numbers)),
        None => rows.column_by_name(name).cloned().ok_or_else(|| {
            QueryError::internal(format!("rows have no column `{name}`, which their table has"))
        }),
    };
    let columns = stored.fields().iter().map(|field| column(field.name())).collect::<Result<Vec<_>>>()?;
    let of_rows = |(field, column): (&Arc<arrow::datatypes::Field>, &ArrayRef)| {
        field.as_ref().clone().with_data_type(column.data_type().clone()).with_nullable(true)
    };
    let fields: Vec<_> = stored.fields().iter().zip(&columns).map(of_rows).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_grow_also_when_the_clock_does_not() {
        let late = now() + (1 << 40);
        let first = take(3, late);
        assert!(first >= late);
        assert!(take(1, 0) >= first + 3);
        assert!(take(1, late) >= first + 4);
    }
}
